//! `kill -9` at every record of the journal and after every system call that changes the disk: whoever comes next finds
//! the one release with its data, or the other with its own, never anything between.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use testkit::proof::{self, Kind};
use testkit::sample::Sample;
use testkit::trace::{Call, Trace};

use crate::upgrade::site::{Release, Site, Slot};

/// In plain shell, because it is run some hundred times under a tracer.
const MIGRATION: &str = r#"#!/bin/sh
stores=$(sed -n 's/.*"stores": *"\([^"]*\)".*/\1/p')
cp "$stores/notes.v1" stores/notes.v2
echo '{"values": {"port": PORT, "title2": "Shopping"}}'
"#;

fn old() -> Release {
    Release::of(10)
}

fn new(site: &Site<Slot>) -> Release {
    Release::of(20).with_data(2).with_migration(2, &MIGRATION.replace("PORT", &site.port.to_string()))
}

struct Bench {
    site: Site<Slot>,
    kept: std::path::PathBuf,
}

impl Bench {
    /// An appliance that is off, and can be put back to how it is now.
    fn new(prepare: impl FnOnce(&Site<Slot>)) -> Self {
        let site = Site::<Slot>::new();
        site.create(&old());
        site.put("bread", "two");
        prepare(&site);
        site.ok(&["appliance", "stop", "shop"]);
        let kept = site.root.join("kept");
        copy(&site.appliances(), &kept);
        Self { site, kept }
    }

    fn put_back(&self) {
        fs::remove_dir_all(self.site.appliances()).unwrap();
        copy(&self.kept, &self.site.appliances());
    }

    /// One release or the other, whole, with nothing left over. Says which.
    fn whole(&self, at: &str) -> String {
        let seen = self.site.inspect();
        assert_eq!(seen["state"], Value::from("up-to-date"), "{at}: {seen:#}");
        assert_eq!(seen["trouble"].as_array().map(Vec::len), Some(0), "{at}: {seen:#}");
        let release = seen["release"]["version"].as_str().unwrap().to_owned();
        let (data, title, stores): (u32, &str, &[&str]) = if release == old().version() {
            (1, "title1", &["notes.v1"])
        } else {
            (2, "title2", &["notes.v1", "notes.v2"])
        };
        assert_eq!(seen["dataVersion"], Value::from(data), "{at}: {seen:#}");
        assert_eq!(seen["configuration"][title], Value::from("Shopping"), "{at}: {seen:#}");
        let dir = self.site.appliance();
        let mut found: Vec<String> = names(&dir.join("state/data"));
        found.sort();
        assert_eq!(found, stores, "{at}");
        for store in stores {
            assert_eq!(
                fs::read_to_string(dir.join("state/data").join(store)).unwrap(),
                "bread=two\n",
                "{at}"
            );
        }
        let point = usize::from(seen["rollbackTo"] != Value::Null);
        assert_eq!(names(&dir.join("releases")).len(), 1 + point, "{at}: {seen:#}");
        assert_eq!(names(&dir.join("snapshots")).len(), point, "{at}: {seen:#}");
        assert_eq!(names(&dir.join("keys")).len(), 1 + point, "{at}");
        for left in ["incoming", "scratch", "state.incoming"] {
            assert!(!dir.join(left).exists(), "{at}: {left} is left");
        }
        release
    }
}

fn names(dir: &Path) -> Vec<String> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

/// Kills `words` after each of its changes in turn (in `make test`: of a sample of them), runs one of the commands of
/// `recover` each time, and counts the ends.
fn everywhere(
    name: &str,
    bench: &Bench,
    words: &[&str],
    recover: &[(&[&str], &[i32])],
) -> (usize, BTreeMap<String, usize>) {
    let sample = Sample::of(name);
    let root = bench.site.appliances();
    bench.put_back();
    let whole = Trace::run(bench.site.command(words), &[&root]);
    assert!(whole.status.success(), "{whole:?}");
    let mut ends = BTreeMap::new();
    let (mut points, mut tried) = (0, 0);
    for n in sample.until_end(whole.calls.len()) {
        bench.put_back();
        let killed = Trace::kill_after(bench.site.command(words), &[&root], n);
        let at = match &killed {
            Ok(killed) => {
                let call = killed.call.as_ref();
                let call = call.map_or_else(|| "before anything".to_owned(), ToString::to_string);
                format!("point {n}, {sample}, {call}")
            }
            Err(traced) => {
                assert!(traced.status.success(), "{traced:?}");
                break;
            }
        };
        let (command, codes) = &recover[n % recover.len()];
        let done = bench.site.run(command);
        assert!(codes.contains(&done.code), "{at}: {command:?}: {done:#?}");
        // Whatever is still to be finished or undone, this does; it is off and stays so.
        bench.site.ok(&["appliance", "stop", "shop"]);
        *ends.entry(bench.whole(&at)).or_default() += 1;
        points = n + 1;
        tried += 1;
    }
    println!("{name}: killed at {tried} of {points} points: {ends:?}");
    proof::count(Kind::KillPoints, tried);
    (points, ends)
}

