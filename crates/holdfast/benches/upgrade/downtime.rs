//! How long nobody answers: a plain stop and start of a program, and an upgrade of an appliance that is the same program,
//! with a gigabyte of data on XFS. Asked every millisecond.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::scratch_fs::{FsKind, ScratchFs};

use crate::table::{Row, median};

pub const DOWNTIME: &str = "downtime of an upgrade with 1 GiB of data on XFS";
const ROUNDS: usize = 7;
const DATA: u64 = 1 << 30;
const FILES: u64 = 64;
const SIZE: u64 = 4 << 30;

fn version(build: usize) -> String {
    format!("v{build}.0.0-{build}-bench")
}

/// Who answers now, if anybody.
fn asked(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    stream.write_all(b"GET /version HTTP/1.0\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    head.contains(" 200 ").then(|| body.trim().to_owned())
}

/// From the last answer of the old one to the first of the new, while `change` goes on.
fn gap(port: u16, new: &str, change: impl FnOnce()) -> Duration {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asker = scope.spawn(|| {
            let (mut last, mut first) = (Instant::now(), None);
            while !(over.load(Ordering::Relaxed) && first.is_some()) {
                let before = Instant::now();
                match asked(port) {
                    Some(who) if who == new => {
                        first.get_or_insert_with(Instant::now);
                    }
                    Some(_) => last = Instant::now(),
                    None => {}
                }
                std::thread::sleep(Duration::from_millis(1).saturating_sub(before.elapsed()));
            }
            first.unwrap_or(last).duration_since(last)
        });
        change();
        over.store(true, Ordering::Relaxed);
        asker.join().expect("the one who asks")
    })
}

fn start(notes: &Path, data: &Path, port: u16, version: &str) -> Child {
    let mut command = Command::new(notes);
    command.arg("--data").arg(data).args(["--port", &port.to_string(), "--version", version]);
    command.stdout(Stdio::null()).spawn().expect("the program")
}

fn wait_for(port: u16) {
    while asked(port).is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn plain(notes: &Path, root: &Path, port: u16) -> Duration {
    let data = root.join("plain");
    fs::create_dir_all(&data).expect("a directory");
    let mut gaps: Vec<Duration> = vec![];
    let mut child = start(notes, &data, port, &version(0));
    wait_for(port);
    for round in 1..=ROUNDS {
        let new = version(round);
        gaps.push(gap(port, &new, || {
            let pid = rustix::process::Pid::from_child(&child);
            rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("a signal");
            child.wait().expect("its end");
            child = start(notes, &data, port, &new);
        }));
    }
    child.kill().expect("its end");
    child.wait().expect("its end");
    median(&mut gaps)
}

fn release(notes: &Path, root: &Path, build: usize) -> PathBuf {
    let dir = root.join(format!("release-{build}"));
    fs::create_dir_all(dir.join("bin")).expect("a directory");
    fs::copy(notes, dir.join("bin/notes")).expect("the program");
    fs::set_permissions(dir.join("bin/notes"), fs::Permissions::from_mode(0o755)).expect("a mode");
    let version = version(build);
    let manifest = json!({
        "apiVersion": "holdfast/v1", "kind": "Release", "version": version,
        "slot": {"command": ["bin/notes", "--data", "{data}", "--port", "{config.port}", "--version", version]},
        "readiness": {"probe": {"http": {"url": "http://127.0.0.1:{config.port}/ready"}}, "interval": "5ms"},
    });
    fs::write(dir.join("release.json"), manifest.to_string()).expect("release.json");
    dir
}

fn holdfast(root: &Path, words: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.args(words).env("HOLDFAST_UPGRADE_DIRECTORY", root.join("appliances")).arg("-q");
    assert!(command.stdout(Stdio::null()).status().expect("holdfast").success(), "{words:?}");
}

fn upgrades(notes: &Path, root: &Path, port: u16) -> Duration {
    let first = release(notes, root, 1);
    let set = format!("port={port}");
    let first = first.display().to_string();
    holdfast(root, &["appliance", "create", "bench", "--release", &first, "--set", &set, "--start"]);
    let data = root.join("appliances/bench/state/data");
    let block = vec![0x5a; (DATA / FILES) as usize];
    for file in 0..FILES {
        fs::write(data.join(format!("blob-{file}")), &block).expect("room for the data");
    }
    let mut gaps: Vec<Duration> = vec![];
    for build in 2..2 + ROUNDS {
        let (dir, new) = (release(notes, root, build), version(build));
        disk::durable::sync_fs(root).expect("a sync");
        let dir = dir.display().to_string();
        gaps.push(gap(port, &new, || holdfast(root, &["upgrade", "bench", "--release", &dir])));
    }
    holdfast(root, &["appliance", "rm", "bench", "--force"]);
    median(&mut gaps)
}

pub fn row() -> Row {
    let fs = ScratchFs::on_disk(FsKind::Xfs, SIZE);
    let notes = testkit::programs::notes();
    let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port();
    let theirs = plain(&notes, fs.path(), port);
    let ours = upgrades(&notes, fs.path(), port);
    let bar = theirs.mul_f64(1.25) + Duration::from_millis(50);
    let millis = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1000.0);
    Row {
        what: DOWNTIME.to_owned(),
        measured: millis(ours),
        bar: format!("≤ {}", millis(bar)),
        detail: format!(
            "medians of {ROUNDS}; a plain stop and start of the same program {}, of which 1.25 and 50 ms",
            millis(theirs)
        ),
        holds: ours <= bar,
    }
    .said()
}
