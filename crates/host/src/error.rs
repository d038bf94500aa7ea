//! What can go wrong while the host is read, each with its way out.

use std::io;
use std::path::PathBuf;

use logic::host::{BadDeploymentId, DeploymentId};

use crate::source::Kind;
use program::RunError;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{command} gave no answer")]
    Run { command: String, source: RunError },
    #[error("{command} failed with {ending}{}", said(stderr))]
    Failed { command: String, ending: String, stderr: String },
    #[error("{origin} is not what was expected: {what}{}", near(excerpt))]
    Malformed { origin: String, what: String, excerpt: String },
    #[error("{origin} names a deployment that can't be one")]
    BadName { origin: String, source: BadDeploymentId },
    #[error("{origin} lists no deployments")]
    NothingListed { origin: String },
    #[error("{origin} does not say which deployment is booted")]
    NothingBooted { origin: String },
    #[error("{origin} does not list {booted}, which is said to be booted")]
    BootedNotListed { origin: String, booted: DeploymentId },
    #[error("can't read {}", path.display())]
    ReadFile { path: PathBuf, source: io::Error },
    #[error("{} is larger than {limit} bytes", path.display())]
    FileTooLarge { path: PathBuf, limit: u64 },
    #[error("{} has no usable ostree= argument", path.display())]
    NoBootArgument { path: PathBuf },
    #[error("the boot link {} does not lead to a deployment", link.display())]
    BootLink { link: PathBuf, source: io::Error },
    #[error("none of rpm-ostree, bootc and ostree told which deployments there are{}", each(tried))]
    NoneAnswered { tried: Vec<(Kind, Error)> },
}

impl Error {
    /// The next thing to do.
    pub fn hint(&self) -> String {
        match self {
            Self::Run { source, .. } => source.hint(),
            Self::Failed { command, .. } => format!("run \"{command}\" by hand and follow what it says"),
            Self::Malformed { origin, .. } | Self::BadName { origin, .. } => {
                format!("look at what {origin} holds, or give the deployments with --deployments FILE")
            }
            Self::NothingListed { .. } | Self::NothingBooted { .. } | Self::NoBootArgument { .. } => {
                "give the deployments with --deployments FILE if this machine has no ostree".to_owned()
            }
            Self::BootedNotListed { booted, .. } => {
                format!("add {booted} to the list, or correct which one is booted")
            }
            Self::ReadFile { path, .. } => format!("see that {} exists and can be read", path.display()),
            Self::FileTooLarge { path, .. } => {
                format!("{} should be a small JSON document; check that it is the right file", path.display())
            }
            Self::BootLink { .. } => {
                "the boot entries changed since this boot; give the deployments with --deployments FILE"
                    .to_owned()
            }
            Self::NoneAnswered { .. } => {
                "install one of them, or give the deployments with --deployments FILE".to_owned()
            }
        }
    }
}

fn said(stderr: &str) -> String {
    if stderr.is_empty() { String::new() } else { format!(": {stderr}") }
}

fn near(excerpt: &str) -> String {
    if excerpt.is_empty() { String::new() } else { format!(", near {excerpt:?}") }
}

fn each(tried: &[(Kind, Error)]) -> String {
    let mut text = String::new();
    for (index, (kind, error)) in tried.iter().enumerate() {
        text.push_str(if index == 0 { " (" } else { "; " });
        text.push_str(&match error {
            Error::Run { source, .. } if source.is_missing() => format!("{kind}: not installed"),
            Error::Run { source, .. } => format!("{kind}: {source}"),
            other => format!("{kind}: {other}"),
        });
    }
    if !tried.is_empty() {
        text.push(')');
    }
    text
}

/// The longest piece of someone else's output that a message repeats.
const EXCERPT: usize = 120;

/// A short, printable piece of `text` around byte `at`.
pub(crate) fn excerpt(text: &str, at: usize) -> String {
    let mut from = at.saturating_sub(EXCERPT / 2).min(text.len());
    while !text.is_char_boundary(from) {
        from -= 1;
    }
    text[from..].chars().take(EXCERPT).map(|c| if c.is_control() { ' ' } else { c }).collect::<String>()
}

/// The first lines of what a program said on stderr, on one line.
pub(crate) fn first_lines(stderr: &[u8], lines: usize, bytes: usize) -> String {
    let text = String::from_utf8_lossy(&stderr[..stderr.len().min(bytes)]);
    let kept: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(lines).collect();
    kept.join(" / ").chars().filter(|c| !c.is_control()).collect()
}

/// A JSON document, or an error that says where it stops making sense.
pub(crate) fn json<T: serde::de::DeserializeOwned>(origin: &str, text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| {
        let at: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        let excerpt = excerpt(text, at + error.column());
        Error::Malformed { origin: origin.to_owned(), what: error.to_string(), excerpt }
    })
}
