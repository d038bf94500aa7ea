//! The one place where Holdfast runs other programs and waits for them.
//!
//! Architecture invariant: nothing is run without a limit on what it prints, and nothing of its process group outlives
//! it; a program that is not trusted runs in a sandbox. `unsafe` appears in `sandbox::kernel` only. What a program's answer means is for whoever asked.

mod capture;
mod run;
mod sandbox;
mod watch;

pub use run::{
    DEFAULT_GRACE, DEFAULT_MAX_OUTPUT, DEFAULT_TIMEOUT, Finished, Invocation, Limits, Overflow, RunError,
    ending, run_limited,
};
pub use sandbox::{Protections, Sandbox};
