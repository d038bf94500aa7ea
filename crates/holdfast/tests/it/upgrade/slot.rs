//! A supervised process, and what goes wrong elsewhere.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use testkit::scratch_fs::{FsKind, ScratchFs};

use crate::stories;
use crate::upgrade::site::{Done, Release, Site, Slot};

stories! { Slot:
    upgrade_without_migration,
    upgrade_with_migration,
    roll_back,
    roll_back_with_a_new_workload,
    resume_before_the_snapshot,
    resume_after_success,
    resume_without_the_old_image,
    resume_and_roll_back_after_it,
    a_failed_upgrade_puts_everything_back,
    an_appliance_that_is_off_is_upgraded_and_stays_off,
}

fn old() -> Release {
    Release::of(10)
}

fn new() -> Release {
    Release::of(20).with_data(2)
}

fn site() -> Site<Slot> {
    let site = Site::new();
    site.create(&old());
    site.put("bread", "two");
    site
}

#[track_caller]
fn untouched(site: &Site<Slot>) {
    site.serves(&old());
    assert_eq!(site.note("bread").as_deref(), Some("two"));
    let seen = site.inspect();
    assert_eq!(seen["state"], Value::from("up-to-date"), "{seen:#}");
    assert_eq!(seen["dataVersion"], Value::from(1), "{seen:#}");
    assert_eq!(seen["images"].as_array().unwrap().len(), 1, "{seen:#}");
    assert_eq!(seen["snapshots"].as_array().unwrap().len(), 0, "{seen:#}");
    let data = site.appliance().join("state/data");
    let stores: Vec<_> = fs::read_dir(data).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(stores, ["notes.v1"]);
}

#[test]
fn the_data_version_is_not_stamped_when_a_migration_fails() {
    let site = site();
    for script in ["#!/bin/sh\nexit 3\n", "#!/bin/sh\necho '{\"values\": '\n", "not a program"] {
        let reference = site.release(&new().with_migration(2, script));
        let failed = site.ends(&["upgrade", "shop", "--release", &reference], 7);
        assert!(failed.err.contains("appliance-2") || failed.err.contains("version 2"), "{}", failed.err);
        untouched(&site);
    }
}

#[test]
fn data_newer_than_the_program_is_refused() {
    let site = Site::<Slot>::new();
    site.create(&Release::of(10).with_data(3));
    let reference = site.release(&Release::of(20).with_data(2));
    let refused = site.ends(&["upgrade", "shop", "--release", &reference], 4);
    assert!(refused.err.contains("newer"), "{}", refused.err);
    site.serves(&Release::of(10));
}

#[test]
fn an_older_release_and_the_same_build_with_other_content_are_refused() {
    let site = site();
    let older = site.release(&Release::of(5));
    let refused = site.ends(&["upgrade", "shop", "--release", &older], 4);
    assert!(refused.err.contains("older"), "{}", refused.err);
    let same = site.release(&old().with_data(2));
    let refused = site.ends(&["upgrade", "shop", "--release", &same], 4);
    assert!(refused.err.contains("build id"), "{}", refused.err);
    untouched(&site);
}

#[test]
fn a_migration_that_was_applied_and_has_changed_is_refused() {
    let site = site();
    site.upgrade(&new());
    let other = Release::of(30).with_data(3).with_migration(2, "#!/bin/sh\ncat\n");
    let reference = site.release(&other);
    let refused = site.ends(&["upgrade", "shop", "--release", &reference], 4);
    assert!(refused.err.contains("digest"), "{}", refused.err);
    site.serves(&new());
}

#[test]
fn a_dry_run_shows_what_would_change_and_changes_nothing() {
    let site = site();
    let reference = site.release(&Release::of(30).with_data(3));
    let shown = site.ok(&["upgrade", "shop", "--release", &reference, "--dry-run"]).out;
    for expected in ["1 → 2 → 3", "power-off · snapshot", "+ title2", "- title1", "+ store notes.v3"] {
        assert!(shown.contains(expected), "{expected} is not in {shown}");
    }
    assert!(!shown.contains("hush"));
    untouched(&site);
}

#[test]
fn the_mark_that_something_is_in_progress_is_not_in_the_snapshot() {
    let site = site();
    let reference = site.release(&new());
    site.killed_at(&["upgrade", "shop", "--release", &reference], "migrate");
    let snapshots = site.appliance().join("snapshots");
    let snapshot = fs::read_dir(&snapshots).unwrap().next().unwrap().unwrap().path();
    let state = snapshot.join("state");
    let held: Vec<_> = fs::read_dir(state).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(held.iter().all(|name| name == "configuration.json" || name == "data"), "{held:?}");
    site.ok(&["upgrade", "shop", "--rollback"]);
    untouched(&site);
    site.ends(&["upgrade", "shop", "--resume"], 3);
}

