//! A device loses its power, or guard is killed, after every single system call that changes a file: whatever boots
//! next finds data that is whole, and everything that a healthy boot has vouched for can be brought back.
//!
//! The points come from a trace of the binary. For each, the same disk is brought back to the same state, the
//! command runs up to there, and then what a device does next is done. Needs root.
//!
//! `make test` tries a sample: one disk for each scenario, and every second point on it. `make prove` tries every point
//! on every disk.

use crate::support;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::support::promise::{Promise, comparable, go_on};
use crate::support::{Boot, Device, boot};
use testkit::proof::{self, Kind};
use testkit::sample::Sample;
use testkit::scratch_fs::{FsKind, ScratchFs};
use testkit::trace::Trace;

/// Where the device lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disk {
    Xfs,
    Ext4,
    Btrfs,
    /// The data directory is a subvolume: its backups are snapshots.
    BtrfsSubvolume,
}

impl Disk {
    const ALL: [Self; 4] = [Self::Xfs, Self::Ext4, Self::Btrfs, Self::BtrfsSubvolume];

    fn kind(self) -> FsKind {
        match self {
            Disk::Xfs => FsKind::Xfs { reflink: true },
            Disk::Ext4 => FsKind::Ext4,
            Disk::Btrfs | Disk::BtrfsSubvolume => FsKind::Btrfs,
        }
    }
}

/// How a run ends before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// The power goes; then this boot.
    Power(Boot),
    /// `kill -9`; then the same command line again, in the same boot.
    Kill,
}

struct Scenario {
    name: &'static str,
    /// The boot in which the command runs that is cut.
    in_boot: Boot,
    prepare: fn(&Device),
    command: fn(&Device) -> Vec<String>,
    /// What is in the data when nothing interrupts it.
    result: Option<u32>,
    /// What happens next: the power comes back with one of these, each with its own promise.
    next: &'static [(Boot, Promise)],
    /// After a kill, in the same boot.
    again: Promise,
    /// Fewer points than this can't be all.
    at_least: usize,
}

const V14: &str = "4.14.0";
const V15: &str = "4.15.0";
/// What the migration makes of generation 1.
const MIGRATED: u32 = 101;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

const FIRST_BOOT: Scenario = Scenario {
    name: "first boot",
    in_boot: boot("b1", "d1", V14),
    prepare: |_| {},
    command: |_| words(&["pre-run"]),
    result: None,
    next: &[
        (boot("n1", "d1", V14), Promise { vouched: None, kept: &[], data: &[None] }),
        (boot("n1", "d2", V14), Promise { vouched: None, kept: &[], data: &[None] }),
    ],
    again: Promise { vouched: None, kept: &[], data: &[None] },
    at_least: 15,
};

const FIRST_RUN: Scenario = Scenario {
    name: "first run",
    in_boot: boot("b1", "d1", V14),
    prepare: |device| drop(device.pre_run(boot("b1", "d1", V14)).ok()),
    command: |_| words(&["run", "--", "true"]),
    ..FIRST_BOOT
};

const FIRST_BACKUP: Scenario = Scenario {
    name: "first backup",
    in_boot: boot("b2", "d1", V14),
    prepare: |device| device.healthy(boot("b1", "d1", V14), 1),
    command: |_| words(&["pre-run"]),
    result: Some(1),
    next: &[
        (boot("n1", "d1", V14), Promise { vouched: Some(1), kept: &[1], data: &[Some(1)] }),
        (boot("n1", "d2", V14), Promise { vouched: Some(1), kept: &[1], data: &[Some(1)] }),
    ],
    again: Promise { vouched: Some(1), kept: &[1], data: &[Some(1)] },
    at_least: 40,
};

const BACKUP_AGAIN: Scenario = Scenario {
    name: "backup again",
    in_boot: boot("b3", "d1", V14),
    prepare: |device| {
        device.healthy(boot("b1", "d1", V14), 1);
        device.healthy(boot("b2", "d1", V14), 2);
    },
    command: |_| words(&["pre-run"]),
    result: Some(2),
    next: &[(boot("n1", "d1", V14), Promise { vouched: Some(2), kept: &[1, 2], data: &[Some(2)] })],
    again: Promise { vouched: Some(2), kept: &[1, 2], data: &[Some(2)] },
    at_least: 40,
};

