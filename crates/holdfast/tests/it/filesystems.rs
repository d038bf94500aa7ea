//! Everything a data directory may hold comes back from a backup as it was, on every kind of disk and of mount.
//!
//! Needs root: the disks are real, and so are the devices, owners and capabilities in the data.

use crate::support;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::promise::{Promise, comparable, go_on};
use crate::support::{Boot, Device, Scratch, boot};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps, XattrFlags, lsetxattr, makedev, mkdirat,
    mknodat, openat, utimensat,
};
use testkit::compare::same_tree_except;
use testkit::proof::{self, Kind};
use testkit::sample::Sample;
use testkit::scratch_fs::{FsKind, Image, ScratchFs};
use testkit::trace::Trace;

const V14: &str = "4.14.0";
const B1: Boot = boot("b1", "d1", V14);
const B2: Boot = boot("b2", "d2", V14);
const B3: Boot = boot("b3", "d1", V14);

/// Where data and backups are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Setting {
    Xfs,
    XfsWithoutReflink,
    Ext4,
    Btrfs,
    BtrfsSubvolume,
    /// A disk of its own is mounted at the data directory; the backups are on another.
    MountPoint,
    /// Both are plain directories, of different disks and kinds.
    TwoDisks,
    /// A subvolume, with the backups on another disk.
    SubvolumeAndAnotherDisk,
}

/// Taken apart in this order, so that it goes in the other: first the disks, then the place where one is mounted.
struct Machine {
    _mount_point: Scratch,
    device: Device,
    /// The data's first.
    disks: Vec<ScratchFs>,
}

const LARGE: u64 = 512 << 20;

fn machine(setting: Setting) -> Machine {
    support::require_root();
    let place = Scratch::new();
    let new = |kind: FsKind| ScratchFs::new(kind, LARGE);
    let (xfs, plain) = (FsKind::Xfs { reflink: true }, FsKind::Xfs { reflink: false });
    let side_by_side = |disk: ScratchFs| (Device::below(disk.path()), vec![disk]);
    let (device, disks) = match setting {
        Setting::Xfs => side_by_side(new(xfs)),
        Setting::XfsWithoutReflink => side_by_side(new(plain)),
        Setting::Ext4 => side_by_side(new(FsKind::Ext4)),
        Setting::Btrfs | Setting::BtrfsSubvolume => side_by_side(new(FsKind::Btrfs)),
        Setting::MountPoint => {
            let data = place.0.join("data");
            fs::create_dir(&data).unwrap();
            let empty = new(FsKind::Ext4);
            fs::remove_dir(empty.path().join("lost+found")).unwrap();
            let disks = vec![ScratchFs::from_image_at(&empty.snapshot_image(), &data), new(FsKind::Ext4)];
            (Device::at(&data, &disks[1].path().join("backups")), disks)
        }
        Setting::TwoDisks => {
            let disks = vec![new(xfs), new(FsKind::Ext4)];
            (Device::at(&disks[0].path().join("data"), &disks[1].path().join("backups")), disks)
        }
        Setting::SubvolumeAndAnotherDisk => {
            let disks = vec![new(FsKind::Btrfs), new(xfs)];
            (Device::at(&disks[0].path().join("data"), &disks[1].path().join("backups")), disks)
        }
    };
    if matches!(setting, Setting::BtrfsSubvolume | Setting::SubvolumeAndAnotherDisk) {
        let made = Command::new("btrfs").args(["subvolume", "create"]).arg(&device.data).output();
        assert!(made.expect("btrfs is in the package btrfs-progs").status.success());
    }
    Machine { _mount_point: place, device, disks }
}

impl Setting {
    fn method(self) -> &'static str {
        match self {
            Setting::Xfs | Setting::Btrfs => "reflink",
            Setting::BtrfsSubvolume => "snapshot",
            Setting::XfsWithoutReflink
            | Setting::Ext4
            | Setting::MountPoint
            | Setting::TwoDisks
            | Setting::SubvolumeAndAnotherDisk => "plain-copy",
        }
    }
}

// --- the tree ---------------------------------------------------------------------------------------------------

