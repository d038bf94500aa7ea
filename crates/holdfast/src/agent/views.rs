//! How the agent is shown.

use ::agent::desk::{News, Wishes};
use ::agent::settings::Settings;
use logic::agent::{Agent as State, Attempt, Blocker, Books, Offer, Outcome, Standing};
use serde::Serialize;

use crate::output::{Show, fields, table};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Whether there is an agent at work.
    agent_runs: bool,
    running: Option<String>,
    #[serde(flatten)]
    in_force: InForce,
    state: &'static str,
    /// What is under way leads there.
    to: Option<String>,
    progress: Option<(u64, u64)>,
    blockers: Vec<Blocker>,
    trouble: Option<String>,
    asked: Option<String>,
    available: Vec<Offer>,
    last: Option<Attempt>,
}

impl Status {
    pub fn of(settings: &Settings, agent_runs: bool, books: &Books, wishes: Wishes, news: News) -> Self {
        Self {
            agent_runs,
            running: news.running.map(|version| version.to_string()),
            in_force: InForce::of(settings, wishes),
            state: match (agent_runs, &books.agent) {
                (false, State::Looking | State::Clearing) => "stopped",
                (_, state) => state.name(),
            },
            to: books.agent.under().map(|under| under.target.version.to_string()),
            progress: news.progress,
            blockers: news.blockers,
            trouble: news.trouble,
            asked: news.asked,
            available: news.available.0,
            last: books.history.last().cloned(),
        }
    }
}

/// What the agent goes by: the configuration, and over it what people have set.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InForce {
    channel: String,
    upstream: String,
    automatic: bool,
    paused: Option<String>,
    /// What was set: `agent unset` takes it back.
    set: Vec<&'static str>,
}

impl InForce {
    pub fn of(settings: &Settings, wishes: Wishes) -> Self {
        let set = [
            ("channel", wishes.channel.is_some()),
            ("upstream", wishes.upstream.is_some()),
            ("automatic", wishes.automatic.is_some()),
        ];
        let or = |wish: Option<String>, setting: &Option<String>| {
            wish.or_else(|| setting.clone()).unwrap_or_default()
        };
        Self {
            channel: or(wishes.channel, &settings.channel),
            upstream: or(wishes.upstream, &settings.upstream),
            automatic: wishes.automatic.unwrap_or(settings.automatic),
            paused: wishes.paused,
            set: set.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect(),
        }
    }

    fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = vec![
            ("channel", or_none(&self.channel)),
            ("upstream", or_none(&self.upstream)),
            ("updates", if self.automatic { "automatic" } else { "when asked" }.to_owned()),
        ];
        if let Some(reason) = &self.paused {
            rows.push(("paused", if reason.is_empty() { "yes".to_owned() } else { reason.clone() }));
        }
        rows
    }
}

impl Show for InForce {
    const KIND: &'static str = "AgentSettings";

    fn table(&self, _wide: bool) -> String {
        fields(&self.rows())
    }

    fn names(&self) -> Vec<String> {
        self.set.iter().map(|name| (*name).to_owned()).collect()
    }
}

fn or_none(text: &str) -> String {
    if text.is_empty() { "not set".to_owned() } else { text.to_owned() }
}

impl Show for Status {
    const KIND: &'static str = "AgentStatus";

    fn table(&self, wide: bool) -> String {
        let mut state = self.state.to_owned();
        if let Some(to) = &self.to {
            state.push_str(&format!(", to {to}"));
        }
        if let Some((here, of)) = self.progress {
            state.push_str(&format!(" ({} %)", here.saturating_mul(100) / of.max(1)));
        }
        let mut rows = vec![
            ("running", self.running.clone().unwrap_or_else(|| "not known yet".to_owned())),
            ("state", state),
        ];
        rows.extend(self.in_force.rows());
        if let Some(asked) = &self.asked {
            rows.push(("asked", asked.clone()));
        }
        if let Some(last) = &self.last {
            rows.push(("last", outcome(last)));
        }
        if let Some(trouble) = &self.trouble {
            rows.push(("trouble", trouble.clone()));
        }
        let mut text = fields(&rows);
        for blocker in &self.blockers {
            text.push_str(&format!("waits for {}: {} ({})\n", blocker.name, blocker.why, blocker.way_out));
        }
        if !self.available.is_empty() {
            text.push('\n');
            text.push_str(&offers(&self.available, wide));
        }
        text
    }

    fn names(&self) -> Vec<String> {
        self.available.iter().map(|offer| offer.version.to_string()).collect()
    }
}

