//! The machine around the agent, as little of it as can go wrong.

use logic::agent::{Agent, Books, By, Found, Outcome, Target, Transaction};
use semver::Version;
use testkit::explore::World;

/// Attempts in one walk: a second one after each end of the first.
const ATTEMPTS: u8 = 2;

/// What an image is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Image {
    Good,
    /// Signed, and never healthy.
    Broken,
    /// Other bytes, no signature, another version, or not for what runs: whatever a check finds.
    Forged,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Quarantine {
    Empty,
    Part,
    Whole(Image),
}

/// The one transaction that there is or was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Applied {
    Never,
    Begun(Image),
    Switched(Image),
    Committed,
    RolledBack,
}

/// What an effect came to, before it is in the books.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pending {
    Fetched,
    Checked,
    Refused,
    Replaced,
    /// The machine said no before anything began.
    NotBegun,
    Ended,
    Cleared,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    books: Books,
    pending: Option<Pending>,
    quarantine: Quarantine,
    /// Nobody had a chance to change what is in quarantine since it was checked.
    trusted: bool,
    on_new: bool,
    applied: Applied,
    /// Transactions that have ended.
    ended: u64,
    attempts: u8,
    /// Something was applied that nobody had checked.
    betrayed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// What was checked before a restart is believed after it.
    BelievesTheQuarantine,
    /// A restart in the middle of a transaction counts as its end.
    ForgetsTheTransaction,
    /// An old transaction is taken for this attempt's.
    TakesAnOldEndForItsOwn,
    /// What is refused stays in quarantine.
    LeavesItsRubbish,
}

impl Mistake {
    pub const ALL: [Self; 4] = [
        Self::BelievesTheQuarantine,
        Self::ForgetsTheTransaction,
        Self::TakesAnOldEndForItsOwn,
        Self::LeavesItsRubbish,
    ];
}

#[derive(Debug)]
// Read by their Debug, in counter-examples.
#[allow(dead_code)]
pub enum Action {
    Offer(Image),
    FetchPart,
    Fetch(Image),
    FetchFails,
    Check,
    Hold,
    Abandon,
    ReplaceItself,
    BeginTransaction,
    CannotBegin,
    Switch,
    ProveHealthy,
    Undo,
    Clear,
    Write(Pending),
    Crash { tampered: bool },
}

pub struct Rig {
    pub mistake: Option<Mistake>,
}

fn version(new: bool) -> Version {
    Version::new(if new { 2 } else { 1 }, 0, 0)
}

fn target(image: Image) -> Target {
    let digit = ["a", "b", "c"][image as usize];
    let image = format!("registry.example/r@sha256:{}", digit.repeat(64));
    Target { version: version(true), image, by: By::Automatic, forced: vec![], request: None }
}

fn refused() -> Outcome {
    Outcome::Refused { why: String::new() }
}

impl State {
    fn in_progress(&self) -> bool {
        matches!(self.applied, Applied::Begun(_) | Applied::Switched(_))
    }

    fn effects(&self, step: &mut dyn FnMut(Action, State)) {
        let mut to = |action, change: &dyn Fn(&mut State)| {
            let mut next = self.clone();
            change(&mut next);
            step(action, next);
        };
        match &self.books.agent {
            Agent::Looking if self.attempts < ATTEMPTS && !self.on_new => {
                for image in [Image::Good, Image::Broken, Image::Forged] {
                    // What it rolled back from is not offered to an automatic machine: `offers` sees to that.
                    if !self.books.rolled_back.iter().any(|digest| digest == target(image).digest()) {
                        to(Action::Offer(image), &|next| {
                            next.books.begin(target(image), &version(false), self.ended).unwrap();
                            next.attempts += 1;
                        });
                    }
                }
            }
            Agent::Looking => {}
            Agent::Fetching(_) => {
                to(Action::FetchPart, &|next| next.quarantine = Quarantine::Part);
                for image in [Image::Good, Image::Broken, Image::Forged] {
                    to(Action::Fetch(image), &|next| {
                        next.quarantine = Quarantine::Whole(image);
                        next.trusted = false;
                        next.pending = Some(Pending::Fetched);
                    });
                }
                to(Action::FetchFails, &|next| next.pending = Some(Pending::Refused));
            }
            Agent::Checking(under) => to(Action::Check, &|next| {
                let fits = |image| target(image).image == under.target.image;
                let holds = match self.quarantine {
                    Quarantine::Whole(Image::Forged) | Quarantine::Part | Quarantine::Empty => false,
                    Quarantine::Whole(image) => fits(image),
                };
                next.trusted = holds;
                next.pending = Some(if holds { Pending::Checked } else { Pending::Refused });
            }),
            Agent::Holding(_) => {
                to(Action::Hold, &|next| next.books.cleared_to_begin().unwrap());
                to(Action::Abandon, &|next| {
                    next.books.give_up(Outcome::Abandoned { why: String::new() }, "").unwrap();
                });
            }
            Agent::ReplacingItself(_) => {
                to(Action::ReplaceItself, &|next| next.pending = Some(Pending::Replaced));
            }
            Agent::Applying(_) => match self.applied {
                Applied::Begun(_) => {
                    to(Action::Switch, &|next| {
                        let Applied::Begun(image) = next.applied else { return };
                        next.applied = Applied::Switched(image);
                        next.on_new = true;
                    });
                    to(Action::Undo, &|next| next.end(Applied::RolledBack, false));
                }
                Applied::Switched(Image::Good) => {
                    to(Action::ProveHealthy, &|next| next.end(Applied::Committed, true));
                }
                Applied::Switched(_) => to(Action::Undo, &|next| next.end(Applied::RolledBack, false)),
                Applied::Never | Applied::Committed | Applied::RolledBack => {
                    to(Action::BeginTransaction, &|next| {
                        next.betrayed |= !self.trusted;
                        if let Quarantine::Whole(image) = self.quarantine {
                            next.applied = Applied::Begun(image);
                        }
                    });
                    to(Action::CannotBegin, &|next| next.pending = Some(Pending::NotBegun));
                }
            },
            Agent::Clearing => to(Action::Clear, &|next| {
                next.quarantine = Quarantine::Empty;
                next.trusted = false;
                next.pending = Some(Pending::Cleared);
            }),
        }
    }

