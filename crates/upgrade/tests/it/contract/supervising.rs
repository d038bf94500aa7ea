//! Supervisors: one per program, and nothing that outlives it.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;
use testkit::proof;
use testkit::sample::Sample;
use testkit::scratch_fs::{FsKind, ScratchFs};
use upgrade::backend::{Backend, Error};
use upgrade::supervise::{self, Launcher, Place};

use crate::contract::fixture::{Fixture, Kind};
use crate::contract::processes::{is_alive, kill, of_program, parent, supervisors, until};
use crate::contract::scratch::{Directory, image};
use crate::contract::slot::{SlotFixture, ask, files_with};

/// This test binary again, as a supervisor.
pub fn launcher() -> Launcher {
    let args = [
        "--exact",
        "contract::supervising::child_process_that_supervises",
        "--nocapture",
        "--test-threads=1",
    ];
    Launcher { program: std::env::current_exe().unwrap(), args: args.map(OsString::from).to_vec() }
}

/// Not a test by itself: switches an appliance on, and is killed while it does.
#[test]
fn child_process_that_switches_on() {
    if let Some(root) = std::env::var_os("SWITCH_ON") {
        let _ = supervise::power_on(&Place::new(Path::new(&root)), &launcher());
    }
}

/// Not a test by itself: what other tests start, with a directory as the last argument.
#[test]
fn child_process_that_supervises() {
    let last = std::env::args_os().next_back().unwrap();
    if let dir = Path::new(&last)
        && dir.is_absolute()
        && dir.join("run").is_dir()
    {
        supervise::run(dir).unwrap();
    }
}

#[test]
fn sixteen_who_switch_it_on_at_once_get_one_appliance() {
    let fixture = SlotFixture::new();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| fixture.slot().power_on().unwrap());
        }
    });
    assert_eq!(fixture.instances(), 1);
    // The supervisor and its keeper.
    assert_eq!(supervisors(fixture.layout().root()).len(), 2);
}

#[test]
fn a_program_that_ends_is_started_again() {
    let fixture = SlotFixture::new();
    fixture.slot().power_on().unwrap();
    let place = fixture.slot().place();
    for restarts in 1..4 {
        let pid = supervise::status(place).unwrap().and_then(|status| status.pid);
        kill(pid.unwrap());
        until("it is started again", || {
            supervise::status(place)
                .unwrap()
                .is_some_and(|status| status.restarts == restarts && status.pid.is_some())
        });
        let status = supervise::status(place).unwrap().unwrap();
        assert_eq!(status.last_exit.as_deref(), Some("killed by signal 9"));
        assert_ne!(status.pid, pid);
    }
    until("it answers", || fixture.version().is_some());
    let log = fs::read_to_string(place.log()).unwrap();
    assert!(
        log.contains("the program ended: killed by signal 9") && log.contains("notes v1 on 127.0.0.1"),
        "{log}"
    );
}

#[test]
fn nothing_that_a_program_starts_outlives_it() {
    let fixture = SlotFixture::new();
    fixture.misbehaving(&["leave-a-child", "hide-a-child"]);
    fixture.slot().power_on().unwrap();
    let data = fixture.layout().data();
    // The program, its child, and three that hide in sessions of their own.
    until("all of them run", || of_program(&data).len() >= 5 && fixture.version().is_some());
    fixture.slot().power_off().unwrap();
    assert_eq!(of_program(&data), [0; 0]);
    assert_eq!(supervisors(fixture.layout().root()), [0; 0]);

    // Nor do they survive the program when it ends by itself.
    fixture.slot().power_on().unwrap();
    until("all of them run again", || of_program(&data).len() >= 5 && fixture.version().is_some());
    let before = of_program(&data);
    kill(supervise::status(fixture.slot().place()).unwrap().unwrap().pid.unwrap());
    until("all of them have ended", || !of_program(&data).iter().any(|pid| before.contains(pid)));
}

#[test]
fn a_supervisor_that_is_killed_leaves_nothing_running_and_is_replaced() {
    let fixture = SlotFixture::new();
    fixture.misbehaving(&["leave-a-child", "hide-a-child"]);
    let data = fixture.layout().data();
    let place = fixture.slot().place();
    for _ in 0..3 {
        fixture.slot().power_on().unwrap();
        until("all of them run", || of_program(&data).len() >= 5 && fixture.version().is_some());
        let supervisor = supervise::status(place).unwrap().unwrap().supervisor;
        kill(supervisor);
        // Off means off: when it says so, nothing is left.
        fixture.slot().power_off().unwrap();
        assert_eq!(of_program(&data), [0; 0]);
        assert_eq!(supervisors(fixture.layout().root()), [0; 0]);
    }
    // Whoever switches it on at once gets a new one.
    fixture.slot().power_on().unwrap();
    let killed = supervise::status(place).unwrap().unwrap().supervisor;
    kill(killed);
    until("it is dead", || !is_alive(killed));
    fixture.slot().power_on().unwrap();
    assert_ne!(supervise::status(place).unwrap().unwrap().supervisor, killed);
    until("it answers", || fixture.version().is_some());
}

