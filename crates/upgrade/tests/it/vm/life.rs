//! A machine from its first start to its end.

use std::fs;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use serde_json::json;
use testkit::vm::{Behaviour, Guest};
use upgrade::backend::{Backend, Error};

use crate::vm::support::{Appliance, snapshot_id};

#[test]
#[ignore = "prove: machines"]
fn an_upgrade_and_the_way_back_take_disk_definition_and_configuration_along() {
    let appliance = Appliance::new();
    let old = Guest::new("v1.0.0-1-a");
    let mut new = Guest::new("v2.0.0-2-b");
    new.data_version = 2;
    new.vm = json!({"memoryMib": 224});
    let (snapshot, later) = (snapshot_id(1), snapshot_id(2));

    let first = appliance.install(&old);
    appliance.configure(&old, json!({"colour": "red", "password": {"$secret": "hidden"}}));
    appliance.start();
    let started = std::time::Instant::now();
    assert_eq!(appliance.get("/version").as_deref(), Some("v1.0.0-1-a"));
    let config = appliance.get("/config").unwrap();
    assert!(config.contains("\"colour\":\"red\"") && config.contains("\"password\":\"hidden\""), "{config}");
    appliance.put("a", "one");
    eprintln!("asked four things in {:?}", started.elapsed());

    let second = appliance.stage(&new);
    appliance.vm.prepare_snapshot(&snapshot).unwrap();
    appliance.vm.power_off().unwrap();
    assert!(appliance.processes().is_empty());
    appliance.vm.snapshot(&snapshot, &first).unwrap();
    appliance.vm.snapshot(&snapshot, &first).unwrap();
    appliance.configure(&new, json!({"colour": "blue"}));
    appliance.vm.reconfigure(&second).unwrap();
    appliance.start();
    assert_eq!(appliance.get("/version").as_deref(), Some("v2.0.0-2-b"));
    assert!(appliance.get("/config").unwrap().contains("blue"));
    assert_eq!(appliance.get("/notes/a").as_deref(), Some("one"));
    appliance.put("a", "two");

    appliance.vm.power_off().unwrap();
    appliance.vm.snapshot(&later, &second).unwrap();
    let description = appliance.vm.describe().unwrap();
    assert_eq!(description.snapshots.iter().filter(|one| one.image.is_some()).count(), 2);

    // Back, twice: the second time there is nothing to do, and it is done again.
    appliance.vm.revert(&snapshot).unwrap();
    appliance.vm.revert(&snapshot).unwrap();
    assert_eq!(appliance.vm.describe().unwrap().current, Some(first.clone()));
    appliance.start();
    assert_eq!(appliance.get("/version").as_deref(), Some("v1.0.0-1-a"));
    assert!(appliance.get("/config").unwrap().contains("red"));
    assert_eq!(appliance.get("/notes/a").as_deref(), Some("one"));

    // A snapshot goes from a machine that runs, which then still runs; and there is one less in its disk.
    appliance.vm.delete_snapshot(&snapshot).unwrap();
    appliance.vm.delete_snapshot(&snapshot).unwrap();
    assert_eq!(appliance.get("/version").as_deref(), Some("v1.0.0-1-a"));
    appliance.vm.power_off().unwrap();
    assert!(matches!(appliance.vm.revert(&snapshot), Err(Error::NoSnapshot { .. })));

    // The other one was not touched by any of this.
    appliance.vm.revert(&later).unwrap();
    appliance.start();
    assert_eq!(appliance.get("/version").as_deref(), Some("v2.0.0-2-b"));
    assert_eq!(appliance.get("/notes/a").as_deref(), Some("two"));
    appliance.vm.power_off().unwrap();
}

#[test]
#[ignore = "prove: machines"]
fn what_the_machine_is_given_as_its_configuration_is_in_no_file() {
    let appliance = Appliance::new();
    let guest = Guest::new("v1.0.0-1-a");
    appliance.install(&guest);
    appliance.configure(&guest, json!({"password": {"$secret": "correct-horse-battery"}}));
    appliance.start();
    assert!(appliance.get("/config").unwrap().contains("correct-horse-battery"));
    let found = std::process::Command::new("grep")
        .args(["-rlF", "correct-horse-battery"])
        .arg(appliance.scratch())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&found.stdout), "");
    for id in appliance.processes() {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap();
        assert!(!String::from_utf8_lossy(&line).contains("correct-horse"));
    }
    appliance.vm.power_off().unwrap();
}

#[test]
fn many_who_start_it_at_once_start_one_machine() {
    let appliance = Appliance::new();
    appliance.install(&Guest::new("v1.0.0-1-a"));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| appliance.vm.power_on().unwrap());
        }
    });
    assert_eq!(appliance.processes().len(), 1);
    assert!(appliance.vm.describe().unwrap().on);
    appliance.kill_process();
    appliance.vm.power_off().unwrap();
    assert!(!appliance.vm.describe().unwrap().on);
}

