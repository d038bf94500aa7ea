//! What must hold in a cluster before it is moved: its nodes, and the versions of Kubernetes in it.

use semver::{Version, VersionReq};

use super::hold::{Hold, Precondition};

/// As far as a kubelet may be behind its API server: what every Kubernetes in use allows.
const KUBELET_BEHIND: u64 = 2;
/// Nodes that are named; the others are counted.
const NAMED: usize = 5;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    /// In the words of the node, where it is not.
    pub not_ready: Option<String>,
    /// `v1.20.2`, as the node says it.
    pub kubelet: String,
}

pub fn nodes_ready(nodes: &[Node]) -> Precondition {
    let not_ready = nodes.iter().filter_map(|node| {
        node.not_ready
            .as_ref()
            .map(|why| if why.is_empty() { node.name.clone() } else { format!("{} ({why})", node.name) })
    });
    let outcome = match some(not_ready.collect()) {
        None => Hold::Met,
        Some(names) => Hold::Unmet {
            why: format!("nodes are not ready: {names}"),
            way_out:
                "see `kubectl describe node`; remove a node that will not come back, or pass over nodes-ready"
                    .to_owned(),
        },
    };
    Precondition { name: "nodes-ready".to_owned(), outcome }
}

/// Kubelets are never newer than the API server, and not too far behind it: a release that moves either would break them.
pub fn kubelet_skew(server: &str, nodes: &[Node]) -> Precondition {
    let name = "kubelet-skew".to_owned();
    let Some(server) = version(server) else { return unknown(name, server) };
    let mut wrong = vec![];
    for node in nodes {
        match version(&node.kubelet) {
            None => wrong.push(format!("{} says {:?}", node.name, node.kubelet)),
            Some(kubelet) => {
                let newer = (kubelet.major, kubelet.minor) > (server.major, server.minor);
                let behind = kubelet.major != server.major
                    || server.minor.saturating_sub(kubelet.minor) > KUBELET_BEHIND;
                if newer || behind {
                    wrong.push(format!("{} runs {kubelet}", node.name));
                }
            }
        }
    }
    let outcome = match some(wrong) {
        None => Hold::Met,
        Some(names) => Hold::Unmet {
            why: format!("kubelets do not fit the API server {server}: {names}"),
            way_out: format!(
                "bring every node to at most {KUBELET_BEHIND} minor versions behind the API server first"
            ),
        },
    };
    Precondition { name, outcome }
}

/// What the release asks for, in its metadata: `>=1.20, <1.30`.
pub fn kubernetes_version(wanted: Option<&str>, server: &str) -> Precondition {
    let name = "kubernetes-version".to_owned();
    let Some(wanted) = wanted else { return Precondition { name, outcome: Hold::Met } };
    let Ok(range) = VersionReq::parse(wanted) else {
        let why = format!("the release asks for Kubernetes {wanted:?}, which is no range of versions");
        return Precondition {
            name,
            outcome: Hold::Unknown { why, way_out: "ask whoever publishes it".to_owned() },
        };
    };
    let Some(server) = version(server) else { return unknown(name, server) };
    let outcome = match range.matches(&server) {
        true => Hold::Met,
        false => Hold::Unmet {
            why: format!("the release is for Kubernetes {wanted}, and the API server is {server}"),
            way_out: "move the cluster's Kubernetes first, or take another release".to_owned(),
        },
    };
    Precondition { name, outcome }
}

fn unknown(name: String, server: &str) -> Precondition {
    let outcome = Hold::Unknown {
        why: format!("the API server says that it is {server:?}, which is no version"),
        way_out: "see `kubectl version`".to_owned(),
    };
    Precondition { name, outcome }
}

/// Distributors add to it: `v1.20.2-gke.1`, `v1.20.2+k3s1`. Those are no pre-releases.
fn version(text: &str) -> Option<Version> {
    let plain = text.trim().trim_start_matches('v').split(['-', '+']).next()?;
    Version::parse(plain).ok()
}

fn some(names: Vec<String>) -> Option<String> {
    let more = names.len().saturating_sub(NAMED);
    let named = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match (names.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(named),
        (false, more) => Some(format!("{named} and {more} more")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, kubelet: &str) -> Node {
        Node { name: name.to_owned(), not_ready: None, kubelet: kubelet.to_owned() }
    }

    #[test]
    fn a_node_that_is_not_ready_is_named_with_its_reason() {
        let mut nodes = vec![node("a", "v1.20.2"), node("b", "v1.20.2")];
        assert_eq!(nodes_ready(&nodes).outcome, Hold::Met);
        nodes[1].not_ready = Some("KubeletNotReady".to_owned());
        let Hold::Unmet { why, .. } = nodes_ready(&nodes).outcome else { panic!("met") };
        assert_eq!(why, "nodes are not ready: b (KubeletNotReady)");
    }

    #[test]
    fn many_nodes_are_counted() {
        let nodes: Vec<Node> = (0..8)
            .map(|number| Node { not_ready: Some(String::new()), ..node(&format!("n{number}"), "v1.20.2") })
            .collect();
        let Hold::Unmet { why, .. } = nodes_ready(&nodes).outcome else { panic!("met") };
        assert!(why.ends_with("n4 and 3 more"), "{why}");
    }

    #[test]
    fn a_kubelet_may_be_two_behind_and_none_ahead() {
        let met = |kubelet: &str| kubelet_skew("v1.20.2", &[node("a", kubelet)]).outcome == Hold::Met;
        assert!(met("v1.20.9") && met("v1.18.0-gke.5") && met("v1.19.1+k3s1"));
        assert!(!met("v1.21.0") && !met("v1.17.9") && !met("v2.20.0") && !met("unknown"));
        assert!(matches!(kubelet_skew("?", &[]).outcome, Hold::Unknown { .. }));
    }

    #[test]
    fn a_release_may_ask_for_a_range_of_kubernetes() {
        let outcome = |wanted| kubernetes_version(wanted, "v1.20.2+k3s1").outcome;
        assert_eq!(outcome(None), Hold::Met);
        assert_eq!(outcome(Some(">=1.20, <1.30")), Hold::Met);
        assert!(matches!(outcome(Some(">=1.21")), Hold::Unmet { .. }));
        assert!(matches!(outcome(Some("new")), Hold::Unknown { .. }));
    }
}
