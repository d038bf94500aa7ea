//! Each change to the files of an appliance, killed after each of its system calls, then done again: the same end as
//! if nothing had happened, and until then the state of one side or the other.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::compare::same_tree;
use testkit::proof::{self, Kind};
use testkit::sample::Sample;
use testkit::scratch_fs::{FsKind, ScratchFs};
use testkit::trace::Trace;
use upgrade::Layout;
use upgrade::backend::Result;
use upgrade::backend::files::Files;

use crate::contract::scratch::{Directory, bring, change_state, files, image, snapshot_id};

/// A change, and how the appliance is before it.
pub struct Change {
    pub name: &'static str,
    pub before: fn(&Files),
    pub call: fn(&Files) -> Result<()>,
}

pub const CHANGES: &[Change] = &[
    Change {
        name: "stage",
        before: |files| drop(bring(files.layout().root(), 3)),
        call: |files| files.stage(&image(3), &files.layout().incoming()),
    },
    Change {
        name: "stage over an older try",
        before: |files| drop(bring(files.layout().root(), 2)),
        call: |files| files.stage(&image(2), &files.layout().incoming()),
    },
    Change { name: "set current", before: |_| (), call: |files| files.set_current(&image(2)) },
    Change { name: "prepare", before: |_| (), call: |files| files.prepare(&snapshot_id(1)) },
    Change { name: "snapshot", before: |_| (), call: |files| files.snapshot(&snapshot_id(1), &image(1)) },
    Change {
        name: "snapshot of what was prepared and has changed",
        before: |files| {
            files.prepare(&snapshot_id(1)).unwrap();
            change_state(files);
        },
        call: |files| files.snapshot(&snapshot_id(1), &image(1)),
    },
    Change {
        name: "revert",
        before: |files| {
            files.snapshot(&snapshot_id(1), &image(1)).unwrap();
            change_state(files);
            files.set_current(&image(2)).unwrap();
        },
        call: |files| files.revert(&snapshot_id(1)),
    },
    Change {
        name: "delete",
        before: |files| files.snapshot(&snapshot_id(1), &image(1)).unwrap(),
        call: |files| files.delete_snapshot(&snapshot_id(1)),
    },
    Change { name: "remove image", before: |_| (), call: |files| files.remove_image(&image(2)) },
];

/// Not a test: the process that the tests trace.
#[test]
fn child_process_that_makes_a_change() {
    let (Ok(name), Some(root)) = (std::env::var("FILES_CHANGE"), std::env::var_os("FILES_ROOT")) else {
        return;
    };
    let change = CHANGES.iter().find(|change| change.name == name).unwrap();
    (change.call)(&Files::new(Layout::at(Path::new(&root))).with_threads(1)).unwrap();
}

pub fn traced(change: &Change, root: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let this = "contract::files_killed::child_process_that_makes_a_change";
    command.args(["--exact", this, "--nocapture", "--test-threads=1"]);
    command.env("FILES_CHANGE", change.name).env("FILES_ROOT", root);
    command
}

#[test]
fn a_change_that_is_killed_anywhere_and_repeated_ends_as_if_it_had_not_been() {
    let memory = ScratchFs::new(FsKind::Xfs { reflink: true }, FsKind::Xfs { reflink: true }.smallest());
    let (mut points, mut tried) = (0, 0);
    for change in CHANGES {
        let made = |above: &Directory| {
            let root = above.path().join("appliance");
            let files = files(&root);
            (change.before)(&files);
            files
        };
        let undisturbed = Directory::below(memory.path());
        let expected = made(&undisturbed);
        let run = Trace::run(traced(change, expected.layout().root()), &[expected.layout().root()]);
        assert!(run.status.success(), "{}: {}", change.name, run.stderr);
        assert!(!run.calls.is_empty(), "{} changes nothing", change.name);
        points += run.calls.len();
        let sample = Sample::of(format!("files killed: {}", change.name));
        for n in sample.with_ends(0..run.calls.len()) {
            let above = Directory::below(memory.path());
            let files = made(&above);
            let root = files.layout().root();
            let sides = [fs::read(files.layout().configuration()).unwrap(), b"configuration of 1".to_vec()];
            let killed = Trace::kill_after(traced(change, root), &[root], n).unwrap();
            let at = killed.call.map_or("its beginning".to_owned(), |call| call.to_string());
            let at = format!("{at} (point {n}, {sample})");
            // In between: a release in force that is there whole, and a state.
            let (current, release) = files.current_release().unwrap();
            assert!(release.join("bin/program").is_file(), "{} killed after {at}: {current}", change.name);
            let state = fs::read(files.layout().configuration()).unwrap();
            assert!(sides.contains(&state), "{} killed after {at}", change.name);
            for snapshot in files.snapshots().unwrap().into_iter().filter(|one| one.image.is_some()) {
                let state = files.snapshot_state(&snapshot.id);
                assert!(state.join("data/deep/a").is_file(), "{} killed after {at}", change.name);
            }
            (change.call)(&files)
                .unwrap_or_else(|error| panic!("{} again after {at}: {error:?}", change.name));
            same_end(&expected, &files)
                .unwrap_or_else(|why| panic!("{} killed after {at}: {why}", change.name));
            tried += 1;
        }
    }
    println!("{tried} of {points} points in {} changes", CHANGES.len());
    assert!(points > 100, "only {points} points");
    proof::count(Kind::KillPoints, tried);
}

/// The same names everywhere, the same state, the same snapshots, the same images, the same release in force.
pub fn same_end(expected: &Files, found: &Files) -> std::result::Result<(), String> {
    let (a, b) = (expected.describe().unwrap(), found.describe().unwrap());
    if a != b {
        return Err(format!("{b:?} instead of {a:?}"));
    }
    let (names_a, names_b) = (all_names(expected.layout().root()), all_names(found.layout().root()));
    if names_a != names_b {
        let differing: Vec<_> = names_a.symmetric_difference(&names_b).collect();
        return Err(format!("only in one: {differing:?}"));
    }
    same_tree(&with_times_of(&expected.layout().state()), &with_times_of(&found.layout().state()))?;
    for snapshot in a.snapshots {
        let [a, b] = [expected, found].map(|files| files.snapshot_state(&snapshot.id));
        if a.exists() || b.exists() {
            same_tree(&with_times_of(&a), &with_times_of(&b))?;
        }
    }
    Ok(())
}

/// The two appliances were made at different times: what is compared is all else.
fn with_times_of(tree: &Path) -> PathBuf {
    for name in all_names(tree) {
        let path = tree.join(name);
        assert!(Command::new("touch").args(["-h", "-d", "@0"]).arg(&path).status().unwrap().success());
    }
    assert!(Command::new("touch").args(["-d", "@0"]).arg(tree).status().unwrap().success());
    tree.to_owned()
}

fn all_names(root: &Path) -> BTreeSet<PathBuf> {
    let mut names = BTreeSet::new();
    let mut to_visit = vec![root.to_owned()];
    while let Some(dir) = to_visit.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                to_visit.push(entry.path());
            }
            names.insert(entry.path().strip_prefix(root).unwrap().to_owned());
        }
    }
    names
}
