//! One process that answers for one program: starts it, restarts it, keeps its log, hears that it is ready, stops it.
//!
//! ```text
//! supervisor          holds run/supervisor.lock, and so does the keeper: as long as anything runs, it is held
//!   └─ keeper         adopts what the program leaves behind, and ends all of it with the program or the supervisor
//!        └─ program   in a process group of its own, and whatever it starts
//! ```
//!
//! Whoever is killed, the others end: the keeper is told by the kernel when the supervisor dies, and the program's
//! orphans fall to the supervisor when the keeper does. Only [`power`] starts and ends supervisors.

mod backoff;
mod error;
mod keeper;
mod log;
mod notify;
mod place;
mod power;
mod program;
mod run;
mod status;

pub use error::{Error, Result};
pub use place::Place;
pub use power::{Launcher, is_on, power_off, power_on};
pub use program::Program;
pub use run::run;
pub use status::{Status, read as status};
