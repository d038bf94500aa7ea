//! The main job: release 2 is found, checked and moved to with the data; release 3 is broken and rolled back by itself.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::processes::{below, words_of};
use super::world::World;
use crate::support::{HOLDFAST, Scratch};
use crate::upgrade::site::{Kind, Release, Slot};
use crate::upgrade::vm::Vm;

fn there_and_back<K: Kind>(world: &mut World<K>) {
    let (second, third) = (Release::of(2).with_data(2), Release::of(3).with_data(2).never_ready());
    world.site.put("bread", "two");
    world.publish(&second);
    world.start_graph();
    world.automatic().start_agent();
    let attempt = world.ends_as(&second, "completed");
    assert_eq!((&attempt["from"], &attempt["by"]), (&Value::from("1.0.0"), &Value::from("automatic")));
    world.site.serves(&second);
    assert_eq!(world.site.note("bread").as_deref(), Some("two"));
    assert_eq!(world.site.inspect()["configuration"]["title2"], Value::from("Shopping"));
    world.site.put("milk", "one");
    world.publish(&third);
    world.ends_as(&third, "rolled-back");
    world.site.serves(&second);
    assert_eq!(world.site.note("bread").as_deref(), Some("two"));
    assert_eq!(world.site.note("milk").as_deref(), Some("one"));
    world.nothing_left();
    // Never again by itself.
    world.ends(&["agent", "check"], 0);
    let status = world.ends(&["agent", "status", "-o", "json"], 0);
    let status: Value = serde_json::from_str(&status.out).unwrap();
    assert_eq!(status["available"][0]["standing"], Value::from("rolled-back"), "{status:#}");
    assert_eq!(world.attempts().len(), 2, "{:#}", world.books());
    world.stop_agent();
    world.site.serves(&second);
}

#[test]
fn a_process_follows_its_releases_and_comes_back_from_a_broken_one() {
    there_and_back(&mut World::<Slot>::new());
}

#[test]
#[ignore = "prove: machines"]
fn a_virtual_machine_follows_its_releases_and_comes_back_from_a_broken_one() {
    let mut world = World::<Vm>::new();
    there_and_back(&mut world);
}

#[test]
fn releases_come_from_a_real_registry() {
    there_and_back(&mut World::<Slot>::new().with_registry());
}

#[test]
fn the_story_that_newcomers_are_told_is_true() {
    let story = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/notes/story");
    let told = Command::new(story)
        .arg("--once")
        .env("HOLDFAST", env!("CARGO_BIN_EXE_holdfast"))
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
    assert!(told.status.success(), "{out}\n{err}");
    println!("{out}");
}

/// A command of this checkout in a pseudo-terminal, which `script` of util-linux provides.
struct Terminal {
    scratch: Scratch,
    process: Child,
}

impl Terminal {
    fn run(command: &str) -> Self {
        let scratch = Scratch::new();
        fs::create_dir(scratch.0.join("tmp")).unwrap();
        let process = Command::new("script")
            // Without exec, some shells stay between `script` and the command, and end with 130 on Ctrl-C.
            .args(["--quiet", "--flush", "--return", "--command", &format!("exec {command}"), "/dev/null"])
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
            // With HOLDFAST set, `make run` builds nothing.
            .env("HOLDFAST", HOLDFAST)
            .env("TMPDIR", scratch.0.join("tmp"))
            .env_remove("MAKEFLAGS")
            .env_remove("MAKELEVEL")
            .stdin(Stdio::piped())
            .stdout(fs::File::create(scratch.0.join("output")).unwrap())
            .spawn()
            .unwrap();
        Self { scratch, process }
    }

    fn output(&self) -> String {
        fs::read_to_string(self.scratch.0.join("output")).unwrap()
    }

    fn wait_for(&mut self, text: &str) {
        let began = Instant::now();
        while !self.output().contains(text) {
            assert_eq!(self.process.try_wait().unwrap(), None, "{}", self.output());
            assert!(began.elapsed() < Duration::from_secs(180), "no {text:?}:\n{}", self.output());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn press_ctrl_c(&self) {
        self.process.stdin.as_ref().unwrap().write_all(&[3]).unwrap();
    }

    /// Waits for the end. There must be no file and no process left then. Returns the exit code and the last output.
    fn end(mut self, after: &str) -> (Option<i32>, String) {
        // `wait` would close the keyboard.
        let code = loop {
            match self.process.try_wait().unwrap() {
                Some(status) => break status.code(),
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        let output = self.output();
        let files: Vec<_> =
            fs::read_dir(self.scratch.0.join("tmp")).unwrap().map(|file| file.unwrap().path()).collect();
        assert_eq!(files, [] as [&Path; 0], "{output}");
        assert_eq!(processes_with(&self.scratch.0), [] as [String; 0], "{output}");
        (code, output.split_once(after).unwrap().1.to_owned())
    }
}

impl Drop for Terminal {
    /// Without its terminal, the story stops.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Processes whose command line, environment or working directory contains a path.
fn processes_with(path: &Path) -> Vec<String> {
    let path = path.to_str().unwrap();
    let is_in = |process: &Path| {
        let file = |name| fs::read(process.join(name)).unwrap_or_default();
        let place = fs::read_link(process.join("cwd")).unwrap_or_default();
        [file("cmdline"), file("environ"), place.into_os_string().into_encoded_bytes()]
            .iter()
            .any(|text| String::from_utf8_lossy(text).contains(path))
    };
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().parse::<i32>().is_ok() && is_in(&entry.path()))
        .map(|entry| {
            let pid = entry.file_name().to_string_lossy().parse().unwrap();
            format!("{pid} {}", Pid::from_raw(pid).map(words_of).unwrap_or_default())
        })
        .collect()
}

const STAYS_UP: &str = "Everything stays up until you press Ctrl-C";
const ERRORS: [&str; 6] = ["error", "Error", "failed", "***", "Interrupt", "Traceback"];

#[track_caller]
fn says_no_error(output: &str) {
    assert!(!ERRORS.iter().any(|error| output.contains(error)), "{output}");
}

#[test]
fn ctrl_c_ends_the_story_as_it_says() {
    for command in ["examples/notes/story", "make run"] {
        let mut terminal = Terminal::run(command);
        terminal.wait_for(STAYS_UP);
        terminal.press_ctrl_c();
        let (code, output) = terminal.end(STAYS_UP);
        assert_eq!(code, Some(0), "{command}: {output}");
        says_no_error(&output);
    }
}

/// Nothing can make the exit code 0: after its recipe, GNU make ends itself with the signal.
#[test]
fn a_signal_to_make_alone_ends_the_story_and_leaves_nothing() {
    let mut terminal = Terminal::run("make run");
    terminal.wait_for(STAYS_UP);
    let make = below(Pid::from_child(&terminal.process)).into_iter().find(|pid| words_of(*pid) == "make run");
    kill_process(make.unwrap(), Signal::INT).unwrap();
    let (code, output) = terminal.end(STAYS_UP);
    assert_eq!(code, Some(130), "{output}");
    says_no_error(&output);
}

#[test]
fn ctrl_c_in_the_middle_of_the_story_leaves_nothing() {
    for step in ["Install the appliance", "holdfast up:", "Publish release 3"] {
        let mut terminal = Terminal::run("make run");
        terminal.wait_for(step);
        terminal.press_ctrl_c();
        let (code, output) = terminal.end(step);
        assert_eq!(code, Some(2), "{output}");
        assert!(output.contains("Interrupted: stopping everything"), "{output}");
        assert!(!output.contains("Traceback") && !output.contains("failed"), "{output}");
    }
}
