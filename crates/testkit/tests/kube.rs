//! The test ground for Kubernetes, on trial itself: a real kube-apiserver on a real etcd.

use serde_json::{Value, json};
use testkit::kube::{
    AdmissionWebhook, AggregatedServer, Cluster, ConversionWebhook, Fault, Options, Throttle, WIDGETS_GROUP, aggregated,
    storage_hash, stored_version, throttle, widget, widgets_path,
};

const WIDGETS_IN_ETCD: &str = "/registry/stable.example.com/widgets/";
const INGRESS_FLAGS: &str = "--runtime-config=networking.k8s.io/v1=false,networking.k8s.io/v1beta1=false";

async fn versions_in_etcd(cluster: &Cluster, prefix: &str) -> Vec<String> {
    cluster.etcd.get_raw(prefix).await.iter().map(|(_, bytes)| stored_version(bytes)).collect()
}

/// Gets and puts it unchanged.
async fn rewrite(cluster: &Cluster, path: &str) -> u16 {
    let (_, object) = cluster.get(path).await;
    cluster.update(path, &object).await.0
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

    assert_eq!(rewrite(&cluster, &format!("{}/widget-00007", widgets_path("v1"))).await, 200);
    let versions = versions_in_etcd(&cluster, WIDGETS_IN_ETCD).await;
    assert_eq!(versions.iter().filter(|version| *version == "stable.example.com/v2").count(), 1);
}