#[test]
fn the_lock_of_a_dead_owner_does_not_hold_and_that_of_a_live_one_does() {
    let site = site();
    let reference = site.release(&new().never_ready());
    let words = ["upgrade", "shop", "--release", &reference, "--timeout", "20s"];
    let mut running = site.command(&words).spawn().unwrap();
    site.wait("the upgrade to be under way", || site.inspect()["step"] == "prove-ready");
    assert_eq!(site.inspect()["state"], Value::from("upgrading"));
    let refused = site.ends(&["upgrade", "shop", "--release", &reference], 75);
    assert!(refused.err.contains(&running.id().to_string()), "{}", refused.err);
    running.kill().unwrap();
    running.wait().unwrap();
    site.state_is("interrupted");
    site.ok(&["upgrade", "shop", "--rollback"]);
    untouched(&site);
}

#[test]
fn readiness_after_a_revert_is_checked_and_its_failure_is_an_error() {
    let site = site();
    let reference = site.release(&new().never_ready());
    // The old release can't come back: its port is taken in the meantime.
    let words = ["upgrade", "shop", "--release", &reference, "--timeout", "3s"];
    let child = site.command(&words).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let current = site.appliance().join("current");
    site.wait("the switch", || {
        fs::read_link(&current).is_ok_and(|to| to.display().to_string().contains(&new().version()))
    });
    let image = site.image(&old());
    fs::rename(image.join("bin"), image.join("gone")).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(10), "{said}");
    site.state_is("needs-hands");
    fs::rename(image.join("gone"), image.join("bin")).unwrap();
    site.ok(&["upgrade", "shop", "--rollback"]);
    untouched(&site);
}

#[test]
fn an_interrupt_undoes_at_every_step_and_a_second_one_leaves_it_for_later() {
    let site = site();
    for signal in [Signal::INT, Signal::TERM] {
        for step in ["stage", "prepare", "power-off", "snapshot", "migrate", "reconfigure", "power-on"] {
            let reference = site.release(&new().never_ready());
            let words = ["upgrade", "shop", "--release", &reference, "--timeout", "20s"];
            let done = site.signalled_at(&words, step, signal);
            assert_eq!(done.code, 9, "{step}: {}", done.err);
            untouched(&site);
        }
    }
    let reference = site.release(&new().never_ready());
    let words = ["upgrade", "shop", "--release", &reference, "--timeout", "60s"];
    let mut child = site.command(&words).spawn().unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    site.wait("the upgrade to wait", || site.inspect()["step"] == "prove-ready");
    // Nothing can come back as long as this is held: the way back waits.
    let blocker = site.root.join("blocked");
    let old_image = site.image(&old());
    fs::rename(old_image.join("bin"), &blocker).unwrap();
    rustix::process::kill_process(pid, Signal::INT).unwrap();
    site.wait("the way back", || {
        let seen = site.inspect();
        seen["way"] == "back" || seen["state"] == "needs-hands"
    });
    // It may have seen by now that there is no way back.
    let _ = rustix::process::kill_process(pid, Signal::INT);
    let code = child.wait().unwrap().code();
    assert!(matches!(code, Some(10 | 11)), "{code:?}");
    fs::rename(&blocker, old_image.join("bin")).unwrap();
    site.ok(&["appliance", "start", "shop"]);
    untouched(&site);
}

const AFTER_STAGE: [&str; 6] = ["prepare", "power-off", "snapshot", "migrate", "reconfigure", "power-on"];

#[test]
fn an_image_that_vanishes_at_any_step_is_put_right_or_named() {
    let site = site();
    for step in AFTER_STAGE {
        let reference = site.release(&new());
        let words = ["upgrade", "shop", "--release", &reference];
        let done = site.held_at(&words, step, || fs::remove_dir_all(site.image(&new())).unwrap());
        assert_eq!(done.code, 9, "{step}: {}", done.err);
        untouched(&site);
    }
}

