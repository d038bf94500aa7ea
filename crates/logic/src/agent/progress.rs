//! How far a cluster is with what was applied to it: read from the object itself, as its controllers leave it.

use serde_json::Value;

/// What has become of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    Done,
    NotYet {
        why: String,
    },
    /// Its controller has given up, or can't begin: nothing is waited for.
    Failed {
        why: String,
    },
}

use Progress::{Done, Failed, NotYet};

/// Kinds that nothing is known of are done when they are there.
pub fn progress(object: &Value) -> Progress {
    let group =
        object["apiVersion"].as_str().and_then(|it| it.split_once('/')).map_or("", |(group, _)| group);
    match (group, object["kind"].as_str().unwrap_or_default()) {
        ("apps", "Deployment") => deployment(object),
        ("apps", "StatefulSet") => stateful_set(object),
        ("apps", "DaemonSet") => daemon_set(object),
        ("batch", "Job") => job(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(object),
        ("apiregistration.k8s.io", "APIService") => holds(object, "Available"),
        _ => Done,
    }
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

fn replicas(object: &Value) -> i64 {
    object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1)
}

/// A status that is about what was applied, and not about what was there before.
fn is_seen(object: &Value) -> bool {
    number(object, "/status/observedGeneration") >= number(object, "/metadata/generation").max(1)
}

fn unseen() -> Progress {
    NotYet { why: "its controller has not looked at it yet".to_owned() }
}

fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object.pointer("/status/conditions")?.as_array()?.iter().find(|it| it["type"] == kind)
}

fn is_true(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|it| it["status"] == "True")
}

