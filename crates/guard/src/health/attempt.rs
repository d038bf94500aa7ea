//! What one try at a check came to, and what a series of tries comes to in the end. Pure.

use super::report::{Ending, Outcome};

/// The longest detail that is kept of a check.
pub(crate) const MAX_DETAIL: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// Checked, and good.
    Passed(String),
    /// Checked, and bad.
    Bad(String),
    /// Could not be checked this time.
    Unknown(String),
    /// Can't be checked, and trying again will not help.
    Hopeless(String),
    /// Cut off before it had an answer.
    Cut(String),
}

/// What kept it from being tried, in words.
impl From<String> for Attempt {
    fn from(why: String) -> Self {
        Self::Unknown(why)
    }
}

impl Attempt {
    pub(crate) fn detail(&self) -> &str {
        match self {
            Self::Passed(text)
            | Self::Bad(text)
            | Self::Unknown(text)
            | Self::Hopeless(text)
            | Self::Cut(text) => text,
        }
    }

    /// Whether there is a point in another try.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Passed(_) | Self::Hopeless(_))
    }

    fn outcome(&self) -> Outcome {
        match self {
            Self::Passed(_) => Outcome::Passed,
            Self::Bad(_) => Outcome::Failed,
            Self::Unknown(_) | Self::Hopeless(_) => Outcome::CouldNotRun,
            Self::Cut(_) => Outcome::TimedOut,
        }
    }
}

/// The outcome of a check from its last try and from what ended the series. A check's own limit says how long
/// the answer may stay bad, so its last answer counts; the overall limit cuts off whatever is still under way.
pub(crate) fn outcome(last: Option<&Attempt>, ending: Ending) -> Outcome {
    match (ending, last) {
        (Ending::Settled | Ending::OwnLimit, Some(attempt)) => attempt.outcome(),
        (Ending::Settled | Ending::OwnLimit, None) => Outcome::TimedOut,
        (Ending::OverallLimit | Ending::Interrupted, _) => Outcome::TimedOut,
    }
}

/// What someone else wrote, fit for a report: bounded, without control characters other than line breaks.
pub(crate) fn bounded(text: &str) -> String {
    let clean = |c: char| if c == '\n' || c == '\t' || !c.is_control() { c } else { '\u{fffd}' };
    let text = text.trim_end();
    if text.len() <= MAX_DETAIL {
        return text.chars().map(clean).collect();
    }
    let mut half = MAX_DETAIL / 2;
    while !text.is_char_boundary(half) {
        half -= 1;
    }
    let mut tail = text.len() - MAX_DETAIL / 2;
    while !text.is_char_boundary(tail) {
        tail += 1;
    }
    let kept = format!("{}\n[{} bytes left out]\n{}", &text[..half], tail - half, &text[tail..]);
    kept.chars().map(clean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_answer_counts_unless_the_overall_limit_cut_in() {
        let text = String::new;
        let (bad, unknown, cut) = (Attempt::Bad(text()), Attempt::Unknown(text()), Attempt::Cut(text()));
        for (last, ending, expected) in [
            (Some(&Attempt::Passed(text())), Ending::Settled, Outcome::Passed),
            (Some(&bad), Ending::Settled, Outcome::Failed),
            (Some(&bad), Ending::OwnLimit, Outcome::Failed),
            (Some(&unknown), Ending::OwnLimit, Outcome::CouldNotRun),
            (Some(&Attempt::Hopeless(text())), Ending::Settled, Outcome::CouldNotRun),
            (Some(&cut), Ending::Settled, Outcome::TimedOut),
            (Some(&cut), Ending::OwnLimit, Outcome::TimedOut),
            (None, Ending::OwnLimit, Outcome::TimedOut),
            (Some(&bad), Ending::OverallLimit, Outcome::TimedOut),
            (Some(&unknown), Ending::OverallLimit, Outcome::TimedOut),
            (None, Ending::OverallLimit, Outcome::TimedOut),
            (Some(&bad), Ending::Interrupted, Outcome::TimedOut),
        ] {
            assert_eq!(outcome(last, ending), expected, "{last:?} {ending:?}");
        }
    }

    #[test]
    fn details_are_bounded_and_printable() {
        assert_eq!(bounded("a\u{1b}[31mb\n"), "a\u{fffd}[31mb");
        let long = "é".repeat(10_000);
        let kept = bounded(&long);
        assert!(kept.len() < MAX_DETAIL + 100 && kept.contains("bytes left out"));
    }
}
