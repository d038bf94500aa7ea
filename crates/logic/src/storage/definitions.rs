//! What a watch on definitions of custom resources tells of their storage versions: also of one that was in force only
//! for a moment between two looks, and of moments that nobody saw.

use std::collections::{BTreeMap, BTreeSet};

use super::resource::Resource;
use super::state::VersionHash;
use super::trigger::Offered;

/// The definition of a custom resource, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    pub uid: String,
    /// Grows by one with each change.
    pub generation: i64,
    pub resource: Resource,
    pub hash: VersionHash,
}

/// What happened to a resource since it was last written down.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Noticed {
    pub passed_by: BTreeSet<VersionHash>,
    pub missed: bool,
    pub removed: bool,
}

/// Whether there may be changes between two generations of a definition beside the one that is seen: more than one came
/// in between, or it was deleted and made anew, and counts from the start.
fn hides_changes(before: i64, now: i64) -> bool {
    now > before + 1 || now < before
}

#[derive(Debug, Clone, Default)]
pub struct Definitions {
    known: BTreeMap<Resource, Definition>,
    /// The generation in which each was first seen.
    began: BTreeMap<Resource, i64>,
    noticed: BTreeMap<Resource, Noticed>,
    /// Those not yet seen in the list that is being read.
    unseen: BTreeSet<Resource>,
}

impl Definitions {
    /// The watch starts over with a list of all that there are.
    pub fn list_begins(&mut self) {
        self.unseen = self.known.keys().cloned().collect();
    }

    /// What was not in the list was deleted meanwhile.
    pub fn list_ends(&mut self) -> Vec<Resource> {
        let gone: Vec<Resource> = std::mem::take(&mut self.unseen).into_iter().collect();
        gone.iter().for_each(|resource| self.deleted(resource));
        gone
    }

    /// A definition as it is now. True if it is stored otherwise than before, so far as is known.
    pub fn seen(&mut self, definition: Definition) -> bool {
        let resource = definition.resource.clone();
        self.unseen.remove(&resource);
        let noticed = self.noticed.entry(resource.clone()).or_default();
        noticed.removed = false;
        noticed.passed_by.insert(definition.hash.clone());
        let before = self.known.insert(resource.clone(), definition.clone());
        let same = before.as_ref().is_some_and(|before| before.uid == definition.uid);
        if !same {
            self.began.insert(resource, definition.generation);
        }
        let Some(before) = before else { return true };
        let gap = hides_changes(before.generation, definition.generation);
        if !same || gap {
            noticed.missed = true;
        }
        !same || gap || before.hash != definition.hash
    }

    pub fn deleted(&mut self, resource: &Resource) {
        self.known.remove(resource);
        self.began.remove(resource);
        self.unseen.remove(resource);
        let noticed = self.noticed.entry(resource.clone()).or_default();
        *noticed = Noticed { removed: true, ..Noticed::default() };
    }

    /// As the watch last told of it; none for what is not a custom resource.
    pub fn known(&self, resource: &Resource) -> Option<&Definition> {
        self.known.get(resource)
    }

    /// Whether changes may have been made between the generation that was written down and the first one seen here: before
    /// this watch began, while nobody watched.
    pub fn hide_changes_since(&self, resource: &Resource, recorded: i64) -> bool {
        let (Some(began), Some(known)) = (self.began.get(resource), self.known.get(resource)) else {
            return false;
        };
        let watched = (*began..=known.generation).contains(&recorded);
        !watched && hides_changes(recorded, *began)
    }

    /// What to decide by, where API servers show `shown`. None for as long as they do not show what the definition says,
    /// unless they had time enough (`waited`): then that is a disagreement.
    pub fn judge(&self, resource: &Resource, shown: Option<Offered>, waited: bool) -> Option<Offered> {
        if self.noticed.get(resource).is_some_and(|noticed| noticed.removed) {
            return Some(Offered::Removed);
        }
        let shown = shown?;
        let Some(Definition { hash, .. }) = self.known(resource) else { return Some(shown) };
        match shown {
            Offered::Agreed(agreed) if agreed == *hash => Some(Offered::Agreed(agreed)),
            _ if !waited => None,
            Offered::Agreed(other) => Some(Offered::Disputed([other, hash.clone()].into())),
            Offered::Disputed(mut hashes) => {
                hashes.insert(hash.clone());
                Some(Offered::Disputed(hashes))
            }
            Offered::Removed => Some(Offered::Removed),
        }
    }

    pub fn noticed(&self, resource: &Resource) -> Noticed {
        self.noticed.get(resource).cloned().unwrap_or_default()
    }

    /// What was noticed has been written down. That a definition is gone is remembered: API servers may show it for a
    /// while yet.
    pub fn written_down(&mut self, resource: &Resource) {
        if let Some(noticed) = self.noticed.get_mut(resource)
            && !noticed.removed
        {
            self.noticed.remove(resource);
        }
    }

