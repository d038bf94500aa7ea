//! Data migrations: a long chain in memory, and what the sandbox of an executable costs over running it plainly.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use migrate::{Data, Failure, Input, Migration, Options, Output, Registry, Target, Work};
use serde_json::{Map, Value, json};

use crate::table::{Row, median};

const CHAIN: u32 = 100;
const KEYS: usize = 10_000;
const CHAIN_BAR: Duration = Duration::from_millis(500);
const CHAIN_ROUNDS: usize = 5;
const START_BAR: Duration = Duration::from_millis(20);
const START_ROUNDS: usize = 50;

pub fn rows() -> Vec<Row> {
    vec![chain(), start_up()]
}

/// Renames a hundred keys and changes a hundred others.
struct Renames(u32);

impl Migration for Renames {
    fn name(&self) -> &str {
        "renames"
    }

    fn digest(&self) -> &str {
        "bench"
    }

    fn migrate(&self, input: &Input<'_>, _work: &Work<'_>) -> Result<Output, Failure> {
        let mut values = input.values.clone();
        let keys: Vec<String> =
            values.keys().skip(self.0 as usize * 7).step_by(45).take(200).cloned().collect();
        for (at, key) in keys.into_iter().enumerate() {
            if at % 2 == 0 {
                let value = values.remove(&key).unwrap_or_default();
                values.insert(format!("{key}.{}", self.0), value);
            } else {
                values[&key]["port"] = json!(self.0);
            }
        }
        Ok(values.into())
    }
}

fn chain() -> Row {
    let mut registry = Registry::new();
    for version in 2..CHAIN + 2 {
        registry.register(Target::Appliance, version, Box::new(Renames(version))).expect("one per version");
    }
    let value = |at: usize| json!({"port": at, "host": format!("host-{at}.example"), "tags": ["a", "b"]});
    let values: Map<String, Value> = (0..KEYS).map(|at| (format!("service-{at:05}"), value(at))).collect();
    let data = Data { version: 1, applied: vec![], values };
    let place = Place::new();
    let mut times: Vec<Duration> = (0..CHAIN_ROUNDS)
        .map(|_| {
            let start = Instant::now();
            let done = registry
                .run(Target::Appliance, &data, None, &place.0.join("work"), &Options::default())
                .expect("the chain runs");
            let took = start.elapsed();
            assert_eq!((done.data.version, done.data.values.len()), (CHAIN + 1, KEYS));
            assert!(done.steps.iter().all(|step| step.changes.len() >= 200));
            took
        })
        .collect();
    let took = median(&mut times);
    Row {
        what: format!("{CHAIN} migrations over {KEYS} keys, in memory"),
        measured: format!("{:.2} s", took.as_secs_f64()),
        bar: format!("≤ {:.1} s", CHAIN_BAR.as_secs_f64()),
        detail: format!("each changes 200 keys, and is compared for the plan; median of {CHAIN_ROUNDS}"),
        holds: took <= CHAIN_BAR,
    }
    .said()
}

const PROGRAM: &str = "#!/bin/sh\ncat >/dev/null\necho '{\"values\":{}}'\n";

fn start_up() -> Row {
    let place = Place::new();
    let migrations = place.0.join("migrations");
    fs::create_dir_all(&migrations).expect("a directory");
    let program = migrations.join("appliance-2");
    fs::write(&program, PROGRAM).expect("a program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("an executable");
    let mut registry = Registry::new();
    registry.discover(&migrations).expect("it is named well");
    let data = Data { version: 1, applied: vec![], values: Map::new() };
    let (mut ours, mut plain) = (Vec::new(), Vec::new());
    // In turns, so that what else the machine does falls on both.
    for _ in 0..START_ROUNDS {
        plain.push(plainly(&program));
        let start = Instant::now();
        registry
            .run(Target::Appliance, &data, None, &place.0.join("work"), &Options::default())
            .expect("the program runs");
        ours.push(start.elapsed());
    }
    let (ours, plain) = (median(&mut ours), median(&mut plain));
    let over = ours.saturating_sub(plain);
    Row {
        what: "start-up of an executable migration, over its own run time".to_owned(),
        measured: format!("{:.1} ms", over.as_secs_f64() * 1e3),
        bar: format!("≤ {} ms", START_BAR.as_millis()),
        detail: format!(
            "a shell script: in its sandbox {:.1} ms, plainly {:.1} ms; medians of {START_ROUNDS}",
            ours.as_secs_f64() * 1e3,
            plain.as_secs_f64() * 1e3
        ),
        holds: over <= START_BAR,
    }
    .said()
}

fn plainly(program: &Path) -> Duration {
    let start = Instant::now();
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(b"{}").expect("it reads");
    }
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    start.elapsed()
}

struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        let dir = std::env::temp_dir().join(format!("holdfast-bench-migrations-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).expect("a directory");
        Self(dir)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
