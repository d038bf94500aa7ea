//! The test ground for Kubernetes, on trial itself: a real kube-apiserver on a real etcd.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::kube::{
    AdmissionWebhook, AggregatedServer, BuiltIn, Cluster, ConversionWebhook, Fault, Options, Throttle,
    WIDGETS_GROUP, aggregated, built_in, storage_hash, stored_version, throttle, widget, widgets_path,
};

const WIDGETS_IN_ETCD: &str = "/registry/stable.example.com/widgets/";

async fn versions_in_etcd(cluster: &Cluster, prefix: &str) -> Vec<String> {
    cluster.etcd.get_raw(prefix).await.iter().map(|(_, bytes)| stored_version(bytes)).collect()
}

/// Gets and puts it unchanged.
async fn rewrite(cluster: &Cluster, path: &str) -> (u16, Value) {
    let (_, object) = cluster.get(path).await;
    cluster.update(path, &object).await
}

#[tokio::test]
async fn a_flipped_custom_resource_stays_in_etcd_as_it_was_until_it_is_written() {
    let cluster = Cluster::start();
    cluster.install_widgets("v1", &["v1", "v2"], None).await;
    cluster.create_widgets("v1", 250, 10).await;
    cluster.flip_storage("v2").await;
    let path = format!("/apis/{WIDGETS_GROUP}/v1");
    assert_eq!(
        cluster.discovered_hash(&path, "widgets").await,
        Some(storage_hash(WIDGETS_GROUP, "v2", "Widget")),
        "the document of one version tells of the other, which is stored"
    );
    assert_eq!(versions_in_etcd(&cluster, WIDGETS_IN_ETCD).await, vec!["stable.example.com/v1"; 250]);
    assert_eq!(cluster.list(&widgets_path("v2")).await.len(), 250);

    let (status, said) = rewrite(&cluster, &format!("{}/widget-00007", widgets_path("v1"))).await;
    assert_eq!(status, 200, "{said}");
    let versions = versions_in_etcd(&cluster, WIDGETS_IN_ETCD).await;
    assert_eq!(versions.iter().filter(|version| *version == "stable.example.com/v2").count(), 1);
}

#[tokio::test]
async fn a_built_in_resource_is_stored_otherwise_after_a_restart_with_other_flags() {
    stored_otherwise_after_a_restart(built_in::CLAIM_TEMPLATES).await;
}

async fn stored_otherwise_after_a_restart(built_in: BuiltIn) {
    let mut cluster = Cluster::with(built_in.options());
    built_in.create(&cluster, "one").await;
    let document = built_in.group_version_path();
    let before = cluster.discovered_hash(&document, built_in.plural()).await;
    assert_eq!(before, Some(built_in.hash()));
    assert_eq!(versions_in_etcd(&cluster, built_in.in_etcd).await, [built_in.stored]);

    cluster.server.restart(built_in.other_flags);
    let after = cluster.discovered_hash(&document, built_in.plural()).await;
    assert_eq!(after, Some(built_in.other_hash()));
    assert_eq!(rewrite(&cluster, &format!("{}/one", built_in.path())).await.0, 200);
    assert_eq!(versions_in_etcd(&cluster, built_in.in_etcd).await, [built_in.stored_otherwise]);
}

#[tokio::test]
async fn two_api_servers_on_one_etcd_disagree() {
    two_disagree(built_in::CLAIM_TEMPLATES).await;
}

async fn two_disagree(built_in: BuiltIn) {
    let mut cluster = Cluster::with(built_in.options());
    let other = cluster.another(built_in.other_options());
    let (document, plural) = (built_in.group_version_path(), built_in.plural());
    let hash_at_other = other.client("admin").discovered_hash(&document, plural).await;
    assert!(hash_at_other.is_some());
    assert_ne!(cluster.discovered_hash(&document, plural).await, hash_at_other);

    let configmap = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}});
    assert_eq!(cluster.create("/api/v1/namespaces/default/configmaps", &configmap).await.0, 201);
    assert_eq!(other.client("admin").get("/api/v1/namespaces/default/configmaps/shared").await.0, 200);
}