fn attribute(path: &Path, name: &str, value: &[u8]) {
    lsetxattr(path, name, value, XattrFlags::empty()).unwrap_or_else(|error| panic!("{name}: {error}"));
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn modified(path: &Path, seconds: i64, nanoseconds: i64) {
    let at = Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps { last_access: at, last_modification: at };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

fn acl(path: &Path, rules: &[&str]) {
    let done = Command::new("setfacl").args(rules).arg(path).output();
    let done = done.unwrap_or_else(|error| panic!("setfacl: {error}: install the package acl"));
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// One of everything, always the same.
fn write_everything(root: &Path) {
    fs::create_dir(root).unwrap();
    let at = |name: &str| root.join(name);
    let write = |name: &str, content: &[u8]| {
        fs::write(at(name), content).unwrap();
        at(name)
    };
    write("empty", b"");
    write("block", &[b'b'; 4096]);
    write("large", &b"0123456789abcdef".repeat(200_000));

    drop(UnixListener::bind(at("socket")).unwrap());
    mknodat(CWD, at("fifo"), FileType::Fifo, Mode::from_raw_mode(0o620), 0).unwrap();
    mknodat(CWD, at("null"), FileType::CharacterDevice, Mode::from_raw_mode(0o666), makedev(1, 3)).unwrap();
    mknodat(CWD, at("disk"), FileType::BlockDevice, Mode::from_raw_mode(0o660), makedev(7, 200)).unwrap();

    for directory in ["one", "two", "two/deeper", "without"] {
        fs::create_dir(at(directory)).unwrap();
    }
    write("one/name", b"three names");
    fs::hard_link(at("one/name"), at("two/name")).unwrap();
    fs::hard_link(at("one/name"), at("two/deeper/name")).unwrap();
    fs::hard_link(at("fifo"), at("two/fifo")).unwrap();

    let mut sparse = File::create(at("sparse")).unwrap();
    for position in [0, 20 << 20, (64 << 20) - 5] {
        sparse.seek(SeekFrom::Start(position)).unwrap();
        sparse.write_all(b"data!").unwrap();
    }
    File::create(at("only a hole")).unwrap().set_len(32 << 20).unwrap();

    let file = write("attributes", b"attributes");
    attribute(&file, "user.text", b"text");
    attribute(&file, "user.empty", b"");
    attribute(&file, "user.bytes", &[0, 255, 10, 0]);
    attribute(&file, "trusted.only", b"root sees this");
    attribute(&at("one"), "user.on.a.directory", b"yes");
    lchown(write("capable", b"#!/bin/true\n"), Some(12345), Some(54321)).unwrap();
    mode(&at("capable"), 0o755);
    // Revision 2, effective; cap_net_bind_service permitted.
    let capability = [0x01, 0, 0, 0x02, 0x00, 0x04, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    attribute(&at("capable"), "security.capability", &capability);

    for name in [&b"caf\xe9"[..], b"line\nbreak", b"-rf", b"\xff\xfe", &[b'n'; 255], b" ", b"*?[a]"] {
        fs::write(root.join(OsStr::from_bytes(name)), name).unwrap();
    }
    symlink("nowhere/at/all", at("dangling")).unwrap();
    symlink("/etc/passwd", at("absolute")).unwrap();
    symlink("x".repeat(900), at("long link")).unwrap();
    symlink(OsStr::from_bytes(b"caf\xe9"), at("link to bytes")).unwrap();
    lchown(at("dangling"), Some(77), Some(78)).unwrap();

    lchown(write("of somebody", b"x"), Some(4_294_967_294), Some(1)).unwrap();
    for (name, bits) in [("setuid", 0o4755), ("setgid", 0o2755), ("nothing", 0), ("all", 0o7777)] {
        mode(&write(name, b"x"), bits);
    }
    mode(&at("one"), 0o3775);
    // Only at the top of the data are these guard's own.
    write("without/.holdfast-tmp-1-2", b"not guard's");
    fs::create_dir(at("many")).unwrap();
    for number in 0..300 {
        fs::write(at(&format!("many/{number}")), number.to_string()).unwrap();
    }
    write_deep(root);

    for (name, seconds, nanoseconds) in [
        ("empty", 0, 0),
        ("block", -1, 999_999_999),
        ("large", 1 << 33, 1),
        ("dangling", 981_173_106, 7),
        ("socket", 1, 1),
        ("fifo", 2, 2),
        ("null", 3, 3),
    ] {
        modified(&at(name), seconds, nanoseconds);
    }
    settle(root);
}

/// Everything else gets a fixed time, directories after what is in them.
fn settle(directory: &Path) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let found = fs::symlink_metadata(&path).unwrap();
        if path.file_name().is_some_and(|name| name == "deep") {
            modified(&path, 1_500_000_000, 5);
        } else if found.is_dir() {
            settle(&path);
        } else if found.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age.as_secs() < 86_400)) {
            modified(&path, 1_600_000_000, path.file_name().unwrap().len() as i64);
        }
    }
    modified(directory, 1_650_000_000, 9);
}

