//! Runs a command under ptrace and numbers the system calls with which it changes files, so that a test
//! can stop it after any one of them.
//!
//! - `Trace::run` lists all of them. `Trace::kill_after` runs the command again and kills everything it
//!   started after the n-th: after that call took effect, before anything else does.
//! - Calls that failed changed nothing and are not counted. Calls outside the given roots are not counted
//!   either; where that cannot be decided, the call counts.
//! - Counted calls never overlap: while one thread or process is inside one, the others wait at the door
//!   of theirs. So "after the n-th" is a state of the disk that a real run can be in, also with threads.
//! - Invisible are stores into a shared mapping (the mapping itself counts, as does `msync`) and io_uring,
//!   which is a panic: a list with holes in it must not pass for a complete one.

mod calls;
mod target;
mod tracer;

use crate::kernel;
use nix::sys::signal::Signal;
use rustix::fs::MemfdFlags;
use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use tracer::{Order, Tracer};

/// Who made a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The command itself, any of its threads.
    Main,
    /// A process that it started.
    Child,
}

/// One system call that changed something.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Call {
    /// The first is 1: killing after `n` leaves the effects of the calls 1 to `n`.
    pub n: usize,
    pub role: Role,
    /// The file name of the program that made it.
    pub program: String,
    pub name: &'static str,
    /// What it was done to: a path, or two.
    pub what: String,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>4} {} {} {}", self.n, self.program, self.name, self.what)
    }
}

/// A command that ran to its end.
#[derive(Debug, Clone)]
pub struct Traced {
    pub calls: Vec<Call>,
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// A command that was killed after the call `call`; none: before its first.
#[derive(Debug, Clone)]
pub struct Killed {
    pub call: Option<Call>,
    /// All calls up to and with that one.
    pub calls: Vec<Call>,
    pub stdout: String,
    pub stderr: String,
}

/// A command that was sent a signal after the call `call`, and what became of it then.
#[derive(Debug, Clone)]
pub struct Signalled {
    pub call: Option<Call>,
    pub traced: Traced,
}

/// The tracer. Standard input of the command is empty; its output is captured.
#[derive(Debug, Clone, Copy)]
pub struct Trace;

impl Trace {
    /// Runs the command to its end.
    pub fn run(command: Command, roots: &[&Path]) -> Traced {
        trace(command, roots, Order::LetRun).1
    }

    /// Kills the command and all it started after its n-th call. An error is the command that ended
    /// before it got there.
    pub fn kill_after(command: Command, roots: &[&Path], n: usize) -> Result<Killed, Traced> {
        Trace::kill_after_doing(command, roots, n, || ())
    }

    /// The same, but does something first while every thread stands still before its next change: cutting
    /// the power here is what a power cut is. After the kill it would be too late, since the kernel
    /// closes the files of the dead, and closing can flush.
    pub fn kill_after_doing(
        command: Command,
        roots: &[&Path],
        n: usize,
        first: impl FnOnce() + Send,
    ) -> Result<Killed, Traced> {
        killed(trace(command, roots, Order::Kill { n, first: Some(Box::new(first)) }))
    }

    /// Kills the command and all it started after the first call that `when` says yes to. An error is the command that
    /// ended before; what it left running is killed then.
    pub fn kill_when(
        command: Command,
        roots: &[&Path],
        when: impl FnMut(&Call) -> bool + Send,
    ) -> Result<Killed, Traced> {
        killed(trace(command, roots, Order::KillWhen(Box::new(when))))
    }

    /// The same for the command alone: what it starts is neither seen nor killed.
    pub fn kill_alone_when(
        command: Command,
        roots: &[&Path],
        when: impl FnMut(&Call) -> bool + Send,
    ) -> Result<Killed, Traced> {
        killed(trace(command, roots, Order::KillAloneWhen(Box::new(when))))
    }

    /// Sends a signal to the command (not to its children) after its n-th call, and lets it go on to its
    /// end. With n = 0 the signal arrives while the first call is under way, which is as early as the
    /// command can be expected to handle it.
    pub fn signal_after(
        command: Command,
        roots: &[&Path],
        n: usize,
        signal: Signal,
    ) -> Result<Signalled, Traced> {
        match trace(command, roots, Order::Signal { n, signal }) {
            (true, traced) => {
                let call = n.checked_sub(1).and_then(|index| traced.calls.get(index).cloned());
                Ok(Signalled { call, traced })
            }
            (false, traced) => Err(traced),
        }
    }
}

fn killed((reached, traced): (bool, Traced)) -> Result<Killed, Traced> {
    if !reached {
        return Err(traced);
    }
    let Traced { calls, stdout, stderr, .. } = traced;
    Ok(Killed { call: calls.last().cloned(), calls, stdout, stderr })
}

/// Runs the command in a thread of its own: a tracer may only wait for its own tracees, and must not take
/// the end of processes that other tests wait for.
fn trace(mut command: Command, roots: &[&Path], order: Order<'_>) -> (bool, Traced) {
    let roots: Vec<PathBuf> = roots
        .iter()
        .map(|root| root.canonicalize().unwrap_or_else(|error| panic!("root {}: {error}", root.display())))
        .collect();
    // Files in memory: never below a root, and never full, as a pipe that nobody reads would be.
    let mut stdout = memory_file("stdout");
    let mut stderr = memory_file("stderr");
    command.stdin(Stdio::null()).stdout(duplicate(&stdout)).stderr(duplicate(&stderr));
    kernel::make_traced(&mut command);
    let outcome = std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let program = command.get_program().to_owned();
            #[expect(clippy::zombie_processes, reason = "the tracer waits for it, as for all that it starts")]
            let child = command.spawn().unwrap_or_else(|error| panic!("cannot run {program:?}: {error}"));
            Tracer::new(child.id() as i32, &roots, order).run()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    let traced = Traced {
        calls: outcome.calls,
        status: outcome.status,
        stdout: content(&mut stdout),
        stderr: content(&mut stderr),
    };
    (outcome.reached, traced)
}

fn memory_file(name: &str) -> File {
    rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC).expect("the kernel has files in memory").into()
}

fn duplicate(file: &File) -> Stdio {
    file.try_clone().expect("a descriptor can be duplicated").into()
}

fn content(file: &mut File) -> String {
    let mut bytes = Vec::new();
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut bytes));
    read.expect("a file in memory can be read");
    String::from_utf8_lossy(&bytes).into_owned()
}
