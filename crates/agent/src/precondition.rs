//! What the agent itself looks at before an update begins: the pause, the window, the step, the room, and every executable
//! that an administrator has put there. What only the machine knows, it is asked for.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use logic::agent::{Hold, Moment, PAUSED, Precondition, Under, Weekday};
use program::{Invocation, Limits, run_limited};
use semver::Version;

use crate::desk::Wishes;
use crate::quarantine::{Checked, MANIFESTS};
use crate::settings::Settings;

const TIMEOUT: Duration = Duration::from_secs(60);

const WINDOW: &str = "window";
const SKEW: &str = "skew";
const FREE_SPACE: &str = "free-space";
pub const STORAGE_GATE: &str = "storage-gate";
/// Beside a release's manifests: what its API servers understand, as `holdfast storage gate --supported` takes it.
pub const SUPPORTED_STORAGE: &str = "supported-storage-versions.json";

/// None where the release does not ask for the storage gate.
pub fn supported_storage(release: &Path) -> Option<PathBuf> {
    let file = release.join(MANIFESTS).join(SUPPORTED_STORAGE);
    // A link could lead out of the release.
    file.symlink_metadata().is_ok_and(|it| it.is_file()).then_some(file)
}

pub fn met(name: &str) -> Precondition {
    Precondition { name: name.to_owned(), outcome: Hold::Met }
}

pub fn unmet(name: &str, why: impl Into<String>, way_out: impl Into<String>) -> Precondition {
    Precondition { name: name.to_owned(), outcome: Hold::Unmet { why: why.into(), way_out: way_out.into() } }
}

pub fn unknown(name: &str, why: impl Into<String>, way_out: impl Into<String>) -> Precondition {
    Precondition {
        name: name.to_owned(),
        outcome: Hold::Unknown { why: why.into(), way_out: way_out.into() },
    }
}

/// What [`look`] looks at by itself, but for the pause, which is ended and not passed over.
pub const OWN: [&str; 3] = [WINDOW, SKEW, FREE_SPACE];

/// By which the executables are known: a directory that can't be read stands for all that is in it.
pub fn executable_names(settings: &Settings) -> Vec<String> {
    let names = |directory: &PathBuf| match entries(directory) {
        Ok(paths) => paths.iter().map(|path| name_of(path)).collect(),
        Err(_) => vec![directory.display().to_string()],
    };
    settings.preconditions.iter().flat_map(names).collect()
}

/// Blocks: executables are waited for.
pub fn look(under: &Under, release: &Checked, wishes: &Wishes, settings: &Settings) -> Vec<Precondition> {
    let mut found = vec![
        pause(wishes),
        window(settings, now()),
        skew(&under.from, &under.target.version, settings.max_skew),
        free_space(FREE_SPACE, &settings.directory, release, settings.reserve),
    ];
    found.extend(settings.preconditions.iter().flat_map(|directory| executables(directory, under, release)));
    found
}

fn pause(wishes: &Wishes) -> Precondition {
    match &wishes.paused {
        None => met(PAUSED),
        Some(why) if why.is_empty() => unmet(PAUSED, "updates are paused", "`holdfast agent resume`"),
        Some(why) => unmet(PAUSED, format!("updates are paused: {why}"), "`holdfast agent resume`"),
    }
}

fn now() -> Moment {
    use jiff::civil::Weekday as Day;
    let now = jiff::Zoned::now();
    let day = match now.weekday() {
        Day::Monday => Weekday::Mon,
        Day::Tuesday => Weekday::Tue,
        Day::Wednesday => Weekday::Wed,
        Day::Thursday => Weekday::Thu,
        Day::Friday => Weekday::Fri,
        Day::Saturday => Weekday::Sat,
        Day::Sunday => Weekday::Sun,
    };
    let minute = u16::try_from(i32::from(now.hour()) * 60 + i32::from(now.minute())).unwrap_or_default();
    Moment { day, minute }
}

fn window(settings: &Settings, now: Moment) -> Precondition {
    if settings.windows.is_empty() || settings.windows.iter().any(|window| window.is_open(now)) {
        return met(WINDOW);
    }
    let windows: Vec<String> = settings.windows.iter().map(ToString::to_string).collect();
    unmet(
        WINDOW,
        format!("updates begin only {}", windows.join(" or ")),
        "wait for it, or give `--force window` to `holdfast agent update`",
    )
}