fn offers(offers: &[Offer], wide: bool) -> String {
    let row = |offer: &Offer| {
        let risks = offer.risks.iter().filter(|risk| risk.verdict.is_in_the_way());
        let why = match offer.standing {
            Standing::NotRecommended => {
                risks.map(|risk| format!("{}: {}", risk.name, risk.message)).collect::<Vec<_>>().join("; ")
            }
            standing => standing.why_not().unwrap_or_default().to_owned(),
        };
        let recommended = if offer.standing == Standing::Recommended { "yes" } else { "no" };
        let mut row = vec![offer.version.to_string(), recommended.to_owned()];
        if wide {
            row.push(offer.image.clone());
        }
        row.push(why);
        row
    };
    let header: &[&str] = match wide {
        true => &["AVAILABLE", "RECOMMENDED", "IMAGE", "WHY NOT"],
        false => &["AVAILABLE", "RECOMMENDED", "WHY NOT"],
    };
    table(header, &offers.iter().map(row).collect::<Vec<_>>())
}

fn outcome(attempt: &Attempt) -> String {
    let Attempt { from, to, at, .. } = attempt;
    match &attempt.outcome {
        Outcome::Completed => format!("updated from {from} to {to}, {at}"),
        Outcome::Unproven { why } => format!("updated from {from} to {to}, {at}; {why}"),
        Outcome::RolledBack { why } => format!("{to} was rolled back to {from}, {at}: {why}"),
        Outcome::Refused { why } => format!("{to} was refused, {at}: {why}"),
        Outcome::Abandoned { why } => format!("{to} was abandoned, {at}: {why}"),
        Outcome::TakenBack => format!("taken back from {from} to {to}, {at}"),
    }
}

#[derive(Serialize)]
pub struct History {
    /// Newest last.
    pub attempts: Vec<Attempt>,
}

impl Show for History {
    const KIND: &'static str = "AgentHistory";

    fn table(&self, wide: bool) -> String {
        if self.attempts.is_empty() {
            return "no update was tried yet\n".to_owned();
        }
        let row = |attempt: &Attempt| {
            let (name, why) = match &attempt.outcome {
                Outcome::Completed => ("completed", ""),
                Outcome::Unproven { why } => ("unproven", why.as_str()),
                Outcome::RolledBack { why } => ("rolled back", why.as_str()),
                Outcome::Refused { why } => ("refused", why.as_str()),
                Outcome::Abandoned { why } => ("abandoned", why.as_str()),
                Outcome::TakenBack => ("taken back", ""),
            };
            let name =
                if attempt.times > 1 { format!("{name} {} times", attempt.times) } else { name.to_owned() };
            let mut row = vec![attempt.at.clone(), attempt.from.to_string(), attempt.to.to_string(), name];
            if wide {
                row.push(attempt.image.clone());
            }
            row.push(why.to_owned());
            row
        };
        let header: &[&str] = match wide {
            true => &["ENDED", "FROM", "TO", "OUTCOME", "IMAGE", "WHY"],
            false => &["ENDED", "FROM", "TO", "OUTCOME", "WHY"],
        };
        table(header, &self.attempts.iter().rev().map(row).collect::<Vec<_>>())
    }

    fn names(&self) -> Vec<String> {
        self.attempts.iter().rev().map(|attempt| attempt.to.to_string()).collect()
    }
}

/// What came of something that a person wanted done once.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answered {
    pub id: String,
    /// Otherwise it is left to the agent that runs.
    pub done: bool,
    /// None where nothing was to be moved.
    #[serde(flatten)]
    pub attempt: Option<Attempt>,
}

impl Answered {
    /// For people; nothing where nothing is to be said.
    pub fn line(&self) -> Option<String> {
        let Some(Attempt { from, to, outcome, .. }) = &self.attempt else {
            return (!self.done).then(|| "the agent is told".to_owned());
        };
        Some(match outcome {
            Outcome::TakenBack => format!("taken back from {from} to {to}, with the data of then"),
            Outcome::Unproven { why } => format!("updated from {from} to {to}; {why}"),
            _ => format!("updated from {from} to {to}"),
        })
    }
}

impl Show for Answered {
    const KIND: &'static str = "AgentRequest";

    fn table(&self, _wide: bool) -> String {
        self.line().map(|line| line + "\n").unwrap_or_default()
    }

    fn names(&self) -> Vec<String> {
        vec![self.id.clone()]
    }
}
