//! Running `qemu-img`, and what it says about an image.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use program::{Finished, Invocation, Limits, Overflow, run_limited};
use serde::Deserialize;

use super::error::Error;
use crate::backend::{self, Result};

/// A large disk takes its time.
const LIMIT: Duration = Duration::from_secs(600);
const OUTPUT: usize = 4 << 20;
/// One whose caller was killed goes on to its end, and keeps the image locked until then.
const LOCKED: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_millis(100);
const SAID: usize = 400;

/// What is read of `qemu-img info`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Info {
    pub virtual_size: u64,
    #[serde(default)]
    pub backing_filename: Option<String>,
    #[serde(default)]
    pub backing_filename_format: Option<String>,
    #[serde(default)]
    pub snapshots: Vec<InfoSnapshot>,
    #[serde(default)]
    format_specific: Option<FormatSpecific>,
}

#[derive(Debug, Deserialize)]
pub struct InfoSnapshot {
    pub name: String,
}

#[derive(Debug, Deserialize)]
struct FormatSpecific {
    #[serde(default)]
    data: serde_json::Value,
}

impl Info {
    /// A file beside the image that holds its content.
    pub fn data_file(&self) -> Option<&str> {
        self.format_specific.as_ref()?.data.get("data-file")?.as_str()
    }
}

#[derive(Debug, Clone)]
pub struct QemuImg {
    program: PathBuf,
}

impl QemuImg {
    pub fn new(program: PathBuf) -> Self {
        Self { program }
    }

    /// Of that image alone: none that it stands on is opened. Also of one that is in use.
    pub fn info(&self, path: &Path, format: &str) -> Result<Info> {
        let what = self.invocation(&["info", "--output=json", "-U", "-f", format]).args([path]);
        let done = self.run(what)?;
        serde_json::from_slice(&done.stdout)
            .map_err(|error| Error::Unexpected { why: error.to_string() }.into())
    }

    pub fn create(&self, path: &Path, bytes: u64, base: Option<(&Path, &str)>) -> Result<()> {
        let mut what = self.invocation(&["create", "-q", "-f", "qcow2"]);
        if let Some((base, format)) = base {
            what = what.args(["-F", format, "-b"]).args([base]);
        }
        self.run(what.args([path]).args([bytes.to_string()])).map(drop)
    }

    /// `action` is `-c`, `-a` or `-d`.
    pub fn snapshot(&self, path: &Path, action: &str, name: &str) -> Result<()> {
        // Its file is read as what it is said to be; it may hold anything that the machine has written.
        let image = format!("driver=qcow2,file.driver=file,file.filename={}", escaped(path)?);
        self.run(self.invocation(&["snapshot", "-q", action, name, "--image-opts", &image])).map(drop)
    }

    /// Gives back what nothing leads to any more. An image that stays damaged is an error.
    pub fn repair_leaks(&self, path: &Path) -> Result<()> {
        let what = self.invocation(&["check", "-q", "-f", "qcow2", "-r", "leaks"]).args([path]);
        let done = self.run_to_its_end(&what)?;
        match done.status.code() {
            // 3: clusters that stay lost, which does no harm.
            Some(0 | 3) => Ok(()),
            Some(2) => Err(Error::Damaged { said: said(&done) }.into()),
            _ => Err(failed(&what, &done)),
        }
    }

    fn invocation(&self, args: &[&str]) -> Invocation {
        Invocation::new(&self.program).args(args).env("LC_ALL", "C")
    }

    fn run(&self, what: Invocation) -> Result<Finished> {
        let done = self.run_to_its_end(&what)?;
        if done.status.success() { Ok(done) } else { Err(failed(&what, &done)) }
    }

    fn run_to_its_end(&self, what: &Invocation) -> Result<Finished> {
        let limits = Limits {
            timeout: Some(LIMIT),
            max_output: OUTPUT,
            overflow: Overflow::Stop,
            ..Limits::default()
        };
        let until = Instant::now() + LOCKED;
        loop {
            let done = run_limited(what, &limits)?;
            let locked = !done.status.success() && said(&done).contains("lock");
            if !locked || Instant::now() > until {
                return Ok(done);
            }
            thread::sleep(TICK);
        }
    }
}

/// In a list of options, a comma is written twice.
fn escaped(path: &Path) -> Result<String> {
    let text = path
        .to_str()
        .ok_or_else(|| Error::Unexpected { why: format!("the path {} is not text", path.display()) })?;
    Ok(text.replace(',', ",,"))
}

fn said(done: &Finished) -> String {
    let text = String::from_utf8_lossy(&done.stderr);
    text.trim().replace('\n', " / ").chars().take(SAID).collect()
}

fn failed(what: &Invocation, done: &Finished) -> backend::Error {
    backend::Error::Failed { command: what.shown(), ending: done.ending(), said: said(done) }
}