/// Apart from all else: XFS shows each ACL as an attribute of its own as well, which no other file system has.
fn write_acls(root: &Path) {
    fs::create_dir(root).unwrap();
    fs::write(root.join("file"), b"acl").unwrap();
    fs::create_dir(root.join("directory")).unwrap();
    acl(&root.join("file"), &["-m", "u:12345:r--,g:54321:rw-,m::rwx"]);
    acl(&root.join("directory"), &["-m", "u:12345:rwx", "-m", "d:u:12345:r-x"]);
}

fn read_acls(root: &Path) -> String {
    let said =
        Command::new("getfacl").args(["-n", "file", "directory", "."]).current_dir(root).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8_lossy(&said.stdout).into_owned()
}

const LEVELS: usize = 30;

/// A path of more than 4096 bytes: it can only be reached step by step.
fn write_deep(root: &Path) {
    let open = |dir: &OwnedFd, name: &str| openat(dir, name, OFlags::DIRECTORY, Mode::empty()).unwrap();
    fs::create_dir(root.join("deep")).unwrap();
    let mut dir: OwnedFd = File::open(root.join("deep")).unwrap().into();
    for _ in 0..LEVELS {
        let name = "d".repeat(200);
        mkdirat(&dir, &name, Mode::from_raw_mode(0o750)).unwrap();
        dir = open(&dir, &name);
    }
    let bottom = openat(&dir, "bottom", OFlags::CREATE | OFlags::WRONLY, Mode::from_raw_mode(0o640)).unwrap();
    File::from(bottom).write_all(b"at the bottom").unwrap();
}