/// The same with what only Kubernetes 1.20 serves: one resource in two groups.
mod kubernetes_1_20 {
    use super::{built_in, stored_otherwise_after_a_restart, two_disagree};

    #[tokio::test]
    #[ignore = "prove: kubernetes-1.20"]
    async fn an_ingress_is_stored_in_another_group_after_a_restart_with_other_flags() {
        stored_otherwise_after_a_restart(built_in::INGRESSES).await;
    }

    #[tokio::test]
    #[ignore = "prove: kubernetes-1.20"]
    async fn two_api_servers_on_one_etcd_disagree_about_the_group_of_ingresses() {
        two_disagree(built_in::INGRESSES).await;
    }
}

#[tokio::test]
async fn users_may_what_their_roles_allow() {
    let cluster = Cluster::with(Options::rbac().user("reader", &["readers"]));
    let path = "/api/v1/namespaces/default/configmaps";
    assert_eq!(cluster.get(path).await.0, 200);
    assert_eq!(cluster.server.client("plain").get(path).await.0, 403);
    // A role of its own: `view` and its like are empty until a controller, which is not here, fills them.
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "readers"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}],
    });
    let (status, said) = cluster.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role).await;
    assert_eq!(status, 201, "{said}");
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "readers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "readers"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "readers"}],
    });
    let (status, said) =
        cluster.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &role).await;
    assert_eq!(status, 201, "{said}");
    cluster.server.client("reader").until(path, |status, _| status == 200).await;
    let text = std::fs::read_to_string(cluster.kubeconfig("reader")).expect("a kubeconfig");
    assert!(text.contains("reader-token") && text.contains(&cluster.server.url()), "{text}");
}

#[tokio::test]
async fn what_was_written_outlives_both_servers() {
    let mut cluster = Cluster::start();
    cluster.install_widgets("v1", &["v1"], None).await;
    cluster.create_widgets("v1", 3, 10).await;
    cluster.etcd.kill();
    cluster.server.kill();
    cluster.etcd.restart();
    cluster.server.restart(&[]);
    cluster
        .until(&widgets_path("v1"), |status, list| {
            status == 200 && list["items"].as_array().is_some_and(|items| items.len() == 3)
        })
        .await;
    cluster.server.terminate();
    cluster.server.restart(&[]);
    cluster.etcd.stop();
    cluster.etcd.restart();
    cluster.until(&widgets_path("v1"), |status, _| status == 200).await;
}

#[tokio::test]
async fn compaction_expires_a_continue_token() {
    let cluster = Cluster::with(Options::default().without_snapshots());
    cluster.install_widgets("v1", &["v1"], None).await;
    cluster.create_widgets("v1", 5, 10).await;
    let (_, page) = cluster.get(&format!("{}?limit=2", widgets_path("v1"))).await;
    let token = page["metadata"]["continue"].as_str().expect("a token").to_owned();
    cluster.create(&widgets_path("v1"), &widget("v1", "another", 1)).await;
    cluster.etcd.compact().await;
    let (status, said) = cluster.get(&format!("{}?limit=2&continue={token}", widgets_path("v1"))).await;
    assert_eq!((status, &said["reason"]), (410, &json!("Expired")), "{said}");
}

#[tokio::test]
async fn secrets_lie_encrypted_under_the_first_key() {
    let mut cluster = Cluster::start();
    let flag = cluster.encryption(&["one"]);
    cluster.server.restart(&[&flag]);
    let secret =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "it"}, "stringData": {"a": "b"}});
    assert_eq!(cluster.create("/api/v1/namespaces/default/secrets", &secret).await.0, 201);
    assert_eq!(versions_in_etcd(&cluster, "/registry/secrets/default/it").await, ["k8s:enc:aescbc:v1:one"]);
    let before = cluster.discovered_hash("/api/v1", "secrets").await;

    let flag = cluster.encryption(&["two", "one"]);
    cluster.server.restart(&[&flag]);
    assert_eq!(cluster.discovered_hash("/api/v1", "secrets").await, before, "a key is no version");
    assert_eq!(rewrite(&cluster, "/api/v1/namespaces/default/secrets/it").await.0, 200);
    assert_eq!(versions_in_etcd(&cluster, "/registry/secrets/default/it").await, ["k8s:enc:aescbc:v1:two"]);
}

