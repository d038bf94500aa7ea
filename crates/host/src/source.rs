//! Asks the host. The only effects of this module: one command run within limits, or one small file read.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use logic::host::{DeploymentId, Host};
use serde::Serialize;

use crate::error::{Error, excerpt, first_lines};
use crate::listing::Listing;
use crate::{boot_link, booted_by_link, ostree, parse_bootc, parse_file, parse_ostree, parse_rpm_ostree};
use program::{Invocation, Limits, run_limited};

/// A file of deployments is a few hundred bytes.
const MAX_FILE: u64 = 1 << 20;
/// How much of a failing command's stderr goes into the error.
const STDERR_LINES: usize = 3;
const STDERR_BYTES: usize = 600;

/// The programs that may know, and where the kernel says how it was booted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Programs {
    pub rpm_ostree: PathBuf,
    pub bootc: PathBuf,
    pub ostree: PathBuf,
    /// `None`: the running system's.
    pub sysroot: Option<PathBuf>,
    pub kernel_cmdline: PathBuf,
}

impl Default for Programs {
    fn default() -> Self {
        Self {
            rpm_ostree: "rpm-ostree".into(),
            bootc: "bootc".into(),
            ostree: "ostree".into(),
            sysroot: None,
            kernel_cmdline: "/proc/cmdline".into(),
        }
    }
}

/// Where to ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    RpmOstree {
        program: PathBuf,
    },
    Bootc {
        program: PathBuf,
        kernel_cmdline: PathBuf,
    },
    Ostree {
        program: PathBuf,
        sysroot: Option<PathBuf>,
        kernel_cmdline: PathBuf,
    },
    File(PathBuf),
    /// The first of rpm-ostree, bootc and ostree that is there and answers with a booted deployment. They name
    /// deployments alike, so it does not matter which one it was yesterday.
    Auto(Programs),
}

/// Who answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    RpmOstree,
    Bootc,
    Ostree,
    File,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RpmOstree => "rpm-ostree",
            Self::Bootc => "bootc",
            Self::Ostree => "ostree",
            Self::File => "file",
        })
    }
}

/// The host, and who told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    pub source: Kind,
    pub host: Host,
}

/// Reads the host. `booted` overrides what the source says is booted.
pub fn read(source: &Source, booted: Option<&DeploymentId>, limits: &Limits<'_>) -> Result<Found, Error> {
    let found = |source, host| Found { source, host };
    match source {
        Source::RpmOstree { program } => {
            rpm_ostree(program, booted, limits).map(|h| found(Kind::RpmOstree, h))
        }
        Source::Bootc { program, kernel_cmdline } => {
            bootc(program, kernel_cmdline, booted, limits).map(|host| found(Kind::Bootc, host))
        }
        Source::Ostree { program, sysroot, kernel_cmdline } => {
            ostree(program, sysroot.as_deref(), kernel_cmdline, booted, limits)
                .map(|h| found(Kind::Ostree, h))
        }
        Source::File(path) => file(path, booted).map(|host| found(Kind::File, host)),
        Source::Auto(programs) => auto(programs, booted, limits),
    }
}

fn auto(programs: &Programs, booted: Option<&DeploymentId>, limits: &Limits<'_>) -> Result<Found, Error> {
    let Programs { rpm_ostree, bootc, ostree, sysroot, kernel_cmdline } = programs.clone();
    let order = [
        (Kind::RpmOstree, Source::RpmOstree { program: rpm_ostree }),
        (Kind::Bootc, Source::Bootc { program: bootc, kernel_cmdline: kernel_cmdline.clone() }),
        (Kind::Ostree, Source::Ostree { program: ostree, sysroot, kernel_cmdline }),
    ];
    let mut tried = Vec::new();
    let mut listed_none = None;
    for (kind, source) in order {
        match read(&source, booted, limits) {
            Ok(found) if found.host.deployments.is_empty() => listed_none = listed_none.or(Some(found)),
            Ok(found) => return Ok(found),
            Err(error) => tried.push((kind, error)),
        }
    }
    // Only possible with `booted` given: an answer without a list still beats no answer.
    listed_none.ok_or(Error::NoneAnswered { tried })
}

