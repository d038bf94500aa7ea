//! `holdfast migrate` as people use it: a plan, a run, what it refuses, and the beginnings it writes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");

struct Place {
    dir: PathBuf,
}

impl Place {
    fn new(name: &str) -> Self {
        let dir =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("migrate-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        for below in ["migrations", "stores"] {
            fs::create_dir_all(dir.join(below)).unwrap();
        }
        Self { dir }
    }

    /// Data of version 1, and migrations to 2 and 3.
    fn with_two(name: &str) -> Self {
        let place = Self::new(name);
        place.data(1, json!({"port": 80, "admin": {"$secret": "xyzzy-1"}}));
        place.migration(
            "appliance-2-listen",
            r#"jq '{values: (.values | .listen = {port: .port} | del(.port)), notes: ["ports are listed now"]}'"#,
        );
        place.migration(
            "appliance-3-copy-metadata",
            r#"question=$(cat); stores=$(echo "$question" | jq -r .stores)
            { cat "$stores/metadata.v1"; echo three; } > stores/metadata.v3
            echo "$question" | jq '{values: (.values | .listen.tls = true), unavailable: ["attach"]}'"#,
        );
        fs::write(place.dir.join("stores/metadata.v1"), "one\n").unwrap();
        place
    }

    fn path(&self, below: &str) -> PathBuf {
        self.dir.join(below)
    }

