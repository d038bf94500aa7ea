//! Which version a hash stands for, where that can be told. A hash can't be read backwards, but only few versions come
//! into question. For people only: nothing is decided by these names.

use std::collections::BTreeMap;

use super::resource::Resource;
use super::state::VersionHash;

/// How far the usual names of versions are tried: `v1alpha1` to `v5`.
const NUMBERS: std::ops::RangeInclusive<u8> = 1..=5;

/// The versions of one cluster, by their hashes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VersionNames {
    /// Group and version.
    known: BTreeMap<VersionHash, (String, String)>,
}

impl VersionNames {
    /// A kind is served in this version; `group` is empty for the core group.
    pub fn add(&mut self, group: &str, version: &str, kind: &str) {
        let name = (group.to_owned(), version.to_owned());
        self.known.insert(VersionHash::of(group, version, kind), name);
    }

    /// `v1`; with its group, where that is not the resource's own. `kind` is the resource's, if it is served: what is
    /// stored may be in a version that is not served any more.
    pub fn name(&self, resource: &Resource, kind: Option<&str>, hash: &VersionHash) -> Option<String> {
        if let Some((group, version)) = self.known.get(hash) {
            return Some(match group.as_str() {
                same if same == resource.group => version.clone(),
                "" => format!("core/{version}"),
                group => format!("{group}/{version}"),
            });
        }
        let kind = kind?;
        usual().find(|version| VersionHash::of(&resource.group, version, kind) == *hash)
    }
}

fn usual() -> impl Iterator<Item = String> {
    let early = |major: u8| {
        let levels = ["alpha", "beta"].into_iter();
        levels.flat_map(move |level| NUMBERS.map(move |number| format!("v{major}{level}{number}")))
    };
    NUMBERS.flat_map(move |major| std::iter::once(format!("v{major}")).chain(early(major)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_has_the_name_of_the_version_it_was_made_of() {
        let mut names = VersionNames::default();
        names.add("example.org", "stable", "Widget");
        names.add("", "v1", "Event");
        let widgets = Resource::new("example.org", "widgets");
        let name = |resource: &Resource, kind, hash| names.name(resource, kind, &hash);
        let hash = |version| VersionHash::of("example.org", version, "Widget");
        assert_eq!(name(&widgets, Some("Widget"), hash("stable")).unwrap(), "stable");
        // Not served any more, but as versions are usually called.
        assert_eq!(name(&widgets, Some("Widget"), hash("v2beta1")).unwrap(), "v2beta1");
        assert_eq!(name(&widgets, None, hash("v2beta1")), None);
        assert_eq!(name(&widgets, Some("Widget"), hash("odd")), None);
        // Stored in the version of another group.
        let events = Resource::new("events.k8s.io", "events");
        let core = VersionHash::of("", "v1", "Event");
        assert_eq!(name(&events, Some("Event"), core.clone()).unwrap(), "core/v1");
        assert_eq!(name(&Resource::new("", "events"), Some("Event"), core).unwrap(), "v1");
    }
}
