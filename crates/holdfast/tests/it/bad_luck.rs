//! What goes wrong on real devices: full, read-only and immutable disks, files that can't be read or understood, host
//! programs that fail, hang or chatter, signals, two at once, a clock that jumps. Each ends with the exit code of the
//! product's table, an error that names the thing, a hint, and nothing lost.
//!
//! Needs root: every disk is real.

use crate::support;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Boot, Device, Said, Scratch, boot};
use nix::sys::signal::Signal;
use testkit::compare::same_tree;
use testkit::proof::{self, Kind};
use testkit::sample::Sample;
use testkit::scratch_fs::{FsKind, ScratchFs};
use testkit::trace::Trace;

const V14: &str = "4.14.0";
const V15: &str = "4.15.0";
const B1: Boot = boot("b1", "d1", V14);
const B2: Boot = boot("b2", "d1", V14);
const B3: Boot = boot("b3", "d1", V14);

const BACKUP_FAILED: i32 = 5;
const RESTORE_FAILED: i32 = 6;
const MIGRATION_FAILED: i32 = 7;
const METADATA_DAMAGED: i32 = 8;
const INTERRUPTED: i32 = 11;
const TIMED_OUT: i32 = 13;
const TRY_AGAIN: i32 = 75;

/// The data as it was, to be compared with afterwards: nothing may have touched it.
struct Frozen<'a> {
    device: &'a Device,
    copy: PathBuf,
    backups: Vec<u32>,
}

impl<'a> Frozen<'a> {
    fn of(device: &'a Device, backups: &[u32]) -> Frozen<'a> {
        let copy = device.outside.0.join("frozen");
        let _ = fs::remove_dir_all(&copy);
        let copied = Command::new("cp").arg("-a").arg(&device.data).arg(&copy).status().unwrap();
        assert!(copied.success());
        for generation in backups {
            device.backup_of(B2, *generation);
        }
        Frozen { device, copy, backups: backups.to_vec() }
    }

    #[track_caller]
    fn is_untouched(&self) {
        same_tree(&self.copy, &self.device.data).unwrap();
        // By hand, since the records may be what is damaged: as the backup, or as a generation since.
        let (current, older) = (self.device.backups.join("d1"), self.device.backups.join(".generations/d1"));
        let places: Vec<PathBuf> = support::names(&older).iter().map(|name| older.join(name)).collect();
        for generation in &self.backups {
            let is_kept = |path: &PathBuf| self.device.pristine.same(path, *generation).is_ok();
            assert!(is_kept(&current) || places.iter().any(is_kept), "generation {generation} is lost");
        }
    }
}

/// Generation 1 is backed up, generation 2 is healthy data: the next boot backs it up.
fn two_generations(device: &Device) {
    device.healthy(B1, 1);
    device.healthy(B2, 2);
}

/// Afterwards, with the cause mended: the boot goes through, and both generations are there.
#[track_caller]
fn goes_on(device: &Device, boot: Boot, in_data: u32) {
    device.pre_run(boot).ok();
    device.pristine.same(&device.data, in_data).unwrap();
    device.tidy(boot).unwrap();
    device.backup_of(boot, 1);
    let two = device.copies(boot).into_iter().find(|copy| device.pristine.same(&copy.path, 2).is_ok());
    assert!(two.is_some(), "generation 2 is lost");
}

fn ext4() -> ScratchFs {
    ScratchFs::new(FsKind::Ext4, FsKind::Ext4.smallest())
}

fn incompressible(bytes: usize) -> Vec<u8> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..bytes / 8).flat_map(|_| next()).collect()
}

// --- the disk ---------------------------------------------------------------------------------------------------

/// How much is left on the disk goes from nothing to plenty: at every size it either works or says so.
#[test]
fn a_disk_of_any_fullness_never_costs_data_during_a_backup() {
    let scratch = ext4();
    let device = Device::below(scratch.path());
    two_generations(&device);
    fs::write(device.data.join("payload/large"), incompressible(300 << 10)).unwrap();
    let image = scratch.snapshot_image();
    let mut ended = std::collections::BTreeMap::<i32, u32>::new();
    for leave in (0..1024_u64).step_by(16).map(|kibibytes| kibibytes << 10) {
        scratch.reset(&image);
        let frozen = Frozen::of(&device, &[1]);
        let filler = scratch.fill(leave);
        let said = device.pre_run(B3);
        *ended.entry(said.code).or_default() += 1;
        frozen.is_untouched();
        if said.code != 0 {
            said.failed(BACKUP_FAILED, &["hint: "]);
            fs::remove_file(filler).unwrap();
            device.pre_run(B3).ok();
        }
        device.tidy(B3).unwrap();
        frozen.is_untouched();
        let copies = device.copies(B3);
        let newest = copies.iter().max_by_key(|copy| copy.number).unwrap();
        assert_eq!(fs::metadata(newest.path.join("payload/large")).unwrap().len(), 300 << 10);
    }
    assert_eq!(ended.keys().copied().collect::<Vec<_>>(), [0, BACKUP_FAILED], "{ended:?}");
}

