//! One thing that a person wants done: by the agent that runs, or here and now where none does.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::agent::desk::{Files, Request, What, Wishes};
use ::agent::precondition;
use ::agent::settings::Settings;
use ::agent::{Ended, Stop};
use logic::agent::{Agent as State, Attempt, Books, By, Outcome};
use logic::exit::Exit;

use super::begin::Parts;
use super::host;
use super::itself::{Itself, become_it};
use super::say;
use super::views::Answered;
use crate::cli::Global;
use crate::failure::{Failure, Result};
use crate::log::{self, LogFormat};

const LOOK: Duration = Duration::from_millis(200);

pub fn carry_out(settings: &Settings, what: What, wait: bool, global: &Global) -> Result<Answered> {
    let desk = Files::at(&settings.directory);
    let itself = Itself::new(&settings.directory);
    // First the lock: an agent that starts in between finds the request, and this one finds the agent.
    let lock = desk.lock()?;
    // The agent of a release, where one took over, does what it would have done if it ran.
    if lock.is_some()
        && wait
        && let Some(program) = itself.successor()
    {
        drop(lock);
        return left_to(&program);
    }
    refuse_unknown(what.forced(), settings)?;
    let id = match is_begun(&desk.read_wishes()?, &desk.read_books()?, &what) {
        Some(id) => id,
        None => {
            let id = uuid::Uuid::new_v4().to_string();
            let request = Request { id: id.clone(), what };
            desk.wish(|wishes| wishes.request = Some(request))?;
            id
        }
    };
    if lock.is_none() {
        if !wait {
            return Ok(Answered { id, done: false, attempt: None });
        }
        return follow(&desk, &id, global);
    }
    if !wait {
        return Err(Failure {
            exit: Exit::NotFound,
            error: "no agent runs that it could be left to".to_owned(),
            causes: vec![],
            hint: "`holdfast agent run` takes it up; or leave out --no-wait".to_owned(),
        });
    }
    log::start(LogFormat::Text);
    let stop = Arc::new(Stop::default());
    let ended = Parts::of(settings.clone(), global)?.run(&stop, Some(&id))?;
    drop(lock);
    itself.is_up();
    let interrupted = |error: &str| {
        Err(Failure {
            exit: Exit::Interrupted,
            error: error.to_owned(),
            causes: vec![],
            hint: "`holdfast agent run` goes on with it".to_owned(),
        })
    };
    match ended {
        Ended::Answered => told(&desk.read_books()?, &id),
        Ended::Stopped => interrupted("interrupted"),
        // It gets the same words, and finds by them what was begun.
        Ended::SteppedDown => match itself.successor() {
            Some(program) => left_to(&program),
            None => interrupted("the agent of the release can't be started"),
        },
    }
}

/// A name that means nothing would pass over nothing, and the update would wait for what its person believes to be passed over.
fn refuse_unknown(forced: &[String], settings: &Settings) -> Result<()> {
    let built_in = precondition::OWN.into_iter().chain(host::PRECONDITIONS).map(str::to_owned);
    let names: Vec<String> = built_in.chain(precondition::executable_names(settings)).collect();
    match forced.iter().find(|name| !names.contains(name)) {
        None => Ok(()),
        Some(unknown) => Err(Failure::usage(
            format!("there is no precondition {unknown:?}"),
            format!("--force takes {}", names.join(", ")),
        )),
    }
}

fn left_to<T>(program: &Path) -> Result<T> {
    let error = become_it(program);
    Err(Failure::new(Exit::Unexpected, &error, format!("see {}", program.display())))
}

/// The same wish again, while it is being seen to, is the same request: nothing is begun anew for it.
fn is_begun(wishes: &Wishes, books: &Books, what: &What) -> Option<String> {
    let target = &books.agent.under()?.target;
    let id = target.request.as_ref()?;
    let is_same = match what {
        What::Update { to, forced, .. } => {
            target.by == By::Person && (&target.version, &target.forced) == (to, forced)
        }
        _ => wishes.request.as_ref().is_some_and(|request| request.id == *id && request.what == *what),
    };
    is_same.then(|| id.clone())
}

/// Until the agent has seen to it, telling what it says on the way.
fn follow(desk: &Files, id: &str, global: &Global) -> Result<Answered> {
    let mut last = String::new();
    loop {
        let (books, news) = (desk.read_books()?, desk.read_news()?);
        let done = books.has_answered(id) && !is_under_way(&books, id);
        if done {
            return told(&books, id);
        }
        let blockers: Vec<String> = news
            .blockers
            .iter()
            .map(|blocker| format!("{}: {} ({})", blocker.name, blocker.why, blocker.way_out))
            .collect();
        let line = match (&news.trouble, blockers.is_empty()) {
            (Some(trouble), _) => format!("{}: {trouble}", books.agent),
            (None, false) => format!("waits for {}", blockers.join("; ")),
            (None, true) => books.agent.to_string(),
        };
        if line != last {
            say(global, &line);
            last = line;
        }
        let is_next = desk.read_wishes()?.request.is_some_and(|request| request.id == id);
        if !is_next && !desk.read_books()?.has_answered(id) {
            return Err(Failure {
                exit: Exit::Interrupted,
                error: "something else was asked for before the agent came to it".to_owned(),
                causes: vec![],
                hint: "`holdfast agent status` shows what the agent does".to_owned(),
            });
        }
        if !desk.is_running() {
            return Err(Failure {
                exit: Exit::Interrupted,
                error: "the agent has stopped".to_owned(),
                causes: vec![],
                hint: "`holdfast agent run` goes on with it".to_owned(),
            });
        }
        std::thread::sleep(LOOK);
    }
}

fn is_under_way(books: &Books, id: &str) -> bool {
    match books.agent.under() {
        Some(under) => under.target.request.as_deref() == Some(id),
        None => matches!(books.agent, State::Clearing),
    }
}

fn told(books: &Books, id: &str) -> Result<Answered> {
    let answer = books.answered.as_ref().filter(|answer| answer.request == id);
    if let Some((refused, passing)) = answer.and_then(|it| Some((it.refused.clone()?, it.passing))) {
        let exit = if passing { Exit::TryAgain } else { Exit::Refused };
        return Err(Failure { exit, error: refused, causes: vec![], hint: String::new() });
    }
    let attempt = books.history.iter().rev().find(|attempt| attempt.request.as_deref() == Some(id));
    let answered = Answered { id: id.to_owned(), done: true, attempt: attempt.cloned() };
    let Some(Attempt { from, to, outcome, .. }) = attempt else { return Ok(answered) };
    let failed = |exit: Exit, error: String, hint: &str| {
        Err(Failure { exit, error, causes: vec![], hint: hint.to_owned() })
    };
    match outcome {
        Outcome::Completed | Outcome::Unproven { .. } | Outcome::TakenBack => Ok(answered),
        Outcome::RolledBack { why } => failed(
            Exit::RolledBack,
            format!("{to} was rolled back: {why}"),
            &format!("{from} runs, with its data; `holdfast agent history` keeps this"),
        ),
        Outcome::Refused { why } => {
            failed(Exit::Refused, format!("{to} is refused, and nothing was applied: {why}"), "")
        }
        Outcome::Abandoned { why } => failed(Exit::Interrupted, format!("{to} was abandoned: {why}"), ""),
    }
}
