//! The oracle accepts a faithful copy and names each way in which a copy can be unfaithful.

use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::compare::{same_tree, same_tree_except};
use testkit::scratch_fs::{FsKind, ScratchFs};

fn set_time(path: &Path, nanoseconds: i64) {
    let time = Timespec { tv_sec: 1_700_000_000, tv_nsec: nanoseconds };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

fn odd_name() -> &'static OsStr {
    OsStr::from_bytes(b"caf\xE9 \n")
}

/// One of everything.
fn make_tree(root: &Path) {
    fs::create_dir_all(root.join("dir/empty")).unwrap();
    fs::write(root.join("dir/file"), vec![b'x'; 300_000]).unwrap();
    fs::write(root.join(odd_name()), "odd").unwrap();
    fs::write(root.join("linked"), "twice").unwrap();
    fs::hard_link(root.join("linked"), root.join("dir/linked")).unwrap();
    fs::write(root.join("alone"), "twice").unwrap();
    symlink("dir/file", root.join("symlink")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    let mode = Mode::from_raw_mode(0o640);
    rustix::fs::mknodat(CWD, root.join("pipe"), FileType::Fifo, mode, 0).unwrap();
    let null = rustix::fs::makedev(1, 3);
    rustix::fs::mknodat(CWD, root.join("null"), FileType::CharacterDevice, mode, null).unwrap();
    drop(UnixListener::bind(root.join("socket")).unwrap());
    let sparse = File::create(root.join("sparse")).unwrap();
    sparse.set_len(8 << 20).unwrap();
    sparse.write_all_at(b"in the middle", 4 << 20).unwrap();
    rustix::fs::setxattr(root.join("dir"), "user.note", b"value", XattrFlags::empty()).unwrap();
    rustix::fs::lsetxattr(root.join("symlink"), "trusted.note", b"of the link", XattrFlags::empty()).unwrap();
    fs::set_permissions(root.join("dir/file"), fs::Permissions::from_mode(0o4755)).unwrap();
    std::os::unix::fs::lchown(root.join("symlink"), Some(7), Some(8)).unwrap();
    for name in ["symlink", "dangling", "linked", "dir/file", "dir/empty", "dir"] {
        set_time(&root.join(name), 123_456_789);
    }
}

/// Two equal trees, by GNU cp, on a file system that has everything.
struct Trees {
    _scratch: ScratchFs,
    a: PathBuf,
    b: PathBuf,
}

fn equal_trees() -> Trees {
    let scratch = ScratchFs::new(FsKind::Ext4, 64 << 20);
    let (a, b) = (scratch.path().join("a"), scratch.path().join("b"));
    fs::create_dir(&a).unwrap();
    make_tree(&a);
    let copied = Command::new("cp").arg("-a").arg(&a).arg(&b).status().unwrap();
    assert!(copied.success());
    Trees { _scratch: scratch, a, b }
}

#[test]
fn a_faithful_copy_is_the_same() {
    let Trees { a, b, _scratch } = equal_trees();
    same_tree(&a, &b).unwrap();
    same_tree(&b, &a).unwrap();
    same_tree(&a.join("symlink"), &b.join("symlink")).unwrap();
}

#[test]
fn each_difference_is_found_and_named() {
    type Damage = fn(&Path);
    let damages: &[(Damage, &[&str])] = &[
        (|b| fs::remove_file(b.join("alone")).unwrap(), &["alone: a file is missing in the second"]),
        (|b| fs::write(b.join("dir/new"), "").unwrap(), &["dir/new: a file is only in the second"]),
        (
            |b| fs::remove_dir(b.join("dir/empty")).unwrap(),
            &["dir/empty: a directory is missing in the second"],
        ),
        (|b| fs::write(b.join(odd_name()), "0dd").unwrap(), &[r"caf\xe9 \n: content differs from byte 0"]),
        (
            |b| {
                File::options()
                    .write(true)
                    .open(b.join("dir/file"))
                    .unwrap()
                    .write_all_at(b"y", 299_999)
                    .unwrap()
            },
            &["dir/file: content differs from byte 299999"],
        ),
        (|b| fs::write(b.join("alone"), "twice and more").unwrap(), &["alone: size is 5 and 14"]),
        (
            |b| fs::set_permissions(b.join("dir/file"), fs::Permissions::from_mode(0o755)).unwrap(),
            &["dir/file: mode is 104755 and 100755"],
        ),
        (
            |b| std::os::unix::fs::lchown(b.join("symlink"), Some(7), Some(9)).unwrap(),
            &["symlink: owner is 7:8 and 7:9"],
        ),
        (
            |b| set_time(&b.join("symlink"), 123_456_788),
            &["symlink: time of modification is 1700000000.123456789 and 1700000000.123456788"],
        ),
        (|b| set_time(&b.join("dir"), 0), &["dir: time of modification"]),
        (
            |b| rustix::fs::setxattr(b.join("dir"), "user.note", b"other", XattrFlags::empty()).unwrap(),
            &[r#"dir: attribute user.note is "value" and "other""#],
        ),
        (
            |b| rustix::fs::lremovexattr(b.join("symlink"), "trusted.note").unwrap(),
            &[r#"symlink: attribute trusted.note is "of the link" and absent"#],
        ),
        (
            |b| rustix::fs::setxattr(b.join("alone"), "user.new", b"", XattrFlags::empty()).unwrap(),
            &[r#"alone: attribute user.new is absent and """#],
        ),
        (
            |b| {
                fs::remove_file(b.join("linked")).unwrap();
                fs::write(b.join("linked"), "twice").unwrap();
                set_time(&b.join("linked"), 123_456_789);
            },
            &["linked: is one file with dir/linked only in the first"],
        ),
        (
            |b| {
                fs::remove_file(b.join("alone")).unwrap();
                fs::hard_link(b.join("linked"), b.join("alone")).unwrap();
            },
            &["is one file with alone only in the second"],
        ),
        (
            |b| {
                fs::remove_file(b.join("dangling")).unwrap();
                symlink("elsewhere", b.join("dangling")).unwrap();
            },
            &["dangling: target is nowhere and elsewhere"],
        ),
        (
            |b| {
                fs::remove_file(b.join("null")).unwrap();
                let (kind, mode) = (FileType::CharacterDevice, Mode::from_raw_mode(0o640));
                rustix::fs::mknodat(CWD, b.join("null"), kind, mode, rustix::fs::makedev(1, 5)).unwrap();
            },
            &["null: device number"],
        ),
        (
            |b| {
                fs::remove_file(b.join("pipe")).unwrap();
                fs::write(b.join("pipe"), "").unwrap();
            },
            &["pipe: is a pipe and a file"],
        ),
        (
            |b| {
                let sparse = fs::read(b.join("sparse")).unwrap();
                File::options().write(true).open(b.join("sparse")).unwrap().write_all_at(&sparse, 0).unwrap();
            },
            &["sparse: holes take"],
        ),
    ];
    for (damage, expected) in damages {
        let Trees { a, b, _scratch } = equal_trees();
        damage(&b);
        let said = same_tree(&a, &b).expect_err(expected[0]);
        for part in *expected {
            assert!(said.contains(part), "{part:?} is not in:\n{said}");
        }
    }
}

#[test]
fn many_differences_are_counted_and_only_some_are_printed() {
    let Trees { a, b, _scratch } = equal_trees();
    for number in 0..50 {
        fs::write(b.join(format!("new {number}")), "").unwrap();
    }
    set_time(&a, 1);
    set_time(&b, 1);
    let said = same_tree(&a, &b).unwrap_err();
    assert_eq!(said.lines().count(), 22);
    assert!(said.ends_with("and 30 more"), "{said}");
}

#[test]
fn what_is_skipped_is_not_compared_with_all_below_it() {
    let Trees { a, b, _scratch } = equal_trees();
    fs::remove_file(b.join("socket")).unwrap();
    fs::write(b.join("dir/file"), "other").unwrap();
    set_time(&a, 1);
    set_time(&b, 1);
    let skip = |name: &Path, _: &fs::Metadata| name == Path::new("socket") || name == Path::new("dir");
    same_tree(&a, &b).unwrap_err();
    same_tree_except(&a, &b, &skip).unwrap();
}

#[test]
fn trees_that_are_not_there_are_not_the_same() {
    assert!(
        same_tree(Path::new("/nowhere/a"), Path::new("/nowhere/b")).unwrap_err().contains("is in neither")
    );
}
