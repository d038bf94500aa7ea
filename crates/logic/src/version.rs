//! Versions of a workload, and which of them may read whose data.
//!
//! Workloads write versions in many ways (`4.13`, `4.14.0`, `4.15.0-rc.2`, `4.16.1-202406…`); only major, minor
//! (the "Y") and patch (the "Z") decide anything, the rest is kept as it was written.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Version {
    major: u32,
    minor: u32,
    patch: Option<u32>,
    text: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a version: expected MAJOR.MINOR or MAJOR.MINOR.PATCH, with anything after it")]
pub struct BadVersion(pub String);

impl Version {
    pub fn parse(text: &str) -> Result<Self, BadVersion> {
        let bad = || BadVersion(text.chars().take(80).collect());
        let text = text.trim();
        let plain = text.strip_prefix('v').unwrap_or(text);
        // Numbers end at the first character that is neither a digit nor a dot: `4.14.0-rc.1`, `4.14.0~x`.
        let numbers = plain.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or_default();
        let mut parts = numbers.trim_end_matches('.').split('.').map(str::parse::<u32>);
        let major = parts.next().ok_or_else(bad)?.map_err(|_| bad())?;
        let minor = parts.next().ok_or_else(bad)?.map_err(|_| bad())?;
        let patch = parts.next().transpose().map_err(|_| bad())?;
        if text.len() > 128 || text.chars().any(char::is_control) {
            return Err(bad());
        }
        Ok(Self { major, minor, patch, text: text.into() })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Older in the sense of the numbers; what follows them does not count.
    pub fn is_older_than(&self, other: &Self) -> bool {
        self.numbers() < other.numbers()
    }

    fn numbers(&self) -> (u32, u32, u32) {
        (self.major, self.minor, self.patch.unwrap_or(0))
    }

    /// A pattern without a patch number stands for all of its patches.
    fn matches(&self, pattern: &Self) -> bool {
        self.major == pattern.major
            && self.minor == pattern.minor
            && (pattern.patch.is_none() || self.patch == pattern.patch)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TryFrom<String> for Version {
    type Error = BadVersion;
    fn try_from(text: String) -> Result<Self, BadVersion> {
        Self::parse(&text)
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.text.to_string()
    }
}

/// What a program may do with data that another version has written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fit {
    /// Same Y: the data can be used as it is.
    AsIs,
    /// A newer Y within reach: the data must be migrated first.
    AfterMigration,
    Refused(Misfit),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Misfit {
    /// The program is older than the data.
    ProgramOlder,
    /// The program is newer by more than the permitted number of minor versions.
    TooFarAhead,
    /// Another major version.
    OtherMajor,
    /// The data's version is on the block list.
    BlockListed,
}

/// `blocked` lists versions of data that this program must not take over.
pub fn fit(data: &Version, program: &Version, max_skew: u32, blocked: &[Version]) -> Fit {
    if data.text != program.text && blocked.iter().any(|pattern| data.matches(pattern)) {
        return Fit::Refused(Misfit::BlockListed);
    }
    if data.major != program.major {
        let misfit = if program.major < data.major { Misfit::ProgramOlder } else { Misfit::OtherMajor };
        return Fit::Refused(misfit);
    }
    match program.minor.checked_sub(data.minor) {
        None => Fit::Refused(Misfit::ProgramOlder),
        Some(0) => Fit::AsIs,
        Some(ahead) if ahead <= max_skew => Fit::AfterMigration,
        Some(_) => Fit::Refused(Misfit::TooFarAhead),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(text: &str) -> Version {
        Version::parse(text).unwrap()
    }

    #[test]
    fn versions_are_read_as_workloads_write_them() {
        for (text, numbers) in [
            ("4.13", (4, 13, 0)),
            ("4.14.0", (4, 14, 0)),
            ("v1.29.3+k3s1", (1, 29, 3)),
            ("4.15.0-rc.2", (4, 15, 0)),
            ("4.16.1~202406", (4, 16, 1)),
            (" 4.14.2\n", (4, 14, 2)),
        ] {
            assert_eq!(v(text).numbers(), numbers, "{text}");
        }
        for text in ["", "4", "four", "4.x", "-4.1", "4..1", "99999999999.1", "4.1\u{7}"] {
            assert!(Version::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn data_fits_by_the_rules_of_the_y_stream() {
        let blocked = [v("4.14.3"), v("4.12")];
        for (data, program, expected) in [
            ("4.14.0", "4.14.0", Fit::AsIs),
            ("4.14.0", "4.14.9", Fit::AsIs),
            ("4.14.9", "4.14.0", Fit::AsIs),
            ("4.13", "4.14.0", Fit::AfterMigration),
            ("4.13", "4.15.0", Fit::Refused(Misfit::TooFarAhead)),
            ("4.14.0", "4.13.9", Fit::Refused(Misfit::ProgramOlder)),
            ("4.14.3", "4.15.0", Fit::Refused(Misfit::BlockListed)),
            ("4.14.3", "4.14.4", Fit::Refused(Misfit::BlockListed)),
            ("4.14.3", "4.14.3", Fit::AsIs),
            ("4.12.7", "4.13.0", Fit::Refused(Misfit::BlockListed)),
            ("4.20.0", "5.0.0", Fit::Refused(Misfit::OtherMajor)),
            ("5.0.0", "4.20.0", Fit::Refused(Misfit::ProgramOlder)),
        ] {
            assert_eq!(fit(&v(data), &v(program), 1, &blocked), expected, "{data} under {program}");
        }
        assert_eq!(fit(&v("4.13"), &v("4.15.0"), 2, &[]), Fit::AfterMigration);
    }
}
