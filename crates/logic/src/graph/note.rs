//! What was wrong, or left out, and where. Notes never stop a build: the rest goes on.

use std::fmt;

use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Note {
    pub severity: Severity,
    /// A stable word for programs: `cycle`, `same-version`, `unknown-version`, ….
    pub code: &'static str,
    pub place: Place,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Something was left out of the graph or is wrong.
    Error,
    /// Worth a look; nothing is missing because of it.
    Warning,
}

/// What a note is about: a file of graph data, a release, or a source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    #[default]
    Whole,
    File {
        path: String,
        line: Option<usize>,
    },
    /// A release by name, or by what it was found as.
    Release(String),
    Source(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("graph"),
            Self::File { path, line: Some(line) } => write!(f, "{path}:{line}"),
            Self::File { path, line: None } => f.write_str(path),
            Self::Release(name) | Self::Source(name) => f.write_str(name),
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{}: {severity}: {} [{}]", self.place, self.text, self.code)
    }
}

/// The notes of one build, with a limit: a broken registry must not fill the memory with complaints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    list: Vec<Note>,
    /// How many more there were.
    pub left_out: usize,
}

/// More than anybody reads.
const LIMIT: usize = 10_000;

impl Notes {
    pub fn error(&mut self, code: &'static str, place: Place, text: impl Into<String>) {
        self.push(Note { severity: Severity::Error, code, place, text: text.into() });
    }

    pub fn warning(&mut self, code: &'static str, place: Place, text: impl Into<String>) {
        self.push(Note { severity: Severity::Warning, code, place, text: text.into() });
    }

    pub fn push(&mut self, note: Note) {
        if self.list.len() < LIMIT { self.list.push(note) } else { self.left_out += 1 }
    }

    pub fn extend(&mut self, other: Notes) {
        self.left_out += other.left_out;
        other.list.into_iter().for_each(|note| self.push(note));
    }

    pub fn iter(&self) -> impl Iterator<Item = &Note> {
        self.list.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn has_errors(&self) -> bool {
        self.list.iter().any(|note| note.severity == Severity::Error)
    }

    /// The same notes in the same order, whatever order they were found in.
    pub fn sort(&mut self) {
        self.list.sort();
        self.list.dedup();
    }
}
