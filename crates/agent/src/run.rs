//! The loop: reads the books, does what their state asks for, writes down what came of it, and so on.
//!
//! Architecture invariant: nothing is done here that the books do not say is being done, and each transition is on disk
//! before the next effect. What fails in passing is tried again where it stands; what fails for good ends the attempt.

mod ends;
mod look;
mod steps;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use logic::agent::{Agent as State, Asked, Books, Risks};
use logic::graph::document::Document;
use tokio::sync::Notify;

use crate::ask;
use crate::desk::{Desk, DeskError, News, Wishes};
use crate::machine::{Machine, MachineError};
use crate::metrics::Metrics;
use crate::quarantine::{Checked, Quarantine, Sources};
use crate::settings::Settings;

/// Asks the agent to stop: at once where it waits, at the next safe place where it works.
#[derive(Debug, Default)]
pub struct Stop {
    flag: AtomicBool,
    told: Notify,
}

impl Stop {
    pub fn stop(&self) {
        self.flag.store(true, Ordering::SeqCst);
        self.told.notify_waiters();
    }

    pub fn is_asked(&self) -> bool {
        self.flag.load(Ordering::SeqCst)
    }

    /// For those who look now and then.
    pub fn flag(&self) -> &AtomicBool {
        &self.flag
    }

