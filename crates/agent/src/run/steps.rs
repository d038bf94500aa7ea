//! An update is under way: one function a state.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use logic::agent::{Books, Under, hold};

use super::{Agent, LOOK_AGAIN, Mind, RunError};
use crate::desk::Desk;
use crate::machine::{Applied, Machine, Replaced};
use crate::precondition;
use crate::quarantine::{Checked, Refusal, Trust};

/// Why an image can't be used, now or ever.
pub(super) struct Unfit {
    pub why: String,
    pub passing: bool,
}

impl From<Refusal> for Unfit {
    fn from(refusal: Refusal) -> Self {
        Self { why: oci::chain(&refusal), passing: refusal.is_passing() }
    }
}

/// Between two looks at how far a download is.
const SHOW: Duration = Duration::from_secs(1);

impl<M: Machine, D: Desk> Agent<M, D> {
    pub(super) async fn fetch(
        &self,
        under: &Under,
        books: &mut Books,
        mind: &mut Mind,
    ) -> Result<(), RunError> {
        if self.abandon_for_another_request(under, books, mind).await? {
            return Ok(());
        }
        let progress = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
        let told = Arc::clone(&progress);
        let heard = move |here: u64, of: u64| {
            told.0.store(here, Ordering::Relaxed);
            told.1.store(of, Ordering::Relaxed);
        };
        let trust = self.trust().await?;
        let fetched = {
            let fetching = self.quarantine.fetch(&under.target.image, &self.sources, &trust, &heard);
            tokio::pin!(fetching);
            loop {
                tokio::select! {
                    fetched = &mut fetching => break fetched,
                    // Blobs that are whole stay; the next one goes on with them.
                    () = self.stop.asked() => return Ok(()),
                    () = self.desk.changed() => {
                        if self.other_request(books, mind).await?.is_some() {
                            break Ok(());
                        }
                    }
                    () = tokio::time::sleep(SHOW) => {
                        let (here, of) = (progress.0.load(Ordering::Relaxed), progress.1.load(Ordering::Relaxed));
                        mind.news.progress = (of > 0).then_some((here, of));
                        self.show(books, mind).await;
                    }
                }
            }
        };
        if self.abandon_for_another_request(under, books, mind).await? {
            return Ok(());
        }
        match fetched {
            Ok(()) => {
                books.fetched()?;
                self.keep(books, mind).await
            }
            Err(error) if error.is_passing() => {
                self.trouble(format!("{}; {}", oci::chain(&error), error.way_out()), books, mind).await;
                Ok(())
            }
            Err(error) => self.refuse(under, oci::chain(&error), books, mind).await,
        }
    }

    pub(super) async fn check(
        &self,
        under: &Under,
        books: &mut Books,
        mind: &mut Mind,
    ) -> Result<(), RunError> {
        match self.trusted(under).await? {
            Ok(checked) => {
                tracing::info!(to = %under.target.version, signed_by = ?checked.signed_by, "the image is trusted");
                mind.checked = Some(checked);
                books.checked()?;
                self.keep(books, mind).await
            }
            Err(refusal) if refusal.is_passing() => {
                self.trouble(oci::chain(&refusal), books, mind).await;
                Ok(())
            }
            Err(refusal) => self.refuse(under, oci::chain(&refusal), books, mind).await,
        }
    }

    /// Whoever is named in the settings, and whom the running release names, must all agree.
    async fn trust(&self) -> Result<Trust, RunError> {
        let running = self.machine.running().await.map_err(RunError::Machine)?;
        let (keys, unsigned) = (self.settings.keys.clone(), self.settings.unsigned);
        Ok(Trust { keys, running: running.keys, unsigned })
    }

    async fn trusted(&self, under: &Under) -> Result<Result<Checked, Refusal>, RunError> {
        Ok(self.quarantine.check(&under.target, &under.from, &self.trust().await?).await)
    }

    /// The release as it was checked; where nobody remembers, it is fetched as far as it is missing, and checked once more.
    pub(super) async fn release(
        &self,
        under: &Under,
        mind: &mut Mind,
    ) -> Result<Result<Checked, Unfit>, RunError> {
        if let Some(checked) = mind.checked.as_ref().filter(|checked| checked.digest == under.target.digest())
        {
            return Ok(Ok(checked.clone()));
        }
        let trust = self.trust().await?;
        let fetched = self.quarantine.fetch(&under.target.image, &self.sources, &trust, &|_, _| {}).await;
        if let Err(error) = fetched {
            return Ok(Err(error.into()));
        }
        let trusted = self.trusted(under).await?;
        mind.checked = trusted.as_ref().ok().cloned();
        Ok(trusted.map_err(Unfit::from))
    }

