//! A cluster as a machine that is moved: every manifest of a release is applied in order and awaited before the next one.
//!
//! Architecture invariant: a manifest is touched only when all before it are done. What does not come up stops there, is told,
//! and is tried again; nothing is taken back.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use logic::agent::{
    Begun, Found, Hold, Outcome, Precondition, Progress, RolledOut, RunningRelease, Under, progress,
};
use semver::Version;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::api::{Keys, Rollout};
use super::error::ClusterError;
use super::manifests::{self, Manifest};
use super::myself::{Myself, Standing};
use super::objects::Objects;
use super::preconditions;
use super::record::Record;
use super::settings::Settings;
use super::shown;
use crate::machine::{Applied, Machine, MachineError, Replaced, Running};
use crate::precondition::{self, STORAGE_GATE};
use crate::quarantine::{Checked, RunningKeys};

/// Whether storage lets the API servers be moved to what this file of a release says that the new ones understand; given by
/// whoever runs the agent.
pub type Gate = Arc<dyn Fn(PathBuf) -> BoxFuture<'static, Hold> + Send + Sync>;

/// On the agent's own Deployment: what was installed.
pub(super) const VERSION: &str = "holdfast.dev/version";
/// In a release's metadata: the range of Kubernetes that it is for.
const KUBERNETES: &str = "holdfast.dev/kubernetes";

/// Between two looks at what is not done yet; it doubles, up to the second.
const LOOK: Duration = Duration::from_millis(100);
const LOOK_AT_MOST: Duration = Duration::from_secs(2);
/// What takes longer is told.
const TELL_AFTER: Duration = Duration::from_secs(2);

pub struct Cluster {
    record: Arc<Record>,
    objects: Objects,
    settings: Settings,
    gate: Option<Gate>,
    /// When this agent does not lead any more, or is to end.
    over: CancellationToken,
}

/// How it went with one manifest.
enum Step {
    Done,
    Stopped,
    /// A person wants something else.
    Unwanted,
}

impl Cluster {
    pub(super) fn new(
        record: Arc<Record>,
        client: kube::Client,
        settings: Settings,
        gate: Option<Gate>,
        over: CancellationToken,
    ) -> Self {
        Self { record, objects: Objects::new(client), settings, gate, over }
    }

    async fn rollout(&self) -> Result<Rollout, ClusterError> {
        Ok(self.record.read().await?.status.rollout)
    }

    async fn write(&self, change: impl Fn(&mut Rollout)) -> Result<(), ClusterError> {
        let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default().to_string();
        let written = self.record.write(|status, _| {
            change(&mut status.rollout);
            shown::progress(status, &now);
        });
        written.await
    }

    /// As it was installed.
    async fn installed(&self) -> Result<Version, ClusterError> {
        let api: Api<Deployment> = Api::namespaced(self.objects.client().clone(), &self.settings.namespace);
        let asked = ClusterError::request("look at the agent's own Deployment");
        let own = api.get_opt(&self.settings.deployment).await.map_err(asked)?;
        let said = own.and_then(|own| own.metadata.annotations?.remove(VERSION));
        match (said, &self.settings.version) {
            (Some(version), _) => Version::parse(&version).map_err(|source| ClusterError::BadVersion {
                version,
                deployment: self.settings.deployment.clone(),
                source,
            }),
            (None, Some(version)) => Ok(version.clone()),
            (None, None) => Err(ClusterError::NoVersion),
        }
    }

    /// From then on the Deployment is not asked any more: it is the first that an update changes, and by that the cluster does
    /// not run the release yet.
    async fn remember_what_was_installed(&self) -> Result<RunningRelease<Keys>, ClusterError> {
        let version = self.installed().await?;
        self.write(|rollout| rollout.installed(version.clone())).await?;
        self.rollout().await?.running.ok_or(ClusterError::NoVersion)
    }

    async fn manifests(&self, release: &Checked) -> Result<Vec<Manifest>, MachineError> {
        let tree = release.tree.clone();
        let read = tokio::task::spawn_blocking(move || manifests::read(&tree)).await;
        let failed = |why: String, passing| MachineError {
            why,
            way_out: "ask whoever publishes the release".to_owned(),
            passing,
        };
        match read {
            Ok(read) => read.map_err(|error| failed(oci::chain(&error), false)),
            Err(error) => Err(failed(error.to_string(), true)),
        }
    }

    /// Whether a person asks for something that is not answered yet.
    async fn is_unwanted(&self) -> bool {
        let Ok(now) = self.record.read().await else { return false };
        let Some(request) = now.spec.wishes().request else { return false };
        let answered = now.status.books.as_ref().and_then(|books| books["answered"]["request"].as_str());
        answered != Some(&request.id)
    }