#[test]
fn a_disk_of_any_fullness_never_costs_data_during_a_restore() {
    let scratch = ext4();
    let device = Device::below(scratch.path());
    device.pre_run(B1).ok();
    device.guard(B1, &["run", "--", "true"]).ok();
    device.pristine.write(&device.data, 1);
    fs::write(device.data.join("payload/large"), incompressible(300 << 10)).unwrap();
    device.guard(B1, &["persist-system-health", "--healthy"]).ok();
    device.unhealthy(boot("b2", "d2", V14), 2);
    let image = scratch.snapshot_image();
    let mut ended = std::collections::BTreeMap::<i32, u32>::new();
    for leave in (0..1024_u64).step_by(16).map(|kibibytes| kibibytes << 10) {
        scratch.reset(&image);
        let frozen = Frozen::of(&device, &[]);
        let filler = scratch.fill(leave);
        let said = device.pre_run(B3);
        *ended.entry(said.code).or_default() += 1;
        if said.code != 0 {
            frozen.is_untouched();
            // Where not even the boot could be recorded, it never came to the restore.
            let records = said.stderr.contains("records");
            said.failed(if records { BACKUP_FAILED } else { RESTORE_FAILED }, &["hint: "]);
            fs::remove_file(filler).unwrap();
            device.pre_run(B3).ok();
        }
        device.tidy(B3).unwrap();
        assert_eq!(fs::metadata(device.data.join("payload/large")).unwrap().len(), 300 << 10);
        let aside = device.copies(B3).into_iter().find(|copy| !copy.is_backup).unwrap();
        device.pristine.same(&aside.path, 2).unwrap();
    }
    assert!(ended.contains_key(&0) && ended.contains_key(&RESTORE_FAILED), "{ended:?}");
}

#[test]
fn too_few_inodes_are_noticed_before_the_first_byte() {
    let scratch = ext4();
    let device = Device::below(scratch.path());
    two_generations(&device);
    fs::create_dir(device.data.join("many")).unwrap();
    for number in 0..40 {
        fs::write(device.data.join(format!("many/{number}")), b"").unwrap();
    }
    let frozen = Frozen::of(&device, &[1]);
    let hog = scratch.path().join("hog");
    fs::create_dir(&hog).unwrap();
    let free = rustix::fs::statvfs(scratch.path()).unwrap().f_favail;
    for number in 0..free - 20 {
        fs::write(hog.join(number.to_string()), b"").unwrap();
    }
    device.pre_run(B3).failed(BACKUP_FAILED, &["not enough room", "files"]);
    frozen.is_untouched();
    fs::remove_dir_all(&hog).unwrap();
    device.pre_run(B3).ok();
    frozen.is_untouched();
    device.tidy(B3).unwrap();
}

#[test]
fn backups_on_a_read_only_disk_stop_the_boot_and_cost_nothing() {
    let (disk, other) = (ext4(), ext4());
    let device = Device::at(&disk.path().join("data"), &other.path().join("backups"));
    two_generations(&device);
    let frozen = Frozen::of(&device, &[1]);
    let remount = |how: &str| {
        let done = Command::new("mount").args(["-o", how]).arg(other.path()).status().unwrap();
        assert!(done.success());
    };
    remount("remount,ro");
    device.pre_run(B3).failed(BACKUP_FAILED, &["read-only", "backups"]);
    // Looking is still possible.
    device.guard(B3, &["status"]).ok();
    device.guard(B3, &["backups", "list"]).ok();
    device.guard(B3, &["pre-run", "--dry-run"]).ok();
    frozen.is_untouched();
    remount("remount,rw");
    goes_on(&device, B3, 2);
}

#[test]
fn an_immutable_backups_directory_stops_the_boot_and_costs_nothing() {
    let scratch = ext4();
    let device = Device::below(scratch.path());
    two_generations(&device);
    let frozen = Frozen::of(&device, &[1]);
    let chattr = |how: &str| {
        let done = Command::new("chattr").arg(how).arg(&device.backups).status();
        assert!(done.expect("chattr is in the package e2fsprogs").success());
    };
    chattr("+i");
    device.pre_run(B3).failed(BACKUP_FAILED, &["immutable", "backups"]);
    frozen.is_untouched();
    chattr("-i");
    goes_on(&device, B3, 2);
}

