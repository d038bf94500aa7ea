//! The event loop of the tracer: one thread, which alone may speak to its tracees.
//!
//! Invariant: at most one tracee is inside a counted call (`inside`); the others that want to enter one
//! stand in `waiting`, stopped at its entry. A call inside must therefore not wait for another process to
//! make progress: opening or writing a pipe is never counted, and a call that moves data from a pipe into a
//! file is counted but does not keep the others out.

use super::target::{self, Candidate};
use super::{Call, Role};
use crate::kernel::{self, SystemCallStop};
use nix::libc;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::{HashMap, VecDeque};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::mpsc;
use std::time::Duration;

/// A command that hangs would hang the whole test run: this is the end of it.
const LONGEST_RUN: Duration = Duration::from_secs(300);

/// What to do at the n-th call.
pub(super) enum Order<'a> {
    LetRun,
    Kill {
        n: usize,
        first: Option<Box<dyn FnOnce() + Send + 'a>>,
    },
    Signal {
        n: usize,
        signal: Signal,
    },
    /// Kills all of them after the call that it says yes to, or when the command itself ends before.
    KillWhen(Box<dyn FnMut(&Call) -> bool + Send + 'a>),
    /// Kills the command alone. Nothing else is traced.
    KillAloneWhen(Box<dyn FnMut(&Call) -> bool + Send + 'a>),
}

pub(super) struct Outcome {
    pub(super) calls: Vec<Call>,
    pub(super) status: ExitStatus,
    /// The n-th call came, and the order was carried out.
    pub(super) reached: bool,
}

pub(super) struct Tracer<'a> {
    main: i32,
    roots: &'a [PathBuf],
    order: Order<'a>,
    calls: Vec<Call>,
    /// Every tracee that is alive, by the id of its thread.
    tracees: HashMap<i32, Tracee>,
    inside: HashMap<i32, Candidate>,
    waiting: VecDeque<(i32, Candidate)>,
    reached: bool,
    killed: bool,
}

struct Tracee {
    process: i32,
    program: String,
}

impl Tracee {
    fn look_up(thread: i32) -> Tracee {
        let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
        let process = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
        let program = fs::read_link(format!("/proc/{thread}/exe")).ok();
        let program = program.as_deref().and_then(|path| path.file_name());
        let program = program.map_or_else(|| "?".into(), |name| name.to_string_lossy().into_owned());
        Tracee { process: process.unwrap_or(thread), program }
    }
}

