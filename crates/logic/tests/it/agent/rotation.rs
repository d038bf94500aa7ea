//! A cluster whose releases bring the keys of their successors: three of them, each signed by a key of the one before. Agents crash,
//! and take over from each other, before and after every write.

use logic::agent::{Agent, Begun, Books, By, Found, Outcome, RolledOut, Rollout, RunningRelease, Target};
use semver::Version;
use testkit::explore::World;

/// The release of which there is no next one.
const LAST: u64 = 3;

/// Whose signature the image of a release has. The key of a release is named by its number, and there is one of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Signed {
    /// By the key that the release before it brought.
    Rightly,
    /// By the key of before that, which somebody may have found since.
    ByAnOldKey,
    /// By the key that it brings itself.
    ByItsOwnKey,
}

const SIGNED: [Signed; 3] = [Signed::Rightly, Signed::ByAnOldKey, Signed::ByItsOwnKey];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confusion {
    /// Keys of a release count as soon as it begins.
    TooEarly,
    /// Keys of a release never count.
    Never,
    /// Keys of a release count although it was given up.
    OfWhatWasGivenUp,
}

impl Confusion {
    pub const ALL: [Self; 3] = [Self::TooEarly, Self::Never, Self::OfWhatWasGivenUp];
}

pub struct Cluster {
    pub confusion: Option<Confusion>,
}

/// What an effect came to, before it is in the books.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Pending {
    Fetched,
    Judged { fit: bool },
    Replaced,
    Ended(Outcome),
    Cleared,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    books: Books,
    rollout: Rollout<u64>,
    pending: Option<Pending>,
    /// By this very agent, which remembers it.
    checked: bool,
    /// A person may want something else, once.
    gave_up: bool,
    betrayed: bool,
}

#[derive(Debug)]
// Read by their Debug, in counter-examples.
#[allow(dead_code)]
pub enum Action {
    Offer(Signed),
    Fetch,
    Check,
    Hold,
    ReplaceItself,
    Begin,
    Finish,
    GiveUp,
    Clear,
    Write(Pending),
    /// A crash, or another agent that takes over: it remembers nothing.
    Again,
}

fn target(number: u64, signed: Signed) -> Target {
    let image = format!("registry.example/r@sha256:{number}{}", signed as u8);
    Target { version: Version::new(number, 0, 0), image, by: By::Person, forced: vec![], request: None }
}

fn signer(number: u64, signed: Signed) -> u64 {
    match signed {
        Signed::Rightly => number - 1,
        Signed::ByAnOldKey => number - 2,
        Signed::ByItsOwnKey => number,
    }
}

/// Of the image that an attempt is for.
fn signer_of(target: &Target) -> u64 {
    let number = target.version.major;
    let signed = SIGNED.into_iter().find(|signed| self::target(number, *signed).image == target.image);
    signer(number, signed.unwrap())
}

impl State {
    fn running(&self) -> Version {
        self.rollout.running.as_ref().unwrap().version.clone()
    }

    fn begin(&mut self, target: &Target, from: &Version, confusion: Option<Confusion>) {
        // What counts is whose keys they are, not what is written down as such.
        self.betrayed |= !self.checked || signer_of(target) != from.major;
        let (version, image) = (target.version.clone(), target.image.clone());
        self.rollout.begin(Begun { version, image, verified: true, done: 0, of: 1, at: None });
        if confusion == Some(Confusion::TooEarly) {
            self.rollout.running.as_mut().unwrap().keys = Some(target.version.major);
        }
    }

    fn end(&mut self, target: &Target, given_up: bool, confusion: Option<Confusion>) {
        let brought = Some(target.version.major);
        let before = self.rollout.keys().copied();
        let keys = if confusion == Some(Confusion::Never) { before } else { brought };
        let how = if given_up { RolledOut::GivenUp } else { RolledOut::All { keys } };
        self.rollout.end(&target.image, how);
        if given_up && confusion == Some(Confusion::OfWhatWasGivenUp) {
            self.rollout.running.as_mut().unwrap().keys = brought;
        }
        let outcome = if given_up { Outcome::Abandoned { why: String::new() } } else { Outcome::Completed };
        self.pending = Some(Pending::Ended(outcome));
    }

