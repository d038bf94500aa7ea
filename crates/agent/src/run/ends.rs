//! How an attempt ends, and what is left of it.

use std::time::Instant;

use logic::agent::{Books, By, Offers, Outcome, Transaction, Under};

use super::look::unknown;
use super::steps::Unfit;
use super::{Agent, Mind, RunError, now};
use crate::desk::{Desk, Request, What};
use crate::machine::Machine;
use crate::quarantine::{Checked, Trust};

fn abandoned_for(request: &Request) -> Outcome {
    let why = match request.what {
        What::Clear => "it was called off",
        _ => "something else was asked for",
    };
    Outcome::Abandoned { why: why.to_owned() }
}

impl<M: Machine, D: Desk> Agent<M, D> {
    /// The release of an attempt that may have begun; none where it has ended, or can't be told.
    pub(super) async fn begun(
        &self,
        under: &Under,
        books: &mut Books,
        mind: &mut Mind,
    ) -> Result<Option<Result<Checked, Unfit>>, RunError> {
        let found = match self.machine.found(under).await {
            Ok(found) => found,
            Err(error) => {
                self.trouble(format!("{error}; {}", error.way_out), books, mind).await;
                return Ok(None);
            }
        };
        if let Some(outcome) = found.ended(under) {
            self.ended(under, outcome, books, mind).await?;
            return Ok(None);
        }
        if found.transaction == Transaction::InProgress {
            return Ok(Some(self.release_that_began(under, mind).await));
        }
        // What never gets to its beginning must not be in the way of something else.
        if let Some(request) = self.other_request(books, mind).await? {
            self.ended(under, abandoned_for(&request), books, mind).await?;
            return Ok(None);
        }
        Ok(Some(self.release(under, mind).await?))
    }

    /// It was trusted when its transaction began, and the machine is between two releases since. Who is trusted may have changed by
    /// that very transaction, and signatures may be out of reach: that it is the same image is enough.
    async fn release_that_began(&self, under: &Under, mind: &mut Mind) -> Result<Checked, Unfit> {
        if let Ok(Ok(release)) = self.release(under, mind).await {
            return Ok(release);
        }
        let trust = Trust { unsigned: true, ..Trust::default() };
        let mut checked = self.quarantine.check(&under.target, &under.from, &trust).await;
        if checked.is_err() {
            self.quarantine.fetch(&under.target.image, &self.sources, &trust, &|_, _| {}).await?;
            checked = self.quarantine.check(&under.target, &under.from, &trust).await;
        }
        mind.checked = checked.as_ref().ok().cloned();
        Ok(checked?)
    }

    /// What can't be had any more can't be finished: the machine does not stay between two releases for it.
    pub(super) async fn undo(
        &self,
        under: &Under,
        why: String,
        books: &mut Books,
        mind: &mut Mind,
    ) -> Result<(), RunError> {
        let found = self.machine.found(under).await;
        if found.is_ok_and(|found| found.transaction == Transaction::InProgress) {
            tracing::warn!(cause = why, "what was begun can't be finished, and is undone");
            let said = |line: &str| tracing::info!("{line}");
            let undone = self.machine.roll_back(&under.target.version, &said, self.stop.flag()).await;
            if let Err(error) = undone {
                let why = format!("{why}; {error}; {}", error.way_out);
                return self.end_by_what_is_found(under, why, books, mind).await;
            }
        }
        self.end_by_what_is_found(under, why, books, mind).await
    }

    pub(super) async fn end_by_what_is_found(
        &self,
        under: &Under,
        why: String,
        books: &mut Books,
        mind: &mut Mind,
    ) -> Result<(), RunError> {
        let found = match self.machine.found(under).await {
            Ok(found) => found,
            Err(error) => {
                self.trouble(format!("{why}; {error}; {}", error.way_out), books, mind).await;
                return Ok(());
            }
        };
        match found.ended(under) {
            Some(outcome) => self.ended(under, outcome, books, mind).await,
            None if found.transaction == Transaction::InProgress => {
                self.trouble(why, books, mind).await;
                Ok(())
            }
            None => self.ended(under, Outcome::Refused { why }, books, mind).await,
        }
    }

    pub(super) async fn ended(
        &self,
        under: &Under,
        outcome: Outcome,
        books: &mut Books,
        mind: &mut Mind,
    ) -> Result<(), RunError> {
        self.tell(under, &outcome);
        books.applied(outcome, &now())?;
        // Another release runs, or another image is not to be taken again: what is on offer is to be weighed anew.
        mind.graph = None;
        mind.next_ask = Instant::now();
        self.keep(books, mind).await
    }

