//! A running program under watch: its pipes, its end, and the end of everything in its process group.

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ExitStatus};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

use super::capture::Capture;
use super::run::Limits;

/// How long pipes are still read after the program itself ended: what it printed last is in them already, so
/// only a descendant that holds them open makes use of this.
const DRAIN: Duration = Duration::from_millis(500);
/// How long to wait for a process to disappear after SIGKILL (one stuck in the kernel may never do so).
const REAP: Duration = Duration::from_secs(5);
/// The longest time between two looks at the caller's stop flag.
const TICK: Duration = Duration::from_millis(100);
pub(super) enum End {
    Exited,
    TimedOut,
    Stopped,
    Overflowed(usize),
}

/// A running program. Until `finish` reaps it, its process id can't be given to another process, so signals
/// to its group reach nobody else.
pub(super) struct Watched {
    child: Child,
    group: Pid,
    pidfd: OwnedFd,
    pipes: [Option<Box<dyn Pipe>>; 2],
    pub(super) captures: [Capture; 2],
}

trait Pipe: Read + AsFd {}
impl<T: Read + AsFd> Pipe for T {}

impl Watched {
    pub(super) fn new(mut child: Child, limits: &Limits<'_>) -> io::Result<Self> {
        let group = Pid::from_child(&child);
        let opened = rustix::process::pidfd_open(group, PidfdFlags::empty()).map_err(io::Error::from);
        let pipes = [boxed(child.stdout.take()), boxed(child.stderr.take())];
        let ready = opened.and_then(|pidfd| {
            for pipe in pipes.iter().flatten() {
                rustix::io::ioctl_fionbio(pipe, true)?;
            }
            Ok(pidfd)
        });
        match ready {
            Ok(pidfd) => {
                let captures = [0, 1].map(|which| {
                    let (limit, overflow) = limits.of_stream(which);
                    Capture::new(limit, overflow)
                });
                Ok(Self { child, group, pidfd, pipes, captures })
            }
            Err(error) => {
                // Nothing may run that nobody watches.
                let _ = rustix::process::kill_process_group(group, Signal::KILL);
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// Reads until the program has ended, or must be ended.
    pub(super) fn follow(&mut self, started: Instant, limits: &Limits<'_>) -> io::Result<End> {
        let deadline = limits.timeout.and_then(|timeout| started.checked_add(timeout));
        loop {
            if limits.stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return Ok(End::Stopped);
            }
            let now = Instant::now();
            let left = deadline.map_or(TICK, |deadline| deadline.saturating_duration_since(now));
            if left.is_zero() {
                return Ok(End::TimedOut);
            }
            let exited = self.wait_for_something(left.min(TICK))?;
            if let Some(which) = self.read_available()? {
                return Ok(End::Overflowed(which));
            }
            if exited {
                return self.drain();
            }
        }
    }

    /// The program has ended; read on until its pipes are closed, for a moment.
    fn drain(&mut self) -> io::Result<End> {
        let until = Instant::now() + DRAIN;
        while self.pipes.iter().any(Option::is_some) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.wait_for_pipes(left)?;
            if let Some(which) = self.read_available()? {
                return Ok(End::Overflowed(which));
            }
        }
        Ok(End::Exited)
    }

    /// Ends what is left of the group and reaps the program. `None`: it would not die. `init` is the process of a
    /// sandbox that takes everything in it along: the program itself ends only after that.
    pub(super) fn finish(
        &mut self,
        grace: Duration,
        exited: bool,
        init: Option<Pid>,
    ) -> Option<io::Result<ExitStatus>> {
        if !exited {
            let _ = rustix::process::kill_process_group(self.group, Signal::TERM);
            // Its last words are read (and bounded) so that it can't hang on a full pipe instead of ending.
            let until = Instant::now() + grace;
            while let left = until.saturating_duration_since(Instant::now())
                && !left.is_zero()
                && !matches!(self.wait_for_something(left.min(TICK)), Ok(true))
            {
                let _ = self.read_available();
            }
            // The keeper of a sandbox lives until it has seen the init end, so its id is the init's and no one else's.
            if let Some(init) = init
                && !matches!(self.wait_for_something(Duration::ZERO), Ok(true))
            {
                let _ = rustix::process::kill_process(init, Signal::KILL);
                self.pipes = [None, None];
                let _ = self.wait_for_something(REAP);
            }
        }
        let _ = rustix::process::kill_process_group(self.group, Signal::KILL);
        let until = Instant::now() + REAP;
        while let left = until.saturating_duration_since(Instant::now())
            && !left.is_zero()
        {
            self.pipes = [None, None];
            if matches!(self.wait_for_something(left), Ok(true)) {
                return Some(self.child.wait());
            }
        }
        None
    }

    /// Waits for output or for the end of the program; says whether it has ended.
    fn wait_for_something(&self, at_most: Duration) -> io::Result<bool> {
        let mut fds = vec![PollFd::new(&self.pidfd, PollFlags::IN)];
        fds.extend(self.pipes.iter().flatten().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        poll(&mut fds, at_most)?;
        Ok(!fds[0].revents().is_empty())
    }

    fn wait_for_pipes(&self, at_most: Duration) -> io::Result<()> {
        let mut fds: Vec<_> =
            self.pipes.iter().flatten().map(|pipe| PollFd::new(pipe, PollFlags::IN)).collect();
        poll(&mut fds, at_most)
    }

    /// Takes what is in the pipes; says which went past its limit.
    fn read_available(&mut self) -> io::Result<Option<usize>> {
        let mut buffer = [0; 64 << 10];
        for (which, slot) in self.pipes.iter_mut().enumerate() {
            while let Some(pipe) = slot {
                match pipe.read(&mut buffer) {
                    Ok(0) => *slot = None,
                    Ok(count) => {
                        if !self.captures[which].take(&buffer[..count]) {
                            return Ok(Some(which));
                        }
                        // One buffer at a time: a program that never stops printing must not keep this
                        // loop from looking at the clock.
                        break;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(None)
    }
}

fn boxed<T: Pipe + 'static>(pipe: Option<T>) -> Option<Box<dyn Pipe>> {
    pipe.map(|pipe| Box::new(pipe) as Box<dyn Pipe>)
}

fn poll(fds: &mut [PollFd<'_>], at_most: Duration) -> io::Result<()> {
    // Rounded up by the kernel to its own resolution; a wait of years is cut to a day.
    let at_most = at_most.min(Duration::from_secs(86_400));
    let timeout = Timespec { tv_sec: at_most.as_secs() as i64, tv_nsec: i64::from(at_most.subsec_nanos()) };
    match rustix::event::poll(fds, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