    fn write(&mut self) {
        let Some(pending) = self.pending.take() else { return };
        let books = &mut self.books;
        match pending {
            Pending::Fetched => books.fetched().unwrap(),
            Pending::Judged { fit: true } => books.checked().unwrap(),
            Pending::Judged { fit: false } => {
                books.give_up(Outcome::Refused { why: String::new() }, "").unwrap();
            }
            Pending::Replaced => books.replaced().unwrap(),
            Pending::Ended(outcome) => books.applied(outcome, "").unwrap(),
            Pending::Cleared => books.cleared().unwrap(),
        }
        self.forget();
    }

    fn again(&mut self) {
        (self.pending, self.checked) = (None, false);
        let transaction = match self.books.agent.under() {
            Some(under) => self.rollout.became_of(under),
            None => logic::agent::Transaction::None,
        };
        self.books.take_up(&Found { running: self.running(), transaction }, "");
        self.forget();
    }

    /// What came of attempts is the business of the other walk; without it there are few states, and any number of attempts.
    fn forget(&mut self) {
        self.books.history.clear();
    }
}

impl World for Cluster {
    type State = State;
    type Action = Action;

    fn initial(&self) -> Vec<State> {
        let running = RunningRelease { version: Version::new(1, 0, 0), image: String::new(), keys: Some(1) };
        vec![State {
            books: Books::default(),
            rollout: Rollout { running: Some(running), ..Rollout::default() },
            pending: None,
            checked: false,
            gave_up: false,
            betrayed: false,
        }]
    }

    fn next(&self, state: &State, step: &mut dyn FnMut(Action, State)) {
        let mut to = |action, change: &dyn Fn(&mut State)| {
            let mut next = state.clone();
            change(&mut next);
            step(action, next);
        };
        to(Action::Again, &State::again);
        if let Some(pending) = &state.pending {
            return to(Action::Write(pending.clone()), &State::write);
        }
        match &state.books.agent {
            Agent::Looking => {
                let running = state.running();
                for signed in SIGNED.into_iter().filter(|_| running.major < LAST) {
                    to(Action::Offer(signed), &|next| {
                        let target = target(running.major + 1, signed);
                        next.books.begin(target, &running, next.rollout.ended).unwrap();
                    });
                }
            }
            Agent::Fetching(_) => to(Action::Fetch, &|next| next.pending = Some(Pending::Fetched)),
            Agent::Checking(under) => to(Action::Check, &|next| {
                next.checked = next.rollout.keys() == Some(&signer_of(&under.target));
                next.pending = Some(Pending::Judged { fit: next.checked });
            }),
            Agent::Holding(_) => to(Action::Hold, &|next| next.books.cleared_to_begin().unwrap()),
            Agent::ReplacingItself(_) => {
                to(Action::ReplaceItself, &|next| next.pending = Some(Pending::Replaced));
            }
            Agent::Applying(under) if state.rollout.under.is_none() => {
                to(Action::Begin, &|next| next.begin(&under.target, &under.from, self.confusion));
            }
            Agent::Applying(under) => {
                to(Action::Finish, &|next| next.end(&under.target, false, self.confusion));
                if !state.gave_up {
                    to(Action::GiveUp, &|next| {
                        next.gave_up = true;
                        next.end(&under.target, true, self.confusion);
                    });
                }
            }
            Agent::Clearing => to(Action::Clear, &|next| {
                next.checked = false;
                next.pending = Some(Pending::Cleared);
            }),
        }
    }

    fn check(&self, state: &State) -> Result<(), String> {
        if state.betrayed {
            return Err("something was begun that who must sign it did not sign".to_owned());
        }
        let at_rest = matches!(state.books.agent, Agent::Looking | Agent::Clearing);
        if at_rest && state.rollout.under.is_some() {
            return Err("the cluster is left between releases".to_owned());
        }
        Ok(())
    }

    /// From everywhere, it is possible to come to the last release: never is nobody left who could sign.
    fn resting(&self, state: &State) -> bool {
        matches!(state.books.agent, Agent::Looking) && state.running().major == LAST
    }
}
