//! An upgrade of a running machine, killed with -9 before and inside every step; the next start finishes or undoes it.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use logic::upgrade::{ApplianceName, Step, Way};
use rustix::process::{Signal, getpid, kill_process};
use serde_json::json;
use testkit::proof::{self, Kind};
use testkit::vm::Guest;
use upgrade::backend::Backend;
use upgrade::backend::vm::Vm;
use upgrade::commands::{self, Request};
use upgrade::{Appliance as Record, BackendKind, Held, Identity, Layout, Options, Witness};

use crate::vm::support::{Appliance, settings};

const STEPS: [Step; 11] = [
    Step::Stage,
    Step::Prepare,
    Step::PowerOff,
    Step::Snapshot,
    Step::Migrate,
    Step::Reconfigure,
    Step::PowerOn,
    Step::ProveReady,
    Step::Commit,
    Step::KeepPoint,
    Step::Tidy,
];
const OLD: &str = "v1.0.0-1-a";
const NEW: &str = "v2.0.0-2-b";
const DIRECTORY: &str = "HOLDFAST_TEST_DIRECTORY";
const STEP: &str = "HOLDFAST_TEST_STEP";
const DELAY: &str = "HOLDFAST_TEST_DELAY";

fn guest(version: &str) -> Guest {
    let mut guest = Guest::new(version);
    guest.vm = json!({"stopTimeout": "1s"});
    guest
}

fn held(root: &Path) -> Held {
    let layout = Layout::at(root);
    let identity = Identity::new(ApplianceName::parse("machine").unwrap(), BackendKind::Vm, "now".to_owned());
    let backend = Box::new(Vm::new(layout.clone(), settings()));
    Record { identity, layout, backend }.hold().unwrap()
}

/// Kills this process at a step.
#[derive(Default)]
struct Killer {
    at: Option<(Step, Duration)>,
    never: AtomicBool,
}

impl Witness for Killer {
    fn step(&self, _: usize, _: usize, step: Step, _: Way) {
        let die = || kill_process(getpid(), Signal::KILL).unwrap();
        match self.at {
            Some((at, Duration::ZERO)) if at == step => die(),
            Some((at, delay)) if at == step => {
                std::thread::spawn(move || {
                    std::thread::sleep(delay);
                    die();
                });
            }
            _ => {}
        }
    }
    fn note(&self, text: &str) {
        eprintln!("{text}");
    }
    fn stop(&self) -> &AtomicBool {
        &self.never
    }
    fn abandon(&self) -> &AtomicBool {
        &self.never
    }
}

/// Not a test: the process that upgrades, and is killed. Without its orders it has nothing to do.
#[test]
fn child_process_that_is_killed() {
    let (Ok(root), Ok(step), Ok(delay)) =
        (std::env::var(DIRECTORY), std::env::var(STEP), std::env::var(DELAY))
    else {
        return;
    };
    let step = STEPS.into_iter().find(|one| one.name() == step).unwrap();
    let killer =
        Killer { at: Some((step, Duration::from_millis(delay.parse().unwrap()))), ..Killer::default() };
    let bring = |_: &str, to: &Path, _: &AtomicBool| {
        let _ = std::fs::remove_dir_all(to);
        guest(NEW).write(to);
        Ok("sha256:0123456789abcdef".to_owned())
    };
    let request = Request { reference: "new", options: Options::default(), bring: &bring, gate: None };
    commands::upgrade(&mut held(Path::new(&root)), &request, &killer).unwrap();
}

fn upgrade_killed(root: &Path, step: Step, delay: u64) -> bool {
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "vm::steps::child_process_that_is_killed", "--nocapture"])
        .env(DIRECTORY, root)
        .env(STEP, step.name())
        .env(DELAY, delay.to_string())
        .output()
        .unwrap();
    let killed = done.status.signal() == Some(9);
    assert!(killed || done.status.success(), "{step}: {}", String::from_utf8_lossy(&done.stderr));
    killed
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    assert!(Command::new("cp").args(["-a", "--reflink=auto"]).args([from, to]).status().unwrap().success());
}

/// What became of it: whether the new release runs.
fn recovered(appliance: &Appliance, step: Step) -> bool {
    let mut held = held(appliance.layout.root());
    commands::start(&mut held, &Options::default(), &Killer::default()).unwrap();
    let version = appliance.get("/version").unwrap();
    let is_new = version == NEW;
    assert!(is_new || version == OLD, "{step}: {version}");
    assert_eq!(appliance.get("/notes/a").as_deref(), Some("one"), "{step}");
    assert_eq!(appliance.processes().len(), 1, "{step}");
    let description = held.appliance.backend.describe().unwrap();
    assert!(description.on);
    // The way back is kept, and nothing else.
    assert_eq!(description.snapshots.len(), usize::from(is_new), "{step}: {description:?}");
    assert_eq!(description.images.len(), 1 + usize::from(is_new), "{step}: {description:?}");
    assert!(held.appliance.transaction().unwrap().is_none());
    is_new
}

fn at_every_step(delay: u64, check: impl Fn(Step, bool)) {
    let appliance = Appliance::new();
    appliance.install(&guest(OLD));
    appliance.start();
    appliance.put("a", "one");
    appliance.vm.power_off().unwrap();
    let template: PathBuf = appliance.scratch().join("template");
    copy(appliance.layout.root(), &template);
    let mut points = 0;
    for step in STEPS {
        copy(&template, appliance.layout.root());
        appliance.vm.power_on().unwrap();
        points += usize::from(upgrade_killed(appliance.layout.root(), step, delay));
        check(step, recovered(&appliance, step));
        appliance.kill_process();
    }
    println!("killed at {points} of {} steps", STEPS.len());
    proof::count(Kind::KillPoints, points);
    assert!(points > STEPS.len() / 2 && (delay > 0 || points == STEPS.len()));
}

#[test]
#[ignore = "prove: machines"]
fn killed_before_any_step_it_is_undone_or_once_the_new_release_is_in_place_finished() {
    let in_place = [Step::PowerOn, Step::ProveReady, Step::Commit, Step::KeepPoint, Step::Tidy];
    at_every_step(0, |step, is_new| assert_eq!(is_new, in_place.contains(&step), "{step}"));
}

#[test]
#[ignore = "prove: machines"]
fn killed_inside_any_step_it_is_one_release_or_the_other() {
    let after = [Step::ProveReady, Step::Commit, Step::KeepPoint, Step::Tidy];
    at_every_step(40, |step, is_new| assert!(is_new || !after.contains(&step), "{step}"));
}
