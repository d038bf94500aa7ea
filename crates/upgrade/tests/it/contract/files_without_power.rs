//! Each change to the files of an appliance, with the power cut after each of its system calls, then done again: the same
//! end. And with the power cut when it says to be done: done.

use std::fs;

use testkit::proof::{self, Kind};
use testkit::sample::Sample;
use testkit::scratch_fs::{FsKind, ScratchFs};
use testkit::trace::Trace;
use upgrade::Layout;
use upgrade::backend::files::Files;

use crate::contract::files_killed::{CHANGES, same_end, traced};
use crate::contract::scratch::{Directory, files};

/// How many points there are, and how many were tried.
fn survives_without_power(kind: FsKind, sample: &Sample) -> (usize, usize) {
    let (mut points, mut tried) = (0, 0);
    for change in CHANGES {
        let disk = ScratchFs::new(kind, kind.smallest());
        let root = disk.path().join("appliance");
        (change.before)(&files(&root));
        let image = disk.snapshot_image();
        let here = Files::new(Layout::at(&root)).with_threads(1);
        let number = Trace::run(traced(change, &root), &[&root]).calls.len();
        // As it is on a disk that never loses its power.
        let elsewhere = Directory::new();
        let expected = elsewhere.path().join("appliance");
        let copy = std::process::Command::new("cp").arg("-a").arg(&root).arg(&expected).status().unwrap();
        assert!(copy.success());
        let expected = Files::new(Layout::at(&expected));

        let mut disk = disk.power_cut();
        let done = same_end(&expected, &here);
        assert!(done.is_ok(), "{}, which says to be done: {}", change.name, done.unwrap_err());
        points += number;
        let sample = sample.stratum(change.name);
        for n in sample.with_ends(0..number) {
            disk.reset(&image);
            let killed = Trace::kill_after_doing(traced(change, &root), &[&root], n, || disk.power_off());
            let at = killed.unwrap().call.map_or("its beginning".to_owned(), |call| call.to_string());
            let at = format!("{at} (point {n} on {kind:?}, {sample})");
            disk = disk.power_cut();
            let (current, release) = here.current_release().unwrap();
            assert!(release.join("bin/program").is_file(), "{} after {at}: {current}", change.name);
            let state = fs::read_to_string(here.layout().configuration()).unwrap();
            assert!(state.starts_with("configuration of"), "{} after {at}: {state}", change.name);
            (change.call)(&here)
                .unwrap_or_else(|error| panic!("{} again after {at}: {error:?}", change.name));
            same_end(&expected, &here).unwrap_or_else(|why| panic!("{} cut after {at}: {why}", change.name));
            tried += 1;
        }
    }
    println!("{tried} of {points} points in {} changes on {kind:?}", CHANGES.len());
    (points, tried)
}

/// In `make test` on one of the file systems, in `make prove` on each.
#[test]
fn changes_survive_the_loss_of_power() {
    let kinds = [FsKind::Xfs { reflink: true }, FsKind::Ext4, FsKind::Btrfs];
    let mut cuts = 0;
    for (kind, sample) in Sample::of("files without power").rotate(&kinds) {
        let (points, tried) = survives_without_power(*kind, &sample);
        assert!(points > 100, "only {points} points on {kind:?}");
        cuts += tried;
    }
    proof::count(Kind::PowerCuts, cuts);
}