fn rpm_ostree(program: &Path, booted: Option<&DeploymentId>, limits: &Limits<'_>) -> Result<Host, Error> {
    let (command, text) = ask(program, &["status", "--json"], limits)?;
    parse_rpm_ostree(&text)?.into_host(&command, booted)
}

fn bootc(
    program: &Path,
    kernel_cmdline: &Path,
    booted: Option<&DeploymentId>,
    limits: &Limits<'_>,
) -> Result<Host, Error> {
    let (command, text) = ask(program, &["status", "--json"], limits)?;
    // Only the old layout needs it, so a command line that can't be read is no failure of its own.
    let link = read_small(kernel_cmdline).ok().and_then(|text| boot_link(&text));
    parse_bootc(&text, link.as_deref().and_then(ostree::osname_of))?.into_host(&command, booted)
}

fn ostree(
    program: &Path,
    sysroot: Option<&Path>,
    kernel_cmdline: &Path,
    booted: Option<&DeploymentId>,
    limits: &Limits<'_>,
) -> Result<Host, Error> {
    let mut args: Vec<OsString> = ["admin", "status"].map(OsString::from).into();
    if let Some(path) = sysroot {
        let mut option = OsString::from("--sysroot=");
        option.push(path);
        args.push(option);
    }
    let (command, text) = ask(program, &args, limits)?;
    let listing = parse_ostree(&text)?;
    let by_link = if booted.is_none() && listing.booted().is_none() && !listing.entries.is_empty() {
        Some(booted_by_cmdline(&listing, sysroot.unwrap_or(Path::new("/")), kernel_cmdline)?)
    } else {
        None
    };
    listing.into_host(&command, booted.or(by_link.as_ref()))
}

fn booted_by_cmdline(
    listing: &Listing,
    sysroot: &Path,
    kernel_cmdline: &Path,
) -> Result<DeploymentId, Error> {
    let Some(link) = boot_link(&read_small(kernel_cmdline)?) else {
        return Err(Error::NoBootArgument { path: kernel_cmdline.to_owned() });
    };
    let booted = booted_by_link(sysroot, &link)?;
    if listing.entries.iter().any(|entry| entry.id == booted) {
        Ok(booted)
    } else {
        Err(Error::BootedNotListed { origin: "ostree admin status".to_owned(), booted })
    }
}

fn file(path: &Path, booted: Option<&DeploymentId>) -> Result<Host, Error> {
    let origin = path.display().to_string();
    let mut host = parse_file(&origin, &read_small(path)?)?;
    if let Some(booted) = booted {
        if !host.deployments.is_empty() && !host.deployments.contains(booted) {
            return Err(Error::BootedNotListed { origin, booted: booted.clone() });
        }
        host.booted = booted.clone();
    }
    Ok(host)
}

/// Runs a status command; what it printed must be text, and it must have ended well.
fn ask<A: AsRef<OsStr>>(program: &Path, args: &[A], limits: &Limits<'_>) -> Result<(String, String), Error> {
    // Messages and marks are translated otherwise.
    let what = Invocation::new(program).args(args).env("LC_ALL", "C.UTF-8").env("LANGUAGE", "");
    let command = what.shown();
    let done =
        run_limited(&what, limits).map_err(|source| Error::Run { command: command.clone(), source })?;
    if !done.status.success() {
        let stderr = first_lines(&done.stderr, STDERR_LINES, STDERR_BYTES);
        return Err(Error::Failed { command, ending: done.ending(), stderr });
    }
    match String::from_utf8(done.stdout) {
        Ok(text) => Ok((command, text)),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let lossy = String::from_utf8_lossy(&error.as_bytes()[at.saturating_sub(40)..]).into_owned();
            Err(Error::Malformed {
                origin: format!("the output of {command}"),
                what: format!("byte {at} is not UTF-8"),
                excerpt: excerpt(&lossy, 0),
            })
        }
    }
}

fn read_small(path: &Path) -> Result<String, Error> {
    let failed = |source| Error::ReadFile { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    File::open(path).map_err(failed)?.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(Error::FileTooLarge { path: path.to_owned(), limit: MAX_FILE });
    }
    String::from_utf8(bytes).map_err(|error| Error::Malformed {
        origin: path.display().to_string(),
        what: format!("byte {} is not UTF-8", error.utf8_error().valid_up_to()),
        excerpt: String::new(),
    })
}
