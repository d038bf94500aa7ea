//! Nothing is under way: the graph is asked now and then, and somebody or nobody chooses an update.

use std::time::Instant;

use logic::agent::{
    Asked, Books, By, Next, Objection, Offer, Offers, Outcome, Standing, Target, next_ask, offers,
    other_channels, risks_from, try_again,
};

use super::{Agent, Mind, RunError, chance, now};
use crate::ask::{AskError, Question, ask};
use crate::desk::{Desk, Request, What, Wishes};
use crate::machine::{Machine, MachineError, Running};
use crate::prometheus::evaluate;

/// What can be said to whoever asks for something.
pub(super) fn unknown(error: &MachineError) -> Objection {
    let why = format!("what runs here can't be found out: {error}; {}", error.way_out);
    Objection { why, passing: error.passing }
}

impl From<&AskError> for Objection {
    fn from(error: &AskError) -> Self {
        Self { why: format!("{}; {}", oci::chain(error), error.way_out()), passing: error.is_passing() }
    }
}

impl<M: Machine, D: Desk> Agent<M, D> {
    pub(super) async fn look(&self, books: &mut Books, mind: &mut Mind) -> Result<(), RunError> {
        let wishes = self.desk.wishes().await?;
        let request = wishes.request.as_ref().filter(|request| !books.has_answered(&request.id));
        let running = match self.machine.running().await {
            Ok(running) => running,
            Err(error) => {
                let objection = unknown(&error);
                if let Some(request) = request {
                    self.answer(request, Some(objection.clone()), books, mind).await?;
                }
                self.trouble(objection.why, books, mind).await;
                return Ok(());
            }
        };
        mind.news.running = Some(running.version.clone());
        if books.was_taken_back(&running.version, request.map(|request| request.id.as_str()), &now()) {
            self.keep(books, mind).await?;
        }
        if let Some(request) = request {
            return self.see_to(request, &wishes, &running, books, mind).await;
        }
        if Instant::now() >= mind.next_ask {
            let _ = self.ask(&wishes, &running, books, mind).await;
        }
        let on_offer = self.offers(&running, books, mind);
        if self.is_automatic(&wishes) && wishes.paused.is_none() && std::mem::take(&mut mind.fresh) {
            let chosen = on_offer.as_ref().ok().and_then(Offers::newest).cloned();
            if let Some(offer) = chosen
                && let Some(target) = target(offer, By::Automatic, &[], None)
                && try_again(books.refusals(target.digest()), mind.answers)
            {
                return self.begin(target, &running, books, mind).await;
            }
        }
        self.show(books, mind).await;
        let pause = mind.next_ask.saturating_duration_since(Instant::now());
        self.wait(pause).await;
        Ok(())
    }

    /// Asks the graph, and whoever knows about the risks of the ways from here.
    pub(super) async fn ask(
        &self,
        wishes: &Wishes,
        running: &Running,
        books: &Books,
        mind: &mut Mind,
    ) -> Result<(), AskError> {
        let question = Question {
            upstream: self.upstream(wishes),
            channel: self.channel(wishes),
            version: &running.version,
            id: &self.id,
        };
        self.metrics.asked();
        let answer = tokio::select! {
            answer = ask(&question, &mind.client) => answer,
            () = self.stop.asked() => Err(AskError::Stopped),
        };
        let outcome = match answer {
            Ok(graph) => {
                mind.graph = Some(graph);
                mind.asked = Asked::Answered;
                mind.news.asked = Some(now());
                mind.news.trouble = None;
                mind.answers = mind.answers.saturating_add(1);
                mind.fresh = true;
                self.weigh_risks(running, mind).await;
                Ok(())
            }
            Err(error) => {
                // What was last known goes on holding.
                let times = if let Asked::Failed { times, .. } = mind.asked { times } else { 0 };
                mind.asked =
                    Asked::Failed { times: times.saturating_add(1), told_to_wait: error.told_to_wait() };
                let why = oci::chain(&error);
                tracing::warn!(cause = why, "the graph gives no answer");
                mind.news.trouble = Some(format!("{why}; {}", error.way_out()));
                self.metrics.unanswered();
                Err(error)
            }
        };
        mind.next_ask = Instant::now() + next_ask(self.settings.period.get(), mind.asked, chance());
        let available = self.offers(running, books, mind);
        match available {
            Ok(offers) => mind.news.available = offers,
            Err(why) => {
                mind.news.available = Offers::default();
                if outcome.is_ok() {
                    mind.news.trouble = Some(why);
                }
            }
        }
        outcome
    }

