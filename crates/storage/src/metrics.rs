//! What is counted, and the page that shows it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use logic::storage::{Phase, Resource};
use service::{Counter, Page};

use crate::api::Progress;

/// The prefix of every name.
const PREFIX: &str = "holdfast_storage";

/// Counts by plain numbers where only one thing is counted; by name where there are several, a few hundred at most.
#[derive(Debug, Default)]
pub struct Metrics {
    objects: Mutex<BTreeMap<Resource, Objects>>,
    requests: Mutex<BTreeMap<(&'static str, Option<u16>), u64>>,
    migrations: Mutex<BTreeMap<&'static str, u64>>,
    pass: Mutex<Duration>,
    throttled: Counter,
    at_once: Counter,
    passes: Counter,
    pass_failures: Counter,
    /// Whether the last look failed.
    failing: Counter,
    leader: Counter,
    disputed: Counter,
    unreadable: Counter,
}

#[derive(Debug, Default)]
struct Objects {
    migrated: u64,
    failed: u64,
    /// None where nothing is under way.
    progress: Option<Progress>,
}

/// A gauge that a migration has while it is under way: its name, its meaning, and what it shows, where that is known.
type Shown = (&'static str, &'static str, fn(&Progress) -> Option<u64>);

const SHOWN: [Shown; 3] = [
    ("remaining_objects", "Objects still to write, as the API server estimates it.", |it| it.remaining),
    ("objects_per_second", "Objects a second, lately.", |it| Some(it.per_second)),
    ("remaining_seconds", "The time that the remaining objects take at this rate.", |it| it.seconds_left),
];

impl Metrics {
    /// An object is stored in the current version now.
    pub fn migrated(&self, resource: &Resource) {
        self.objects(resource, |it| it.migrated += 1);
    }

    /// An object was given up.
    pub fn failed(&self, resource: &Resource) {
        self.objects(resource, |it| it.failed += 1);
    }

    /// How a migration of it comes along, while there is one.
    pub fn progress(&self, resource: &Resource, progress: Option<&Progress>) {
        self.objects(resource, |it| it.progress = progress.cloned());
    }

    /// A request was answered with this status, or not at all.
    pub fn request(&self, verb: &'static str, status: Option<u16>) {
        *held(&self.requests).entry((verb, status)).or_default() += 1;
    }

    pub fn throttled(&self) {
        self.throttled.add();
    }

    /// How many writes may be under way.
    pub fn at_once(&self, writes: usize) {
        self.at_once.set(writes as u64);
    }

    /// All migrations that there are, by how far they are.
    pub fn migrations(&self, phases: impl IntoIterator<Item = Phase>) {
        let mut counts = BTreeMap::from([("pending", 0), ("running", 0), ("succeeded", 0), ("failed", 0)]);
        for phase in phases {
            *counts.entry(name(phase)).or_default() += 1;
        }
        *held(&self.migrations) = counts;
    }

    /// The trigger looked at everything.
    pub fn passed(&self, took: Duration, disputed: usize, unreadable: usize) {
        self.failing.set(0);
        self.passes.add();
        *held(&self.pass) = took;
        self.disputed.set(disputed as u64);
        self.unreadable.set(unreadable as u64);
    }

    pub fn pass_failed(&self) {
        self.failing.set(1);
        self.pass_failures.add();
    }

    pub fn leads(&self, leads: bool) {
        self.leader.set(u64::from(leads));
    }

    /// Whether it does what it is there for: whoever does not lead waits, and whoever does could look at everything.
    pub fn is_at_work(&self) -> Result<(), &'static str> {
        match (self.leader.get(), self.failing.get()) {
            (1, 1) => Err("the last look at the API servers failed"),
            _ => Ok(()),
        }
    }

