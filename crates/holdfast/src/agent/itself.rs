//! The agent's own program. A release may carry the agent that is to move the machine to it, as `agent/holdfast`: it is put
//! beside the agent's books and takes over from there, before anything else of the release is applied.
//!
//! What was installed by other means stays where it is, and is what runs when the program of a release does not come up:
//! `STATE/bin/current` is tried a few times, and then left alone: its digest is in `STATE/bin/failed`, and a release with that
//! program is refused.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ::agent::machine::{MachineError, Replaced};
use program::{Invocation, Limits, run_limited};
use semver::Version;

/// In a release.
const PROGRAM: &str = "agent/holdfast";
/// Starts that may fail before the program of a release is left alone.
const TRIALS: usize = 3;
/// Programs that are remembered as ones that did not come up.
const FAILED: usize = 16;
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Itself {
    directory: PathBuf,
}

impl Itself {
    pub fn new(state: &Path) -> Self {
        Self { directory: state.join("bin") }
    }

    fn current(&self) -> PathBuf {
        self.directory.join("current")
    }

    fn previous(&self) -> PathBuf {
        self.directory.join("previous")
    }

    fn trials(&self) -> PathBuf {
        self.directory.join("trials")
    }

    /// Which release brought the current one.
    fn brought_by(&self) -> PathBuf {
        self.directory.join("brought-by")
    }

    /// Digests of programs that did not come up, a line each.
    fn failed(&self) -> PathBuf {
        self.directory.join("failed")
    }

    fn program(&self, digest: &str) -> PathBuf {
        self.directory.join(format!("holdfast-{}", &digest[..16]))
    }

    /// Installs the agent of a release, unless it is the one that runs.
    pub fn take(&self, release: &Path, version: &Version) -> Result<Replaced, MachineError> {
        let offered = release.join(PROGRAM);
        if !offered.exists() {
            return Ok(Replaced::GoOn);
        }
        let failed = |what: &str, error: &dyn std::fmt::Display, passing: bool| MachineError {
            why: format!("the agent of the release can't be {what}: {error}"),
            way_out: format!("see {}", self.directory.display()),
            passing,
        };
        let digest = digest(&offered).map_err(|error| failed("read", &error, true))?;
        let running = digest_of_this().map_err(|error| failed("compared", &error, true))?;
        let target = self.program(&digest);
        if digest == running {
            // One that was given back while it ran, and is wanted again after all.
            if self.is_here(&target) && !is_named(&self.current(), &target) {
                self.switch(&target, version).map_err(|error| failed("installed", &error, true))?;
            }
            return Ok(Replaced::GoOn);
        }
        if self.did_not_come_up().contains(&digest) {
            return Err(MachineError {
                why: format!("the agent of the release was started {TRIALS} times and did not come up"),
                way_out: format!(
                    "publish the release with one that works; without {} it is tried again",
                    self.failed().display()
                ),
                passing: false,
            });
        }
        let install = || -> io::Result<()> {
            fs::create_dir_all(&self.directory)?;
            let temporary = target.with_extension("part");
            fs::copy(&offered, &temporary)?;
            fs::set_permissions(&temporary, fs::Permissions::from_mode(0o755))?;
            fs::File::open(&temporary)?.sync_all()?;
            fs::rename(&temporary, &target)?;
            fs::File::open(&self.directory)?.sync_all()
        };
        install().map_err(|error| failed("installed", &error, true))?;
        // One that can't even say its version would take the machine's agent away.
        let said = run_limited(
            &Invocation::new(&target).args(["version"]),
            &Limits { timeout: Some(ANSWERS_WITHIN), ..Limits::default() },
        );
        match said {
            Ok(finished) if finished.status.success() => {}
            Ok(finished) => return Err(failed("run", &finished.ending(), false)),
            Err(error) => return Err(failed("run", &error, false)),
        }
        self.switch(&target, version).map_err(|error| failed("installed", &error, true))?;
        Ok(Replaced::StepDown)
    }

    /// From the next start on it is this one.
    fn switch(&self, target: &Path, version: &Version) -> io::Result<()> {
        let _ = fs::remove_file(self.trials());
        match fs::read_link(self.current()) {
            // Done again after a crash, it is not the one before itself.
            Ok(_) if is_named(&self.current(), target) => {}
            Ok(before) => link(&before, &self.previous())?,
            Err(_) => drop(fs::remove_file(self.previous())),
        }
        fs::write(self.brought_by(), version.to_string())?;
        link(target, &self.current())
    }

