//! What people see of it: the agent's books and news in the words of a `ClusterVersion`. Nothing is decided by it.

use logic::agent::{Agent, Books, Offer, Outcome, Standing, Verdict};

use super::api::{Condition, ConditionalUpdate, HistoryEntry, Release, Risk, Status};
use crate::desk::News;

const HISTORY: usize = 100;

/// What is under way is its first entry, from its beginning to its end.
pub fn history(status: &mut Status, books: &Books, now: &str) {
    let verified = |image: &str| {
        let rollout = &status.rollout;
        rollout.under.as_ref().is_some_and(|it| it.image == image && it.verified)
            || rollout.last.as_ref().is_some_and(|it| it.image == image && it.verified)
    };
    let open = status.history.first().filter(|it| it.completion_time.is_none()).cloned();
    if let Some(mut entry) = open {
        let under = books.agent.under().is_some_and(|under| under.target.image == entry.image);
        entry.verified |= verified(&entry.image);
        if !under {
            let ended = books.history.iter().rev().find(|attempt| attempt.image == entry.image);
            let (state, message) = match ended.map(|attempt| &attempt.outcome) {
                Some(Outcome::Completed) => ("Completed", None),
                Some(Outcome::Unproven { why }) => ("Unproven", Some(why.clone())),
                Some(Outcome::TakenBack) => ("TakenBack", None),
                Some(Outcome::RolledBack { why }) => ("RolledBack", Some(why.clone())),
                Some(Outcome::Refused { why }) => ("Refused", Some(why.clone())),
                Some(Outcome::Abandoned { why }) => ("Abandoned", Some(why.clone())),
                None => ("Abandoned", Some("the books do not tell how it ended".to_owned())),
            };
            entry.state = state.to_owned();
            entry.message = message;
            entry.completion_time = Some(now.to_owned());
        }
        status.history[0] = entry;
    }
    let Some(under) = books.agent.under() else { return };
    if status.history.is_empty() {
        let installed = Release { version: under.from.clone(), image: String::new(), url: None };
        status.history.push(as_installed(&installed, now));
    }
    let is_it = |entry: &HistoryEntry| entry.image == under.target.image;
    if status.history.first().is_some_and(|it| is_it(it) && it.completion_time.is_none()) {
        return;
    }
    // One that is refused again and again is one entry.
    if status.history.first().is_some_and(|it| is_it(it) && it.state == "Refused") {
        status.history.remove(0);
    }
    let entry = HistoryEntry {
        state: "Partial".to_owned(),
        started_time: now.to_owned(),
        completion_time: None,
        version: under.target.version.clone(),
        image: under.target.image.clone(),
        verified: verified(&under.target.image),
        message: None,
    };
    status.history.insert(0, entry);
    status.history.truncate(HISTORY);
}