#[test]
fn a_disk_that_is_full_at_any_step_loses_nothing() {
    for kind in [FsKind::Ext4, FsKind::Xfs { reflink: true }] {
        let disk = ScratchFs::new(kind, kind.smallest().max(400 << 20));
        let site = Site::<Slot>::at(disk.path());
        site.create(&old());
        site.put("bread", "two");
        let mut ends = vec![];
        for step in ["stage"].iter().chain(&AFTER_STAGE) {
            let reference = site.release(&new());
            let words = ["upgrade", "shop", "--release", &reference];
            let mut filler = None;
            let done = site.held_at(&words, step, || filler = Some(disk.fill(0)));
            let full = site.run(&["appliance", "ls"]);
            assert_eq!(full.code, 0, "{step}: {full:?}");
            fs::remove_file(filler.unwrap()).unwrap();
            assert!(matches!(done.code, 0 | 9 | 10), "{step}: {done:?}");
            ends.push((*step, done.code));
            site.ok(&["appliance", "start", "shop"]);
            assert_eq!(site.note("bread").as_deref(), Some("two"), "{step}");
            if done.code == 0 {
                site.ok(&["upgrade", "shop", "--rollback"]);
            }
            untouched(&site);
        }
        println!("{kind:?}: {ends:?}");
        drop(site);
    }
}

