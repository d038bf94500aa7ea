//! An appliance that is a process: images side by side, a link to the one in force, a supervisor, and a state that is
//! cloned for a snapshot.

mod appliance;

pub use appliance::Slot;
