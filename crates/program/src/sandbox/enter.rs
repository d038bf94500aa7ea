//! The keeper: the process that `run` started and watches. It makes the namespaces, and ends as the init in them ends.
//!
//! It runs between fork and exec: system calls only.

use std::io;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};

use super::board::Stage;
use super::kernel;
use super::prepare::Prepared;

pub(crate) type Step = Result<(), (Stage, Errno)>;

/// Names the stage of an error.
pub(crate) trait At<T> {
    fn at(self, stage: Stage) -> Result<T, (Stage, Errno)>;
}

impl<T> At<T> for Result<T, Errno> {
    fn at(self, stage: Stage) -> Result<T, (Stage, Errno)> {
        self.map_err(|error| (stage, error))
    }
}

const NAMESPACES: libc::c_int =
    libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;

impl Prepared {
    /// Returns in the process that is to become the program, and nowhere else.
    pub(crate) fn enter(&mut self) -> io::Result<()> {
        self.attempt().map_err(|(stage, error)| {
            self.board.failed(stage, error);
            error.into()
        })
    }

    fn attempt(&mut self) -> Step {
        if rustix::process::getppid() != Some(self.parent) {
            return Err((Stage::Orphaned, Errno::SRCH));
        }
        match self.start_init()? {
            0 => self.init(),
            init => self.keep(init),
        }
    }

    /// In new namespaces where that can be had, otherwise as a plain process.
    fn start_init(&mut self) -> Result<i32, (Stage, Errno)> {
        let user = match &self.user {
            Some(user) => kernel::unshare_user().and_then(|()| {
                // A kernel that knows no setgroups file needs no answer in it.
                let _ = write(c"/proc/self/setgroups", b"deny");
                write(c"/proc/self/gid_map", &user.groups)?;
                write(c"/proc/self/uid_map", &user.users)
            }),
            None => Ok(()),
        };
        // Set after the change of user, which clears it.
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).at(Stage::Rights)?;
        if user.is_ok()
            && let Ok(pid) = kernel::fork(NAMESPACES)
        {
            self.protections.namespaces = true;
            return Ok(pid);
        }
        kernel::fork(0).at(Stage::Fork)
    }

    /// Signals are for the program; the keeper ends when there is nothing left to keep.
    fn keep(&self, init: i32) -> ! {
        if self.protections.namespaces {
            self.board.started(init);
        }
        [Signal::TERM, Signal::INT, Signal::HUP]
            .into_iter()
            .for_each(|it| kernel::ignore_signal(it.as_raw()));
        let _ = kernel::close_range(0, u32::MAX, 0);
        loop {
            match rustix::process::waitpid(Pid::from_raw(init), WaitOptions::empty()) {
                Ok(Some((_, status))) => {
                    let killed = || status.terminating_signal().map_or(1, |signal| 128 + signal);
                    kernel::exit(status.exit_status().unwrap_or_else(killed));
                }
                Err(Errno::INTR) | Ok(None) => {}
                Err(_) => kernel::exit(1),
            }
        }
    }
}

pub(crate) fn write(path: &std::ffi::CStr, bytes: &[u8]) -> Result<(), Errno> {
    let file = rustix::fs::openat(CWD, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, bytes).map(drop)
}
