//! Agents that are killed, and agents that never come up.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;

use crate::cluster::ground::{Ground, VERSION, agent, note, note_path, waiting_for};

fn kill_nine(process: u32) {
    kill(Pid::from_raw(i32::try_from(process).unwrap()), Signal::SIGKILL).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_is_killed_in_the_middle_comes_to_the_right_end_after_that() {
    let mut ground = Ground::start("2m").await;
    let flag = ground.flag("go-on");
    ground.publish(
        "1.1.0",
        &[
            ("0000_10_first.yaml", note("first")),
            ("0000_20_server.yaml", waiting_for("server", &flag)),
            ("0000_30_last.yaml", note("last")),
            ("0000_99_agent.yaml", agent("1.1.0")),
        ],
    );
    ground.ask_for("1.1.0").await;
    let applying = |it: &serde_json::Value| {
        it["status"]["rollout"]["under"]["at"].as_str().is_some_and(|at| at.contains("server"))
    };
    ground.until(VERSION, applying).await;
    for _ in 0..3 {
        let before = ground.kubelet.processes("holdfast-agent");
        assert_eq!(before.len(), 1, "{}", ground.kubelet.said("holdfast-agent"));
        kill_nine(before[0]);
        // Another one has taken up what that one left.
        let (_, lease) = ground.cluster.get(LEASE).await;
        ground.until(LEASE, |it| it["spec"]["leaseTransitions"] != lease["spec"]["leaseTransitions"]).await;
        assert!(!ground.is_there(&note_path("last")).await);
    }
    std::fs::write(&flag, "").unwrap();
    let version = ground.until_history("1.1.0", "Completed").await;
    assert!(ground.is_there(&note_path("last")).await);
    let history = version["status"]["history"].as_array().unwrap();
    assert_eq!(history.len(), 2, "{history:?}");
    assert_eq!(version["status"]["rollout"]["ended"], 1);
}

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/holdfast-system/leases/holdfast-agent";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_agent_that_does_not_start_leaves_the_old_one_in_charge_which_tells_and_takes_the_repair() {
    let mut ground = Ground::start("3s").await;
    let mut broken = agent("1.1.0");
    broken["spec"]["template"]["spec"]["containers"][0]["image"] = json!("missing/holdfast");
    ground.publish("1.1.0", &[("0000_00_agent.yaml", broken), ("0000_10_first.yaml", note("first"))]);
    let before = ground.kubelet.processes("holdfast-agent");
    ground.ask_for("1.1.0").await;
    ground.until_failing("the new agent does not come up").await;
    ground.until_failing("ErrImagePull").await;
    assert!(!ground.is_there(&note_path("first")).await, "the rest was applied by the old agent");
    assert_eq!(ground.kubelet.processes("holdfast-agent"), before);
    ground.publish("1.1.1", &[("0000_00_agent.yaml", agent("1.1.1")), ("0000_10_first.yaml", note("first"))]);
    ground.ask_for("1.1.1").await;
    let version = ground.until_history("1.1.1", "Completed").await;
    assert_eq!(version["status"]["history"][1]["state"], "Abandoned");
    assert!(ground.is_there(&note_path("first")).await);
}