    pub(super) async fn refuse(
        &self,
        under: &Under,
        why: String,
        books: &mut Books,
        mind: &mut Mind,
    ) -> Result<(), RunError> {
        self.give_up(under, Outcome::Refused { why }, books, mind).await
    }

    pub(super) async fn give_up(
        &self,
        under: &Under,
        outcome: Outcome,
        books: &mut Books,
        mind: &mut Mind,
    ) -> Result<(), RunError> {
        self.tell(under, &outcome);
        books.give_up(outcome, &now())?;
        self.keep(books, mind).await
    }

    fn tell(&self, under: &Under, outcome: &Outcome) {
        let (from, to) = (&under.from, &under.target.version);
        match outcome {
            Outcome::Completed => tracing::info!(%from, %to, "updated"),
            Outcome::Unproven { why } => tracing::warn!(%from, %to, why, "updated without proof"),
            Outcome::RolledBack { why } => tracing::error!(%from, %to, why, "rolled back"),
            Outcome::Refused { why } => tracing::error!(%from, %to, why, "refused: nothing was applied"),
            Outcome::Abandoned { why } => tracing::info!(%from, %to, why, "abandoned: nothing was applied"),
            Outcome::TakenBack => {}
        }
        self.metrics.ended(outcome);
    }

    pub(super) async fn clear(&self, books: &mut Books, mind: &mut Mind) -> Result<(), RunError> {
        mind.checked = None;
        match self.quarantine.clear().await {
            Ok(()) => {
                self.machine.settle().await;
                books.cleared()?;
                self.keep(books, mind).await
            }
            Err(error) => {
                self.trouble(oci::chain(&error), books, mind).await;
                Ok(())
            }
        }
    }

    /// What a person wants instead of what is under way.
    pub(super) async fn other_request(
        &self,
        books: &mut Books,
        mind: &mut Mind,
    ) -> Result<Option<Request>, RunError> {
        self.answer_a_look(books, mind).await?;
        let request = self.desk.wishes().await?.request;
        Ok(request.filter(|request| !books.has_answered(&request.id)))
    }

    /// Whoever only wants the graph asked is answered in passing: nothing that is under way is given up for it.
    pub(super) async fn answer_a_look(&self, books: &mut Books, mind: &mut Mind) -> Result<(), RunError> {
        let mut wishes = self.desk.wishes().await?;
        let is_open = |request: &Request| request.what == What::Look && !books.has_answered(&request.id);
        let Some(request) = wishes.request.take().filter(is_open) else { return Ok(()) };
        let objection = match self.machine.running().await {
            Ok(running) => self.look_now(&wishes, &running, books, mind).await,
            Err(error) => Some(unknown(&error)),
        };
        self.answer(&request, objection, books, mind).await
    }

    pub(super) async fn abandon_for_another_request(
        &self,
        under: &Under,
        books: &mut Books,
        mind: &mut Mind,
    ) -> Result<bool, RunError> {
        let Some(request) = self.other_request(books, mind).await? else { return Ok(false) };
        self.give_up(under, abandoned_for(&request), books, mind).await?;
        Ok(true)
    }

    /// What nobody asked for is not held on to when the graph has changed its mind, which may be hours later.
    pub(super) async fn abandon_for_a_better_one(
        &self,
        under: &Under,
        books: &mut Books,
        mind: &mut Mind,
    ) -> Result<bool, RunError> {
        if under.target.by != By::Automatic || Instant::now() < mind.next_ask {
            return Ok(false);
        }
        let Ok(running) = self.machine.running().await else { return Ok(false) };
        let wishes = self.desk.wishes().await?;
        let asked = self.ask(&wishes, &running, books, mind).await;
        // Somebody may want another one meanwhile.
        self.show(books, mind).await;
        if asked.is_err() {
            return Ok(false);
        }
        let on_offer = self.offers(&running, books, mind);
        let newest = on_offer.as_ref().ok().and_then(Offers::newest).map(|offer| offer.image.as_str());
        if newest == Some(under.target.image.as_str()) {
            return Ok(false);
        }
        let why = match newest {
            Some(_) => "the graph recommends another one by now",
            None => "the graph does not recommend it any more",
        };
        self.give_up(under, Outcome::Abandoned { why: why.to_owned() }, books, mind).await?;
        Ok(true)
    }
}
