//! Objects that can't be written, rights that are missing, resources that go.

use serde_json::{Value, json};
use storage::migrator::Ended;
use testkit::kube::{AdmissionWebhook, Fault, Options, WIDGETS_GROUP, widget, widgets_path};

use crate::migrator::ground::{Ground, WIDGETS_IN_ETCD, holds, is_put_of_an_object};

const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.stable.example.com";

#[tokio::test]
async fn objects_that_can_not_be_written_are_named_and_the_rest_is_migrated() {
    let ground = Ground::new().await;
    ground.cluster.install_widgets("v1", &["v1", "v2"], None).await;
    ground.cluster.create_widgets("v1", 300, 20).await;
    let long = widget("v1", "too-long", 50);
    assert_eq!(ground.cluster.create(&widgets_path("v1"), &long).await.0, 201);
    ground.cluster.flip_storage("v2").await;
    // From now on its filling is too long. Newer API servers accept an unchanged value that a new limit forbids. A rule about the
    // change itself always holds.
    let (_, mut definition) = ground.cluster.get(DEFINITION).await;
    for version in definition["spec"]["versions"].as_array_mut().unwrap() {
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"] = json!({"filling": {"type": "string", "maxLength": 30, "x-kubernetes-validations": [
                {"rule": "size(self) <= 30 && size(oldSelf) >= 0"}]}});
    }
    let (status, said) = ground.cluster.update(DEFINITION, &definition).await;
    assert_eq!(status, 200, "{said}");
    let webhook = AdmissionWebhook::start(&ground.cluster.keys);
    webhook.install(&ground.cluster, WIDGETS_GROUP, "widgets").await;
    webhook.refuse(&["widget-00007"]);
    ground.cluster.until(&format!("{}/too-long", widgets_path("v1")), |status, _| status == 200).await;

    let (ended, migration) = ground.run(ground.ask_for_widgets("some").await).await;
    assert_eq!(ended, Ended::Failed);
    let stored = [("stable.example.com/v1".to_owned(), 2), ("stable.example.com/v2".to_owned(), 299)];
    assert_eq!(ground.stored(WIDGETS_IN_ETCD).await, stored);
    let (kind, reason, message) = holds(&migration);
    assert_eq!((kind.as_str(), reason.as_str()), ("Failed", "ObjectsFailed"));
    assert!(message.starts_with("299 migrated, 2 could not be written: "), "{message}");
    let mut failures: Vec<&str> =
        migration["status"]["failures"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    failures.sort_unstable();
    assert!(failures[0].starts_with("default/too-long: ") && failures[0].contains("filling"), "{failures:?}");
    assert!(
        failures[1].starts_with("default/widget-00007: ") && failures[1].contains("denied"),
        "{failures:?}"
    );
    assert_eq!(
        (&migration["status"]["progress"]["migrated"], &migration["status"]["progress"]["failed"]),
        (&json!(299), &json!(2))
    );
    for name in ["widget-00007", "too-long"] {
        let tries = ground.puts().iter().filter(|asked| asked.path.ends_with(name)).count();
        assert_eq!(tries, 3, "{name} is tried as often as the settings say");
    }
    assert_eq!(ground.stored_versions().await, json!(["v1", "v2"]), "not after a failure");
}

#[tokio::test]
async fn while_objects_are_refused_the_running_migration_says_why() {
    let ground = Ground::new().await;
    ground.cluster.install_widgets("v1", &["v1", "v2"], None).await;
    ground.cluster.create_widgets("v1", 50, 20).await;
    ground.cluster.flip_storage("v2").await;
    let webhook = AdmissionWebhook::start(&ground.cluster.keys);
    webhook.install(&ground.cluster, WIDGETS_GROUP, "widgets").await;
    webhook.down();
    let (_stop, running) = ground.spawn(ground.ask_for_widgets("stuck").await);
    let path = "/apis/migration.k8s.io/v1alpha1/storageversionmigrations/stuck";
    let stuck =
        ground.cluster.until(path, |_, it| it["status"]["conditions"][0]["reason"] == "ObjectsRefused").await;
    let (kind, _, message) = holds(&stuck);
    assert_eq!(kind, "Running");
    assert!(message.starts_with("0 migrated, 50 to go; waiting: "), "{message}");
    assert!(
        message.contains("default/widget-000") && message.contains("failed calling webhook"),
        "{message}"
    );

    webhook.up();
    assert_eq!(running.await.unwrap(), Ended::Succeeded);
    assert_eq!(holds(&serde_json::to_value(ground.migration("stuck").await).unwrap()).2, "50 migrated");
}

#[tokio::test]
async fn a_resource_that_is_deleted_in_the_middle_is_gone() {
    let ground = Ground::new().await;
    ground.cluster.install_widgets("v1", &["v1", "v2"], None).await;
    ground.cluster.create_widgets("v1", 600, 20).await;
    ground.cluster.flip_storage("v2").await;
    ground.proxy.plan(|asked| match is_put_of_an_object(asked) {
        true => Fault::Delay(std::time::Duration::from_millis(30)),
        false => Fault::None,
    });
    let (_stop, running) = ground.spawn(ground.ask_for_widgets("gone").await);
    ground.proxy.until_asked(50, is_put_of_an_object).await;
    ground.cluster.delete(DEFINITION).await;
    assert_eq!(running.await.unwrap(), Ended::Failed);
    let migration = serde_json::to_value(ground.migration("gone").await).unwrap();
    assert_eq!(holds(&migration).1, "ResourceGone");
}

