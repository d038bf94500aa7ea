//! Running a program to its end.
//!
//! A program gets its own process group, no input, a time limit and a limit on what it may print. What it
//! leaves behind in its group ends with it. All of it happens on the calling thread, in one `poll` loop over
//! its two pipes and its pidfd: no helper threads that could be left waiting for a program that hangs.
//!
//! What this can't do: end a descendant that moved to a session of its own, or one that outlives a caller that
//! was killed with SIGKILL. Under systemd both die with the unit's control group.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::capture::Capture;
use super::watch::{End, Watched};

/// How long a status command may take.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// How much a status command may print, on each of stdout and stderr.
pub const DEFAULT_MAX_OUTPUT: usize = 4 << 20;
/// Between SIGTERM and SIGKILL.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(2);

/// A script that was written a moment ago can still be open for writing in a process that is about to exec.
const BUSY_RETRIES: u32 = 10;
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// What to do with a program that prints more than its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// End it: its output is data, and half of it is no use.
    Stop,
    /// Let it go on and keep the beginning and the end: its output is for people.
    Trim,
}

#[derive(Debug, Clone, Copy)]
pub struct Limits<'a> {
    /// `None`: as long as it takes (a migration).
    pub timeout: Option<Duration>,
    /// For each of stdout and stderr.
    pub max_output: usize,
    pub overflow: Overflow,
    pub grace: Duration,
    /// Set from elsewhere (a signal, an overall time limit) to end the program early.
    pub stop: Option<&'a AtomicBool>,
}

impl Default for Limits<'_> {
    fn default() -> Self {
        Self {
            timeout: Some(DEFAULT_TIMEOUT),
            max_output: DEFAULT_MAX_OUTPUT,
            overflow: Overflow::Stop,
            grace: DEFAULT_GRACE,
            stop: None,
        }
    }
}

/// A program with its arguments and the variables that are added to the environment it inherits.
#[derive(Debug, Clone, Default)]
pub struct Invocation {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
    pub current_dir: Option<PathBuf>,
}

impl Invocation {
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), ..Self::default() }
    }

    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// The command line, for messages.
    pub fn shown(&self) -> String {
        let mut line = self.program.display().to_string();
        for arg in &self.args {
            line.push(' ');
            line.push_str(&arg.to_string_lossy());
        }
        line
    }
}

/// A program that ended by itself, well or badly.
#[derive(Debug, Clone)]
pub struct Finished {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// Bytes left out of each under [`Overflow::Trim`].
    pub trimmed: (u64, u64),
    pub took: Duration,
}

impl Finished {
    /// "exit code 3", "killed by signal 11".
    pub fn ending(&self) -> String {
        ending(self.status)
    }
}

pub fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "an unknown status".to_owned(),
    }
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("can't start {program}")]
    Start { program: String, source: io::Error },
    #[error("{program} did not end within {}", seconds(*limit))]
    TimedOut { program: String, limit: Duration, stdout: Vec<u8>, stderr: Vec<u8> },
    #[error("{program} printed more than {limit} bytes on {stream}")]
    TooMuchOutput { program: String, stream: &'static str, limit: usize, start: Vec<u8> },
    #[error("{program} was ended because it was asked to stop")]
    Stopped { program: String, stdout: Vec<u8>, stderr: Vec<u8> },
    #[error("can't watch {program} while it runs")]
    Watch { program: String, source: io::Error },
}

impl RunError {
    /// The program isn't there at all, as opposed to being there and not working.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Start { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    pub fn hint(&self) -> String {
        match self {
            Self::Start { program, source } if source.kind() == io::ErrorKind::NotFound => {
                format!("install {program}, or name its path in the configuration")
            }
            Self::Start { program, .. } => {
                format!("see that {program} is executable and its interpreter exists")
            }
            Self::TimedOut { program, .. } => {
                format!("run {program} by hand to see what it waits for, or raise the time limit")
            }
            Self::TooMuchOutput { program, .. } => {
                format!("run {program} by hand and look at what it prints")
            }
            Self::Stopped { .. } => "run the command again".to_owned(),
            Self::Watch { .. } => "see whether the machine is out of memory or file descriptors".to_owned(),
        }
    }
}

fn seconds(limit: Duration) -> String {
    if limit.subsec_millis() == 0 {
        format!("{} s", limit.as_secs())
    } else {
        format!("{:.1} s", limit.as_secs_f64())
    }
}

/// Runs a program to its end, within the limits. A non-zero exit is not an error here: whoever asked knows
/// what it means.
pub fn run_limited(what: &Invocation, limits: &Limits<'_>) -> Result<Finished, RunError> {
    let program = what.program.display().to_string();
    let started = Instant::now();
    let child = start(what).map_err(|source| RunError::Start { program: program.clone(), source })?;
    let mut watched = match Watched::new(child, limits) {
        Ok(watched) => watched,
        Err(source) => return Err(RunError::Watch { program, source }),
    };
    let end = watched.follow(started, limits);
    let status = watched.finish(limits.grace, matches!(end, Ok(End::Exited)));
    let [stdout, stderr] = watched.captures;
    match end {
        Err(source) => Err(RunError::Watch { program, source }),
        Ok(End::Exited) => match status {
            Some(Ok(status)) => Ok(Finished {
                status,
                trimmed: (stdout.left_out(), stderr.left_out()),
                stdout: stdout.into_bytes(),
                stderr: stderr.into_bytes(),
                took: started.elapsed(),
            }),
            Some(Err(source)) => Err(RunError::Watch { program, source }),
            None => Err(RunError::Watch { program, source: io::ErrorKind::TimedOut.into() }),
        },
        Ok(End::TimedOut) => Err(RunError::TimedOut {
            program,
            limit: limits.timeout.unwrap_or_default(),
            stdout: stdout.into_bytes(),
            stderr: stderr.into_bytes(),
        }),
        Ok(End::Stopped) => {
            Err(RunError::Stopped { program, stdout: stdout.into_bytes(), stderr: stderr.into_bytes() })
        }
        Ok(End::Overflowed(which)) => Err(RunError::TooMuchOutput {
            program,
            stream: ["stdout", "stderr"][which],
            limit: limits.max_output,
            start: [stdout, stderr].into_iter().nth(which).map(Capture::into_bytes).unwrap_or_default(),
        }),
    }
}

fn start(what: &Invocation) -> io::Result<Child> {
    let mut command = Command::new(&what.program);
    command.args(&what.args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0);
    command.envs(what.env.iter().map(|(name, value)| (name, value)));
    if let Some(dir) = &what.current_dir {
        command.current_dir(dir);
    }
    let mut tries = 0;
    loop {
        match command.spawn() {
            Err(error)
                if error.raw_os_error() == Some(Errno::TXTBSY.raw_os_error()) && tries < BUSY_RETRIES =>
            {
                tries += 1;
                std::thread::sleep(BUSY_PAUSE);
            }
            other => return other,
        }
    }
}
