//! A cluster, a proxy before it that counts and disturbs, and a migrator that goes through the proxy.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use storage::Client;
use storage::api::StorageVersionMigration;
use storage::connect::Cluster as Connection;
use storage::metrics::Metrics;
use storage::migrator::{Ended, Migrator};
use storage::settings::Settings;
use testkit::kube::{Asked, Cluster, Options, Throttle, stored_version};
use tokio_util::sync::CancellationToken;

pub const WIDGETS_IN_ETCD: &str = "/registry/stable.example.com/widgets/";
const MIGRATIONS: &str = "/apis/migration.k8s.io/v1alpha1/storageversionmigrations";

pub struct Ground {
    pub cluster: Cluster,
    pub proxy: Throttle,
    pub settings: Settings,
    pub connection: Connection,
    pub client: Client,
}

async fn connect(kubeconfig: &Path) -> Connection {
    Connection::connect(Some(kubeconfig)).await.expect("a way")
}

pub async fn client(kubeconfig: &Path) -> Client {
    connect(kubeconfig).await.client().expect("a client")
}

impl Ground {
    pub async fn new() -> Self {
        Self::with(Options::default(), "admin").await
    }

    /// The migrator acts as this user.
    pub async fn with(options: Options, user: &str) -> Self {
        Self::of(Cluster::with(options), user).await
    }

    pub async fn of(cluster: Cluster, user: &str) -> Self {
        let admin = client(&cluster.kubeconfig("admin")).await;
        storage::install::apply(&admin, &storage::install::custom_resources()).await.expect("installed");
        let proxy = Throttle::start(&cluster.server);
        let connection = connect(&cluster.server.kubeconfig_to(user, &proxy.url())).await;
        let client = connection.client().expect("a client");
        let settings = Settings { tries: 3, ..Settings::default() };
        Self { cluster, proxy, settings, connection, client }
    }

    pub fn migrator(&self) -> Migrator {
        Migrator::new(self.client.clone(), &self.settings, Arc::<Metrics>::default())
    }

    /// As a person makes one.
    pub async fn ask_for(
        &self,
        name: &str,
        group: &str,
        version: &str,
        resource: &str,
    ) -> StorageVersionMigration {
        let migration = json!({
            "apiVersion": "migration.k8s.io/v1alpha1", "kind": "StorageVersionMigration",
            "metadata": {"name": name},
            "spec": {"resource": {"group": group, "version": version, "resource": resource}},
        });
        let (status, said) = self.cluster.create(MIGRATIONS, &migration).await;
        assert_eq!(status, 201, "{said}");
        self.migration(name).await
    }

    pub async fn ask_for_widgets(&self, name: &str) -> StorageVersionMigration {
        self.ask_for(name, "stable.example.com", "v1", "widgets").await
    }

    pub async fn migration(&self, name: &str) -> StorageVersionMigration {
        let (status, found) = self.cluster.get(&format!("{MIGRATIONS}/{name}")).await;
        assert_eq!(status, 200, "{found}");
        serde_json::from_value(found).expect("a migration")
    }

    /// Runs it to its end, and gives it as it was left.
    pub async fn run(&self, migration: StorageVersionMigration) -> (Ended, Value) {
        let name = migration.metadata.name.clone().expect("a name");
        let ended = self.migrator().run(migration, CancellationToken::new()).await;
        (ended, self.cluster.get(&format!("{MIGRATIONS}/{name}")).await.1)
    }

    /// Runs it beside the test.
    pub fn spawn(
        &self,
        migration: StorageVersionMigration,
    ) -> (CancellationToken, tokio::task::JoinHandle<Ended>) {
        let (stop, migrator) = (CancellationToken::new(), self.migrator());
        let stopped = stop.clone();
        (stop, tokio::spawn(async move { migrator.run(migration, stopped).await }))
    }

    pub async fn delete(&self, name: &str) {
        self.cluster.delete(&format!("{MIGRATIONS}/{name}")).await;
    }

    /// How many objects are stored in each version, as etcd has them.
    pub async fn stored(&self, prefix: &str) -> Vec<(String, usize)> {
        let mut versions: Vec<String> =
            self.cluster.etcd.get_raw(prefix).await.iter().map(|(_, bytes)| stored_version(bytes)).collect();
        versions.sort();
        let groups = versions.chunk_by(|a, b| a == b);
        groups.map(|group| (group[0].clone(), group.len())).collect()
    }

    pub async fn stored_versions(&self) -> Value {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.stable.example.com";
        self.cluster.get(path).await.1["status"]["storedVersions"].clone()
    }

    pub fn puts(&self) -> Vec<Asked> {
        self.proxy.asked().into_iter().filter(is_put_of_an_object).collect()
    }
}

pub fn is_put_of_an_object(asked: &Asked) -> bool {
    asked.method == "PUT" && !asked.path.contains("migration.k8s.io")
}

/// The one condition that is true, and what it says.
pub fn holds(migration: &Value) -> (String, String, String) {
    let conditions = migration["status"]["conditions"].as_array().expect("conditions");
    let holding: Vec<&Value> = conditions.iter().filter(|it| it["status"] == "True").collect();
    assert_eq!(holding.len(), 1, "{conditions:?}");
    let text = |key: &str| holding[0][key].as_str().expect("text").to_owned();
    (text("type"), text("reason"), text("message"))
}