const BACKUP_OVER_A_RECYCLED_ONE: Scenario = Scenario {
    name: "backup over a recycled one",
    in_boot: boot("b5", "d1", V14),
    prepare: |device| {
        for (id, generation) in [("b1", 1), ("b2", 2), ("b3", 3), ("b4", 4)] {
            device.marked(boot(id, "d1", V14), generation);
        }
    },
    command: |_| words(&["pre-run"]),
    result: Some(4),
    next: &[(boot("n1", "d1", V14), Promise { vouched: Some(4), kept: &[3, 4], data: &[Some(4)] })],
    again: Promise { vouched: Some(4), kept: &[3, 4], data: &[Some(4)] },
    at_least: 40,
};

const ROLLED_BACK: Scenario = Scenario {
    name: "rolled back",
    in_boot: boot("b3", "d1", V14),
    prepare: |device| {
        device.healthy(boot("b1", "d1", V14), 1);
        device.unhealthy(boot("b2", "d2", V14), 2);
    },
    command: |_| words(&["pre-run"]),
    result: Some(1),
    next: &[
        (boot("n1", "d1", V14), Promise { vouched: Some(1), kept: &[1, 2], data: &[Some(1)] }),
        (boot("n1", "d2", V14), Promise { vouched: Some(1), kept: &[1, 2], data: &[Some(1), Some(2)] }),
    ],
    again: Promise { vouched: Some(1), kept: &[1, 2], data: &[Some(1)] },
    at_least: 40,
};

const MIGRATION: Scenario = Scenario {
    name: "migration",
    in_boot: boot("b2", "d2", V15),
    prepare: |device| device.healthy(boot("b1", "d1", V14), 1),
    command: |_| words(&["pre-run"]),
    result: Some(MIGRATED),
    next: &[
        (boot("n1", "d2", V15), Promise { vouched: Some(1), kept: &[1, MIGRATED], data: &[Some(MIGRATED)] }),
        (boot("n1", "d1", V14), Promise { vouched: Some(1), kept: &[1], data: &[Some(1)] }),
    ],
    again: Promise { vouched: Some(1), kept: &[1, MIGRATED], data: &[Some(MIGRATED)] },
    at_least: 40,
};

const WORKLOAD_STARTS: Scenario = Scenario {
    name: "workload starts",
    in_boot: boot("b2", "d1", V14),
    prepare: |device| {
        device.healthy(boot("b1", "d1", V14), 1);
        device.pre_run(boot("b2", "d1", V14)).ok();
    },
    command: |_| words(&["run", "--", "true"]),
    result: Some(1),
    next: &[(boot("n1", "d1", V14), Promise { vouched: Some(1), kept: &[1], data: &[Some(1)] })],
    again: Promise { vouched: Some(1), kept: &[1], data: &[Some(1)] },
    at_least: 15,
};

const VERDICT_AND_RETENTION: Scenario = Scenario {
    name: "verdict and retention",
    in_boot: boot("b5", "d1", V14),
    prepare: |device| {
        for (id, generation) in [("b1", 1), ("b2", 2), ("b3", 3), ("b4", 4)] {
            device.marked(boot(id, "d1", V14), generation);
        }
        device.works(boot("b5", "d1", V14), 5);
    },
    command: |_| words(&["persist-system-health", "--healthy"]),
    result: Some(5),
    next: &[(boot("n1", "d1", V14), Promise { vouched: Some(4), kept: &[4, 5], data: &[Some(5)] })],
    again: Promise { vouched: Some(5), kept: &[4, 5], data: &[Some(5)] },
    at_least: 30,
};

const RESTORE_BY_HAND: Scenario = Scenario {
    name: "restore by hand",
    in_boot: boot("b2", "d1", V14),
    prepare: |device| {
        device.healthy(boot("b1", "d1", V14), 1);
        device.healthy(boot("b2", "d1", V14), 2);
    },
    command: |device| {
        let number = device.backup_of(boot("b2", "d1", V14), 1).number.to_string();
        words(&["backups", "restore", &number])
    },
    result: Some(1),
    next: &[(boot("n1", "d1", V14), Promise { vouched: Some(2), kept: &[1, 2], data: &[Some(1), Some(2)] })],
    again: Promise { vouched: Some(2), kept: &[1, 2], data: &[Some(1), Some(2)] },
    at_least: 40,
};

