//! The few kernel interfaces that have no safe wrapper: loop devices, the shutdown of a file system, and
//! ptrace. All `unsafe` code of this crate is in this file; each function is as small as its call.
#![allow(unsafe_code)]

use nix::libc;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
/// `_IOR('X', 125, u32)`: XFS_IOC_GOINGDOWN, and EXT4_IOC_SHUTDOWN with the same number.
const GOINGDOWN: libc::Ioctl = 0x8004_587D;
const GOING_FLAGS_NOLOGFLUSH: u32 = 2;
/// `_IOW(0x94, 5, struct btrfs_ioctl_vol_args)`, on /dev/btrfs-control.
const BTRFS_IOC_FORGET_DEV: libc::Ioctl = 0x5000_9405;
const PTRACE_GET_SYSCALL_INFO: libc::c_uint = 0x420e;

/// `struct loop_config` with the `struct loop_info64` inside it.
#[repr(C)]
struct LoopConfig {
    backing_fd: u32,
    block_size: u32,
    device_inode_rdevice_offset_sizelimit: [u64; 5],
    number_encryption_keysize: [u32; 3],
    flags: u32,
    names_and_key: [u8; 160],
    init: [u64; 2],
    reserved: [u64; 8],
}
const _: () = assert!(size_of::<LoopConfig>() == 304);

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The number of a loop device that was free a moment ago. Another process may be faster.
pub fn free_loop_number(control: &File) -> io::Result<u32> {
    // SAFETY: the request takes no argument.
    checked(unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) }).map(|number| number as u32)
}

/// Binds a loop device to a file, buffered (no direct IO), so that what the device was given is in the
/// page cache of the file at once. The device frees itself when its last user goes.
pub fn bind_loop(device: &File, backing: &File) -> io::Result<()> {
    let config = LoopConfig {
        backing_fd: backing.as_raw_fd() as u32,
        block_size: 0,
        device_inode_rdevice_offset_sizelimit: [0; 5],
        number_encryption_keysize: [0; 3],
        flags: LO_FLAGS_AUTOCLEAR,
        names_and_key: [0; 160],
        init: [0; 2],
        reserved: [0; 8],
    };
    // SAFETY: `config` has the layout that LOOP_CONFIGURE reads, and outlives the call.
    checked(unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) }).map(drop)
}

/// Shuts an XFS or ext4 file system down: from now on nothing reaches the device, not even the log.
pub fn shut_down_without_flush(inside: &File) -> io::Result<()> {
    let flags = GOING_FLAGS_NOLOGFLUSH;
    // SAFETY: the request reads one u32, which outlives the call.
    checked(unsafe { libc::ioctl(inside.as_raw_fd(), GOINGDOWN, &raw const flags) }).map(drop)
}

/// Makes btrfs forget every device that is not mounted.
pub fn forget_unmounted_btrfs_devices(control: &File) -> io::Result<()> {
    let all_devices = [0_u8; 4096];
    // SAFETY: the request reads 4096 bytes, which outlive the call; an empty name means all devices.
    checked(unsafe { libc::ioctl(control.as_raw_fd(), BTRFS_IOC_FORGET_DEV, all_devices.as_ptr()) }).map(drop)
}

/// Makes the command stop at its `exec`, traced by the thread that spawns it.
pub fn make_traced(command: &mut Command) {
    let trace_me = || {
        // SAFETY: PTRACE_TRACEME ignores the other arguments.
        let result = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: the closure makes one system call; it neither allocates nor takes a lock.
    unsafe { command.pre_exec(trace_me) };
}

/// Waits for the next event of any tracee of this thread: its id and the raw wait status. None: no
/// tracee is left. (nix cannot express real-time signals, which the C library sends to threads.)
pub fn wait_for_any_tracee() -> Option<(i32, i32)> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is a valid place for the result.
        match unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) } {
            pid if pid > 0 => return Some((pid, status)),
            _ if io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => {}
            _ => return None,
        }
    }
}

/// Follows everything that the tracee starts, and ties all of it to the life of this thread.
pub fn follow_children(tracee: i32) -> io::Result<()> {
    follow(tracee, libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK)
}

/// Follows the threads of the tracee only: other processes that it starts are none of ours.
pub fn follow_threads(tracee: i32) -> io::Result<()> {
    follow(tracee, 0)
}

fn follow(tracee: i32, also: i32) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_EXITKILL
        | also;
    // SAFETY: the request reads `options` as a number.
    let result = unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, tracee, 0, libc::c_long::from(options)) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Lets a stopped tracee run to its next system call, delivering `signal` (0: none). A tracee that was
/// killed meanwhile is no error: its end is reported by the next wait.
pub fn resume_to_next_system_call(tracee: i32, signal: i32) {
    // SAFETY: the request reads `signal` as a number.
    unsafe { libc::ptrace(libc::PTRACE_SYSCALL, tracee, 0, libc::c_long::from(signal)) };
}

/// True if a stop by a stopping signal is the stop of the whole group (the signal was delivered already).
pub fn is_group_stop(tracee: i32) -> bool {
    let mut details = std::mem::MaybeUninit::<libc::siginfo_t>::uninit();
    // SAFETY: `details` is a valid place for the result, which is not read.
    let result = unsafe { libc::ptrace(libc::PTRACE_GETSIGINFO, tracee, 0, details.as_mut_ptr()) };
    result < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL)
}

/// Where a tracee stands at a system-call stop.
#[derive(Debug, Clone, Copy)]
pub enum SystemCallStop {
    Entry { number: i64, arguments: [u64; 6] },
    Exit { failed: bool },
}

/// Reads a system-call stop in the same way on every architecture (Linux 5.3 and later).
pub fn system_call_stop(tracee: i32) -> Option<SystemCallStop> {
    // `struct ptrace_syscall_info`: op in the first byte, two addresses, then what depends on op.
    let mut words = [0_u64; 11];
    // SAFETY: the kernel writes at most `size_of_val(&words)` bytes into `words`.
    let got =
        unsafe { libc::ptrace(PTRACE_GET_SYSCALL_INFO, tracee, size_of_val(&words), words.as_mut_ptr()) };
    if got <= 0 {
        return None;
    }
    let mut arguments = [0; 6];
    arguments.copy_from_slice(&words[4..10]);
    match words[0].to_ne_bytes()[0] {
        1 => Some(SystemCallStop::Entry { number: words[3] as i64, arguments }),
        2 => Some(SystemCallStop::Exit { failed: words[4].to_ne_bytes()[0] != 0 }),
        _ => None,
    }
}