impl<'a> Tracer<'a> {
    pub(super) fn new(main: i32, roots: &'a [PathBuf], order: Order<'a>) -> Tracer<'a> {
        Tracer {
            main,
            roots,
            order,
            calls: Vec::new(),
            tracees: HashMap::new(),
            inside: HashMap::new(),
            waiting: VecDeque::new(),
            reached: false,
            killed: false,
        }
    }

    /// Handles events until no tracee is left: all of them are dead and reaped then.
    pub(super) fn run(mut self) -> Outcome {
        let main = self.main;
        let mut status = None;
        let timed_out = std::thread::scope(|scope| {
            let (ended, wait_for_end) = mpsc::channel::<()>();
            let watch = scope.spawn(move || {
                let timed_out =
                    wait_for_end.recv_timeout(LONGEST_RUN) == Err(mpsc::RecvTimeoutError::Timeout);
                if timed_out {
                    let _ = kill(Pid::from_raw(main), Signal::SIGKILL);
                }
                timed_out
            });
            while let Some((tracee, raw_status)) = kernel::wait_for_any_tracee() {
                if libc::WIFSTOPPED(raw_status) {
                    self.stopped(tracee, raw_status);
                } else {
                    self.ended(tracee);
                    if tracee == main {
                        status = Some(ExitStatus::from_raw(raw_status));
                        // What it has left running would keep us waiting for ever.
                        if matches!(self.order, Order::KillWhen(_)) && !self.killed {
                            self.kill_all();
                        }
                    }
                }
            }
            drop(ended);
            watch.join().unwrap_or(false)
        });
        assert!(!timed_out, "the command did not end within {LONGEST_RUN:?} and was killed");
        let status = status.expect("the command was waited for");
        Outcome { calls: self.calls, status, reached: self.reached }
    }

    fn stopped(&mut self, tracee: i32, raw_status: i32) {
        if self.killed {
            // Born while the others died.
            let _ = kill(Pid::from_raw(tracee), Signal::SIGKILL);
            return;
        }
        let is_new = !self.tracees.contains_key(&tracee);
        if is_new {
            self.tracees.insert(tracee, Tracee::look_up(tracee));
            if tracee == self.main {
                let following = match self.order {
                    Order::KillAloneWhen(_) => kernel::follow_threads(tracee),
                    _ => kernel::follow_children(tracee),
                };
                following.unwrap_or_else(|error| panic!("cannot trace the command: {error}"));
            }
        }
        let signal = libc::WSTOPSIG(raw_status);
        let event = raw_status >> 16;
        let deliver = match signal {
            _ if signal == libc::SIGTRAP | 0x80 => return self.at_system_call(tracee),
            _ if event == libc::PTRACE_EVENT_EXEC => {
                // A thread that executes becomes the leader: what was known of this id is out of date.
                // The other threads are gone, the id of the one that executed without a word.
                self.tracees.retain(|_, other| other.process != tracee);
                self.tracees.insert(tracee, Tracee::look_up(tracee));
                0
            }
            _ if event != 0 => 0,
            // The stop with which each tracee begins: of the command at its exec, of others at their birth.
            libc::SIGTRAP | libc::SIGSTOP if is_new => 0,
            libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU
                if kernel::is_group_stop(tracee) =>
            {
                0
            }
            signal => signal,
        };
        kernel::resume_to_next_system_call(tracee, deliver);
    }

    fn at_system_call(&mut self, tracee: i32) {
        match kernel::system_call_stop(tracee) {
            Some(SystemCallStop::Entry { number, arguments }) => {
                if let Some(candidate) = target::candidate(tracee, number, &arguments, self.roots) {
                    self.waiting.push_back((tracee, candidate));
                    return self.let_the_next_in();
                }
            }
            Some(SystemCallStop::Exit { failed }) => {
                if let Some(candidate) = self.inside.remove(&tracee) {
                    if !failed {
                        self.count(tracee, candidate);
                        self.carry_out_order_after(self.calls.len());
                    }
                    self.let_the_next_in();
                }
            }
            None => {}
        }
        if !self.killed {
            kernel::resume_to_next_system_call(tracee, 0);
        }
    }

    /// Lets the waiting enter their calls, one at a time.
    fn let_the_next_in(&mut self) {
        if self.calls.is_empty() && self.inside.is_empty() && !self.waiting.is_empty() {
            // Nothing has happened yet, and now something could.
            self.carry_out_order_after(0);
        }
        while !self.killed {
            let occupied = self.inside.values().any(|candidate| !candidate.waits_for_others);
            let may_enter = |(_, candidate): &(i32, Candidate)| candidate.waits_for_others || !occupied;
            let Some(position) = self.waiting.iter().position(may_enter) else {
                return;
            };
            let Some((next, candidate)) = self.waiting.remove(position) else {
                return;
            };
            self.inside.insert(next, candidate);
            kernel::resume_to_next_system_call(next, 0);
        }
    }

    fn count(&mut self, tracee: i32, candidate: Candidate) {
        let main = self.main;
        let made_by = self.tracees.get(&tracee);
        let role =
            if made_by.is_some_and(|tracee| tracee.process == main) { Role::Main } else { Role::Child };
        let program = made_by.map_or_else(|| "?".into(), |tracee| tracee.program.clone());
        let Candidate { name, what, .. } = candidate;
        self.calls.push(Call { n: self.calls.len() + 1, role, program, name, what });
    }

    fn carry_out_order_after(&mut self, count: usize) {
        if self.reached {
            return;
        }
        match &mut self.order {
            Order::Kill { n, first } if *n == count => {
                if let Some(first) = first.take() {
                    first();
                }
                self.reached = true;
                self.kill_all();
            }
            Order::KillWhen(when) | Order::KillAloneWhen(when) => {
                self.reached = self.calls.last().is_some_and(when);
                if self.reached {
                    self.kill_all();
                }
            }
            Order::Signal { n, signal } if *n == count => {
                self.reached = true;
                let _ = kill(Pid::from_raw(self.main), *signal);
            }
            _ => {}
        }
    }

    fn kill_all(&mut self) {
        self.killed = true;
        for tracee in self.tracees.keys() {
            let _ = kill(Pid::from_raw(*tracee), Signal::SIGKILL);
        }
    }

    fn ended(&mut self, tracee: i32) {
        self.tracees.remove(&tracee);
        self.waiting.retain(|(waiting, _)| *waiting != tracee);
        // Killed in the middle: whether the call took effect is not known, so it is not counted.
        self.inside.remove(&tracee);
        self.let_the_next_in();
    }
}
