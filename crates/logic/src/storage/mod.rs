//! What storage decides: when a resource's objects must be rewritten, what may still be stored how, and whether it is
//! safe to move to another API server.
//!
//! Read [`next`] first: it is the trigger, one write at a time. [`Migration`] is what the trigger asks for and the
//! migrator carries out; [`answer`] says what an API server's answer to one of its writes means, [`Pace`] how many it may
//! have under way. [`gate`] answers the operator's question.

mod answer;
mod definitions;
mod gate;
mod migration;
mod names;
mod pace;
mod queue;
mod resource;
mod rhythm;
mod state;
mod trigger;

pub use answer::{Answer, Verdict, answer};
pub use definitions::{Definition, Definitions, Noticed};
pub use gate::{Blocker, Gate, Reason, ServedHere, Supported, gate};
pub use migration::{Migration, Phase, Stamp, list_in};
pub use names::VersionNames;
pub use pace::Pace;
pub use queue::{Waiting, to_begin};
pub use resource::{BadResource, Resource};
pub use rhythm::Rhythm;
pub use state::{State, StoredVersion, VersionHash};
pub use trigger::{Observed, Offered, Write, next};