#[test]
fn a_keeper_that_is_killed_leaves_nothing_running_and_is_replaced() {
    let fixture = SlotFixture::new();
    fixture.misbehaving(&["leave-a-child", "hide-a-child"]);
    fixture.slot().power_on().unwrap();
    let data = fixture.layout().data();
    until("all of them run", || of_program(&data).len() >= 5 && fixture.version().is_some());
    let status = supervise::status(fixture.slot().place()).unwrap().unwrap();
    let before = of_program(&data);
    let keeper = parent(status.pid.unwrap()).unwrap();
    assert_eq!(parent(keeper), Some(status.supervisor));
    kill(keeper);
    until("all of them have ended", || !of_program(&data).iter().any(|pid| before.contains(pid)));
    until("another runs", || fixture.version().is_some());
}

#[test]
fn a_program_that_does_not_stop_is_killed_when_its_time_is_up() {
    let fixture = SlotFixture::new();
    let (image, brought) = fixture.bring_changed(2, |manifest| {
        manifest["slot"]["command"] =
            json!(["/bin/sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.05; done"]);
        manifest["slot"]["stopTimeout"] = json!("200ms");
    });
    fixture.slot().stage_image(&image, &brought).unwrap();
    fixture.slot().reconfigure(&image).unwrap();
    fixture.slot().power_on().unwrap();
    let log = fixture.slot().place().log();
    until("it is deaf", || fs::read_to_string(&log).unwrap_or_default().contains("deaf"));
    fixture.slot().power_off().unwrap();
    assert_eq!(fixture.instances(), 0);
    assert!(fs::read_to_string(log).unwrap().contains("it did not stop in time, and was killed"));
}

#[test]
fn a_program_that_cannot_be_started_is_said_to_be() {
    let fixture = SlotFixture::new();
    let (image, brought) =
        fixture.bring_changed(2, |manifest| manifest["slot"]["command"] = json!(["bin/nothing"]));
    fixture.slot().stage_image(&image, &brought).unwrap();
    fixture.slot().reconfigure(&image).unwrap();
    let error = fixture.slot().power_on().unwrap_err();
    assert!(
        matches!(&error, Error::Supervise(supervise::Error::NotStarted { why }) if why.contains("bin/nothing")),
        "{error:?}"
    );
    assert!(!fixture.slot().describe().unwrap().on);
    until("its supervisor has ended", || supervisors(fixture.layout().root()).is_empty());
}

#[test]
fn a_log_does_not_grow_without_end() {
    let fixture = SlotFixture::new();
    fixture.misbehaving(&["print-a-lot"]);
    fixture.slot().power_on().unwrap();
    until("it has printed a lot", || fixture.version().is_some());
    let (log, older) = (fixture.slot().place().log(), fixture.layout().run().join("log.1"));
    let sizes = [&log, &older].map(|path| fs::metadata(path).unwrap().len());
    assert!(sizes.iter().all(|size| *size <= 10 << 20), "{sizes:?}");
    assert!(sizes.iter().sum::<u64>() >= 12_000_000, "{sizes:?}");
    assert!(fs::read_to_string(log).unwrap().contains("notes v2 on"));
}

#[test]
fn a_program_says_by_itself_that_it_is_ready() {
    let fixture = SlotFixture::new();
    let stage = |build, told: bool| {
        let (image, brought) = fixture.bring_changed(build, |manifest| {
            manifest["readiness"]["probe"] = json!("notify");
            if told {
                let command = manifest["slot"]["command"].as_array_mut().unwrap();
                command.extend([json!("--misbehave"), json!("notify")]);
            }
        });
        fixture.slot().stage_image(&image, &brought).unwrap();
    };
    stage(2, true);
    stage(3, false);
    let place = fixture.slot().place();
    fixture.slot().reconfigure(&image(2)).unwrap();
    fixture.slot().power_on().unwrap();
    fixture.slot().wait_ready(None, &false.into()).unwrap();
    assert_eq!(supervise::status(place).unwrap().unwrap().said.as_deref(), Some("open"));
    // What the one before has said does not count for the next.
    fixture.slot().power_off().unwrap();
    fixture.slot().reconfigure(&image(3)).unwrap();
    fixture.slot().power_on().unwrap();
    let waited = fixture.slot().wait_ready(Some(Duration::from_millis(300)), &false.into());
    assert!(matches!(waited, Err(Error::NotReady { .. })), "{waited:?}");
}

