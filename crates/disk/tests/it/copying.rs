//! Copies on real file systems: everything is kept, whatever it is.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{FileSystem, Temp, assert_same, attributes, picture, run, settled};
use disk::Error;
use disk::tree::{
    ClonePolicy, CopyOptions, Depth, Method, Progress, VerifyOptions, Warning, copy, remove, seal, verify,
};

fn options(threads: usize) -> CopyOptions {
    CopyOptions { threads, ..CopyOptions::default() }
}

/// One of everything that a data directory may hold.
fn one_of_everything(root: &Path) {
    let s = |p: &Path| p.to_str().unwrap().to_owned();
    fs::create_dir_all(root.join("dir/sub/empty")).unwrap();
    fs::write(root.join("file"), b"content").unwrap();
    fs::write(root.join("empty"), b"").unwrap();
    fs::write(root.join("dir/large"), vec![7_u8; 3 << 20]).unwrap();
    fs::write(root.join("dir/setuid"), b"#!").unwrap();
    run("chown", &["1234:4321", &s(&root.join("dir/setuid")), &s(&root.join("dir/sub"))]);
    fs::set_permissions(root.join("dir/setuid"), fs::Permissions::from_mode(0o6755)).unwrap();
    run("setcap", &["cap_net_raw=ep", &s(&root.join("dir/setuid"))]);
    fs::set_permissions(root.join("dir/sub"), fs::Permissions::from_mode(0o3711)).unwrap();
    fs::write(root.join("closed"), b"secret").unwrap();
    fs::set_permissions(root.join("closed"), fs::Permissions::from_mode(0o0)).unwrap();
    fs::write(root.join("wide-open"), b"all").unwrap();
    fs::set_permissions(root.join("wide-open"), fs::Permissions::from_mode(0o666)).unwrap();
    let mut sparse = File::create(root.join("sparse")).unwrap();
    sparse.seek(SeekFrom::Start(5 << 20)).unwrap();
    sparse.write_all(b"in the middle").unwrap();
    sparse.set_len(20 << 20).unwrap();
    File::create(root.join("only-hole")).unwrap().set_len(1 << 30).unwrap();
    fs::hard_link(root.join("file"), root.join("dir/sub/same-file")).unwrap();
    fs::hard_link(root.join("file"), root.join("a-third-name")).unwrap();
    symlink("file", root.join("link")).unwrap();
    symlink("/does/not/exist", root.join("dir/dangling")).unwrap();
    run("chown", &["-h", "77:78", &s(&root.join("link"))]);
    run("touch", &["-h", "-d", "2001-02-03 04:05:06.789", &s(&root.join("link"))]);
    run("mkfifo", &[&s(&root.join("fifo"))]);
    run("mknod", &[&s(&root.join("char")), "c", "1", "3"]);
    run("mknod", &[&s(&root.join("block")), "b", "7", "200"]);
    drop(UnixListener::bind(root.join("socket")).unwrap());
    fs::write(root.join(OsStr::from_bytes(b"not \xff\xfe utf-8\nnor \\ one line")), b"name").unwrap();
    fs::write(root.join(OsStr::from_bytes(&[b'n'; 255])), b"long name").unwrap();
    run("setfattr", &["-n", "user.note", "-v", "kept", &s(&root.join("file"))]);
    run("setfattr", &["-n", "trusted.note", "-v", "kept too", &s(&root.join("dir"))]);
    run("setfattr", &["-h", "-n", "trusted.on-link", "-v", "even here", &s(&root.join("link"))]);
    run("setfattr", &["-n", "trusted.on-fifo", "-v", "and here", &s(&root.join("fifo"))]);
    run("setfacl", &["-m", "u:1234:rwx,g:4321:r", &s(&root.join("file"))]);
    run("setfacl", &["-m", "u:1234:rwx,d:u:1234:rwx,d:o::rx", &s(&root.join("dir"))]);
    run("touch", &["-d", "1999-12-31 23:59:59.123456789", &s(&root.join("dir/sub/empty"))]);
    run("touch", &["-a", "-d", "2005-05-05 05:05:05.5", &s(&root.join("file"))]);
    run("touch", &["-d", "1960-01-01 00:00:00.25", &s(&root.join("empty"))]);
    for name in ["dir", "dir/sub", "."] {
        run("touch", &["-d", "2010-10-10 10:10:10.101010101", &s(&root.join(name))]);
    }
}

