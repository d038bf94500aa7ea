//! The Kubernetes objects in an appliance's data, stored anew by the release that it moves to.
//!
//! How that is done is not known here: the program that does it is handed in, told which servers to start, and waited for.
//! It works on the state itself, which is in the snapshot: what it leaves half done is undone with the rest.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use disk::Lock;
use logic::exit::Exit;
use program::{Invocation, Limits, Overflow, RunError, run_limited};
use serde_json::json;

use crate::layout::Layout;
use crate::release::{self, Kubernetes, Words, expand, find};

/// Between the request to end and the end: for both servers to end in order.
const GRACE: Duration = Duration::from_secs(45);
/// For servers to be gone whose program was killed.
const GONE_WITHIN: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);
/// How much of what it says is kept, on each of its two streams.
const MAX_SAID: usize = 64 << 10;
/// The lines of it that are for the message: of an error, and at the end.
const HEAD: usize = 2;
const TAIL: usize = 4;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the release wants Kubernetes objects to be stored anew, and nothing here can do that")]
    NoProgram,
    #[error("Kubernetes objects could not be stored anew{}", Said(.said))]
    Run { said: String, source: RunError },
    #[error("Kubernetes objects could not be stored anew: {ending}{}", Said(.said))]
    Failed { ending: String, said: String },
    #[error("servers of an earlier try to store Kubernetes objects anew are still there")]
    StillThere,
    #[error(transparent)]
    Release(#[from] release::Error),
    #[error("the lock of its servers cannot be taken")]
    Disk(#[from] disk::Error),
}

/// The end of a message: what the program itself said.
struct Said<'a>(&'a str);

impl std::fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, ", saying: {}", self.0) }
    }
}

impl Error {
    pub fn exit(&self) -> Exit {
        match self {
            Self::NoProgram => Exit::Refused,
            Self::Run { .. } | Self::Failed { .. } => Exit::MigrationFailed,
            Self::StillThere => Exit::TryAgain,
            Self::Release(error) => error.exit(),
            Self::Disk(_) => Exit::Unexpected,
        }
    }

    pub fn hint(&self) -> String {
        match self {
            Self::NoProgram => "upgrade with `holdfast upgrade`, which brings it".to_owned(),
            Self::Run { source, .. } => source.hint(),
            Self::Failed { .. } => {
                "see slot.kubernetes in release.json, and docs/guides/storage-versions.md".to_owned()
            }
            Self::StillThere => "wait until they are gone, or end them, then try again".to_owned(),
            Self::Release(error) => error.hint(),
            Self::Disk(_) => "see that the disk has room and is writable".to_owned(),
        }
    }
}

/// Held by all that runs for a migration: it is free when the last of them is gone, also where they were killed.
fn lock(layout: &Layout) -> PathBuf {
    layout.run().join("kubernetes.lock")
}

/// Waits until nothing works on the data any more that was left by somebody who was killed.
pub fn at_rest(layout: &Layout) -> Result<()> {
    let until = Instant::now() + GONE_WITHIN;
    while Lock::is_held(&lock(layout))? {
        if Instant::now() > until {
            return Err(Error::StillThere);
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// What the program is told: which servers to start, and how to reach them.
fn told(kubernetes: &Kubernetes, release: &Path, words: &Words) -> Result<Vec<u8>> {
    let line = |line: &[String]| {
        let mut line: Vec<String> =
            line.iter().map(|word| expand(word, words)).collect::<Result<_, release::Error>>()?;
        if let Some(program) = line.first_mut() {
            *program = find(release, program).display().to_string();
        }
        Ok::<_, Error>(line)
    };
    let told = json!({
        "etcd": line(&kubernetes.etcd)?,
        "kube-apiserver": line(&kubernetes.kube_apiserver)?,
        "kubeconfig": release.join(expand(&kubernetes.kubeconfig, words)?),
        // The appliance ran since, and nobody may have looked at how it stores things: nothing of before is believed.
        "resume-within": "0s",
    });
    Ok(told.to_string().into_bytes())
}

/// Runs `program` to its end, with nothing else of the appliance running.
pub fn migrate(
    layout: &Layout,
    release: &Path,
    kubernetes: &Kubernetes,
    words: &Words,
    program: Option<&Invocation>,
    stop: &AtomicBool,
) -> Result<()> {
    let program = program.ok_or(Error::NoProgram)?;
    let invocation = Invocation {
        input: Some(told(kubernetes, release, words)?),
        current_dir: Some(layout.data()),
        ends_with_caller: true,
        ..program.clone()
    };
    at_rest(layout)?;
    let path = lock(layout);
    let ours = Lock::try_acquire(&path)?.ok_or(Error::StillThere)?;
    let shared = ours.share(&path)?;
    let limits = Limits {
        timeout: Some(kubernetes.timeout.get()),
        max_output: MAX_SAID,
        overflow: Overflow::Trim,
        stderr: None,
        grace: GRACE,
        stop: Some(stop),
    };
    let ended = run_limited(&invocation, &limits);
    drop((ours, shared));
    // Where it was killed, its servers are about to follow it; nothing may be done to the data before.
    at_rest(layout)?;
    match ended {
        Err(source) => Err(Error::Run { said: last_words(&source), source }),
        Ok(done) if !done.status.success() => {
            Err(Error::Failed { ending: done.ending(), said: end_of(&done.stderr) })
        }
        Ok(_) => Ok(()),
    }
}

fn last_words(error: &RunError) -> String {
    match error {
        RunError::TimedOut { stderr, .. } | RunError::Stopped { stderr, .. } => end_of(stderr),
        _ => String::new(),
    }
}

/// What it said last, for a message: from its error on, if it came to one, and not the way out, which is another here.
fn end_of(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("hint: "));
    let lines: Vec<&str> = lines.collect();
    let error = lines.iter().rposition(|line| line.starts_with("error: "));
    let head = error.map_or(&[][..], |at| &lines[at..(at + HEAD).min(lines.len())]);
    let rest = &lines[error.map_or(0, |at| at + head.len())..];
    let tail = &rest[rest.len().saturating_sub(TAIL)..];
    [head, tail].concat().join("; ")
}

#[cfg(test)]
mod tests {
    use super::end_of;

    #[test]
    fn an_error_is_told_with_its_beginning_and_its_end() {
        assert_eq!(end_of(b""), "");
        assert_eq!(end_of(b"1\n2\n\n3\n4\n5\n6\n"), "3; 4; 5; 6");
        assert_eq!(end_of(b"1\nerror: it ended\n"), "error: it ended");
        let long = "error: it ended\ncause: last words\n1\n2\n3\n4\n5\n6\nhint: do not\n";
        assert_eq!(end_of(long.as_bytes()), "error: it ended; cause: last words; 3; 4; 5; 6");
    }
}
