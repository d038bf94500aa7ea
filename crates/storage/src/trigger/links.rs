//! A watch on each API server: it breaks when the server goes away, and tells when another serves one of its groups.

use std::collections::{BTreeMap, BTreeSet};

use kube::Api;
use kube::runtime::watcher::Event;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::Notice;
use crate::error::Error;
use crate::servers::Server;
use crate::watch::{ApiService, Told, follow};

/// APIServices read at once.
const PAGE: u32 = 100;

pub struct Links {
    notices: mpsc::Sender<Notice>,
    tasks: JoinSet<()>,
    urls: BTreeSet<String>,
}

impl Links {
    pub fn new(notices: mpsc::Sender<Notice>) -> Self {
        Self { notices, tasks: JoinSet::new(), urls: BTreeSet::new() }
    }

    /// Watches these, and no others.
    pub fn follow(&mut self, servers: &BTreeMap<String, Server>) -> Result<(), Error> {
        let urls: BTreeSet<String> = servers.keys().cloned().collect();
        if urls == self.urls {
            return Ok(());
        }
        self.tasks.abort_all();
        for server in servers.values() {
            let api: Api<ApiService> = Api::all(server.cluster.watching()?);
            self.tasks.spawn(follow(api, "APIServices", PAGE, self.notices.clone(), |told| match told {
                Told::Broken => Some(Notice::Everything),
                Told::Event(Event::Apply(it) | Event::Delete(it)) if it.is_aggregated() => {
                    Some(Notice::Everything)
                }
                Told::Event(_) => None,
            }));
        }
        self.urls = urls;
        Ok(())
    }
}
