//! What people ask of an appliance, one function per verb. Nothing here prints.

mod configure;
mod create;
mod overview;
mod power;
mod remove;
mod take_up;
mod upgrade;

use std::path::Path;
use std::sync::atomic::AtomicBool;

pub use configure::{Changes, configure};
pub use create::{Create, create};
pub use overview::{Overview, WorkloadNote, inspect, list};
pub use power::{start, stop};
pub use remove::remove;
pub use upgrade::{Plan, Request, Upgraded, plan, plan_roll_back, resume, roll_back, upgrade};

use crate::error::BringError;

/// Brings the release that a reference names into a directory, verified and durable, and says its digest. Registries are
/// the business of whoever calls.
pub type Bring<'a> = dyn Fn(&str, &Path, &AtomicBool) -> Result<String, BringError> + 'a;