    fn end(&mut self, how: Applied, on_new: bool) {
        self.applied = how;
        self.on_new = on_new;
        self.ended += 1;
        self.pending = Some(Pending::Ended);
    }

    fn write(&mut self, pending: Pending, mistake: Option<Mistake>) {
        self.pending = None;
        let books = &mut self.books;
        match pending {
            Pending::Fetched => books.fetched().unwrap(),
            Pending::Checked => books.checked().unwrap(),
            Pending::Refused => {
                books.give_up(refused(), "").unwrap();
                if mistake == Some(Mistake::LeavesItsRubbish) {
                    books.cleared().unwrap();
                }
            }
            Pending::Replaced => books.replaced().unwrap(),
            Pending::NotBegun => books.applied(refused(), "").unwrap(),
            Pending::Ended => {
                let outcome = match self.applied {
                    Applied::Committed => Outcome::Completed,
                    _ => Outcome::RolledBack { why: String::new() },
                };
                books.applied(outcome, "").unwrap();
            }
            Pending::Cleared => books.cleared().unwrap(),
        }
    }

    fn restart(&mut self, mistake: Option<Mistake>) {
        self.pending = None;
        let believed = self.books.agent.clone();
        let ours = self.books.agent.under().is_some_and(|under| self.ended > under.since);
        let transaction = match self.applied {
            Applied::Begun(_) | Applied::Switched(_) if mistake == Some(Mistake::ForgetsTheTransaction) => {
                Transaction::RolledBack { why: String::new() }
            }
            Applied::Begun(_) | Applied::Switched(_) => Transaction::InProgress,
            _ if !ours && mistake != Some(Mistake::TakesAnOldEndForItsOwn) => Transaction::None,
            Applied::Never => Transaction::None,
            Applied::Committed => Transaction::Committed,
            Applied::RolledBack => Transaction::RolledBack { why: String::new() },
        };
        self.books.take_up(&Found { running: version(self.on_new), transaction }, "");
        if mistake == Some(Mistake::BelievesTheQuarantine) && matches!(believed, Agent::Holding(_)) {
            self.books.agent = believed;
        }
    }
}

impl World for Rig {
    type State = State;
    type Action = Action;

    fn initial(&self) -> Vec<State> {
        vec![State {
            books: Books::default(),
            pending: None,
            quarantine: Quarantine::Empty,
            trusted: false,
            on_new: false,
            applied: Applied::Never,
            ended: 0,
            attempts: 0,
            betrayed: false,
        }]
    }

    fn next(&self, state: &State, step: &mut dyn FnMut(Action, State)) {
        match state.pending {
            Some(pending) => {
                let mut next = state.clone();
                next.write(pending, self.mistake);
                step(Action::Write(pending), next);
            }
            None => state.effects(step),
        }
        for tampered in [false, true] {
            let mut next = state.clone();
            next.trusted = false;
            // While nobody looks after it, anything may happen to what lies around.
            if tampered && next.quarantine != Quarantine::Empty {
                next.quarantine = Quarantine::Whole(Image::Forged);
            }
            next.restart(self.mistake);
            step(Action::Crash { tampered }, next);
        }
    }

    fn check(&self, state: &State) -> Result<(), String> {
        if state.betrayed {
            return Err("something was applied that nobody had checked".to_owned());
        }
        let at_rest = matches!(state.books.agent, Agent::Looking | Agent::Clearing);
        if at_rest && state.in_progress() {
            return Err("the machine is left between releases".to_owned());
        }
        if matches!(state.books.agent, Agent::Looking) && state.quarantine != Quarantine::Empty {
            return Err("something is left in quarantine".to_owned());
        }
        if let Some(last) = state.books.history.last() {
            let began = state.books.agent.under().is_some();
            let says_new = last.outcome == Outcome::Completed;
            if !began && says_new != state.on_new {
                return Err(format!("the books say {:?}, the machine is on another release", last.outcome));
            }
        }
        let came_to_something =
            |outcome: &Outcome| matches!(outcome, Outcome::Completed | Outcome::RolledBack { .. });
        let ends = state.books.history.iter().filter(|attempt| came_to_something(&attempt.outcome));
        let ends: u64 = ends.map(|attempt| u64::from(attempt.times)).sum();
        if ends > state.ended {
            return Err("the books tell of a transaction that there never was".to_owned());
        }
        if state.attempts > 0
            && at_rest
            && state.books.history.iter().map(|attempt| attempt.times).sum::<u32>()
                != u32::from(state.attempts)
        {
            return Err("an attempt has no end in the books, or two".to_owned());
        }
        Ok(())
    }

    fn resting(&self, state: &State) -> bool {
        matches!(state.books.agent, Agent::Looking) && state.pending.is_none() && !state.in_progress()
    }
}