    fn data(&self, version: u32, values: Value) {
        let document = json!({
            "apiVersion": "holdfast/v1", "kind": "MigrationData", "target": "appliance",
            "dataVersion": version, "applied": [], "values": values,
        });
        fs::write(self.path("data.json"), document.to_string()).unwrap();
        fs::set_permissions(self.path("data.json"), fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn migration(&self, name: &str, body: &str) {
        let path = self.path("migrations").join(name);
        fs::write(&path, format!("#!/bin/sh\nset -eu\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(HOLDFAST);
        command.args(["migrate", verb, "--migrations", "migrations", "--data", "data.json"]);
        command.current_dir(&self.dir).stdin(Stdio::null());
        command
    }

    fn holdfast(&self, verb: &str, more: &[&str]) -> Output {
        let mut command = self.command(verb);
        if verb != "status" {
            command.args(["--stores", "stores"]);
        }
        command.args(more).output().unwrap()
    }

    fn read(&self) -> Value {
        serde_json::from_slice(&fs::read(self.path("data.json")).unwrap()).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn out(output: &Output) -> String {
    assert!(output.status.success(), "{}", err(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Why it failed: exit code, and what it said.
fn failure(output: &Output) -> (i32, String) {
    (output.status.code().unwrap(), err(output))
}

fn files(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_plan_shows_the_path_and_the_keys_and_changes_nothing() {
    let place = Place::with_two("plan");
    let before = fs::read(place.path("data.json")).unwrap();
    let table = out(&place.holdfast("plan", &[]));
    assert_eq!(
        table,
        "appliance data would be migrated: 1 → 2 → 3\n\n\
         VERSION   MIGRATION                   CHANGES\n\
         2         appliance-2-listen          + listen = {\"port\":80}\n\
         \u{20}                                     - port = 80\n\
         \u{20}                                     note: ports are listed now\n\
         3         appliance-3-copy-metadata   + listen.tls = true\n\
         \u{20}                                     + store metadata.v3\n\
         \u{20}                                     no longer available: attach\n"
    );
    let wide = out(&place.holdfast("plan", &["-o", "wide"]));
    assert!(wide.contains("digest: sha256:") && wide.contains("kept in: "), "{wide}");
    let json: Value = serde_json::from_str(&out(&place.holdfast("plan", &["-o", "json"]))).unwrap();
    assert_eq!((json["kind"].as_str(), json["path"].as_str()), (Some("MigrationWalk"), Some("1 → 2 → 3")));
    assert_eq!(
        json["steps"][1]["changes"][0],
        json!({"key": "listen.tls", "change": "added", "after": true})
    );
    assert!(out(&place.holdfast("plan", &["-o", "yaml"])).contains("done: false"));
    assert_eq!(
        out(&place.holdfast("plan", &["-o", "name"])),
        "appliance-2-listen\nappliance-3-copy-metadata\n"
    );
    assert_eq!(fs::read(place.path("data.json")).unwrap(), before);
    assert_eq!(files(&place.path("stores")), ["metadata.v1"]);
    assert_eq!(files(&place.dir), ["data.json", "migrations", "stores"], "a plan leaves nothing behind");
}

#[test]
fn a_run_writes_the_data_and_its_stores_and_a_second_one_has_nothing_to_do() {
    let place = Place::with_two("run");
    let status = out(&place.holdfast("status", &[]));
    assert!(status.contains("2 to run: appliance-2-listen, appliance-3-copy-metadata"), "{status}");
    assert!(out(&place.holdfast("run", &[])).starts_with("appliance data was migrated: 1 → 2 → 3\n"));
    let data = place.read();
    assert_eq!(data["dataVersion"], 3);
    assert_eq!(data["values"], json!({"listen": {"port": 80, "tls": true}, "admin": {"$secret": "xyzzy-1"}}));
    assert_eq!(data["applied"].as_array().unwrap().len(), 2);
    assert_eq!(fs::metadata(place.path("data.json")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_to_string(place.path("stores/metadata.v3")).unwrap(), "one\nthree\n");
    assert_eq!(fs::read_to_string(place.path("stores/metadata.v1")).unwrap(), "one\n");
    let again = out(&place.holdfast("run", &[]));
    assert_eq!(again, "appliance data has version 3: nothing to migrate\n");
    assert!(out(&place.holdfast("status", &["-o", "wide"])).contains("up to date"));

    place.migration("appliance-2-listen", "echo something else");
    let (code, said) = failure(&place.holdfast("run", &[]));
    assert_eq!(code, 4);
    assert!(said.contains("is not the one that was applied") && said.contains("hint: "), "{said}");
    assert!(out(&place.holdfast("status", &[])).contains("refused: "));
}

#[test]
fn a_migration_that_fails_leaves_the_data_and_its_version_alone() {
    let place = Place::with_two("fails");
    place.migration("appliance-3-copy-metadata", "echo half > stores/metadata.v3; cat >&2; exit 5");
    let before = fs::read(place.path("data.json")).unwrap();
    let (code, said) = failure(&place.holdfast("run", &[]));
    assert_eq!(code, 7);
    assert!(said.contains("error: the migration of appliance data to version 3"), "{said}");
    assert!(said.contains("exit code 5") && said.contains("hint: ") && !said.contains("xyzzy"), "{said}");
    assert_eq!(fs::read(place.path("data.json")).unwrap(), before);
    assert_eq!(files(&place.path("stores")), ["metadata.v1"]);
}

#[test]
fn what_can_not_be_is_refused_with_the_code_of_its_class() {
    let place = Place::with_two("refused");
    place.data(9, json!({}));
    let (code, said) = failure(&place.holdfast("plan", &[]));
    assert!(code == 4 && said.contains("newer than the newest this release knows, 3"), "{said}");
    assert_eq!(place.holdfast("plan", &["--newest", "9"]).status.code(), Some(0));
    place.data(1, json!({}));
    let (code, said) = failure(&place.holdfast("plan", &["--newest", "5"]));
    assert!(code == 4 && said.contains("to version 4 is missing"), "{said}");

    fs::write(place.path("data.json"), "{\"half\":").unwrap();
    assert_eq!(failure(&place.holdfast("status", &[])).0, 8);
    fs::remove_file(place.path("data.json")).unwrap();
    assert_eq!(failure(&place.holdfast("run", &[])).0, 3);
    place.data(1, json!({}));
    place.migration("README", "");
    let (code, said) = failure(&place.holdfast("plan", &[]));
    assert!(code == 4 && said.contains("is not named like a migration"), "{said}");
    fs::remove_dir_all(place.path("migrations")).unwrap();
    assert_eq!(failure(&place.holdfast("plan", &[])).0, 3);
}

#[test]
fn a_store_without_a_place_is_an_error_before_anything_is_written() {
    let place = Place::with_two("no-stores");
    place.migration("appliance-3-copy-metadata", "echo x > stores/metadata.v3; echo '{\"values\":{}}'");
    let before = fs::read(place.path("data.json")).unwrap();
    let (code, said) = failure(&place.command("run").output().unwrap());
    assert!(code == 2 && said.contains("--stores"), "{said}");
    assert_eq!(fs::read(place.path("data.json")).unwrap(), before);
}

#[test]
fn a_run_that_is_told_to_stop_changes_nothing_and_one_beside_it_is_told_to_wait() {
    let place = Place::with_two("stop");
    // Says that it runs through its own directory, the only thing that can be seen of it from outside.
    place.migration("appliance-3-copy-metadata", "touch running; sleep 600");
    let before = fs::read(place.path("data.json")).unwrap();
    let mut running =
        place.command("run").args(["--stores", "stores"]).stderr(Stdio::piped()).spawn().unwrap();
    let sign = place.path(".holdfast-data.json.work/3/work/running");
    while !sign.exists() {
        assert!(running.try_wait().unwrap().is_none(), "it ended early");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let (code, said) = failure(&place.holdfast("run", &[]));
    assert!(code == 75 && said.contains("is being migrated"), "{said}");
    let pid = rustix::process::Pid::from_child(&running);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(11));
    assert_eq!(fs::read(place.path("data.json")).unwrap(), before);
    assert!(!place.path(".holdfast-data.json.work").exists());
}

#[test]
fn a_run_that_was_killed_is_done_again() {
    let place = Place::with_two("killed");
    place.migration("appliance-2-listen", "touch running; sleep 600");
    let mut running = place.command("run").args(["--stores", "stores"]).spawn().unwrap();
    while !place.path(".holdfast-data.json.work/2/work/running").exists() {
        assert!(running.try_wait().unwrap().is_none(), "it ended early");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    running.kill().unwrap();
    running.wait().unwrap();
    place.migration("appliance-2-listen", "jq '{values: .values}'");
    out(&place.holdfast("run", &[]));
    assert_eq!(place.read()["dataVersion"], 3);
    assert!(!place.path(".holdfast-data.json.work").exists());
}

#[test]
fn the_beginnings_that_are_written_run_and_change_nothing() {
    let place = Place::new("new");
    let values = json!({"port": 80, "admin": {"$secret": "xyzzy-1"}, "deep": {"list": [1, 2.5, null, "ä"]}});
    place.data(1, values.clone());
    let new = |more: &[&str]| {
        Command::new(HOLDFAST).args(["migrate", "new"]).args(more).current_dir(&place.dir).output().unwrap()
    };
    let made = out(&new(&["--dir", "migrations", "appliance-2-in-python"]));
    assert_eq!(made, "migrations/appliance-2-in-python\n");
    out(&new(&["--dir", "migrations", "--language", "sh", "appliance-3-in-sh"]));
    let package = ["--language", "rust", "appliance-4-in-rust"];
    let refused = new(&[&package[..], &["--dir", "migrations"]].concat());
    assert_eq!(refused.status.code(), Some(4), "everything in there has to be a migration");
    out(&new(&package));
    build(&place.path("appliance-4-in-rust"), &place.path("migrations/appliance-4-in-rust"));
    let plan: Value = serde_json::from_str(&out(&place.holdfast("plan", &["-o", "json"]))).unwrap();
    assert_eq!(plan["path"], "1 → 2 → 3 → 4");
    assert!(plan["steps"].as_array().unwrap().iter().all(|step| step["changes"] == json!([])), "{plan}");
    out(&place.holdfast("run", &[]));
    assert_eq!(place.read()["values"], values);

    let text = fs::read_to_string(place.path("migrations/appliance-2-in-python")).unwrap();
    assert!(
        text.contains("from version 1 to version 2")
            && text.contains("metadata.v2")
            && !text.contains("{TO}")
    );
    let (code, said) = failure(&new(&["--dir", "migrations", "appliance-2-in-python"]));
    assert!(code == 4 && said.contains("exists already"), "{said}");
    for bad in ["in-python", "appliance-1", "appliance-2/../../x", "container-3"] {
        assert_eq!(failure(&new(&[bad])).0, 2, "{bad}");
    }
}

/// With what the registry has here already: the tests need no network.
fn build(package: &Path, to: &Path) {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--offline", "--target-dir"])
        .arg(package.join("target"))
        .current_dir(package)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", err(&built));
    fs::copy(package.join("target/debug").join(package.file_name().unwrap()), to).unwrap();
}