pub fn news(status: &mut Status, books: &Books, news: &News, now: &str) {
    let known = status.rollout.running.as_ref();
    let known = known.map(|it| Release { version: it.version.clone(), image: it.image.clone(), url: None });
    let running = known
        .or_else(|| news.running.clone().map(|version| Release { version, image: String::new(), url: None }));
    if let Some(running) = running.as_ref().filter(|_| status.history.is_empty()) {
        status.history.push(as_installed(running, now));
    }
    let under = books.agent.under();
    status.desired = match under {
        Some(under) => {
            let (version, image) = (under.target.version.clone(), under.target.image.clone());
            Some(Release { version, image, url: None })
        }
        None => running.clone(),
    };
    let offers = &news.available.0;
    status.available_updates =
        offers.iter().filter(|offer| offer.standing == Standing::Recommended).map(release).collect();
    status.conditional_updates =
        offers.iter().filter(|offer| offer.standing != Standing::Recommended).map(conditional).collect();
    let trouble = news.trouble.as_deref();
    match &running {
        Some(running) => {
            let message = format!("the cluster runs {}", running.version);
            condition(status, now, "Available", true, "Running", &message);
        }
        None => condition(status, now, "Available", false, "Unknown", "nothing says what the cluster runs"),
    }
    match (trouble, under) {
        (Some(trouble), Some(_)) => condition(status, now, "Failing", true, reason(&books.agent), trouble),
        _ => condition(status, now, "Failing", false, "AsExpected", ""),
    }
    match (trouble, under) {
        (Some(trouble), None) => condition(status, now, "RetrievedUpdates", false, "NoAnswer", trouble),
        (_, _) if news.asked.is_some() => {
            condition(status, now, "RetrievedUpdates", true, "AsExpected", "");
        }
        (_, _) if news.upstream.is_empty() || news.channel.is_empty() => {
            let message = "set spec.upstream and spec.channel to be told of updates";
            condition(status, now, "RetrievedUpdates", false, "NotConfigured", message);
        }
        _ => {}
    }
    match books.answered.as_ref().and_then(|answer| answer.refused.as_deref()) {
        Some(why) => condition(status, now, "ReleaseAccepted", false, "Refused", why),
        None => condition(status, now, "ReleaseAccepted", true, "AsExpected", ""),
    }
    match under {
        None => condition(status, now, "Progressing", false, "AsExpected", ""),
        Some(under) => {
            let blockers: Vec<String> =
                news.blockers.iter().map(|it| format!("{}: {}; {}", it.name, it.why, it.way_out)).collect();
            let to = &under.target.version;
            let message = match (blockers.is_empty(), &news.step, news.progress) {
                (false, ..) => format!("{to} is ready and held: {}", blockers.join(". ")),
                (_, Some(step), _) => format!("on the way to {to}: {step}"),
                (_, None, Some((here, of))) => format!("on the way to {to}: {here} of {of} bytes are here"),
                (_, None, None) => format!("on the way to {to}: {}", books.agent.name()),
            };
            condition(status, now, "Progressing", true, reason(&books.agent), &message);
            if matches!(books.agent, Agent::Applying(_)) {
                progress(status, now);
            }
        }
    }
}

/// How far the manifests are, where some were applied.
pub fn progress(status: &mut Status, now: &str) {
    let Some(begun) = &status.rollout.under else { return };
    let mut message = format!("on the way to {}: {} of {} are done", begun.version, begun.done, begun.of);
    if let Some(at) = &begun.at {
        message = format!("{message}, waiting for {at}");
    }
    condition(status, now, "Progressing", true, "Applying", &message);
}

fn reason(agent: &Agent) -> &'static str {
    match agent {
        Agent::Looking => "Looking",
        Agent::Fetching(_) => "Fetching",
        Agent::Checking(_) => "Checking",
        Agent::Holding(_) => "Holding",
        Agent::ReplacingItself(_) => "ReplacingItself",
        Agent::Applying(_) => "Applying",
        Agent::Clearing => "Clearing",
    }
}

fn as_installed(running: &Release, now: &str) -> HistoryEntry {
    HistoryEntry {
        state: "Completed".to_owned(),
        started_time: now.to_owned(),
        completion_time: Some(now.to_owned()),
        version: running.version.clone(),
        image: running.image.clone(),
        verified: false,
        message: Some("as it was installed".to_owned()),
    }
}

fn release(offer: &Offer) -> Release {
    Release {
        version: offer.version.clone(),
        image: offer.image.clone(),
        url: offer.metadata.get("url").cloned(),
    }
}

fn conditional(offer: &Offer) -> ConditionalUpdate {
    let risk = |risk: &logic::agent::Weighed| {
        let (verdict, reason) = match &risk.verdict {
            Verdict::Applies => ("Applies", None),
            Verdict::DoesNotApply => ("DoesNotApply", None),
            Verdict::Unknown { why } => ("Unknown", Some(why.clone())),
        };
        let (name, message, url) = (risk.name.clone(), risk.message.clone(), risk.url.clone());
        Risk { name, message, url, verdict: verdict.to_owned(), reason }
    };
    ConditionalUpdate {
        release: release(offer),
        message: offer.standing.why_not().map(str::to_owned),
        risks: offer.risks.iter().map(risk).collect(),
    }
}