#[tokio::test]
async fn a_conversion_webhook_converts_and_fails_on_demand() {
    // Otherwise a list may come from memory, converted before the webhook refused.
    let cluster = Cluster::with(Options::default().without_snapshots());
    let webhook = ConversionWebhook::start(&cluster.keys);
    cluster.install_widgets("v1", &["v1", "v2"], Some(&webhook.conversion())).await;
    cluster.create_widgets("v1", 3, 4).await;
    let path = format!("{}/widget-00001", widgets_path("v2"));
    let (status, object) = cluster.get(&path).await;
    assert_eq!((status, &object["spec"]), (200, &json!({"stuffing": "xxxx"})));

    webhook.refuse(&["widget-00001"]);
    assert_eq!(cluster.get(&path).await.0, 500);
    assert_eq!(cluster.get(&format!("{}/widget-00002", widgets_path("v2"))).await.0, 200);
    assert_eq!(cluster.get(&widgets_path("v2")).await.0, 500, "one fails the list");
    webhook.refuse(&[]);
    webhook.broken(true);
    assert_eq!(cluster.get(&path).await.0, 500);
    webhook.broken(false);
    webhook.down();
    assert_eq!(cluster.get(&path).await.0, 500);
    webhook.up();
    assert_eq!(cluster.get(&path).await.0, 200);

    cluster.flip_storage("v2").await;
    assert_eq!(rewrite(&cluster, &format!("{}/widget-00001", widgets_path("v1"))).await.0, 200);
    let stored = cluster.etcd.get_raw(&format!("{WIDGETS_IN_ETCD}default/widget-00001")).await;
    assert_eq!(stored_version(&stored[0].1), "stable.example.com/v2");
    assert!(String::from_utf8_lossy(&stored[0].1).contains("stuffing"));
}

#[tokio::test]
async fn an_admission_webhook_refuses_one_object_by_name() {
    let cluster = Cluster::start();
    let webhook = AdmissionWebhook::start(&cluster.keys);
    cluster.install_widgets("v1", &["v1"], None).await;
    cluster.create_widgets("v1", 3, 4).await;
    webhook.install(&cluster, WIDGETS_GROUP, "widgets").await;
    webhook.refuse(&["widget-00001"]);
    let (status, said) = rewrite(&cluster, &format!("{}/widget-00001", widgets_path("v1"))).await;
    assert_eq!(status, 422, "{said}");
    assert_eq!(rewrite(&cluster, &format!("{}/widget-00002", widgets_path("v1"))).await.0, 200);
}

#[tokio::test]
async fn an_aggregated_server_is_reached_through_the_api_server_until_it_is_down() {
    let cluster = Cluster::start();
    let server = AggregatedServer::start(&cluster.keys);
    server.register(&cluster).await;
    server.fill(5);
    let hash = cluster.discovered_hash(&AggregatedServer::group_version_path(), aggregated::RESOURCE).await;
    assert_eq!(hash, Some(server.hash()));

    let (_, page) = cluster.get("/apis/metrics.example.com/v1/readings?limit=2").await;
    assert_eq!(page["items"].as_array().map(Vec::len), Some(2));
    assert!(page["metadata"]["continue"].is_string());
    assert_eq!(cluster.list(&AggregatedServer::path()).await.len(), 5);

    server.store_as("v2");
    assert_ne!(hash, Some(server.hash()));
    let path = format!("{}/reading-00003", AggregatedServer::path());
    let (_, old) = cluster.get(&path).await;
    let (status, said) = rewrite(&cluster, &path).await;
    assert_eq!(status, 200, "{said}");
    assert_eq!(cluster.update(&path, &old).await.0, 409, "it was written since");
    let versions: Vec<String> = server.stored().into_iter().map(|(_, version)| version).collect();
    assert_eq!(versions, ["v1", "v1", "v1", "v2", "v1"]);

    server.down();
    assert_eq!(cluster.get(&path).await.0, 503);
    server.up();
    cluster.until(&path, |status, _| status == 200).await;
}