#[test]
fn immutable_data_can_be_backed_up_but_not_replaced() {
    let scratch = ext4();
    let device = Device::below(scratch.path());
    device.healthy(B1, 1);
    device.unhealthy(boot("b2", "d2", V14), 2);
    let frozen = Frozen::of(&device, &[1]);
    let chattr =
        |how: &str| assert!(Command::new("chattr").arg(how).arg(&device.data).status().unwrap().success());
    chattr("+i");
    device.pre_run(B3).failed(RESTORE_FAILED, &["immutable", "data"]);
    chattr("-i");
    frozen.is_untouched();
    goes_on(&device, B3, 1);
}

#[test]
fn a_file_that_cannot_be_read_is_named_and_stops_the_backup() {
    let scratch = ext4();
    let device = Device::below(scratch.path());
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o777)).unwrap();
    // Scratch disks are for root's eyes: the way to them, and to the binary, is opened for this one.
    let (above, outside) = (scratch.path().parent().unwrap(), &device.outside.0);
    for path in [above, outside] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let binary = outside.join("holdfast");
    fs::copy(support::HOLDFAST, &binary).unwrap();
    let as_nobody = |boot: Boot, arguments: &[&str]| -> Said {
        let told = device.command(boot, arguments);
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&binary);
        command.args(told.get_args());
        command.envs(told.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.output().expect("setpriv is in the package util-linux").into()
    };
    as_nobody(B1, &["pre-run"]).ok();
    as_nobody(B1, &["run", "--", "true"]).ok();
    fs::write(device.data.join("secret"), "secret").unwrap();
    std::os::unix::fs::chown(device.data.join("secret"), Some(65534), Some(65534)).unwrap();
    as_nobody(B1, &["persist-system-health", "--healthy"]).ok();
    let frozen = Frozen::of(&device, &[]);
    fs::set_permissions(device.data.join("secret"), fs::Permissions::from_mode(0o000)).unwrap();
    as_nobody(B2, &["pre-run"]).failed(BACKUP_FAILED, &["data/secret", "not permitted"]);
    fs::set_permissions(device.data.join("secret"), fs::Permissions::from_mode(0o644)).unwrap();
    frozen.is_untouched();
    as_nobody(B2, &["pre-run"]).ok();
    frozen.is_untouched();
}

// --- guard's own records ----------------------------------------------------------------------------------------

