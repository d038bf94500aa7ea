//! The agent: one state, a method per legal transition.
//!
//! All of it is in one document, [`Books`], which is written durably before what it says is done: a restart reads the books,
//! looks at the machine ([`Books::take_up`]) and goes on. What is in quarantine is believed nothing, not even that it is
//! still there: whoever takes up an attempt fetches what is missing and checks all of it again.

use std::fmt;

use semver::Version;
use serde::{Deserialize, Serialize};

use super::back::Back;
use crate::upgrade::UNPROVEN;

/// Attempts that are remembered.
const HISTORY: usize = 100;
/// Images that are remembered as ones that this machine rolled back from.
const ROLLED_BACK: usize = 100;

/// Who wants an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    Automatic,
    Person,
    /// Carried in, without a graph.
    Offline,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    pub version: Version,
    /// By digest.
    pub image: String,
    pub by: By,
    /// Preconditions that a person has chosen to pass over.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forced: Vec<String>,
    /// Of the person's request, so that it is seen to once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
}

impl Target {
    /// `sha256:…`: what its bytes must come to.
    pub fn digest(&self) -> &str {
        self.image.rsplit_once('@').map_or("", |(_, digest)| digest)
    }
}

/// An update that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Under {
    pub target: Target,
    pub from: Version,
    /// Transactions that this machine had ended when it began: only a later one can be of this attempt.
    pub since: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum Agent {
    /// Asks the graph, now and then; nothing is under way.
    #[default]
    Looking,
    /// The image is brought into quarantine.
    Fetching(Under),
    /// Digest, signatures, and what the image says of itself.
    Checking(Under),
    /// Checked. What must hold before it begins does not hold yet.
    Holding(Under),
    /// The agent of the new release takes over.
    ReplacingItself(Under),
    /// In a transaction of its own, that ends with the new release or with the old one.
    Applying(Under),
    /// The end is known; what is in quarantine is removed.
    Clearing,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Outcome {
    /// The new release runs, and has proved that it is ready.
    Completed,
    /// The new release is in place, and nothing has proved that it works.
    Unproven { why: String },
    /// The machine is on the release of before, with its data.
    RolledBack { why: String },
    /// Nothing was applied.
    Refused { why: String },
    /// Somebody wanted another one, or none.
    Abandoned { why: String },
    /// No update: a person took the machine back by one step.
    TakenBack,
}

impl Outcome {
    /// Of what was not started for it.
    pub fn switched_off() -> Self {
        Self::Unproven { why: UNPROVEN.to_owned() }
    }

    /// Whether the machine is on the new release.
    fn is_on_the_new_one(&self) -> bool {
        matches!(self, Self::Completed | Self::Unproven { .. })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    pub from: Version,
    pub to: Version,
    /// None where the machine was taken back.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub image: String,
    pub by: By,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    #[serde(flatten)]
    pub outcome: Outcome,
    /// For people.
    pub at: String,
    /// In a row, with the same end.
    #[serde(default = "once")]
    pub times: u32,
}

fn once() -> u32 {
    1
}

impl Attempt {
    fn is_like(&self, other: &Self) -> bool {
        self.by == By::Automatic
            && (&self.from, &self.image, self.by, &self.outcome)
                == (&other.from, &other.image, other.by, &other.outcome)
    }
}

/// What a restart finds: what runs, and what became of the transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub running: Version,
    pub transaction: Transaction,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transaction {
    /// None was begun for this image since the attempt began, or it was cleared away before it changed anything.
    None,
    /// It stands where it was interrupted, and can be taken up.
    InProgress,
    Committed,
    /// Committed without proof that it works: the machine was switched off.
    Unproven,
    RolledBack {
        why: String,
    },
}

impl Found {
    /// How an attempt that was being applied has ended, if it has.
    pub fn ended(&self, under: &Under) -> Option<Outcome> {
        match &self.transaction {
            Transaction::InProgress => None,
            Transaction::None => (self.running == under.target.version).then_some(Outcome::Completed),
            Transaction::Committed => Some(Outcome::Completed),
            Transaction::Unproven => Some(Outcome::switched_off()),
            Transaction::RolledBack { why } => Some(Outcome::RolledBack { why: why.clone() }),
        }
    }
}

/// A transition that there is not: a mistake of the caller, never of the world.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the agent is {state}: it can't be {asked}")]
pub struct Illegal {
    state: &'static str,
    asked: &'static str,
}

/// All that the agent knows, as it is on disk.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Books {
    pub agent: Agent,
    /// Newest last.
    #[serde(default)]
    pub history: Vec<Attempt>,
    /// Digests, and versions where no digest is known; newest last. Never taken again, unless a person says so.
    #[serde(default)]
    pub rolled_back: Vec<String>,
    /// The last request of a person that was seen to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<Answer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub going_back: Option<Back>,
}

/// A request of a person, and what stood against it at once, if anything did. How an update that it began came out is in
/// the history.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    pub request: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The same request may be granted later: somebody did not answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub passing: bool,
}

