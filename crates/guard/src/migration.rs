//! Runs what the configuration names to bring data from one version to the next.
//!
//! The migration gets the data directory and the two versions, as arguments and in the environment. It works on the
//! data in place: a backup of it exists, and whatever it leaves behind when it fails is thrown away.
//!
//! The migrations of a directory run in the sandbox of the crate `migrate`: no network, nothing but the data can be
//! changed. A command is trusted: it may be one that needs more, such as `holdfast storage migrate --offline`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use logic::version::Version;

use crate::health::find_scripts;
use migrate::InPlace;
use program::{Invocation, RunError};

/// How much of what a migration prints is kept for the log.
const MAX_OUTPUT: usize = 64 * 1024;

#[derive(Debug, Clone, Default)]
pub struct Migration {
    pub what: Programs,
    pub timeout: Option<Duration>,
    /// For the programs of a directory.
    pub sandbox: bool,
}

#[derive(Debug, Clone, Default)]
pub enum Programs {
    /// The workload reads older data by itself; guard only records the new version.
    #[default]
    None,
    Command(Vec<OsString>),
    /// All executables of a directory, in the order of their names.
    Directory(PathBuf),
}

impl Migration {
    /// What the programs printed, or why one of them failed.
    pub fn run(
        &self,
        data: &Path,
        from: &Version,
        to: &Version,
        stop: Option<&AtomicBool>,
    ) -> Result<String, String> {
        let mut printed = String::new();
        let how = InPlace {
            dir: data.to_owned(),
            sandbox: self.sandbox && matches!(self.what, Programs::Directory(_)),
            timeout: self.timeout,
            max_output: MAX_OUTPUT,
            stop,
        };
        for (program, args) in self.commands()? {
            let invocation = Invocation::new(&program)
                .args(&args)
                .args([data.as_os_str(), from.as_str().as_ref(), to.as_str().as_ref()])
                .env("HOLDFAST_DATA_DIR", data)
                .env("HOLDFAST_FROM_VERSION", from.as_str())
                .env("HOLDFAST_TO_VERSION", to.as_str());
            let shown = invocation.shown();
            let done = how.run(invocation).map_err(|error| told(&error))?;
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
            let said = [text(&done.stdout), text(&done.stderr)].join("\n");
            if !done.status.success() {
                return Err(format!("{shown} {}: {}", done.ending(), said.trim()));
            }
            printed.push_str(said.trim());
        }
        Ok(printed)
    }

    fn commands(&self) -> Result<Vec<(PathBuf, Vec<OsString>)>, String> {
        match &self.what {
            Programs::None => Ok(vec![]),
            Programs::Command(words) => match words.split_first() {
                Some((program, args)) => Ok(vec![(PathBuf::from(program), args.to_vec())]),
                None => Err("the configured migration command is empty".to_owned()),
            },
            Programs::Directory(dir) => {
                if !dir.is_dir() {
                    return Err(format!(
                        "the configured migration directory {} does not exist",
                        dir.display()
                    ));
                }
                let found = find_scripts(std::slice::from_ref(dir), &[], true);
                Ok(found.scripts.into_iter().map(|script| (script.path, vec![])).collect())
            }
        }
    }
}

/// A sandbox that can't be had has a way out of its own.
fn told(error: &RunError) -> String {
    let chain = crate::error_chain(error);
    match error {
        RunError::Unconfined { .. } | RunError::Sandbox { .. } => {
            format!("{chain} (guard.migration.sandbox = false runs it without)")
        }
        _ => chain,
    }
}
