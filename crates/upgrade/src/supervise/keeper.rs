//! The keeper of a program: a process between the supervisor and the program, which ends all that the program leaves
//! behind. And the few calls about processes that have no safe wrapper.
//!
//! The only module here with `unsafe`. The keeper is a fork of the supervisor that executes nothing: between `fork` and
//! its end it makes system calls only, takes no memory and touches no lock, for its copy of either may be in the middle
//! of something.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process};

/// The children of a process that has one thread.
const MINE: &CStr = c"/proc/thread-self/children";

/// A program that runs, and its keeper.
#[derive(Debug)]
pub struct Kept {
    keeper: Child,
    wire: File,
    pub program: u32,
}

impl Kept {
    /// Starts `command` below a keeper. The keeper has the lock `lock` too, and the program gets `handed`.
    pub fn start(mut command: Command, lock: BorrowedFd<'_>, handed: BorrowedFd<'_>) -> io::Result<Self> {
        let (wire, end) = pipe_with(PipeFlags::CLOEXEC)?;
        let fds = Fds { lock: lock.as_raw_fd(), wire: end.as_raw_fd(), handed: handed.as_raw_fd() };
        let supervisor = std::process::id().cast_signed();
        // SAFETY: `split` makes system calls only, as is asked of what runs between fork and exec. That the process
        // which std knows does not execute, but a child of it, is fine with std: it waits for the pipe of its own to
        // be closed by all, which the keeper does, and later for its child to end, which the keeper is.
        unsafe { command.pre_exec(move || split(supervisor, fds)) };
        let keeper = command.spawn()?;
        drop(end);
        let mut kept = Self { keeper, wire: File::from(wire), program: 0 };
        let mut pid = [0; 4];
        if let Err(error) = kept.wire.read_exact(&mut pid) {
            // Killed before it could say anything: what it has started is not left to itself.
            kept.wait();
            return Err(error);
        }
        kept.program = u32::from_ne_bytes(pid);
        Ok(kept)
    }

    /// Readable when the program has ended, and nothing of it is left.
    pub fn wire(&self) -> &File {
        &self.wire
    }

    /// Asks the program's process group to end.
    pub fn ask(&self) {
        let _ = kill_process(Pid::from_child(&self.keeper), Signal::USR1);
    }

    /// Ends it.
    pub fn end(&self) {
        let _ = kill_process(Pid::from_child(&self.keeper), Signal::TERM);
    }

    /// How the program ended. Waits until it has, and all that was below it.
    pub fn wait(mut self) -> Option<ExitStatus> {
        let mut status = [0; 4];
        let told = self.wire.read_exact(&mut status);
        let _ = self.keeper.wait();
        // Of a keeper that was killed, what it kept is ours now: the first thread's.
        let pid = std::process::id();
        if let Ok(list) = CString::new(format!("/proc/self/task/{pid}/children")) {
            end_children(0, &list);
        }
        told.is_ok().then(|| ExitStatus::from_raw(i32::from_ne_bytes(status)))
    }
}

/// What loses its parent below us becomes our child.
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: sets a flag of this process.
    checked(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) }).map(drop)
}

/// Starts a process that belongs to nobody: in a session of its own, and no child of ours.
pub fn start_detached(mut command: Command) -> io::Result<()> {
    // SAFETY: system calls only, between fork and exec; the process in between ends without running any of ours.
    unsafe {
        command.pre_exec(|| {
            checked(libc::setsid())?;
            match checked(libc::fork())? {
                0 => Ok(()),
                _ => libc::_exit(0),
            }
        });
    }
    command.spawn()?.wait().map(drop)
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

#[derive(Clone, Copy)]
struct Fds {
    lock: RawFd,
    wire: RawFd,
    handed: RawFd,
}

/// In the child of the supervisor, which becomes the keeper. Returns in the child of that, which becomes the program.
fn split(supervisor: libc::pid_t, fds: Fds) -> io::Result<()> {
    // SAFETY: system calls on values of our own; `signals` is initialised by sigemptyset before it is used.
    unsafe {
        let mut signals: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut signals);
        let nothing = signals;
        for signal in [libc::SIGCHLD, libc::SIGTERM, libc::SIGUSR1] {
            libc::sigaddset(&raw mut signals, signal);
        }
        // From here on they wait to be asked for.
        checked(libc::sigprocmask(libc::SIG_SETMASK, &raw const signals, std::ptr::null_mut()))?;
        checked(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM))?;
        // The supervisor may have died before it could be said what to do then.
        if libc::getppid() != supervisor {
            libc::_exit(1);
        }
        checked(libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1))?;
        let keeper = libc::getpid();
        let program = checked(libc::fork())?;
        if program > 0 {
            keep(program, &signals, fds);
        }
        checked(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL))?;
        if libc::getppid() != keeper {
            libc::_exit(1);
        }
        checked(libc::setpgid(0, 0))?;
        checked(libc::sigprocmask(libc::SIG_SETMASK, &raw const nothing, std::ptr::null_mut()))?;
        checked(libc::fcntl(fds.handed, libc::F_SETFD, 0))?;
    }
    Ok(())
}