#[test]
fn an_upgrade_killed_after_any_change_to_the_disk_is_done_or_undone() {
    let bench = Bench::new(|_| ());
    let reference = bench.site.release(&new(&bench.site));
    let words = ["upgrade", "shop", "--release", &reference];
    let again = ["upgrade", "shop", "--release", &reference];
    let (points, ends) = everywhere(
        "an upgrade",
        &bench,
        &words,
        &[
            (&["upgrade", "shop", "--resume"], &[0, 3]),
            (&["appliance", "stop", "shop"], &[0]),
            (&["upgrade", "shop", "--rollback"], &[0, 3]),
            (&again, &[0, 4]),
        ],
    );
    assert!(points > 100, "only {points} points");
    assert_eq!(ends.len(), 2, "{ends:?}");
}

#[test]
fn a_rollback_killed_after_any_change_to_the_disk_is_done_or_undone() {
    let bench = Bench::new(|site| site.upgrade(&new(site)));
    let (_, ends) = everywhere(
        "a rollback",
        &bench,
        &["upgrade", "shop", "--rollback"],
        &[
            (&["upgrade", "shop", "--resume"], &[0, 3]),
            (&["appliance", "stop", "shop"], &[0]),
            (&["upgrade", "shop", "--rollback"], &[0, 3]),
        ],
    );
    assert_eq!(ends.len(), 2, "{ends:?}");
}

/// One that runs: its power and its readiness are part of it.
#[test]
fn a_running_appliance_killed_at_every_record_of_the_journal_runs_one_release_or_the_other() {
    let bench = Bench::new(|_| ());
    let reference = bench.site.release(&new(&bench.site));
    let words = ["upgrade", "shop", "--release", &reference];
    let prepare = || {
        bench.put_back();
        bench.site.ok(&["appliance", "start", "shop"]);
    };
    let root = bench.site.appliances();
    let journal = bench.site.appliance().join("journal").display().to_string();
    let sample = Sample::of("records of an upgrade that runs");
    prepare();
    let is_record = |call: &Call| call.name.contains("write") && call.what.contains(&journal);
    // `Trace::run` would wait for the appliance, which the upgrade leaves running.
    let whole = Trace::kill_when(bench.site.command(&words), &[&root], |_| false).unwrap_err();
    assert!(whole.status.success(), "{whole:?}");
    let all = whole.calls.iter().filter(|call| is_record(call)).count();
    let mut ends = BTreeMap::new();
    let (mut points, mut tried) = (0, 0);
    for records in sample.until_end(all) {
        bench.site.run(&["appliance", "stop", "shop"]);
        prepare();
        let mut seen = 0;
        let killed = Trace::kill_when(bench.site.command(&words), &[&root], |call| {
            seen += usize::from(is_record(call));
            seen > records
        });
        let at = match killed {
            Ok(killed) => format!("record {records}, {sample}: {:?}", killed.call),
            Err(traced) => {
                assert!(traced.status.success(), "{traced:?}");
                break;
            }
        };
        let recover: (&[&str], &[i32]) = match records % 3 {
            0 => (&["appliance", "start", "shop"], &[0]),
            1 => (&["upgrade", "shop", "--resume"], &[0, 3]),
            _ => (&["upgrade", "shop", "--rollback"], &[0, 3]),
        };
        let done = bench.site.run(recover.0);
        assert!(recover.1.contains(&done.code), "{at}: {done:#?}");
        bench.site.ok(&["appliance", "start", "shop"]);
        assert_eq!(bench.site.note("bread").as_deref(), Some("two"), "{at}");
        let release = bench.whole(&at);
        let answer = bench.site.get("/version").map(|answer| answer.body);
        assert_eq!(answer.as_deref(), Some(release.as_str()), "{at}");
        *ends.entry(release).or_insert(0) += 1;
        points = records + 1;
        tried += 1;
    }
    assert!(points > 10, "only {points} records");
    bench.site.run(&["appliance", "stop", "shop"]);
    println!("killed at {tried} of {points} records: {ends:?}");
    proof::count(Kind::KillPoints, tried);
    // The last record is followed by a rollback, so a sample may lack the new release.
    assert!(ends.len() == 2 || !sample.is_whole(), "{ends:?}");
}