const RESTORE_AT_NEXT_BOOT: Scenario = Scenario {
    name: "restore at next boot",
    in_boot: boot("b4", "d1", V14),
    prepare: |device| {
        let now = boot("b3", "d1", V14);
        device.healthy(boot("b1", "d1", V14), 1);
        device.healthy(boot("b2", "d1", V14), 2);
        device.healthy(now, 3);
        let number = device.backup_of(now, 1).number.to_string();
        device.guard(now, &["backups", "restore", &number, "--next-boot"]).ok();
    },
    command: |_| words(&["pre-run"]),
    result: Some(1),
    next: &[(boot("n1", "d1", V14), Promise { vouched: Some(3), kept: &[1, 3], data: &[Some(1)] })],
    again: Promise { vouched: Some(3), kept: &[1, 3], data: &[Some(1)] },
    at_least: 40,
};

const START_CLEAN: Scenario = Scenario {
    name: "start clean",
    in_boot: boot("b3", "d2", V14),
    prepare: |device| {
        device.healthy(boot("b1", "d1", V14), 1);
        device.unhealthy(boot("b2", "d1", V14), 2);
    },
    command: |_| words(&["pre-run"]),
    result: None,
    next: &[
        (boot("n1", "d2", V14), Promise { vouched: Some(1), kept: &[1, 2], data: &[None] }),
        (boot("n1", "d1", V14), Promise { vouched: Some(1), kept: &[1, 2], data: &[None, Some(2)] }),
    ],
    again: Promise { vouched: Some(1), kept: &[1, 2], data: &[None] },
    at_least: 20,
};

