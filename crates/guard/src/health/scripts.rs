//! Executables in `required.d` and `wanted.d` directories: which there are, and running one.
//!
//! greenboot's contract: exit code 0 is good, anything else is bad; names decide the order (here: the order in
//! which they are started, several at once). Unlike greenboot's first versions, a file must be executable; one
//! that isn't is left out with a note, since it was probably meant to be.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::attempt::{Attempt, MAX_DETAIL, bounded};
use program::{Invocation, Limits, Overflow, RunError, run_limited};

/// A directory with more than this is not a directory of checks.
const MAX_SCRIPTS: usize = 1000;
/// What package managers and editors leave beside a file.
const LEFTOVERS: [&str; 8] =
    ["~", ".bak", ".swp", ".rpmnew", ".rpmsave", ".rpmorig", ".dpkg-old", ".dpkg-new"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    pub name: String,
    pub path: PathBuf,
    pub required: bool,
}

/// Something that was not run, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    pub path: PathBuf,
    pub why: String,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct ScriptsFound {
    /// By name.
    pub scripts: Vec<Script>,
    pub notes: Vec<Note>,
    /// Directories that are there and can't be read: what they ask for is unknown.
    pub unreadable: Vec<Note>,
}

/// Looks through directories; a name in a later one replaces the same name in an earlier one, and a link to
/// `/dev/null` (or a name in `disabled`) takes it out.
pub fn find_scripts(dirs: &[PathBuf], disabled: &[String], required: bool) -> ScriptsFound {
    let mut found = ScriptsFound::default();
    let mut by_name: BTreeMap<OsString, PathBuf> = BTreeMap::new();
    for dir in dirs {
        match names(dir) {
            Ok(names) => by_name.extend(names.into_iter().map(|name| (name.clone(), dir.join(name)))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                found.notes.push(Note { path: dir.clone(), why: "there is no such directory".to_owned() });
            }
            Err(error) => found.unreadable.push(Note { path: dir.clone(), why: error.to_string() }),
        }
    }
    for (name, path) in by_name {
        let name = name.to_string_lossy().into_owned();
        match left_out(&name, &path, disabled) {
            Ok(None) => found.scripts.push(Script { name, path, required }),
            Ok(Some(why)) => found.notes.push(Note { path, why }),
            Err(error) => found.unreadable.push(Note { path, why: error.to_string() }),
        }
    }
    found
}

fn names(dir: &Path) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        if names.len() == MAX_SCRIPTS {
            return Err(io::Error::other(format!("it holds more than {MAX_SCRIPTS} files")));
        }
        names.push(entry?.file_name());
    }
    Ok(names)
}

fn left_out(name: &str, path: &Path, disabled: &[String]) -> io::Result<Option<String>> {
    let because = |why: &str| Ok(Some(why.to_owned()));
    if name.starts_with('.') || LEFTOVERS.iter().any(|end| name.ends_with(end)) {
        return because("its name is that of a hidden file or a leftover");
    }
    if disabled.iter().any(|disabled| disabled == name) {
        return because("it is disabled in the configuration");
    }
    if std::fs::read_link(path).is_ok_and(|target| target == Path::new("/dev/null")) {
        return because("it is disabled by a link to /dev/null");
    }
    let meta = std::fs::metadata(path)?;
    if !meta.is_file() {
        because("it is not a file")
    } else if meta.permissions().mode() & 0o111 == 0 {
        because("it is not executable")
    } else {
        Ok(None)
    }
}

/// Runs one to its end. What it prints is kept for people.
pub(crate) fn run(script: &Path, limits: &Limits<'_>) -> Attempt {
    let limits = Limits { max_output: MAX_DETAIL, overflow: Overflow::Trim, ..*limits };
    match run_limited(&Invocation::new(script), &limits) {
        Ok(done) if done.status.success() => Attempt::Passed(printed(&done.stdout, &done.stderr)),
        Ok(done) => {
            let printed = printed(&done.stdout, &done.stderr);
            let ending = done.ending();
            Attempt::Bad(if printed.is_empty() { ending } else { format!("{ending}: {printed}") })
        }
        Err(RunError::TimedOut { stdout, stderr, .. }) => {
            Attempt::Cut(cut("still running", &stdout, &stderr))
        }
        Err(RunError::Stopped { stdout, stderr, .. }) => Attempt::Cut(cut("stopped", &stdout, &stderr)),
        Err(error) => Attempt::Unknown(with_source(&error)),
    }
}

fn cut(what: &str, stdout: &[u8], stderr: &[u8]) -> String {
    let printed = printed(stdout, stderr);
    if printed.is_empty() { what.to_owned() } else { format!("{what}, after: {printed}") }
}

fn printed(stdout: &[u8], stderr: &[u8]) -> String {
    let [out, err] = [stdout, stderr].map(|bytes| String::from_utf8_lossy(bytes).trim().to_owned());
    bounded([out, err].join("\n").trim())
}

/// An error with its causes, on one line.
pub(crate) fn with_source(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