    /// Before anything was applied, an image that is not fit ends the attempt; what may pass is waited for.
    async fn unfit(
        &self,
        under: &Under,
        unfit: Unfit,
        books: &mut Books,
        mind: &mut Mind,
    ) -> Result<(), RunError> {
        if unfit.passing {
            self.trouble(unfit.why, books, mind).await;
            return Ok(());
        }
        self.refuse(under, unfit.why, books, mind).await
    }

    pub(super) async fn hold(
        &self,
        under: &Under,
        books: &mut Books,
        mind: &mut Mind,
    ) -> Result<(), RunError> {
        if self.abandon_for_another_request(under, books, mind).await?
            || self.abandon_for_a_better_one(under, books, mind).await?
        {
            return Ok(());
        }
        let release = match self.release(under, mind).await? {
            Ok(release) => release,
            Err(unfit) => return self.unfit(under, unfit, books, mind).await,
        };
        let wishes = self.desk.wishes().await?;
        let looking = {
            let (under, release, settings) = (under.clone(), release.clone(), self.settings.clone());
            tokio::task::spawn_blocking(move || precondition::look(&under, &release, &wishes, &settings))
        };
        let mut found = looking.await.unwrap_or_else(|error| {
            vec![precondition::unknown("preconditions", error.to_string(), "see the log")]
        });
        found.extend(self.machine.preconditions(under, &release).await);
        let blockers = hold(&found, &under.target.forced);
        if blockers.is_empty() {
            books.cleared_to_begin()?;
            return self.keep(books, mind).await;
        }
        if mind.news.blockers != blockers {
            for blocker in &blockers {
                tracing::info!(
                    precondition = blocker.name,
                    why = blocker.why,
                    way_out = blocker.way_out,
                    "held"
                );
            }
            mind.news.blockers = blockers;
            self.show(books, mind).await;
        }
        self.wait(LOOK_AGAIN.min(self.settings.period.get())).await;
        Ok(())
    }

    /// True: this one steps down.
    pub(super) async fn replace_itself(
        &self,
        under: &Under,
        books: &mut Books,
        mind: &mut Mind,
    ) -> Result<bool, RunError> {
        // A new agent that never comes up must not be in the way of its repair.
        if self.abandon_for_another_request(under, books, mind).await? {
            return Ok(false);
        }
        let release = match self.release(under, mind).await? {
            Ok(release) => release,
            Err(unfit) => {
                self.unfit(under, unfit, books, mind).await?;
                return Ok(false);
            }
        };
        match self.machine.replace_agent(under, &release).await {
            Ok(Replaced::StepDown) => {
                tracing::info!(to = %under.target.version, "the agent of the new release takes over");
                return Ok(true);
            }
            Ok(Replaced::GoOn) => {
                books.replaced()?;
                self.keep(books, mind).await?;
            }
            Err(error) if error.passing => {
                self.trouble(format!("{error}; {}", error.way_out), books, mind).await;
            }
            Err(error) => {
                self.refuse(under, format!("{error}; {}", error.way_out), books, mind).await?;
            }
        }
        Ok(false)
    }

    pub(super) async fn apply(
        &self,
        under: &Under,
        books: &mut Books,
        mind: &mut Mind,
    ) -> Result<(), RunError> {
        // Whoever did not come here by itself, or tries again, looks first: it may have begun, and somebody else may have ended it.
        let release = if mind.troubles > 0 || mind.checked.is_none() {
            match self.begun(under, books, mind).await? {
                Some(release) => release,
                None => return Ok(()),
            }
        } else {
            self.release(under, mind).await?
        };
        let release = match release {
            Ok(release) => release,
            Err(unfit) if unfit.passing => return self.unfit(under, unfit, books, mind).await,
            Err(unfit) => return self.undo(under, unfit.why, books, mind).await,
        };
        let said = |line: &str| tracing::info!(to = %under.target.version, "{line}");
        match self.machine.apply(under, &release, &said, self.stop.flag()).await {
            Ok(Applied::Ended(outcome)) => self.ended(under, outcome, books, mind).await,
            Ok(Applied::Interrupted) if self.stop.is_asked() => Ok(()),
            Ok(Applied::Interrupted) => {
                self.trouble("the transaction was interrupted".to_owned(), books, mind).await;
                Ok(())
            }
            Err(error) if error.passing => {
                self.trouble(format!("{error}; {}", error.way_out), books, mind).await;
                Ok(())
            }
            Err(error) => {
                let why = format!("{error}; {}", error.way_out);
                self.end_by_what_is_found(under, why, books, mind).await
            }
        }
    }
}