/// The time is that of the last change between true and false.
fn condition(status: &mut Status, now: &str, kind: &str, is_true: bool, reason: &str, message: &str) {
    let value = if is_true { "True" } else { "False" };
    let before = status.conditions.iter().position(|it| it.kind == kind);
    let since = before.map(|at| &status.conditions[at]).filter(|it| it.status == value);
    let condition = Condition {
        kind: kind.to_owned(),
        status: value.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_transition_time: since.map_or(now, |it| &it.last_transition_time).to_owned(),
    };
    match before {
        Some(at) => status.conditions[at] = condition,
        None => status.conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logic::agent::{By, Target};
    use semver::Version;

    const IMAGE: &str = "r/i@sha256:00";

    fn target() -> Target {
        let version = Version::new(1, 1, 0);
        Target { version, image: IMAGE.to_owned(), by: By::Automatic, forced: vec![], request: None }
    }

    fn under_way() -> Books {
        let mut books = Books::default();
        books.begin(target(), &Version::new(1, 0, 0), 0).unwrap();
        books
    }

    fn holds<'a>(status: &'a Status, kind: &str) -> (&'a str, &'a str) {
        let found = status.conditions.iter().find(|it| it.kind == kind).unwrap();
        (&found.status, &found.message)
    }

    #[test]
    fn an_attempt_is_one_entry_from_its_beginning_to_its_end() {
        let mut status = Status::default();
        let mut books = under_way();
        history(&mut status, &books, "one");
        history(&mut status, &books, "two");
        assert_eq!(status.history.len(), 2);
        assert_eq!(
            (&*status.history[1].state, &status.history[1].version),
            ("Completed", &Version::new(1, 0, 0))
        );
        let entry = status.history[0].clone();
        assert_eq!((&*entry.state, &*entry.started_time, entry.completion_time), ("Partial", "one", None));
        books.give_up(Outcome::Refused { why: "forged".to_owned() }, "three").unwrap();
        history(&mut status, &books, "three");
        let entry = status.history[0].clone();
        assert_eq!((&*entry.state, entry.completion_time.as_deref()), ("Refused", Some("three")));
        assert_eq!(entry.message.as_deref(), Some("forged"));
    }

    #[test]
    fn what_is_refused_again_and_again_is_one_entry() {
        let mut status = Status::default();
        for _ in 0..3 {
            let mut books = under_way();
            history(&mut status, &books, "then");
            books.give_up(Outcome::Refused { why: "forged".to_owned() }, "now").unwrap();
            history(&mut status, &books, "now");
        }
        assert_eq!(status.history.len(), 2);
    }

    #[test]
    fn trouble_with_an_update_is_failing_and_trouble_with_the_graph_is_not() {
        let mut status = Status::default();
        let told = News {
            trouble: Some("no answer".to_owned()),
            running: Some(Version::new(1, 0, 0)),
            ..News::default()
        };
        news(&mut status, &Books::default(), &told, "one");
        assert_eq!(holds(&status, "Failing"), ("False", ""));
        assert_eq!(holds(&status, "RetrievedUpdates"), ("False", "no answer"));
        assert_eq!(holds(&status, "Available"), ("True", "the cluster runs 1.0.0"));
        assert_eq!(status.history[0].state, "Completed");
        news(&mut status, &under_way(), &told, "two");
        assert_eq!(holds(&status, "Failing"), ("True", "no answer"));
        assert_eq!(holds(&status, "Progressing"), ("True", "on the way to 1.1.0: fetching"));
        assert_eq!(status.desired.as_ref().unwrap().image, IMAGE);
    }

    #[test]
    fn a_condition_keeps_its_time_until_it_turns() {
        let mut status = Status::default();
        condition(&mut status, "one", "Failing", false, "AsExpected", "");
        condition(&mut status, "two", "Failing", false, "AsExpected", "still");
        assert_eq!(status.conditions[0].last_transition_time, "one");
        condition(&mut status, "three", "Failing", true, "Applying", "");
        assert_eq!((status.conditions.len(), &*status.conditions[0].last_transition_time), (1, "three"));
    }
}