    /// At most one question a second, and none twice in a while: `logic` says which.
    async fn weigh_risks(&self, running: &Running, mind: &mut Mind) {
        let Some(graph) = mind.graph.take() else { return };
        loop {
            let now = u64::try_from(mind.began.elapsed().as_millis()).unwrap_or(u64::MAX);
            match mind.risks.next(risks_from(&graph, &running.version), now) {
                Next::Ask(query) => {
                    let answer = tokio::select! {
                        answer = evaluate(query, &self.settings, &mind.client) => answer,
                        () = self.stop.asked() => break,
                    };
                    let now = u64::try_from(mind.began.elapsed().as_millis()).unwrap_or(u64::MAX);
                    mind.risks.learn(query, answer, now);
                }
                Next::Wait(until) => {
                    let pause = std::time::Duration::from_millis(until.saturating_sub(now));
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = self.stop.asked() => break,
                    }
                }
                Next::Settled(_) => break,
            }
        }
        mind.graph = Some(graph);
    }

    pub(super) fn offers(&self, running: &Running, books: &Books, mind: &Mind) -> Result<Offers, String> {
        let Some(graph) = &mind.graph else { return Ok(Offers::default()) };
        offers(graph, &running.version, &books.rolled_back, &mind.risks).map_err(|error| error.to_string())
    }

    async fn see_to(
        &self,
        request: &Request,
        wishes: &Wishes,
        running: &Running,
        books: &mut Books,
        mind: &mut Mind,
    ) -> Result<(), RunError> {
        let objection = match &request.what {
            What::Look => self.look_now(wishes, running, books, mind).await,
            What::Clear => None,
            What::RollBack => self.take_back(request, running, books, mind).await?,
            What::Update { to, anyway, forced } => {
                let asked = self.ask(wishes, running, books, mind).await;
                match chosen(self.offers(running, books, mind), to, running, *anyway) {
                    Ok(offer) => match target(offer, By::Person, forced, Some(&request.id)) {
                        Some(target) => return self.begin(target, running, books, mind).await,
                        None => Some(for_good("the graph does not name its image by digest".to_owned())),
                    },
                    Err(why) => Some(match asked {
                        Err(error) => Objection::from(&error),
                        Ok(()) => for_good(why),
                    }),
                }
            }
            What::From { image, forced } => match self.quarantine.identify(image, &self.sources).await {
                Ok((digest, version)) => {
                    let image = with_digest(image, &digest);
                    let (by, request) = (By::Offline, Some(request.id.clone()));
                    let target = Target { version, image, by, forced: forced.clone(), request };
                    return self.begin(target, running, books, mind).await;
                }
                Err(error) => Some(Objection { why: oci::chain(&error), passing: error.is_passing() }),
            },
        };
        self.answer(request, objection, books, mind).await
    }

    /// Nothing was begun for it. What else is shown goes on being shown.
    pub(super) async fn answer(
        &self,
        request: &Request,
        objection: Option<Objection>,
        books: &mut Books,
        mind: &mut Mind,
    ) -> Result<(), RunError> {
        if let Some(Objection { why, .. }) = &objection {
            tracing::warn!(cause = why, "a request is refused");
        }
        books.answer(&request.id, objection);
        self.desk.keep(books).await?;
        self.show(books, mind).await;
        Ok(())
    }

    /// For a person who wants to know what the graph offers.
    pub(super) async fn look_now(
        &self,
        wishes: &Wishes,
        running: &Running,
        books: &Books,
        mind: &mut Mind,
    ) -> Option<Objection> {
        if let Err(error) = self.ask(wishes, running, books, mind).await {
            return Some(Objection::from(&error));
        }
        let channel = self.channel(wishes);
        let why = match self.offers(running, books, mind) {
            Ok(Offers(offers)) if !offers.is_empty() => return None,
            Ok(_) => {
                let others = other_channels(mind.graph.as_ref()?, &running.version, channel)?;
                format!("{} is not in it, but in {others}", running.version)
            }
            Err(why) => why,
        };
        Some(for_good(format!("the graph of channel {channel:?}: {why}; see `holdfast agent set --channel`")))
    }

    async fn take_back(
        &self,
        request: &Request,
        running: &Running,
        books: &mut Books,
        mind: &mut Mind,
    ) -> Result<Option<Objection>, RunError> {
        let from = books.go_back(&request.id, &running.version, running.digest.clone());
        self.keep(books, mind).await?;
        let said = |line: &str| tracing::info!("{line}");
        match self.machine.roll_back(&from, &said, self.stop.flag()).await {
            Ok(()) => {
                let now_runs = self.machine.running().await.map_or_else(|_| from.clone(), |it| it.version);
                tracing::info!(%from, to = %now_runs, "taken back");
                books.went_back(&now_runs, &now());
                self.metrics.ended(&Outcome::TakenBack);
                mind.news.running = Some(now_runs);
                // What was on offer was so to another release.
                mind.graph = None;
                mind.next_ask = Instant::now();
                Ok(None)
            }
            Err(error) => {
                // What passes may yet come to its end: a machine that boots for it.
                if !error.passing {
                    books.stayed();
                }
                Ok(Some(Objection { why: format!("{error}; {}", error.way_out), passing: error.passing }))
            }
        }
    }

    async fn begin(
        &self,
        target: Target,
        running: &Running,
        books: &mut Books,
        mind: &mut Mind,
    ) -> Result<(), RunError> {
        let since = match self.machine.ended().await {
            Ok(since) => since,
            Err(error) => {
                self.trouble(error.to_string(), books, mind).await;
                return Ok(());
            }
        };
        tracing::info!(from = %running.version, to = %target.version, image = target.image, "an update begins");
        mind.answers = 0;
        books.begin(target, &running.version, since)?;
        self.keep(books, mind).await
    }
}