fn keeps_everything(kind: &str, threads: usize, expected: Method) {
    let fs_ = FileSystem::new(kind, 512);
    let (src, dst) = (fs_.path("data"), fs_.path("copy"));
    fs::create_dir(&src).unwrap();
    one_of_everything(&src);
    fs::write(src.join(".holdfast-journal"), b"ours").unwrap();
    fs::write(src.join("dir/.holdfast-deeper"), b"not ours").unwrap();
    run("touch", &["-d", "2010-10-10 10:10:10.101010101", src.to_str().unwrap()]);
    let before = settled(&src);
    let copied = copy(&src, &dst, &options(threads), &()).unwrap();
    assert_eq!(copied.method, expected);
    assert_eq!(copied.warnings, []);
    assert_same(&before, &picture(&dst));
    assert_same(&before, &picture(&src));
    assert!(!dst.join(".holdfast-journal").exists());
    assert!(dst.join("dir/.holdfast-deeper").exists());
    for (name, limit) in [("sparse", 1 << 20), ("only-hole", 4096)] {
        let allocated = fs::metadata(dst.join(name)).unwrap().blocks() * 512;
        assert!(allocated <= limit, "{name} takes {allocated} bytes");
    }

    let mut manifest = copied.manifest.unwrap();
    assert_eq!(manifest.entries().len(), before.len());
    let verified = |m: &_, depth| verify(&dst, m, depth, &VerifyOptions::default(), &()).unwrap();
    assert_eq!(verified(&manifest, Depth::Structure), []);
    assert_eq!(seal(&dst, &mut manifest, threads, &()).unwrap(), []);
    assert!(manifest.is_sealed());
    assert_eq!(verified(&manifest, Depth::Content), []);
    let file = fs_.path("manifest");
    manifest.save(&file).unwrap();
    assert_eq!(disk::tree::Manifest::load(&file).unwrap(), Some(manifest));
    remove(&dst).unwrap();
    assert!(!dst.exists());
}

#[test]
fn xfs_shares_content_and_keeps_everything() {
    keeps_everything("xfs", 0, Method::Reflink);
}

#[test]
fn xfs_without_reflink_copies_and_keeps_everything() {
    keeps_everything("xfs-plain", 2, Method::PlainCopy);
}

#[test]
fn ext4_copies_and_keeps_everything() {
    keeps_everything("ext4", 0, Method::PlainCopy);
}

#[test]
fn ext4_on_one_thread_keeps_everything() {
    keeps_everything("ext4", 1, Method::PlainCopy);
}

#[test]
fn btrfs_shares_content_and_keeps_everything() {
    keeps_everything("btrfs", 2, Method::Reflink);
}

#[test]
fn a_copy_to_another_file_system_is_written_out() {
    let (from, to) = (FileSystem::new("xfs", 512), FileSystem::new("ext4", 64));
    let src = from.path("data");
    fs::create_dir(&src).unwrap();
    one_of_everything(&src);
    let before = settled(&src);
    let copied = copy(&src, &to.path("copy"), &options(2), &()).unwrap();
    assert_eq!(copied.method, Method::PlainCopy);
    assert_same(&before, &picture(&to.path("copy")));
}

#[test]
fn a_target_that_exists_is_refused_and_left_alone() {
    let temp = Temp::new();
    let (src, dst) = (temp.path.join("src"), temp.path.join("dst"));
    fs::create_dir_all(&src).unwrap();
    fs::create_dir_all(dst.join("precious")).unwrap();
    assert!(matches!(copy(&src, &dst, &options(2), &()), Err(Error::Exists { .. })));
    assert!(dst.join("precious").exists());
}

