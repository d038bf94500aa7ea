//! How far images are: a bar for each disk on a terminal, a line for each state otherwise, JSON lines for programs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use logic::images::{BackingImage, Disk, FileState, OnDisk};
use serde_json::json;

use super::views::place;
use crate::cli::Global;
use crate::output::bytes;
use crate::witness::open_fd;

/// A program gets at most five lines a second of each disk.
const EVERY: Duration = Duration::from_millis(200);
/// More bars than fit on a screen help nobody.
const BARS: usize = 20;
/// Characters before a bar.
const PLACE: usize = 24;

pub struct Progress {
    bars: Option<MultiProgress>,
    quiet: bool,
    for_program: Option<File>,
    places: BTreeMap<String, String>,
    disks: BTreeMap<String, Shown>,
}

struct Shown {
    bar: Option<ProgressBar>,
    state: Option<(FileState, String)>,
    told: Option<Instant>,
}

impl Progress {
    pub fn new(global: &Global) -> Self {
        let terminal = !global.quiet && std::io::stderr().is_terminal();
        Self {
            bars: terminal.then(MultiProgress::new),
            quiet: global.quiet,
            for_program: global.progress_fd.and_then(open_fd),
            places: BTreeMap::new(),
            disks: BTreeMap::new(),
        }
    }

    /// Where disks are, for people.
    pub fn know(&mut self, disks: &[Disk]) {
        self.places = disks.iter().map(|disk| (disk.metadata.name.clone(), place(disk))).collect();
    }

    pub fn show(&mut self, image: &BackingImage) {
        let size = image.status.seal.as_ref().map(|seal| seal.size);
        for (disk, on) in &image.status.disks {
            self.show_disk(&image.metadata.name, disk.as_str(), on, size);
        }
    }

    fn show_disk(&mut self, image: &str, disk: &str, on: &OnDisk, size: Option<u64>) {
        let place = self.places.get(disk).cloned().unwrap_or_else(|| disk.to_owned());
        let few = self.disks.len() < BARS;
        let bars = &self.bars;
        let shown = self.disks.entry(disk.to_owned()).or_insert_with(|| Shown {
            bar: bars.as_ref().filter(|_| few).map(|bars| bars.add(bar(&place))),
            state: None,
            told: None,
        });
        let state = (on.state, on.reason.clone());
        let changed = shown.state.as_ref() != Some(&state);
        if let Some(bar) = &shown.bar {
            // Percent are known before the size is, where the origin did not tell it.
            let (length, position) = size.map_or((100, u64::from(on.progress)), |size| (size, on.bytes));
            bar.set_length(length);
            bar.set_position(if on.state == FileState::Downloaded { length } else { position });
            bar.set_message(message(on));
        } else if changed && !self.quiet {
            let reason = if on.reason.is_empty() { String::new() } else { format!(": {}", on.reason) };
            eprintln!("{image} on {place}: {}{reason}", on.state.name());
        }
        if changed {
            shown.state = Some(state);
        }
        let due = shown.told.is_none_or(|told| told.elapsed() >= EVERY);
        if let Some(program) = &mut self.for_program
            && (changed || due)
        {
            shown.told = Some(Instant::now());
            let event = json!({
                "type": "progress", "image": image, "disk": disk, "state": on.state.name(), "reason": on.reason,
                "percent": on.progress, "bytes": on.bytes, "size": size, "rate": on.rate,
                "remainingSeconds": on.remaining_seconds, "sources": on.sources,
            });
            // A program that has gone away is no reason to fail.
            let _ = writeln!(program, "{event}");
        }
    }

    pub fn end(&mut self) {
        if let Some(bars) = &self.bars {
            for shown in self.disks.values() {
                if let Some(bar) = &shown.bar {
                    bar.abandon();
                }
            }
            let _ = bars.clear();
        }
        if let Some(program) = &mut self.for_program {
            let _ = writeln!(program, "{}", json!({"type": "end"}));
        }
    }
}

fn bar(place: &str) -> ProgressBar {
    let style =
        ProgressStyle::with_template(&format!("{{prefix:{PLACE}!}} {{bar:30}} {{percent:>3}}% {{msg}}"));
    let bar = ProgressBar::new(100).with_prefix(shortened(place));
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Disks of one machine differ at the end of their paths.
fn shortened(place: &str) -> String {
    let length = place.chars().count();
    if length <= PLACE {
        return place.to_owned();
    }
    let end: String = place.chars().skip(length - PLACE + 1).collect();
    format!("…{end}")
}

fn message(on: &OnDisk) -> String {
    let mut text = on.state.name().to_owned();
    if on.state == FileState::Downloading && on.rate > 0 {
        text.push_str(&format!(" {}/s", bytes(on.rate)));
        if let Some(seconds) = on.remaining_seconds {
            text.push_str(&format!(", {} left", logic::period::Period::seconds(seconds)));
        }
    }
    if !on.reason.is_empty() {
        text.push_str(&format!(": {}", on.reason));
    }
    text
}

/// One bar over bytes, for uploads and exports.
pub fn transfer(global: &Global, what: &str, size: Option<u64>) -> ProgressBar {
    if global.quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style =
        ProgressStyle::with_template("{prefix} {bar:30} {percent:>3}% {binary_bytes_per_sec}, {eta} left");
    let bar = size.map_or_else(ProgressBar::new_spinner, ProgressBar::new).with_prefix(what.to_owned());
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
