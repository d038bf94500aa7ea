//! Which system calls can change a file, and which of their arguments say which file.
//!
//! A table: the numbers come from the C library for the architecture; calls that only x86_64 has (those
//! without `at`) are apart.

use nix::libc;

/// Where a call says what it works on. Numbers are positions of arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Where {
    /// A path below the directory descriptor, which a null or empty path means itself.
    At {
        directory: usize,
        path: usize,
    },
    /// A path below the working directory.
    Path(usize),
    /// Two of these: source and target.
    TwoAt {
        directories: [usize; 2],
        paths: [usize; 2],
    },
    TwoPaths([usize; 2]),
    /// A text that is not looked up, and the new link that will hold it.
    LinkAt {
        text: usize,
        directory: usize,
        path: usize,
    },
    LinkPath {
        text: usize,
        path: usize,
    },
    /// An open file or directory.
    Descriptor(usize),
    /// Opens with these flags, if they can create or truncate.
    OpenAt {
        directory: usize,
        path: usize,
        flags: usize,
    },
    /// The flags are the first word of a structure.
    OpenAtHow {
        directory: usize,
        path: usize,
        how: usize,
    },
    OpenPath {
        path: usize,
        flags: usize,
    },
    /// An ioctl, if it is one of those that change files.
    Ioctl,
    /// A mapping, if it is shared, writable, and of a file.
    Mapping,
    /// Cannot be told: counts always.
    Anywhere,
    /// Changes files behind the back of the tracer.
    Invisible,
}

use Where::{Anywhere, At, Descriptor, Invisible, Ioctl, LinkAt, Mapping, OpenAt, OpenAtHow, Path, TwoAt};

