//! The part's section of the configuration.

use std::net::SocketAddr;
use std::path::PathBuf;

use logic::period::Period;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// How to reach the cluster; otherwise `$KUBECONFIG`, `~/.kube/config`, or the pod's own account.
    pub kubeconfig: Option<PathBuf>,
    /// Discovery is read twice in this time. A storage version that changes twice within it may be missed where nothing can be
    /// watched, and a StorageState whose heartbeat is older is not believed.
    pub period: Period,
    /// Every API server, as URLs; otherwise those behind the service `kubernetes`.
    pub api_servers: Vec<String>,
    /// Writes under way at once, over all migrations. The controller stays below it when the API server is busy.
    pub writes_at_once: usize,
    pub migrations_at_once: usize,
    /// How often an object is tried before it is reported.
    pub tries: u32,
    /// How long listing a resource may fail before its migration does. While no API server answers, no time passes.
    pub patience: Period,
    /// Where the lease is, and with it whoever leads.
    pub namespace: String,
    /// After this long without a word from the leader another one takes over.
    pub lease: Period,
    /// Where /livez, /readyz and /metrics are; nowhere, unless given.
    pub admin: Option<SocketAddr>,
    pub offline: Option<OfflineSettings>,
}

/// An etcd and a kube-apiserver that run for a migration alone, with nothing else on the machine using them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OfflineSettings {
    /// The program and its arguments.
    pub etcd: Vec<String>,
    pub kube_apiserver: Vec<String>,
    /// How to reach that API server.
    pub kubeconfig: PathBuf,
    /// For both to come up.
    #[serde(default = "two_minutes")]
    pub ready_within: Period,
    /// How old what an interrupted migration left may be, to go on from it. Longer than `period`: it is for servers that
    /// nobody else starts in between. Where a workload runs them between two migrations, nothing of before is believed.
    #[serde(default = "a_day")]
    pub resume_within: Period,
}

fn two_minutes() -> Period {
    Period::seconds(120)
}

fn a_day() -> Period {
    Period::seconds(86_400)
}

impl Settings {
    /// What a type can't say. The error names the key.
    pub fn validate(&self) -> Result<(), String> {
        let positive = [
            ("period", !self.period.is_zero()),
            ("lease", !self.lease.is_zero()),
            ("writes-at-once", self.writes_at_once > 0),
            ("migrations-at-once", self.migrations_at_once > 0),
            ("tries", self.tries > 0),
        ];
        if let Some((key, _)) = positive.into_iter().find(|(_, holds)| !holds) {
            return Err(format!("storage.{key} must be more than nothing"));
        }
        for url in &self.api_servers {
            let absolute =
                url.parse::<http::Uri>().is_ok_and(|it| it.scheme().is_some() && it.host().is_some());
            if !absolute {
                return Err(format!("storage.api-servers: {url:?} is not a URL, like https://10.0.0.1:6443"));
            }
        }
        Ok(())
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            period: Period::seconds(600),
            api_servers: vec![],
            writes_at_once: 16,
            migrations_at_once: 4,
            tries: 5,
            patience: Period::seconds(300),
            namespace: "holdfast-system".to_owned(),
            lease: Period::seconds(15),
            admin: None,
            offline: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_work_is_refused_before_anything_starts() {
        assert_eq!(Settings::default().validate(), Ok(()));
        let never = Settings { period: Period::seconds(0), ..Settings::default() };
        assert!(never.validate().unwrap_err().contains("storage.period"));
        let nowhere = Settings { api_servers: vec!["notaurl".into()], ..Settings::default() };
        assert!(nowhere.validate().unwrap_err().contains("notaurl"));
    }
}
