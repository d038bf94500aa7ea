//! An older copy brought up to date is what a new copy would have been.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use crate::common::{FileSystem, Temp, assert_same, let_the_clock_tick, picture, run};
use disk::tree::{CopyOptions, Depth, Manifest, VerifyOptions, copy, remove, seal, update, verify};
use proptest::prelude::*;

fn options(threads: usize) -> CopyOptions {
    CopyOptions { threads, sync: false, ..CopyOptions::default() }
}

/// A change to a tree; paths are picked from a small set so that changes meet.
#[derive(Debug, Clone)]
enum Change {
    Write(u8, u16),
    Directory(u8),
    Link(u8, u8),
    HardLink(u8, u8),
    Fifo(u8),
    Mode(u8, u16),
    Owner(u8, u32),
    Attribute(u8, Option<u8>),
    Acl(u8),
    Rename(u8, u8),
    Remove(u8),
    Touch(u8, u32),
    Overwrite(u8),
}

fn path(root: &Path, n: u8) -> std::path::PathBuf {
    let name = |n: u8| char::from(b'a' + n).to_string();
    match n % 16 {
        n @ 0..5 => root.join(name(n)),
        n @ 5..11 => root.join(name(n % 3)).join(name(n)),
        n => root.join(name(n % 3)).join(name(5 + n % 3)).join(name(n)),
    }
}

/// Does what it can: a change that makes no sense for what is there is left out.
fn apply(root: &Path, change: &Change) {
    let at = |n: u8| path(root, n);
    match *change {
        Change::Write(n, size) => {
            // Opening a FIFO would wait for a reader.
            if !fs::metadata(at(n)).is_ok_and(|m| !m.is_file()) {
                drop(fs::write(at(n), vec![n; size as usize]));
            }
        }
        Change::Directory(n) => drop(fs::create_dir(at(n))),
        Change::Link(n, m) => drop(symlink(path(Path::new("x"), m), at(n))),
        Change::HardLink(n, m) => drop(fs::hard_link(at(n), at(m))),
        Change::Fifo(n) => {
            drop(
                std::process::Command::new("mkfifo").arg(at(n)).stderr(std::process::Stdio::null()).status(),
            );
        }
        Change::Mode(n, mode) if !at(n).is_symlink() => {
            drop(fs::set_permissions(at(n), fs::Permissions::from_mode(u32::from(mode) & 0o7777)));
        }
        Change::Mode(..) => {}
        Change::Owner(n, id) => drop(std::os::unix::fs::lchown(at(n), Some(id), Some(id / 2))),
        Change::Attribute(n, Some(value)) => {
            let flags = rustix::fs::XattrFlags::empty();
            let _ = rustix::fs::lsetxattr(at(n), "trusted.a", &[value], flags);
        }
        Change::Attribute(n, None) => {
            let _ = rustix::fs::lremovexattr(at(n), "trusted.a");
        }
        Change::Acl(n) if at(n).is_dir() && !at(n).is_symlink() => {
            run("setfacl", &["-m", "d:u:55:rwx,u:66:r", at(n).to_str().unwrap()]);
        }
        Change::Acl(_) => {}
        Change::Rename(n, m) => drop(fs::rename(at(n), at(m))),
        Change::Remove(n) => drop(remove(&at(n))),
        Change::Touch(n, seconds) => {
            let time = rustix::fs::Timespec { tv_sec: i64::from(seconds), tv_nsec: 5 };
            let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
            let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
            let _ = rustix::fs::utimensat(rustix::fs::CWD, at(n), &times, flags);
        }
        // The same size, and the time of modification put back: only the change time tells.
        Change::Overwrite(n) => {
            let Ok(meta) = fs::symlink_metadata(at(n)) else { return };
            if meta.is_file() {
                fs::write(at(n), vec![0xee; meta.len() as usize]).unwrap();
                let file = fs::File::options().write(true).open(at(n)).unwrap();
                file.set_modified(meta.modified().unwrap()).unwrap();
            }
        }
    }
}

fn change() -> impl Strategy<Value = Change> {
    let n = || 0..16_u8;
    prop_oneof![
        4 => (n(), 0..20_000_u16).prop_map(|(n, s)| Change::Write(n, s)),
        3 => n().prop_map(Change::Directory),
        1 => (n(), n()).prop_map(|(n, m)| Change::Link(n, m)),
        3 => (n(), n()).prop_map(|(n, m)| Change::HardLink(n, m)),
        1 => n().prop_map(Change::Fifo),
        1 => (n(), any::<u16>()).prop_map(|(n, m)| Change::Mode(n, m)),
        1 => (n(), 0..9999_u32).prop_map(|(n, i)| Change::Owner(n, i)),
        1 => (n(), any::<Option<u8>>()).prop_map(|(n, v)| Change::Attribute(n, v)),
        1 => n().prop_map(Change::Acl),
        2 => (n(), n()).prop_map(|(n, m)| Change::Rename(n, m)),
        2 => n().prop_map(Change::Remove),
        1 => (n(), any::<u32>()).prop_map(|(n, s)| Change::Touch(n, s)),
        2 => n().prop_map(Change::Overwrite),
    ]
}