/// In the words of whoever set it.
fn words(condition: &Value) -> String {
    let text = |field: &str| condition[field].as_str().unwrap_or_default();
    match (text("reason"), text("message")) {
        ("", "") => format!("{} is {}", text("type"), text("status")),
        ("", message) => message.to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

fn deployment(object: &Value) -> Progress {
    if !is_seen(object) {
        return unseen();
    }
    if let Some(stuck) = condition(object, "Progressing").filter(|it| it["status"] == "False") {
        return Failed { why: words(stuck) };
    }
    let wanted = replicas(object);
    let [updated, all, available] = ["updatedReplicas", "replicas", "availableReplicas"]
        .map(|it| number(object, &format!("/status/{it}")));
    if updated < wanted {
        return NotYet { why: format!("{updated} of {wanted} are updated") };
    }
    if all > updated {
        return NotYet { why: format!("{} of before are still there", all - updated) };
    }
    if available < wanted {
        return NotYet { why: format!("{available} of {wanted} are available") };
    }
    Done
}

fn stateful_set(object: &Value) -> Progress {
    if !is_seen(object) {
        return unseen();
    }
    if object.pointer("/spec/updateStrategy/type").is_some_and(|it| it == "OnDelete") {
        return Done;
    }
    let wanted = replicas(object);
    // Those below the partition are left as they are, on purpose.
    let to_update = wanted - number(object, "/spec/updateStrategy/rollingUpdate/partition").clamp(0, wanted);
    let current = |field: &str| object.pointer(&format!("/status/{field}")).and_then(Value::as_str);
    // When all are updated the count of updated ones is taken down.
    let all_updated =
        current("updateRevision").is_some() && current("updateRevision") == current("currentRevision");
    let updated = number(object, "/status/updatedReplicas");
    if updated < to_update && !all_updated {
        return NotYet { why: format!("{updated} of {to_update} are updated") };
    }
    let ready = number(object, "/status/readyReplicas");
    if ready < wanted {
        return NotYet { why: format!("{ready} of {wanted} are ready") };
    }
    Done
}

fn daemon_set(object: &Value) -> Progress {
    if !is_seen(object) {
        return unseen();
    }
    if object.pointer("/spec/updateStrategy/type").is_some_and(|it| it == "OnDelete") {
        return Done;
    }
    let wanted = number(object, "/status/desiredNumberScheduled");
    let updated = number(object, "/status/updatedNumberScheduled");
    let available = number(object, "/status/numberAvailable");
    if updated < wanted {
        return NotYet { why: format!("{updated} of {wanted} are updated") };
    }
    if available < wanted {
        return NotYet { why: format!("{available} of {wanted} are available") };
    }
    Done
}

fn job(object: &Value) -> Progress {
    if let Some(failed) = condition(object, "Failed").filter(|it| it["status"] == "True") {
        return Failed { why: words(failed) };
    }
    if is_true(object, "Complete") || object.pointer("/spec/suspend").is_some_and(|it| it == true) {
        return Done;
    }
    NotYet { why: "it is not complete".to_owned() }
}

fn definition(object: &Value) -> Progress {
    match condition(object, "NamesAccepted").filter(|it| it["status"] == "False") {
        Some(refused) => Failed { why: words(refused) },
        None => holds(object, "Established"),
    }
}

fn holds(object: &Value, kind: &str) -> Progress {
    match condition(object, kind) {
        Some(it) if it["status"] == "True" => Done,
        Some(it) => NotYet { why: words(it) },
        None => NotYet { why: format!("nothing says that it is {kind}") },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn not_yet(object: &Value) -> String {
        match progress(object) {
            NotYet { why } => why,
            other => panic!("{other:?}"),
        }
    }

    fn deployment_with(generation: i64, status: Value) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"generation": generation},
            "spec": {"replicas": 2}, "status": status,
        })
    }

    #[test]
    fn a_deployment_is_done_when_all_of_the_new_and_none_of_the_old_are_there() {
        let status = |updated: i64, all: i64, available: i64| json!({"observedGeneration": 2, "updatedReplicas": updated, "replicas": all, "availableReplicas": available});
        assert_eq!(progress(&deployment_with(2, status(2, 2, 2))), Done);
        assert!(not_yet(&deployment_with(3, status(2, 2, 2))).contains("not looked at it"));
        assert!(not_yet(&deployment_with(1, json!({}))).contains("not looked at it"));
        assert_eq!(not_yet(&deployment_with(2, status(1, 3, 2))), "1 of 2 are updated");
        assert_eq!(not_yet(&deployment_with(2, status(2, 3, 2))), "1 of before are still there");
        assert_eq!(not_yet(&deployment_with(2, status(2, 2, 1))), "1 of 2 are available");
    }

    #[test]
    fn a_deployment_that_its_controller_gave_up_on_is_not_waited_for() {
        let stuck = json!({"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "late"});
        let mut object = deployment_with(1, json!({"observedGeneration": 1, "conditions": [stuck]}));
        assert_eq!(progress(&object), Failed { why: "ProgressDeadlineExceeded: late".to_owned() });
        // What it said of the release before is no verdict on this one.
        object["metadata"]["generation"] = json!(2);
        assert!(matches!(progress(&object), NotYet { .. }));
    }

    #[test]
    fn a_stateful_set_is_done_when_its_revision_is_everywhere_above_the_partition() {
        let set = |partition: i64, status: Value| {
            json!({
                "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"generation": 1},
                "spec": {"replicas": 3, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}},
                "status": status,
            })
        };
        let status = |updated: i64, ready: i64, current: &str| json!({"observedGeneration": 1, "updatedReplicas": updated, "readyReplicas": ready, "currentRevision": current, "updateRevision": "b"});
        assert_eq!(progress(&set(0, status(0, 3, "b"))), Done);
        assert_eq!(progress(&set(0, status(3, 3, "a"))), Done);
        assert_eq!(not_yet(&set(0, status(1, 3, "a"))), "1 of 3 are updated");
        assert_eq!(not_yet(&set(0, status(3, 2, "b"))), "2 of 3 are ready");
        assert_eq!(progress(&set(2, status(1, 3, "a"))), Done);
    }

    #[test]
    fn a_daemon_set_is_done_when_it_is_on_every_node_that_it_is_for() {
        let set = |updated: i64, available: i64| {
            json!({
                "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"generation": 1},
                "status": {"observedGeneration": 1, "desiredNumberScheduled": 2, "updatedNumberScheduled": updated, "numberAvailable": available},
            })
        };
        assert_eq!(progress(&set(2, 2)), Done);
        assert_eq!(not_yet(&set(1, 2)), "1 of 2 are updated");
        assert_eq!(not_yet(&set(2, 1)), "1 of 2 are available");
    }

    #[test]
    fn a_job_is_done_when_it_is_complete_and_a_failed_one_never_will_be() {
        let job = |conditions: Value| json!({"apiVersion": "batch/v1", "kind": "Job", "status": {"conditions": conditions}});
        assert_eq!(progress(&job(json!([{"type": "Complete", "status": "True"}]))), Done);
        let failed = json!([{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]);
        assert_eq!(progress(&job(failed)), Failed { why: "BackoffLimitExceeded".to_owned() });
        assert_eq!(not_yet(&json!({"apiVersion": "batch/v1", "kind": "Job"})), "it is not complete");
    }

    #[test]
    fn definitions_and_api_services_are_done_when_they_are_served() {
        let with = |group: &str, kind: &str, conditions: Value| json!({"apiVersion": format!("{group}/v1"), "kind": kind, "status": {"conditions": conditions}});
        let crd = |conditions| with("apiextensions.k8s.io", "CustomResourceDefinition", conditions);
        assert_eq!(progress(&crd(json!([{"type": "Established", "status": "True"}]))), Done);
        assert!(matches!(progress(&crd(json!([]))), NotYet { .. }));
        let taken = json!([{"type": "NamesAccepted", "status": "False", "message": "taken"}, {"type": "Established", "status": "False"}]);
        assert_eq!(progress(&crd(taken)), Failed { why: "taken".to_owned() });
        let away = json!([{"type": "Available", "status": "False", "reason": "MissingEndpoints"}]);
        assert_eq!(not_yet(&with("apiregistration.k8s.io", "APIService", away)), "MissingEndpoints");
    }

    #[test]
    fn whatever_else_is_done_when_it_is_there_and_nothing_in_it_makes_it_fail() {
        for object in [
            json!({"apiVersion": "v1", "kind": "ConfigMap"}),
            json!({"apiVersion": "example.com/v1", "kind": "Deployment"}),
            json!({}),
            json!([1]),
        ] {
            assert_eq!(progress(&object), Done);
        }
        for status in
            [json!(null), json!([]), json!("x"), json!({"conditions": "x", "observedGeneration": "1"})]
        {
            assert!(matches!(progress(&deployment_with(1, status)), NotYet { .. }));
        }
    }
}
