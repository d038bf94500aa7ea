//! The scratch file systems keep what a disk keeps and lose what a power cut loses, on every kind.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};
use testkit::scratch_fs::{FsKind, ScratchFs};

const KINDS: [FsKind; 4] =
    [FsKind::Xfs { reflink: true }, FsKind::Xfs { reflink: false }, FsKind::Ext4, FsKind::Btrfs];

fn is_mount_point(path: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(1) == path.to_str())
}

fn is_backing_a_loop_device(mount_point: &Path) -> bool {
    let directory = mount_point.parent().unwrap().to_str().unwrap().to_owned() + "/";
    fs::read_dir("/sys/block").unwrap().any(|device| {
        let backing = fs::read_to_string(device.unwrap().path().join("loop/backing_file"));
        backing.is_ok_and(|backing| backing.starts_with(&directory))
    })
}

fn write_and_sync(path: &Path, content: &[u8]) {
    let mut file = File::create(path).unwrap();
    file.write_all(content).unwrap();
    file.sync_all().unwrap();
    File::open(path.parent().unwrap()).unwrap().sync_all().unwrap();
}

#[test]
fn a_power_cut_loses_what_was_not_synced_and_keeps_what_was() {
    for kind in KINDS {
        let scratch = ScratchFs::new(kind, kind.smallest());
        write_and_sync(&scratch.path().join("synced"), b"kept");
        fs::write(scratch.path().join("unsynced"), b"lost").unwrap();
        fs::write(scratch.path().join("synced.new"), b"half a replacement").unwrap();
        fs::rename(scratch.path().join("synced"), scratch.path().join("renamed")).unwrap();

        let scratch = scratch.power_cut();
        let unsynced = fs::read(scratch.path().join("unsynced")).unwrap_or_default();
        assert_eq!(unsynced, b"", "{kind:?}: unsynced data survived the power cut");
        let place = ["synced", "renamed"].map(|name| scratch.path().join(name));
        let kept = place.iter().find_map(|path| fs::read(path).ok());
        assert_eq!(kept.as_deref(), Some(&b"kept"[..]), "{kind:?}: synced data was lost");

        // It is a working file system, not a corpse.
        write_and_sync(&scratch.path().join("again"), b"after");
        let scratch = scratch.power_cut();
        assert_eq!(fs::read(scratch.path().join("again")).unwrap(), b"after");
    }
}

#[test]
fn nothing_that_happens_after_the_power_went_off_is_kept() {
    for kind in KINDS {
        let scratch = ScratchFs::new(kind, kind.smallest());
        write_and_sync(&scratch.path().join("before"), b"kept");
        let mut open_file = File::create(scratch.path().join("open")).unwrap();
        open_file.write_all(b"only in memory").unwrap();
        scratch.power_off();
        // XFS and ext4 answer with an error, btrfs does not know yet that its disk is gone.
        let _ = open_file.sync_all();
        drop(open_file);
        let _ = fs::write(scratch.path().join("after"), b"too late");
        let _ = File::open(scratch.path()).and_then(|root| root.sync_all());

        let scratch = scratch.power_cut();
        assert_eq!(fs::read(scratch.path().join("before")).unwrap(), b"kept", "{kind:?}");
        assert_eq!(fs::read(scratch.path().join("open")).unwrap_or_default(), b"", "{kind:?}");
        assert!(!scratch.path().join("after").exists(), "{kind:?}");
    }
}

#[test]
fn an_image_brings_the_same_state_back_any_number_of_times() {
    for kind in KINDS {
        let original = ScratchFs::new(kind, kind.smallest());
        fs::write(original.path().join("state"), b"pristine").unwrap();
        let image = original.snapshot_image();
        assert_eq!(fs::read(original.path().join("state")).unwrap(), b"pristine");

        // Copies live beside each other and beside the original, and do not see each other.
        let copies: Vec<ScratchFs> = (0..3).map(|_| ScratchFs::from_image(&image)).collect();
        for (number, copy) in copies.iter().enumerate() {
            assert_eq!(fs::read(copy.path().join("state")).unwrap(), b"pristine", "{kind:?}");
            write_and_sync(&copy.path().join("state"), format!("copy {number}").as_bytes());
        }
        let copies: Vec<ScratchFs> = copies.into_iter().map(ScratchFs::power_cut).collect();
        for (number, copy) in copies.iter().enumerate() {
            assert_eq!(fs::read_to_string(copy.path().join("state")).unwrap(), format!("copy {number}"));
            let path = copy.path().to_path_buf();
            copy.reset(&image);
            assert_eq!(copy.path(), path);
            assert_eq!(fs::read(copy.path().join("state")).unwrap(), b"pristine", "{kind:?}");
        }
    }
}

#[test]
fn a_mount_goes_with_its_value_even_by_a_panic() {
    let kept = std::sync::Mutex::new(None);
    let result = std::panic::catch_unwind(|| {
        let scratch = ScratchFs::new(FsKind::Ext4, FsKind::Ext4.smallest());
        *kept.lock().unwrap() = Some(scratch.path().to_path_buf());
        assert!(is_mount_point(scratch.path()));
        panic!("on purpose");
    });
    assert!(result.is_err());
    let path = kept.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).unwrap();
    assert!(!is_mount_point(&path));
    assert!(!path.exists());
}