/// What stands against a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Objection {
    pub why: String,
    pub passing: bool,
}

impl Agent {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Looking => "looking",
            Self::Fetching(_) => "fetching",
            Self::Checking(_) => "checking",
            Self::Holding(_) => "holding",
            Self::ReplacingItself(_) => "replacing-itself",
            Self::Applying(_) => "applying",
            Self::Clearing => "clearing",
        }
    }

    pub fn under(&self) -> Option<&Under> {
        match self {
            Self::Fetching(under)
            | Self::Checking(under)
            | Self::Holding(under)
            | Self::ReplacingItself(under)
            | Self::Applying(under) => Some(under),
            Self::Looking | Self::Clearing => None,
        }
    }
}

impl fmt::Display for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Books {
    fn illegal<T>(&self, asked: &'static str) -> Result<T, Illegal> {
        Err(Illegal { state: self.agent.name(), asked })
    }

    /// An update is chosen: its image is fetched from now on.
    pub fn begin(&mut self, target: Target, running: &Version, since: u64) -> Result<(), Illegal> {
        match self.agent {
            Agent::Looking => {
                self.going_back = None;
                if let Some(request) = &target.request {
                    self.answer(request, None);
                }
                self.agent = Agent::Fetching(Under { target, from: running.clone(), since });
                Ok(())
            }
            _ => self.illegal("given an update"),
        }
    }

    /// A request that nothing was begun for: it was carried out at once, or is refused for a reason.
    pub fn answer(&mut self, request: &str, objection: Option<Objection>) {
        let passing = objection.as_ref().is_some_and(|objection| objection.passing);
        let refused = objection.map(|objection| objection.why);
        self.answered = Some(Answer { request: request.to_owned(), refused, passing });
    }

    /// Also where another one was answered since: what was begun for it is under way, or has ended.
    pub fn has_answered(&self, request: &str) -> bool {
        let is_it = |known: Option<&String>| known.is_some_and(|known| known == request);
        is_it(self.answered.as_ref().map(|answer| &answer.request))
            || is_it(self.agent.under().and_then(|under| under.target.request.as_ref()))
            || self.history.iter().any(|attempt| is_it(attempt.request.as_ref()))
    }

    /// How often in a row an image was refused.
    pub fn refusals(&self, digest: &str) -> u32 {
        let of_it = |attempt: &&Attempt| attempt.image.ends_with(digest);
        match self.history.iter().rev().find(of_it) {
            Some(Attempt { outcome: Outcome::Refused { .. }, times, .. }) => *times,
            _ => 0,
        }
    }

    /// Of the image by which this machine came to a release.
    pub fn digest_of(&self, version: &Version) -> Option<String> {
        let came = |attempt: &&Attempt| attempt.outcome.is_on_the_new_one() && attempt.to == *version;
        let attempt = self.history.iter().rev().find(came)?;
        attempt.image.rsplit_once('@').map(|(_, digest)| digest.to_owned())
    }

    /// The machine was taken back: what it ran is not taken again by itself.
    pub(super) fn taken_back(&mut self, what: &str) {
        self.rolled_back.retain(|known| known != what);
        self.rolled_back.push(what.to_owned());
        let surplus = self.rolled_back.len().saturating_sub(ROLLED_BACK);
        self.rolled_back.drain(..surplus);
    }

    /// All of the image is in quarantine.
    pub fn fetched(&mut self) -> Result<(), Illegal> {
        match std::mem::take(&mut self.agent) {
            Agent::Fetching(under) => self.go(Agent::Checking(under)),
            other => self.stay(other, "fetched"),
        }
    }

    /// The image is what was asked for, by who may say so, and may follow what runs.
    pub fn checked(&mut self) -> Result<(), Illegal> {
        match std::mem::take(&mut self.agent) {
            Agent::Checking(under) => self.go(Agent::Holding(under)),
            other => self.stay(other, "checked"),
        }
    }

