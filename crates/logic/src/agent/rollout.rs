//! What a cluster was given, as its agents write it down: what it runs, how far an update is, what the last one came to. Whoever
//! takes over knows from it where the cluster stands, and whose signatures the next release needs.
//!
//! Architecture invariant: the keys in force are part of what runs, and change with it, in one write. An update that is under way
//! or was given up changes nothing about who must sign, so that every agent that looks at its image again judges it as the first
//! one did.

use semver::Version;
use serde::{Deserialize, Serialize};

use super::machine::{Transaction, Under};

/// `K` are the keys that a release carries, however they are kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Rollout<K> {
    /// How many have come to their end.
    pub ended: u64,
    /// The last release of which all was applied and done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<RunningRelease<K>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub under: Option<Begun>,
    /// The one that ended last, and whether it was given up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<EndedRollout>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunningRelease<K> {
    pub version: Version,
    /// By digest; empty where it was installed by other hands.
    #[serde(default)]
    pub image: String,
    /// Of those who must have signed what follows it. None: it carries none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<K>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Begun {
    pub version: Version,
    pub image: String,
    pub verified: bool,
    pub done: usize,
    pub of: usize,
    /// What it is at, where it takes longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndedRollout {
    pub image: String,
    pub verified: bool,
    /// Not all of it was applied.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub given_up: bool,
}

/// How a rollout ends, with what its release carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RolledOut<K> {
    All { keys: Option<K> },
    GivenUp,
}

// Derived, it would ask for keys by default.
impl<K> Default for Rollout<K> {
    fn default() -> Self {
        Self { ended: 0, running: None, under: None, last: None }
    }
}

impl<K> Rollout<K> {
    /// What was there before the first update; what is known already stays.
    pub fn installed(&mut self, version: Version) {
        self.running.get_or_insert(RunningRelease { version, image: String::new(), keys: None });
    }

    /// Before the first manifest, and again by whoever goes on with it.
    pub fn begin(&mut self, mut begun: Begun) {
        // Whoever goes on may not be able to judge it any more: that it was judged stays true.
        let before = self.under.as_ref().filter(|before| before.image == begun.image);
        begun.verified |= before.is_some_and(|before| before.verified);
        self.under = Some(begun);
    }

    /// The point from which the cluster runs the release, or is known not to. Once: it may be written by one that was not told
    /// that it had been.
    pub fn end(&mut self, image: &str, how: RolledOut<K>) {
        let Some(Begun { version, image, verified, .. }) = self.under.take_if(|begun| begun.image == image)
        else {
            return;
        };
        self.ended += 1;
        let given_up = matches!(how, RolledOut::GivenUp);
        self.last = Some(EndedRollout { image: image.clone(), verified, given_up });
        if let RolledOut::All { keys } = how {
            self.running = Some(RunningRelease { version, image, keys });
        }
    }

    /// What became of an attempt of which the books don't know the end.
    pub fn became_of(&self, under: &Under) -> Transaction {
        let image = &under.target.image;
        let is_last = self.last.as_ref().is_some_and(|last| last.image == *image && !last.given_up);
        if self.under.as_ref().is_some_and(|begun| begun.image == *image) {
            Transaction::InProgress
        } else if is_last && self.ended > under.since {
            Transaction::Committed
        } else {
            Transaction::None
        }
    }

    /// Of those who must have signed what comes next, besides those who are configured.
    pub fn keys(&self) -> Option<&K> {
        self.running.as_ref()?.keys.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(image: &str, verified: bool) -> Begun {
        let version = Version::new(2, 0, 0);
        Begun { version, image: image.to_owned(), verified, done: 0, of: 1, at: None }
    }

    fn running_with(keys: Option<u8>) -> Rollout<u8> {
        let running = RunningRelease { version: Version::new(1, 0, 0), image: String::new(), keys };
        Rollout { running: Some(running), ..Rollout::default() }
    }

    #[test]
    fn keys_change_with_what_runs_and_at_no_other_moment() {
        let mut rollout = running_with(Some(1));
        rollout.begin(begun("b", true));
        assert_eq!(rollout.keys(), Some(&1));
        rollout.end("b", RolledOut::GivenUp);
        assert_eq!((rollout.keys(), rollout.ended), (Some(&1), 1));
        rollout.begin(begun("c", true));
        rollout.end("c", RolledOut::All { keys: Some(2) });
        assert_eq!((rollout.keys(), rollout.ended), (Some(&2), 2));
        // Told again, or of another one: that was the end.
        rollout.end("c", RolledOut::All { keys: Some(3) });
        rollout.begin(begun("d", true));
        rollout.end("c", RolledOut::All { keys: Some(3) });
        assert_eq!((rollout.keys(), rollout.ended), (Some(&2), 2));
        // A release without keys ends it.
        rollout.end("d", RolledOut::All { keys: None });
        assert_eq!((rollout.keys(), rollout.ended), (None, 3));
    }

    #[test]
    fn what_was_verified_when_it_began_was_verified_whoever_ends_it() {
        let mut rollout = running_with(None);
        rollout.begin(begun("b", true));
        rollout.begin(begun("b", false));
        rollout.end("b", RolledOut::All { keys: None });
        assert!(rollout.last.as_ref().unwrap().verified);
        rollout.begin(begun("c", false));
        rollout.end("c", RolledOut::GivenUp);
        assert!(!rollout.last.unwrap().verified);
    }

    #[test]
    fn what_was_written_without_keys_is_read_and_written_as_it_was() {
        let text = r#"{"ended":1,"running":{"version":"1.1.0","image":"r@sha256:00"},"last":{"image":"r@sha256:00","verified":true}}"#;
        let rollout: Rollout<u8> = serde_json::from_str(text).unwrap();
        assert_eq!(rollout.keys(), None);
        assert_eq!(serde_json::to_string(&rollout).unwrap(), text);
        assert_eq!(serde_json::from_str::<Rollout<u8>>("{}").unwrap(), Rollout::default());
    }
}