    /// Applies or removes it, and waits until that is done.
    async fn settle(
        &self,
        manifest: &Manifest,
        number: usize,
        stop: &AtomicBool,
    ) -> Result<Step, MachineError> {
        let failed = |error: &ClusterError| failing(manifest, &oci::chain(error), error.way_out());
        let mut found = if manifest.is_to_go() {
            self.objects.remove(manifest).await.map_err(|error| failed(&error))?;
            self.still_there(manifest).await
        } else {
            self.objects.apply(manifest).await.map(Some)
        }
        .map_err(|error| failed(&error))?;
        let (began, mut pause, mut told) = (Instant::now(), LOOK, None);
        loop {
            let why = match (&found, manifest.is_to_go()) {
                (None, true) => return Ok(Step::Done),
                (Some(_), true) => "it is not gone yet".to_owned(),
                (None, false) => return Err(failing(manifest, "somebody removed it", "see who does")),
                (Some(object), false) => match progress(object) {
                    Progress::Done => return Ok(Step::Done),
                    Progress::NotYet { why } => why,
                    Progress::Failed { why } => return Err(failing(manifest, &why, LOOK_THERE)),
                },
            };
            let waited = began.elapsed();
            if waited > self.settings.patience.get() {
                let why = format!("not done within {}: {why}", self.settings.patience);
                return Err(failing(manifest, &why, LOOK_THERE));
            }
            if stop.load(Ordering::SeqCst) || self.over.is_cancelled() {
                return Ok(Step::Stopped);
            }
            if waited > TELL_AFTER {
                if self.is_unwanted().await {
                    return Ok(Step::Unwanted);
                }
                let at = format!("{} ({why})", manifest.what());
                if told.as_ref() != Some(&at) {
                    self.tell(number, Some(&at)).await;
                    told = Some(at);
                }
            }
            tokio::select! {
                () = self.over.cancelled() => return Ok(Step::Stopped),
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(LOOK_AT_MOST);
            found = match if manifest.is_to_go() {
                self.still_there(manifest).await
            } else {
                self.objects.get(manifest).await
            } {
                // An API server may go and come as part of the release.
                Err(error) if error.is_passing() => found,
                looked => looked.map_err(|error| failed(&error))?,
            };
        }
    }

    async fn still_there(&self, manifest: &Manifest) -> Result<Option<serde_json::Value>, ClusterError> {
        match self.objects.get(manifest).await {
            Err(ClusterError::NoSuchKind(_)) => Ok(None),
            found => found,
        }
    }

    async fn tell(&self, done: usize, at: Option<&str>) {
        let told = self.write(|rollout| {
            if let Some(under) = &mut rollout.under {
                under.done = done;
                under.at = at.map(str::to_owned);
            }
        });
        if let Err(error) = told.await {
            tracing::debug!(cause = %error, "progress can't be shown");
        }
    }

    async fn begin(&self, under: &Under, release: &Checked, of: usize) -> Result<(), ClusterError> {
        let begun = Begun {
            version: under.target.version.clone(),
            image: under.target.image.clone(),
            verified: !release.signed_by.is_empty(),
            done: 0,
            of,
            at: None,
        };
        self.write(|rollout| rollout.begin(begun.clone())).await
    }

    async fn end(&self, under: &Under, how: RolledOut<Keys>) -> Result<(), ClusterError> {
        self.write(|rollout| rollout.end(&under.target.image, how.clone())).await
    }

    async fn give_up(&self, under: &Under) -> Result<Applied, MachineError> {
        self.end(under, RolledOut::GivenUp).await?;
        let why = "something else was asked for; what was applied of it stays".to_owned();
        Ok(Applied::Ended(Outcome::Abandoned { why }))
    }
}

const LOOK_THERE: &str =
    "see `kubectl describe` of it and of its pods; ask for another release if it can't be mended";

fn failing(manifest: &Manifest, why: &str, way_out: &str) -> MachineError {
    // Passing, all of them: the cluster is between two releases, and goes on as soon as it can.
    MachineError { why: format!("{}: {why}", manifest.what()), way_out: way_out.to_owned(), passing: true }
}

impl Machine for Cluster {
    async fn running(&self) -> Result<Running, MachineError> {
        let running = match self.rollout().await?.running {
            Some(running) => running,
            None => self.remember_what_was_installed().await?,
        };
        let RunningRelease { version, image, keys } = running;
        let digest = image.rsplit_once('@').map(|(_, digest)| digest.to_owned());
        let keys = keys.map(|keys| RunningKeys::Kept { of: version.clone(), keys: keys.into() });
        Ok(Running { version, digest, keys })
    }

