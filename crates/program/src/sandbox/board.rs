//! Where the processes of a sandbox write down what happened: a few words in a file that has no name.
//!
//! A pipe would do, but somebody has to read a pipe; this can be read when all is over.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::process::Pid;

use super::describe::Protections;

/// What was being done when the kernel said no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Stage {
    Namespaces = 1,
    UserMap,
    Tree,
    Source,
    Root,
    Proc,
    Place,
    Pivot,
    Fork,
    Rlimit,
    Directory,
    Rights,
    Landlock,
    Filter,
    /// Not an error of the kernel: the protections do not suffice.
    Unconfined,
    /// Whoever started it is gone.
    Orphaned,
}

impl Stage {
    const ALL: [Self; 16] = [
        Self::Namespaces,
        Self::UserMap,
        Self::Tree,
        Self::Source,
        Self::Root,
        Self::Proc,
        Self::Place,
        Self::Pivot,
        Self::Fork,
        Self::Rlimit,
        Self::Directory,
        Self::Rights,
        Self::Landlock,
        Self::Filter,
        Self::Unconfined,
        Self::Orphaned,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Namespaces => "make namespaces for it",
            Self::UserMap => "make a user namespace for it",
            Self::Tree => "detach its mounts",
            Self::Source => "open one of the places it may see",
            Self::Root => "make its file system",
            Self::Proc => "mount /proc for it",
            Self::Place => "put one of the places it may see into its file system",
            Self::Pivot => "make its file system the root",
            Self::Fork => "start its process",
            Self::Rlimit => "limit what it may use",
            Self::Directory => "enter its directory",
            Self::Rights => "take its rights away",
            Self::Landlock => "restrict it with Landlock",
            Self::Filter => "filter its system calls",
            Self::Unconfined => "confine it",
            Self::Orphaned => "run it for somebody",
        }
    }
}

/// A limit that the init saw passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exceeded {
    Processes,
    Memory,
}

const FAILURE: u64 = 0;
const STATUS: u64 = 8;
const EXCEEDED: u64 = 16;
const PROTECTIONS: u64 = 24;
const INIT: u64 = 32;
const LENGTH: usize = 40;
const SET: u32 = 1;

pub(crate) struct Board(OwnedFd);

/// What was on the board at the end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub failure: Option<(Stage, i32)>,
    pub status: Option<ExitStatus>,
    pub exceeded: Option<Exceeded>,
    pub protections: Protections,
    /// The process that takes everything with it when it ends.
    pub init: Option<Pid>,
}

impl Board {
    pub(crate) fn new() -> io::Result<Self> {
        const NAME: &CStr = c"holdfast-board";
        let fd = rustix::fs::memfd_create(NAME, MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&fd, LENGTH as u64)?;
        Ok(Self(fd))
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    pub(crate) fn number(&self) -> u32 {
        // A descriptor that is open is not negative.
        self.0.as_raw_fd().unsigned_abs()
    }

    fn write(&self, at: u64, first: u32, second: u32) {
        let mut bytes = [0; 8];
        let (left, right) = bytes.split_at_mut(4);
        left.copy_from_slice(&first.to_ne_bytes());
        right.copy_from_slice(&second.to_ne_bytes());
        let _ = rustix::io::pwrite(&self.0, &bytes, at);
    }

    pub(crate) fn failed(&self, stage: Stage, error: Errno) {
        self.write(FAILURE, stage as u32, error.raw_os_error().cast_unsigned());
    }

    pub(crate) fn ended(&self, status: i32) {
        self.write(STATUS, SET, status.cast_unsigned());
    }

    pub(crate) fn exceeded(&self, what: Exceeded) {
        self.write(EXCEEDED, SET, u32::from(what == Exceeded::Memory));
    }

    pub(crate) fn protected(&self, protections: Protections) {
        self.write(PROTECTIONS, SET, protections.bits());
    }

    pub(crate) fn started(&self, init: i32) {
        self.write(INIT, SET, init.cast_unsigned());
    }

    pub(crate) fn read(&self) -> Report {
        let mut bytes = [0; LENGTH];
        if rustix::io::pread(&self.0, &mut bytes, 0) != Ok(LENGTH) {
            return Report::default();
        }
        let word = |at: u64| {
            let mut word = [0; 4];
            word.copy_from_slice(&bytes[at as usize..at as usize + 4]);
            u32::from_ne_bytes(word)
        };
        let set = |at: u64| (word(at) == SET).then(|| word(at + 4));
        let stage = Stage::ALL.into_iter().find(|stage| *stage as u32 == word(FAILURE));
        Report {
            failure: stage.map(|stage| (stage, word(FAILURE + 4).cast_signed())),
            status: set(STATUS).map(|raw| ExitStatus::from_raw(raw.cast_signed())),
            exceeded: set(EXCEEDED).map(|it| if it == 1 { Exceeded::Memory } else { Exceeded::Processes }),
            protections: set(PROTECTIONS).map(Protections::from_bits).unwrap_or_default(),
            init: set(INIT).and_then(|pid| Pid::from_raw(pid.cast_signed())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_an_empty_board_says_nothing() {
        let board = Board::new().unwrap();
        assert_eq!(board.read(), Report::default());
        let protections = Protections { namespaces: true, landlock: 4, ..Protections::default() };
        let other = board.try_clone().unwrap();
        other.failed(Stage::Orphaned, Errno::PERM);
        other.ended(256 * 3);
        other.exceeded(Exceeded::Memory);
        other.protected(protections);
        let report = board.read();
        assert_eq!(report.failure, Some((Stage::Orphaned, Errno::PERM.raw_os_error())));
        assert_eq!(report.status.unwrap().code(), Some(3));
        assert_eq!((report.exceeded, report.protections), (Some(Exceeded::Memory), protections));
    }
}