fn read_deep(root: &Path) -> String {
    let mut dir: OwnedFd = File::open(root.join("deep")).unwrap().into();
    for _ in 0..LEVELS {
        dir = openat(&dir, "d".repeat(200), OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    let bottom = openat(&dir, "bottom", OFlags::RDONLY, Mode::empty()).unwrap();
    std::io::read_to_string(File::from(bottom)).unwrap()
}

#[track_caller]
fn same_everything(expected: &Path, found: &Path) {
    // Paths that long are beyond what the oracle can name; it is read step by step instead.
    same_tree_except(expected, found, &|name, _| name == Path::new("deep")).unwrap();
    assert_eq!(read_deep(found), "at the bottom");
}

/// Backed up, destroyed, restored: on this setting, everything is as it was.
fn comes_back(setting: Setting) {
    let Machine { _mount_point, device, disks } = machine(setting);
    let expected = device.outside.0.join("expected");
    write_everything(&expected);
    device.pre_run(B1).ok();
    device.guard(B1, &["run", "--", "true"]).ok();
    write_everything(&device.data.join("tree"));
    write_acls(&device.data.join("acls"));
    let acls = read_acls(&device.data.join("acls"));
    assert!(acls.contains("user:12345:r--") && acls.contains("default:user:12345:r-x"), "{acls}");
    same_everything(&expected, &device.data.join("tree"));
    mode(&device.data, 0o2751);
    lchown(&device.data, Some(12345), Some(54321)).unwrap();
    attribute(&device.data, "user.root", b"of the directory itself");
    device.guard(B1, &["persist-system-health", "--healthy"]).ok();

    let said = device.pre_run(B2).ok();
    let copies = device.copies(B2);
    let [backup] = &copies[..] else { panic!("{copies:?}") };
    assert_eq!(backup.method, setting.method(), "{}", said.stderr);
    same_everything(&expected, &backup.path.join("tree"));
    assert_eq!(read_acls(&backup.path.join("acls")), acls);

    device.guard(B2, &["run", "--", "true"]).ok();
    let removed = Command::new("rm")
        .arg("-rf")
        .args([device.data.join("tree"), device.data.join("acls")])
        .status()
        .unwrap();
    assert!(removed.success());
    fs::write(device.data.join("other"), "of the one that was not healthy").unwrap();
    mode(&device.data, 0o700);
    device.guard(B2, &["persist-system-health", "--unhealthy"]).ok();

    device.pre_run(B3).ok();
    same_everything(&expected, &device.data.join("tree"));
    assert_eq!(read_acls(&device.data.join("acls")), acls);
    assert!(!device.data.join("other").exists());
    let root = fs::metadata(&device.data).unwrap();
    use std::os::unix::fs::MetadataExt;
    assert_eq!((root.mode() & 0o7777, root.uid(), root.gid()), (0o2751, 12345, 54321));
    let mut value = [0; 64];
    let length = rustix::fs::lgetxattr(&device.data, "user.root", &mut value[..]).unwrap();
    assert_eq!(&value[..length], b"of the directory itself");
    let aside = device.copies(B3).into_iter().find(|copy| !copy.is_backup).unwrap();
    assert_eq!(fs::read_to_string(aside.path.join("other")).unwrap(), "of the one that was not healthy");
    device.tidy(B3).unwrap();
    device.guard(B3, &["run", "--", "true"]).ok();
    device.guard(B3, &["persist-system-health", "--healthy"]).ok();
    // Hashes are recorded by now, and the copy holds what it held.
    device.tidy(B3).unwrap();
    let list = device.guard(B3, &["backups", "verify", "-o", "json"]).ok().json();
    assert_eq!(list["items"][0]["depth"], "content", "{list}");
    drop(disks);
}

/// A file that somebody appends to while it is copied: the copy is a beginning of it, and counts as whole.
fn grows(setting: Setting) {
    let Machine { _mount_point, device, disks } = machine(setting);
    device.healthy(B1, 1);
    let growing = device.data.join("growing");
    let line = |number: u64| format!("line {number:>20}\n");
    let stop = AtomicBool::new(false);
    let (began, starts) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = File::options().create(true).append(true).open(&growing).unwrap();
            let mut number = 0;
            while !stop.load(Ordering::Relaxed) && number < 2_000_000 {
                let block: String = (number..number + 100).map(line).collect();
                file.write_all(block.as_bytes()).unwrap();
                number += 100;
                if number == 20_000 {
                    began.send(()).unwrap();
                }
            }
        });
        starts.recv().unwrap();
        let said = device.pre_run(B3);
        stop.store(true, Ordering::Relaxed);
        said.ok();
    });
    let copies = device.copies(B3);
    let [backup] = &copies[..] else { panic!("{copies:?}") };
    let (copied, whole) = (fs::read(backup.path.join("growing")).unwrap(), fs::read(&growing).unwrap());
    let same = copied.iter().zip(&whole).take_while(|(a, b)| a == b).count();
    let rest = &copied[same..];
    // A snapshot may know the length of the file before its last blocks: what btrfs has not written yet is zeros there.
    let unwritten = setting.method() == "snapshot" && rest.iter().all(|byte| *byte == 0);
    assert!(
        rest.is_empty() || unwritten,
        "the copy is no beginning of the file: {} bytes, other from {same}: {:?}",
        copied.len(),
        rest[..rest.len().min(60)].escape_ascii().to_string()
    );
    assert!(same >= 20_000 * line(0).len(), "less than there was when the backup began");
    device.tidy(B3).unwrap();
    // One command brings it back as it was copied.
    device.unhealthy(boot("b4", "d2", V14), 2);
    device.pre_run(boot("b5", "d1", V14)).ok();
    assert_eq!(fs::read(&growing).unwrap(), copied);
    drop(disks);
}

macro_rules! on_every_setting {
    ($($name:ident: $setting:expr;)*) => {
        mod everything_comes_back {
            use super::*;
            $(#[test]
            fn $name() {
                comes_back($setting);
            })*
        }
        mod a_growing_file_is_kept_as_a_beginning_of_it {
            use super::*;
            $(#[test]
            fn $name() {
                grows($setting);
            })*
        }
    };
}

on_every_setting! {
    on_xfs: Setting::Xfs;
    on_xfs_without_reflink: Setting::XfsWithoutReflink;
    on_ext4: Setting::Ext4;
    on_btrfs: Setting::Btrfs;
    on_a_btrfs_subvolume: Setting::BtrfsSubvolume;
    on_a_mount_point: Setting::MountPoint;
    on_two_disks: Setting::TwoDisks;
    on_a_subvolume_and_another_disk: Setting::SubvolumeAndAnotherDisk;
}