#[tokio::test]
async fn the_throttle_refuses_holds_and_cuts_and_tells_what_was_asked() {
    let cluster = Cluster::start();
    let throttle = Throttle::start(&cluster.server);
    let client = testkit::kube::Client::new(&throttle.url(), &cluster.keys.ca_pem(), "admin-token");
    let path = "/api/v1/namespaces/default/configmaps";
    let configmap = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    assert_eq!(client.create(path, &configmap("a")).await.0, 201);
    assert_eq!(client.list(path).await.len(), cluster.list(path).await.len());
    let stranger = testkit::kube::Client::new(&throttle.url(), &cluster.keys.ca_pem(), "nobody");
    assert_eq!(stranger.get(path).await.0, 401, "who asks is passed on");

    throttle.refuse_every(1, 1);
    assert_eq!(client.create(path, &configmap("b")).await, (429, Value::from(throttle::TOO_MANY)));
    assert_eq!(client.get(path).await.0, 200);
    assert_eq!(throttle.writes_to(path), 2);
    assert_eq!(
        throttle.asked().iter().filter_map(|asked| asked.status).collect::<Vec<_>>(),
        [201, 200, 401, 429, 200]
    );

    throttle.plan(|asked| if asked.writes() { Fault::CutAnswer } else { Fault::None });
    assert!(
        client
            .try_ask("POST".parse().expect("a method"), path, "application/json", Some(&configmap("c")))
            .await
            .is_err()
    );
    assert_eq!(client.get(&format!("{path}/c")).await.0, 200, "it was done, only not heard of");

    throttle.heal();
    throttle.forget();
    throttle.hold();
    let held = tokio::spawn({
        let (client, object) = (client.clone(), configmap("d"));
        async move { client.create(path, &object).await.0 }
    });
    throttle.until_asked(1, testkit::kube::Asked::writes).await;
    assert_eq!(cluster.get(&format!("{path}/d")).await.0, 404);
    throttle.release();
    assert_eq!(held.await.expect("an answer"), 201);

    throttle.down();
    assert!(client.try_ask("GET".parse().expect("a method"), path, "", None).await.is_err());
    throttle.up();
    throttle.budget(5, 1);
    let mut refused = 0;
    for number in 0..100 {
        refused += u32::from(client.create(path, &configmap(&format!("many-{number}"))).await.0 == 429);
    }
    assert!(refused > 0, "a hundred at once are beyond a budget of five");
}

#[tokio::test]
async fn an_overloaded_api_server_says_so_in_plain_text_but_never_to_an_administrator() {
    let flags = ["--enable-priority-and-fairness=false", "--max-mutating-requests-inflight=1"];
    let cluster = Cluster::with(Options { flags: flags.map(str::to_owned).to_vec(), ..Options::default() });
    cluster.install_widgets("v1", &["v1"], None).await;
    let webhook = AdmissionWebhook::start(&cluster.keys);
    webhook.install(&cluster, WIDGETS_GROUP, "widgets").await;
    // One that takes its time is all that it takes in at once.
    webhook.slow(Duration::from_secs(5));
    let before = webhook.asked();
    let plain = cluster.server.client("plain");
    let slow = tokio::spawn({
        let plain = plain.clone();
        async move { plain.create(&widgets_path("v1"), &widget("v1", "slow", 1)).await.0 }
    });
    while webhook.asked() == before {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "another"}});
    assert_eq!(plain.create("/api/v1/namespaces", &namespace).await, (429, Value::from(throttle::TOO_MANY)));
    assert_eq!(cluster.create("/api/v1/namespaces", &namespace).await.0, 201);
    assert_eq!(slow.await.expect("an answer"), 201);
}