    /// The page, in the form that Prometheus reads.
    pub fn text(&self) -> String {
        let mut page = Page::new(PREFIX);
        self.write_objects(&mut page);
        page.head(
            "requests_total",
            "counter",
            "Requests of the migrator, by verb and status; 0 is no answer.",
        );
        for ((verb, status), count) in &*held(&self.requests) {
            let code = status.unwrap_or(0).to_string();
            page.line("requests_total", &[("verb", verb), ("code", &code)], count);
        }
        page.head("migrations", "gauge", "Migrations that there are, by how far they are.");
        for (phase, count) in &*held(&self.migrations) {
            page.line("migrations", &[("phase", phase)], count);
        }
        for (name, kind, help, counter) in [
            ("throttled_total", "counter", "Answers that asked for fewer requests.", &self.throttled),
            ("writes_at_once", "gauge", "Writes that may be under way.", &self.at_once),
            ("passes_total", "counter", "Looks of the trigger at everything.", &self.passes),
            (
                "pass_failures_total",
                "counter",
                "Looks at which nothing could be decided.",
                &self.pass_failures,
            ),
            ("leader", "gauge", "Whether this controller leads.", &self.leader),
            ("disputed_resources", "gauge", "Resources that API servers store differently.", &self.disputed),
            ("unreadable_groups", "gauge", "Groups whose discovery can't be read.", &self.unreadable),
        ] {
            page.head(name, kind, help);
            page.line(name, &[], counter.get());
        }
        page.head("pass_seconds", "gauge", "How long the last look at everything took.");
        page.line("pass_seconds", &[], held(&self.pass).as_secs_f64());
        page.finish()
    }

    fn write_objects(&self, page: &mut Page) {
        let objects = held(&self.objects);
        page.head("objects_migrated_total", "counter", "Objects stored in the current version.");
        for (resource, count) in &*objects {
            page.line("objects_migrated_total", &[("resource", &resource.to_string())], count.migrated);
        }
        page.head("objects_failed_total", "counter", "Objects that could not be written.");
        for (resource, count) in &*objects {
            page.line("objects_failed_total", &[("resource", &resource.to_string())], count.failed);
        }
        for (name, help, shows) in SHOWN {
            page.head(name, "gauge", help);
            for (resource, count) in &*objects {
                if let Some(shown) = count.progress.as_ref().and_then(shows) {
                    page.line(name, &[("resource", &resource.to_string())], shown);
                }
            }
        }
    }

    fn objects(&self, resource: &Resource, count: impl FnOnce(&mut Objects)) {
        let mut objects = held(&self.objects);
        match objects.get_mut(resource) {
            Some(known) => count(known),
            None => count(objects.entry(resource.clone()).or_default()),
        }
    }
}

fn name(phase: Phase) -> &'static str {
    match phase {
        Phase::Pending => "pending",
        Phase::Running => "running",
        Phase::Succeeded => "succeeded",
        Phase::Failed => "failed",
    }
}

/// Counts are true at any time; whoever panicked left them whole.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_shows_what_was_counted() {
        let metrics = Metrics::default();
        let jobs = Resource::new("batch", "cronjobs");
        metrics.migrated(&jobs);
        metrics.migrated(&jobs);
        metrics.failed(&jobs);
        let progress =
            Progress { remaining: Some(7), per_second: 3, seconds_left: Some(2), ..Progress::default() };
        metrics.progress(&jobs, Some(&progress));
        metrics.request("update", Some(200));
        metrics.request("update", None);
        metrics.migrations([Phase::Running, Phase::Failed]);
        metrics.passed(Duration::from_millis(250), 1, 2);
        metrics.leads(true);
        let text = metrics.text();
        for line in [
            "objects_migrated_total{resource=\"cronjobs.batch\"} 2",
            "objects_failed_total{resource=\"cronjobs.batch\"} 1",
            "remaining_objects{resource=\"cronjobs.batch\"} 7",
            "objects_per_second{resource=\"cronjobs.batch\"} 3",
            "remaining_seconds{resource=\"cronjobs.batch\"} 2",
            "requests_total{verb=\"update\",code=\"200\"} 1",
            "requests_total{verb=\"update\",code=\"0\"} 1",
            "migrations{phase=\"running\"} 1",
            "migrations{phase=\"pending\"} 0",
            "pass_seconds 0.25",
            "disputed_resources 1",
            "unreadable_groups 2",
            "leader 1",
        ] {
            assert!(text.contains(&format!("\nholdfast_storage_{line}\n")), "{line} is not in\n{text}");
        }
        metrics.progress(&jobs, None);
        assert!(!metrics.text().contains("remaining_seconds{"), "what is over has no time left");
    }
}