#[test]
#[ignore = "prove: machines"]
fn a_machine_that_panics_is_not_waited_for_to_the_end() {
    let appliance = Appliance::new();
    let mut guest = Guest::new("v1.0.0-1-a");
    guest.behaviour = Behaviour::Panics;
    guest.ready_timeout = "1h".to_owned();
    appliance.install(&guest);
    appliance.vm.power_on().unwrap();
    let error = appliance.vm.wait_ready(None, &AtomicBool::new(false)).unwrap_err();
    let Error::Ended { last } = &error else { panic!("{error}") };
    assert!(last.contains("panic"), "{last}");
    assert!(!appliance.vm.describe().unwrap().on);
}

#[test]
#[ignore = "prove: machines"]
fn a_machine_that_is_never_ready_is_given_up_and_an_impatient_caller_is_heard() {
    let appliance = Appliance::new();
    let mut guest = Guest::new("v1.0.0-1-a");
    guest.behaviour = Behaviour::NeverReady;
    appliance.install(&guest);
    appliance.vm.power_on().unwrap();
    let error = appliance.vm.wait_ready(Some(Duration::from_secs(1)), &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(error, Error::NotReady { .. }), "{error}");
    let error = appliance.vm.wait_ready(None, &AtomicBool::new(true)).unwrap_err();
    assert!(matches!(error, Error::Interrupted), "{error}");
    appliance.vm.power_off().unwrap();
}

#[test]
#[ignore = "prove: machines"]
fn a_machine_that_does_not_listen_is_switched_off_all_the_same() {
    let appliance = Appliance::new();
    let mut guest = Guest::new("v1.0.0-1-a");
    guest.behaviour = Behaviour::Deaf;
    guest.vm = json!({"stopTimeout": "1s"});
    appliance.install(&guest);
    appliance.vm.power_on().unwrap();
    appliance.vm.power_off().unwrap();
    appliance.vm.power_off().unwrap();
    assert!(appliance.processes().is_empty());

    // Nor does a QEMU that stands still help it.
    appliance.vm.power_on().unwrap();
    for id in appliance.processes() {
        std::process::Command::new("kill").args(["-STOP", &id.to_string()]).status().unwrap();
    }
    appliance.vm.power_off().unwrap();
    assert!(appliance.processes().is_empty());
}

#[test]
#[ignore = "prove: machines"]
fn a_machine_says_on_its_serial_line_that_it_is_ready_and_the_one_before_does_not_count() {
    let appliance = Appliance::new();
    let mut guest = Guest::new("v1.0.0-1-a");
    guest.probe = json!({"serial": {"text": "v1.0.0-1-a is ready"}});
    appliance.install(&guest);
    appliance.start();
    appliance.vm.power_off().unwrap();
    appliance.vm.power_on().unwrap();
    // It is booting: what the last one said is not what is looked for.
    let error = appliance.vm.wait_ready(Some(Duration::ZERO), &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(error, Error::NotReady { .. }), "{error}");
    appliance.vm.wait_ready(None, &AtomicBool::new(false)).unwrap();
    appliance.vm.power_off().unwrap();
}

#[test]
#[ignore = "prove: machines"]
fn a_machine_that_talks_without_end_is_switched_off_with_a_log_that_is_not_endless() {
    let appliance = Appliance::new();
    let mut guest = Guest::new("v1.0.0-1-a");
    guest.behaviour = Behaviour::Talks;
    appliance.install(&guest);
    appliance.start();
    // What it would have said in a day.
    let log = appliance.layout.run().join("serial.log");
    let mut file = fs::OpenOptions::new().append(true).open(&log).unwrap();
    std::io::Write::write_all(&mut file, &vec![b'x'; 20 << 20]).unwrap();
    appliance.vm.wait_ready(None, &AtomicBool::new(false)).unwrap();
    assert!(fs::metadata(&log).unwrap().len() < 10 << 20);
    appliance.vm.power_off().unwrap();
    // It wrote on, behind what was cut off.
    let text = fs::read(&log).unwrap();
    assert!(!text.is_empty() && !text.contains(&0), "{} bytes", text.len());
}

#[test]
#[ignore = "prove: machines"]
fn a_port_that_only_qemu_listens_on_is_not_ready() {
    let appliance = Appliance::new();
    let mut guest = Guest::new("v1.0.0-1-a");
    guest.probe = json!({"tcp": {"address": "127.0.0.1:{config.port}"}});
    appliance.install(&guest);
    appliance.vm.power_on().unwrap();
    // It boots: whoever connects is taken by QEMU, and by nobody else.
    let connection = std::net::TcpStream::connect(("127.0.0.1", appliance.port));
    assert!(connection.is_ok());
    let error = appliance.vm.wait_ready(Some(Duration::ZERO), &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(error, Error::NotReady { .. }), "{error}");
    appliance.vm.wait_ready(None, &AtomicBool::new(false)).unwrap();
    assert_eq!(appliance.get("/version").as_deref(), Some("v1.0.0-1-a"));
    appliance.vm.power_off().unwrap();
}

#[test]
fn a_machine_whose_port_is_taken_does_not_start_and_says_why() {
    let appliance = Appliance::new();
    appliance.install(&Guest::new("v1.0.0-1-a"));
    let _taken = std::net::TcpListener::bind(("127.0.0.1", appliance.port)).unwrap();
    let error = appliance.vm.power_on().unwrap_err();
    assert!(error.to_string().contains("forwarding"), "{error}");
    assert!(!appliance.vm.describe().unwrap().on);
    assert!(appliance.processes().is_empty());
}
