//! The one `ClusterVersion`: read, its status written, its spec watched. Whoever writes in here reads first, and begins again
//! if somebody was quicker.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use kube::Api;
use kube::api::PostParams;
use kube::runtime::watcher;
use kubernetes::connect::Cluster as Connection;
use tokio::sync::Notify;

use super::api::{ClusterVersion, NAME, Status};
use super::error::ClusterError;

/// Somebody else may write the status, but hardly so often.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(20);
/// After a watch that could not be begun.
const WATCH_AGAIN: Duration = Duration::from_secs(5);

pub struct Record {
    api: Api<ClusterVersion>,
    changed: Arc<Notify>,
    watch: tokio::task::JoinHandle<()>,
    /// One of this process at a time, so that they do not make each other begin again.
    writing: tokio::sync::Mutex<()>,
}

impl Drop for Record {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

impl Record {
    /// Inside a runtime.
    pub fn open(cluster: &Connection) -> Result<Self, ClusterError> {
        let api: Api<ClusterVersion> = Api::all(cluster.client()?);
        let changed = Arc::new(Notify::new());
        let watch = tokio::spawn(watch(Api::all(cluster.watching()?), Arc::clone(&changed)));
        Ok(Self { api, changed, watch, writing: tokio::sync::Mutex::default() })
    }

    /// Comes back when the spec may be another one.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Made where there is none yet: a cluster that was just installed has a version without anybody asking.
    pub async fn read(&self) -> Result<ClusterVersion, ClusterError> {
        for _ in 0..ATTEMPTS {
            let found =
                self.api.get_opt(NAME).await.map_err(ClusterError::request("read the ClusterVersion"))?;
            if let Some(found) = found {
                return Ok(found);
            }
            let new = ClusterVersion::new(uuid::Uuid::new_v4().to_string());
            match self.api.create(&PostParams::default(), &new).await {
                // Asked for what it does not know, a server says so only when something is written.
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    return Err(ClusterError::NotInstalled);
                }
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                made => return made.map_err(ClusterError::request("make the ClusterVersion")),
            }
        }
        Err(ClusterError::Contended)
    }

    /// `change` may be asked more than once. What changes nothing is not written.
    pub async fn write(&self, change: impl Fn(&mut Status, &ClusterVersion)) -> Result<(), ClusterError> {
        let _alone = self.writing.lock().await;
        for _ in 0..ATTEMPTS {
            let before = self.read().await?;
            let mut status = before.status.clone();
            change(&mut status, &before);
            if status == before.status {
                return Ok(());
            }
            let after = ClusterVersion { status, ..before };
            match self.api.replace_status(NAME, &PostParams::default(), &after).await {
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                    tokio::time::sleep(PAUSE).await;
                }
                written => {
                    return written
                        .map(|_| ())
                        .map_err(ClusterError::request("write the status of the ClusterVersion"));
                }
            }
        }
        Err(ClusterError::Contended)
    }

    /// For graph services, and given to the cluster where nobody has.
    pub async fn cluster_id(&self) -> Result<String, ClusterError> {
        for _ in 0..ATTEMPTS {
            let mut found = self.read().await?;
            if let Some(id) = found.spec.cluster_id.filter(|id| !id.is_empty()) {
                return Ok(id);
            }
            found.spec.cluster_id = Some(uuid::Uuid::new_v4().to_string());
            match self.api.replace(NAME, &PostParams::default(), &found).await {
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                    tokio::time::sleep(PAUSE).await;
                }
                written => {
                    written.map_err(ClusterError::request("give the cluster an id"))?;
                }
            }
        }
        Err(ClusterError::Contended)
    }
}

/// The generation grows with the spec, and not with the status.
async fn watch(api: Api<ClusterVersion>, changed: Arc<Notify>) {
    let only = watcher::Config::default().fields(&format!("metadata.name={NAME}"));
    let mut events = std::pin::pin!(watcher(api, only));
    let mut seen = None;
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => {
                let now = (object.metadata.uid, object.metadata.generation);
                if seen.replace(now.clone()).is_some_and(|before| before != now) {
                    changed.notify_one();
                }
            }
            Ok(watcher::Event::Delete(_)) => changed.notify_one(),
            Ok(watcher::Event::Init | watcher::Event::InitDone) => {}
            Err(error) => {
                tracing::debug!(cause = %error, "the ClusterVersion can't be watched");
                tokio::time::sleep(WATCH_AGAIN).await;
                // Nobody knows what was missed.
                changed.notify_one();
            }
        }
    }
}