// --- cut where a rename is not enough ---------------------------------------------------------------------------

/// Where data can't change places by one rename, every call is a point at which it may stop: by `kill -9`, and by the
/// power of both disks.
fn cut_everywhere(setting: Setting, prepare: fn(&Device), now: Boot, next: &Promise) {
    let Machine { _mount_point, device, disks } = machine(setting);
    prepare(&device);
    let images: Vec<Image> = disks.iter().map(ScratchFs::snapshot_image).collect();
    let roots: Vec<PathBuf> = disks.iter().map(|disk| disk.path().to_owned()).collect();
    let roots: Vec<&Path> = roots.iter().map(PathBuf::as_path).collect();
    let command = || device.command(now, &["pre-run"]);
    let whole = Trace::run(command(), &roots);
    assert!(whole.status.success(), "{}", whole.stderr);
    let (points, expected) = (whole.calls.len(), comparable(&whole.calls));
    assert!(points > 60, "only {points} points");
    let (mut disks, mut broken) = (disks, Vec::new());
    let mut tried = [0, 0];
    for power in [false, true] {
        let sample = Sample::of(format!("filesystems: {setting:?}, {now:?}, power {power}"));
        for n in sample.with_ends(0..points + 1) {
            tried[usize::from(power)] += 1;
            for (disk, image) in disks.iter().zip(&images) {
                disk.reset(image);
            }
            let cut = || disks.iter().filter(|_| power).for_each(ScratchFs::power_off);
            let calls = match Trace::kill_after_doing(command(), &roots, n, cut) {
                Ok(killed) => killed.calls,
                Err(ended) if n == points => ended.calls,
                Err(ended) => panic!("{sample}: ended after {} of {points} calls", ended.calls.len()),
            };
            assert_eq!(comparable(&calls), expected[..n], "other calls than in the whole run, {sample}");
            let then = if power { Boot { id: "n1", ..now } } else { now };
            if power {
                disks = disks.into_iter().map(ScratchFs::power_cut).collect();
            }
            if let Err(why) = go_on(&device, then, None, next) {
                let call = n.checked_sub(1).map_or("before the first call".into(), |n| expected[n].clone());
                broken.push(format!("power {power} at {n} of {points}, {sample}\n   {call}\n   {why}"));
            }
        }
    }
    let [kills, cuts] = tried;
    println!("points: {setting:?}: {}, killed at {kills} and cut at {cuts} of them", points + 1);
    proof::count(Kind::KillPoints, kills);
    proof::count(Kind::PowerCuts, cuts);
    let shown: String = broken.iter().take(8).map(|one| format!("\n- {one}")).collect();
    assert!(broken.is_empty(), "{} broke the promise:{shown}", broken.len());
}

fn rolled_back(device: &Device) {
    device.healthy(B1, 1);
    device.unhealthy(B2, 2);
}

fn staged_over_unhealthy(device: &Device) {
    device.healthy(B1, 1);
    device.unhealthy(boot("b2", "d1", V14), 2);
}

const COMES_BACK: Promise = Promise { vouched: Some(1), kept: &[1, 2], data: &[Some(1)] };
const STARTS_CLEAN: Promise = Promise { vouched: Some(1), kept: &[1, 2], data: &[None] };

#[test]
fn a_cut_in_a_rollback_on_a_mount_point_loses_nothing() {
    cut_everywhere(Setting::MountPoint, rolled_back, B3, &COMES_BACK);
}

#[test]
fn a_cut_in_a_rollback_on_two_disks_loses_nothing() {
    cut_everywhere(Setting::TwoDisks, rolled_back, B3, &COMES_BACK);
}

#[test]
fn a_cut_while_a_mount_point_is_emptied_loses_nothing() {
    cut_everywhere(Setting::MountPoint, staged_over_unhealthy, boot("b3", "d2", V14), &STARTS_CLEAN);
}

#[test]
fn a_cut_while_data_moves_to_another_disk_loses_nothing() {
    cut_everywhere(Setting::TwoDisks, staged_over_unhealthy, boot("b3", "d2", V14), &STARTS_CLEAN);
}
