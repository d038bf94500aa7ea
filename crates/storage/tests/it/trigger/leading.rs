//! Several controllers, of which one leads.

use std::process::{Child, Command};
use std::time::Duration;

use serde_json::Value;
use testkit::kube::{Client, Throttle, throttle::Asked};

use crate::trigger::support::*;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/holdfast-system/leases/holdfast-storage";

fn holder(lease: &Value) -> Option<&str> {
    lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty())
}

/// Waits until somebody leads who is not `but`.
async fn until_led(client: &Client, but: &str) -> String {
    let lease = client.until(LEASE, |_, lease| holder(lease).is_some_and(|it| it != but)).await;
    holder(&lease).unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_leads_at_a_time_and_another_takes_over() {
    let cluster = cluster().await;
    let kubeconfig = cluster.kubeconfig("admin");
    let settings = settings(600);
    let start = || Controller::start(&kubeconfig, &settings, LEADING);
    let first = start().await;
    first.passes(1).await;
    let one = until_led(&cluster, "").await;
    let second = start().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((first.metric("leader"), second.metric("leader")), (1.0, 0.0), "longer than a lease");
    assert_eq!(second.metric("passes_total"), 0.0, "whoever does not lead does nothing");

    // Killed, it leaves the lease behind, which runs out.
    first.cut_off().await;
    let two = until_led(&cluster, &one).await;
    second.passes(1).await;
    assert_eq!(second.metric("leader"), 1.0);
    for state in cluster.list(STATES).await {
        assert_eq!(migrations_of(&cluster, &name(&state)).await.len(), 1, "{state}");
    }
    // Asked to end, it gives the lease up.
    second.stop().await;
    assert_eq!(holder(&cluster.get(LEASE).await.1), None);
    let third = start().await;
    assert_ne!(until_led(&cluster, "").await, two);
    third.stop().await;
}

/// What the test below starts as a process of its own.
#[tokio::test]
#[ignore = "is no test: a controller, for tests that stop its process"]
async fn child_process_that_controls() {
    let kubeconfig = std::env::var_os("STORAGE_TEST_KUBECONFIG").expect("a kubeconfig");
    let controller = Controller::start(kubeconfig.as_ref(), &settings(1), LEADING).await;
    std::future::pending::<()>().await;
    drop(controller);
}

struct Process(Child);

impl Process {
    fn start(kubeconfig: &std::path::Path) -> Self {
        let this = std::env::current_exe().unwrap();
        let mut command = Command::new(this);
        command.args([
            "--exact",
            "trigger::leading::child_process_that_controls",
            "--ignored",
            "--nocapture",
        ]);
        Self(command.env("STORAGE_TEST_KUBECONFIG", kubeconfig).spawn().unwrap())
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_was_frozen_past_its_lease_writes_nothing_when_it_thaws() {
    use rustix::process::Signal;
    let cluster = cluster().await;
    let proxy = Throttle::start(&cluster.server);
    let frozen = Process::start(&cluster.server.kubeconfig_to("admin", &proxy.url()));
    let one = until_led(&cluster, "").await;
    // It writes heartbeats every second.
    proxy.until_asked(100, |asked| asked.writes() && asked.path.contains("storagestates")).await;
    frozen.signal(Signal::STOP);
    let other = Controller::start(&cluster.kubeconfig("admin"), &settings(600), LEADING).await;
    until_led(&cluster, &one).await;
    other.passes(1).await;
    // What was on its way when it froze has arrived.
    proxy.forget();
    frozen.signal(Signal::CONT);
    proxy.until_asked(1, |asked| !asked.writes() && asked.path.contains("/leases/")).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    // It may try for the lease, which it does not get.
    let refused = |asked: &Asked| asked.path.contains("/leases/") && asked.status == Some(409);
    let written: Vec<_> = proxy.asked().into_iter().filter(|it| it.writes() && !refused(it)).collect();
    assert!(written.is_empty(), "{written:?}");
    assert_eq!(other.metric("leader"), 1.0);
    drop(frozen);
    other.stop().await;
}
