//! Every API server of the cluster, and what they say together. One that can't be asked at all leaves nothing decided:
//! it may store what the others don't know of.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::future::try_join_all;
use http::Uri;
use k8s_openapi::api::core::v1::Endpoints;
use kube::{Api, Client};
use kubernetes::connect::{Cluster, ConnectError};
use logic::storage::{Offered, Resource, VersionHash};

use crate::discovery::{Discovered, discover, discover_group, is_ready};
use crate::error::Error;

/// What a certificate of an API server is good for, wherever it is reached.
const TLS_NAME: &str = "kubernetes.default.svc";

/// An API server that is asked by itself.
#[derive(Clone)]
pub struct Server {
    pub cluster: Cluster,
    client: Client,
}

pub struct Servers {
    cluster: Cluster,
    client: Client,
    /// As configured; otherwise they are looked up.
    urls: Vec<String>,
    known: BTreeMap<String, Server>,
}

/// What all of them say of the resources that can be migrated.
#[derive(Debug, Clone, Default)]
pub struct View {
    pub resources: BTreeMap<Resource, Shown>,
    /// Groups of which nothing is known, as one server or another can't say what is in them; and why.
    pub dark: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// To read and write through.
    pub version: String,
    pub hashes: BTreeSet<VersionHash>,
    /// Whether every server has it.
    pub everywhere: bool,
}

impl Shown {
    pub fn offered(&self) -> Offered {
        match self.hashes.first() {
            Some(hash) if self.hashes.len() == 1 && self.everywhere => Offered::Agreed(hash.clone()),
            _ => Offered::Disputed(self.hashes.clone()),
        }
    }
}

impl Servers {
    pub fn new(cluster: Cluster, urls: Vec<String>) -> Result<Self, Error> {
        let client = cluster.client()?;
        Ok(Self { cluster, client, urls, known: BTreeMap::new() })
    }

    /// Looks up which there are.
    pub async fn refresh(&mut self) -> Result<&BTreeMap<String, Server>, Error> {
        let (urls, name) = match self.urls.is_empty() {
            true => (self.endpoints().await?, Some(TLS_NAME)),
            false => (self.urls.clone(), None),
        };
        self.known.retain(|url, _| urls.contains(url) || (urls.is_empty() && url.is_empty()));
        if urls.is_empty() && self.known.is_empty() {
            let own = Server { cluster: self.cluster.clone(), client: self.client.clone() };
            self.known.insert(String::new(), own);
        }
        for url in urls {
            if self.known.contains_key(&url) {
                continue;
            }
            let uri: Uri = url.parse().map_err(|error| ConnectError::NoCluster(Box::new(error)))?;
            let cluster = self.cluster.at(uri, name);
            let client = cluster.client()?;
            tracing::info!(url, "an API server is asked for its discovery");
            self.known.insert(url, Server { cluster, client });
        }
        Ok(&self.known)
    }

    /// Everything.
    pub async fn look(&self) -> Result<View, Error> {
        let asked = self.known.iter().map(|(url, server)| async move {
            let ready = is_ready(&server.client).await.map_err(Error::request(discovery_of(url)))?;
            if !ready {
                return Err(Error::NotReady(server.cluster.url().to_string()));
            }
            discover(&server.client).await.map_err(Error::request(discovery_of(url)))
        });
        Ok(combine(&try_join_all(asked).await?))
    }

    /// Some groups alone.
    pub async fn look_at(&self, groups: &BTreeSet<&str>) -> Result<View, Error> {
        let asked = self.known.iter().map(|(url, server)| async move {
            let groups = groups.iter().map(|group| discover_group(&server.client, group));
            let found = try_join_all(groups).await.map_err(Error::request(discovery_of(url)))?;
            Ok::<_, Error>(found.into_iter().fold(Discovered::default(), |mut all, one| {
                all.served.extend(one.served);
                all.unreadable.extend(one.unreadable);
                all
            }))
        });
        Ok(combine(&try_join_all(asked).await?))
    }

    /// Those behind the service `kubernetes`, if there are several. With one alone, the way that the kubeconfig gives
    /// leads there too, and is known to work.
    async fn endpoints(&self) -> Result<Vec<String>, Error> {
        let endpoints: Api<Endpoints> = Api::namespaced(self.client.clone(), "default");
        let found = match endpoints.get_opt("kubernetes").await {
            Ok(found) => found,
            Err(kube::Error::Api(status)) if status.code == 403 => None,
            Err(error) => return Err(Error::request("the endpoints of the service kubernetes")(error)),
        };
        let urls = found.map(|it| urls_of(&it)).unwrap_or_default();
        Ok(if urls.len() > 1 { urls } else { vec![] })
    }
}

