//! Workloads through the Kubernetes API: a local server replays its answers, the good, the bad and the broken.

use std::path::PathBuf;
use std::time::Duration;

use crate::health_support::{Asked, Reply, Server, Tls, closed_port, tls_file};
use crate::host_support::Scratch;
use base64::Engine;
use guard::health::{Check, CheckKind, CheckResult, Config, Outcome, Period, run_checks};

fn answer(name: &str) -> String {
    let path = format!("{}/tests/fixtures/health/kubernetes/{name}.json", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

fn kubeconfig(scratch: &Scratch, server: &str, cluster: &str, user: &str) -> PathBuf {
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         contexts:\n- name: c\n  context: {{cluster: l, user: u}}\n\
         clusters:\n- name: l\n  cluster: {{server: \"{server}\"{cluster}}}\n\
         users:\n- name: u\n  user: {{{user}}}\n"
    );
    scratch.write("kubeconfig", &text)
}

fn ask(kubeconfig: PathBuf, namespaces: &[&str], workloads: &[&str]) -> CheckResult {
    let kind = CheckKind::Kubernetes {
        kubeconfig,
        context: None,
        namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
        workloads: workloads.iter().map(|name| name.parse().unwrap()).collect(),
    };
    let limit = |millis| Period::from(Duration::from_millis(millis));
    let check =
        Check { name: "k".into(), required: true, timeout: Some(limit(1500)), retry_every: limit(150), kind };
    let config =
        Config { required_dirs: vec![], wanted_dirs: vec![], checks: vec![check], ..Config::default() };
    run_checks(&config, Duration::from_secs(30), None).unwrap().checks.remove(0)
}

const ROUTER: &str = "Deployment/openshift-ingress/router";
const ROUTER_PATH: &str = "/apis/apps/v1/namespaces/openshift-ingress/deployments/router";

type Answering = Box<dyn Fn(&Asked, usize) -> Reply + Send + Sync>;

/// The API with one deployment, answered as given.
fn one(reply: impl Fn(&Asked, usize) -> Reply + Send + Sync + 'static) -> CheckResult {
    let scratch = Scratch::new("kube");
    let server = Server::start(Tls::Off, move |asked, before| {
        assert_eq!(asked.path, ROUTER_PATH);
        reply(asked, before)
    });
    ask(kubeconfig(&scratch, &server.url(""), "", "token: secret"), &[], &[ROUTER])
}

#[test]
fn a_named_workload_is_asked_for_with_the_token() {
    let result = one(|asked, _| match asked.authorization.as_deref() {
        Some("Bearer secret") => Reply::new(200, answer("deployment-ready")),
        _ => Reply::new(401, answer("error-401")),
    });
    assert_eq!((result.outcome, result.detail.as_str()), (Outcome::Passed, "1 workloads are ready"));
}

#[test]
fn a_workload_that_is_not_ready_is_bad_and_one_that_becomes_ready_passes() {
    let bad = one(|_, _| Reply::new(200, answer("deployment-not-available")));
    assert_eq!(bad.outcome, Outcome::Failed);
    assert_eq!(bad.detail, "Deployment/openshift-ingress/router: 0 of 1 updated replicas are available");
    let late = one(|_, before| {
        Reply::new(200, answer(if before < 2 { "deployment-not-available" } else { "deployment-ready" }))
    });
    assert_eq!((late.outcome, late.attempts), (Outcome::Passed, 3));
    let absent = one(|_, _| Reply::new(404, answer("error-404")));
    assert_eq!(
        (absent.outcome, absent.detail.as_str()),
        (Outcome::Failed, "Deployment/openshift-ingress/router: does not exist")
    );
}

#[test]
fn an_api_that_does_not_answer_properly_leaves_the_workload_unknown() {
    let whole = answer("deployment-ready");
    let half = whole[..whole.len() / 2].to_owned();
    let status =
        |status, name: &'static str| -> Answering { Box::new(move |_, _| Reply::new(status, answer(name))) };
    let text = |status, text: String| -> Answering { Box::new(move |_, _| Reply::new(status, text.clone())) };
    let cases: [(Answering, &str); 8] = [
        (
            status(401, "error-401"),
            "401 Unauthorized for openshift-ingress/deployments/router: Unauthorized; renew",
        ),
        (status(403, "error-403"), "cannot list resource"),
        (
            status(503, "error-503"),
            "503 Service Unavailable for openshift-ingress/deployments/router: apiserver is",
        ),
        (text(502, "<html>bad gateway</html>".into()), "502 Bad Gateway"),
        (text(404, "<html>not here</html>".into()), "404 Not Found"),
        (text(200, half), "EOF while parsing"),
        (Box::new(move |_, _| Reply::cut(whole.clone(), 100)), "broke off"),
        (text(200, "[]".into()), "invalid"),
    ];
    // Each waits for its own limit; they can do so together.
    std::thread::scope(|scope| {
        for (reply, part) in cases {
            scope.spawn(move || {
                let result = one(reply);
                assert_eq!(result.outcome, Outcome::CouldNotRun, "{result:?}");
                assert!(result.detail.contains(part), "{part}: {result:?}");
                assert!(result.attempts > 1, "{result:?}");
            });
        }
    });
    let scratch = Scratch::new("kube-closed");
    let server = format!("http://127.0.0.1:{}", closed_port());
    let result = ask(kubeconfig(&scratch, &server, "", "token: x"), &[], &[ROUTER]);
    assert_eq!(result.outcome, Outcome::CouldNotRun);
    assert!(result.detail.contains("can't connect"), "{result:?}");
}

#[test]
fn a_namespace_means_all_of_its_workloads_and_an_empty_one_is_not_ready() {
    let scratch = Scratch::new("kube-ns");
    let server = Server::start(Tls::Off, |asked, _| {
        let empty = asked.path.contains("/namespaces/empty/");
        match asked.path.rsplit('/').next() {
            Some(_) if empty => Reply::new(200, answer("list-statefulsets")),
            Some(plural) => Reply::new(200, answer(&format!("list-{plural}"))),
            None => Reply::new(404, ""),
        }
    });
    let config = kubeconfig(&scratch, &server.url("/"), "", "token: x");
    let full = ask(config.clone(), &["openshift-ingress"], &[]);
    assert_eq!((full.outcome, full.detail.as_str()), (Outcome::Passed, "3 workloads are ready"));
    let paths = server.paths.lock().unwrap().clone();
    assert_eq!(
        paths,
        ["deployments", "daemonsets", "statefulsets"]
            .map(|plural| format!("/apis/apps/v1/namespaces/openshift-ingress/{plural}"))
    );
    let empty = ask(config, &["empty"], &[]);
    assert_eq!(
        (empty.outcome, empty.detail.as_str()),
        (Outcome::Failed, "namespace empty: has no workloads")
    );
}

#[test]
fn what_is_known_to_be_bad_is_bad_even_if_the_rest_is_unknown() {
    let scratch = Scratch::new("kube-mixed");
    let server = Server::start(Tls::Off, |asked, _| {
        if asked.path == ROUTER_PATH {
            Reply::new(200, answer("deployment-past-deadline"))
        } else {
            Reply::new(503, answer("error-503"))
        }
    });
    let config = kubeconfig(&scratch, &server.url(""), "", "token: x");
    let result = ask(config, &["other"], &[ROUTER]);
    assert_eq!(result.outcome, Outcome::Failed);
    assert!(result.detail.ends_with("it went past its progress deadline"), "{result:?}");
}

#[test]
fn certificates_come_from_files_or_from_the_kubeconfig_itself() {
    let server = Server::start(Tls::Mutual, |_, _| Reply::new(200, answer("deployment-ready")));
    let url = format!("https://localhost:{}", server.port);
    let scratch = Scratch::new("kube-tls");
    let file = |name: &str| std::fs::read(tls_file(name)).unwrap();
    let data = |name: &str| base64::engine::general_purpose::STANDARD.encode(file(name));

    let cluster = format!(", certificate-authority: \"{}\"", tls_file("ca.pem"));
    let user = format!(
        "client-certificate: \"{}\", client-key: \"{}\"",
        tls_file("client.pem"),
        tls_file("client.key")
    );
    let result = ask(kubeconfig(&scratch, &url, &cluster, &user), &[], &[ROUTER]);
    assert_eq!(result.outcome, Outcome::Passed, "{result:?}");

    let inline = format!(", certificate-authority-data: {}", data("ca.pem"));
    let user =
        format!("client-certificate-data: {}, client-key-data: {}", data("client.pem"), data("client.key"));
    let result = ask(kubeconfig(&scratch, &url, &inline, &user), &[], &[ROUTER]);
    assert_eq!(result.outcome, Outcome::Passed, "{result:?}");

    // Nobody, and someone who trusts the wrong CA.
    let nobody = ask(kubeconfig(&scratch, &url, &inline, ""), &[], &[ROUTER]);
    assert_eq!(nobody.outcome, Outcome::CouldNotRun, "{nobody:?}");
    let wrong = format!(", certificate-authority: \"{}\"", tls_file("other-ca.pem"));
    let wrong = ask(kubeconfig(&scratch, &url, &wrong, &user), &[], &[ROUTER]);
    assert_eq!(wrong.outcome, Outcome::CouldNotRun, "{wrong:?}");
}

#[test]
fn a_kubeconfig_that_comes_later_is_waited_for_and_one_that_can_not_work_is_not() {
    let scratch = Scratch::new("kube-config");
    let missing = ask(scratch.path().join("kubeconfig"), &["x"], &[]);
    assert_eq!(missing.outcome, Outcome::CouldNotRun);
    assert!(missing.attempts > 1);
    let plugin = kubeconfig(&scratch, "https://127.0.0.1:1", "", "exec: {command: aws}");
    let plugin = ask(plugin, &["x"], &[]);
    assert_eq!((plugin.outcome, plugin.attempts), (Outcome::CouldNotRun, 1));
    assert!(plugin.detail.contains("an exec plugin"), "{plugin:?}");
    // A token file is read anew each time.
    let server = Server::start(Tls::Off, |asked, _| match asked.authorization.as_deref() {
        Some("Bearer fresh") => Reply::new(200, answer("deployment-ready")),
        _ => Reply::new(401, answer("error-401")),
    });
    scratch.write("token", "fresh\n");
    let config = kubeconfig(&scratch, &server.url(""), "", "tokenFile: token");
    assert_eq!(ask(config, &[], &[ROUTER]).outcome, Outcome::Passed);
}