    pub async fn asked(&self) {
        loop {
            let told = self.told.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            if self.is_asked() {
                return;
            }
            told.await;
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Stopped,
    /// Another agent goes on.
    SteppedDown,
    /// The request that it ran for was seen to.
    Answered,
}

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("the agent's books")]
    Desk(#[from] DeskError),
    #[error("what runs here can't be found out")]
    Machine(#[source] MachineError),
    #[error("cannot set up access to the graph: {0}")]
    Client(String),
    #[error("a mistake of this program")]
    Illegal(#[from] logic::agent::Illegal),
}

impl RunError {
    pub fn way_out(&self) -> String {
        match self {
            Self::Desk(error) => error.way_out.clone(),
            Self::Machine(error) => error.way_out.clone(),
            Self::Client(_) => "see ca-file and proxy in [agent]".to_owned(),
            Self::Illegal(_) => "report it, with books.json".to_owned(),
        }
    }
}

/// What the agent works with.
pub struct Agent<M, D> {
    pub machine: M,
    pub desk: D,
    pub quarantine: Quarantine,
    /// Where images and signatures come from.
    pub sources: Sources,
    pub settings: Settings,
    /// Of this machine, for graph services: a UUID.
    pub id: String,
    pub stop: Arc<Stop>,
    pub metrics: Arc<Metrics>,
}

/// What it has in mind; a restart begins without it.
struct Mind {
    client: reqwest::Client,
    graph: Option<Document>,
    asked: Asked,
    next_ask: Instant,
    /// Answers of the graph since an attempt ended.
    answers: u32,
    /// The graph has answered since the last choice.
    fresh: bool,
    risks: Risks,
    began: Instant,
    news: News,
    checked: Option<Checked>,
    /// Failures in passing, in a row.
    troubles: u32,
}

/// Pauses after what failed in passing.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Between two looks at what stands in the way.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// What woke it.
enum Woken {
    Time,
    Wishes,
    Stop,
}

impl<M: Machine, D: Desk> Agent<M, D> {
    /// Runs until it is stopped, steps down, or the request `until` is seen to.
    pub async fn run(&self, until: Option<&str>) -> Result<Ended, RunError> {
        let mut mind = self.mind()?;
        let mut books = self.take_up().await?;
        self.keep(&books, &mut mind).await?;
        loop {
            if self.stop.is_asked() {
                return Ok(Ended::Stopped);
            }
            let is_over = match books.agent.under() {
                // What is being applied comes to its end first.
                Some(_) if matches!(books.agent, State::Applying(_)) => false,
                // Somebody else's, which was taken up: it is left to whoever runs for longer.
                Some(under) => {
                    let other = under.target.request.as_deref() != until;
                    self.answer_a_look(&mut books, &mut mind).await?;
                    other
                }
                None => matches!(books.agent, State::Looking),
            };
            if is_over && until.is_some_and(|request| books.has_answered(request)) {
                return Ok(Ended::Answered);
            }
            self.metrics.state(books.agent.name());
            match books.agent.clone() {
                State::Looking => self.look(&mut books, &mut mind).await?,
                State::Fetching(under) => self.fetch(&under, &mut books, &mut mind).await?,
                State::Checking(under) => self.check(&under, &mut books, &mut mind).await?,
                State::Holding(under) => self.hold(&under, &mut books, &mut mind).await?,
                State::ReplacingItself(under) => {
                    if self.replace_itself(&under, &mut books, &mut mind).await? {
                        return Ok(Ended::SteppedDown);
                    }
                }
                State::Applying(under) => self.apply(&under, &mut books, &mut mind).await?,
                State::Clearing => self.clear(&mut books, &mut mind).await?,
            }
        }
    }

    fn mind(&self) -> Result<Mind, RunError> {
        let client = ask::client(&self.settings).map_err(RunError::Client)?;
        let now = Instant::now();
        let first = logic::agent::next_ask(self.settings.period.get(), Asked::NotYet, chance());
        Ok(Mind {
            client,
            graph: None,
            asked: Asked::NotYet,
            next_ask: now + first,
            answers: 0,
            fresh: false,
            risks: Risks::default(),
            began: now,
            news: News::default(),
            checked: None,
            troubles: 0,
        })
    }

    /// What a dead agent left, by what is found.
    async fn take_up(&self) -> Result<Books, RunError> {
        let mut books = self.desk.books().await?;
        let found = match books.agent.under() {
            Some(under) => {
                tracing::info!(state = books.agent.name(), to = %under.target.version, "an update is taken up");
                self.machine.found(under).await.map_err(RunError::Machine)?
            }
            None => {
                let running = self.machine.running().await.map_err(RunError::Machine)?;
                logic::agent::Found { running: running.version, transaction: logic::agent::Transaction::None }
            }
        };
        books.take_up(&found, &now());
        Ok(books)
    }

    /// On disk, then shown.
    async fn keep(&self, books: &Books, mind: &mut Mind) -> Result<(), RunError> {
        self.desk.keep(books).await?;
        mind.troubles = 0;
        mind.news.trouble = None;
        mind.news.blockers.clear();
        mind.news.progress = None;
        mind.news.step = None;
        self.show(books, mind).await;
        Ok(())
    }

    async fn show(&self, books: &Books, mind: &mut Mind) {
        if let Ok(wishes) = self.desk.wishes().await {
            let news = &mut mind.news;
            news.channel = self.channel(&wishes).to_owned();
            news.upstream = self.upstream(&wishes).to_owned();
            news.automatic = self.is_automatic(&wishes);
            news.paused.clone_from(&wishes.paused);
        }
        self.desk.show(books, &mind.news).await;
    }

    fn channel<'a>(&'a self, wishes: &'a Wishes) -> &'a str {
        wishes.channel.as_deref().or(self.settings.channel.as_deref()).unwrap_or_default()
    }

    fn upstream<'a>(&'a self, wishes: &'a Wishes) -> &'a str {
        wishes.upstream.as_deref().or(self.settings.upstream.as_deref()).unwrap_or_default()
    }

    fn is_automatic(&self, wishes: &Wishes) -> bool {
        wishes.automatic.unwrap_or(self.settings.automatic)
    }

    /// Says what is wrong, and waits before it is tried again.
    async fn trouble(&self, why: String, books: &Books, mind: &mut Mind) -> Woken {
        tracing::warn!(state = books.agent.name(), cause = why, "tried again later");
        mind.news.trouble = Some(why);
        mind.troubles = mind.troubles.saturating_add(1);
        self.show(books, mind).await;
        let pause = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(mind.troubles - 1)).min(LONGEST_PAUSE);
        self.wait(pause).await
    }

    async fn wait(&self, pause: Duration) -> Woken {
        tokio::select! {
            () = tokio::time::sleep(pause) => Woken::Time,
            () = self.desk.changed() => Woken::Wishes,
            () = self.stop.asked() => Woken::Stop,
        }
    }
}

fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Anything; it spreads the questions of a fleet.
fn chance() -> u32 {
    u32::from_le_bytes(uuid::Uuid::new_v4().into_bytes()[..4].try_into().unwrap_or_default())
}