fn discovery_of(url: &str) -> String {
    match url.is_empty() {
        true => "its discovery".to_owned(),
        false => format!("the discovery of {url}"),
    }
}

fn urls_of(endpoints: &Endpoints) -> Vec<String> {
    let subsets = endpoints.subsets.iter().flatten();
    let urls = subsets.flat_map(|subset| {
        let ports = subset.ports.iter().flatten();
        let port =
            ports.filter(|port| port.name.as_deref().is_none_or(|name| name == "https")).map(|it| it.port);
        // Those that are not ready may still write.
        let addresses = subset.addresses.iter().chain(&subset.not_ready_addresses).flatten();
        let port = port.min().unwrap_or(443);
        addresses.map(move |address| match address.ip.contains(':') {
            true => format!("https://[{}]:{port}", address.ip),
            false => format!("https://{}:{port}", address.ip),
        })
    });
    let urls: BTreeSet<String> = urls.collect();
    urls.into_iter().collect()
}

fn combine(servers: &[Discovered]) -> View {
    let mut view = View::default();
    for (name, why) in servers.iter().flat_map(|server| &server.unreadable) {
        let group = name.rsplit_once('/').map_or("", |(group, _)| group);
        view.dark.insert(group.to_owned(), why.clone());
    }
    for (resource, served) in servers.iter().flat_map(|server| &server.served) {
        if view.dark.contains_key(&resource.group) {
            continue;
        }
        let shown = view.resources.entry(resource.clone()).or_insert_with(|| Shown {
            version: served.version.clone(),
            hashes: BTreeSet::new(),
            everywhere: servers.iter().all(|server| server.served.contains_key(resource)),
        });
        shown.hashes.insert(served.hash.clone());
    }
    view
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discovery::Served;

    fn server(resources: &[(&str, &str)], unreadable: &[&str]) -> Discovered {
        let served = resources.iter().map(|(resource, hash)| {
            let served = Served {
                version: "v1".into(),
                kind: "Thing".into(),
                namespaced: false,
                hash: (*hash).into(),
            };
            (resource.parse().unwrap(), served)
        });
        let unreadable = unreadable.iter().map(|name| ((*name).to_owned(), "down".to_owned()));
        Discovered { served: served.collect(), unreadable: unreadable.collect(), ..Discovered::default() }
    }

    fn offered(servers: &[Discovered], resource: &str) -> Option<Offered> {
        combine(servers).resources.get(&resource.parse().unwrap()).map(Shown::offered)
    }

    #[test]
    fn servers_agree_only_if_all_of_them_say_the_same() {
        let (a, b) = (VersionHash::from("a"), VersionHash::from("b"));
        let one = || server(&[("pods", "a")], &[]);
        assert_eq!(offered(&[one()], "pods"), Some(Offered::Agreed(a.clone())));
        assert_eq!(offered(&[one(), one()], "pods"), Some(Offered::Agreed(a.clone())));
        let two = [one(), server(&[("pods", "b")], &[])];
        assert_eq!(offered(&two, "pods"), Some(Offered::Disputed([a.clone(), b].into())));
        // One of them has it not yet, or not any more.
        assert_eq!(offered(&[one(), server(&[], &[])], "pods"), Some(Offered::Disputed([a].into())));
        assert_eq!(offered(&[one()], "nodes"), None);
    }

    #[test]
    fn nothing_is_said_of_a_group_that_one_of_them_cannot_show() {
        let full = || server(&[("pods", "a"), ("flunders.example.org", "f")], &[]);
        let servers = [full(), server(&[("pods", "a")], &["example.org/v1"])];
        assert_eq!(offered(&servers, "flunders.example.org"), None);
        assert!(offered(&servers, "pods").is_some());
        assert_eq!(combine(&servers).dark.keys().collect::<Vec<_>>(), ["example.org"]);
    }

    #[test]
    fn addresses_of_both_families_make_urls() {
        let endpoints: Endpoints = serde_json::from_value(serde_json::json!({"subsets": [{
            "addresses": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
            "ports": [{"name": "https", "port": 6443}, {"name": "other", "port": 1}],
        }]}))
        .unwrap();
        assert_eq!(urls_of(&endpoints), ["https://10.0.0.1:6443", "https://[fd00::1]:6443"]);
    }
}
