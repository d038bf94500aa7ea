//! Full, read-only and closed disks; subvolumes; identity; proving; exchanging contents.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common::{FileSystem, Temp, assert_same, let_the_clock_tick, picture, run, settled};
use disk::Error;
use disk::durable::exchange_durably;
use disk::tree::{
    CopyOptions, Depth, Difference, Manifest, Method, VerifyOptions, Warning, copy, free_space, identity,
    measure, remove, same_filesystem, seal, survey, swap_contents, update, verify,
};

fn options() -> CopyOptions {
    CopyOptions { threads: 2, ..CopyOptions::default() }
}

fn fill(root: &Path, files: usize, bytes: usize) {
    for n in 0..files {
        fs::create_dir_all(root.join(format!("d{}", n % 3))).unwrap();
        fs::write(root.join(format!("d{}/f{n}", n % 3)), vec![n as u8; bytes]).unwrap();
    }
}

#[test]
fn a_full_disk_is_told_apart_and_leaves_the_source_untouched() {
    let fs_ = FileSystem::new("ext4", 32);
    let src = fs_.path("data");
    fill(&src, 18, 1 << 20);
    let before = settled(&src);
    let need = measure(&src, &fs_.root, 2, &()).unwrap();
    assert!(need.bytes > free_space(&fs_.root).unwrap().bytes, "{need:?}");
    let error = copy(&src, &fs_.path("copy"), &options(), &()).unwrap_err();
    assert!(error.is_out_of_space(), "{error:?}");
    assert!(fs_.path("copy").exists(), "the part that was made is the caller's to remove");
    remove(&fs_.path("copy")).unwrap();
    assert_same(&before, &picture(&src));
}

#[test]
fn running_out_of_inodes_counts_as_out_of_space() {
    let fs_ = FileSystem::new("ext4", 8);
    let src = fs_.path("data");
    fill(&src, 1200, 1);
    let need = measure(&src, &fs_.root, 2, &()).unwrap();
    assert!(need.inodes > free_space(&fs_.root).unwrap().inodes.unwrap());
    assert!(copy(&src, &fs_.path("copy"), &options(), &()).unwrap_err().is_out_of_space());
}

#[test]
fn a_read_only_disk_and_an_immutable_directory_are_told_apart() {
    let fs_ = FileSystem::new("ext4", 32);
    let (src, closed) = (fs_.path("data"), fs_.path("closed"));
    fill(&src, 3, 10);
    fs::create_dir(&closed).unwrap();
    run("chattr", &["+i", closed.to_str().unwrap()]);
    let error = copy(&src, &closed.join("copy"), &options(), &()).unwrap_err();
    assert!(error.is_denied() && !error.is_read_only(), "{error:?}");
    run("chattr", &["-i", closed.to_str().unwrap()]);
    fs_.remount("ro");
    let error = copy(&src, &fs_.path("copy"), &options(), &()).unwrap_err();
    assert!(error.is_read_only() && !error.is_denied(), "{error:?}");
}

#[test]
fn the_need_is_what_is_written_not_what_it_looks_like() {
    let (xfs, ext4) = (FileSystem::new("xfs", 512), FileSystem::new("ext4", 64));
    for root in [&xfs.root, &ext4.root] {
        let src = root.join("data");
        fill(&src, 30, 100_000);
        fs::File::create(src.join("hole")).unwrap().set_len(1 << 32).unwrap();
        fs::hard_link(src.join("d0/f0"), src.join("again")).unwrap();
    }
    rustix::fs::sync();
    let shared = measure(&xfs.path("data"), &xfs.root, 2, &()).unwrap();
    assert_eq!((shared.method, shared.files), (Method::Reflink, 32));
    assert!(shared.bytes < 100_000, "{shared:?}");
    let written = measure(&ext4.path("data"), &ext4.root, 2, &()).unwrap();
    assert_eq!((written.method, written.files), (Method::PlainCopy, 32));
    assert!((3_000_000..3_300_000).contains(&written.bytes), "{written:?}");
    assert_eq!(written.inodes, 36);
    let names: Vec<_> = fs::read_dir(&xfs.root).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["data"], "the probe is gone");
}

