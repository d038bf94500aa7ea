//! Which migrations to begin: so many at a time, one for a resource, and those that wait longest first.

use std::collections::BTreeSet;

use super::resource::Resource;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiting {
    /// In seconds since 1970.
    pub since: i64,
    pub name: String,
    pub resource: Resource,
}

/// Of those that wait, the ones to begin with now.
pub fn to_begin(mut waiting: Vec<Waiting>, running: &BTreeSet<Resource>, at_once: usize) -> Vec<Waiting> {
    waiting.sort();
    let mut taken = running.clone();
    waiting.retain(|it| taken.len() < at_once.max(1) && taken.insert(it.resource.clone()));
    waiting
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(since: i64, name: &str, resource: &str) -> Waiting {
        Waiting { since, name: name.into(), resource: Resource::new("", resource) }
    }

    fn begun(waiting: Vec<Waiting>, running: &[&str], at_once: usize) -> Vec<String> {
        let running = running.iter().map(|it| Resource::new("", *it)).collect();
        to_begin(waiting, &running, at_once).into_iter().map(|it| it.name).collect()
    }

    #[test]
    fn the_oldest_come_first_and_one_for_each_resource() {
        let all = || vec![waiting(3, "c", "pods"), waiting(1, "b", "pods"), waiting(2, "a", "secrets")];
        assert_eq!(begun(all(), &[], 4), ["b", "a"]);
        assert_eq!(begun(all(), &["pods"], 4), ["a"]);
        assert_eq!(begun(all(), &[], 1), ["b"]);
        assert_eq!(begun(all(), &["nodes"], 1), Vec::<String>::new());
        // None at all would be a controller that does nothing.
        assert_eq!(begun(all(), &[], 0), ["b"]);
    }
}
