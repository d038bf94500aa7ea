//! The path of migrations against a plain restatement of its rules, in every small world and in random larger ones.

use logic::migrate::{Applied, Known, Path, Refusal, Target, path};
use proptest::prelude::*;

fn known(version: u32, digest: u32) -> Known {
    Known { version, digest: format!("sha256:{digest}"), name: format!("m{version}") }
}

fn applied(version: u32, digest: u32) -> Applied {
    Applied { version, digest: format!("sha256:{digest}") }
}

fn is_sound(from: u32, record: &[Applied], have: &[Known], newest: u32, got: &Result<Path, Refusal>) {
    let top = have.iter().map(|it| it.version).max().unwrap_or(0).max(newest);
    let gaps = |low: u32| (low + 1..=top).find(|v| have.iter().all(|it| it.version != *v));
    let altered =
        record.iter().any(|was| have.iter().any(|is| is.version == was.version && is.digest != was.digest));
    let ahead = record.iter().any(|was| was.version > from);
    match got {
        Ok(path) => {
            assert!(from >= 1 && from <= top && !altered && !ahead && gaps(from).is_none());
            let versions: Vec<u32> = path.steps.iter().map(|step| step.version).collect();
            assert_eq!(versions, (from + 1..=top).collect::<Vec<_>>(), "every version once, in order");
            assert!(path.steps.iter().all(|step| have.contains(step)), "nothing is made up");
            assert_eq!((path.from, path.to), (from, top));
            assert_eq!(path.to_string().split(" → ").count(), versions.len() + 1);
        }
        Err(Refusal::NoVersion { .. }) => assert_eq!(from, 0),
        Err(Refusal::Newer { data, newest, .. }) => assert!(from > top && (*data, *newest) == (from, top)),
        Err(Refusal::RecordAhead { applied, .. }) => assert!(ahead && *applied > from),
        Err(Refusal::Altered { was, is, .. }) => assert!(altered && was != is),
        Err(Refusal::Missing { missing, .. }) => {
            assert_eq!(Some(*missing), gaps(from), "the first that is missing")
        }
    }
    if let Err(refusal) = got {
        assert!(!refusal.hint().is_empty() && refusal.to_string().contains("data"));
    }
}

/// Versions 0 to 4: every set of known migrations, every record with digests that fit or not, every version of the
/// data, every version that a release states.
#[test]
fn in_every_small_world_a_path_is_found_exactly_when_there_is_one() {
    let (mut worlds, mut paths) = (0_u32, 0_u32);
    for have in 0..8_u32 {
        let have: Vec<Known> = (2..=4).filter(|v| have >> (v - 2) & 1 == 1).map(|v| known(v, 0)).collect();
        // For each of the versions 2 to 4: not applied, applied as it is, applied as something else.
        for record in 0..27_u32 {
            let state = |v: u32| record / 3_u32.pow(v - 2) % 3;
            let record: Vec<Applied> =
                (2..=4).filter(|v| state(*v) > 0).map(|v| applied(v, state(v) - 1)).collect();
            for from in 0..=5 {
                for newest in 0..=5 {
                    let got = path(Target::Appliance, from, &record, &have, newest);
                    is_sound(from, &record, &have, newest, &got);
                    worlds += 1;
                    paths += u32::from(got.is_ok());
                }
            }
        }
    }
    println!("{worlds} worlds, {paths} of them with a path");
    assert!(paths > 100 && paths < worlds / 2, "{paths} of {worlds}");
}

#[test]
fn a_path_reads_like_one() {
    let have = [known(4, 0), known(2, 0), known(3, 0)];
    let path = |from| path(Target::Workload, from, &[], &have, 1).unwrap().to_string();
    assert_eq!((path(2), path(4)), ("2 → 3 → 4".to_owned(), "4".to_owned()));
}

#[test]
fn a_release_that_states_a_far_version_without_migrations_is_refused_at_once() {
    let refusal = path(Target::Appliance, 1, &[], &[], u32::MAX).unwrap_err();
    assert_eq!(refusal, Refusal::Missing { target: Target::Appliance, from: 1, missing: 2, to: u32::MAX });
    assert!(path(Target::Appliance, u32::MAX, &[], &[], u32::MAX).unwrap().is_empty());
}

proptest! {
    #[test]
    fn in_any_world_the_answer_is_sound(
        from in 0..30_u32,
        newest in 0..30_u32,
        complete in any::<bool>(),
        mut have in prop::collection::btree_map(2..30_u32, 0..2_u32, 0..30),
        record in prop::collection::vec((2..30_u32, 0..2_u32), 0..4),
    ) {
        if complete {
            (from + 1..=newest).filter(|v| *v >= 2).for_each(|v| { have.entry(v).or_insert(0); });
        }
        let have: Vec<Known> = have.into_iter().map(|(version, digest)| known(version, digest)).collect();
        let record: Vec<Applied> = record.into_iter().map(|(v, d)| applied(v, d)).collect();
        is_sound(from, &record, &have, newest, &path(Target::Workload, from, &record, &have, newest));
    }
}
