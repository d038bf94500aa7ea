//! What all of a site works with: the store, the view of it, what was heard of managers, and who calls whom now.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use logic::images::{Call, DiskId, FileState, FileStatus, ImageName, Metadata, Process, Report, Rules, Site};
use store::{Objects, Store};
use tokio::sync::{Notify, watch};
use tonic::transport::Channel;
use wire::images::image_manager_client::ImageManagerClient;

use super::children::Children;
use super::kinds::{Disks, Images, Managers, Tokens, Viewed, Volumes};
use super::metrics::Metrics;
use super::retry::Retries;
use crate::dial::Dialler;
use crate::identity::{Authority, Identity};
use crate::settings::Settings;

pub(super) struct Shared {
    pub store: Arc<dyn Store>,
    pub images: Objects<Images>,
    pub managers: Objects<Managers>,
    pub disks: Objects<Disks>,
    pub volumes: Objects<Volumes>,
    pub tokens: Objects<Tokens>,
    view: Mutex<View>,
    /// Wakes the loop.
    pub wake: Notify,
    /// Held over "look whether it may be, then write it" where that is about more than one object.
    pub admission: tokio::sync::Mutex<()>,
    pub dialler: Dialler,
    pub authority: Authority,
    pub identity: watch::Sender<Arc<Identity>>,
    pub children: Children,
    pub metrics: Metrics,
    /// Where certificates and tokens lie.
    pub directory: PathBuf,
}

pub(super) struct View {
    pub site: Site,
    pub rules: Rules,
    pub settings: Settings,
    pub retries: Retries,
    /// A manager, and an image, a volume or a manager that a call is about: one at a time.
    pub calling: HashSet<(String, String)>,
    /// What was said last, and when: the same is not said again at once.
    pub said: HashMap<(String, String), (Call, u64)>,
    /// By manager, with the address that it had.
    pub connections: HashMap<String, (String, ImageManagerClient<Channel>)>,
    /// The monitors that run, by manager, with the address that they watch.
    pub monitors: HashMap<String, Monitor>,
    /// The disks of this machine, by where they are configured to be.
    pub configured: BTreeMap<PathBuf, DiskId>,
}

pub(super) struct Monitor {
    pub address: String,
    pub task: tokio::task::JoinHandle<()>,
    /// Asks it to list now.
    pub poke: Arc<Notify>,
}

pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

pub(super) fn fresh_report(process: Process) -> Report {
    Report {
        process,
        heard: now(),
        address: None,
        api_version: 0,
        api_min_version: 0,
        files: None,
        disk_problem: None,
        space: None,
        told: BTreeMap::new(),
    }
}

impl Shared {
    #[allow(clippy::too_many_arguments, reason = "all parts of a site, put together in one place")]
    pub fn new(
        store: Arc<dyn Store>,
        view: View,
        dialler: Dialler,
        authority: Authority,
        identity: watch::Sender<Arc<Identity>>,
        directory: PathBuf,
        manager_arguments: Vec<std::ffi::OsString>,
    ) -> Self {
        Self {
            images: Objects::new(Arc::clone(&store)),
            managers: Objects::new(Arc::clone(&store)),
            disks: Objects::new(Arc::clone(&store)),
            volumes: Objects::new(Arc::clone(&store)),
            tokens: Objects::new(Arc::clone(&store)),
            store,
            view: Mutex::new(view),
            wake: Notify::new(),
            admission: tokio::sync::Mutex::new(()),
            dialler,
            authority,
            identity,
            children: Children::new(manager_arguments),
            metrics: Metrics::default(),
            directory,
        }
    }

    /// Never held while something is waited for.
    pub fn view(&self) -> MutexGuard<'_, View> {
        // Whoever panicked left whole values: each is replaced at once.
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a stored object into the view, unless a newer one came first.
    pub fn adopt<K: Viewed>(&self, key: &K::Key, mut object: K::Object) {
        let number = |metadata: &Metadata| metadata.resource_version.parse::<u64>().unwrap_or(u64::MAX);
        let new = number(K::metadata(&mut object));
        let mut view = self.view();
        let map = K::map(&mut view.site);
        let newer = map.get_mut(key).is_some_and(|there| number(K::metadata(there)) > new);
        if !newer {
            map.insert(key.clone(), object);
        }
        drop(view);
        self.wake.notify_one();
    }

    /// Changes what was heard of a manager, and wakes the loop.
    pub fn report(&self, manager: &str, change: impl FnOnce(&mut Report)) {
        if let Some(report) = self.view().site.reports.get_mut(manager) {
            change(report);
        }
        self.wake.notify_one();
    }

    /// What a manager listed just now.
    pub fn listed(&self, manager: &str, files: BTreeMap<ImageName, FileStatus>, space: Option<(u64, u64)>) {
        let now = now();
        let mut view = self.view();
        let View { site, retries, .. } = &mut *view;
        let Some(report) = site.reports.get_mut(manager) else { return };
        for (name, file) in &files {
            let before = report.files.as_ref().and_then(|files| files.get(name)).map(|file| file.state);
            match file.state {
                FileState::Failed if before != Some(FileState::Failed) => retries.failed(manager, name, now),
                FileState::Downloaded if before != Some(FileState::Downloaded) => {
                    retries.worked(manager, name)
                }
                _ => {}
            }
        }
        let changed = report.files.as_ref() != Some(&files) || report.disk_problem.is_some();
        report.heard = now;
        report.disk_problem = None;
        report.space = space;
        report.files = Some(files);
        drop(view);
        if changed {
            self.wake.notify_one();
        }
    }

    /// As [`Self::listed`], of one image.
    pub fn listed_one(&self, manager: &str, name: ImageName, file: Option<FileStatus>) {
        self.report(manager, |report| {
            if let Some(files) = &mut report.files {
                match file {
                    Some(file) => drop(files.insert(name, file)),
                    None => drop(files.remove(&name)),
                }
            }
        });
    }

    pub fn poke(&self, manager: &str) {
        if let Some(monitor) = self.view().monitors.get(manager) {
            monitor.poke.notify_one();
        }
    }
}
