//! What people see on a terminal while they wait, and what programs are told.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::images::cli::{Served, text};
use crate::images::fixture::{HOLDFAST, MIB, content};

/// Typed on a terminal: all that was drawn on it.
fn drawn(site: &Served, arguments: &str) -> String {
    let typed =
        format!("stty cols 120 rows 40; exec {HOLDFAST} --config {} {arguments}", site.config.display());
    let mut script = Command::new("script");
    script.args(["-q", "-e", "-c", &typed, "/dev/null"]);
    script.env("HOLDFAST_SERVER", &site.address).env("TERM", "xterm").stdin(Stdio::null());
    let done = script.output().unwrap();
    let drawn = text(&done.stdout);
    assert!(done.status.success(), "{arguments}: {drawn}");
    drawn
}

#[test]
fn a_terminal_shows_a_bar_for_each_disk_and_a_pipe_a_line_for_each_state() {
    let site = Served::new(content(120, 16 * MIB), 2);
    site.until_disks_are_ready(2);
    let url = site.origin.url();
    site.origin.set(|served| served.rate = 8 * MIB as u64);
    let bars = drawn(&site, &format!("image create debian --url {url} --wait"));
    let words: Vec<&str> = bars.split(|it: char| it.is_whitespace() || it.is_control()).collect();
    let percent: BTreeSet<u32> =
        words.iter().filter_map(|word| word.strip_suffix('%')?.parse().ok()).collect();
    assert!(percent.iter().any(|percent| (1..100).contains(percent)), "nothing moves: {bars}");
    for shown in ["disk0 ", "disk1 ", "downloading", "/s", "\u{1b}["] {
        assert!(bars.contains(shown), "no {shown:?} in {bars}");
    }
    let piped = site.run(&["wait", "debian"]);
    let lines = text(&piped.stderr);
    assert!(lines.lines().count() == 2 && !lines.contains('\u{1b}'), "{lines}");
    assert!(lines.lines().all(|line| line.starts_with("debian on here:") && line.ends_with(": downloaded")));
    assert!(site.run(&["wait", "debian", "--quiet"]).stderr.is_empty());
    // A bar for what goes from here, and one for what comes.
    let file = site.root.join("out.img").display().to_string();
    for command in [format!("export debian {file}"), format!("upload mine {file}")] {
        assert!(drawn(&site, &format!("image {command}")).contains('%'), "no bar: {command}");
    }
}

#[test]
fn a_program_is_told_of_each_disk_as_json_lines() {
    let site = Served::new(content(121, 8 * MIB), 1);
    site.until_disks_are_ready(1);
    site.origin.set(|served| served.rate = 8 * MIB as u64);
    let told = site.root.join("told");
    let script = format!(
        "exec {HOLDFAST} --config {} --progress-fd 3 --quiet image create debian --url {} --wait 3>{}",
        site.config.display(),
        site.origin.url(),
        told.display()
    );
    let done =
        Command::new("sh").args(["-c", &script]).env("HOLDFAST_SERVER", &site.address).output().unwrap();
    assert!(done.status.success() && done.stderr.is_empty(), "{}", text(&done.stderr));
    let lines = fs::read_to_string(&told).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (last, progress) = lines.split_last().unwrap();
    assert_eq!(last["type"], "end");
    assert!(progress.iter().all(|line| line["type"] == "progress" && line["image"] == "debian"));
    let states: Vec<&str> = progress.iter().filter_map(|line| line["state"].as_str()).collect();
    assert!(states.contains(&"downloading") && states.last() == Some(&"downloaded"), "{states:?}");
    assert_eq!(progress.last().unwrap()["bytes"], 8 * MIB);
}

#[test]
fn fewer_disks_than_copies_are_said() {
    let site = Served::new(content(122, MIB), 2);
    site.until_disks_are_ready(2);
    let url = site.origin.url();
    let enough = site.run(&["create", "two", "--url", &url, "--copies", "2"]);
    assert!(enough.status.success() && enough.stderr.is_empty(), "{}", text(&enough.stderr));
    let fewer = site.run(&["create", "five", "--url", &url, "--copies", "5"]);
    let said = text(&fewer.stderr);
    assert!(fewer.status.success() && said.contains("2 disks instead of 5"), "{said}");
    assert!(said.contains("holdfast image spread five"), "{said}");
}
