//! A migration that a release ships as an executable: JSON on standard input and output, in a sandbox.
//!
//! It is not trusted: it may be wrong, and it runs with the rights of whoever upgrades. It sees the system's programs and
//! libraries, its own directory of the release and the stores; it writes into its own directory only; it has no network.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use program::{Invocation, Overflow, RunError, Sandbox, run_limited};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::answer::{AnswerError, parse_answer};
use crate::contract::{Failure, Input, Migration, Output, Work};
use crate::discover::Found;

pub const API_VERSION: &str = "holdfast/v1";

/// How much of what it says on stderr is kept for the message.
const MAX_SAID: usize = 4096;
const GRACE: Duration = Duration::from_millis(500);
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

pub(crate) struct Executable {
    name: String,
    digest: String,
    path: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum ExecutableError {
    #[error("can't make its directory")]
    Work(#[source] io::Error),
    #[error("can't write its input")]
    Input(#[source] serde_json::Error),
    #[error("it was not run to its end{}", Said(.said))]
    Run { said: String, source: RunError },
    #[error("it ended with {ending}{}", Said(.said))]
    Failed { ending: String, said: String },
    #[error("its answer can't be used{}", Said(.said))]
    Answer { said: String, source: AnswerError },
}

/// The end of a message: what the program itself said.
struct Said<'a>(&'a str);

impl std::fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, ", saying {:?}", self.0) }
    }
}

impl ExecutableError {
    pub fn hint(&self) -> String {
        match self {
            Self::Work(_) => {
                "see that the scratch directory can be written and its disk is not full".to_owned()
            }
            Self::Input(_) => "see that the values are plain JSON".to_owned(),
            Self::Run { source, .. } => source.hint(),
            Self::Failed { .. } | Self::Answer { .. } => {
                "mend the migration or the data it does not understand; try it with `holdfast migrate plan`"
                    .to_owned()
            }
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Question<'a> {
    api_version: &'static str,
    kind: &'static str,
    target: &'static str,
    from: u32,
    to: u32,
    values: &'a Map<String, Value>,
    stores: Option<&'a Path>,
}

impl Executable {
    pub(crate) fn new(found: Found) -> Self {
        Self { name: found.name, digest: found.digest, path: found.path }
    }

    fn invocation(&self, input: &Input<'_>, work: &Work<'_>) -> Result<Invocation, ExecutableError> {
        let dir = work.dir().and_then(std::path::absolute).map_err(ExecutableError::Work)?;
        let path = std::path::absolute(&self.path).map_err(ExecutableError::Work)?;
        let question = Question {
            api_version: API_VERSION,
            kind: "MigrationInput",
            target: input.target.as_str(),
            from: input.from,
            to: input.to,
            values: input.values,
            stores: input.stores,
        };
        let mut invocation = Invocation::new(&path)
            .env("PATH", PATH)
            .env("LANG", "C.UTF-8")
            .env("HOME", &dir)
            .env("TMPDIR", &dir)
            .env("HOLDFAST_WORK", &dir);
        invocation.clear_env = true;
        invocation.input = Some(serde_json::to_vec(&question).map_err(ExecutableError::Input)?);
        invocation.sandbox = Some(self.sandbox(&path, &dir, input, work));
        invocation.current_dir = Some(dir);
        Ok(invocation)
    }

    fn sandbox(&self, path: &Path, dir: &Path, input: &Input<'_>, work: &Work<'_>) -> Sandbox {
        let limits = &work.options.limits;
        let mut readable = work.options.readable.clone();
        // A link leads to the file itself, which may be elsewhere.
        readable.extend(std::fs::canonicalize(path).ok());
        readable.extend(path.parent().map(Path::to_owned));
        readable.extend(input.stores.map(Path::to_owned));
        readable.extend(work.store_places().iter().cloned());
        Sandbox {
            readable,
            writable: vec![dir.to_owned()],
            memory: Some(limits.memory),
            processes: Some(limits.processes),
            file_size: Some(limits.store),
            allow_unconfined: work.options.allow_unconfined,
        }
    }
}

impl Migration for Executable {
    fn name(&self) -> &str {
        &self.name
    }

    fn digest(&self) -> &str {
        &self.digest
    }

    fn migrate(&self, input: &Input<'_>, work: &Work<'_>) -> Result<Output, Failure> {
        let invocation = self.invocation(input, work)?;
        let limits = program::Limits {
            timeout: Some(work.options.limits.time),
            max_output: work.options.limits.output,
            overflow: Overflow::Stop,
            stderr: Some((MAX_SAID, Overflow::Trim)),
            grace: GRACE,
            stop: work.options.stop,
        };
        let done = run_limited(&invocation, &limits)
            .map_err(|source| ExecutableError::Run { said: last_words(&source), source })?;
        let said = text(&done.stderr);
        if !done.status.success() {
            return Err(ExecutableError::Failed { ending: done.ending(), said }.into());
        }
        let output = parse_answer(&done.stdout).map_err(|source| ExecutableError::Answer { said, source })?;
        Ok(Output { protections: done.protections, ..output })
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

fn last_words(error: &RunError) -> String {
    match error {
        RunError::TimedOut { stderr, .. }
        | RunError::Stopped { stderr, .. }
        | RunError::TooManyProcesses { stderr, .. }
        | RunError::TooMuchMemory { stderr, .. } => text(stderr),
        _ => String::new(),
    }
}
