//! Images, the link in force and snapshots, as nothing but files.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use testkit::compare::same_tree;
use testkit::scratch_fs::{FsKind, ScratchFs};
use upgrade::backend::{Error, Snapshot};

use crate::contract::scratch::{Directory, bring, change_state, files, image, snapshot_id};

#[test]
fn a_snapshot_is_the_state_to_the_last_bit_and_reverting_brings_it_back_with_its_release() {
    let dir = Directory::new();
    let files = files(dir.path());
    let (before, layout) = (Directory::new(), files.layout());
    assert!(
        std::process::Command::new("cp")
            .arg("-a")
            .arg(layout.state())
            .arg(before.path())
            .status()
            .unwrap()
            .success()
    );
    let before = before.path().join("state");

    files.prepare(&snapshot_id(1)).unwrap();
    files.snapshot(&snapshot_id(1), &image(1)).unwrap();
    same_tree(&before, &files.snapshot_state(&snapshot_id(1))).unwrap();

    change_state(&files);
    files.set_current(&image(2)).unwrap();
    // A second one, of another state: going back is by id.
    files.snapshot(&snapshot_id(2), &image(2)).unwrap();
    let whole = |number, build| Snapshot { id: snapshot_id(number), image: Some(image(build)) };
    assert_eq!(files.snapshots().unwrap(), [whole(1, 1), whole(2, 2)]);

    for _ in 0..2 {
        files.revert(&snapshot_id(1)).unwrap();
        same_tree(&before, &layout.state()).unwrap();
        assert_eq!(files.current().unwrap(), Some(image(1)));
    }
    files.revert(&snapshot_id(2)).unwrap();
    assert_eq!(fs::read_to_string(layout.configuration()).unwrap(), "configuration of 2");
    assert_eq!(files.current().unwrap(), Some(image(2)));

    for _ in 0..2 {
        files.delete_snapshot(&snapshot_id(1)).unwrap();
    }
    assert_eq!(files.snapshots().unwrap(), [whole(2, 2)]);
    assert!(matches!(files.revert(&snapshot_id(1)), Err(Error::NoSnapshot { .. })));
}

#[test]
fn what_changed_after_it_was_prepared_is_in_the_snapshot() {
    let dir = Directory::new();
    let files = files(dir.path());
    files.prepare(&snapshot_id(1)).unwrap();
    change_state(&files);
    files.snapshot(&snapshot_id(1), &image(1)).unwrap();
    same_tree(&files.layout().state(), &files.snapshot_state(&snapshot_id(1))).unwrap();
    // It is whole, and stays what it was: whoever asks again has nothing to do.
    fs::write(files.layout().data().join("later"), "x").unwrap();
    files.prepare(&snapshot_id(1)).unwrap();
    files.snapshot(&snapshot_id(1), &image(1)).unwrap();
    assert!(!files.snapshot_state(&snapshot_id(1)).join("data/later").exists());
}

#[test]
fn files_that_come_and_go_do_not_keep_a_snapshot_from_being_prepared() {
    let dir = Directory::new();
    let files = files(dir.path()).with_threads(0);
    let data = files.layout().data();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for number in 0..50 {
                    fs::write(data.join(format!("temporary-{number}")), "x").unwrap();
                }
                for number in 0..50 {
                    fs::remove_file(data.join(format!("temporary-{number}"))).unwrap();
                }
            }
        });
        let prepared: Vec<_> = (1..20).map(|number| files.prepare(&snapshot_id(number))).collect();
        stop.store(true, Ordering::Relaxed);
        prepared.into_iter().for_each(|result| result.unwrap());
    });
    for number in 1..20 {
        files.snapshot(&snapshot_id(number), &image(1)).unwrap();
        same_tree(&files.layout().state(), &files.snapshot_state(&snapshot_id(number))).unwrap();
    }
}

#[test]
fn an_image_in_force_is_neither_replaced_nor_removed() {
    let dir = Directory::new();
    let files = files(dir.path());
    let brought = bring(dir.path(), 1);
    assert!(matches!(files.stage(&image(1), &brought), Err(Error::InForce { .. })));
    assert!(matches!(files.remove_image(&image(1)), Err(Error::InForce { .. })));
    assert!(matches!(files.set_current(&image(3)), Err(Error::NoImage { .. })));
    assert_eq!(files.images().unwrap(), [image(1), image(2)]);
}

#[test]
fn an_image_that_is_staged_again_replaces_the_older_try() {
    let dir = Directory::new();
    let files = files(dir.path());
    fs::write(files.layout().release(&image(2)).join("bin/program"), "damaged").unwrap();
    let brought = bring(dir.path(), 2);
    for _ in 0..2 {
        files.stage(&image(2), &brought).unwrap();
        let program = fs::read_to_string(files.layout().release(&image(2)).join("bin/program")).unwrap();
        assert_eq!(program, "#!/bin/sh\n");
    }
    for _ in 0..2 {
        files.remove_image(&image(2)).unwrap();
        assert_eq!(files.images().unwrap(), [image(1)]);
    }
    assert!(matches!(files.stage(&image(2), &brought), Err(Error::NoImage { .. })));
}

#[test]
fn a_full_disk_is_an_error_that_says_so_and_nothing_is_lost() {
    let disk = ScratchFs::new(FsKind::Ext4, FsKind::Ext4.smallest());
    let files = files(&disk.path().join("appliance"));
    let big = files.layout().data().join("big");
    fs::write(&big, vec![7; 3 << 20]).unwrap();
    files.snapshot(&snapshot_id(1), &image(1)).unwrap();
    let filler = disk.fill(1 << 20);
    let fails = |result: upgrade::backend::Result<()>| {
        let error = result.unwrap_err();
        let full = matches!(&error, Error::Disk(error) if error.is_out_of_space());
        assert!(full || matches!(error, Error::NoRoom { .. }), "{error:?}");
    };
    fails(files.prepare(&snapshot_id(2)));
    fails(files.snapshot(&snapshot_id(2), &image(1)));
    fails(files.revert(&snapshot_id(1)));
    assert_eq!(fs::read(&big).unwrap(), vec![7; 3 << 20]);
    assert_eq!(files.current().unwrap(), Some(image(1)));
    // Nothing of the tries takes room.
    files.delete_snapshot(&snapshot_id(2)).unwrap();
    let after = upgrade_free(disk.path());
    assert!(after > (900 << 10), "{after}");
    fs::remove_file(filler).unwrap();
    files.revert(&snapshot_id(1)).unwrap();
    files.snapshot(&snapshot_id(2), &image(1)).unwrap();
}

fn upgrade_free(path: &std::path::Path) -> u64 {
    disk::tree::free_space(path).unwrap().bytes
}
