//! Workloads: they run from the image that made them, whatever becomes of the appliance.

use std::convert::Infallible;

use logic::upgrade::{ApplianceName, Image, ReleaseVersion};
use serde_json::{Map, Value, json};
use upgrade::backend::{Backend, Error};
use upgrade::workload::{self, Record, Set};

use crate::contract::fixture::{Fixture, Kind};
use crate::contract::processes::{of_program, supervisors, until};
use crate::contract::scratch::{image, snapshot_id};
use crate::contract::slot::{SlotFixture, ask};
use crate::contract::supervising::launcher;

fn name(text: &str) -> ApplianceName {
    ApplianceName::parse(text).unwrap()
}

fn record(text: &str, build: u64, port: u16) -> Record {
    let version = ReleaseVersion::parse(&format!("v{build}-{build}-abc")).unwrap();
    let command =
        ["bin/notes", "--data", "{data}", "--port", "{config.port}", "--version", "workload of {release}"];
    Record {
        name: name(text),
        release: Image { id: image(build), version },
        data_version: 1,
        applied: vec![],
        data: json!({"port": port, "size": 3}).as_object().unwrap().clone(),
        command: command.map(str::to_owned).to_vec(),
        made: "2026-01-01T00:00:00Z".to_owned(),
    }
}

#[test]
fn a_workload_runs_on_from_the_image_that_made_it() {
    let fixture = SlotFixture::new();
    let layout = fixture.layout();
    let port = testkit::ports::free_port();
    workload::create(layout, &record("w", 1, port)).unwrap();
    assert!(matches!(workload::create(layout, &record("w", 1, port)), Err(workload::Error::Exists { .. })));
    workload::start(layout, &name("w"), &launcher()).unwrap();
    let says = || ask(port, "GET", "/version", "");
    let expected = format!("workload of {}", layout.release(&image(1)).display());
    until("the workload answers", || says().is_some());
    let pid = ask(port, "GET", "/pid", "");

    // The appliance goes to another release and back, is reverted, switched off and on.
    let slot = fixture.slot();
    let (two, brought) = fixture.bring(2, Kind::Good);
    slot.stage_image(&two, &brought).unwrap();
    slot.snapshot(&snapshot_id(1), &image(1)).unwrap();
    slot.reconfigure(&two).unwrap();
    slot.power_on().unwrap();
    slot.power_off().unwrap();
    assert!(matches!(slot.remove_image(&image(1)), Err(Error::Needed { .. })));
    slot.revert(&snapshot_id(1)).unwrap();
    assert_eq!((says(), ask(port, "GET", "/pid", "")), (Some(expected), pid));

    assert!(workload::is_running(layout, &name("w")).unwrap());
    let place = workload::place(layout, &name("w"));
    workload::remove(layout, &name("w")).unwrap();
    assert_eq!(supervisors(place.dir()), [0; 0]);
    assert_eq!(of_program(&place.dir().join("data")), [0; 0]);
    assert_eq!(workload::list(layout).unwrap(), []);
    assert!(matches!(workload::remove(layout, &name("w")), Err(workload::Error::NotThere { .. })));
    slot.reconfigure(&two).unwrap();
    slot.remove_image(&image(1)).unwrap();
}

#[test]
fn old_data_is_migrated_in_memory_and_stays_as_it_is_on_disk() {
    let fixture = SlotFixture::new();
    let layout = fixture.layout();
    workload::create(layout, &record("w", 1, 1)).unwrap();
    let file = workload::place(layout, &name("w")).dir().join("record.json");
    let before = std::fs::read(&file).unwrap();
    let migrate = |data: &Map<String, Value>, from: u32| {
        assert_eq!(from, 1);
        let mut data = data.clone();
        let size = data.remove("size").unwrap();
        data.insert("length".to_owned(), size);
        Ok::<_, Infallible>((data, 2, vec!["attach".to_owned()]))
    };
    for _ in 0..2 {
        let view = workload::read(&workload::load(layout, &name("w")).unwrap(), migrate).unwrap();
        assert_eq!((view.data_version, view.data["length"].clone()), (2, json!(3)));
        assert_eq!(view.unavailable, ["attach"]);
    }
    // A write that would need the new form is skipped, and said to be.
    let skipped = workload::set(layout, &name("w"), 2, "length", json!(4)).unwrap();
    assert_eq!(skipped, Set::Skipped { key: "length".to_owned(), data_version: 1, release_version: 2 });
    assert_eq!(std::fs::read(&file).unwrap(), before);
    // In its own form it can be written, and a release that is older than it may not.
    assert_eq!(workload::set(layout, &name("w"), 1, "size", json!(4)).unwrap(), Set::Written);
    assert_eq!(workload::load(layout, &name("w")).unwrap().data["size"], json!(4));
    let newer = workload::set(layout, &name("w"), 0, "size", json!(5));
    assert!(matches!(newer, Err(workload::Error::Newer { found: 1, known: 0, .. })), "{newer:?}");
}

#[test]
fn a_workload_needs_a_command_and_the_image_that_makes_it() {
    let fixture = SlotFixture::new();
    let nothing = Record { command: vec![], ..record("w", 1, 1) };
    let refused = workload::create(fixture.layout(), &nothing);
    assert!(matches!(refused, Err(workload::Error::NoCommand { .. })), "{refused:?}");
    let gone = workload::create(fixture.layout(), &record("w", 9, 1));
    assert!(matches!(gone, Err(workload::Error::MakerGone { .. })), "{gone:?}");
    assert_eq!(workload::list(fixture.layout()).unwrap(), []);
}