fn first_changes() -> impl Strategy<Value = Vec<Change>> {
    // Directories first, or hardly anything finds a place.
    let directories = Just((0..3).chain(5..8).map(Change::Directory).collect::<Vec<_>>());
    (directories, prop::collection::vec(change(), 10..40)).prop_map(|(mut a, b)| {
        a.extend(b);
        a
    })
}

fn an_update_equals_a_copy(kind: &str, cases: u32) {
    let fs_ = FileSystem::new(kind, 512);
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let rounds = prop::collection::vec(prop::collection::vec(change(), 0..12), 1..3);
    let strategy = (first_changes(), rounds, 1..4_usize);
    let outcome = runner.run(&strategy, |(first, rounds, threads)| {
        let (src, spare, fresh) = (fs_.path("src"), fs_.path("spare"), fs_.path("fresh"));
        [&src, &spare, &fresh].into_iter().for_each(|p| remove(p).unwrap());
        fs::create_dir(&src).unwrap();
        first.iter().for_each(|c| apply(&src, c));
        let_the_clock_tick();
        let mut manifest = copy(&src, &spare, &options(threads), &()).unwrap().manifest.unwrap();
        for changes in rounds {
            changes.iter().for_each(|c| apply(&src, c));
            // Reading a link for the first time changes its access time; let that be over.
            picture(&src);
            // Publishing renames the tree; the next update must not mind.
            fs::rename(&spare, fs_.path("elsewhere")).unwrap();
            fs::rename(fs_.path("elsewhere"), &spare).unwrap();
            let updated = update(&src, &spare, &manifest, &options(threads), &()).unwrap();
            manifest = updated.manifest.unwrap();
            copy(&src, &fresh, &options(threads), &()).unwrap();
            let mut pictures = (picture(&fresh), picture(&spare));
            // A link whose content is younger than its last access gets a new access time at every look, ours included.
            for seen in
                pictures.0.values_mut().chain(pictures.1.values_mut()).filter(|seen| seen.kind == "link")
            {
                seen.times[0] = (0, 0);
            }
            assert_same(&pictures.0, &pictures.1);
            let all = VerifyOptions::default();
            prop_assert_eq!(verify(&spare, &manifest, Depth::Structure, &all, &()).unwrap(), []);
            remove(&fresh).unwrap();
            let_the_clock_tick();
        }
        Ok(())
    });
    outcome.unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn on_xfs_an_update_of_any_tree_after_any_changes_equals_a_new_copy() {
    an_update_equals_a_copy("xfs", 40);
}

#[test]
fn on_ext4_an_update_of_any_tree_after_any_changes_equals_a_new_copy() {
    an_update_equals_a_copy("ext4", 40);
}

/// Two hundred files, copied long enough after they were made.
fn copied_tree() -> (Temp, Manifest) {
    let temp = Temp::new();
    let src = temp.path.join("src");
    for n in 0..200 {
        fs::create_dir_all(src.join(format!("d{}", n % 5))).unwrap();
        fs::write(src.join(format!("d{}/f{n}", n % 5)), format!("content of {n}")).unwrap();
    }
    let_the_clock_tick();
    let copied = copy(&src, &temp.path.join("spare"), &options(2), &()).unwrap();
    (temp, copied.manifest.unwrap())
}

#[test]
fn what_did_not_change_keeps_its_inode_and_its_hash() {
    let (temp, mut manifest) = copied_tree();
    let (src, spare) = (temp.path.join("src"), temp.path.join("spare"));
    assert_eq!(seal(&spare, &mut manifest, 2, &()).unwrap(), []);
    let inode = |name: &str| fs::metadata(spare.join(name)).unwrap().ino();
    let kept = inode("d1/f1");
    fs::write(src.join("d2/f2"), "other content").unwrap();
    let updated = update(&src, &spare, &manifest, &options(2), &()).unwrap();
    assert_eq!((updated.files, updated.left_alone), (200, 199));
    assert_eq!(inode("d1/f1"), kept);
    let after = updated.manifest.unwrap();
    assert_eq!(after.get(b"d1/f1").unwrap().hash, manifest.get(b"d1/f1").unwrap().hash);
    assert_eq!(after.get(b"d2/f2").unwrap().hash, None);
    assert_eq!(fs::read(spare.join("d2/f2")).unwrap(), b"other content");
}

#[test]
fn a_spare_that_someone_changed_is_put_right() {
    let (temp, manifest) = copied_tree();
    let (src, spare) = (temp.path.join("src"), temp.path.join("spare"));
    fs::write(spare.join("d1/f1"), "rubbish").unwrap();
    fs::remove_file(spare.join("d2/f2")).unwrap();
    fs::write(spare.join("d3/extra"), "rubbish").unwrap();
    fs::create_dir(spare.join("d4/deep")).unwrap();
    update(&src, &spare, &manifest, &options(2), &()).unwrap();
    assert_same(&picture(&src), &picture(&spare));
}

#[test]
fn a_file_changed_just_before_the_copy_is_not_trusted_to_be_unchanged() {
    let temp = Temp::new();
    let (src, spare) = (temp.path.join("src"), temp.path.join("spare"));
    fs::create_dir(&src).unwrap();
    fs::write(src.join("file"), "x").unwrap();
    let manifest = copy(&src, &spare, &options(1), &()).unwrap().manifest.unwrap();
    let updated = update(&src, &spare, &manifest, &options(1), &()).unwrap();
    assert_eq!(updated.left_alone, 0);
}
