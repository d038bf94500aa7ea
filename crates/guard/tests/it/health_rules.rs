//! The pure decisions: what an object, a unit's properties, a kubeconfig and a configuration mean.

use std::path::Path;

use guard::health::{
    CheckKind, Config, Held, Kubeconfig, Object, Period, Readiness, UnitState, Workload, WorkloadKind,
    parse_unit, readiness,
};

fn fixture(name: &str) -> String {
    let path = format!("{}/tests/fixtures/health/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn workloads_are_ready_when_kubectl_would_say_so() {
    use WorkloadKind::{DaemonSet, Deployment, StatefulSet};
    for (kind, name, expected) in [
        (Deployment, "deployment-ready", ""),
        (Deployment, "deployment-not-available", "0 of 1 updated replicas are available"),
        (Deployment, "deployment-old-replicas", "1 old replicas are still there"),
        (Deployment, "deployment-past-deadline", "it went past its progress deadline"),
        (Deployment, "deployment-not-observed", "its controller has not seen the latest change"),
        (DaemonSet, "daemonset-ready", ""),
        (DaemonSet, "daemonset-not-updated", "0 of 1 pods are updated"),
        (DaemonSet, "daemonset-not-available", "0 of 1 pods are available"),
        (DaemonSet, "daemonset-on-delete", ""),
        (DaemonSet, "daemonset-no-nodes", ""),
        (StatefulSet, "statefulset-ready", ""),
        (StatefulSet, "statefulset-not-ready", "2 of 3 replicas are ready"),
        (StatefulSet, "statefulset-not-updated", "1 of 3 replicas are updated"),
        (StatefulSet, "statefulset-partitioned", ""),
        (StatefulSet, "statefulset-on-delete", ""),
        (StatefulSet, "statefulset-new", "its controller has not seen the latest change"),
    ] {
        let object: Object = serde_json::from_str(&fixture(&format!("kubernetes/{name}.json"))).unwrap();
        let found = match readiness(kind, &object) {
            Readiness::Ready => String::new(),
            Readiness::Waiting(why) => why,
        };
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn a_deployment_scaled_to_nothing_is_ready() {
    let text =
        r#"{"metadata":{"name":"x","generation":3},"spec":{"replicas":0},"status":{"observedGeneration":3}}"#;
    let object: Object = serde_json::from_str(text).unwrap();
    assert_eq!(readiness(WorkloadKind::Deployment, &object), Readiness::Ready);
    // One is what an absent number means.
    let text = r#"{"metadata":{"name":"x","generation":3},"status":{"observedGeneration":3}}"#;
    let object: Object = serde_json::from_str(text).unwrap();
    assert_ne!(readiness(WorkloadKind::Deployment, &object), Readiness::Ready);
}

#[test]
fn units_are_active_when_systemctl_is_active_would_say_so() {
    let inactive = |words: &str| UnitState::Inactive(words.to_owned());
    for (name, expected) in [
        ("active", UnitState::Active),
        ("exited", UnitState::Active),
        ("reloading", UnitState::Active),
        ("activating", inactive("the unit is activating, auto-restart, exit-code")),
        ("inactive", inactive("the unit is inactive, dead")),
        ("failed", inactive("the unit is failed, exit-code")),
        ("not-found", inactive("there is no such unit")),
        ("masked", inactive("the unit is masked")),
    ] {
        assert_eq!(parse_unit(&fixture(&format!("systemctl/{name}.txt"))), expected, "{name}");
    }
    for text in ["", "active\n", "ActiveState=\n", "XActiveState=active\n"] {
        assert!(matches!(parse_unit(text), UnitState::Unknown(_)), "{text:?}");
    }
}

#[test]
fn workloads_are_named_by_kind_namespace_and_name() {
    let workload: Workload = "Deployment/openshift-ingress/router-default".parse().unwrap();
    assert_eq!(workload.to_string(), "Deployment/openshift-ingress/router-default");
    for text in [
        "",
        "router",
        "Deployment/x",
        "Pod/a/b",
        "deployment/a/b",
        "Deployment//b",
        "Deployment/a/..",
        "Deployment/a/b?c",
        "Deployment/a/b/c",
    ] {
        assert!(text.parse::<Workload>().is_err(), "{text}");
    }
}

const KUBECONFIG: &str = r#"
apiVersion: v1
kind: Config
current-context: edge
contexts:
- name: edge
  context: {cluster: local, user: admin, namespace: default}
- name: files
  context: {cluster: files, user: files}
- name: token
  context: {cluster: local, user: token}
- name: plugin
  context: {cluster: local, user: plugin}
- name: insecure
  context: {cluster: insecure, user: admin}
- name: lost
  context: {cluster: nowhere, user: admin}
- name: anonymous
  context: {cluster: local}
clusters:
- name: local
  cluster:
    server: https://127.0.0.1:6443/
    certificate-authority-data: Q0E=
- name: files
  cluster: {server: "https://api.example.com:6443", certificate-authority: pki/ca.crt}
- name: insecure
  cluster: {server: "https://127.0.0.1:6443", insecure-skip-tls-verify: true}
users:
- name: admin
  user:
    client-certificate-data: Q0VSVA==
    client-key-data: S0VZ
- name: files
  user: {client-certificate: /abs/client.crt, client-key: client.key, tokenFile: token, token: old}
- name: token
  user: {token: secret}
- name: plugin
  user:
    exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, args: [eks, get-token]}
"#;

#[test]
fn a_kubeconfig_leads_to_server_certificates_and_identity() {
    let config = Kubeconfig::parse(KUBECONFIG).unwrap();
    let dir = Path::new("/etc/kube");
    let inline = |text: &str| Held::Inline(text.as_bytes().to_vec());
    let file = |path: &str| Held::File(path.into());

    let edge = config.access(None, dir).unwrap();
    assert_eq!((edge.server.as_str(), edge.ca), ("https://127.0.0.1:6443", Some(inline("CA"))));
    assert_eq!(edge.identity.client, Some((inline("CERT"), inline("KEY"))));
    let files = config.access(Some("files"), dir).unwrap();
    assert_eq!(files.ca, Some(file("/etc/kube/pki/ca.crt")));
    assert_eq!(files.identity.client, Some((file("/abs/client.crt"), file("/etc/kube/client.key"))));
    assert_eq!(files.identity.token, Some(file("/etc/kube/token")));
    let token = config.access(Some("token"), dir).unwrap();
    assert_eq!(token.identity.token, Some(inline("secret")));
    assert!(!format!("{token:?}").contains("secret"));
    assert_eq!(config.access(Some("anonymous"), dir).unwrap().identity, Default::default());

    for (context, part, is_final) in [
        ("plugin", "uses an exec plugin", true),
        ("insecure", "uses insecure-skip-tls-verify", true),
        ("lost", "no cluster \"nowhere\"", false),
        ("other", "no context \"other\"", false),
    ] {
        let error = config.access(Some(context), dir).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        assert_eq!(error.is_final(), is_final, "{context}");
        assert!(!error.hint().is_empty());
    }
}

#[test]
fn a_broken_kubeconfig_is_an_error_in_words() {
    for text in ["contexts: 7", "{", "\u{0}", "contexts:\n- name: x\n"] {
        let error = Kubeconfig::parse(text).unwrap_err();
        assert!(error.to_string().starts_with("the kubeconfig can't be read: "), "{error}");
    }
    let empty = Kubeconfig::parse("").and_then(|config| config.access(None, Path::new("/")));
    assert!(empty.is_err());
    let bad = KUBECONFIG.replace("Q0E=", "'$$'");
    let error = Kubeconfig::parse(&bad).unwrap().access(None, Path::new("/")).unwrap_err();
    assert!(error.to_string().contains("certificate-authority-data is not base64"), "{error}");
}

const CONFIG: &str = r#"
required-dirs = ["/usr/lib/holdfast/health/required.d", "/etc/holdfast/health/required.d"]
wanted-dirs = []
timeout = "300s"
parallel = 4
disabled = ["10-slow"]

[[check]]
name = "api"
kind = "http"
url = "https://127.0.0.1:8443/readyz"
status = [200]
contains = "ok"
ca = "/etc/pki/ca.pem"
timeout = "10s"
retry-every = "2s"

[[check]]
name = "service"
kind = "unit"
unit = "microshift.service"

[[check]]
name = "etcd"
kind = "tcp"
address = "[::1]:2379"
required = false

[[check]]
name = "fresh"
kind = "file-age"
path = "/var/lib/app/heartbeat"
max-age = "1m30s"

[[check]]
name = "workloads"
kind = "kubernetes"
kubeconfig = "/var/lib/microshift/resources/kubeadmin/kubeconfig"
namespaces = ["openshift-dns"]
workloads = ["Deployment/openshift-ingress/router-default"]
"#;

#[test]
fn a_configuration_is_read_checked_and_written_back() {
    let config: Config = toml::from_str(CONFIG).unwrap();
    config.validate().unwrap();
    assert_eq!((config.timeout, config.checks.len()), (Period::seconds(300), 5));
    let http = &config.checks[0];
    assert!(http.required && http.timeout == Some(Period::seconds(10)));
    assert!(matches!(&http.kind, CheckKind::Http { status, .. } if status == &[200]));
    assert!(!config.checks[2].required);
    let written = toml::to_string(&config).unwrap();
    assert_eq!(toml::from_str::<Config>(&written).unwrap(), config);

    let empty: Config = toml::from_str("").unwrap();
    assert_eq!(empty, Config::default());
    assert_eq!(empty.required_dirs[1], Path::new("/etc/holdfast/health/required.d"));
}

#[test]
fn a_wrong_configuration_is_refused_with_its_place() {
    let check = |rest: &str| format!("timeout = \"5m\"\n[[check]]\nname = \"x\"\n{rest}\n");
    for (text, part, line) in [
        ("timeuot = \"5m\"".to_owned(), "unknown field `timeuot`", 1),
        ("timeout = 300".to_owned(), "expected a string", 1),
        ("timeout = \"5 minutes\"".to_owned(), "not a length of time", 1),
        (check("kind = \"tcp\"\naddress = \"h:1\"\nrety = 1"), "unknown field `rety`", 6),
        (
            check("kind = \"tcp\"\naddress = \"h:1\"\nurl = \"http://h\""),
            "url does not belong to kind \"tcp\"",
            2,
        ),
        (check("kind = \"tcp\""), "needs address", 2),
        (check("kind = \"tcp\"\naddress = \"localhost\""), "must be HOST:PORT", 2),
        (check("kind = \"tcp\"\naddress = \"localhost:0\""), "must be HOST:PORT", 2),
        (check("kind = \"ping\""), "there is no kind \"ping\"", 2),
        (check("kind = \"http\"\nurl = \"ftp://h\""), "must begin with http", 2),
        (check("kind = \"http\"\nurl = \"http://h\"\nstatus = [99]"), "99 is not an HTTP status", 2),
        (check("kind = \"unit\"\nunit = \"--help\""), "not the name of a unit", 2),
        (check("kind = \"kubernetes\"\nkubeconfig = \"k\""), "needs namespaces or workloads", 2),
        (
            check("kind = \"kubernetes\"\nkubeconfig = \"k\"\nworkloads = [\"Pod/a/b\"]"),
            "is not a workload",
            6,
        ),
        (
            check("kind = \"kubernetes\"\nkubeconfig = \"k\"\nnamespaces = [\"../x\"]"),
            "not the name of a namespace",
            2,
        ),
        (check("kind = \"tcp\"\naddress = \"h:1\"\nretry-every = \"0s\""), "longer than zero", 2),
    ] {
        let error = toml::from_str::<Config>(&text).unwrap_err();
        assert!(error.to_string().contains(part), "{text}\n{error}");
        assert!(error.to_string().contains(&format!("line {line},")), "{text}\n{error}");
    }
    let twice = "[[check]]\nname = \"x\"\nkind = \"tcp\"\naddress = \"h:1\"\n".repeat(2);
    for (text, part) in [
        ("parallel = 0", "parallel is 0"),
        ("parallel = 65", "1 to 64"),
        ("timeout = \"0s\"", "zero"),
        (&twice, "two checks are called"),
    ] {
        let error = toml::from_str::<Config>(text).unwrap().validate().unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
}
