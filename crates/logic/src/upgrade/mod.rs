//! One appliance, from one release to another, as a transaction: what may begin, which step comes next, and what becomes
//! of a transaction that was interrupted. All of it follows from the journal's records and what is observed.
//!
//! Read [`way`] first: the order of the steps is the promise.

mod ask;
mod name;
mod record;
mod release;
mod state;
mod tidy;
mod way;

pub use ask::{Ask, Begun, Present, Refusal, TakeUp, Wish, may_resume, may_roll_back, may_upgrade, take_up};
pub use name::{ApplianceName, BadName};
pub use record::{Begin, Kind, Point, Record, Transaction};
pub use release::{BadReleaseVersion, Image, ImageId, ReleaseVersion, SnapshotId};
pub use state::{State, rollback_to, state};
pub use tidy::{Leftovers, leftovers};
pub use way::{Next, Recovery, Step, Trouble, Way, next, recovery, trouble};

/// Said of a transaction that was committed without proof: what is switched off is left so, and nothing is asked of it.
pub const UNPROVEN: &str = "it was switched off, and not started: whether it becomes ready is not known";