    /// Those whose definitions are gone, but for those that are still `shown`.
    pub fn forget_removed(&mut self, shown: impl Fn(&Resource) -> bool) {
        self.noticed.retain(|resource, noticed| !noticed.removed || shown(resource));
    }

    pub fn removed(&self) -> impl Iterator<Item = &Resource> {
        self.noticed.iter().filter(|(_, noticed)| noticed.removed).map(|(resource, _)| resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widgets() -> Resource {
        Resource::new("example.org", "widgets")
    }

    fn definition(uid: &str, generation: i64, hash: &str) -> Definition {
        Definition { uid: uid.into(), generation, resource: widgets(), hash: hash.into() }
    }

    fn hashes(noticed: &Noticed) -> Vec<&str> {
        noticed.passed_by.iter().map(VersionHash::as_str).collect()
    }

    #[test]
    fn a_version_that_comes_and_goes_is_noticed_until_it_is_written_down() {
        let mut definitions = Definitions::default();
        assert!(definitions.seen(definition("u", 1, "a")));
        definitions.written_down(&widgets());
        assert!(definitions.seen(definition("u", 2, "b")));
        assert!(definitions.seen(definition("u", 3, "a")));
        let noticed = definitions.noticed(&widgets());
        assert_eq!(hashes(&noticed), ["a", "b"]);
        assert!(!noticed.missed);
        definitions.written_down(&widgets());
        assert_eq!(definitions.noticed(&widgets()), Noticed::default());
        // What changed was something else.
        assert!(!definitions.seen(definition("u", 4, "a")));
    }

    #[test]
    fn a_gap_in_the_generations_may_hide_a_change() {
        let mut definitions = Definitions::default();
        definitions.seen(definition("u", 1, "a"));
        definitions.list_begins();
        assert!(definitions.seen(definition("u", 3, "a")));
        assert!(definitions.list_ends().is_empty());
        assert!(definitions.noticed(&widgets()).missed);
        definitions.written_down(&widgets());
        definitions.list_begins();
        assert!(definitions.seen(definition("u", 4, "b")));
        assert!(!definitions.noticed(&widgets()).missed);
    }

    #[test]
    fn what_was_written_down_before_the_watch_began_tells_of_a_gap() {
        let mut definitions = Definitions::default();
        assert!(!definitions.hide_changes_since(&widgets(), 1));
        definitions.seen(definition("u", 5, "a"));
        for (recorded, hidden) in [(3, true), (4, false), (5, false), (6, true)] {
            assert_eq!(definitions.hide_changes_since(&widgets(), recorded), hidden, "{recorded}");
        }
        // From here on the watch sees each of them.
        definitions.seen(definition("u", 6, "b"));
        definitions.seen(definition("u", 7, "a"));
        assert!(!definitions.hide_changes_since(&widgets(), 5));
    }

    #[test]
    fn one_that_was_deleted_and_made_anew_is_another() {
        let mut definitions = Definitions::default();
        definitions.seen(definition("u", 5, "a"));
        assert!(definitions.seen(definition("v", 1, "a")));
        assert!(definitions.noticed(&widgets()).missed);
    }

    #[test]
    fn servers_have_time_to_show_what_a_definition_says() {
        let mut definitions = Definitions::default();
        let (a, b) = (VersionHash::from("a"), VersionHash::from("b"));
        let agreed = |hash: &VersionHash| Some(Offered::Agreed(hash.clone()));
        assert_eq!(definitions.judge(&widgets(), agreed(&a), false), agreed(&a));
        definitions.seen(definition("u", 1, "b"));
        assert_eq!(definitions.judge(&widgets(), agreed(&b), false), agreed(&b));
        assert_eq!(definitions.judge(&widgets(), agreed(&a), false), None);
        let disputed = Some(Offered::Disputed([a.clone(), b].into()));
        assert_eq!(definitions.judge(&widgets(), agreed(&a), true), disputed);
        assert_eq!(
            definitions.judge(&widgets(), Some(Offered::Disputed([a.clone()].into())), true),
            disputed
        );
        assert_eq!(definitions.judge(&widgets(), None, true), None);
        definitions.deleted(&widgets());
        assert_eq!(definitions.judge(&widgets(), agreed(&a), false), Some(Offered::Removed));
    }

    #[test]
    fn what_is_not_in_a_new_list_was_deleted_and_stays_so_until_it_is_not_shown() {
        let mut definitions = Definitions::default();
        definitions.seen(definition("u", 1, "a"));
        definitions.list_begins();
        assert_eq!(definitions.list_ends(), [widgets()]);
        definitions.written_down(&widgets());
        assert!(definitions.noticed(&widgets()).removed);
        definitions.forget_removed(|_| true);
        assert_eq!(definitions.removed().count(), 1);
        definitions.forget_removed(|_| false);
        assert_eq!(definitions.noticed(&widgets()), Noticed::default());
        // It is back.
        definitions.deleted(&widgets());
        definitions.seen(definition("v", 1, "b"));
        assert!(!definitions.noticed(&widgets()).removed);
    }
}
