//! `ostree admin status`, and the kernel command line for a sysroot of which nothing is marked as booted.
//! The parsers are pure; [`booted_by_link`] follows a symbolic link.

use std::io;
use std::path::{Component, Path, PathBuf};

use logic::host::DeploymentId;

use crate::error::{Error, excerpt};
use crate::listing::{Entry, Listing};

const ORIGIN: &str = "the output of ostree admin status";
const NONE: &str = "No deployments.";

/// A line per deployment (`* rhel 8497faf….0 (pending)`), each followed by lines that are indented further:
/// version, pin, origin, signatures. Only the pin matters here.
pub fn parse_ostree(text: &str) -> Result<Listing, Error> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut none = false;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        if line.trim_end() == NONE {
            none = true;
        } else if line.starts_with("    ") {
            let Some(last) = entries.last_mut() else {
                return Err(unexpected(line, "a detail comes before any deployment"));
            };
            last.pinned |= line.trim() == "Pinned: yes";
        } else {
            entries.push(deployment(line)?);
        }
    }
    if entries.is_empty() && !none {
        return Err(unexpected(text, "there is no deployment in it"));
    }
    Listing::new(ORIGIN, entries)
}

fn deployment(line: &str) -> Result<Entry, Error> {
    let (booted, rest) = match (line.strip_prefix("* "), line.strip_prefix("  ")) {
        (Some(rest), _) => (true, rest),
        (None, Some(rest)) => (false, rest),
        (None, None) => {
            return Err(unexpected(line, "a line is neither a deployment nor a detail of one"));
        }
    };
    let mut words = rest.split_ascii_whitespace();
    let (Some(osname), Some(name)) = (words.next(), words.next()) else {
        return Err(unexpected(line, "a deployment has no name"));
    };
    if !is_deployment_dir(name) {
        return Err(unexpected(line, "a deployment is not named by checksum and serial"));
    }
    let marks: Vec<_> = words.collect();
    let entry = Entry::new(ORIGIN, format!("{osname}-{name}"), Some(osname.to_owned()))?;
    Ok(Entry {
        booted,
        staged: marks.contains(&"(staged)"),
        rollback: marks.contains(&"(rollback)"),
        ..entry
    })
}

/// `<64 hexadecimal digits>.<serial>`
fn is_deployment_dir(name: &str) -> bool {
    let Some((checksum, serial)) = name.split_once('.') else {
        return false;
    };
    let hex = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
    checksum.len() == 64 && checksum.bytes().all(hex) && serial.parse::<u32>().is_ok()
}

/// What the kernel's `ostree=` argument says: the boot link within the sysroot. The first one counts, as for
/// ostree itself.
pub fn boot_link(kernel_cmdline: &str) -> Option<PathBuf> {
    let link = kernel_cmdline
        .split_ascii_whitespace()
        .map(|word| word.trim_matches('"'))
        .find_map(|word| word.strip_prefix("ostree="))?
        .trim_matches('"');
    let relative = Path::new(link.strip_prefix('/')?);
    let plain = relative.components().all(|component| matches!(component, Component::Normal(_)));
    (plain && relative.starts_with("ostree")).then(|| relative.to_owned())
}

/// The operating system's name in a boot link, `ostree/boot.1/<osname>/<boot checksum>/<n>`.
pub(crate) fn osname_of(link: &Path) -> Option<&str> {
    let mut parts = link.components().skip(1);
    let boot = parts.next()?.as_os_str().to_str()?;
    let osname = parts.next()?.as_os_str().to_str()?;
    (boot.starts_with("boot.") && parts.count() == 2).then_some(osname)
}

/// The deployment that a boot link leads to: it ends at `ostree/deploy/<osname>/deploy/<checksum>.<serial>`.
pub fn booted_by_link(sysroot: &Path, link: &Path) -> Result<DeploymentId, Error> {
    let whole = sysroot.join(link);
    let failed = |source| Error::BootLink { link: whole.clone(), source };
    let target = whole.canonicalize().map_err(failed)?;
    let parts: Vec<_> = target.components().rev().take(4).map(|part| part.as_os_str().to_str()).collect();
    match parts[..] {
        [Some(name), Some("deploy"), Some(osname), Some("deploy")] if is_deployment_dir(name) => {
            let origin = || whole.display().to_string();
            DeploymentId::new(format!("{osname}-{name}"))
                .map_err(|source| Error::BadName { origin: origin(), source })
        }
        _ => Err(failed(io::Error::other(format!("it ends at {}", target.display())))),
    }
}

fn unexpected(near: &str, what: &str) -> Error {
    Error::Malformed { origin: ORIGIN.to_owned(), what: what.to_owned(), excerpt: excerpt(near, 0) }
}
