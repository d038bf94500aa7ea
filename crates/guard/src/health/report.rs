//! What was found: one result per check, and the verdict that follows from them. Pure.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::scripts::Note;
use logic::period::Period;

/// The whole of one run, to be stored and printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub verdict: Verdict,
    /// In the order of configuration: executables by name, then built-in checks as written.
    pub checks: Vec<CheckResult>,
    /// What was left out, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
    /// It was asked to stop: the verdict says nothing about the workload and should not be recorded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    pub took: Period,
}

impl Report {
    /// Required checks that did not pass: the reasons for an unhealthy verdict.
    pub fn failures(&self) -> impl Iterator<Item = &CheckResult> {
        self.checks.iter().filter(|check| check.required && check.outcome != Outcome::Passed)
    }

    /// Wanted checks that did not pass.
    pub fn warnings(&self) -> impl Iterator<Item = &CheckResult> {
        self.checks.iter().filter(|check| !check.required && check.outcome != Outcome::Passed)
    }

    /// One more result, from somebody who knows something that no check can see.
    pub fn add(&mut self, result: Option<CheckResult>) {
        self.checks.extend(result);
        self.verdict = verdict(&self.checks);
    }

    /// Every failure is a matter of time: more of it might have helped.
    pub fn only_timed_out(&self) -> bool {
        self.verdict == Verdict::Unhealthy && self.failures().all(|check| check.outcome == Outcome::TimedOut)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    pub name: String,
    /// `script`, or the `kind` of the configuration.
    pub kind: String,
    pub required: bool,
    pub outcome: Outcome,
    /// What ended it.
    pub ending: Ending,
    /// What the last try had come to, where a limit cut the series off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_attempt: Option<Outcome>,
    pub attempts: u32,
    /// From the start of the first try; by the monotonic clock.
    pub took: Period,
    /// What was found, or the beginning and the end of what an executable printed.
    pub detail: String,
    /// The executable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Passed,
    /// Checked, and bad.
    Failed,
    TimedOut,
    /// Could not be checked: says nothing about the workload.
    CouldNotRun,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One spelling for people and programs: the serialized one.
        self.serialize(f)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// It had its answer.
    Settled,
    /// The check's own time limit.
    OwnLimit,
    /// The time limit of all checks together.
    OverallLimit,
    /// Asked to stop.
    Interrupted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Healthy,
    Unhealthy,
}

/// Healthy only if every required check passed. One that could not be run does not count as passed: data is
/// vouched for by what was seen, not by what was not. Wanted checks never decide.
pub fn verdict(checks: &[CheckResult]) -> Verdict {
    let passed = |check: &CheckResult| !check.required || check.outcome == Outcome::Passed;
    if checks.iter().all(passed) { Verdict::Healthy } else { Verdict::Unhealthy }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(required: bool, outcome: Outcome) -> CheckResult {
        CheckResult {
            name: "x".into(),
            kind: "tcp".into(),
            required,
            outcome,
            ending: Ending::Settled,
            last_attempt: None,
            attempts: 1,
            took: Period::seconds(1),
            detail: String::new(),
            path: None,
        }
    }

    #[test]
    fn only_required_checks_decide_and_only_passing_counts() {
        use Outcome::{CouldNotRun, Failed, Passed, TimedOut};
        let healthy: [&[(bool, Outcome)]; 4] = [
            &[],
            &[(true, Passed)],
            &[(true, Passed), (false, Failed)],
            &[(false, TimedOut), (false, CouldNotRun)],
        ];
        let unhealthy: [&[(bool, Outcome)]; 4] = [
            &[(true, Failed)],
            &[(true, TimedOut), (true, Passed)],
            &[(true, CouldNotRun)],
            &[(false, Passed), (true, Failed)],
        ];
        for (tables, expected) in [(healthy, Verdict::Healthy), (unhealthy, Verdict::Unhealthy)] {
            for table in tables {
                let checks: Vec<_> =
                    table.iter().map(|(required, outcome)| result(*required, *outcome)).collect();
                assert_eq!(verdict(&checks), expected, "{table:?}");
            }
        }
    }
}
