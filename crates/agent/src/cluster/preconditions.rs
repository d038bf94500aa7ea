//! What is looked at before a cluster is moved: its nodes and its versions of Kubernetes. `logic` says what follows from it.

use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client};
use logic::agent::{Hold, Precondition, kubelet_skew, kubernetes_version, nodes_ready};

use super::error::ClusterError;

/// Nodes asked for at once.
const PAGE: u32 = 500;

/// `wanted` is the range of Kubernetes that the release is for.
pub async fn look(client: &Client, wanted: Option<&str>) -> Vec<Precondition> {
    let unknown = |name: &str, error: &ClusterError| Precondition {
        name: name.to_owned(),
        outcome: Hold::Unknown { why: oci::chain(error), way_out: error.way_out().to_owned() },
    };
    let asked = ClusterError::request("ask the API server for its version");
    let server = client.apiserver_version().await.map_err(asked);
    let nodes = nodes(client).await;
    vec![
        match &nodes {
            Ok(nodes) => nodes_ready(nodes),
            Err(error) => unknown("nodes-ready", error),
        },
        match (&server, &nodes) {
            (Ok(server), Ok(nodes)) => kubelet_skew(&server.git_version, nodes),
            (Err(error), _) | (_, Err(error)) => unknown("kubelet-skew", error),
        },
        match &server {
            Ok(server) => kubernetes_version(wanted, &server.git_version),
            Err(error) => unknown("kubernetes-version", error),
        },
    ]
}

async fn nodes(client: &Client) -> Result<Vec<logic::agent::Node>, ClusterError> {
    let api: Api<Node> = Api::all(client.clone());
    let (mut nodes, mut page) = (vec![], ListParams::default().limit(PAGE));
    loop {
        let found = api.list(&page).await.map_err(ClusterError::request("list the nodes"))?;
        nodes.extend(found.items.iter().map(seen));
        match found.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = ListParams::default().limit(PAGE).continue_token(&token),
            None => return Ok(nodes),
        }
    }
}

fn seen(node: &Node) -> logic::agent::Node {
    let status = node.status.clone().unwrap_or_default();
    let ready = status.conditions.iter().flatten().find(|it| it.type_ == "Ready").cloned();
    logic::agent::Node {
        name: node.metadata.name.clone().unwrap_or_default(),
        not_ready: match ready {
            Some(ready) if ready.status == "True" => None,
            Some(ready) => Some(ready.reason.unwrap_or_default()),
            None => Some("it does not say so".to_owned()),
        },
        kubelet: status.node_info.map(|info| info.kubelet_version).unwrap_or_default(),
    }
}
