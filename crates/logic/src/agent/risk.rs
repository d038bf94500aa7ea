//! What is known of a risk, and what is to be found out next.
//!
//! Asking a Prometheus costs it something, and a fleet asks at once when a graph changes: so answers are kept, and there is
//! at most one question a second.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::graph::data::{MatchingRule, Risk};

/// How long an answer holds, and how long after one the next question may be asked: milliseconds.
pub const ANSWER_HOLDS: u64 = 10 * 60 * 1000;
pub const BETWEEN_QUESTIONS: u64 = 1000;
/// No answer is older than this; what a graph no longer asks for is forgotten by then.
const ANSWERS_KEPT: usize = 1000;

/// An answer to a query: one sample, 0 or 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Known {
    /// 0: it does not concern this machine.
    Fine,
    /// 1
    Concerned,
    /// No endpoint, no sample, several, or another number.
    Failed(String),
}

/// Answers to queries, and when they were given. Times are of a clock that only grows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Risks {
    answers: BTreeMap<String, (Known, u64)>,
    last_question: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    DoesNotApply,
    Applies,
    Unknown { why: String },
}

impl Verdict {
    pub fn is_in_the_way(&self) -> bool {
        *self != Self::DoesNotApply
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Weighed {
    pub name: String,
    pub message: String,
    pub url: String,
    pub verdict: Verdict,
}

/// The first rule that this program understands decides; those before it are for newer ones.
pub fn weigh(risk: &Risk, known: &Risks) -> Weighed {
    let verdict = match risk.matching_rules.iter().find_map(understood) {
        Some(Rule::Always) => Verdict::Applies,
        Some(Rule::Query(query)) => match known.answers.get(query) {
            Some((Known::Fine, _)) => Verdict::DoesNotApply,
            Some((Known::Concerned, _)) => Verdict::Applies,
            Some((Known::Failed(why), _)) => Verdict::Unknown { why: why.clone() },
            None => Verdict::Unknown { why: "it was not looked into yet".to_owned() },
        },
        None => Verdict::Unknown { why: "this program understands none of its rules".to_owned() },
    };
    Weighed { name: risk.name.clone(), message: risk.message.clone(), url: risk.url.clone(), verdict }
}

enum Rule<'a> {
    Always,
    Query(&'a str),
}

fn understood(rule: &MatchingRule) -> Option<Rule<'_>> {
    match (rule.kind.as_str(), &rule.promql) {
        ("Always", _) => Some(Rule::Always),
        ("PromQL", Some(query)) => Some(Rule::Query(&query.promql)),
        _ => None,
    }
}

/// What to do about the queries of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next<'a> {
    Ask(&'a str),
    /// Until then, milliseconds.
    Wait(u64),
    /// All that can be known is known, until then at least if there is anything to know.
    Settled(Option<u64>),
}

impl Risks {
    pub fn learn(&mut self, query: &str, answer: Known, now: u64) {
        self.last_question = Some(now);
        self.answers.insert(query.to_owned(), (answer, now));
        while self.answers.len() > ANSWERS_KEPT {
            let oldest = self.answers.iter().min_by_key(|(_, (_, at))| *at).map(|(query, _)| query.clone());
            oldest.and_then(|query| self.answers.remove(&query));
        }
    }

    /// Of these risks, in their order, which query is due.
    pub fn next<'a>(&self, risks: impl IntoIterator<Item = &'a Risk>, now: u64) -> Next<'a> {
        let mut holds_until: Option<u64> = None;
        for risk in risks {
            let Some(Rule::Query(query)) = risk.matching_rules.iter().find_map(understood) else { continue };
            match self.answers.get(query) {
                Some((_, at)) if now < at + ANSWER_HOLDS => {
                    let until = at + ANSWER_HOLDS;
                    holds_until = Some(holds_until.map_or(until, |earlier| earlier.min(until)));
                }
                _ => {
                    return match self.last_question.map(|last| last + BETWEEN_QUESTIONS) {
                        Some(then) if now < then => Next::Wait(then),
                        _ => Next::Ask(query),
                    };
                }
            }
        }
        Next::Settled(holds_until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::data::PromQl;

    fn asked(query: &str) -> Risk {
        let rule =
            MatchingRule { kind: "PromQL".to_owned(), promql: Some(PromQl { promql: query.to_owned() }) };
        Risk {
            url: String::new(),
            name: query.to_owned(),
            message: String::new(),
            matching_rules: vec![rule],
        }
    }

    #[test]
    fn there_is_one_question_a_second_and_each_answer_holds_for_a_while() {
        let risks = [asked("a"), asked("b")];
        let mut known = Risks::default();
        assert_eq!(known.next(&risks, 0), Next::Ask("a"));
        known.learn("a", Known::Fine, 0);
        assert_eq!(known.next(&risks, 400), Next::Wait(1000));
        assert_eq!(known.next(&risks, 1000), Next::Ask("b"));
        known.learn("b", Known::Failed("no endpoint".to_owned()), 1000);
        assert_eq!(known.next(&risks, 2000), Next::Settled(Some(ANSWER_HOLDS)));
        assert_eq!(known.next(&risks, ANSWER_HOLDS), Next::Ask("a"));
    }

    #[test]
    fn rules_that_nobody_understands_are_passed_over_and_none_left_is_unknown() {
        let mut risk = asked("a");
        let newer = MatchingRule { kind: "Newer".to_owned(), promql: None };
        risk.matching_rules.insert(0, newer.clone());
        let mut known = Risks::default();
        known.learn("a", Known::Concerned, 0);
        assert_eq!(weigh(&risk, &known).verdict, Verdict::Applies);
        risk.matching_rules = vec![newer];
        assert!(matches!(weigh(&risk, &known).verdict, Verdict::Unknown { .. }));
        assert_eq!(known.next([&risk], 0), Next::Settled(None));
    }

    #[test]
    fn answers_are_not_kept_without_end() {
        let mut known = Risks::default();
        for number in 0..2 * ANSWERS_KEPT {
            known.learn(&number.to_string(), Known::Fine, number as u64);
        }
        assert_eq!(known.answers.len(), ANSWERS_KEPT);
        assert!(known.answers.contains_key(&(2 * ANSWERS_KEPT - 1).to_string()));
    }
}