#[test]
fn what_the_target_directory_hands_down_does_not_reach_the_copy() {
    let fs_ = FileSystem::new("ext4", 64);
    let (src, above) = (fs_.path("data"), fs_.path("backups"));
    fs::create_dir_all(src.join("dir")).unwrap();
    fs::write(src.join("dir/file"), b"x").unwrap();
    fs::create_dir(&above).unwrap();
    run("setfacl", &["-m", "d:u:1234:rwx", above.to_str().unwrap()]);
    run("chgrp", &["4321", above.to_str().unwrap()]);
    run("chmod", &["2775", above.to_str().unwrap()]);
    copy(&src, &above.join("copy"), &options(2), &()).unwrap();
    assert_same(&picture(&src), &picture(&above.join("copy")));
}

#[test]
fn an_attribute_that_the_target_cannot_keep_is_an_error() {
    let fs_ = FileSystem::new("ext4", 64);
    let (src, ram) = (fs_.path("data"), fs_.path("ram"));
    fs::create_dir_all(&src).unwrap();
    fs::create_dir_all(&ram).unwrap();
    fs::write(src.join("file"), b"x").unwrap();
    run("mount", &["-t", "ramfs", "ramfs", ram.to_str().unwrap()]);
    copy(&src, &ram.join("fine"), &options(1), &()).unwrap();
    run("setfattr", &["-n", "user.note", "-v", "1", src.join("file").to_str().unwrap()]);
    let outcome = copy(&src, &ram.join("copy"), &options(1), &());
    run("umount", &[ram.to_str().unwrap()]);
    assert!(matches!(outcome, Err(Error::AttributeUnsupported { name, .. }) if name == "user.note"));
}

#[test]
fn what_is_mounted_inside_is_copied_with_a_warning_and_never_removed() {
    let (fs_, other) = (FileSystem::new("ext4", 64), FileSystem::new("ext4", 64));
    let src = fs_.path("data");
    let inside = src.join("inside");
    fs::create_dir_all(&inside).unwrap();
    fs::write(other.path("elsewhere"), b"x").unwrap();
    let (a, b) = (other.root.to_str().unwrap(), inside.to_str().unwrap());
    run("mount", &["--bind", a, b]);
    let copied = copy(&src, &fs_.path("copy"), &options(2), &()).unwrap();
    let removed = remove(&src);
    run("umount", &[b]);
    assert_eq!(copied.warnings, [Warning::Crossed { path: inside }]);
    assert_eq!(fs::read(fs_.path("copy/inside/elsewhere")).unwrap(), b"x");
    assert!(matches!(removed, Err(Error::MountPoint { .. })), "{removed:?}");
    assert!(other.path("elsewhere").exists());
}

#[test]
fn a_mount_of_the_same_file_system_is_not_removed_either() {
    let fs_ = FileSystem::new("ext4", 64);
    let (tree, precious) = (fs_.path("tree"), fs_.path("precious"));
    fs::create_dir_all(tree.join("inside")).unwrap();
    fs::create_dir_all(precious.join("deep")).unwrap();
    let inside = tree.join("inside");
    run("mount", &["--bind", precious.to_str().unwrap(), inside.to_str().unwrap()]);
    assert!(disk::tree::is_mount_point(&inside).unwrap());
    assert!(!disk::tree::is_mount_point(&tree).unwrap());
    let removed = remove(&tree);
    run("umount", &[inside.to_str().unwrap()]);
    assert!(matches!(removed, Err(Error::MountPoint { .. })), "{removed:?}");
    assert!(precious.join("deep").exists());
}

