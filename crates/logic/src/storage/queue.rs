//! Which migrations to begin: so many at a time, one for a resource, and those that wait longest first. One that can't
//! go on gives its place back, and comes after all that had fewer turns: it keeps nobody from theirs.

use std::collections::BTreeSet;

use super::resource::Resource;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiting {
    /// How often it gave its place back.
    pub turns: u32,
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
        Waiting { turns: 0, since, name: name.into(), resource: Resource::new("", resource) }
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

    #[test]
    fn those_that_gave_their_place_back_keep_nobody_waiting() {
        let mut all: Vec<Waiting> = (1..=4).map(|at| waiting(at, "stuck", &format!("away-{at}"))).collect();
        all.iter_mut().for_each(|it| it.turns = 1);
        all.push(waiting(9, "new", "pods"));
        assert_eq!(begun(all.clone(), &[], 4), ["new", "stuck", "stuck", "stuck"]);
        // The one that was left out is the next.
        all[..3].iter_mut().for_each(|it| it.turns = 2);
        assert_eq!(to_begin(all, &BTreeSet::from([Resource::new("", "pods")]), 2)[0].since, 4);
    }
}
