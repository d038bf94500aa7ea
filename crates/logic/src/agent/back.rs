//! One step back, as a person asks for it: in the books before it is done, so that what was left is not taken again also where
//! the agent was killed in between.

use semver::Version;
use serde::{Deserialize, Serialize};

use super::machine::{Attempt, Books, By, Outcome};

/// A step back that was begun.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Back {
    pub request: String,
    /// What ran then.
    pub from: Version,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

impl Books {
    /// A request for it is seen to. Says what is to be left: of one that is seen to again, what ran at its beginning.
    pub fn go_back(&mut self, request: &str, running: &Version, digest: Option<String>) -> Version {
        if let Some(back) = self.going_back.as_ref().filter(|back| back.request == request) {
            return back.from.clone();
        }
        let (request, from) = (request.to_owned(), running.clone());
        let digest = digest.or_else(|| self.digest_of(running));
        self.going_back = Some(Back { request, from, digest });
        running.clone()
    }

    /// It is done. What came by other hands has no digest here, and is remembered by its version.
    pub fn went_back(&mut self, to: &Version, at: &str) {
        if let Some(Back { request, from, digest }) = self.going_back.take() {
            self.taken_back(&digest.unwrap_or_else(|| from.to_string()));
            let (to, at, image) = (to.clone(), at.to_owned(), String::new());
            let (by, request, outcome) = (By::Person, Some(request), Outcome::TakenBack);
            self.note(Attempt { from, to, image, by, request, outcome, at, times: 1 });
        }
    }

    /// It can't be done.
    pub fn stayed(&mut self) {
        self.going_back = None;
    }

    /// One that nobody asks for any more, and that came to its end all the same. True: the books have changed.
    pub fn was_taken_back(&mut self, running: &Version, request: Option<&str>, at: &str) -> bool {
        let is_over = self
            .going_back
            .as_ref()
            .is_some_and(|it| request != Some(it.request.as_str()) && *running < it.from);
        if is_over {
            self.went_back(running, at);
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::Target;

    fn version(major: u64) -> Version {
        Version::new(major, 0, 0)
    }

    #[test]
    fn what_is_left_is_known_also_to_who_comes_after_a_crash() {
        let mut books = Books::default();
        assert_eq!(books.go_back("r", &version(2), Some("sha256:b".to_owned())), version(2));
        // Killed when it was done: another release runs, and the request is still there.
        assert!(!books.was_taken_back(&version(1), Some("r"), "now"));
        assert_eq!(books.go_back("r", &version(1), Some("sha256:a".to_owned())), version(2));
        books.went_back(&version(1), "now");
        let last = books.history.last().unwrap();
        assert_eq!((&last.from, &last.to, &last.outcome), (&version(2), &version(1), &Outcome::TakenBack));
        assert!(books.has_answered("r"));
        assert_eq!((books.rolled_back, books.going_back), (vec!["sha256:b".to_owned()], None));
    }

    #[test]
    fn a_step_back_that_nobody_asks_for_any_more_counts_once_it_was_made() {
        let mut books = Books::default();
        books.go_back("r", &version(2), None);
        assert!(!books.was_taken_back(&version(2), Some("other"), "now"));
        assert!(books.was_taken_back(&version(1), Some("other"), "now"));
        assert_eq!(books.rolled_back, ["2.0.0"]);
        assert!(!books.was_taken_back(&version(1), None, "now"));
    }

    #[test]
    fn one_that_can_not_be_made_leaves_nothing() {
        let mut books = Books::default();
        books.go_back("r", &version(2), None);
        books.stayed();
        assert_eq!(books, Books::default());
    }

    #[test]
    fn the_mark_of_a_rollback_outlives_attempts_and_ends_with_one_that_works() {
        let mut books = Books { rolled_back: vec!["sha256:b".to_owned()], ..Books::default() };
        let again = |books: &mut Books| {
            let (version, image) = (version(2), "oci:/x@sha256:b".to_owned());
            let target = Target { version, image, by: By::Person, forced: vec![], request: None };
            books.begin(target, &Version::new(1, 0, 0), 0).unwrap();
        };
        again(&mut books);
        books.give_up(Outcome::Refused { why: "forged".to_owned() }, "now").unwrap();
        books.cleared().unwrap();
        assert_eq!(books.rolled_back, ["sha256:b"]);
        again(&mut books);
        books.fetched().unwrap();
        books.checked().unwrap();
        books.cleared_to_begin().unwrap();
        books.replaced().unwrap();
        assert_eq!(books.rolled_back, ["sha256:b"]);
        let mut off = books.clone();
        books.applied(Outcome::Completed, "now").unwrap();
        assert!(books.rolled_back.is_empty());
        // Nothing has shown that it works where it was not started.
        off.applied(Outcome::switched_off(), "now").unwrap();
        assert_eq!(off.rolled_back, ["sha256:b"]);
        assert_eq!(off.digest_of(&version(2)).as_deref(), Some("sha256:b"));
    }
}
