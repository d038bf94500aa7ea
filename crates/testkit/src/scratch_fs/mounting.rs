//! Loop devices and mounts: attach, mount, unmount, and copy a disk that is in use.
//!
//! The device is given back by the kernel when the mount goes (autoclear), so there is no state between
//! "mounted" and "nothing left" that a panic could leave behind.

use super::image;
use crate::kernel;
use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags};
use rustix::fs::{CWD, FileType, Mode};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long something that is busy may stay so.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(5);

/// The mounts of this thread, and of what it starts, are its own from now on. A sandbox that another test enters at the same
/// time begins with a copy of every mount that it can see, and a file system that is mounted there, too, lives on when it
/// is unmounted here: it would write into an image that was long reset.
fn keep_mounts_to_ourselves() {
    static AT_FIRST: OnceLock<Option<PathBuf>> = OnceLock::new();
    let here = || fs::read_link("/proc/thread-self/ns/mnt").ok();
    if here() != *AT_FIRST.get_or_init(here) {
        return;
    }
    let apart = nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).and_then(|()| {
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        nix::mount::mount(None::<&str>, "/", None::<&str>, private, None::<&str>)
    });
    apart.unwrap_or_else(|error| panic!("cannot have mounts of its own: {error}"));
}

/// Mounts the image and returns the number of its loop device.
pub(super) fn mount(image: &Path, mount_point: &Path, kind: &str) -> u32 {
    keep_mounts_to_ourselves();
    // XFS refuses a second file system with the same id; copies of one image have the same.
    let options = (kind == "xfs").then_some("nouuid");
    let deadline = Instant::now() + PATIENCE;
    loop {
        if kind == "btrfs" {
            // Kernels before 6.4 remember a device by its id after the unmount, and then refuse an older copy.
            let _ = File::open("/dev/btrfs-control")
                .map(|control| kernel::forget_unmounted_btrfs_devices(&control));
        }
        let (number, device) = attach(image);
        let node = loop_node(number);
        match nix::mount::mount(Some(node.as_str()), mount_point, Some(kind), MsFlags::empty(), options) {
            Ok(()) => {
                assert!(!does_direct_io(number), "{node} bypasses the page cache of {}", image.display());
                return number;
            }
            Err(Errno::ENODEV) => {
                panic!("the kernel has no {kind}: load the module {kind}, or boot one that has it")
            }
            // Two copies that are mounted in the same moment may see each other half made.
            Err(Errno::EEXIST | Errno::EBUSY) if Instant::now() < deadline => {}
            Err(error) => panic!("cannot mount {} as {kind}: {error}", image.display()),
        }
        drop(device);
        sleep(PAUSE);
    }
}

/// Binds the image to a free loop device. The returned file keeps the device until it is mounted.
fn attach(image: &Path) -> (u32, File) {
    let both = |path: &Path| File::options().read(true).write(true).open(path);
    let backing = both(image).unwrap_or_else(|error| panic!("cannot open {}: {error}", image.display()));
    let control = both(Path::new("/dev/loop-control"))
        .unwrap_or_else(|error| panic!("cannot open /dev/loop-control: {error}; load the module loop"));
    let deadline = Instant::now() + PATIENCE;
    loop {
        let attempt = kernel::free_loop_number(&control).and_then(|number| {
            let node = loop_node(number);
            if !Path::new(&node).exists() {
                // Where /dev is not kept by the kernel, a new device has no node yet.
                let (kind, mode) = (FileType::BlockDevice, Mode::from_raw_mode(0o600));
                rustix::fs::mknodat(CWD, &node, kind, mode, rustix::fs::makedev(7, number))?;
            }
            let device = both(Path::new(&node))?;
            kernel::bind_loop(&device, &backing)?;
            Ok((number, device))
        });
        match attempt {
            Ok(attached) => return attached,
            // Another thread or process took the device between the question and the answer.
            Err(_) if Instant::now() < deadline => sleep(PAUSE),
            Err(error) => panic!("cannot get a loop device: {error}"),
        }
    }
}