/// What may be in a file that should hold JSON.
fn damages() -> Vec<(&'static str, Vec<u8>)> {
    let huge = [b"{\"a\": \"".to_vec(), vec![b'x'; 100 << 20], b"\"}".to_vec()].concat();
    vec![
        ("empty", vec![]),
        ("zeros", vec![0; 4096]),
        ("half", br#"{"microshift": "4.14.0", "depl"#.to_vec()),
        ("another type", b"[1, 2, 3]".to_vec()),
        ("not UTF-8", vec![0xff, 0xfe, 0x00, 0x80]),
        ("deep", b"[".repeat(60_000)),
        ("huge", huge),
    ]
}

#[test]
fn a_damaged_record_with_a_good_second_copy_costs_nothing() {
    let scratch = ScratchFs::new(FsKind::Xfs { reflink: true }, 512 << 20);
    let device = Device::below(scratch.path());
    two_generations(&device);
    let image = scratch.snapshot_image();
    for (what, bytes) in damages() {
        for file in [device.data.join("version.json"), device.backups.join("health.json")] {
            scratch.reset(&image);
            fs::write(&file, &bytes).unwrap();
            let said = device.pre_run(B3).ok();
            let name = file.file_name().unwrap().to_str().unwrap();
            assert!(
                said.stderr.contains(name) && said.stderr.contains("second copy"),
                "{what}: {}",
                said.stderr
            );
            goes_on(&device, B3, 2);
            device.guard(B3, &["run", "--", "true"]).ok();
        }
    }
}

#[test]
fn a_record_damaged_in_both_copies_blocks_and_names_it() {
    let scratch = ScratchFs::new(FsKind::Xfs { reflink: true }, 512 << 20);
    let device = Device::below(scratch.path());
    two_generations(&device);
    let image = scratch.snapshot_image();
    for (what, bytes) in damages() {
        for (file, second) in [
            (device.data.join("version.json"), device.data.join(".version.json.second")),
            (device.backups.join("health.json"), device.backups.join(".health.json.second")),
        ] {
            scratch.reset(&image);
            fs::write(&file, &bytes).unwrap();
            fs::write(&second, &bytes[..bytes.len().min(100)]).unwrap();
            let frozen = Frozen::of(&device, &[1]);
            let name = file.file_name().unwrap().to_str().unwrap();
            let said = device.pre_run(B3);
            assert_eq!(said.code, METADATA_DAMAGED, "{what} {name}: {}", said.stderr);
            assert!(said.stderr.len() < 4096, "{what} {name}: {} bytes of message", said.stderr.len());
            said.failed(METADATA_DAMAGED, &[name]);
            frozen.is_untouched();
            device.guard(B3, &["run", "--", "true"]).failed(4, &["pre-run"]);
            frozen.is_untouched();
        }
    }
}

#[test]
fn a_damaged_request_is_passed_over_and_said() {
    let scratch = ScratchFs::new(FsKind::Xfs { reflink: true }, 512 << 20);
    let device = Device::below(scratch.path());
    two_generations(&device);
    let image = scratch.snapshot_image();
    for (what, bytes) in damages() {
        scratch.reset(&image);
        fs::write(device.backups.join("next-boot.json"), &bytes).unwrap();
        let said = device.pre_run(B3).ok();
        assert!(said.stderr.contains("next-boot.json"), "{what}: {}", said.stderr);
        goes_on(&device, B3, 2);
    }
}

#[test]
fn a_copy_whose_record_is_damaged_is_left_alone_and_can_be_taken_over() {
    let scratch = ScratchFs::new(FsKind::Xfs { reflink: true }, 512 << 20);
    let device = Device::below(scratch.path());
    two_generations(&device);
    let known = device.backup_of(B2, 1);
    let image = scratch.snapshot_image();
    for (what, bytes) in damages() {
        scratch.reset(&image);
        let record = device.records().join(format!("{}.json", known.number));
        fs::write(&record, &bytes).unwrap();
        let frozen = Frozen::of(&device, &[]);
        // It stands where the next backup goes, and nobody knows any more what it is: no guessing.
        let said = device.pre_run(B3).failed(BACKUP_FAILED, &["in the way", "backups adopt d1"]);
        assert!(said.stderr.contains(&record.display().to_string()), "{what}: {}", said.stderr);
        frozen.is_untouched();
        device.pristine.same(&known.path, 1).unwrap();
        // The way out that was named.
        device.guard(B3, &["backups", "adopt", "d1"]).ok();
        device.pre_run(B3).ok();
        device.pristine.same(&device.data, 2).unwrap();
        device.backup_of(B3, 1);
        device.backup_of(B3, 2);
    }
}

#[test]
fn a_damaged_journal_blocks_and_a_torn_one_does_not() {
    let scratch = ScratchFs::new(FsKind::Xfs { reflink: true }, 512 << 20);
    let device = Device::below(scratch.path());
    two_generations(&device);
    let image = scratch.snapshot_image();
    // A real journal, from a backup that was killed in the middle.
    let root = scratch.path().to_owned();
    let calls = Trace::run(device.command(B3, &["pre-run"]), &[&root]).calls;
    let in_the_copy = calls.iter().position(|call| call.what.contains(".staging")).unwrap() + 3;
    scratch.reset(&image);
    Trace::kill_after(device.command(B3, &["pre-run"]), &[&root], in_the_copy).unwrap();
    let journal = device.backups.join(".journal");
    let good = fs::read(&journal).unwrap();
    assert!(!good.is_empty());
    let killed = scratch.snapshot_image();

    let flipped: Vec<u8> = good.iter().map(|byte| if *byte == b'4' { b'5' } else { *byte }).collect();
    let torn = good[..good.len() / 2].to_vec();
    let huge = good.repeat((100 << 20) / good.len());
    for (what, bytes, damaged) in [
        ("torn", torn, false),
        ("empty", vec![], false),
        ("a damaged record before a good one", [flipped, good.clone()].concat(), true),
        ("huge", huge, true),
    ] {
        scratch.reset(&killed);
        fs::write(&journal, &bytes).unwrap();
        let frozen = Frozen::of(&device, &[1]);
        let said = device.pre_run(B3);
        if damaged {
            assert_eq!(said.code, METADATA_DAMAGED, "{what}: {}", said.stderr);
            said.failed(METADATA_DAMAGED, &[".journal"]);
            frozen.is_untouched();
            // The way out: with the journal away, what it was about is swept.
            fs::remove_file(&journal).unwrap();
        }
        goes_on(&device, B3, 2);
    }
}

#[test]
fn fields_of_a_later_release_are_no_damage() {
    let scratch = ScratchFs::new(FsKind::Xfs { reflink: true }, 512 << 20);
    let device = Device::below(scratch.path());
    two_generations(&device);
    device.guard(B2, &["backups", "restore", "d1", "--next-boot"]).ok();
    let number = device.backup_of(B2, 1).number;
    for file in [
        device.data.join("version.json"),
        device.backups.join("health.json"),
        device.backups.join("next-boot.json"),
        device.records().join(format!("{number}.json")),
    ] {
        let text = fs::read_to_string(&file).unwrap();
        let later = text.replacen('{', r#"{"from-a-later-release": {"deep": [1, null, "x"]}, "#, 1);
        fs::write(&file, later).unwrap();
    }
    let said = device.pre_run(B3).ok();
    assert!(!said.stderr.contains("damaged") && !said.stderr.contains("understood"), "{}", said.stderr);
    goes_on(&device, B3, 1);
}

// --- the host ---------------------------------------------------------------------------------------------------

/// A stand-in for the program that knows the deployments.
fn rpm_ostree(device: &Device, script: &str) -> Command {
    let bin = device.outside.0.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let program = bin.join("rpm-ostree");
    let mut file = fs::File::create(&program).unwrap();
    file.write_all(format!("#!/bin/sh\n{script}\n").as_bytes()).unwrap();
    file.set_permissions(fs::Permissions::from_mode(0o755)).unwrap();
    drop(file);
    let mut command = device.command(B3, &["pre-run"]);
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    command
        .env_remove("HOLDFAST_GUARD_DEPLOYMENTS")
        .env("HOLDFAST_GUARD_HOST", "rpm-ostree")
        .env("PATH", path);
    command
}

#[test]
fn a_host_that_cannot_say_what_is_booted_costs_nothing() {
    let scratch = ext4();
    let device = Device::below(scratch.path());
    two_generations(&device);
    let frozen = Frozen::of(&device, &[1]);
    let a_megabyte = "head -c 1048576 /dev/zero | tr '\\0' x";
    for (what, script, code, naming) in [
        ("fails", "echo 'no sysroot' >&2; exit 3", 1, "no sysroot"),
        ("hangs", "exec sleep 600", TIMED_OUT, "rpm-ostree"),
        ("hangs and ignores", "trap '' TERM; while :; do sleep 0.1; done", TIMED_OUT, "rpm-ostree"),
        ("prints a megabyte", a_megabyte, 1, "rpm-ostree"),
        ("prints for ever", "exec yes", 1, "rpm-ostree"),
        ("prints nothing", "true", 1, "rpm-ostree"),
        ("lists nothing", "echo '{\"deployments\": []}'", 1, "lists no deployments"),
        ("is killed", "kill -9 $$", 1, "rpm-ostree"),
    ] {
        let mut command = rpm_ostree(&device, script);
        let said: Said = command.env("HOLDFAST_GUARD_STATUS_TIMEOUT", "1s").output().unwrap().into();
        assert_eq!(said.code, code, "{what}: {}", said.stderr);
        assert!(said.stderr.len() < 4096, "{what}: {} bytes of message", said.stderr.len());
        said.failed(code, &[naming]);
        frozen.is_untouched();
    }
    goes_on(&device, B3, 2);
}

#[test]
fn a_deployments_file_that_cannot_be_right_is_refused() {
    let scratch = ext4();
    let device = Device::below(scratch.path());
    two_generations(&device);
    let frozen = Frozen::of(&device, &[1]);
    let file = device.outside.0.join("d1.json");
    let good = fs::read(&file).unwrap();
    for text in [
        "",
        "{",
        "[]",
        "{\"booted\": 7}",
        r#"{"booted":"../../etc","deployments":["../../etc"]}"#,
        r#"{"booted":"a/b","deployments":["a/b"]}"#,
        r#"{"booted":"","deployments":[""]}"#,
        r#"{"booted":"d9","deployments":["d1"]}"#,
    ] {
        fs::write(&file, text).unwrap();
        device.pre_run(B3).failed(1, &["d1.json"]);
        frozen.is_untouched();
    }
    fs::remove_file(&file).unwrap();
    device.pre_run(B3).failed(1, &["d1.json"]);
    fs::write(&file, good).unwrap();
    goes_on(&device, B3, 2);
}

#[test]
fn paths_that_cannot_be_right_are_refused() {
    let scratch = ext4();
    let device = Device::below(scratch.path());
    two_generations(&device);
    let frozen = Frozen::of(&device, &[1]);
    let told = |name: &str, value: &Path| -> Said {
        device.command(B3, &["pre-run"]).env(name, value).output().unwrap().into()
    };
    told("HOLDFAST_GUARD_BACKUPS_DIR", &device.data.join("backups")).failed(4, &["inside each other"]);
    told("HOLDFAST_GUARD_DATA_DIR", &device.backups.join("data")).failed(4, &["inside each other"]);
    told("HOLDFAST_GUARD_DATA_DIR", Path::new("relative")).failed(4, &["absolute"]);
    told("HOLDFAST_GUARD_BOOT_ID", Path::new("")).failed(4, &["boot id is empty"]);
    told("HOLDFAST_GUARD_BOOT_ID", Path::new("  ")).failed(4, &["boot id is empty"]);
    frozen.is_untouched();
    let file = scratch.path().join("file");
    fs::write(&file, "precious").unwrap();
    told("HOLDFAST_GUARD_DATA_DIR", &file).failed(BACKUP_FAILED, &["file"]);
    told("HOLDFAST_GUARD_BACKUPS_DIR", &file).failed(BACKUP_FAILED, &["file"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    frozen.is_untouched();
    goes_on(&device, B3, 2);
}

/// By another name, the backups are inside the data all the same.
#[test]
fn backups_inside_the_data_by_a_link_are_refused() {
    let scratch = ext4();
    let device = Device::below(scratch.path());
    two_generations(&device);
    fs::create_dir(device.data.join("inside")).unwrap();
    symlink(device.data.join("inside"), scratch.path().join("link")).unwrap();
    let frozen = Frozen::of(&device, &[1]);
    let mut command = device.command(B3, &["pre-run"]);
    command.env("HOLDFAST_GUARD_BACKUPS_DIR", scratch.path().join("link"));
    Said::from(command.output().unwrap()).failed(4, &["inside each other"]);
    frozen.is_untouched();
}

/// A link in the data's place: either it is followed for good, or it is refused; never is the link itself moved about.
#[test]
fn a_link_in_the_place_of_the_data_loses_nothing() {
    let scratch = ext4();
    let device = Device::below(scratch.path());
    device.healthy(B1, 1);
    let real = scratch.path().join("real");
    fs::rename(&device.data, &real).unwrap();
    symlink(&real, &device.data).unwrap();
    device.pre_run(B2).failed(4, &["symbolic link", "data"]);
    device.pristine.same(&real, 1).unwrap();
    let mut command = device.command(B2, &["pre-run"]);
    Said::from(command.env("HOLDFAST_GUARD_DATA_DIR", &real).output().unwrap()).ok();
    device.pristine.same(&real, 1).unwrap();
}

// --- signals, and two at once -----------------------------------------------------------------------------------

fn install_migration(device: &mut Device, text: &str) {
    let script = device.outside.0.join("migrate");
    fs::write(&script, format!("#!/bin/sh\nset -e\n{text}\n")).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let value = format!("[\"{}\"]", script.display());
    device.variables.push(("HOLDFAST_GUARD_MIGRATION__COMMAND".into(), value));
}

/// SIGTERM after every call: it ends early with its own code, or it was too late and all is done. Then again.
#[track_caller]
fn terminated_everywhere(
    device: &Device,
    scratch: &ScratchFs,
    boot: Boot,
    arguments: &[&str],
    finally: u32,
    kept: &[u32],
) {
    let root = scratch.path().to_owned();
    let image = scratch.snapshot_image();
    let points = Trace::run(device.command(boot, arguments), &[&root]).calls.len();
    let (mut early, mut tried) = (0, 0);
    let sample = Sample::of(format!("SIGTERM: {boot:?}, {finally}, {kept:?}"));
    for n in sample.with_ends(0..points) {
        tried += 1;
        scratch.reset(&image);
        let signalled = Trace::signal_after(device.command(boot, arguments), &[&root], n, Signal::SIGTERM);
        let signalled =
            signalled.unwrap_or_else(|ended| panic!("{n} of {points}, {sample}: {}", ended.stderr));
        let (traced, call) = (signalled.traced, signalled.call);
        let at = || format!("{n} of {points}, {sample}, {call:?}: {:?} {}", traced.status, traced.stderr);
        match traced.status.code() {
            Some(INTERRUPTED) => {
                early += 1;
                assert!(traced.stderr.contains("hint: "), "{}", at());
            }
            Some(0) => {
                device.pristine.same(&device.data, finally).unwrap_or_else(|why| panic!("{} {why}", at()))
            }
            _ => panic!("{}", at()),
        }
        let again = device.guard(boot, arguments);
        assert_eq!(again.code, 0, "{}\nand again: {}", at(), again.stderr);
        device.pristine.same(&device.data, finally).unwrap_or_else(|why| panic!("{} {why}", at()));
        device.tidy(boot).unwrap_or_else(|why| panic!("{} {why}", at()));
        for generation in kept {
            let is_kept = |path: &Path| device.pristine.same(path, *generation).is_ok();
            let somewhere =
                is_kept(&device.data) || device.copies(boot).iter().any(|copy| is_kept(&copy.path));
            assert!(somewhere, "{}: generation {generation} is nowhere", at());
        }
    }
    println!("points: SIGTERM in {arguments:?}: {points}, at {tried} sent, ended early at {early}");
    proof::count(Kind::KillPoints, tried);
    // At the first point it surely ends early. Which part of the others does, only the whole run says.
    let expected = if sample.is_whole() { points / 4 } else { 0 };
    assert!(early > expected, "only {early} of {tried} ended early: the signal is not heeded");
}

#[test]
fn sigterm_in_a_backup_loses_nothing() {
    let scratch = ScratchFs::new(FsKind::Xfs { reflink: true }, FsKind::Xfs { reflink: true }.smallest());
    let device = Device::below(scratch.path());
    two_generations(&device);
    terminated_everywhere(&device, &scratch, B3, &["pre-run"], 2, &[1, 2]);
}

#[test]
fn sigterm_in_a_restore_loses_nothing() {
    let scratch = ext4();
    let device = Device::below(scratch.path());
    device.healthy(B1, 1);
    device.unhealthy(boot("b2", "d2", V14), 2);
    terminated_everywhere(&device, &scratch, B3, &["pre-run"], 1, &[1, 2]);
}

#[test]
fn sigterm_in_a_migration_loses_nothing() {
    let scratch = ext4();
    let mut device = Device::below(scratch.path());
    let migrated = device.pristine.path(101).display().to_string();
    install_migration(
        &mut device,
        &format!("cd \"$1/payload\"\nrm -f only-in-1 a dir/hard link\ncp -a '{migrated}/.' \"$1/\""),
    );
    device.healthy(B1, 1);
    terminated_everywhere(&device, &scratch, boot("b2", "d2", V15), &["pre-run"], 101, &[1, 101]);
}

/// A migration that does not heed the signal itself is ended, and the base is what the next boot starts from.
#[test]
fn sigterm_ends_a_long_migration() {
    let scratch = ext4();
    let mut device = Device::below(scratch.path());
    let (began, go) = (device.outside.0.join("began"), device.outside.0.join("go"));
    let migrated = device.pristine.path(101).display().to_string();
    let text = format!(
        "rm \"$1/payload/only-in-1\"\ntouch '{}'\nwhile ! [ -e '{}' ]; do sleep 0.05; done\n\
         cp -a '{migrated}/.' \"$1/\"",
        began.display(),
        go.display()
    );
    install_migration(&mut device, &text);
    device.healthy(B1, 1);
    let now = boot("b2", "d2", V15);
    let mut child = Background::start(device.command(now, &["pre-run"]));
    wait_for(&began);
    let pid = nix::unistd::Pid::from_raw(child.0.id() as i32);
    nix::sys::signal::kill(pid, Signal::SIGTERM).unwrap();
    let said = child.ends();
    said.failed(INTERRUPTED, &["interrupted"]);
    // It is not run on.
    device.guard(now, &["run", "--", "true"]).failed(4, &["pre-run"]);
    fs::write(&go, "").unwrap();
    device.pre_run(now).ok();
    device.pristine.same(&device.data, 101).unwrap();
    device.backup_of(now, 1);
    device.tidy(now).unwrap();
}

#[test]
fn a_migration_that_fails_says_why_and_leads_back_to_its_base() {
    let scratch = ext4();
    let mut device = Device::below(scratch.path());
    install_migration(&mut device, "rm -r \"$1/payload\"\necho 'schema 7 is unknown' >&2\nexit 3");
    device.healthy(B1, 1);
    let now = boot("b2", "d2", V15);
    device.pre_run(now).failed(MIGRATION_FAILED, &["schema 7 is unknown", "4.14.0", "4.15.0"]);
    device.backup_of(now, 1);
    device.guard(now, &["run", "--", "true"]).failed(4, &["pre-run"]);
    device.pre_run(boot("b3", "d1", V14)).ok();
    device.pristine.same(&device.data, 1).unwrap();
    device.tidy(B3).unwrap();
}

/// A process that ends with the test.
struct Background(Child);

impl Background {
    fn start(mut command: Command) -> Background {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Background(command.spawn().unwrap())
    }

    fn ends(&mut self) -> Said {
        use std::io::Read;
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.0.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        Said { code: self.0.wait().unwrap().code().unwrap_or(-1), stdout, stderr }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_for(path: &Path) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !path.exists() {
        assert!(Instant::now() < deadline, "{} never came", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_second_pre_run_is_told_who_is_at_work() {
    let scratch = ext4();
    let mut device = Device::below(scratch.path());
    let (began, go) = (device.outside.0.join("began"), device.outside.0.join("go"));
    let text = format!("touch '{}'\nwhile ! [ -e '{}' ]; do sleep 0.02; done", began.display(), go.display());
    install_migration(&mut device, &text);
    device.healthy(B1, 1);
    let now = boot("b2", "d2", V15);
    let mut first = Background::start(device.command(now, &["pre-run"]));
    wait_for(&began);
    let holder = first.0.id().to_string();
    device.pre_run(now).failed(TRY_AGAIN, &["another holdfast", &holder, "pre-run"]);
    device.guard(now, &["backups", "restore", "d1"]).failed(TRY_AGAIN, &[&holder]);
    // Looking does not need the lock.
    device.guard(now, &["status"]).ok();
    device.guard(now, &["backups", "list"]).ok();
    fs::write(&go, "").unwrap();
    first.ends().ok();
    device.pre_run(now).ok();
    device.tidy(now).unwrap();
}

#[test]
fn data_in_use_is_neither_backed_up_nor_replaced() {
    let scratch = ext4();
    let device = Device::below(scratch.path());
    device.healthy(B1, 1);
    device.pre_run(B2).ok();
    let ready = device.outside.0.join("ready");
    let script = format!("touch '{}'; exec sleep 600", ready.display());
    let workload = Background::start(device.command(B2, &["run", "--", "sh", "-c", &script]));
    wait_for(&ready);
    let frozen = Frozen::of(&device, &[1]);
    let holder = workload.0.id().to_string();
    for arguments in [&["pre-run"][..], &["backups", "restore", "d1"], &["adopt", "--version", "4.14.0"]] {
        device.guard(B2, arguments).failed(TRY_AGAIN, &["the workload is running", &holder]);
    }
    device.guard(B2, &["run", "--", "true"]).failed(TRY_AGAIN, &["the workload is running"]);
    // Verdicts and looking go on.
    device.guard(B2, &["status"]).ok();
    device.guard(B2, &["persist-system-health", "--healthy"]).ok();
    frozen.is_untouched();
    drop(workload);
    device.pre_run(B3).ok();
    device.pristine.same(&device.data, 1).unwrap();
}

// --- the clock --------------------------------------------------------------------------------------------------

/// Puts the clock of what is run with it back by ten years.
fn ten_years_back(outside: &Scratch) -> PathBuf {
    let (source, library) = (outside.0.join("clock.c"), outside.0.join("clock.so"));
    let text = r#"
        #define _GNU_SOURCE
        #include <dlfcn.h>
        #include <time.h>
        int clock_gettime(clockid_t which, struct timespec *now) {
            int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
            int result = real(which, now);
            if (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE) now->tv_sec -= 3650L * 86400L;
            return result;
        }
    "#;
    fs::write(&source, text).unwrap();
    let done =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    library
}

#[test]
fn a_clock_that_goes_back_ten_years_changes_no_decision() {
    let scratch = ext4();
    let mut device = Device::below(scratch.path());
    device.healthy(B1, 1);
    let library = ten_years_back(&device.outside);
    device.variables.push(("LD_PRELOAD".into(), library.display().to_string()));
    device.healthy(B2, 2);
    let history = device.guard(B2, &["history", "-o", "json"]).ok().json();
    let (first, last) =
        (&history["items"][0]["when"], &history["items"].as_array().unwrap().last().unwrap()["when"]);
    assert!(first.as_str() > last.as_str(), "the clock did not go back: {first} {last}");
    // The second is the newer, whatever the clock says: it is backed up, and it is what comes back.
    device.unhealthy(boot("b3", "d2", V14), 3);
    device.pre_run(boot("b4", "d1", V14)).ok();
    device.pristine.same(&device.data, 2).unwrap();
    device.variables.pop();
    device.unhealthy(boot("b5", "d2", V14), 4);
    device.pre_run(boot("b6", "d1", V14)).ok();
    device.pristine.same(&device.data, 2).unwrap();
    device.tidy(boot("b6", "d1", V14)).unwrap();
}