/// The migration rewrites file after file in place, and says "half done" in between. Links go first: `cp` would make
/// their successors under names that are different each time.
fn install_migration(device: &mut Device) {
    let script = device.outside.0.join("migrate");
    let migrated = device.pristine.path(MIGRATED);
    let text = format!(
        "#!/bin/sh\nset -e\nprintf half > \"$1/half\"\ncd \"$1/payload\"\nrm -f only-in-1 a dir/hard link\n\
         cp -a '{}/.' \"$1/\"\nrm \"$1/half\"\n",
        migrated.display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let value = format!("[\"{}\"]", script.display());
    device.variables.push(("HOLDFAST_GUARD_MIGRATION__COMMAND".into(), value));
}

fn device_on(disk: Disk, root: &Path) -> Device {
    let mut device = Device::below(root);
    install_migration(&mut device);
    if disk == Disk::BtrfsSubvolume {
        let made = Command::new("btrfs").args(["subvolume", "create"]).arg(&device.data).output();
        let made = made.unwrap_or_else(|error| panic!("btrfs: {error}: install the package btrfs-progs"));
        assert!(made.status.success(), "{made:?}");
    }
    device
}

/// Cuts one scenario at the points that this run tries, on the disks that this run tries.
fn cut_everywhere(scenario: &Scenario) {
    support::require_root();
    let sample = Sample::of(format!("power cuts: {}", scenario.name));
    let mut tried = Tried::default();
    for (disk, sample) in sample.rotate(&Disk::ALL) {
        cut_on(*disk, scenario, &sample, &mut tried);
    }
    proof::count(Kind::PowerCuts, tried.power_cuts);
    proof::count(Kind::KillPoints, tried.kills);
}

#[derive(Default)]
struct Tried {
    power_cuts: usize,
    kills: usize,
}

/// One scenario on one disk, with every way to go on.
fn cut_on(disk: Disk, scenario: &Scenario, sample: &Sample, tried: &mut Tried) {
    let mut scratch = ScratchFs::new(disk.kind(), disk.kind().smallest());
    let root = scratch.path().to_owned();
    let device = device_on(disk, &root);
    (scenario.prepare)(&device);
    let arguments = (scenario.command)(&device);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let image = scratch.snapshot_image();
    let command = || device.command(scenario.in_boot, &arguments);

    let whole = Trace::run(command(), &[&root]);
    assert!(whole.status.success(), "{}", whole.stderr);
    assert_eq!(device.pristine.generation(&device.data), Ok(scenario.result), "{}", whole.stderr);
    let points = whole.calls.len();
    assert!(points >= scenario.at_least, "only {points} points in {:?}", scenario.name);
    let expected = comparable(&whole.calls);

    let cuts = scenario.next.iter().map(|(boot, promise)| (Cut::Power(*boot), promise));
    let mut broken = Vec::new();
    let mut cut_at = 0;
    for (cut, promise) in cuts.chain([(Cut::Kill, &scenario.again)]) {
        for n in sample.with_ends(0..points + 1) {
            scratch.reset(&image);
            let killed = match cut {
                Cut::Power(_) => Trace::kill_after_doing(command(), &[&root], n, || scratch.power_off()),
                Cut::Kill => Trace::kill_after(command(), &[&root], n),
            };
            // The last point is the end: where the command ends by itself first, all its calls were made.
            let calls = match killed {
                Ok(killed) => killed.calls,
                Err(ended) if n == points => ended.calls,
                Err(ended) => panic!("{sample}: ended after {} of {points} calls", ended.calls.len()),
            };
            assert_eq!(
                comparable(&calls),
                expected[..n],
                "{disk:?}, {cut:?}: other calls than in the whole run, {sample}"
            );
            let next = match cut {
                Cut::Power(next) => {
                    scratch = scratch.power_cut();
                    tried.power_cuts += 1;
                    next
                }
                Cut::Kill => {
                    tried.kills += 1;
                    scenario.in_boot
                }
            };
            cut_at += 1;
            let again = cut == Cut::Kill && arguments[0] != "pre-run";
            let again = again.then_some((&arguments[..], scenario.result));
            if let Err(why) = go_on(&device, next, again, promise) {
                let call = n.checked_sub(1).map_or("before the first call".into(), |n| expected[n].clone());
                broken.push(format!("{cut:?} at {n} of {points}\n   {call}\n   {why}"));
            }
        }
    }
    println!("points: {disk:?}, {}: {}, cuts tried: {cut_at}", scenario.name, points + 1);
    let shown: String = broken.iter().take(8).map(|one| format!("\n- {one}")).collect();
    assert!(broken.is_empty(), "{disk:?}: {} of {cut_at} broke the promise, {sample}:{shown}", broken.len());
}

#[test]
fn a_cut_in_a_first_boot_leaves_a_first_boot() {
    cut_everywhere(&FIRST_BOOT);
}

#[test]
fn a_cut_in_a_first_start_leaves_a_first_start() {
    cut_everywhere(&FIRST_RUN);
}

#[test]
fn a_cut_in_a_first_backup_loses_nothing() {
    cut_everywhere(&FIRST_BACKUP);
}

#[test]
fn a_cut_in_a_later_backup_loses_neither() {
    cut_everywhere(&BACKUP_AGAIN);
}

#[test]
fn a_cut_in_a_backup_over_a_recycled_one_loses_neither() {
    cut_everywhere(&BACKUP_OVER_A_RECYCLED_ONE);
}

#[test]
fn a_cut_in_a_rollback_leaves_one_or_the_other() {
    cut_everywhere(&ROLLED_BACK);
}

#[test]
fn a_cut_in_a_migration_leads_back_to_its_base() {
    cut_everywhere(&MIGRATION);
}

#[test]
fn a_cut_in_a_start_of_the_workload_loses_nothing() {
    cut_everywhere(&WORKLOAD_STARTS);
}

#[test]
fn a_cut_in_a_verdict_and_its_retention_loses_nothing() {
    cut_everywhere(&VERDICT_AND_RETENTION);
}

#[test]
fn a_cut_in_a_restore_by_hand_leaves_one_or_the_other() {
    cut_everywhere(&RESTORE_BY_HAND);
}

#[test]
fn a_cut_in_a_restore_at_boot_leads_to_it() {
    cut_everywhere(&RESTORE_AT_NEXT_BOOT);
}

#[test]
fn a_cut_while_data_is_moved_aside_loses_nothing() {
    cut_everywhere(&START_CLEAN);
}