#[test]
fn a_program_gets_its_configuration_in_memory_and_it_is_never_on_disk() {
    let fixture = SlotFixture::new();
    fixture.misbehaving(&["show-config"]);
    fixture.slot().power_on().unwrap();
    until("it has seen its configuration", || fixture.version().is_some());
    let plain = upgrade::Configuration::load(fixture.layout()).unwrap().plain().to_string();
    assert!(plain.contains("swordfish"));
    let seen = fs::read_to_string(fixture.layout().data().join("seen")).unwrap();
    assert_eq!(seen, plain.len().to_string());
    fixture.slot().power_off().unwrap();
    assert_eq!(files_with(fixture.layout().root(), "swordfish"), Vec::<std::path::PathBuf>::new());
}

#[test]
fn what_must_be_off_is_refused_while_it_is_on() {
    let fixture = SlotFixture::new();
    let (two, brought) = fixture.bring(2, Kind::Good);
    fixture.slot().stage_image(&two, &brought).unwrap();
    let id = crate::contract::scratch::snapshot_id(1);
    fixture.slot().snapshot(&id, &image(1)).unwrap();
    fixture.slot().power_on().unwrap();
    for refused in [
        fixture.slot().snapshot(&crate::contract::scratch::snapshot_id(2), &image(1)),
        fixture.slot().reconfigure(&two),
        fixture.slot().revert(&id),
    ] {
        assert!(matches!(refused, Err(Error::On)), "{refused:?}");
    }
    until("it answers", || ask(fixture.port(), "GET", "/version", "").as_deref() == Some("v1"));
}

#[test]
fn whoever_switches_it_on_may_be_killed_at_any_time() {
    let fixture = SlotFixture::new();
    let root = fixture.layout().root();
    let (mut on, mut kills) = (0, 0);
    let sample = Sample::of("killed while it switches on");
    let delays: Vec<u64> = (0..40).chain(0..20).collect();
    for round in sample.with_ends(0..delays.len()) {
        let millis = delays[round];
        kills += 1;
        let mut switching = Command::new(std::env::current_exe().unwrap());
        switching
            .args(["--exact", "contract::supervising::child_process_that_switches_on"])
            .env("SWITCH_ON", root);
        let mut switching = switching.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(millis));
        switching.kill().unwrap();
        switching.wait().unwrap();
        // It is on or it is not, and after this it is not, and does not come on later.
        on += usize::from(fixture.slot().describe().unwrap().on);
        fixture.slot().power_off().unwrap();
        assert_eq!(fixture.instances(), 0, "killed after {millis} ms, {sample}");
        until("whoever was about to supervise it has gone", || supervisors(root).is_empty());
        assert_eq!(fixture.instances(), 0, "killed after {millis} ms, {sample}");
    }
    println!("on in {on} of {kills} times");
    proof::count(proof::Kind::KillPoints, kills);
    fixture.slot().power_on().unwrap();
    until("it answers", || fixture.version().is_some());
}

#[test]
fn a_program_that_waits_to_be_started_again_is_stopped_as_well() {
    let fixture = SlotFixture::new();
    fixture.misbehaving(&["crash-at-start"]);
    fixture.slot().power_on().unwrap();
    let place = fixture.slot().place();
    until("it has ended a few times", || {
        supervise::status(place).unwrap().is_some_and(|status| status.restarts >= 3 && status.pid.is_none())
    });
    fixture.slot().power_off().unwrap();
    assert_eq!(supervisors(fixture.layout().root()), [0; 0]);
}

#[test]
fn a_full_disk_keeps_nobody_from_switching_it_off_and_on() {
    let disk = ScratchFs::new(FsKind::Ext4, FsKind::Ext4.smallest());
    let fixture = SlotFixture::below(Directory::below(disk.path()));
    let slot = fixture.slot();
    slot.power_on().unwrap();
    slot.wait_ready(None, &false.into()).unwrap();
    let _filler = disk.fill(0);
    for _ in 0..2 {
        slot.power_off().unwrap();
        assert_eq!(fixture.instances(), 0);
        slot.power_on().unwrap();
        slot.wait_ready(None, &false.into()).unwrap();
        assert_eq!(fixture.version().as_deref(), Some("v1"));
    }
    slot.power_off().unwrap();
}

#[test]
fn a_path_that_is_too_long_for_a_socket_does_not_matter() {
    let above = Directory::new();
    let long = above.path().join("x".repeat(120));
    fs::create_dir(&long).unwrap();
    let fixture = SlotFixture::below(Directory::below(&long));
    let (image, brought) = fixture.bring_changed(2, |manifest| {
        manifest["readiness"]["probe"] = json!("notify");
        let command = manifest["slot"]["command"].as_array_mut().unwrap();
        command[0] = json!("/bin/sh");
        command.truncate(1);
        command.extend([json!("-c"), json!("case $NOTIFY_SOCKET in @*) touch abstract;; esac; sleep 1000")]);
    });
    fixture.slot().stage_image(&image, &brought).unwrap();
    fixture.slot().reconfigure(&image).unwrap();
    fixture.slot().power_on().unwrap();
    let seen = fixture.layout().data().join("abstract");
    until("the socket has a name that is no path", || seen.exists());
}