#[test]
fn secrets_are_sealed_rotated_and_never_shown() {
    let site = site();
    let dir = site.appliance();
    let sealed = |dir: &Path| {
        let grep = std::process::Command::new("grep").args(["-rl", "hush"]).arg(dir).output().unwrap();
        String::from_utf8(grep.stdout).unwrap()
    };
    assert_eq!(sealed(&dir), "", "a secret lies in clear");
    let keys = || fs::read_dir(dir.join("keys")).unwrap().map(|e| e.unwrap().file_name()).collect::<Vec<_>>();
    let before = keys();
    assert_eq!(before.len(), 1);
    fs::write(site.root.join("secret"), "hush hush\n").unwrap();
    let reference = site.release(&new());
    let done = site.ok(&["upgrade", "shop", "--release", &reference, "--set-secret", "password=@secret"]);
    assert!(!(done.out + &done.err).contains("hush"));
    assert_eq!(sealed(&dir), "");
    let after = keys();
    assert_eq!(after.len(), 2, "that of the rollback point, and a new one");
    assert!(after.contains(&before[0]));
    let shown = site.ok(&["appliance", "inspect", "shop", "-o", "yaml"]).out;
    assert!(shown.contains("(secret)") && !shown.contains("hush"), "{shown}");
    site.ok(&["upgrade", "shop", "--rollback"]);
    assert_eq!(keys(), before, "the old key opens the old configuration");
    untouched(&site);
    let mode = fs::metadata(dir.join("keys").join(&before[0])).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn workloads_go_on_throughout_and_are_read_through_migration() {
    let site = site();
    let own = testkit::ports::free_port();
    let port = own.to_string();
    let words = ["appliance", "workload", "create", "shop", "cache", "--set", "size=3", "--"];
    let command = ["{release}/bin/notes", "--data", "{data}", "--port", &port, "--version", "w"];
    site.ok(&[&words[..], &command[..]].concat());
    let answers = || testkit::vm::ask(own, "GET", "/version", "").is_some_and(|answer| answer.status == 200);
    site.wait("the workload", answers);
    let record = || fs::read(site.appliance().join("workloads/cache/record.json")).unwrap();
    let before = record();

    let over = AtomicBool::new(false);
    let asked = std::thread::scope(|scope| {
        let asker = scope.spawn(|| {
            let mut asked = 0;
            while !over.load(Ordering::Relaxed) {
                assert!(answers(), "the workload did not answer, after {asked} times");
                asked += 1;
                std::thread::sleep(Duration::from_millis(10));
            }
            asked
        });
        let next = new();
        let dir = site.release(&next);
        let script = "#!/usr/bin/env python3\nimport json, sys\ngiven = json.load(sys.stdin)\n\
                      values = given['values']\nvalues['bytes'] = values.pop('size') * 1024\n\
                      json.dump({'values': values, 'unavailable': ['attach']}, sys.stdout)\n";
        let path = Path::new(&dir).join("migrations/workload-2-bytes");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let done = site.ok(&["upgrade", "shop", "--release", &dir]);
        assert!(done.out.contains("cache") && done.out.contains("attach"), "{}", done.out);
        over.store(true, Ordering::Relaxed);
        asker.join().unwrap()
    });
    println!("the workload answered {asked} times throughout the upgrade");
    site.serves(&new());

    let seen = site.ok(&["appliance", "workload", "inspect", "shop", "cache", "-o", "json"]);
    let seen: Value = serde_json::from_str(&seen.out).unwrap();
    assert_eq!((&seen["data"]["bytes"], &seen["readAs"]), (&Value::from(3072), &Value::from(2)));
    let skipped = site.ok(&["appliance", "workload", "set", "shop", "cache", "bytes=1"]);
    assert!(skipped.err.contains("skipped"), "{}", skipped.err);
    assert_eq!(record(), before, "a workload's record is never rewritten");
    // Its maker's image stays for it.
    site.upgrade(&Release::of(30).with_data(2));
    site.upgrade(&Release::of(40).with_data(2));
    assert!(answers());
    let images = site.inspect()["images"].to_string();
    assert!(images.contains(&old().version()), "{images}");
}

#[test]
fn a_configuration_that_does_not_work_is_put_back() {
    let site = site();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!("port={}", taken.local_addr().unwrap().port());
    let words = ["appliance", "configure", "shop", "--set", &port, "--restart"];
    site.ends(&words, 4);
    site.serves(&old());
    site.ok(&["appliance", "configure", "shop", "--set", "title1=List", "--restart"]);
    assert_eq!(site.inspect()["configuration"]["title1"], Value::from("List"));
    site.serves(&old());
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_touched() {
    let site = site();
    site.ends(&["upgrade", "nobody", "--release", "/nowhere"], 3);
    site.ends(&["upgrade", "shop"], 2);
    site.ends(&["upgrade", "shop", "--release", "/nowhere"], 3);
    let empty = site.root.join("empty");
    fs::create_dir(&empty).unwrap();
    site.ends(&["upgrade", "shop", "--release", &empty.display().to_string()], 3);
    let strange = site.root.join("strange");
    fs::create_dir(&strange).unwrap();
    for manifest in ["{}", "{\"version\": \"v1-x-a\"}", "\0"] {
        fs::write(strange.join("release.json"), manifest).unwrap();
        site.ends(&["upgrade", "shop", "--release", &strange.display().to_string()], 4);
    }
    // Words that stand for nothing with this configuration.
    let reference = site.release(&new());
    let path = Path::new(&reference).join("release.json");
    let text = fs::read_to_string(&path).unwrap().replace("{config.port}", "{config.door}");
    fs::write(&path, text).unwrap();
    let refused = site.ends(&["upgrade", "shop", "--release", &reference], 4);
    assert!(refused.err.contains("config.door"), "{}", refused.err);
    untouched(&site);
}

#[test]
fn one_that_should_run_and_does_not_is_upgraded_as_one_that_runs() {
    let site = site();
    let supervisor = fs::read_to_string(site.appliance().join("run/supervisor.lock")).unwrap();
    let holder: Value = serde_json::from_str(&supervisor).unwrap();
    let pid = rustix::process::Pid::from_raw(holder["pid"].as_i64().unwrap() as i32).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
    site.wait("its end", || site.inspect()["on"] == false);
    assert!(site.inspect()["trouble"].to_string().contains("should run"));
    let broken = site.release(&new().never_ready());
    site.ends(&["upgrade", "shop", "--release", &broken, "--timeout", "2s"], 9);
    site.upgrade(&new());
    site.serves(&new());
}

#[test]
fn what_was_not_ready_before_is_no_dead_end() {
    let site = Site::<Slot>::new();
    site.create(&old());
    site.ok(&["appliance", "stop", "shop"]);
    // Off, so that nobody notices that it is never ready.
    site.upgrade(&Release::of(15).never_ready());
    site.ends(&["appliance", "start", "shop", "--timeout", "1s"], 13);
    let broken = site.release(&new().never_ready());
    site.ends(&["upgrade", "shop", "--release", &broken, "--timeout", "1s"], 9);
    site.state_is("up-to-date");
    site.upgrade(&Release::of(30).with_data(2));
    site.serves(&Release::of(30));
}

#[test]
fn a_secret_is_in_no_file_and_a_resumption_asks_for_it_again() {
    let site = site();
    let reference = site.release(&new());
    let words = ["upgrade", "shop", "--release", &reference, "--set-secret", "password=h4sh-h4sh"];
    site.killed_at(&words, "migrate");
    let grep =
        std::process::Command::new("grep").args(["-rl", "h4sh"]).arg(site.appliance()).output().unwrap();
    assert_eq!(String::from_utf8(grep.stdout).unwrap(), "");
    let refused = site.ends(&["upgrade", "shop", "--resume"], 4);
    assert!(refused.err.contains("password"), "{}", refused.err);
    site.ok(&["upgrade", "shop", "--resume", "--set-secret", "password=h4sh-h4sh"]);
    site.serves(&new());
    // There is nothing to do, and so nothing that would replace it.
    site.ends(&words, 4);
}

#[test]
fn a_release_without_its_program_is_refused_before_anything_is_stopped() {
    let site = site();
    let reference = site.release(&new());
    let program = Path::new(&reference).join("bin/notes");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = site.ends(&["upgrade", "shop", "--release", &reference], 4);
    assert!(refused.err.contains("bin/notes") && !refused.err.contains("power-off"), "{}", refused.err);
    fs::remove_file(&program).unwrap();
    site.ends(&["upgrade", "shop", "--release", &reference], 4);
    untouched(&site);
}

#[test]
fn what_storage_holds_up_is_refused_unless_a_person_insists() {
    let site = site();
    let reference = site.release(&new());
    let manifests = Path::new(&reference).join("release-manifests");
    fs::create_dir_all(&manifests).unwrap();
    fs::write(manifests.join("supported-storage-versions.json"), "{}").unwrap();
    let upgrade = |more: &[&str]| {
        let words = [&["upgrade", "shop", "--release", &reference], more].concat();
        let mut command = site.command(&words);
        // A cluster that can't be asked: nobody knows what is stored there.
        command.env("HOLDFAST_STORAGE_KUBECONFIG", site.root.join("none"));
        Done::by(command)
    };
    for more in [&[][..], &["--dry-run"]] {
        let refused = upgrade(more);
        assert_eq!(refused.code, 4, "{refused:?}");
        assert!(
            refused.err.contains("storage-gate: ") && refused.err.contains("`--force storage-gate`"),
            "{refused:?}"
        );
    }
    let unknown = upgrade(&["--force", "skew"]);
    assert_eq!(unknown.code, 2, "{unknown:?}");
    assert!(unknown.err.contains("storage-gate"), "{unknown:?}");
    untouched(&site);
    let done = upgrade(&["--force", "storage-gate"]);
    assert_eq!(done.code, 0, "{done:?}");
    site.serves(&new());
}

#[test]
fn of_two_who_make_the_same_appliance_one_succeeds() {
    let site = Site::<Slot>::new();
    let (reference, port) = (site.release(&old()), format!("port={}", site.port));
    let words = ["appliance", "create", "shop", "--release", &reference, "--set", &port];
    for _ in 0..10 {
        let tries: Vec<_> = (0..3).map(|_| site.command(&words).spawn().unwrap()).collect();
        let codes: Vec<_> = tries.into_iter().map(|mut it| it.wait().unwrap().code().unwrap()).collect();
        assert_eq!(codes.iter().filter(|code| **code == 0).count(), 1, "{codes:?}");
        assert!(codes.iter().all(|code| matches!(code, 0 | 4 | 75)), "{codes:?}");
        site.ok(&["appliance", "inspect", "shop"]);
        site.ok(&["appliance", "rm", "shop"]);
    }
}

#[test]
fn one_whose_record_is_damaged_can_be_stopped_and_removed() {
    let site = site();
    fs::write(site.appliance().join("appliance.json"), "").unwrap();
    site.ends(&["appliance", "start", "shop"], 8);
    site.ends(&["appliance", "rm", "shop"], 4);
    site.ok(&["appliance", "stop", "shop"]);
    assert!(site.get("/version").is_none(), "it still answers");
    site.ok(&["appliance", "rm", "shop"]);
    assert!(!site.appliance().exists());
}

#[test]
fn a_dry_run_of_a_rollback_shows_its_steps_or_why_there_are_none() {
    let site = site();
    let words = ["upgrade", "shop", "--rollback", "--dry-run"];
    site.ends(&words, 3);
    site.upgrade(&new());
    let plan = site.ok(&words).out;
    assert!(plan.contains("return") && plan.contains(&old().version()), "{plan}");
    site.serves(&new());
    site.ok(&["upgrade", "shop", "--rollback"]);
    let reference = site.release(&new());
    site.killed_at(&["upgrade", "shop", "--release", &reference], "migrate");
    let plan = site.ok(&words).out;
    assert!(plan.contains("revert") && plan.contains(&old().version()), "{plan}");
    site.state_is("interrupted");
    site.ok(&["upgrade", "shop", "--rollback"]);
    untouched(&site);
}
