//! What must hold before an update begins, each with a name and a way out.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Precondition {
    /// `storage-gate`, `free-space`, `skew`, `rollback`, `window`, `paused`, or the name of an executable.
    pub name: String,
    #[serde(flatten)]
    pub outcome: Hold,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Hold {
    Met,
    Unmet {
        why: String,
        way_out: String,
    },
    /// It could not be found out: as good as unmet, and said differently.
    Unknown {
        why: String,
        way_out: String,
    },
}

/// What stands in the way, in the order in which it was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Blocker {
    pub name: String,
    pub why: String,
    pub way_out: String,
}

/// `forced` names those that a person has chosen to pass over. A pause is ended, not passed over.
pub fn hold(preconditions: &[Precondition], forced: &[String]) -> Vec<Blocker> {
    let passed_over = |name: &str| name != PAUSED && forced.iter().any(|forced| forced == name);
    preconditions
        .iter()
        .filter(|it| !passed_over(&it.name))
        .filter_map(|it| {
            let (why, way_out) = match &it.outcome {
                Hold::Met => return None,
                Hold::Unmet { why, way_out } => (why.clone(), way_out),
                Hold::Unknown { why, way_out } => (format!("not known: {why}"), way_out),
            };
            Some(Blocker { name: it.name.clone(), why, way_out: way_out.clone() })
        })
        .collect()
}

/// The switch that a person turned.
pub const PAUSED: &str = "paused";

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, outcome: Hold) -> Precondition {
        Precondition { name: name.to_owned(), outcome }
    }

    fn unmet() -> Hold {
        Hold::Unmet { why: "no".to_owned(), way_out: "wait".to_owned() }
    }

    #[test]
    fn what_is_unmet_or_unknown_is_in_the_way_unless_it_is_passed_over() {
        let unknown = Hold::Unknown { why: "no answer".to_owned(), way_out: "start it".to_owned() };
        let all = [named("window", unmet()), named("free-space", Hold::Met), named("storage-gate", unknown)];
        let names = |forced: &[String]| -> Vec<String> {
            hold(&all, forced).into_iter().map(|blocker| blocker.name).collect()
        };
        assert_eq!(names(&[]), ["window", "storage-gate"]);
        assert_eq!(names(&["window".to_owned()]), ["storage-gate"]);
    }

    #[test]
    fn a_pause_is_not_passed_over() {
        assert_eq!(hold(&[named(PAUSED, unmet())], &[PAUSED.to_owned()]).len(), 1);
    }
}
