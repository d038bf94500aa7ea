//! Leads, if nobody else does: the executor of `logic::lead::Lead` on a Lease.
//!
//! Architecture invariant: whoever does not know that it leads writes nothing. The lease's own requests apart, every
//! write passes the [`Fence`], which closes by the clock alone: a process that was stopped and goes on finds it closed.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::Api;
use kube::api::PostParams;
use logic::lead::{Claim, Lead, LeaseSeen};
use tokio_util::sync::CancellationToken;

use crate::clock;

/// Open for as long as this process is sure to lead.
#[derive(Debug, Default)]
pub struct Fence {
    /// Milliseconds since boot.
    open_until: AtomicU64,
}

#[derive(Debug, thiserror::Error)]
#[error("somebody else may lead by now: nothing is written")]
pub struct Closed;

impl Fence {
    pub fn check(&self) -> Result<(), Closed> {
        let open = millis(clock::since_boot()) < self.open_until.load(Ordering::Acquire);
        if open { Ok(()) } else { Err(Closed) }
    }

    fn open(&self, until: Duration) {
        self.open_until.store(millis(until), Ordering::Release);
    }

    fn close(&self) {
        self.open_until.store(0, Ordering::Release);
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// One that would lead.
pub struct Candidate {
    /// Of the lease.
    name: String,
    leases: Api<Lease>,
    rules: Lead,
    fence: Arc<Fence>,
    /// The lease as it was last read or written, and when it was first seen to be so.
    seen: Option<(Lease, Duration)>,
}

impl Candidate {
    /// `client` must not be fenced. The lease has one name for all that would lead.
    pub fn new(client: kube::Client, namespace: &str, name: &str, duration: Duration) -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let chance = RandomState::new().hash_one(std::process::id());
        let rules = Lead { me: format!("{host}_{chance:016x}"), duration: duration.max(SHORTEST) };
        Self {
            name: name.to_owned(),
            leases: Api::namespaced(client, namespace),
            rules,
            fence: Arc::default(),
            seen: None,
        }
    }

    pub fn me(&self) -> &str {
        &self.rules.me
    }

    pub fn fence(&self) -> Arc<Fence> {
        Arc::clone(&self.fence)
    }

    /// Returns when this process leads; false if it was asked to stop before.
    pub async fn wait(&mut self, stop: &CancellationToken) -> bool {
        let mut said = false;
        loop {
            let pause = tokio::select! {
                () = stop.cancelled() => return false,
                tried = self.try_once() => match tried {
                    Ok(None) => return true,
                    Ok(Some(pause)) => pause,
                    Err(error) => {
                        if !std::mem::replace(&mut said, true) {
                            tracing::warn!(cause = %error, "the lease can't be read or written; trying on");
                        }
                        self.rules.renew_every()
                    }
                },
            };
            tokio::select! {
                () = stop.cancelled() => return false,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Leads until `stop`, or until a term ends with something to say. A term begins when this process leads; when it does
    /// no longer, its token is cancelled, and by then nothing that goes through the fence is written any more.
    pub async fn terms<T, Term: Future<Output = Option<T>>>(
        &mut self,
        stop: &CancellationToken,
        mut term: impl FnMut(CancellationToken) -> Term,
    ) -> Option<T> {
        while self.wait(stop).await {
            tracing::info!(me = self.me(), "leading");
            let over = stop.child_token();
            let (ended, ()) = tokio::join!(
                async {
                    let ended = term(over.clone()).await;
                    over.cancel();
                    ended
                },
                async {
                    self.keep(&over).await;
                    // When it is not by request that it ends, not one more write may begin.
                    if !over.is_cancelled() {
                        self.lose();
                    }
                    over.cancel();
                }
            );
            self.give_up().await;
            if ended.is_some() {
                return ended;
            }
        }
        None
    }

    /// Keeps the lead until it is lost, or `stop` asks to end it.
    pub async fn keep(&mut self, stop: &CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(self.rules.renew_every()) => {}
            }
            let lost = self.until_lost();
            let renewed = tokio::select! {
                () = stop.cancelled() => return,
                renewed = tokio::time::timeout(lost, self.renew()) => renewed,
            };
            match renewed {
                Ok(true) => {}
                Ok(false) => return tracing::warn!("another one leads now"),
                Err(_) => return tracing::warn!("the lease could not be renewed in time"),
            }
        }
    }

    /// Closes the fence. What has been asked to end must not write while it does.
    pub fn lose(&self) {
        self.fence.close();
    }

    /// Lets others lead at once. Everything that writes must have ended.
    pub async fn give_up(&mut self) {
        let Some((lease, _)) = self.seen.take() else { return };
        if lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()) != Some(self.me()) {
            return;
        }
        self.fence.close();
        let spec = LeaseSpec { holder_identity: None, ..lease.spec.unwrap_or_default() };
        let lease = Lease { metadata: lease.metadata, spec: Some(spec) };
        let params = PostParams::default();
        let written = self.leases.replace(&self.name, &params, &lease);
        if let Ok(Err(error)) = tokio::time::timeout(self.rules.renew_every(), written).await {
            tracing::debug!(cause = %error, "the lease was not given up; it runs out");
        }
    }

    /// How long this process may still lead without a renewal.
    fn until_lost(&self) -> Duration {
        let until = Duration::from_millis(self.fence.open_until.load(Ordering::Acquire));
        until.saturating_sub(clock::since_boot())
    }

    /// True when it was renewed, false when somebody else has it. Failures are tried again, for as long as it is polled.
    async fn renew(&mut self) -> bool {
        loop {
            match self.try_once().await {
                Ok(None) => return true,
                Ok(Some(_)) => return false,
                Err(error) => {
                    tracing::debug!(cause = %error, "the lease was not renewed; trying again");
                    tokio::time::sleep(self.rules.renew_every() / 4).await;
                }
            }
        }
    }

    /// None when the lease is ours; otherwise how long to wait.
    async fn try_once(&mut self) -> kube::Result<Option<Duration>> {
        let lease = self.leases.get_opt(&self.name).await?;
        let seen = self.observe(lease);
        match self.rules.claim(seen.as_ref()) {
            Claim::Wait(pause) => Ok(Some(pause)),
            claim @ (Claim::Take | Claim::Renew) => match self.write(claim == Claim::Take).await {
                Ok(()) => Ok(None),
                // Somebody was quicker.
                Err(kube::Error::Api(status)) if status.code == 409 => Ok(Some(self.rules.renew_every())),
                Err(error) => Err(error),
            },
        }
    }

    fn observe(&mut self, lease: Option<Lease>) -> Option<LeaseSeen> {
        let now = clock::since_boot();
        let Some(lease) = lease else {
            self.seen = None;
            return None;
        };
        let version = |lease: &Lease| (lease.metadata.uid.clone(), lease.metadata.resource_version.clone());
        let since = match &self.seen {
            Some((before, since)) if version(before) == version(&lease) => *since,
            _ => now,
        };
        let spec = lease.spec.clone().unwrap_or_default();
        self.seen = Some((lease, since));
        let seconds = spec.lease_duration_seconds.and_then(|it| u64::try_from(it).ok());
        Some(LeaseSeen {
            holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
            duration: seconds.map_or(self.rules.duration, Duration::from_secs),
            unchanged: now.saturating_sub(since),
        })
    }

    async fn write(&mut self, take: bool) -> kube::Result<()> {
        let began = clock::since_boot();
        let now = Some(MicroTime(Timestamp::now()));
        let before = self.seen.as_ref().map(|(lease, _)| lease.clone());
        let old = before.as_ref().and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let transitions = old.lease_transitions.unwrap_or(0);
        let spec = LeaseSpec {
            holder_identity: Some(self.rules.me.clone()),
            lease_duration_seconds: i32::try_from(self.rules.duration.as_secs()).ok(),
            acquire_time: if take { now.clone() } else { old.acquire_time.clone() },
            lease_transitions: Some(if take { transitions.saturating_add(1) } else { transitions }),
            renew_time: now,
            ..old
        };
        let written = match before {
            Some(lease) => {
                let lease = Lease { metadata: lease.metadata, spec: Some(spec) };
                self.leases.replace(&self.name, &PostParams::default(), &lease).await?
            }
            None => {
                let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
                let lease = Lease { metadata, spec: Some(spec) };
                self.leases.create(&PostParams::default(), &lease).await?
            }
        };
        self.seen = Some((written, clock::since_boot()));
        self.fence.open(began + self.rules.lost_after());
        Ok(())
    }
}

/// A lease is written in whole seconds, and must leave time for a few requests.
const SHORTEST: Duration = Duration::from_secs(2);
