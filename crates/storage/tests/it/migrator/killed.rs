//! A migrator that is killed after any number of requests, and the one that goes on.

use std::sync::Arc;
use std::time::Duration;

use logic::storage::Phase;
use serde_json::json;
use storage::api::StorageVersionMigration;
use storage::migrator::{Ended, Migrator};
use testkit::kube::{AggregatedServer, Asked, aggregated};
use tokio_util::sync::CancellationToken;

use crate::migrator::ground::{Ground, WIDGETS_IN_ETCD, is_put_of_an_object};

/// With connections of its own, as another process has. It records often, so that there are records in a migration of a
/// moment.
fn migrator(ground: &Ground) -> Migrator {
    let client = ground.connection.client().unwrap();
    let migrator = Migrator::new(client, &ground.settings, Arc::default());
    migrator.recording_every(Duration::from_millis(10))
}

async fn run(ground: &Ground, migration: StorageVersionMigration) -> StorageVersionMigration {
    let name = migration.metadata.name.clone().unwrap();
    assert_eq!(migrator(ground).run(migration, CancellationToken::new()).await, Ended::Succeeded);
    ground.migration(&name).await
}

/// Kills it at the first request for which `at` holds. False if the migration came to its end instead.
async fn kill(
    ground: &Ground,
    migration: StorageVersionMigration,
    at: impl FnMut(&Asked) -> bool + Send + 'static,
) -> bool {
    let killed = ground.proxy.kill(at);
    let migrator = migrator(ground);
    let running = tokio::spawn(async move { migrator.run(migration, CancellationToken::new()).await });
    let dead = killed.until(|| running.is_finished()).await;
    running.abort();
    let ended = running.await;
    assert!(dead || matches!(ended, Ok(Ended::Succeeded)), "{ended:?}");
    killed.next();
    dead
}

fn after(requests: usize) -> impl FnMut(&Asked) -> bool {
    let mut asked = 0;
    move |_| {
        asked += 1;
        asked > requests
    }
}

/// As many as nobody has to write again.
fn recorded(migration: &StorageVersionMigration) -> usize {
    let status = migration.status.clone().unwrap_or_default();
    let progress = status.progress.filter(|_| status.continue_token.is_some() || migration.phase().is_over());
    usize::try_from(progress.map_or(0, |progress| progress.migrated)).unwrap()
}

/// In pages of sixteen and then of eight, by their size.
const READINGS: usize = 32;
const BYTES: usize = 30_000;

/// A resource whose storage version changes at once, so that it can be changed often.
struct Readings {
    ground: Ground,
    server: AggregatedServer,
}

impl Readings {
    async fn new() -> Self {
        let mut ground = Ground::new().await;
        ground.settings.writes_at_once = 4;
        let server = AggregatedServer::start(&ground.cluster.keys);
        server.register(&ground.cluster).await;
        for number in 0..READINGS {
            let reading = json!({"metadata": {"name": format!("reading-{number:02}")},
                "spec": {"filling": "x".repeat(BYTES)}});
            assert_eq!(ground.cluster.create(&AggregatedServer::path(), &reading).await.0, 201);
        }
        Self { ground, server }
    }

    async fn ask(&self, name: &str) -> StorageVersionMigration {
        self.ground.ask_for(name, aggregated::GROUP, aggregated::VERSION, aggregated::RESOURCE).await
    }

