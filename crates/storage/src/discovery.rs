//! What an API server says that it serves, and how it stores it.
//!
//! The documents themselves are read, one per group and version: the storage version hash is in those only, not in the
//! aggregated form, and typed clients drop it.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use http::Request;
use kube::Client;
use logic::storage::{Resource, VersionHash, VersionNames};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Documents asked for at once.
const AT_ONCE: usize = 8;
/// A document is small and made ahead. An aggregated server that takes longer must not hold up the rest.
const PATIENCE: Duration = Duration::from_secs(5);

/// What one API server serves that can be migrated.
#[derive(Debug, Clone, Default)]
pub struct Discovered {
    pub served: BTreeMap<Resource, Served>,
    /// For people.
    pub names: VersionNames,
    /// Groups and versions that could not be read, as `apps/v1`, and why: an aggregated server that is down. Nothing is
    /// known of their resources.
    pub unreadable: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// To read and write through: the group's preferred one, if it has the resource.
    pub version: String,
    pub kind: String,
    pub namespaced: bool,
    pub hash: VersionHash,
}

#[derive(Deserialize)]
struct Groups {
    #[serde(default)]
    groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    #[serde(default)]
    name: String,
    #[serde(default)]
    versions: Vec<GroupVersion>,
    preferred_version: Option<GroupVersion>,
}

#[derive(Deserialize)]
struct GroupVersion {
    version: String,
}

#[derive(Deserialize)]
struct CoreVersions {
    #[serde(default)]
    versions: Vec<String>,
}

#[derive(Deserialize)]
struct Resources {
    #[serde(default)]
    resources: Vec<Described>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Described {
    name: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    storage_version_hash: String,
}

/// Whether an API server knows all that it serves. One that just started does not: custom resources come last.
pub async fn is_ready(client: &Client) -> kube::Result<bool> {
    let request = Request::get("/readyz").body(vec![]).map_err(kube::Error::HttpError)?;
    match client.request_text(request).await {
        Ok(_) => Ok(true),
        // Whoever may not ask takes it as it is.
        Err(kube::Error::Api(status)) => Ok(matches!(status.code, 401 | 403 | 404)),
        Err(error) => Err(error),
    }
}

/// Everything that an API server serves. Fails only if it can't be asked at all.
pub async fn discover(client: &Client) -> kube::Result<Discovered> {
    let core: CoreVersions = get(client, "/api").await?;
    let groups: Groups = get(client, "/apis").await?;
    let core = core.versions.into_iter().map(|version| (String::new(), version));
    let others = groups.groups.into_iter().flat_map(in_order_of_preference);
    read(client, core.chain(others).collect()).await
}

/// What one group serves. A group that is not there serves nothing.
pub async fn discover_group(client: &Client, group: &str) -> kube::Result<Discovered> {
    let versions = match group.is_empty() {
        true => {
            let core: CoreVersions = get(client, "/api").await?;
            core.versions.into_iter().map(|version| (String::new(), version)).collect()
        }
        false => match get::<Group>(client, &format!("/apis/{group}")).await {
            Ok(group) => in_order_of_preference(group).collect(),
            Err(kube::Error::Api(status)) if status.code == 404 => vec![],
            Err(error) => return Err(error),
        },
    };
    read(client, versions).await
}

fn in_order_of_preference(group: Group) -> impl Iterator<Item = (String, String)> {
    let preferred = group.preferred_version.map(|it| it.version);
    let mut versions: Vec<String> = group.versions.into_iter().map(|it| it.version).collect();
    versions.sort_by_key(|version| Some(version) != preferred.as_ref());
    versions.into_iter().map(move |version| (group.name.clone(), version))
}

/// Versions of a group come with the preferred one first; the first that has a resource is what it is reached through.
async fn read(client: &Client, versions: Vec<(String, String)>) -> kube::Result<Discovered> {
    let documents = stream::iter(versions).map(|(group, version)| async move {
        let path = match group.is_empty() {
            true => format!("/api/{version}"),
            false => format!("/apis/{group}/{version}"),
        };
        let document = tokio::time::timeout(PATIENCE, get::<Resources>(client, &path)).await;
        (group, version, document.unwrap_or_else(|_| Err(too_slow())))
    });
    let mut documents = documents.buffered(AT_ONCE);
    let mut found = Discovered::default();
    while let Some((group, version, document)) = documents.next().await {
        match document {
            Ok(document) => take(&mut found, &group, &version, document),
            // It was taken away between two requests.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error @ (kube::Error::Api(_) | kube::Error::SerdeError(_) | kube::Error::FromUtf8(_))) => {
                let name = if group.is_empty() { version } else { format!("{group}/{version}") };
                found.unreadable.insert(name, error.to_string());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn take(found: &mut Discovered, group: &str, version: &str, document: Resources) {
    for described in document.resources {
        let can = |verb: &str| described.verbs.iter().any(|it| it == verb);
        // A name with a slash is a part of another resource, like its status.
        let migratable = !described.storage_version_hash.is_empty()
            && !described.name.contains('/')
            && can("list")
            && can("update");
        if migratable {
            found.names.add(group, version, &described.kind);
            found.served.entry(Resource::new(group, described.name)).or_insert_with(|| Served {
                version: version.to_owned(),
                kind: described.kind,
                namespaced: described.namespaced,
                hash: described.storage_version_hash.as_str().into(),
            });
        }
    }
}

/// As if it had answered that it can't.
fn too_slow() -> kube::Error {
    let message = format!("no answer within {} s", PATIENCE.as_secs());
    kube::Error::Api(kube::core::Status { code: 504, message, ..Default::default() }.boxed())
}

async fn get<T: DeserializeOwned>(client: &Client, path: &str) -> kube::Result<T> {
    let request = Request::get(path).header("accept", "application/json").body(vec![]);
    client.request(request.map_err(kube::Error::HttpError)?).await
}

impl Discovered {
    /// Whether nothing can be said of a resource, because a version of its group could not be read.
    pub fn is_in_the_dark(&self, resource: &Resource) -> bool {
        self.unreadable.keys().any(|name| {
            let group = name.rsplit_once('/').map_or("", |(group, _)| group);
            group == resource.group
        })
    }
}