fn loop_node(number: u32) -> String {
    format!("/dev/loop{number}")
}

fn does_direct_io(number: u32) -> bool {
    fs::read_to_string(format!("/sys/block/loop{number}/loop/dio")).is_ok_and(|flag| flag.trim() == "1")
}

/// Unmounts, and waits a while for a process that is on its way out.
pub(super) fn unmount(mount_point: &Path) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match nix::mount::umount2(mount_point, MntFlags::empty()) {
            Ok(()) => return,
            Err(Errno::EBUSY) if Instant::now() < deadline => sleep(PAUSE),
            Err(error) => {
                panic!("cannot unmount {}: {error}{}", mount_point.display(), users_of(mount_point))
            }
        }
    }
}

/// Unmounts without ever failing: for `drop`, where a second panic would abort. As a last resort the
/// mount is only taken out of sight, and goes with the last open file.
pub(super) fn unmount_at_any_price(mount_point: &Path) {
    let deadline = Instant::now() + Duration::from_secs(2);
    loop {
        match nix::mount::umount2(mount_point, MntFlags::empty()) {
            Err(Errno::EBUSY) if Instant::now() < deadline => sleep(PAUSE),
            // Stacked mounts would be a mistake of a test; take them all.
            Ok(()) => {}
            Err(Errno::EBUSY) => {
                let users = users_of(mount_point);
                eprintln!("testkit: {} is busy, unmounted lazily{users}", mount_point.display());
                let _ = nix::mount::umount2(mount_point, MntFlags::MNT_DETACH);
                return;
            }
            Err(_) => return,
        }
    }
}

/// Names the processes that have something open below a path, for the message of a failed unmount.
fn users_of(path: &Path) -> String {
    let mut users = Vec::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        if !process.file_name().as_encoded_bytes()[0].is_ascii_digit() {
            continue;
        }
        let directory = process.path();
        let files =
            fs::read_dir(directory.join("fd")).into_iter().flatten().flatten().map(|entry| entry.path());
        let used = files.chain([directory.join("cwd")]).filter_map(|link| fs::read_link(link).ok());
        for file in used.filter(|file| file.starts_with(path)) {
            let name = fs::read_to_string(directory.join("comm")).unwrap_or_default();
            let pid = process.file_name();
            users.push(format!("; {} ({}) uses {}", name.trim(), pid.to_string_lossy(), file.display()));
        }
    }
    users.concat()
}

/// Copies the backing file of a mounted loop device as it is at one moment: again, if the device was
/// written during the copy, since a copy of two moments is a state that no disk was ever in.
pub(super) fn copy_between_writes(loop_number: u32, from: &Path, to: &Path) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let before = writes_so_far(loop_number);
        image::copy(from, to);
        let after = writes_so_far(loop_number);
        match (before, after) {
            (Ok(Some(before)), Ok(Some(after))) if before == after => return,
            (Err(error), _) | (_, Err(error)) => {
                panic!("cannot read the counters of loop{loop_number}: {error}")
            }
            _ if Instant::now() > deadline => panic!("loop{loop_number} is written without a pause"),
            _ => {}
        }
    }
}

/// How many writes, discards and flushes the device has completed; none while one is under way.
fn writes_so_far(loop_number: u32) -> io::Result<Option<[u64; 3]>> {
    let counters = fs::read_to_string(format!("/sys/block/loop{loop_number}/stat"))?;
    let counters: Vec<u64> = counters.split_whitespace().filter_map(|field| field.parse().ok()).collect();
    let field = |index: usize| counters.get(index).copied().ok_or(io::ErrorKind::InvalidData);
    let (writes, under_way, discards, flushes) = (field(4)?, field(8)?, field(11)?, field(15)?);
    Ok((under_way == 0).then_some([writes, discards, flushes]))
}
