//! What is moved from release to release: an appliance of this machine, or a cluster.

use std::sync::atomic::AtomicBool;

use logic::agent::{Found, Outcome, Precondition, Under};
use semver::Version;

use crate::quarantine::{Checked, RunningKeys};

/// What runs now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    pub version: Version,
    /// `sha256:…` of the image that it was made of, where that is known.
    pub digest: Option<String>,
    /// Of those who may say what follows it; none where it carries none.
    pub keys: Option<RunningKeys>,
}

/// Whether another agent takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaced {
    /// The release has no agent of its own, or it is the one that runs.
    GoOn,
    /// The new one runs, or will: this one ends, and leaves all as it stands.
    StepDown,
}

/// Why something could not be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct MachineError {
    pub why: String,
    pub way_out: String,
    /// It may go away by itself: tried again later. Otherwise the attempt has come to its end.
    pub passing: bool,
}

/// How a transaction left the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// [`Outcome::Completed`], [`Outcome::Unproven`], [`Outcome::RolledBack`], or [`Outcome::Refused`] where nothing was begun.
    Ended(Outcome),
    /// It stands where it was interrupted, and is taken up by the next [`Machine::apply`].
    Interrupted,
}

/// Blocking work is its own business. Every call may be repeated after a crash.
pub trait Machine: Send + Sync {
    fn running(&self) -> impl Future<Output = Result<Running, MachineError>> + Send;

    /// How many transactions have ended on it: what [`Under::since`] counts.
    fn ended(&self) -> impl Future<Output = Result<u64, MachineError>> + Send;

    /// What became of an attempt of which the books don't know the end.
    fn found(&self, under: &Under) -> impl Future<Output = Result<Found, MachineError>> + Send;

    /// What must hold on this machine before it is moved: those of the agent itself are not its business.
    fn preconditions(
        &self,
        under: &Under,
        release: &Checked,
    ) -> impl Future<Output = Vec<Precondition>> + Send;

    /// Has the release's own agent take over, if it has one.
    fn replace_agent(
        &self,
        under: &Under,
        release: &Checked,
    ) -> impl Future<Output = Result<Replaced, MachineError>> + Send;

    /// Moves the machine to the release, or goes on with that. `said` hears one line a step.
    fn apply(
        &self,
        under: &Under,
        release: &Checked,
        said: &(dyn Fn(&str) + Send + Sync),
        stop: &AtomicBool,
    ) -> impl Future<Output = Result<Applied, MachineError>> + Send;

    /// One step back from this release, as a person asks for it; or back from what was interrupted on the way to it. Done already
    /// where it does not run any more.
    fn roll_back(
        &self,
        from: &Version,
        said: &(dyn Fn(&str) + Send + Sync),
        stop: &AtomicBool,
    ) -> impl Future<Output = Result<(), MachineError>> + Send;

    /// Nothing is under way: what was put in place for a release that the machine did not come to, or left, goes.
    fn settle(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}