#[test]
fn a_subvolume_is_copied_as_a_snapshot_and_removed_again() {
    let fs_ = FileSystem::new("btrfs", 512);
    let src = fs_.path("data");
    run("btrfs", &["-q", "subvolume", "create", src.to_str().unwrap()]);
    fill(&src, 50, 1000);
    fs::write(src.join(".holdfast-journal"), b"ours").unwrap();
    let before = settled(&src);
    let need = measure(&src, &fs_.root, 2, &()).unwrap();
    assert_eq!(need.method, Method::Snapshot);
    let copied = copy(&src, &fs_.path("copy"), &options(), &()).unwrap();
    assert_eq!((copied.method, copied.manifest), (Method::Snapshot, None));
    assert_same(&before, &picture(&fs_.path("copy")));
    assert!(!fs_.path("copy/.holdfast-journal").exists());
    let manifest = survey(&fs_.path("copy"), 2, &()).unwrap();
    let all = VerifyOptions::default();
    assert_eq!(verify(&fs_.path("copy"), &manifest, Depth::Structure, &all, &()).unwrap(), []);

    fs::write(src.join("d0/f0"), b"newer").unwrap();
    let updated = update(&src, &fs_.path("copy"), &manifest, &options(), &()).unwrap();
    assert_eq!(updated.method, Method::Snapshot);
    assert_eq!(fs::read(fs_.path("copy/d0/f0")).unwrap(), b"newer");
    assert!(same_filesystem(&src, &fs_.path("copy")).unwrap());

    // All roots of subvolumes have one inode number, and still an exchange can be seen.
    let (a, b) = (identity(&src).unwrap(), identity(&fs_.path("copy")).unwrap());
    assert_eq!(a.ino, b.ino);
    assert_ne!(a, b);
    exchange_durably(&src, &fs_.path("copy")).unwrap();
    assert_eq!((identity(&src).unwrap(), identity(&fs_.path("copy")).unwrap()), (b, a));

    remove(&fs_.path("copy")).unwrap();
    assert!(!fs_.path("copy").exists());
}

#[test]
fn a_subvolume_with_another_inside_is_copied_entry_by_entry() {
    let fs_ = FileSystem::new("btrfs", 512);
    let src = fs_.path("data");
    run("btrfs", &["-q", "subvolume", "create", src.to_str().unwrap()]);
    run("btrfs", &["-q", "subvolume", "create", src.join("inner").to_str().unwrap()]);
    fs::write(src.join("inner/file"), b"inside").unwrap();
    let before = settled(&src);
    let copied = copy(&src, &fs_.path("copy"), &options(), &()).unwrap();
    assert!(copied.warnings.iter().any(|w| matches!(w, Warning::SnapshotDeclined { .. })));
    assert!(copied.warnings.iter().any(|w| matches!(w, Warning::Crossed { .. })));
    assert_same(&before, &picture(&fs_.path("copy")));
    remove(&src).unwrap();
    assert!(!src.exists());
}

#[test]
fn verifying_names_every_kind_of_difference() {
    let temp = Temp::new();
    let (src, dst) = (temp.path.join("src"), temp.path.join("dst"));
    fill(&src, 12, 100);
    symlink("a", src.join("link")).unwrap();
    let mut manifest = copy(&src, &dst, &options(), &()).unwrap().manifest.unwrap();
    assert_eq!(seal(&dst, &mut manifest, 2, &()).unwrap(), []);
    let f = |n: u32| dst.join(format!("d{}/f{n}", n % 3));
    let times = |n: u32| fs::metadata(f(n)).unwrap().modified().unwrap();
    fs::remove_file(f(0)).unwrap();
    fs::write(f(1), b"short").unwrap();
    fs::remove_file(f(2)).unwrap();
    fs::create_dir(f(2)).unwrap();
    run("chmod", &["600", f(3).to_str().unwrap()]);
    run("chown", &["5", f(4).to_str().unwrap()]);
    run("touch", &["-d", "2001-01-01", f(5).to_str().unwrap()]);
    // Same length and time, other bytes.
    let before = times(6);
    fs::write(f(6), [0xff; 100]).unwrap();
    fs::File::options().write(true).open(f(6)).unwrap().set_modified(before).unwrap();
    fs::write(dst.join("extra"), b"x").unwrap();
    let found = |depth| {
        let all = verify(&dst, &manifest, depth, &VerifyOptions::default(), &()).unwrap();
        all.into_iter().map(|m| (String::from_utf8(m.path).unwrap(), m.difference)).collect::<Vec<_>>()
    };
    let of = |list: &[(String, Difference)], path: &str| list.iter().find(|m| m.0 == path).map(|m| m.1);
    for depth in [Depth::Structure, Depth::Content] {
        let list = found(depth);
        for (path, difference) in [
            ("d0/f0", Difference::Missing),
            ("d1/f1", Difference::Size),
            ("d2/f2", Difference::Kind),
            ("d0/f3", Difference::Mode),
            ("d1/f4", Difference::Owner),
            ("d2/f5", Difference::Mtime),
            ("extra", Difference::Extra),
        ] {
            assert_eq!(of(&list, path), Some(difference), "{path}");
        }
        assert_eq!(of(&list, "d1/f7"), None);
    }
    assert_eq!(of(&found(Depth::Structure), "d0/f6"), Some(Difference::Touched));
    assert_eq!(of(&found(Depth::Content), "d0/f6"), Some(Difference::Content));
    let few = VerifyOptions { limit: 3, ..VerifyOptions::default() };
    assert_eq!(verify(&dst, &manifest, Depth::Structure, &few, &()).unwrap().len(), 3);
}

