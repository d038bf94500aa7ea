//! The init: the first process of the namespace. It builds the file system, starts the program, counts what it uses,
//! and takes everything down with it at the end.
//!
//! It runs between fork and exec: system calls only, no allocation, nothing that could panic.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags,
    UnmountFlags,
};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};

use super::board::{Exceeded, Stage};
use super::enter::{At, Step};
use super::kernel::{self, NO_DEVICES, NO_SETUID, READ_ONLY};
use super::landlock::Access;
use super::prepare::Prepared;

/// Between two counts.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
const DIRECTORY: Mode = Mode::from_raw_mode(0o755);

impl Prepared {
    /// Returns in the program's process; the init itself never does.
    pub(super) fn init(&mut self) -> Step {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).at(Stage::Rights)?;
        let proc = if self.protections.namespaces && self.take_places()? { self.build_root()? } else { None };
        self.protections.counted = proc.is_some();
        match kernel::fork(0).at(Stage::Fork)? {
            0 => {
                drop(proc);
                self.become_program()
            }
            program => self.watch(program, proc.as_ref()),
        }
    }

    /// Detaches a mount of each place that is shown, before anything is covered by the new root. False: this kernel
    /// can't, or somebody forbids it; there is no private root then, and other walls must do.
    fn take_places(&mut self) -> Result<bool, (Stage, Errno)> {
        match self.detach_places() {
            Ok(()) => Ok(true),
            Err((_, Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP)) => {
                self.shown.iter_mut().for_each(|shown| shown.tree = None);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn detach_places(&mut self) -> Step {
        let ours = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        rustix::mount::mount_change(c"/", ours).at(Stage::Tree)?;
        for shown in &mut self.shown {
            let flags = OpenTreeFlags::OPEN_TREE_CLONE
                | OpenTreeFlags::OPEN_TREE_CLOEXEC
                | OpenTreeFlags::AT_RECURSIVE;
            let tree = rustix::mount::open_tree(CWD, &*shown.place.source, flags).at(Stage::Source)?;
            let set = match shown.place.access {
                Access::Read => READ_ONLY | NO_SETUID | NO_DEVICES,
                Access::Write => NO_SETUID | NO_DEVICES,
                Access::Device => NO_SETUID,
            };
            kernel::restrict_mount(&tree, set, true).at(Stage::Source)?;
            shown.tree = Some(tree);
        }
        Ok(())
    }

    /// A new root that holds the few places that are shown; says where its `/proc` is, if there is one.
    fn build_root(&mut self) -> Result<Option<OwnedFd>, (Stage, Errno)> {
        let root = self.memory_fs(c"0755").at(Stage::Root)?;
        // Any directory that surely exists will do: it is covered in this namespace only.
        move_to(&root, CWD, c"/usr").at(Stage::Root)?;
        for name in &self.own_directories {
            directory(&root, name).at(Stage::Root)?;
        }
        move_to(&self.memory_fs(c"1777").at(Stage::Root)?, &root, c"tmp").at(Stage::Root)?;
        for (text, at, parents) in &self.links {
            for parent in parents {
                directory(&root, parent).at(Stage::Place)?;
            }
            existing(rustix::fs::symlinkat(&**text, &root, &**at)).at(Stage::Place)?;
        }
        for shown in &mut self.shown {
            let Some(tree) = shown.tree.take() else { continue };
            for parent in &shown.place.parents {
                directory(&root, parent).at(Stage::Place)?;
            }
            if shown.place.is_file {
                let mode = Mode::from_raw_mode(0o444);
                existing(rustix::fs::mknodat(&root, &*shown.place.at, FileType::RegularFile, mode, 0))
                    .at(Stage::Place)?;
            } else {
                directory(&root, &shown.place.at).at(Stage::Place)?;
            }
            move_to(&tree, &root, &shown.place.at).at(Stage::Place)?;
        }
        let proc = self.mount_proc(&root);
        rustix::process::fchdir(&root).at(Stage::Pivot)?;
        rustix::process::pivot_root(c".", c".").at(Stage::Pivot)?;
        rustix::mount::unmount(c".", UnmountFlags::DETACH).at(Stage::Pivot)?;
        rustix::process::chdir(c"/").at(Stage::Pivot)?;
        kernel::restrict_mount(&root, READ_ONLY, false).at(Stage::Root)?;
        self.protections.private_root = true;
        Ok(proc)
    }

    fn memory_fs(&self, mode: &CStr) -> Result<OwnedFd, Errno> {
        let fs = rustix::mount::fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        rustix::mount::fsconfig_set_string(&fs, c"size", &*self.tmp_size)?;
        rustix::mount::fsconfig_set_string(&fs, c"mode", mode)?;
        rustix::mount::fsconfig_create(&fs)?;
        mounted(&fs)
    }

    /// Some containers forbid it; a program can do without, and its processes are then not counted.
    fn mount_proc(&mut self, root: &OwnedFd) -> Option<OwnedFd> {
        let fs = rustix::mount::fsopen(c"proc", FsOpenFlags::FSOPEN_CLOEXEC).ok()?;
        rustix::mount::fsconfig_create(&fs).ok()?;
        let proc = mounted(&fs).ok()?;
        if let Some(pid_max) = &self.pid_max {
            self.protections.process_ceiling = set(&proc, c"sys/kernel/pid_max", pid_max).is_ok();
        }
        if let Some(shared_memory) = &self.shared_memory {
            let _ = set(&proc, c"sys/kernel/shmall", shared_memory);
        }
        // Settings of the machine are files in there, and root owns them.
        kernel::restrict_mount(&proc, READ_ONLY, false).ok()?;
        move_to(&proc, root, c"proc").ok()?;
        rustix::fs::openat(&proc, c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .ok()
    }

    fn watch(&self, program: i32, proc: Option<&OwnedFd>) -> ! {
        [Signal::TERM, Signal::INT, Signal::HUP]
            .into_iter()
            .for_each(|it| kernel::ignore_signal(it.as_raw()));
        // Programs that fork without end compete with this process for the processors. Without the right to go first, it
        // counts them later.
        let _ = rustix::process::setpriority_process(None, -20);
        let program = Pid::from_raw(program);
        let watched =
            program.and_then(|program| rustix::process::pidfd_open(program, PidfdFlags::empty()).ok());
        self.let_go(proc, watched.as_ref());
        loop {
            match &watched {
                Some(watched) => {
                    let mut fds = [PollFd::new(watched, PollFlags::IN)];
                    let _ = rustix::event::poll(&mut fds, Some(&TICK));
                }
                None => {
                    let _ = rustix::thread::nanosleep(&TICK);
                }
            }
            // Reaps whatever was left to the init; the program's own end is the end of all.
            loop {
                match rustix::process::wait(WaitOptions::NOHANG) {
                    Ok(Some((pid, status))) if Some(pid) == program => {
                        self.board.ended(status.as_raw());
                        kernel::exit(status.exit_status().unwrap_or(1));
                    }
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(Errno::INTR) => {}
                    Err(_) => kernel::exit(1),
                }
            }
            if let Some(exceeded) = proc.and_then(|proc| self.count(proc)) {
                self.board.exceeded(exceeded);
                kernel::exit(1);
            }
        }
    }

    /// Closes all but what the watch needs: whoever waits for the end of the program's output must not wait for this.
    fn let_go(&self, proc: Option<&OwnedFd>, watched: Option<&OwnedFd>) {
        use std::os::fd::AsRawFd;
        let number = |fd: Option<&OwnedFd>| fd.map_or(u32::MAX, |fd| fd.as_raw_fd().unsigned_abs());
        let mut kept = [self.board.number(), number(proc), number(watched)];
        kept.sort_unstable();
        let mut first = 0;
        for keep in kept {
            if keep > first {
                let _ = kernel::close_range(first, keep - 1, 0);
            }
            first = keep.saturating_add(1);
        }
        if first < u32::MAX {
            let _ = kernel::close_range(first, u32::MAX, 0);
        }
    }

    /// What everything in the namespace uses, beside this process, against its limits.
    fn count(&self, proc: &OwnedFd) -> Option<Exceeded> {
        let (mut tasks, mut bytes) = (0_u64, 0_u64);
        rustix::fs::seek(proc, SeekFrom::Start(0)).ok()?;
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut entries = RawDir::new(proc, &mut buffer);
        while let Some(Ok(entry)) = entries.next() {
            let name = entry.file_name().to_bytes();
            if name == b"1" || !name.iter().all(u8::is_ascii_digit) {
                continue;
            }
            // A process that is just ending has neither threads nor memory.
            let mut path = [0; 32];
            if let Some(path) = joined(&mut path, name, b"/task")
                && let Ok(stat) = rustix::fs::statat(proc, path, AtFlags::empty())
            {
                // A directory has a link from each directory in it, and two of its own.
                #[allow(clippy::useless_conversion, reason = "the type differs between architectures")]
                let links = u64::from(stat.st_nlink);
                tasks += links.saturating_sub(2);
            }
            let mut path = [0; 32];
            if self.memory.is_some()
                && let Some(path) = joined(&mut path, name, b"/status")
            {
                bytes = bytes.saturating_add(memory_of(proc, path).unwrap_or(0));
            }
        }
        if self.processes.is_some_and(|limit| tasks > limit.into()) {
            return Some(Exceeded::Processes);
        }
        self.memory.is_some_and(|limit| bytes > limit).then_some(Exceeded::Memory)
    }
}

/// `name` and `end` as one path, in `buffer`.
fn joined<'a>(buffer: &'a mut [u8; 32], name: &[u8], end: &[u8]) -> Option<&'a CStr> {
    buffer.get_mut(..name.len())?.copy_from_slice(name);
    buffer.get_mut(name.len()..name.len() + end.len())?.copy_from_slice(end);
    CStr::from_bytes_until_nul(buffer).ok()
}

/// Memory that a process has for itself or shares with others, in memory or swapped out; not what it maps of files.
const COUNTED: [&[u8]; 3] = [b"RssAnon:", b"RssShmem:", b"VmSwap:"];

fn memory_of(proc: &OwnedFd, path: &CStr) -> Option<u64> {
    let file = rustix::fs::openat(proc, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut text = [0; 4096];
    let length = rustix::io::read(&file, &mut text[..]).ok()?;
    let lines = text.get(..length)?.split(|byte| *byte == b'\n');
    let counted = lines.filter(|line| COUNTED.iter().any(|key| line.starts_with(key)));
    Some(counted.map(kibibytes).fold(0, u64::saturating_add).saturating_mul(1024))
}

/// `RssAnon:      132 kB`
fn kibibytes(line: &[u8]) -> u64 {
    line.iter().filter(|byte| byte.is_ascii_digit()).fold(0, |sum: u64, digit| {
        sum.saturating_mul(10).saturating_add(u64::from(digit.saturating_sub(b'0')))
    })
}

/// A setting of the namespaces of this process.
fn set(proc: &OwnedFd, setting: &CStr, value: &[u8]) -> Result<(), Errno> {
    let file = rustix::fs::openat(proc, setting, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, value).map(drop)
}

fn mounted(fs: &OwnedFd) -> Result<OwnedFd, Errno> {
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    rustix::mount::fsmount(fs, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

fn move_to(mount: &OwnedFd, root: impl AsFd, at: &CStr) -> Result<(), Errno> {
    rustix::mount::move_mount(mount, c"", root, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

fn directory(root: &OwnedFd, at: &CStr) -> Result<(), Errno> {
    existing(rustix::fs::mkdirat(root, at, DIRECTORY))
}

/// What is there already, perhaps as part of something that can't be written, is as good.
fn existing(made: Result<(), Errno>) -> Result<(), Errno> {
    match made {
        Err(Errno::EXIST | Errno::ROFS) => Ok(()),
        other => other,
    }
}
