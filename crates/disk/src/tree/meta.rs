//! What the file system says about one entry, in our own types. No decisions here.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FileType, Stat, Timespec, Timestamps};

/// The kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Directory,
    File,
    Symlink,
    Fifo,
    Socket,
    CharDevice,
    BlockDevice,
}

impl Kind {
    pub(crate) fn of(file_type: FileType) -> Option<Kind> {
        Some(match file_type {
            FileType::Directory => Kind::Directory,
            FileType::RegularFile => Kind::File,
            FileType::Symlink => Kind::Symlink,
            FileType::Fifo => Kind::Fifo,
            FileType::Socket => Kind::Socket,
            FileType::CharacterDevice => Kind::CharDevice,
            FileType::BlockDevice => Kind::BlockDevice,
            _ => return None,
        })
    }
}

/// A point in time as file systems keep it: seconds since 1970, which may be negative, and nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Time {
    pub sec: i64,
    pub nsec: u32,
}

impl Time {
    pub(crate) fn now() -> Time {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(d) => Time { sec: d.as_secs() as i64, nsec: d.subsec_nanos() },
            Err(_) => Time::default(),
        }
    }

    pub(crate) fn minus_millis(self, millis: u32) -> Time {
        let nanos = i64::from(self.nsec) - i64::from(millis % 1000) * 1_000_000;
        Time {
            sec: self.sec - i64::from(millis / 1000) - i64::from(nanos < 0),
            nsec: nanos.rem_euclid(1_000_000_000) as u32,
        }
    }

    fn timespec(self) -> Timespec {
        Timespec { tv_sec: self.sec, tv_nsec: self.nsec as _ }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Meta {
    pub kind: Kind,
    /// Permission bits with setuid, setgid and sticky; no kind.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    pub rdev: u64,
    pub nlink: u64,
    pub ino: u64,
    pub dev: u64,
    /// Bytes allocated on disk.
    pub allocated: u64,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
}

// The integer types of `Stat` differ between architectures, so some casts do nothing on this one.
#[allow(clippy::unnecessary_cast)]
impl From<&Stat> for Meta {
    fn from(s: &Stat) -> Meta {
        Meta {
            // What the kernel calls none of the known kinds cannot be opened as a file either.
            kind: Kind::of(FileType::from_raw_mode(s.st_mode)).unwrap_or(Kind::Socket),
            mode: s.st_mode & 0o7777,
            uid: s.st_uid,
            gid: s.st_gid,
            size: s.st_size as u64,
            rdev: s.st_rdev as u64,
            nlink: s.st_nlink as u64,
            ino: s.st_ino as u64,
            dev: s.st_dev as u64,
            allocated: s.st_blocks as u64 * 512,
            atime: Time { sec: s.st_atime as i64, nsec: s.st_atime_nsec as u32 },
            mtime: Time { sec: s.st_mtime as i64, nsec: s.st_mtime_nsec as u32 },
            ctime: Time { sec: s.st_ctime as i64, nsec: s.st_ctime_nsec as u32 },
        }
    }
}

impl Meta {
    pub fn times(&self) -> Timestamps {
        Timestamps { last_access: self.atime.timespec(), last_modification: self.mtime.timespec() }
    }

    /// What a manifest calls size: of a device its number, of a directory nothing.
    pub fn recorded_size(&self) -> u64 {
        match self.kind {
            Kind::File | Kind::Symlink => self.size,
            Kind::CharDevice | Kind::BlockDevice => self.rdev,
            Kind::Directory | Kind::Fifo | Kind::Socket => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Time;

    #[test]
    fn going_back_in_time_borrows_from_the_seconds() {
        assert_eq!(Time { sec: 5, nsec: 0 }.minus_millis(100), Time { sec: 4, nsec: 900_000_000 });
        assert_eq!(Time { sec: 5, nsec: 200_000_000 }.minus_millis(100), Time { sec: 5, nsec: 100_000_000 });
        assert_eq!(Time { sec: 0, nsec: 0 }.minus_millis(1500), Time { sec: -2, nsec: 500_000_000 });
    }
}