#[test]
fn a_copy_of_the_copy_by_hand_is_proven_by_its_content() {
    let temp = Temp::new();
    let (src, dst, again) = (temp.path.join("src"), temp.path.join("dst"), temp.path.join("again"));
    fill(&src, 12, 100);
    let mut manifest = copy(&src, &dst, &options(), &()).unwrap().manifest.unwrap();
    seal(&dst, &mut manifest, 2, &()).unwrap();
    run("cp", &["-a", dst.to_str().unwrap(), again.to_str().unwrap()]);
    let all = VerifyOptions::default();
    assert_eq!(verify(&again, &manifest, Depth::Content, &all, &()).unwrap(), []);
    assert_ne!(verify(&again, &manifest, Depth::Structure, &all, &()).unwrap(), []);
}

#[test]
fn sealing_does_not_vouch_for_what_was_changed_after_the_copy() {
    let temp = Temp::new();
    let (src, dst) = (temp.path.join("src"), temp.path.join("dst"));
    fill(&src, 3, 100);
    let mut manifest = copy(&src, &dst, &options(), &()).unwrap().manifest.unwrap();
    let_the_clock_tick();
    fs::write(dst.join("d1/f1"), [9; 100]).unwrap();
    let found = seal(&dst, &mut manifest, 2, &()).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].path.as_slice(), found[0].difference), (b"d1/f1".as_slice(), Difference::Touched));
    assert!(!manifest.is_sealed());
}

#[test]
fn a_damaged_manifest_is_refused_whatever_byte_is_wrong() {
    let temp = Temp::new();
    let (src, file) = (temp.path.join("src"), temp.path.join("manifest"));
    fill(&src, 3, 10);
    let manifest = copy(&src, &temp.path.join("dst"), &options(), &()).unwrap().manifest.unwrap();
    manifest.save(&file).unwrap();
    let good = fs::read(&file).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(&file, &bad).unwrap();
        assert!(matches!(Manifest::load(&file), Err(Error::Damaged { .. })), "byte {at}");
        fs::write(&file, &good[..at]).unwrap();
        assert!(matches!(Manifest::load(&file), Err(Error::Damaged { .. })), "cut at {at}");
    }
    assert_eq!(Manifest::load(&temp.path.join("none")).unwrap(), None);
}

#[test]
fn removing_does_not_follow_links_and_nothing_there_is_fine() {
    let temp = Temp::new();
    let (tree, precious) = (temp.path.join("tree"), temp.path.join("precious"));
    fill(&precious, 3, 10);
    fs::create_dir_all(tree.join("sub")).unwrap();
    symlink(&precious, tree.join("sub/link")).unwrap();
    symlink(&precious, temp.path.join("link")).unwrap();
    remove(&temp.path.join("link")).unwrap();
    remove(&tree).unwrap();
    remove(&tree).unwrap();
    remove(&tree.join("not/even/there")).unwrap();
    assert!(!tree.exists() && precious.join("d0/f0").exists());
}

/// Old and new contents with names on one side only, on both, and reserved ones.
fn swap_stage(dir: &Path) -> (std::path::PathBuf, std::path::PathBuf) {
    let (incoming, outgoing) = (dir.join(".holdfast-incoming"), dir.join(".holdfast-outgoing"));
    fs::create_dir_all(&incoming).unwrap();
    fs::create_dir_all(&outgoing).unwrap();
    for name in ["both", "old-1", "old-2", "zz-both"] {
        fs::write(dir.join(name), "old").unwrap();
    }
    for name in ["a-new", "both", "new-2", "zz-both"] {
        fs::create_dir(incoming.join(name)).unwrap();
        fs::write(incoming.join(name).join("x"), "new").unwrap();
    }
    fs::write(dir.join(".holdfast-journal"), "stays").unwrap();
    (incoming, outgoing)
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|n| !n.starts_with(".holdfast-"));
    names.sort();
    names
}

