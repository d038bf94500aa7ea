//! The first look at a cluster, and the looks after it.

use std::collections::BTreeSet;

use serde_json::json;
use testkit::kube::{Client, Cluster, Kubernetes, Options, stored_version};

use crate::trigger::support::*;

/// What can be migrated, by the documents themselves; and what is named there besides.
async fn in_discovery(client: &Client) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut migratable, mut other) = (BTreeSet::new(), BTreeSet::new());
    let mut documents = vec![(String::new(), "/api/v1".to_owned())];
    for group in client.get("/apis").await.1["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            let path = format!("/apis/{}", version["groupVersion"].as_str().unwrap());
            documents.push((name_of(group), path));
        }
    }
    for (group, path) in documents {
        for resource in client.get(&path).await.1["resources"].as_array().unwrap() {
            let has = |verb: &str| resource["verbs"].as_array().unwrap().iter().any(|it| it == verb);
            let plural = name_of(resource);
            let name = if group.is_empty() { plural } else { format!("{plural}.{group}") };
            let right = resource["storageVersionHash"].is_string() && has("list") && has("update");
            if right {
                migratable.insert(name)
            } else {
                other.insert(name)
            };
        }
    }
    (migratable, other)
}

fn name_of(object: &serde_json::Value) -> String {
    object["name"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn everything_with_a_storage_version_is_taken_in_once_and_nothing_else() {
    let cluster = cluster().await;
    cluster.install_widgets("v1", &["v1", "v2"], None).await;
    // Left by somebody who was interrupted, and by somebody who was mistaken.
    let state = |name: &str, resource: &str| {
        let spec = json!({"resource": {"group": "", "resource": resource}});
        let metadata = json!({"name": name});
        json!({"apiVersion": "migration.k8s.io/v1alpha1", "kind": "StorageState", "metadata": metadata, "spec": spec})
    };
    assert_eq!(cluster.create(STATES, &state("secrets", "secrets")).await.0, 201);
    let mut mistaken = state("mistaken", "pods");
    let (status, answer) = cluster.create(STATES, &mistaken).await;
    match cluster.server.kubernetes() {
        Kubernetes::V1_20 => assert_eq!(status, 201, "{answer}"),
        // It knows the rules in schemas, and refuses what an older one has stored.
        Kubernetes::V1_36 => {
            let message = answer["message"].as_str().unwrap_or_default();
            assert!(status == 422 && message.contains("the name must be"), "{answer}");
            mistaken["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000001");
            mistaken["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z");
            let key = "/registry/migration.k8s.io/storagestates/mistaken";
            cluster.etcd.put_raw(key, mistaken.to_string().as_bytes()).await;
            cluster.until(&state_path("mistaken"), |status, _| status == 200).await;
        }
    }

    let controller = Controller::start(&cluster.kubeconfig("admin"), &settings(5), TRIGGER).await;
    controller.passes(1).await;
    println!("the first look took {} s", controller.metric("pass_seconds"));
    let (migratable, other) = in_discovery(&cluster).await;
    for passed_over in ["componentstatuses", "bindings", "tokenreviews.authentication.k8s.io", "pods/status"]
    {
        assert!(other.contains(passed_over), "{passed_over}");
    }
    let mut states = cluster.list(STATES).await;
    states.retain(|state| name(state) != "mistaken");
    assert_eq!(states.iter().map(name).collect::<BTreeSet<_>>(), migratable);
    for state in &states {
        assert_eq!(persisted(state), ["Unknown"], "{}", name(state));
        let migrations = migrations_of(&cluster, &name(state)).await;
        assert_eq!(migrations.len(), 1, "{}", name(state));
        let annotations = &migrations[0]["metadata"]["annotations"];
        assert_eq!(annotations["storage.holdfast/version-hash"], current(state), "{}", name(state));
        succeed(&cluster, &migrations[0]).await;
    }
    let widgets = until_state(&cluster, WIDGETS, &[&widget_hash("v1")], &widget_hash("v1")).await;
    for state in &states {
        until_state(&cluster, &name(state), &[current(state)], current(state)).await;
    }

    controller.another_pass().await;
    let after = cluster.get(&state_path(WIDGETS)).await.1;
    assert_eq!((uid(&after), persisted(&after)), (uid(&widgets), persisted(&widgets)));
    assert_eq!(after["status"]["changes"], widgets["status"]["changes"]);
    let heartbeat =
        |state: &serde_json::Value| state["status"]["lastHeartbeatTime"].as_str().unwrap().to_owned();
    assert!(heartbeat(&after) > heartbeat(&widgets), "{after}");
    assert_eq!(cluster.list(MIGRATIONS).await.len(), states.len());
    let mistaken = cluster.get(&state_path("mistaken")).await.1;
    assert_eq!(mistaken.get("status"), None, "a state that is named wrongly is nobody's");

    // Whoever deletes a state has it made anew.
    let migration = until_migration(&cluster, "secrets", &[]).await;
    cluster.delete(&state_path("secrets")).await;
    let secrets = cluster.until(&state_path("secrets"), |_, state| persisted(state) == ["Unknown"]).await;
    let again = until_migration(&cluster, "secrets", &[uid(&migration)]).await;
    assert_eq!(again["metadata"]["annotations"]["storage.holdfast/state-uid"], uid(&secrets));
    controller.stop().await;
}

#[tokio::test]
async fn the_rights_of_the_manifests_are_enough_for_all_of_it() {
    let account = "system:serviceaccount:holdfast-system:holdfast-storage";
    let cluster = Cluster::with(Options::rbac().user(account, &[]));
    install(&cluster).await;
    cluster.install_widgets("v1", &["v1", "v2"], None).await;
    cluster.create_widgets("v1", 10, 10).await;
    let settings = settings(600);
    let kubeconfig = cluster.kubeconfig(account);
    // Nothing goes without them.
    let refused = run_for_an_error(&kubeconfig, &settings).await;
    assert!(refused.hint().contains("lacks the right"), "{refused:?}");
    grant(&cluster).await;
    let mut settings = settings;
    settings.admin = Some(([127, 0, 0, 1], testkit::ports::free_port()).into());
    let controller = Controller::start(&kubeconfig, &settings, LEADING).await;
    controller.passes(1).await;
    until_state(&cluster, WIDGETS, &[&widget_hash("v1")], &widget_hash("v1")).await;
    cluster.flip_storage("v2").await;
    until_state(&cluster, WIDGETS, &[&widget_hash("v2")], &widget_hash("v2")).await;

    // One that a person makes is stamped.
    let by_hand = json!({
        "apiVersion": "migration.k8s.io/v1alpha1", "kind": "StorageVersionMigration",
        "metadata": {"name": "by-hand"},
        "spec": {"resource": {"group": "stable.example.com", "version": "v1", "resource": "widgets"}},
    });
    assert_eq!(cluster.create(MIGRATIONS, &by_hand).await.0, 201);
    let succeeded = |it: &serde_json::Value| {
        let conditions = it["status"]["conditions"].as_array();
        conditions.into_iter().flatten().any(|it| it["type"] == "Succeeded" && it["status"] == "True")
    };
    cluster.until(&format!("{MIGRATIONS}/by-hand"), |_, migration| succeeded(migration)).await;

    let page = get_plain(settings.admin.unwrap(), "/metrics").await;
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("\nholdfast_storage_leader 1\n"), "{page}");
    assert!(get_plain(settings.admin.unwrap(), "/readyz").await.starts_with("HTTP/1.1 200"));
    assert!(get_plain(settings.admin.unwrap(), "/nothing").await.starts_with("HTTP/1.1 404"));
    controller.stop().await;
}

#[tokio::test]
async fn settling_ends_when_everything_is_migrated_and_what_is_settled_stays_so() {
    let cluster = cluster().await;
    cluster.install_widgets("v1", &["v1", "v2"], None).await;
    cluster.create_widgets("v1", 20, 10).await;
    let first = settle(&cluster.kubeconfig("admin")).await;
    assert_eq!((&first.failed, &first.disputed, &first.unfinished), (&vec![], &vec![], &vec![]));
    let states: BTreeSet<String> = cluster.list(STATES).await.iter().map(name).collect();
    assert_eq!(first.settled.iter().map(ToString::to_string).collect::<BTreeSet<_>>(), states);
    let migrations: BTreeSet<String> = cluster.list(MIGRATIONS).await.iter().map(uid).collect();

    assert_eq!(settle(&cluster.kubeconfig("admin")).await, first);
    assert_eq!(cluster.list(MIGRATIONS).await.iter().map(uid).collect::<BTreeSet<_>>(), migrations);
    cluster.flip_storage("v2").await;
    assert_eq!(settle(&cluster.kubeconfig("admin")).await, first);
    until_state(&cluster, WIDGETS, &[&widget_hash("v2")], &widget_hash("v2")).await;
    let stored = cluster.etcd.get_raw("/registry/stable.example.com/widgets/").await;
    assert_eq!(stored.len(), 20);
    assert!(stored.iter().all(|(_, bytes)| stored_version(bytes) == "stable.example.com/v2"));
}