/// A release can be told to follow any other; that so many minor versions are skipped at once was rarely tried by anybody.
fn skew(from: &Version, to: &Version, most: u64) -> Precondition {
    let skipped = to.minor.saturating_sub(from.minor);
    if from.major != to.major && to.major > from.major + 1 {
        return unmet(SKEW, format!("{from} to {to} skips a major version"), "go by a release between them");
    }
    if from.major == to.major && skipped > most {
        return unmet(
            SKEW,
            format!("{from} to {to} is a step of {skipped} minor versions, and max-skew is {most}"),
            "go by a release between them, or set max-skew in [agent]",
        );
    }
    met(SKEW)
}

/// Room for the release once more, where it will stand, beside the reserve.
pub fn free_space(name: &str, place: &Path, release: &Checked, reserve: u64) -> Precondition {
    let needed = size(&release.tree).saturating_add(reserve);
    match rustix::fs::statvfs(place) {
        Ok(about) => {
            let free = about.f_bavail.saturating_mul(about.f_frsize);
            if free >= needed {
                return met(name);
            }
            unmet(
                name,
                format!("{} has {} free, and {} are needed", place.display(), mib(free), mib(needed)),
                "make room there",
            )
        }
        Err(error) => unknown(name, format!("{}: {error}", place.display()), "see that it exists"),
    }
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

fn size(tree: &Path) -> u64 {
    let mut sum = 0_u64;
    let mut left = vec![tree.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            let Ok(about) = entry.metadata() else { continue };
            if about.is_dir() {
                left.push(entry.path());
            } else {
                sum = sum.saturating_add(about.len());
            }
        }
    }
    sum
}

/// Each is run with the versions in its environment; 0 means yes. What it prints first is why not, what follows is the way out.
fn executables(directory: &Path, under: &Under, release: &Checked) -> Vec<Precondition> {
    match entries(directory) {
        Ok(paths) => paths.iter().map(|path| executable(path, under, release)).collect(),
        Err(error) => {
            let name = directory.display().to_string();
            vec![unknown(&name, error.to_string(), "see that the directory can be read")]
        }
    }
}

fn entries(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(vec![]),
        Err(error) => return Err(error),
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| !path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".")));
    paths.sort();
    Ok(paths)
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn executable(path: &Path, under: &Under, release: &Checked) -> Precondition {
    let name = name_of(path);
    let may_run =
        fs::metadata(path).is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0);
    if !may_run {
        // Passing it over would be a precondition that somebody believes in and nobody asks.
        return unknown(
            &name,
            "it can't be executed",
            format!("`chmod +x {0}`, or remove {0}", path.display()),
        );
    }
    let invocation = Invocation::new(path)
        .env("HOLDFAST_FROM", under.from.to_string())
        .env("HOLDFAST_TO", under.target.version.to_string())
        .env("HOLDFAST_IMAGE", under.target.image.as_str())
        .env("HOLDFAST_RELEASE", release.tree.as_os_str());
    match run_limited(&invocation, &Limits { timeout: Some(TIMEOUT), ..Limits::default() }) {
        Ok(finished) if finished.status.success() => met(&name),
        Ok(finished) => {
            let said = [finished.stdout, finished.stderr].concat();
            let said = String::from_utf8_lossy(&said).into_owned();
            let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
            let why =
                lines.next().map_or_else(|| ending(finished.status), |line| line.chars().take(300).collect());
            let way_out: String = lines.collect::<Vec<_>>().join(" ").chars().take(300).collect();
            let way_out = if way_out.is_empty() { format!("see {}", path.display()) } else { way_out };
            unmet(&name, why, way_out)
        }
        Err(error) => unknown(&name, oci::chain(&error), error.hint()),
    }
}

fn ending(status: std::process::ExitStatus) -> String {
    format!("it says no ({})", program::ending(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        Version::parse(text).unwrap()
    }

    #[test]
    fn a_step_is_as_long_as_it_may_be() {
        let outcome = |from: &str, to: &str| skew(&version(from), &version(to), 1).outcome;
        for (from, to) in [("1.1.0", "1.1.5"), ("1.1.0", "1.2.0"), ("1.9.0", "2.0.0"), ("1.9.0", "2.5.0")] {
            assert_eq!(outcome(from, to), Hold::Met, "{from} {to}");
        }
        for (from, to) in [("1.1.0", "1.3.0"), ("1.9.0", "3.0.0")] {
            assert!(matches!(outcome(from, to), Hold::Unmet { .. }), "{from} {to}");
        }
    }
}