type Entry = (libc::c_long, &'static str, Where);

const EVERYWHERE: &[Entry] = &[
    (libc::SYS_write, "write", Descriptor(0)),
    (libc::SYS_pwrite64, "pwrite64", Descriptor(0)),
    (libc::SYS_writev, "writev", Descriptor(0)),
    (libc::SYS_pwritev, "pwritev", Descriptor(0)),
    (libc::SYS_pwritev2, "pwritev2", Descriptor(0)),
    (libc::SYS_sendfile, "sendfile", Descriptor(0)),
    (libc::SYS_copy_file_range, "copy_file_range", Descriptor(2)),
    (libc::SYS_splice, "splice", Descriptor(2)),
    (libc::SYS_openat, "openat", OpenAt { directory: 0, path: 1, flags: 2 }),
    (libc::SYS_openat2, "openat2", OpenAtHow { directory: 0, path: 1, how: 2 }),
    (libc::SYS_ioctl, "ioctl", Ioctl),
    (libc::SYS_mmap, "mmap", Mapping),
    (libc::SYS_msync, "msync", Anywhere),
    (libc::SYS_renameat2, "renameat2", TwoAt { directories: [0, 2], paths: [1, 3] }),
    (libc::SYS_linkat, "linkat", TwoAt { directories: [0, 2], paths: [1, 3] }),
    (libc::SYS_symlinkat, "symlinkat", LinkAt { text: 0, directory: 1, path: 2 }),
    (libc::SYS_unlinkat, "unlinkat", At { directory: 0, path: 1 }),
    (libc::SYS_mkdirat, "mkdirat", At { directory: 0, path: 1 }),
    (libc::SYS_mknodat, "mknodat", At { directory: 0, path: 1 }),
    (libc::SYS_fchmod, "fchmod", Descriptor(0)),
    (libc::SYS_fchmodat, "fchmodat", At { directory: 0, path: 1 }),
    (452, "fchmodat2", At { directory: 0, path: 1 }),
    (libc::SYS_fchown, "fchown", Descriptor(0)),
    (libc::SYS_fchownat, "fchownat", At { directory: 0, path: 1 }),
    (libc::SYS_utimensat, "utimensat", At { directory: 0, path: 1 }),
    (libc::SYS_setxattr, "setxattr", Path(0)),
    (libc::SYS_lsetxattr, "lsetxattr", Path(0)),
    (libc::SYS_fsetxattr, "fsetxattr", Descriptor(0)),
    (463, "setxattrat", At { directory: 0, path: 1 }),
    (libc::SYS_removexattr, "removexattr", Path(0)),
    (libc::SYS_lremovexattr, "lremovexattr", Path(0)),
    (libc::SYS_fremovexattr, "fremovexattr", Descriptor(0)),
    (466, "removexattrat", At { directory: 0, path: 1 }),
    (469, "file_setattr", At { directory: 0, path: 1 }),
    (libc::SYS_truncate, "truncate", Path(0)),
    (libc::SYS_ftruncate, "ftruncate", Descriptor(0)),
    (libc::SYS_fallocate, "fallocate", Descriptor(0)),
    (libc::SYS_fsync, "fsync", Descriptor(0)),
    (libc::SYS_fdatasync, "fdatasync", Descriptor(0)),
    (libc::SYS_syncfs, "syncfs", Descriptor(0)),
    (libc::SYS_sync, "sync", Anywhere),
    (libc::SYS_io_submit, "io_submit", Anywhere),
    (libc::SYS_io_uring_setup, "io_uring_setup", Invisible),
];

#[cfg(target_arch = "x86_64")]
const ONLY_HERE: &[Entry] = {
    use Where::{LinkPath, OpenPath, TwoPaths};
    &[
        (libc::SYS_renameat, "renameat", TwoAt { directories: [0, 2], paths: [1, 3] }),
        (libc::SYS_sync_file_range, "sync_file_range", Descriptor(0)),
        (libc::SYS_open, "open", OpenPath { path: 0, flags: 1 }),
        (libc::SYS_creat, "creat", Path(0)),
        (libc::SYS_rename, "rename", TwoPaths([0, 1])),
        (libc::SYS_link, "link", TwoPaths([0, 1])),
        (libc::SYS_symlink, "symlink", LinkPath { text: 0, path: 1 }),
        (libc::SYS_unlink, "unlink", Path(0)),
        (libc::SYS_mkdir, "mkdir", Path(0)),
        (libc::SYS_rmdir, "rmdir", Path(0)),
        (libc::SYS_mknod, "mknod", Path(0)),
        (libc::SYS_chmod, "chmod", Path(0)),
        (libc::SYS_chown, "chown", Path(0)),
        (libc::SYS_lchown, "lchown", Path(0)),
        (libc::SYS_utime, "utime", Path(0)),
        (libc::SYS_utimes, "utimes", Path(0)),
        (libc::SYS_futimesat, "futimesat", At { directory: 0, path: 1 }),
    ]
};
/// By number: the C library's list for aarch64 leaves these out.
#[cfg(target_arch = "aarch64")]
const ONLY_HERE: &[Entry] =
    &[(38, "renameat", TwoAt { directories: [0, 2], paths: [1, 3] }), (84, "sync_file_range", Descriptor(0))];

/// The name of a call that can change files, and where it says which. None: the call cannot.
pub(super) fn mutating(number: i64) -> Option<(&'static str, Where)> {
    let mut entries = EVERYWHERE.iter().chain(ONLY_HERE);
    entries.find(|(entry, ..)| *entry == number).map(|(_, name, place)| (*name, *place))
}

/// The ioctls that change files or their attributes. All are on an open file or directory, and the
/// numbers are the same on x86_64 and aarch64.
pub(super) fn mutating_ioctl(request: u64) -> Option<&'static str> {
    Some(match request & 0xFFFF_FFFF {
        0x4004_9409 => "ioctl(FICLONE)",
        0x4020_940D => "ioctl(FICLONERANGE)",
        0xC018_9436 => "ioctl(FIDEDUPERANGE)",
        0x4008_6602 => "ioctl(FS_IOC_SETFLAGS)",
        0x401C_5820 => "ioctl(FS_IOC_FSSETXATTR)",
        0x5000_9401 => "ioctl(BTRFS_IOC_SNAP_CREATE)",
        0x5000_940E => "ioctl(BTRFS_IOC_SUBVOL_CREATE)",
        0x5000_940F => "ioctl(BTRFS_IOC_SNAP_DESTROY)",
        0x5000_9417 => "ioctl(BTRFS_IOC_SNAP_CREATE_V2)",
        0x5000_9418 => "ioctl(BTRFS_IOC_SUBVOL_CREATE_V2)",
        0x5000_943F => "ioctl(BTRFS_IOC_SNAP_DESTROY_V2)",
        0x4008_941A => "ioctl(BTRFS_IOC_SUBVOL_SETFLAGS)",
        0x4008_9416 => "ioctl(BTRFS_IOC_WAIT_SYNC)",
        0x8008_9418 => "ioctl(BTRFS_IOC_START_SYNC)",
        0x0000_9408 => "ioctl(BTRFS_IOC_SYNC)",
        0xC0C8_9425 => "ioctl(BTRFS_IOC_SET_RECEIVED_SUBVOL)",
        _ => return None,
    })
}
