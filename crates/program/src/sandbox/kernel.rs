//! The few system calls that rustix does not wrap, or that only the caller can know to be safe.
//!
//! The only module with `unsafe`. Each function is one system call, against the kernel's headers of the same name; it
//! must hold no decisions. None of them allocates: they are made between fork and exec.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::{Errno, Result};

fn checked(answer: libc::c_long) -> Result<libc::c_long> {
    if answer < 0 {
        // SAFETY: the address of this thread's errno is always valid.
        return Err(Errno::from_raw_os_error(unsafe { *libc::__errno_location() }));
    }
    Ok(answer)
}

/// Lets `hook` run in the child, between fork and exec.
pub(crate) fn before_exec(
    command: &mut Command,
    hook: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) {
    // SAFETY: what runs in `hook` is this crate's, the sandbox or `run::end_with`, which make system calls only (see the
    // module's invariant): they take no lock and allocate nothing, whatever other threads were doing at the fork.
    unsafe { command.pre_exec(hook) };
}

/// A new process that goes on from here, as `fork`, in the new namespaces of `flags`. 0: this is the new one.
pub(crate) fn fork(flags: libc::c_int) -> Result<i32> {
    // SAFETY: without CLONE_VM and with no stack of its own the child gets a copy of everything, as with fork; it makes
    // system calls only, so that what the C library remembers about its thread does not matter.
    let answer =
        unsafe { libc::syscall(libc::SYS_clone, libc::c_long::from(flags | libc::SIGCHLD), 0, 0, 0, 0) };
    checked(answer).map(|pid| pid as i32)
}

pub(crate) fn unshare_user() -> Result<()> {
    // SAFETY: changes the credentials of this process, which has one thread: it is between fork and exec.
    checked(unsafe { libc::unshare(libc::CLONE_NEWUSER) }.into()).map(drop)
}

pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: ends the process without running anything of it.
    unsafe { libc::_exit(code) }
}

pub(crate) fn ignore_signal(signal: i32) {
    // SAFETY: SIG_IGN runs no code.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

pub(crate) const CLOSE_ON_EXEC: u32 = libc::CLOSE_RANGE_CLOEXEC;

/// Closes the descriptors of a range, or has them closed by exec.
pub(crate) fn close_range(first: u32, last: u32, flags: u32) -> Result<()> {
    if first > last {
        return Ok(());
    }
    // SAFETY: callers are processes that use no descriptor of the range afterwards.
    checked(unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) }).map(drop)
}

#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns: u64,
}

pub(crate) const READ_ONLY: u64 = 0x1;
pub(crate) const NO_SETUID: u64 = 0x2;
pub(crate) const NO_DEVICES: u64 = 0x4;

/// Sets attributes of the mount that `tree` is, and of all below it.
pub(crate) fn restrict_mount(tree: impl AsFd, set: u64, below_too: bool) -> Result<()> {
    let attr = MountAttr { set, clear: 0, propagation: 0, userns: 0 };
    let flags = libc::AT_EMPTY_PATH | if below_too { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: mount_setattr reads a `struct mount_attr` of the given size, and an empty path.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_fd().as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    };
    checked(answer).map(drop)
}

/// Takes a capability out of the bounding set; false: the kernel knows no such number.
pub(crate) fn drop_capability(number: u32) -> Result<bool> {
    // SAFETY: PR_CAPBSET_DROP takes a number.
    match checked(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(number), 0, 0, 0) }.into())
    {
        Ok(_) => Ok(true),
        Err(Errno::INVAL) => Ok(false),
        Err(error) => Err(error),
    }
}

/// `struct landlock_ruleset_attr`; an older kernel takes its beginning.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ruleset {
    pub files: u64,
    pub network: u64,
    pub scoped: u64,
}

#[repr(C, packed)]
struct PathBeneath {
    allowed: u64,
    parent: RawFd,
}

/// The version of Landlock that this kernel has.
pub(crate) fn landlock_version() -> Result<u32> {
    const VERSION: libc::c_ulong = 1;
    // SAFETY: with LANDLOCK_CREATE_RULESET_VERSION the kernel reads nothing.
    let answer = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<Ruleset>(), 0_usize, VERSION)
    };
    checked(answer).map(|version| version as u32)
}

pub(crate) fn landlock_ruleset(rules: &Ruleset, length: usize) -> Result<OwnedFd> {
    let length = length.min(size_of::<Ruleset>());
    // SAFETY: landlock_create_ruleset reads `length` bytes, which are there.
    let answer =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::from_ref(rules), length, 0) };
    // SAFETY: the descriptor is new, and nobody else's.
    checked(answer).map(|fd| unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

pub(crate) fn landlock_allow(ruleset: impl AsFd, beneath: impl AsFd, allowed: u64) -> Result<()> {
    const PATH_BENEATH: libc::c_ulong = 1;
    let rule = PathBeneath { allowed, parent: beneath.as_fd().as_raw_fd() };
    // SAFETY: landlock_add_rule reads a `struct landlock_path_beneath_attr`, which is packed.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_landlock_add_rule,
            ruleset.as_fd().as_raw_fd(),
            PATH_BENEATH,
            &raw const rule,
            0,
        )
    };
    checked(answer).map(drop)
}

pub(crate) fn landlock_restrict(ruleset: impl AsFd) -> Result<()> {
    // SAFETY: takes a descriptor and no flags.
    let answer = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_fd().as_raw_fd(), 0) };
    checked(answer).map(drop)
}

/// Has every system call of this process from now on judged by `filter`.
pub(crate) fn load_filter(filter: &[libc::sock_filter]) -> Result<()> {
    let length = u16::try_from(filter.len()).map_err(|_| Errno::INVAL)?;
    let program = libc::sock_fprog { len: length, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the kernel reads `len` instructions, which are there, and changes none.
    let answer =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) };
    checked(answer).map(drop)
}