    async fn ended(&self) -> Result<u64, MachineError> {
        Ok(self.rollout().await?.ended)
    }

    async fn found(&self, under: &Under) -> Result<Found, MachineError> {
        let transaction = self.rollout().await?.became_of(under);
        Ok(Found { running: self.running().await?.version, transaction })
    }

    async fn preconditions(&self, _under: &Under, release: &Checked) -> Vec<Precondition> {
        let mut found = vec![];
        if let (Some(gate), Some(file)) = (&self.gate, precondition::supported_storage(&release.tree)) {
            found.push(Precondition { name: STORAGE_GATE.to_owned(), outcome: gate(file).await });
        }
        let wanted = release.metadata.metadata.get(KUBERNETES).map(String::as_str);
        found.extend(preconditions::look(self.objects.client(), wanted).await);
        found
    }

    async fn replace_agent(&self, _under: &Under, release: &Checked) -> Result<Replaced, MachineError> {
        let manifests = self.manifests(release).await?;
        // What of it is to go, goes when the rest is applied.
        let of_the_agent = || manifests.iter().filter(|it| it.is_of_the_agent() && !it.is_to_go());
        let Some(own) = of_the_agent().find(|it| it.kind() == "Deployment") else {
            return Ok(Replaced::GoOn);
        };
        let Settings { namespace, pod, patience, .. } = &self.settings;
        let myself = Myself { namespace: namespace.clone(), pod: pod.clone() };
        if myself.standing(self.objects.client()).await? == Standing::Outside {
            return Ok(Replaced::GoOn);
        }
        // What it needs to run, and itself; its account may be new in this release.
        for manifest in of_the_agent() {
            let applied = self.objects.apply(manifest).await;
            applied.map_err(|error| failing(manifest, &oci::chain(&error), error.way_out()))?;
        }
        let began = Instant::now();
        loop {
            let why = match myself.standing(self.objects.client()).await {
                Ok(Standing::Newest | Standing::Outside) => return Ok(Replaced::GoOn),
                Ok(Standing::Superseded { ready: true, .. }) => return Ok(Replaced::StepDown),
                Ok(Standing::Superseded { why, .. }) => why,
                Ok(Standing::Undecided) => "its controller has not looked at it yet".to_owned(),
                Err(error) if error.is_passing() => oci::chain(&error),
                Err(error) => return Err(error.into()),
            };
            let is_late = began.elapsed() > patience.get();
            if is_late || (began.elapsed() > TELL_AFTER && self.is_unwanted().await) {
                let why = format!("the new agent does not come up: {why}");
                return Err(failing(own, &why, LOOK_THERE));
            }
            tokio::select! {
                // Kubernetes may end the old one before the new one is there.
                () = self.over.cancelled() => return Ok(Replaced::StepDown),
                () = tokio::time::sleep(LOOK * 5) => {}
            }
        }
    }

    async fn apply(
        &self,
        under: &Under,
        release: &Checked,
        said: &(dyn Fn(&str) + Send + Sync),
        stop: &AtomicBool,
    ) -> Result<Applied, MachineError> {
        let manifests = self.manifests(release).await?;
        let of = manifests.len();
        self.begin(under, release, of).await?;
        if self.is_unwanted().await {
            return self.give_up(under).await;
        }
        for (number, manifest) in manifests.iter().enumerate() {
            if stop.load(Ordering::SeqCst) || self.over.is_cancelled() {
                return Ok(Applied::Interrupted);
            }
            let verb = if manifest.is_to_go() { "removing" } else { "applying" };
            said(&format!("{verb} {} of {of}: {}", number + 1, manifest.what()));
            match self.settle(manifest, number, stop).await {
                Ok(Step::Done) => {}
                Ok(Step::Stopped) => return Ok(Applied::Interrupted),
                Ok(Step::Unwanted) => return self.give_up(under).await,
                Err(error) => {
                    self.tell(number, Some(&error.why)).await;
                    return Err(error);
                }
            }
        }
        // From here on its own keys count, and not a moment sooner: whoever has to judge it again judges as it was judged.
        self.end(under, RolledOut::All { keys: release.keys.clone().map(Keys::from) }).await?;
        Ok(Applied::Ended(Outcome::Completed))
    }

    async fn roll_back(
        &self,
        _from: &Version,
        _said: &(dyn Fn(&str) + Send + Sync),
        _stop: &AtomicBool,
    ) -> Result<(), MachineError> {
        Err(MachineError {
            why:
                "a cluster is not taken back: what was applied to it, and what came of that, has no way back"
                    .to_owned(),
            way_out: "ask for a release that follows the running one and mends it".to_owned(),
            passing: false,
        })
    }
}