/// The keeper's life.
fn keep(program: libc::pid_t, signals: &libc::sigset_t, fds: Fds) -> ! {
    // SAFETY: system calls on values of our own.
    unsafe {
        close_all_but(fds.lock, fds.wire);
        libc::chdir(c"/".as_ptr());
        // The program may have ended before its group was its own; then there is nobody to be asked.
        libc::setpgid(program, program);
        tell(fds.wire, program);
        let mut status = 0;
        loop {
            match libc::sigwaitinfo(signals, std::ptr::null_mut()) {
                libc::SIGUSR1 => {
                    libc::kill(-program, libc::SIGTERM);
                }
                libc::SIGTERM => {
                    status = end_children(program, MINE);
                    break;
                }
                libc::SIGCHLD if reap(program, &mut status) => {
                    end_children(0, MINE);
                    break;
                }
                _ => {}
            }
        }
        tell(fds.wire, status);
        libc::_exit(0)
    }
}

/// Whether the program was among those that have ended.
fn reap(program: libc::pid_t, status: &mut libc::c_int) -> bool {
    let mut ended = false;
    loop {
        let mut one = 0;
        // SAFETY: writes to `one`.
        let pid = unsafe { libc::waitpid(-1, &raw mut one, libc::WNOHANG) };
        if pid <= 0 {
            return ended;
        }
        if pid == program {
            *status = one;
            ended = true;
        }
    }
}

/// Kills the children, then theirs, which have become ours, until there are none. How `program` ended, if it is one.
fn end_children(program: libc::pid_t, list: &CStr) -> libc::c_int {
    let mut status = 0;
    loop {
        kill_children(list);
        let mut one = 0;
        // SAFETY: writes to `one`. Whoever is a child now is about to end; a new one comes only with another's end.
        let pid = unsafe { libc::waitpid(-1, &raw mut one, 0) };
        if pid < 0 && io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            return status;
        }
        if pid == program {
            status = one;
        }
    }
}

fn kill_children(list: &CStr) {
    let mut buffer = [0_u8; 4096];
    // SAFETY: reads into a buffer of our own. Only children of ours are in the file, and nobody else waits for them,
    // so that none of the numbers can have become somebody else's.
    unsafe {
        let file = libc::open(list.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return;
        }
        let mut pid: libc::pid_t = 0;
        loop {
            let length = libc::read(file, buffer.as_mut_ptr().cast(), buffer.len());
            let Ok(length @ 1..) = usize::try_from(length) else { break };
            for byte in &buffer[..length] {
                if byte.is_ascii_digit() {
                    pid = pid.wrapping_mul(10).wrapping_add(libc::pid_t::from(byte - b'0'));
                } else if pid > 0 {
                    libc::kill(pid, libc::SIGKILL);
                    pid = 0;
                }
            }
        }
        libc::close(file);
    }
}

fn tell(wire: RawFd, value: libc::c_int) {
    let bytes = value.to_ne_bytes();
    // SAFETY: writes four bytes of our own, which a pipe takes at once or not at all.
    unsafe { libc::write(wire, bytes.as_ptr().cast(), bytes.len()) };
}

fn close_all_but(a: RawFd, b: RawFd) {
    let (low, high) = (a.min(b), a.max(b));
    for (first, last) in [(0, low - 1), (low + 1, high - 1), (high + 1, RawFd::MAX)] {
        if first <= last {
            // SAFETY: closes descriptors that this process does not use any more.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    }
}
