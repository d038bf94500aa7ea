//! The contract of backends: one set of tests, run for each of them.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use upgrade::backend::{Error, Snapshot};

use crate::contract::fixture::{Fixture, Kind};
use crate::contract::scratch::{image, snapshot_id};

/// Makes a test of each for a fixture.
macro_rules! contract {
    ($fixture:ty: $($name:ident),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                $crate::contract::backends::$name(<$fixture as $crate::contract::fixture::Fixture>::new());
            }
        )*
    };
    // For a backend that takes too long for `make test`.
    ($fixture:ty, prove $level:literal: $($name:ident),* $(,)?) => {
        $(
            #[test]
            #[ignore = $level]
            fn $name() {
                $crate::contract::backends::$name(<$fixture as $crate::contract::fixture::Fixture>::new());
            }
        )*
    };
    ($fixture:ty) => {
        $crate::contract::backends::contract!($fixture:
            what_there_is_is_described,
            an_image_is_staged_any_number_of_times_but_never_over_the_one_in_force,
            an_image_is_removed_any_number_of_times_but_never_the_one_in_force,
            a_release_that_is_switched_to_runs_with_the_data_of_the_one_before,
            going_back_is_by_id_and_restores_release_data_and_configuration,
            a_snapshot_holds_what_was_written_after_it_was_prepared,
            a_snapshot_is_deleted_any_number_of_times_and_then_leads_nowhere,
            switching_on_or_off_twice_is_switching_once,
            an_appliance_that_is_off_stays_off_through_everything_else,
            readiness_is_of_the_release_in_force,
            a_release_that_is_never_ready_is_waited_for_as_long_as_it_was_said,
            whoever_does_not_want_to_wait_any_longer_need_not,
            a_release_that_ends_is_not_waited_for,
        );
    };
}
pub(crate) use contract;

fn never() -> AtomicBool {
    AtomicBool::new(false)
}

fn on_and_ready(fixture: &impl Fixture) {
    let backend = fixture.backend();
    backend.power_on().unwrap();
    backend.wait_ready(Some(fixture.patience()), &never()).unwrap();
}

fn staged(fixture: &impl Fixture, build: u64, kind: Kind) {
    let (image, brought) = fixture.bring(build, kind);
    fixture.backend().stage_image(&image, &brought).unwrap();
}

fn whole(number: u8, build: u64) -> Snapshot {
    Snapshot { id: snapshot_id(number), image: Some(image(build)) }
}

pub fn what_there_is_is_described(fixture: impl Fixture) {
    let backend = fixture.backend();
    let fresh = backend.describe().unwrap();
    assert!(!fresh.on);
    assert_eq!(fresh.current, Some(image(1)));
    assert_eq!((fresh.images, fresh.snapshots), (vec![image(1)], vec![]));
    staged(&fixture, 2, Kind::Good);
    backend.snapshot(&snapshot_id(7), &image(1)).unwrap();
    backend.power_on().unwrap();
    let later = backend.describe().unwrap();
    assert!(later.on);
    assert_eq!((later.images, later.snapshots), (vec![image(1), image(2)], vec![whole(7, 1)]));
    backend.power_off().unwrap();
    assert!(!backend.describe().unwrap().on);
}

pub fn an_image_is_staged_any_number_of_times_but_never_over_the_one_in_force(fixture: impl Fixture) {
    let backend = fixture.backend();
    for _ in 0..2 {
        staged(&fixture, 2, Kind::Good);
        // What was brought is gone, and the image is there: done.
        backend.stage_image(&image(2), &fixture.layout().incoming()).unwrap();
    }
    let (in_force, brought) = fixture.bring(1, Kind::Good);
    assert!(matches!(backend.stage_image(&in_force, &brought), Err(Error::InForce { .. })));
    assert!(matches!(backend.stage_image(&image(9), &brought.join("nothing")), Err(Error::NoImage { .. })));
    assert_eq!(backend.describe().unwrap().images, [image(1), image(2)]);
}

pub fn an_image_is_removed_any_number_of_times_but_never_the_one_in_force(fixture: impl Fixture) {
    let backend = fixture.backend();
    staged(&fixture, 2, Kind::Good);
    assert!(matches!(backend.remove_image(&image(1)), Err(Error::InForce { .. })));
    for _ in 0..2 {
        backend.remove_image(&image(2)).unwrap();
        assert_eq!(backend.describe().unwrap().images, [image(1)]);
    }
    assert!(matches!(backend.reconfigure(&image(2)), Err(Error::NoImage { .. })));
    on_and_ready(&fixture);
}

