//! Whichever cluster can be had: one of our own, or where no kube-apiserver is to be had, the one that `KUBECONFIG`
//! names. For tests that need nothing of it but its API, and that leave what they find there alone.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::cluster::Cluster;
use super::program::Kubernetes;

pub struct AnyCluster {
    /// With its kubeconfig.
    own: Option<(Cluster, PathBuf)>,
}

impl AnyCluster {
    /// Panics where there is neither.
    pub fn find() -> Self {
        let own = Kubernetes::default().program("kube-apiserver").map(|_| Cluster::start());
        match (own, std::env::var_os("KUBECONFIG")) {
            (Ok(own), _) => {
                let kubeconfig = own.kubeconfig("admin");
                Self { own: Some((own, kubeconfig)) }
            }
            (Err(why), Some(named)) => {
                eprintln!(
                    "NOTE: on the cluster of KUBECONFIG={}, because {why}",
                    Path::new(&named).display()
                );
                Self { own: None }
            }
            (Err(why), None) => panic!("a cluster is needed, and KUBECONFIG names none: {why}"),
        }
    }

    /// None: what the environment says.
    pub fn kubeconfig(&self) -> Option<&Path> {
        self.own.as_ref().map(|(_, kubeconfig)| kubeconfig.as_path())
    }

    pub fn kubectl(&self) -> Command {
        let mut kubectl = Command::new("kubectl");
        if let Some(kubeconfig) = self.kubeconfig() {
            kubectl.env("KUBECONFIG", kubeconfig);
        }
        kubectl
    }
}

/// A name that nobody else has, in this cluster or in this process; good as a part of a DNS name.
pub fn unique() -> String {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
    format!("t{now:x}-{:x}-{number}", std::process::id())
}