#[test]
fn a_tree_deeper_than_any_path_can_be_copied_verified_and_removed() {
    use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
    let temp = Temp::new();
    let (src, dst) = (temp.path.join("src"), temp.path.join("dst"));
    fs::create_dir(&src).unwrap();
    let mut at = openat(CWD, &src, OFlags::DIRECTORY, Mode::empty()).unwrap();
    let name = "d".repeat(60);
    for _ in 0..600 {
        mkdirat(&at, &name, Mode::RWXU).unwrap();
        at = openat(&at, &name, OFlags::DIRECTORY, Mode::empty()).unwrap();
        let file = openat(&at, "file", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
        rustix::io::write(&file, b"deep").unwrap();
    }
    let copied = copy(&src, &dst, &options(2), &()).unwrap();
    assert_eq!(copied.files, 600);
    let mut manifest = copied.manifest.unwrap();
    assert_eq!(manifest.entries().len(), 1201);
    assert_eq!(seal(&dst, &mut manifest, 2, &()).unwrap(), []);
    assert_eq!(verify(&dst, &manifest, Depth::Content, &VerifyOptions::default(), &()).unwrap(), []);
    remove(&dst).unwrap();
    disk::tree::remove_with(&src, 3, &()).unwrap();
    assert!(!src.exists() && !dst.exists());
}

/// Calls back after each piece that was copied.
struct Meddler<F: Fn(u64) + Sync>(F, AtomicU64);

impl<F: Fn(u64) + Sync> Progress for Meddler<F> {
    fn advance(&self, _: u64, bytes: u64) {
        if bytes > 0 {
            (self.0)(self.1.fetch_add(1, Ordering::Relaxed));
        }
    }
}

fn with_meddling(
    setup: impl Fn(&Path),
    meddle: impl Fn(&Path, u64) + Sync,
) -> (Temp, disk::Result<disk::tree::Copied>) {
    let temp = Temp::new();
    let (src, dst) = (temp.path.join("src"), temp.path.join("dst"));
    fs::create_dir(&src).unwrap();
    setup(&src);
    let options = CopyOptions { clone: ClonePolicy::Never, ..options(1) };
    let copied = copy(&src, &dst, &options, &Meddler(|n| meddle(&src, n), AtomicU64::new(0)));
    (temp, copied)
}

fn thirty_two_megabytes(src: &Path) {
    fs::write(src.join("a"), vec![1_u8; 32 << 20]).unwrap();
    fs::write(src.join("b"), b"b").unwrap();
}

#[test]
fn a_file_that_keeps_growing_is_copied_up_to_its_length_at_opening() {
    let (temp, copied) = with_meddling(thirty_two_megabytes, |src, _| {
        let mut file = File::options().append(true).open(src.join("a")).unwrap();
        file.write_all(&vec![2_u8; 16 << 20]).unwrap();
    });
    copied.unwrap();
    assert_eq!(fs::read(temp.path.join("dst/a")).unwrap(), vec![1_u8; 32 << 20]);
}

#[test]
fn a_file_that_shrinks_is_copied_up_to_its_end_with_a_warning() {
    let (temp, copied) = with_meddling(thirty_two_megabytes, |src, n| {
        if n == 0 {
            File::options().write(true).open(src.join("a")).unwrap().set_len(20 << 20).unwrap();
        }
    });
    assert_eq!(copied.unwrap().warnings, [Warning::ChangedWhileCopied { path: temp.path.join("src/a") }]);
    assert_eq!(fs::metadata(temp.path.join("dst/a")).unwrap().len(), 20 << 20);
}

#[test]
fn a_file_that_vanishes_is_an_error_that_names_it() {
    let (temp, copied) = with_meddling(thirty_two_megabytes, |src, _| {
        let _ = fs::remove_file(src.join("b"));
    });
    let error = copied.unwrap_err();
    assert!(matches!(&error, Error::Vanished { path } if *path == temp.path.join("src/b")), "{error:?}");
}

#[test]
fn cancelling_stops_in_the_middle_of_a_large_file() {
    struct Stop(AtomicU64);
    impl Progress for Stop {
        fn advance(&self, _: u64, bytes: u64) {
            self.0.fetch_add(bytes, Ordering::Relaxed);
        }
        fn cancelled(&self) -> bool {
            self.0.load(Ordering::Relaxed) > 0
        }
    }
    let temp = Temp::new();
    let (src, dst) = (temp.path.join("src"), temp.path.join("dst"));
    fs::create_dir(&src).unwrap();
    thirty_two_megabytes(&src);
    let options = CopyOptions { clone: ClonePolicy::Never, ..options(1) };
    assert!(copy(&src, &dst, &options, &Stop(AtomicU64::new(0))).unwrap_err().is_cancelled());
    assert!(fs::metadata(dst.join("a")).unwrap().len() < 32 << 20);
}

/// Blocks of 4 KiB with holes between them: an extent each.
fn shattered(path: &Path, blocks: u64) {
    let file = File::create(path).unwrap();
    for block in (0..blocks).rev() {
        std::os::unix::fs::FileExt::write_all_at(&file, &[block as u8 | 1; 4096], block * 8192).unwrap();
    }
    // Ends within a block.
    file.set_len(blocks * 8192 - 8192 + 1000).unwrap();
    file.sync_all().unwrap();
}

#[test]
fn room_is_kept_for_a_very_fragmented_file_though_it_could_be_shared() {
    let fs_ = FileSystem::new("xfs", 512);
    let src = fs_.path("data");
    fs::create_dir(&src).unwrap();
    shattered(&src.join("database"), 4096);
    fs::write(src.join("ordinary"), vec![3_u8; 1 << 20]).unwrap();
    let need = disk::tree::measure(&src, &fs_.root, 2, &()).unwrap();
    assert_eq!(need.method, Method::Mixed);
    assert!((16 << 20..20 << 20).contains(&need.bytes), "{need:?}");
    assert!(need.least_bytes < 1 << 20, "{need:?}");
    let always = CopyOptions { clone: ClonePolicy::Always, ..options(2) };
    assert_eq!(copy(&src, &fs_.path("shared"), &always, &()).unwrap().method, Method::Reflink);
}

/// Which way is the faster one is up to the machine, and may change in the middle: the copy is the same.
#[test]
fn a_very_fragmented_file_is_copied_whole_whichever_way_is_faster() {
    let fs_ = FileSystem::new("xfs", 1024);
    let src = fs_.path("data");
    fs::create_dir(&src).unwrap();
    shattered(&src.join("database"), 32 << 10);
    let copied = copy(&src, &fs_.path("copy"), &options(2), &()).unwrap();
    println!("{:?}, {} bytes written", copied.method, copied.bytes_written);
    assert_same(&picture(&src), &picture(&fs_.path("copy")));
    let (from, to) = (src.join("database"), fs_.path("copy/database"));
    assert_eq!(fs::metadata(&from).unwrap().blocks(), fs::metadata(&to).unwrap().blocks());
}

#[test]
fn the_source_inside_which_the_target_lies_is_refused() {
    let temp = Temp::new();
    let src = temp.path.join("src");
    fs::create_dir_all(src.join("backups")).unwrap();
    fs::write(src.join("file"), b"x").unwrap();
    let outcome = copy(&src, &src.join("backups/copy"), &options(2), &());
    assert!(matches!(outcome, Err(Error::InsideItself { .. })), "{outcome:?}");
}

#[test]
fn labels_of_security_modules_are_kept_where_the_file_system_takes_them() {
    let fs_ = FileSystem::new("ext4", 64);
    let src = fs_.path("data");
    fs::create_dir(&src).unwrap();
    fs::write(src.join("file"), b"x").unwrap();
    let label = "system_u:object_r:container_file_t:s0";
    run("setfattr", &["-n", "security.selinux", "-v", label, src.join("file").to_str().unwrap()]);
    copy(&src, &fs_.path("copy"), &options(2), &()).unwrap();
    let kept = attributes(&fs_.path("copy/file"));
    assert_eq!(kept.get(b"security.selinux".as_slice()).map(Vec::as_slice), Some(label.as_bytes()));
}
