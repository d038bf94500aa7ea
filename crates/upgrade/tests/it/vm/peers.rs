//! Whoever is at the other end of the control socket, and whatever lies in `run/`.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::json;
use testkit::vm::Guest;
use upgrade::backend::Backend;
use upgrade::backend::vm::qmp::{Error, Qmp};

use crate::vm::support::{Appliance, scratch};

const GREETING: &str = "{\"QMP\": {\"version\": {}, \"capabilities\": []}}\n";
const SHORT: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(60);

/// A directory that goes with the test.
struct Run(PathBuf);

impl std::ops::Deref for Run {
    type Target = PathBuf;
    fn deref(&self) -> &PathBuf {
        &self.0
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A peer that does as `act` says with its one visitor.
fn peer(act: impl FnOnce(UnixStream) + Send + 'static) -> Run {
    let run = Run(scratch());
    let listener = UnixListener::bind(run.join("qmp.sock")).unwrap();
    thread::spawn(move || act(listener.accept().unwrap().0));
    run
}

fn say(stream: &mut UnixStream, text: &str) {
    let _ = stream.write_all(text.as_bytes());
}

/// Answers as QEMU does, up to the command that counts.
fn greet(stream: &mut UnixStream) -> BufReader<UnixStream> {
    say(stream, GREETING);
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    reader.read_line(&mut String::new()).unwrap();
    say(stream, "{\"return\": {}, \"id\": 1}\n");
    reader.read_line(&mut String::new()).unwrap();
    reader
}

fn stay(stream: UnixStream) {
    thread::sleep(LONG);
    drop(stream);
}

#[test]
fn a_peer_that_says_nothing_is_not_waited_for_without_end() {
    let error = Qmp::connect(&peer(stay), "qmp.sock", SHORT).unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    // Greeted, and then nothing.
    let run = peer(|mut stream| {
        let _reader = greet(&mut stream);
        stay(stream);
    });
    let mut qmp = Qmp::connect(&run, "qmp.sock", LONG).unwrap();
    let error = qmp.execute("query-status", json!({}), SHORT).unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
}

#[test]
fn a_peer_that_trickles_or_only_tells_of_events_does_not_win_time() {
    for text in [" ", "{\"event\": \"RESET\"}\n"] {
        let run = peer(move |mut stream| {
            let _reader = greet(&mut stream);
            while stream.write_all(text.as_bytes()).is_ok() {
                thread::sleep(Duration::from_millis(1));
            }
        });
        let mut qmp = Qmp::connect(&run, "qmp.sock", LONG).unwrap();
        let error = qmp.execute("query-status", json!({}), SHORT).unwrap_err();
        assert!(matches!(error, Error::TimedOut { .. }), "{error}");
        assert!(qmp.events().len() <= 64);
    }
}

#[test]
fn a_peer_that_talks_nonsense_is_told_from_one_that_refuses() {
    for nonsense in ["hello\n", "[]\n", "{}\n", "{\"QMP\": \n", "\n", "\u{0}\n"] {
        let run = peer(move |mut stream| {
            say(&mut stream, nonsense);
            stay(stream);
        });
        let error = Qmp::connect(&run, "qmp.sock", LONG).unwrap_err();
        assert!(matches!(error, Error::Nonsense { .. }), "{nonsense:?}: {error}");
    }
    let run = peer(|mut stream| {
        let _reader = greet(&mut stream);
        say(&mut stream, "{\"event\": \"STOP\"}\n{\"return\": {\"of\": \"another\"}, \"id\": 77}\n");
        say(&mut stream, "{\"error\": {\"class\": \"GenericError\", \"desc\": \"no\"}, \"id\": 2}\n");
        stay(stream);
    });
    let mut qmp = Qmp::connect(&run, "qmp.sock", LONG).unwrap();
    let error = qmp.execute("cont", json!({}), LONG).unwrap_err();
    assert_eq!(error.to_string(), "cont was refused: no");
    assert_eq!(qmp.events(), ["STOP"]);
}

#[test]
fn a_line_without_end_is_not_kept() {
    let run = peer(|mut stream| while stream.write_all(&[b'x'; 65536]).is_ok() {});
    let error = Qmp::connect(&run, "qmp.sock", LONG).unwrap_err();
    assert!(matches!(error, Error::TooLong), "{error}");
}

#[test]
fn a_peer_that_dies_or_is_not_there_is_an_error_at_once() {
    let error = Qmp::connect(&peer(drop), "qmp.sock", LONG).unwrap_err();
    assert!(matches!(error, Error::Closed), "{error}");
    let run = peer(|mut stream| drop(greet(&mut stream)));
    let mut qmp = Qmp::connect(&run, "qmp.sock", LONG).unwrap();
    let error = qmp.execute("quit", json!({}), LONG).unwrap_err();
    assert!(matches!(error, Error::Closed), "{error}");
    let error = Qmp::connect(&Run(scratch()), "qmp.sock", LONG).unwrap_err();
    assert!(matches!(error, Error::Connect(_)), "{error}");
}

#[test]
fn what_a_dead_machine_left_behind_names_nobody() {
    let appliance = Appliance::new();
    let mut guest = Guest::new("v1.0.0-1-a");
    guest.vm = json!({"stopTimeout": "1s"});
    appliance.install(&guest);
    let mut bystander = Command::new("sleep").arg("1000").spawn().unwrap();
    let run = appliance.layout.run();
    fs::write(run.join("machine.pid"), format!("{}\n", bystander.id())).unwrap();
    fs::write(run.join("machine.lock"), "").unwrap();
    drop(UnixListener::bind(run.join("qmp.sock")).unwrap());

    assert!(!appliance.vm.describe().unwrap().on);
    appliance.vm.power_off().unwrap();
    assert!(bystander.try_wait().unwrap().is_none(), "somebody else was ended");
    appliance.vm.power_on().unwrap();
    assert_eq!(appliance.processes().len(), 1);

    // Also while a machine runs whose file names somebody else.
    fs::write(run.join("machine.pid"), format!("{}\n", bystander.id())).unwrap();
    for id in appliance.processes() {
        Command::new("kill").args(["-STOP", &id.to_string()]).status().unwrap();
    }
    appliance.vm.power_off().unwrap();
    assert!(appliance.processes().is_empty());
    assert!(bystander.try_wait().unwrap().is_none(), "somebody else was ended");
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[test]
fn a_path_too_long_for_a_socket_is_none_too_long_for_a_machine() {
    let top = Run(scratch());
    let appliance = Appliance::at(top.join("a-directory-with-a-rather-long-name/".repeat(8)));
    let mut guest = Guest::new("v1.0.0-1-a");
    guest.vm = json!({"stopTimeout": "0s"});
    appliance.install(&guest);
    appliance.vm.power_on().unwrap();
    assert!(appliance.vm.describe().unwrap().on);
    appliance.vm.power_off().unwrap();
}