    /// Nothing stands in the way.
    pub fn cleared_to_begin(&mut self) -> Result<(), Illegal> {
        match std::mem::take(&mut self.agent) {
            Agent::Holding(under) => self.go(Agent::ReplacingItself(under)),
            other => self.stay(other, "let go on"),
        }
    }

    /// The agent of the new release runs, or there is none of its own.
    pub fn replaced(&mut self) -> Result<(), Illegal> {
        match std::mem::take(&mut self.agent) {
            Agent::ReplacingItself(under) => self.go(Agent::Applying(under)),
            other => self.stay(other, "replaced"),
        }
    }

    /// The transaction has ended.
    pub fn applied(&mut self, outcome: Outcome, at: &str) -> Result<(), Illegal> {
        match &self.agent {
            Agent::Applying(_) => self.end(outcome, at),
            _ => self.illegal("told how an update ended"),
        }
    }

    /// Nothing will be applied. Before the transaction begins this is always possible; from then on, its own end counts.
    pub fn give_up(&mut self, outcome: Outcome, at: &str) -> Result<(), Illegal> {
        match &self.agent {
            Agent::Fetching(_) | Agent::Checking(_) | Agent::Holding(_) | Agent::ReplacingItself(_) => {
                self.end(outcome, at)
            }
            _ => self.illegal("made to give up"),
        }
    }

    /// Nothing is in quarantine any more.
    pub fn cleared(&mut self) -> Result<(), Illegal> {
        match std::mem::take(&mut self.agent) {
            Agent::Clearing => self.go(Agent::Looking),
            other => self.stay(other, "cleared"),
        }
    }

    /// After a restart, by what is found. What was checked is checked again; what is being applied has its own books.
    pub fn take_up(&mut self, found: &Found, at: &str) {
        match std::mem::take(&mut self.agent) {
            // Left-overs of an attempt that never got into the books.
            Agent::Looking | Agent::Clearing => self.agent = Agent::Clearing,
            Agent::Fetching(under) | Agent::Checking(under) | Agent::Holding(under) => {
                self.agent = Agent::Fetching(under);
            }
            Agent::ReplacingItself(under) if found.transaction == Transaction::None => {
                // The new agent takes over what the old one has begun, and trusts its own eyes.
                self.agent =
                    if found.running == under.from { Agent::Fetching(under) } else { Agent::Applying(under) };
            }
            Agent::ReplacingItself(under) | Agent::Applying(under) => self.after_applying(under, found, at),
        }
    }

    fn after_applying(&mut self, under: Under, found: &Found, at: &str) {
        let Some(outcome) = found.ended(&under) else {
            self.agent = match found.transaction {
                Transaction::InProgress => Agent::Applying(under),
                _ => Agent::Fetching(under),
            };
            return;
        };
        self.agent = Agent::Applying(under);
        // It is applying: this can't be illegal.
        let _ = self.end(outcome, at);
    }

    fn end(&mut self, outcome: Outcome, at: &str) -> Result<(), Illegal> {
        let Some(Under { from, target, .. }) = self.agent.under().cloned() else {
            return self.illegal("ended");
        };
        match outcome {
            Outcome::RolledBack { .. } => self.taken_back(target.digest()),
            // Told to take it again, and it works: that is the end of the mark, and no mere attempt is.
            Outcome::Completed => {
                let version = target.version.to_string();
                self.rolled_back.retain(|known| known != target.digest() && *known != version);
            }
            // Nothing has shown that it works this time.
            Outcome::Unproven { .. } => {}
            Outcome::Refused { .. } | Outcome::Abandoned { .. } | Outcome::TakenBack => {}
        }
        let Target { version: to, image, by, request, .. } = target;
        self.note(Attempt { from, to, image, by, request, outcome, at: at.to_owned(), times: 1 });
        self.agent = Agent::Clearing;
        Ok(())
    }

    pub(super) fn note(&mut self, mut attempt: Attempt) {
        // A release that is refused again and again must not push what matters out of the books.
        if let Some(last) = self.history.pop_if(|last| last.is_like(&attempt)) {
            attempt.times = last.times.saturating_add(1);
        }
        self.history.push(attempt);
        let surplus = self.history.len().saturating_sub(HISTORY);
        self.history.drain(..surplus);
    }

    fn go(&mut self, to: Agent) -> Result<(), Illegal> {
        self.agent = to;
        Ok(())
    }

    fn stay(&mut self, state: Agent, asked: &'static str) -> Result<(), Illegal> {
        self.agent = state;
        self.illegal(asked)
    }
}
