//! A migration that changes a directory in place, as `guard` runs them: told by arguments and environment instead of
//! JSON, in the same sandbox, with the directory as the only place that it can write.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use program::{Finished, Invocation, Limits, Overflow, RunError, Sandbox, run_limited};

/// Far more than a migration has use for; a fork without end still meets it.
const PROCESSES: u32 = 4096;

/// How a migration in place is run.
#[derive(Debug, Clone)]
pub struct InPlace<'a> {
    /// What it may change.
    pub dir: PathBuf,
    /// `false`: it is trusted, and may reach the network and everything else.
    pub sandbox: bool,
    pub timeout: Option<Duration>,
    /// How much of what it prints is kept, of each stream: its beginning and its end.
    pub max_output: usize,
    pub stop: Option<&'a AtomicBool>,
}

impl InPlace<'_> {
    /// Runs a program with its arguments and environment; the rest of the environment is the caller's.
    pub fn run(&self, mut what: Invocation) -> Result<Finished, RunError> {
        // As in a sandbox: the next one must not meet on the data what one that was killed left working on it.
        what.ends_with_caller = true;
        if self.sandbox {
            let mut sandbox =
                Sandbox { writable: vec![self.dir.clone()], processes: Some(PROCESSES), ..Sandbox::new() };
            // The program lies beside what it needs: others of its directory, or where a link leads to.
            sandbox.readable.extend(what.program.parent().map(ToOwned::to_owned));
            sandbox.readable.extend(std::fs::canonicalize(&what.program).ok());
            what.sandbox = Some(sandbox);
        }
        let limits = Limits {
            timeout: self.timeout,
            max_output: self.max_output,
            overflow: Overflow::Trim,
            stop: self.stop,
            ..Limits::default()
        };
        run_limited(&what, &limits)
    }
}