#[test]
fn contents_are_exchanged_from_wherever_a_crash_left_them_and_only_once() {
    // The calls in their order, as swap_contents makes them; a crash may come after any number of them.
    let old = ["both", "old-1", "old-2", "zz-both"];
    let new = ["a-new", "both", "new-2", "zz-both"];
    for crash in 0..=old.len() + 1 + new.len() {
        let temp = Temp::new();
        let dir = temp.path.join("dir");
        fs::create_dir(&dir).unwrap();
        let (incoming, outgoing) = swap_stage(&dir);
        for step in 0..crash {
            if step < old.len() {
                fs::rename(dir.join(old[step]), outgoing.join(old[step])).unwrap();
            } else if step == old.len() {
                fs::write(incoming.join(".holdfast-swap-emptied"), "").unwrap();
            } else {
                let name = new[step - old.len() - 1];
                fs::rename(incoming.join(name), dir.join(name)).unwrap();
            }
        }
        for again in 0..3 {
            swap_contents(&dir, &incoming, &outgoing).unwrap();
            assert_eq!(names(&dir), new, "after {crash} steps, call {again}");
            assert_eq!(names(&outgoing), old, "after {crash} steps, call {again}");
            assert_eq!(names(&incoming), [] as [&str; 0]);
            assert_eq!(fs::read(dir.join("both/x")).unwrap(), b"new");
            assert_eq!(fs::read(outgoing.join("both")).unwrap(), b"old");
            assert_eq!(fs::read(dir.join(".holdfast-journal")).unwrap(), b"stays");
        }
        remove(&incoming).unwrap();
        swap_contents(&dir, &incoming, &outgoing).unwrap();
        assert_eq!(names(&dir), new, "a call after the incoming directory was removed");
    }
}

#[test]
fn the_contents_of_a_mount_point_are_exchanged_with_its_mode_and_owner() {
    let fs_ = FileSystem::new("xfs", 512);
    let dir = fs_.root.clone();
    let (incoming, outgoing) = swap_stage(&dir);
    run("chmod", &["750", incoming.to_str().unwrap()]);
    run("chown", &["11:12", incoming.to_str().unwrap()]);
    run("chmod", &["711", dir.to_str().unwrap()]);
    swap_contents(&dir, &incoming, &outgoing).unwrap();
    let (here, old) = (&picture(&dir)[Path::new("")], &picture(&outgoing)[Path::new("")]);
    assert_eq!((here.mode & 0o7777, here.owner), (0o750, (11, 12)));
    assert_eq!((old.mode & 0o7777, old.owner), (0o711, (0, 0)));
}

#[test]
fn a_mount_inside_stops_an_exchange_before_anything_moved() {
    let fs_ = FileSystem::new("ext4", 32);
    let dir = fs_.path("dir");
    fs::create_dir(&dir).unwrap();
    let (incoming, outgoing) = swap_stage(&dir);
    fs::create_dir(dir.join("zzz-mounted")).unwrap();
    let mounted = dir.join("zzz-mounted");
    run("mount", &["-t", "tmpfs", "tmpfs", mounted.to_str().unwrap()]);
    let outcome = swap_contents(&dir, &incoming, &outgoing);
    run("umount", &[mounted.to_str().unwrap()]);
    assert!(matches!(outcome, Err(Error::MountPoint { path }) if path == mounted));
    assert_eq!(names(&outgoing), [] as [&str; 0]);
}

#[test]
fn an_exchange_does_not_replace_what_is_already_outgoing() {
    let temp = Temp::new();
    let dir = temp.path.join("dir");
    fs::create_dir(&dir).unwrap();
    let (incoming, outgoing) = swap_stage(&dir);
    fs::write(outgoing.join("both"), "someone else's").unwrap();
    assert!(matches!(swap_contents(&dir, &incoming, &outgoing), Err(Error::Exists { .. })));
    assert_eq!(fs::read(outgoing.join("both")).unwrap(), b"someone else's");
}
