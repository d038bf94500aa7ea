//! The path from the version that data is in to the newest one.
//!
//! Versions of data are a sequence of their own, apart from the versions of releases. Each has exactly one migration,
//! the one *to* it. A path has no gaps and no choices: the only question is whether there is one.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::target::Target;

/// The version of data that no migration has touched.
pub const FIRST_VERSION: u32 = 1;

/// A migration that a release has: the one *to* `version`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Known {
    pub version: u32,
    pub digest: String,
    pub name: String,
}

/// A migration that was carried out on the data, as it was then.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Applied {
    pub version: u32,
    pub digest: String,
}

/// The migrations to run, in this order. None: the data is as the release wants it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Path {
    pub target: Target,
    pub from: u32,
    pub to: u32,
    pub steps: Vec<Known>,
}

impl Path {
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

impl fmt::Display for Path {
    /// `2 → 3 → 4`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.from)?;
        self.steps.iter().try_for_each(|step| write!(f, " → {}", step.version))
    }
}

/// Why there is no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the {target} data says version 0; the first version is {FIRST_VERSION}")]
    NoVersion { target: Target },
    #[error("the {target} data is version {data}, newer than the newest this release knows, {newest}")]
    Newer { target: Target, data: u32, newest: u32 },
    #[error(
        "the {target} data is version {data}, but its record says that the migration to {applied} was applied"
    )]
    RecordAhead { target: Target, data: u32, applied: u32 },
    #[error(
        "the migration of {target} data to version {version} ({name}) is not the one that was applied: \
         its digest was {was} and is {is}"
    )]
    Altered { target: Target, version: u32, name: String, was: String, is: String },
    #[error("the migration of {target} data to version {missing} is missing on the way from {from} to {to}")]
    Missing { target: Target, from: u32, missing: u32, to: u32 },
}

impl Refusal {
    /// The way out.
    pub fn hint(&self) -> String {
        match self {
            Self::NoVersion { .. } => format!("set dataVersion to {FIRST_VERSION} or higher"),
            Self::Newer { data, .. } => {
                format!("use a release that knows data version {data}, or roll back to data from before it")
            }
            Self::RecordAhead { applied, .. } => {
                format!(
                    "restore the data that belongs to version {applied}, or take {applied} out of its record"
                )
            }
            Self::Altered { version, .. } => format!(
                "ship the migration to {version} as it was applied, and put the change into a migration to a \
                 version of its own"
            ),
            Self::Missing { missing, .. } => {
                format!("ship the migration to {missing}, or go by a release that has it")
            }
        }
    }
}

/// The migrations from version `from` to the newest: of those known, or `newest`, where a release states it although
/// it ships no migration to it. `known` holds one per version.
pub fn path(
    target: Target,
    from: u32,
    applied: &[Applied],
    known: &[Known],
    newest: u32,
) -> Result<Path, Refusal> {
    let to = known.iter().map(|known| known.version).fold(newest, u32::max);
    if from < FIRST_VERSION {
        return Err(Refusal::NoVersion { target });
    }
    if from > to {
        return Err(Refusal::Newer { target, data: from, newest: to });
    }
    if let Some(ahead) = applied.iter().find(|applied| applied.version > from) {
        return Err(Refusal::RecordAhead { target, data: from, applied: ahead.version });
    }
    let find = |version: u32| known.iter().find(|known| known.version == version);
    for was in applied {
        if let Some(is) = find(was.version)
            && is.digest != was.digest
        {
            return Err(Refusal::Altered {
                target,
                version: was.version,
                name: is.name.clone(),
                was: was.digest.clone(),
                is: is.digest.clone(),
            });
        }
    }
    let steps = (from..=to)
        .skip(1)
        .map(|version| find(version).cloned().ok_or(Refusal::Missing { target, from, missing: version, to }))
        .collect::<Result<_, _>>()?;
    Ok(Path { target, from, to, steps })
}
