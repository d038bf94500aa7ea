//! Which rights Landlock hands out, by its version. Pure.

use super::kernel::Ruleset;

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEVICE: u64 = 1 << 15;
/// Everything of version 1: the above, and making and removing entries of all kinds.
const FIRST: u64 = (1 << 13) - 1;

const BIND_TCP: u64 = 1;
const CONNECT_TCP: u64 = 1 << 1;
const ABSTRACT_SOCKETS: u64 = 1;
const SIGNALS: u64 = 1 << 1;

/// What a place in the sandbox is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    Device,
}

/// What is forbidden unless a rule allows it.
pub(crate) fn ruleset(version: u32) -> Ruleset {
    let from = |first: u32, rights: u64| if version >= first { rights } else { 0 };
    Ruleset {
        files: FIRST | from(2, REFER) | from(3, TRUNCATE) | from(5, IOCTL_DEVICE),
        network: from(4, BIND_TCP | CONNECT_TCP),
        scoped: from(6, ABSTRACT_SOCKETS | SIGNALS),
    }
}

/// How much of the ruleset a kernel of this version reads.
pub(crate) fn length(version: u32) -> usize {
    match version {
        0..4 => 8,
        4..6 => 16,
        _ => 24,
    }
}

/// The rights on one place; a file has no rights that only directories have.
pub(crate) fn allowed(access: Access, is_file: bool, version: u32) -> u64 {
    let all = ruleset(version).files;
    let rights = match access {
        Access::Read => EXECUTE | READ_FILE | READ_DIR,
        Access::Write => all & !IOCTL_DEVICE,
        Access::Device => READ_FILE | WRITE_FILE | IOCTL_DEVICE,
    };
    let of_a_file = EXECUTE | READ_FILE | WRITE_FILE | TRUNCATE | IOCTL_DEVICE;
    rights & all & if is_file { of_a_file } else { u64::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_never_includes_changing_and_rights_grow_with_the_version() {
        for version in 1..=8 {
            let read = allowed(Access::Read, false, version);
            assert_eq!(read & (WRITE_FILE | TRUNCATE | REFER | 1 << 4 | 1 << 8), 0);
            assert_eq!(read & !ruleset(version).files, 0, "nothing is allowed that is not handled");
            assert_eq!(allowed(Access::Write, true, version) & READ_DIR, 0);
            assert_eq!(ruleset(version).files & !ruleset(version + 1).files, 0);
        }
        assert_eq!(ruleset(1).files, 0x1fff);
        assert_eq!((ruleset(3).network, ruleset(4).network, ruleset(5).scoped), (0, 3, 0));
    }
}