pub fn a_release_that_is_switched_to_runs_with_the_data_of_the_one_before(fixture: impl Fixture) {
    let backend = fixture.backend();
    on_and_ready(&fixture);
    assert_eq!(fixture.version().as_deref(), Some("v1"));
    fixture.put("note", "of the first");
    staged(&fixture, 2, Kind::Good);
    backend.power_off().unwrap();
    for _ in 0..2 {
        backend.reconfigure(&image(2)).unwrap();
    }
    on_and_ready(&fixture);
    assert_eq!(fixture.version().as_deref(), Some("v2"));
    assert_eq!(fixture.get("note").as_deref(), Some("of the first"));
}

pub fn going_back_is_by_id_and_restores_release_data_and_configuration(fixture: impl Fixture) {
    let backend = fixture.backend();
    on_and_ready(&fixture);
    fixture.put("note", "first");
    backend.prepare_snapshot(&snapshot_id(1)).unwrap();
    backend.power_off().unwrap();
    fixture.set_colour("blue");
    for _ in 0..2 {
        backend.snapshot(&snapshot_id(1), &image(1)).unwrap();
    }
    staged(&fixture, 2, Kind::Good);
    backend.reconfigure(&image(2)).unwrap();
    fixture.set_colour("red");
    on_and_ready(&fixture);
    fixture.put("note", "second");
    fixture.put("more", "x");
    backend.power_off().unwrap();
    backend.snapshot(&snapshot_id(2), &image(2)).unwrap();
    assert_eq!(backend.describe().unwrap().snapshots, [whole(1, 1), whole(2, 2)]);

    for _ in 0..2 {
        backend.revert(&snapshot_id(1)).unwrap();
        assert_eq!(backend.describe().unwrap().current, Some(image(1)));
        assert_eq!(fixture.colour(), "blue");
        on_and_ready(&fixture);
        assert_eq!(fixture.version().as_deref(), Some("v1"));
        assert_eq!(fixture.get("note").as_deref(), Some("first"));
        assert_eq!(fixture.get("more"), None);
        // What is done after going back is not in the snapshot.
        fixture.put("note", "third");
        backend.power_off().unwrap();
    }
    backend.revert(&snapshot_id(2)).unwrap();
    assert_eq!(fixture.colour(), "red");
    on_and_ready(&fixture);
    assert_eq!(fixture.version().as_deref(), Some("v2"));
    assert_eq!(fixture.get("note").as_deref(), Some("second"));
}

pub fn a_snapshot_holds_what_was_written_after_it_was_prepared(fixture: impl Fixture) {
    let backend = fixture.backend();
    on_and_ready(&fixture);
    fixture.put("early", "1");
    for _ in 0..2 {
        backend.prepare_snapshot(&snapshot_id(1)).unwrap();
    }
    fixture.put("early", "2");
    fixture.put("late", "3");
    backend.power_off().unwrap();
    backend.snapshot(&snapshot_id(1), &image(1)).unwrap();
    on_and_ready(&fixture);
    fixture.put("early", "4");
    fixture.put("late", "5");
    backend.power_off().unwrap();
    backend.revert(&snapshot_id(1)).unwrap();
    on_and_ready(&fixture);
    assert_eq!(fixture.get("early").as_deref(), Some("2"));
    assert_eq!(fixture.get("late").as_deref(), Some("3"));
}

pub fn a_snapshot_is_deleted_any_number_of_times_and_then_leads_nowhere(fixture: impl Fixture) {
    let backend = fixture.backend();
    backend.snapshot(&snapshot_id(1), &image(1)).unwrap();
    backend.prepare_snapshot(&snapshot_id(2)).unwrap();
    assert_eq!(backend.describe().unwrap().snapshots.iter().filter(|one| one.image.is_some()).count(), 1);
    for _ in 0..2 {
        backend.delete_snapshot(&snapshot_id(1)).unwrap();
        backend.delete_snapshot(&snapshot_id(2)).unwrap();
        assert_eq!(backend.describe().unwrap().snapshots, []);
        assert!(matches!(backend.revert(&snapshot_id(1)), Err(Error::NoSnapshot { .. })));
        assert!(matches!(backend.revert(&snapshot_id(2)), Err(Error::NoSnapshot { .. })));
    }
    on_and_ready(&fixture);
}

