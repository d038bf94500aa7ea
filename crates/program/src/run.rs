//! Running a program to its end.
//!
//! A program gets its own process group, a time limit and a limit on what it may print; no input unless it is
//! given some; a sandbox if it is not trusted. What it leaves behind in its group ends with it. All of it happens on the calling thread, in one `poll` loop over
//! its two pipes and its pidfd: no helper threads that could be left waiting for a program that hangs.
//!
//! What this can't do without a sandbox: end a descendant that moved to a session of its own, or one that outlives
//! a caller that was killed with SIGKILL (the program itself can be made to end with it). Under systemd both die with
//! the unit's control group.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use super::capture::Capture;
use super::sandbox::{Board, Exceeded, Prepared, Protections, Report, Sandbox, Stage, before_exec};
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
    /// For stderr, where it differs: one stream is data, the other for people.
    pub stderr: Option<(usize, Overflow)>,
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
            stderr: None,
            grace: DEFAULT_GRACE,
            stop: None,
        }
    }
}

impl Limits<'_> {
    pub(crate) fn of_stream(&self, which: usize) -> (usize, Overflow) {
        let both = (self.max_output, self.overflow);
        if which == 1 { self.stderr.unwrap_or(both) } else { both }
    }
}

/// A program with its arguments and the variables that are added to the environment it inherits.
#[derive(Debug, Clone, Default)]
pub struct Invocation {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
    pub current_dir: Option<PathBuf>,
    /// Nothing of the caller's environment is inherited.
    pub clear_env: bool,
    /// What it reads on stdin.
    pub input: Option<Vec<u8>>,
    pub sandbox: Option<Sandbox>,
    /// It is killed when the calling thread ends, however that is. In a sandbox this is always so.
    pub ends_with_caller: bool,
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
    /// What kept it in its sandbox, if it was in one.
    pub protections: Option<Protections>,
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
    #[error("can't run {program} in a sandbox: can't {what}")]
    Sandbox { program: String, what: &'static str, source: io::Error },
    #[error("{program} was not run: this machine can't keep it from the network or from writing elsewhere")]
    Unconfined { program: String, protections: Protections },
    #[error("{program} was ended because it had more than {limit} processes and threads")]
    TooManyProcesses { program: String, limit: u32, stderr: Vec<u8> },
    #[error("{program} was ended because it used more than {limit} bytes of memory")]
    TooMuchMemory { program: String, limit: u64, stderr: Vec<u8> },
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
            Self::Watch { .. } | Self::Sandbox { .. } => {
                "see whether the machine is out of memory, file descriptors or namespaces".to_owned()
            }
            Self::Unconfined { .. } => {
                "run it as root, or allow user namespaces or Landlock; or say that it may run without"
                    .to_owned()
            }
            Self::TooManyProcesses { program, .. } | Self::TooMuchMemory { program, .. } => {
                format!("see why {program} needs that much, or raise the limit")
            }
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
    let board = match what.sandbox.as_ref().map(|_| Board::new()).transpose() {
        Ok(board) => board,
        Err(source) => return Err(RunError::Start { program, source }),
    };
    let report = || board.as_ref().map(Board::read);
    let child = match start(what, board.as_ref()) {
        Ok(child) => child,
        Err(source) => {
            return Err(refused(&program, report().as_ref()).unwrap_or(RunError::Start { program, source }));
        }
    };
    let mut watched = match Watched::new(child, limits) {
        Ok(watched) => watched,
        Err(source) => return Err(RunError::Watch { program, source }),
    };
    let end = watched.follow(started, limits);
    let init = report().and_then(|report| report.init);
    let status = watched.finish(limits.grace, matches!(end, Ok(End::Exited)), init);
    let [stdout, stderr] = watched.captures;
    match end {
        Err(source) => Err(RunError::Watch { program, source }),
        Ok(End::Exited) => match status {
            Some(Ok(status)) => {
                let report = report();
                if let Some(error) = refused(&program, report.as_ref()) {
                    return Err(error);
                }
                if let (Some(sandbox), Some(Report { exceeded: Some(exceeded), .. })) =
                    (&what.sandbox, &report)
                {
                    return Err(over(program, *exceeded, sandbox, stderr.into_bytes()));
                }
                Ok(Finished {
                    status: report.as_ref().and_then(|report| report.status).unwrap_or(status),
                    trimmed: (stdout.left_out(), stderr.left_out()),
                    stdout: stdout.into_bytes(),
                    stderr: stderr.into_bytes(),
                    took: started.elapsed(),
                    protections: report.map(|report| report.protections),
                })
            }
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
            limit: limits.of_stream(which).0,
            start: [stdout, stderr].into_iter().nth(which).map(Capture::into_bytes).unwrap_or_default(),
        }),
    }
}

/// What kept the sandbox from coming up.
fn refused(program: &str, report: Option<&Report>) -> Option<RunError> {
    let Report { failure, protections, .. } = *report?;
    let program = program.to_owned();
    failure.map(|(stage, error)| match stage {
        Stage::Unconfined => RunError::Unconfined { program, protections },
        stage => {
            RunError::Sandbox { program, what: stage.as_str(), source: io::Error::from_raw_os_error(error) }
        }
    })
}

fn over(program: String, exceeded: Exceeded, sandbox: &Sandbox, stderr: Vec<u8>) -> RunError {
    match exceeded {
        Exceeded::Processes => {
            RunError::TooManyProcesses { program, limit: sandbox.processes.unwrap_or_default(), stderr }
        }
        Exceeded::Memory => {
            RunError::TooMuchMemory { program, limit: sandbox.memory.unwrap_or_default(), stderr }
        }
    }
}

fn start(what: &Invocation, board: Option<&Board>) -> io::Result<Child> {
    let mut command = Command::new(&what.program);
    command.args(&what.args).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(what.input.as_deref().map_or_else(|| Ok(Stdio::null()), stdin_of)?);
    command.process_group(0);
    if what.clear_env {
        command.env_clear();
    }
    command.envs(what.env.iter().map(|(name, value)| (name, value)));
    match (&what.sandbox, board) {
        (Some(sandbox), Some(board)) => {
            let mut prepared = Prepared::new(sandbox, what.current_dir.as_deref(), board)?;
            before_exec(&mut command, move || prepared.enter());
        }
        _ => {
            if let Some(dir) = &what.current_dir {
                command.current_dir(dir);
            }
            if what.ends_with_caller {
                let caller = rustix::process::getpid();
                before_exec(&mut command, move || end_with(caller));
            }
        }
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

/// In the child, before it is the program.
fn end_with(caller: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // Had the caller ended before that call, nobody would have sent it.
    if rustix::process::getppid() == Some(caller) { Ok(()) } else { Err(Errno::SRCH.into()) }
}

/// In memory and whole: a program that does not read it can't make anybody wait.
fn stdin_of(input: &[u8]) -> io::Result<Stdio> {
    let mut file = File::from(rustix::fs::memfd_create(c"holdfast-input", MemfdFlags::CLOEXEC)?);
    file.write_all(input)?;
    file.rewind()?;
    Ok(file.into())
}