fn for_good(why: String) -> Objection {
    Objection { why, passing: false }
}

fn chosen(
    offers: Result<Offers, String>,
    to: &semver::Version,
    running: &Running,
    anyway: bool,
) -> Result<Offer, String> {
    if *to == running.version {
        return Err(format!("{to} runs already"));
    }
    let offers = offers?;
    let Some(offer) = offers.get(to) else {
        let names: Vec<String> = offers.0.iter().map(|offer| offer.version.to_string()).collect();
        let others = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        return Err(format!("the graph does not offer {to} from {}; it offers {others}", running.version));
    };
    match (offer.standing, offer.standing.why_not()) {
        (_, None) => Ok(offer.clone()),
        (Standing::NotRecommended | Standing::RolledBack, _) if anyway => Ok(offer.clone()),
        (Standing::NotRecommended, Some(why)) => {
            let risks = offer.risks.iter().filter(|risk| risk.verdict.is_in_the_way());
            let risks: Vec<String> = risks.map(|risk| format!("{}: {}", risk.name, risk.message)).collect();
            Err(format!("{to}: {why} ({}); `--anyway` takes it", risks.join("; ")))
        }
        (Standing::RolledBack, Some(why)) => Err(format!("{to}: {why}; `--anyway` takes it again")),
        (_, Some(why)) => Err(format!("{to}: {why}")),
    }
}

fn target(offer: Offer, by: By, forced: &[String], request: Option<&String>) -> Option<Target> {
    let Offer { version, image, .. } = offer;
    let target = Target { version, image, by, forced: forced.to_vec(), request: request.cloned() };
    (!target.digest().is_empty()).then_some(target)
}

/// `oci:DIR:TAG` and `oci:DIR` become `oci:DIR@DIGEST`: whoever writes to a stick meanwhile changes nothing.
fn with_digest(image: &str, digest: &str) -> String {
    let name = image.split_once('@').map_or(image, |(name, _)| name);
    let name = match name.strip_prefix("oci:").and_then(|rest| rest.rsplit_once(':')) {
        Some((directory, tag)) if !tag.contains('/') => format!("oci:{directory}"),
        _ => name.to_owned(),
    };
    format!("{name}@{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_carried_in_is_held_by_its_digest() {
        for image in ["oci:/mnt/stick:2.0.0", "oci:/mnt/stick", "oci:/mnt/stick@sha256:00"] {
            assert_eq!(with_digest(image, "sha256:ab"), "oci:/mnt/stick@sha256:ab");
        }
    }
}