pub fn switching_on_or_off_twice_is_switching_once(fixture: impl Fixture) {
    let backend = fixture.backend();
    for _ in 0..2 {
        backend.power_on().unwrap();
        assert_eq!(fixture.instances(), 1);
        assert!(backend.describe().unwrap().on);
    }
    for _ in 0..2 {
        backend.power_off().unwrap();
        assert_eq!(fixture.instances(), 0);
        assert!(!backend.describe().unwrap().on);
    }
}

pub fn an_appliance_that_is_off_stays_off_through_everything_else(fixture: impl Fixture) {
    let backend = fixture.backend();
    staged(&fixture, 2, Kind::Good);
    backend.prepare_snapshot(&snapshot_id(1)).unwrap();
    backend.power_off().unwrap();
    backend.snapshot(&snapshot_id(1), &image(1)).unwrap();
    backend.reconfigure(&image(2)).unwrap();
    backend.revert(&snapshot_id(1)).unwrap();
    backend.delete_snapshot(&snapshot_id(1)).unwrap();
    assert_eq!((fixture.instances(), backend.describe().unwrap().on), (0, false));
    let waited = backend.wait_ready(Some(Duration::from_secs(60)), &never());
    assert!(matches!(waited, Err(Error::Ended { .. })), "{waited:?}");
    assert!(fs::exists(fixture.layout().data()).unwrap());
}

pub fn readiness_is_of_the_release_in_force(fixture: impl Fixture) {
    let backend = fixture.backend();
    on_and_ready(&fixture);
    staged(&fixture, 2, Kind::Good);
    staged(&fixture, 3, Kind::NeverReady);
    for build in [2, 3] {
        backend.power_off().unwrap();
        backend.reconfigure(&image(build)).unwrap();
        backend.power_on().unwrap();
        match build {
            2 => backend.wait_ready(Some(fixture.patience()), &never()).unwrap(),
            _ => {
                let waited = backend.wait_ready(Some(Duration::from_millis(500)), &never());
                assert!(matches!(waited, Err(Error::NotReady { .. })), "{waited:?}");
            }
        }
    }
}

pub fn a_release_that_is_never_ready_is_waited_for_as_long_as_it_was_said(fixture: impl Fixture) {
    let backend = fixture.backend();
    staged(&fixture, 2, Kind::NeverReady);
    backend.reconfigure(&image(2)).unwrap();
    backend.power_on().unwrap();
    let asked = Duration::from_millis(300);
    let began = std::time::Instant::now();
    match backend.wait_ready(Some(asked), &never()) {
        Err(Error::NotReady { after, last }) => assert!(after == asked && !last.is_empty(), "{last}"),
        other => panic!("{other:?}"),
    }
    assert!(began.elapsed() >= asked);
    assert!(backend.describe().unwrap().on);
}

pub fn whoever_does_not_want_to_wait_any_longer_need_not(fixture: impl Fixture) {
    let backend = fixture.backend();
    staged(&fixture, 2, Kind::NeverReady);
    backend.reconfigure(&image(2)).unwrap();
    backend.power_on().unwrap();
    let stop = never();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            stop.store(true, Ordering::Relaxed);
        });
        let waited = backend.wait_ready(Some(Duration::from_secs(3600)), &stop);
        assert!(matches!(waited, Err(Error::Interrupted)), "{waited:?}");
    });
}

pub fn a_release_that_ends_is_not_waited_for(fixture: impl Fixture) {
    let backend = fixture.backend();
    staged(&fixture, 2, Kind::Dead);
    backend.reconfigure(&image(2)).unwrap();
    // Whether it has ended before or after it counts as started is chance.
    if let Err(error) = backend.power_on() {
        assert!(!error.to_string().is_empty());
        return;
    }
    let waited = backend.wait_ready(Some(Duration::from_secs(3600)), &never());
    assert!(matches!(waited, Err(Error::Ended { .. })), "{waited:?}");
    backend.power_off().unwrap();
    assert_eq!(fixture.instances(), 0);
}