    fn stored_as(&self, version: &str) -> usize {
        self.server.stored().iter().filter(|(_, stored)| stored == version).count()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_any_request_it_says_no_more_than_was_done_and_does_no_more_than_is_left() {
    let readings = Readings::new().await;
    let ground = &readings.ground;
    let (mut requests, mut gone_on) = (0, 0);
    loop {
        let version = if requests % 2 == 0 { "v2" } else { "v1" };
        readings.server.store_as(version);
        let migration = readings.ask(&format!("killed-after-{requests}")).await;
        let name = migration.metadata.name.clone().unwrap();
        let killed = kill(ground, migration, after(requests)).await;
        let found = ground.migration(&name).await;
        let (done, said) = (readings.stored_as(version), recorded(&found));
        assert!(said <= done, "after {requests} requests {done} are done, and it says {said}");
        assert!(found.phase() != Phase::Succeeded || done == READINGS, "{done} after {requests} requests");
        gone_on += usize::from(said > 0 && !found.phase().is_over());

        let stamp = found.stamp();
        let migration = run(ground, found).await;
        assert_eq!(ground.puts().len(), READINGS - said, "after {requests} requests");
        assert_eq!(readings.stored_as(version), READINGS, "after {requests} requests");
        assert_eq!(recorded(&migration), READINGS);
        assert!(stamp.is_none() || migration.stamp() == stamp, "it is the same work");
        if !killed {
            break;
        }
        requests += 1;
    }
    // Not the requests for objects alone.
    assert!(requests > READINGS + 8 && gone_on > 0, "{requests} points, {gone_on} of them after a record");
    println!("killed at {requests} points, {gone_on} of them after a record");

    // A life of forty requests is enough for two pages, and mostly for a record of them, which is written by time: one life
    // after the other, nothing is forgotten, and it comes to its end.
    readings.server.store_as("v3");
    let mut migration = readings.ask("killed-again-and-again").await;
    for life in 1.. {
        let before = recorded(&migration);
        let killed = kill(ground, migration, after(40)).await;
        migration = ground.migration("killed-again-and-again").await;
        assert!(life <= 30 && recorded(&migration) >= before, "{before} before life {life}");
        if !killed {
            break;
        }
    }
    assert_eq!((readings.stored_as("v3"), recorded(&migration)), (READINGS, READINGS));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_after_the_last_object_it_has_not_succeeded_before_it_says_so() {
    const WIDGETS: usize = 60;
    let ground = Ground::new().await;
    ground.cluster.install_widgets("v1", &["v1", "v2"], None).await;
    ground.cluster.create_widgets("v1", WIDGETS, 20).await;
    // With what it has seen before.
    type Dead = fn(&Asked, &mut usize) -> bool;
    let points: [(&str, &str, bool, Dead); 3] = [
        ("before-the-verdict", "v2", false, |asked, objects| {
            *objects += usize::from(is_put_of_an_object(asked));
            *objects == WIDGETS && asked.method == "GET"
        }),
        ("before-the-trim", "v1", false, |asked, _| trims(asked)),
        ("before-the-last-word", "v2", true, |asked, trimmed| {
            *trimmed += usize::from(trims(asked));
            *trimmed > 0 && asked.method == "PUT"
        }),
    ];
    for (name, version, trimmed, dead) in points {
        ground.cluster.flip_storage(version).await;
        let mut seen = 0;
        let migration = ground.ask_for_widgets(name).await;
        assert!(kill(&ground, migration, move |asked| dead(asked, &mut seen)).await, "{name}");
        let in_etcd = vec![(format!("stable.example.com/{version}"), WIDGETS)];
        assert_eq!(ground.stored(WIDGETS_IN_ETCD).await, in_etcd);
        assert_eq!(ground.stored_versions().await == json!([version]), trimmed, "{name}");
        let found = ground.migration(name).await;
        assert_ne!(found.phase(), Phase::Succeeded, "{name}");
        let said = recorded(&found);

        run(&ground, found).await;
        assert_eq!(ground.puts().len(), WIDGETS - said, "{name}");
        assert_eq!(ground.stored(WIDGETS_IN_ETCD).await, in_etcd);
        assert_eq!(ground.stored_versions().await, json!([version]), "{name}");
    }
}

/// Strikes versions off a definition.
fn trims(asked: &Asked) -> bool {
    asked.method == "PATCH" && asked.path.contains("/customresourcedefinitions/")
}