    /// Whether this very process runs from that file.
    fn is_here(&self, target: &Path) -> bool {
        let this = fs::read_link("/proc/self/exe").ok();
        this.is_some() && this == fs::canonicalize(target).ok()
    }

    /// Nothing is under way, and this release runs: an agent that a newer one brought goes with it, from the next start on.
    pub fn settle(&self, running: &Version) {
        let brought_by = fs::read_to_string(self.brought_by()).ok();
        if brought_by.and_then(|text| Version::parse(&text).ok()).is_some_and(|version| version > *running) {
            self.give_back();
        }
        self.sweep();
    }

    fn give_back(&self) {
        let _ = fs::remove_file(self.brought_by());
        let _ = fs::remove_file(self.trials());
        let back = match fs::read_link(self.previous()) {
            Ok(before) => link(&before, &self.current()).and_then(|()| fs::remove_file(self.previous())),
            Err(_) => fs::remove_file(self.current()),
        };
        if let Err(error) = back
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(cause = %error, "the agent of before is not put back");
        }
    }

    /// Removes programs that no start leads to any more; the one that runs may be wanted again.
    fn sweep(&self) {
        let Ok(this) = digest_of_this() else { return };
        let kept = |path: &Path| {
            path.file_name() == self.program(&this).file_name()
                || is_named(&self.current(), path)
                || is_named(&self.previous(), path)
        };
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_name().as_encoded_bytes().starts_with(b"holdfast-") && !kept(&path) {
                let _ = fs::remove_file(path);
            }
        }
    }

    fn did_not_come_up(&self) -> Vec<String> {
        let text = fs::read_to_string(self.failed()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn remember(&self, digest: String) {
        let mut failed = self.did_not_come_up();
        failed.retain(|known| *known != digest);
        failed.push(digest);
        let surplus = failed.len().saturating_sub(FAILED);
        let text = format!("{}\n", failed[surplus..].join("\n"));
        if let Err(error) = disk::durable::write_durably(&self.failed(), text.as_bytes()) {
            tracing::warn!(cause = %error, "that it did not come up can't be remembered");
        }
    }

    /// What should run instead of this program: tried, and counted, until it says that it is up.
    pub fn successor(&self) -> Option<PathBuf> {
        let target = fs::read_link(self.current()).ok()?;
        let wanted = digest(&target).ok()?;
        if wanted == digest_of_this().ok()? {
            return None;
        }
        let tried = fs::read(self.trials()).map_or(0, |marks| marks.len());
        if tried >= TRIALS {
            tracing::error!(program = %target.display(), "the agent of the release did not come up: the one before goes on");
            self.remember(wanted);
            self.give_back();
            return self.successor_in_place_of(&target);
        }
        // A mark for each start; one that can't be counted is not tried.
        fs::write(self.trials(), vec![b'.'; tried + 1]).ok()?;
        Some(target)
    }

    /// A directory that can't be written to changes nothing.
    fn successor_in_place_of(&self, target: &Path) -> Option<PathBuf> {
        (!is_named(&self.current(), target)).then(|| self.successor()).flatten()
    }

    /// This program works.
    pub fn is_up(&self) {
        let _ = fs::remove_file(self.trials());
    }
}

/// Becomes `program`, with the arguments of this one. Comes back only if that can't be.
pub fn become_it(program: &Path) -> io::Error {
    Command::new(program).args(std::env::args_os().skip(1)).exec()
}

/// Whether a link leads to the program of that name.
fn is_named(link: &Path, program: &Path) -> bool {
    fs::read_link(link).is_ok_and(|target| target.file_name() == program.file_name())
}

fn link(target: &Path, at: &Path) -> io::Result<()> {
    let temporary = at.with_extension("link");
    let _ = fs::remove_file(&temporary);
    symlink(target, &temporary)?;
    fs::rename(&temporary, at)?;
    at.parent().map_or(Ok(()), |directory| fs::File::open(directory)?.sync_all())
}

fn digest(path: &Path) -> io::Result<String> {
    let mut hasher = trust::digest::Hasher::sha256();
    let mut file = fs::File::open(path)?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        match io::Read::read(&mut file, &mut buffer)? {
            0 => return Ok(hasher.finish().parts().1.to_owned()),
            length => hasher.update(&buffer[..length]),
        }
    }
}

fn digest_of_this() -> io::Result<String> {
    digest(Path::new("/proc/self/exe"))
}
