//! What guard decides: given all that was observed about a device, which steps make the data fit what is booted.
//!
//! Read [`plan`] first: it is the decision tree. [`effects`] says what each step does to the disk, one atomic change
//! at a time, so that the executor and the walk over all states share one list. [`retention`] says what may go.

mod boots;
mod copies;
mod data;
mod draft;
mod effects;
mod observed;
mod plan;
pub mod retention;
mod start;
mod steps;
mod words;

pub use boots::{Boot, BootId, Boots, Health, PreRun, Seq};
pub use copies::{Copies, CopyKind, CopyRecord, Place};
pub use data::{Data, DataRecord, DataState, Owner, Recorded};
pub use effects::{Effect, Operation, Relocation, effects};
pub use observed::{
    Keep, Metadata, Observed, Policy, RestoreRequest, StagedOverUnhealthy, Unfinished, Wanted,
};
pub use plan::{plan, plan_restore, resolve};
pub use start::{NotReady, may_start};
pub use steps::{Block, Branch, Outcome, Plan, PlannedStep, Rule, Step};
