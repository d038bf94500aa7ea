//! Shows how far the work is: a bar on a terminal, a line per phase otherwise, JSON lines for programs. Also listens
//! for the signals that ask to stop.

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::fd::{FromRawFd, RawFd};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ::guard::Witness;
use ::guard::execute::name_of;
use disk::tree::Progress;
use indicatif::{ProgressBar, ProgressStyle};
use logic::guard::PlannedStep;
use serde_json::{Value, json};

/// A program gets at most five lines a second.
const EVERY: Duration = Duration::from_millis(200);

pub struct Console {
    stop: Arc<AtomicBool>,
    /// Raised by the second signal.
    insist: Arc<AtomicBool>,
    bar: Option<ProgressBar>,
    quiet: bool,
    for_program: Option<Mutex<(File, Instant)>>,
    step: Mutex<&'static str>,
    files: AtomicU64,
    bytes: AtomicU64,
}

impl Console {
    pub fn new(quiet: bool, progress_fd: Option<RawFd>) -> Self {
        let [stop, insist] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP]
        {
            // Without a handler the signal ends the process at once, and the journal puts things right later.
            // The second one finds the first one's flag raised: it comes before it.
            let _ = raise_if(signal, &stop, &insist);
            let _ = signal_hook::flag::register(signal, Arc::clone(&stop));
        }
        let bar = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let style = ProgressStyle::with_template("{spinner} {prefix} {pos} files, {msg} ({elapsed})");
            let bar = ProgressBar::new_spinner();
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
        });
        Self {
            stop,
            insist,
            bar,
            quiet,
            for_program: progress_fd.and_then(open_fd).map(|file| Mutex::new((file, Instant::now()))),
            step: Mutex::new(""),
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Raised by SIGTERM, SIGINT and SIGHUP.
    pub fn stop(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    /// What was done, for a person; data goes to stdout instead.
    pub fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None if !self.quiet => eprintln!("{text}"),
            None => {}
        }
    }

    /// How far something is: for a person who watches, and for a program.
    pub fn report(&self, text: &str, force: bool, event: impl FnOnce() -> Value) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.to_owned());
            bar.tick();
        }
        self.write(force, event);
    }

    fn tell_program(&self, event: &str, force: bool) {
        self.write(force, || {
            json!({
                "type": event,
                "step": self.step.lock().map(|step| *step).unwrap_or_default(),
                "files": self.files.load(Ordering::Relaxed),
                "bytes": self.bytes.load(Ordering::Relaxed),
            })
        });
    }

    fn write(&self, force: bool, event: impl FnOnce() -> Value) {
        let Some(sink) = &self.for_program else { return };
        let Ok(mut sink) = sink.lock() else { return };
        if force || sink.1.elapsed() >= EVERY {
            sink.1 = Instant::now();
            let _ = writeln!(sink.0, "{}", event());
        }
    }
}

/// On a signal, raises `to` if `when` is raised.
#[allow(unsafe_code)] // the standard way to act on a signal when a flag alone does not do
fn raise_if(signal: i32, when: &Arc<AtomicBool>, to: &Arc<AtomicBool>) -> std::io::Result<()> {
    let (when, to) = (Arc::clone(when), Arc::clone(to));
    let act = move || {
        if when.load(Ordering::Relaxed) {
            to.store(true, Ordering::Relaxed);
        }
    };
    // SAFETY: loads and stores of atomics are all that is done, which a signal handler may do.
    unsafe { signal_hook::low_level::register(signal, act) }.map(drop)
}

/// The descriptor is ours from here on: whoever named it on the command line gave it to us.
#[allow(unsafe_code)] // the standard library has no safe way to take over a descriptor by number
pub fn open_fd(fd: RawFd) -> Option<File> {
    if fd < 3 || std::fs::symlink_metadata(format!("/proc/self/fd/{fd}")).is_err() {
        return None;
    }
    Some(unsafe { File::from_raw_fd(fd) })
}

impl Progress for Console {
    fn advance(&self, files: u64, bytes: u64) {
        let files = self.files.fetch_add(files, Ordering::Relaxed) + files;
        let bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if let Some(bar) = &self.bar {
            bar.set_position(files);
            bar.set_message(crate::output::bytes(bytes));
        }
        self.tell_program("progress", false);
    }

    fn cancelled(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Witness for Console {
    fn step_begins(&self, planned: &PlannedStep) {
        let name = name_of(&planned.step);
        if let Ok(mut step) = self.step.lock() {
            *step = name;
        }
        self.files.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
        match &self.bar {
            Some(bar) => bar.set_prefix(name),
            None if !self.quiet => eprintln!("{name}: {}", planned.reason),
            None => {}
        }
        self.tell_program("step", true);
    }

    fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(format!("note: {text}")),
            None if !self.quiet => eprintln!("note: {text}"),
            None => {}
        }
    }

    fn stop_flag(&self) -> Option<&AtomicBool> {
        Some(&self.stop)
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        self.tell_program("end", true);
    }
}

impl ::upgrade::Witness for Console {
    fn step(&self, number: usize, of: usize, step: logic::upgrade::Step, way: logic::upgrade::Way) {
        use logic::upgrade::Way;
        let name = step.name();
        if let Ok(mut current) = self.step.lock() {
            *current = name;
        }
        let back = if way == Way::Back { "back, " } else { "" };
        match &self.bar {
            Some(bar) => {
                bar.set_prefix(format!("{back}{number}/{of} {name}"));
                bar.tick();
            }
            None if !self.quiet => eprintln!("{back}{number}/{of} {name}"),
            None => {}
        }
        self.write(true, || json!({"type": "step", "step": name, "number": number, "of": of, "way": way}));
    }

    fn note(&self, text: &str) {
        self.say(text);
        self.write(true, || json!({"type": "note", "text": text}));
    }

    fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    fn abandon(&self) -> &AtomicBool {
        &self.insist
    }
}
