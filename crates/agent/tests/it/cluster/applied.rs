//! What is applied, in which order, and what stops it.

use kubernetes::connect::Cluster as Connection;
use serde_json::{Value, json};

use crate::cluster::ground::{Ground, VERSION, agent, condition, note, note_path, waiting_for, workload};
use crate::cluster::recorder::Recorder;

const WIDGET: &str = "/apis/stable.example.com/v1/namespaces/default/widgets/one";

fn widgets() -> Value {
    testkit::kube::widgets_crd("v1", &["v1"], None)
}

/// A pod that takes its time.
const SLOW: [&str; 3] = ["sh", "-c", "sleep 1 && exec sleep 1000"];

fn job(name: &str, command: &[&str]) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"},
        "spec": {"backoffLimit": 0, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "it", "image": "it", "command": command}],
        }}},
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_is_applied_in_order_each_awaited_and_the_new_agent_does_it() {
    let mut ground = Ground::start("2m").await;
    let (status, _) = ground.cluster.create("/api/v1/namespaces/default/configmaps", &note("old")).await;
    assert_eq!(status, 201);
    let mut old = note("old");
    old["metadata"]["annotations"] = json!({"release.openshift.io/delete": "true"});
    let widget = json!({"apiVersion": "stable.example.com/v1", "kind": "Widget", "metadata": {"name": "one", "namespace": "default"}});
    ground.publish(
        "1.1.0",
        &[
            ("0000_10_first.yaml", note("first")),
            ("0000_20_widgets.json", widgets()),
            ("0000_30_widget.yaml", widget),
            ("0000_40_job.yaml", job("job", &["sh", "-c", "sleep 1"])),
            ("0000_45_after-job.yaml", note("after-job")),
            ("0000_50_server.yaml", workload("Deployment", "server", &SLOW)),
            ("0000_55_after-server.yaml", note("after-server")),
            ("0000_60_set.yaml", json!({"kind": "List", "items": [workload("StatefulSet", "set", &SLOW), workload("DaemonSet", "daemons", &SLOW)]})),
            ("0000_65_after-sets.yaml", note("after-sets")),
            ("0000_70_old.yaml", old),
            // Last by its name, and yet the first.
            ("0000_99_agent.yaml", agent("1.1.0")),
        ],
    );
    let admin = Connection::connect(Some(&ground.cluster.kubeconfig("admin"))).await.unwrap();
    let kinds = [
        ("v1", "ConfigMap"),
        ("apps/v1", "Deployment"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "DaemonSet"),
        ("batch/v1", "Job"),
    ];
    let seen = Recorder::start(&admin.watching().unwrap(), &kinds).await;
    let before = ground.kubelet.processes("holdfast-agent");
    ground.ask_for("1.1.0").await;
    let version = ground.until_history("1.1.0", "Completed").await;

    let history = version["status"]["history"].as_array().unwrap();
    assert_eq!(history.len(), 2, "{history:?}");
    assert_eq!((&history[0]["verified"], &history[1]["version"]), (&json!(true), &json!("1.0.0")));
    assert!(history[0]["startedTime"].is_string() && history[0]["completionTime"].is_string());

    // The agent of the release came first, and applied the rest.
    let env = |object: &Value| {
        object["spec"]["template"]["spec"]["containers"][0]["env"].to_string().contains("1.1.0")
    };
    let replaced = seen.first("Deployment", "holdfast-agent", env);
    let up = |object: &Value| {
        env(object)
            && object["status"]["observedGeneration"] == object["metadata"]["generation"]
            && object["status"]["updatedReplicas"] == 1
            && object["status"]["replicas"] == 1
            && object["status"]["availableReplicas"] == 1
    };
    let any = |_: &Value| true;
    let order = [
        ("the agent is replaced", replaced),
        ("the agent is rolled out", seen.first("Deployment", "holdfast-agent", up)),
        ("first", seen.first("ConfigMap", "first", any)),
        ("the job is there", seen.first("Job", "job", any)),
        ("the job is done", seen.first("Job", "job", |it| it["status"]["succeeded"] == 1)),
        ("after the job", seen.first("ConfigMap", "after-job", any)),
        ("the server is there", seen.first("Deployment", "server", any)),
        ("the server is up", seen.first("Deployment", "server", |it| it["status"]["availableReplicas"] == 1)),
        ("after the server", seen.first("ConfigMap", "after-server", any)),
        ("the set is there", seen.first("StatefulSet", "set", any)),
        ("the set is up", seen.first("StatefulSet", "set", |it| it["status"]["readyReplicas"] == 1)),
        ("the daemons are there", seen.first("DaemonSet", "daemons", any)),
        ("the daemons are up", seen.first("DaemonSet", "daemons", |it| it["status"]["numberAvailable"] == 1)),
        ("after the sets", seen.first("ConfigMap", "after-sets", any)),
    ];
    assert!(order.is_sorted_by_key(|(_, revision)| *revision), "{order:?}");
    assert!(ground.is_there(WIDGET).await);
    assert!(!ground.is_there(&note_path("old")).await, "what the release takes away is still there");

    let (_, first) = ground.cluster.get(&note_path("first")).await;
    let (_, own) = ground.cluster.get("/apis/apps/v1/namespaces/default/deployments/server").await;
    for object in [first, own] {
        let managers = object["metadata"]["managedFields"].as_array().unwrap();
        assert!(
            managers.iter().any(|it| it["manager"] == "holdfast-agent" && it["operation"] == "Apply"),
            "{managers:?}"
        );
    }
    let said = ground.kubelet.said("holdfast-agent");
    let agents: Vec<&str> = said.split("== ").filter(|it| !it.is_empty()).collect();
    assert_eq!(agents.len(), 2, "{said}");
    for agent in &agents {
        let is_new = agent.contains("of=1.1.0") || agent.contains("of=\"1.1.0\"");
        assert_eq!(agent.contains("applying 2 of"), is_new, "{said}");
    }
    let after = ground.kubelet.processes("holdfast-agent");
    assert!(after.len() == 1 && !before.contains(&after[0]), "{before:?} {after:?}");
    let (_, lease) = ground
        .cluster
        .get("/apis/coordination.k8s.io/v1/namespaces/holdfast-system/leases/holdfast-agent")
        .await;
    assert!(lease["spec"]["holderIdentity"].is_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_come_up_stops_the_update_is_told_and_goes_on_when_it_is_mended() {
    let mut ground = Ground::start("3s").await;
    let flag = ground.flag("mended");
    ground.publish(
        "1.1.0",
        &[
            ("0000_10_first.yaml", note("first")),
            ("0000_20_server.yaml", waiting_for("server", &flag)),
            ("0000_30_last.yaml", note("last")),
        ],
    );
    ground.ask_for("1.1.0").await;
    let version =
        ground.until_failing("0000_20_server.yaml: Deployment default/server: not done within 3s").await;
    let failing = condition(&version, "Failing");
    assert_eq!(failing["reason"], "Applying");
    assert_eq!(condition(&version, "Progressing")["status"], "True");
    assert_eq!(version["status"]["history"][0]["state"], "Partial");
    assert!(ground.is_there(&note_path("first")).await);
    assert!(!ground.is_there(&note_path("last")).await, "what comes after it was touched");
    std::fs::write(&flag, "").unwrap();
    let version = ground.until_history("1.1.0", "Completed").await;
    assert!(ground.is_there(&note_path("last")).await);
    let version = match condition(&version, "Failing")["status"] == "False" {
        true => version,
        // It is told a moment later.
        false => ground.until(VERSION, |it| condition(it, "Failing")["status"] == "False").await,
    };
    assert_eq!(version["status"]["rollout"]["running"]["version"], "1.1.0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_api_server_refuses_is_told_and_a_person_may_ask_for_another_release_instead() {
    let mut ground = Ground::start("1m").await;
    let mut bad = note("bad");
    bad["data"] = json!({"not a key!": "x"});
    let mut nowhere = note("nowhere");
    nowhere["metadata"].as_object_mut().unwrap().remove("namespace");
    ground.publish(
        "1.1.0",
        &[
            ("0000_10_first.yaml", note("first")),
            ("0000_20_bad.yaml", bad),
            ("0000_30_last.yaml", note("last")),
        ],
    );
    ground.publish("1.1.1", &[("0000_10_first.yaml", note("first")), ("0000_30_last.yaml", note("last"))]);
    ground.publish("1.1.2", &[("0000_10_nowhere.yaml", nowhere)]);
    ground.ask_for("1.1.0").await;
    ground.until_failing("0000_20_bad.yaml: ConfigMap default/bad: the API server refuses").await;
    assert!(!ground.is_there(&note_path("last")).await);
    ground.ask_for("1.1.2").await;
    ground.until_failing("0000_10_nowhere.yaml: ConfigMap nowhere: it belongs into a namespace").await;
    ground.ask_for("1.1.1").await;
    let version = ground.until_history("1.1.1", "Completed").await;
    let history = version["status"]["history"].as_array().unwrap();
    let states: Vec<_> =
        history.iter().map(|it| (it["version"].as_str().unwrap(), it["state"].as_str().unwrap())).collect();
    let expected =
        [("1.1.1", "Completed"), ("1.1.2", "Abandoned"), ("1.1.0", "Abandoned"), ("1.0.0", "Completed")];
    assert_eq!(states, expected);
    assert!(ground.is_there(&note_path("last")).await);
}