#[test]
fn a_busy_mount_is_taken_out_of_sight_and_leaves_no_loop_device() {
    let scratch = ScratchFs::new(FsKind::Ext4, FsKind::Ext4.smallest());
    let path = scratch.path().to_path_buf();
    let open_file = File::create(path.join("open")).unwrap();
    drop(scratch);
    assert!(!is_mount_point(&path));
    assert!(is_backing_a_loop_device(&path));
    drop(open_file);
    let deadline = Instant::now() + Duration::from_secs(5);
    while is_backing_a_loop_device(&path) {
        assert!(Instant::now() < deadline, "a loop device was left behind");
    }
}

#[test]
fn many_can_be_made_at_the_same_time() {
    // More than the eight loop devices that a machine begins with.
    std::thread::scope(|scope| {
        for number in 0..12 {
            scope.spawn(move || {
                let kind = [FsKind::Ext4, FsKind::Btrfs][number % 2];
                let scratch = ScratchFs::new(kind, kind.smallest());
                write_and_sync(&scratch.path().join("mine"), &[number as u8]);
                let scratch = scratch.power_cut();
                assert_eq!(fs::read(scratch.path().join("mine")).unwrap(), [number as u8]);
            });
        }
    });
}

#[test]
fn a_filled_disk_has_no_room_until_the_filling_is_removed() {
    for kind in KINDS {
        let scratch = ScratchFs::new(kind, kind.smallest());
        let filling = scratch.fill(0);
        let content = vec![7; 4 << 20];
        let refused = fs::write(scratch.path().join("more"), &content)
            .and_then(|()| File::open(scratch.path().join("more"))?.sync_all());
        assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::StorageFull, "{kind:?}");
        // On some there was not even room for the name.
        let _ = fs::remove_file(scratch.path().join("more"));
        fs::remove_file(filling).unwrap();
        fs::write(scratch.path().join("more"), &content).unwrap();

        fs::remove_file(scratch.path().join("more")).unwrap();
        scratch.fill(8 << 20);
        fs::write(scratch.path().join("fits"), &content).unwrap();
        let room = rustix::fs::statvfs(scratch.path()).unwrap();
        let free = room.f_bavail * room.f_frsize;
        assert!(free < 10 << 20, "{kind:?}: {free} bytes are free");
    }
}

#[test]
fn what_a_killed_run_left_behind_is_swept_by_the_next() {
    if std::env::var_os("TESTKIT_DIE_WITH_A_MOUNT").is_some() {
        let scratch = ScratchFs::new(FsKind::Ext4, FsKind::Ext4.smallest());
        println!("left behind: {}", scratch.path().display());
        std::process::abort();
    }
    let this_test = "scratch_fs::what_a_killed_run_left_behind_is_swept_by_the_next";
    let run = |die: bool| {
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        again.args(["--exact", "--nocapture"]);
        if die {
            again.arg(this_test).env("TESTKIT_DIE_WITH_A_MOUNT", "1");
        } else {
            again.arg("scratch_fs::a_mount_goes_with_its_value_even_by_a_panic");
        }
        String::from_utf8_lossy(&again.output().unwrap().stdout).into_owned()
    };
    let printed = run(true);
    let path =
        printed.lines().find_map(|line| line.split_once("left behind: ")).expect("the run died early").1;
    run(false);
    assert!(!is_mount_point(Path::new(path)));
    assert!(!Path::new(path).exists());
}

#[test]
fn power_cuts_are_quick() {
    for kind in KINDS {
        let timed = |name: &str, begin: Instant| {
            let took = begin.elapsed();
            println!("{kind:?}: {name} {:.1} ms", took.as_secs_f64() * 1e3);
            took
        };
        let begin = Instant::now();
        let mut scratch = ScratchFs::new(kind, kind.smallest());
        timed("make and mount", begin);
        fs::write(scratch.path().join("data"), vec![1; 1 << 20]).unwrap();
        let begin = Instant::now();
        let image = scratch.snapshot_image();
        timed("snapshot", begin);
        let mut cuts = Vec::new();
        for number in 0..20 {
            let begin = Instant::now();
            scratch.reset(&image);
            if number == 0 {
                timed("reset", begin);
            }
            write_and_sync(&scratch.path().join(format!("file {number}")), b"content");
            fs::write(scratch.path().join("unsynced"), vec![1; 1 << 20]).unwrap();
            let begin = Instant::now();
            scratch = scratch.power_cut();
            cuts.push(begin.elapsed());
        }
        cuts.sort();
        println!("{kind:?}: power cut, median {:.1} ms, slowest {:.1} ms", ms(cuts[10]), ms(cuts[19]));
        // Several times the target, since the machine may be busy with other tests.
        assert!(cuts[10] < Duration::from_millis(600), "{kind:?}: {cuts:?}");
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