async fn grant(ground: &Ground, name: &str, rules: Value) {
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": name}, "rules": rules});
    let (status, said) =
        ground.cluster.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role).await;
    assert_eq!(status, 201, "{said}");
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "plain"}]});
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(ground.cluster.create(path, &binding).await.0, 201);
}

#[tokio::test]
async fn a_missing_right_ends_the_migration_and_is_named() {
    let ground = Ground::with(Options::rbac(), "plain").await;
    ground.cluster.install_widgets("v1", &["v1", "v2"], None).await;
    ground.cluster.create_widgets("v1", 200, 20).await;
    grant(&ground, "own", json!([
        {"apiGroups": ["migration.k8s.io"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "update"]},
    ])).await;
    let own = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let plain = ground.cluster.server.client("plain");
    let may = |verb: &str, group: &str, resource: &str| {
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": verb, "group": group, "resource": resource}}})
    };
    while plain.create(own, &may("list", "", "configmaps")).await.1["status"]["allowed"] != true {}

    let (ended, migration) = ground.run(ground.ask_for_widgets("no-list").await).await;
    assert_eq!(ended, Ended::Failed);
    let (_, reason, message) = holds(&migration);
    assert_eq!(reason, "Forbidden");
    assert!(message.contains("cannot list resource \"widgets\""), "{message}");

    grant(
        &ground,
        "readers",
        json!([{"apiGroups": [WIDGETS_GROUP], "resources": ["*"], "verbs": ["get", "list"]}]),
    )
    .await;
    while plain.create(own, &may("list", WIDGETS_GROUP, "widgets")).await.1["status"]["allowed"] != true {}
    let (ended, migration) = ground.run(ground.ask_for_widgets("no-update").await).await;
    assert_eq!(ended, Ended::Failed);
    let (_, reason, message) = holds(&migration);
    assert_eq!(reason, "Forbidden");
    assert!(message.contains("cannot update resource \"widgets\""), "{message}");
    assert!(ground.puts().len() < 30, "{} writes", ground.puts().len());

    // The others are not held up by it.
    let (ended, _) = ground.run(ground.ask_for("configmaps", "", "v1", "configmaps").await).await;
    assert_eq!(ended, Ended::Succeeded);
}

#[tokio::test]
async fn one_made_by_hand_waits_while_api_servers_disagree() {
    const STATES: &str = "/apis/migration.k8s.io/v1alpha1/storagestates";
    let ground = Ground::new().await;
    let state = json!({
        "apiVersion": "migration.k8s.io/v1alpha1", "kind": "StorageState", "metadata": {"name": "configmaps"},
        "spec": {"resource": {"group": "", "resource": "configmaps"}},
    });
    assert_eq!(ground.cluster.create(STATES, &state).await.0, 201);
    let stores = async |current: &str| {
        let status = json!({"status": {
            "persistedStorageVersionHashes": ["a", "b"], "currentStorageVersionHash": current, "changes": 7,
            "lastHeartbeatTime": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        }});
        let (code, said) = ground.cluster.patch(&format!("{STATES}/configmaps/status"), &status).await;
        assert_eq!(code, 200, "{said}");
    };
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}});
    assert_eq!(ground.cluster.create("/api/v1/namespaces/default/configmaps", &map).await.0, 201);

    stores("Unknown").await;
    let (ended, migration) = ground.run(ground.ask_for("disputed", "", "v1", "configmaps").await).await;
    assert_eq!(ended, Ended::Aside);
    let (kind, reason, message) = holds(&migration);
    assert_eq!((kind.as_str(), reason.as_str()), ("Running", "Disputed"));
    assert!(message.contains("do not agree"), "{message}");
    assert_eq!(ground.migration("disputed").await.stamp(), None);
    assert_eq!(ground.puts().len(), 0);

    stores("b").await;
    let (ended, migration) = ground.run(ground.migration("disputed").await).await;
    assert_eq!(ended, Ended::Succeeded, "{migration}");
    assert_eq!(ground.migration("disputed").await.stamp().unwrap().change, 7);
    assert!(!ground.puts().is_empty());
}

#[tokio::test]
async fn a_list_that_always_expires_is_named_as_what_it_is() {
    let ground = Ground::new().await;
    for number in 0..40 {
        let map =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("map-{number}")}});
        assert_eq!(ground.cluster.create("/api/v1/namespaces/default/configmaps", &map).await.0, 201);
    }
    ground.proxy.plan(|asked| match asked.path.contains("continue=") {
        true => Fault::Answer(400, "the token is not understood".to_owned()),
        false => Fault::None,
    });
    let (ended, migration) = ground.run(ground.ask_for("endless", "", "v1", "configmaps").await).await;
    assert_eq!(ended, Ended::Failed);
    assert_eq!(holds(&migration).1, "ListExpired", "{migration}");
}
