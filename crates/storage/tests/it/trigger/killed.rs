//! A trigger that is killed before any of its writes, and the one that goes on.

use testkit::kube::{Asked, Client, Cluster, Throttle};

use crate::trigger::support::*;

struct Site {
    cluster: Cluster,
    proxy: Throttle,
}

impl Site {
    async fn new() -> Self {
        let cluster = cluster().await;
        cluster.install_widgets("v1", &["v1", "v2"], None).await;
        let proxy = Throttle::start(&cluster.server);
        Self { cluster, proxy }
    }

    async fn trigger(&self) -> Controller {
        let kubeconfig = self.cluster.server.kubeconfig_to("admin", &self.proxy.url());
        Controller::start(&kubeconfig, &settings(600), TRIGGER).await
    }

    /// One that is killed when it has made so many of these writes. False if it is over before.
    async fn killed_after(
        &self,
        writes: usize,
        which: fn(&Asked) -> bool,
        over: fn(&Controller) -> bool,
    ) -> bool {
        let mut seen = 0;
        let killed = self.proxy.kill(move |asked| {
            seen += usize::from(which(asked));
            seen > writes
        });
        let controller = self.trigger().await;
        let dead = killed.until(|| over(&controller)).await;
        controller.cut_off().await;
        killed.next();
        dead
    }
}

/// Nothing else is created once everything has its migration.
fn of_widgets(asked: &Asked) -> bool {
    asked.writes() && (asked.path.contains(WIDGETS) || asked.method == "POST")
}

/// Every migration counts for a state that says what may be stored.
async fn assert_written_down_first(client: &Client) {
    let states = client.list(STATES).await;
    for migration in client.list(MIGRATIONS).await {
        let stamp = &migration["metadata"]["annotations"];
        let state = states.iter().find(|it| stamp["storage.holdfast/state-uid"] == it["metadata"]["uid"]);
        let state = state.unwrap_or_else(|| panic!("{migration} is of no state"));
        assert!(!persisted(state).is_empty(), "{state}");
        assert_eq!(stamp["storage.holdfast/version-hash"], current(state), "{state}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_again_and_again_it_takes_everything_in() {
    let site = Site::new().await;
    let mut lives = 0;
    // Each gets further by a few, so that the next ones find all kinds of beginnings.
    while site
        .killed_after(lives * 7, Asked::writes, |controller| controller.metric("passes_total") >= 1.0)
        .await
    {
        assert_written_down_first(&site.cluster).await;
        lives += 1;
    }
    assert!(lives >= 4, "{lives}");
    let controller = site.trigger().await;
    until_state(&site.cluster, WIDGETS, &["Unknown"], &widget_hash("v1")).await;
    for state in site.cluster.list(STATES).await {
        assert_eq!(persisted(&state), ["Unknown"], "{state}");
        until_migration(&site.cluster, &name(&state), &[]).await;
    }
    assert_written_down_first(&site.cluster).await;
    controller.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_before_any_write_of_a_change_it_has_written_down_what_may_be_stored() {
    let site = Site::new().await;
    let controller = site.trigger().await;
    let mut before = until_migration(&site.cluster, WIDGETS, &[]).await;
    succeed(&site.cluster, &before).await;
    until_state(&site.cluster, WIDGETS, &[&widget_hash("v1")], &widget_hash("v1")).await;
    controller.passes(1).await;
    controller.stop().await;
    // The state, then the end of the migration of before, then the new one.
    for (writes, from, to) in [(0, "v1", "v2"), (1, "v2", "v1"), (2, "v1", "v2")] {
        let (a, b) = (&*widget_hash(from), &*widget_hash(to));
        site.cluster.flip_storage(to).await;
        assert!(site.killed_after(writes, of_widgets, |_| false).await);
        let state = site.cluster.get(&state_path(WIDGETS)).await.1;
        let known = if writes == 0 { (vec![a], a) } else { (vec![a, b], b) };
        assert_eq!((persisted(&state), current(&state)), known, "after {writes} writes");
        let left: Vec<String> = migrations_of(&site.cluster, WIDGETS).await.iter().map(uid).collect();
        let kept = if writes < 2 { vec![uid(&before)] } else { vec![] };
        assert_eq!(left, kept, "after {writes} writes");

        // The next one goes on, and is killed before it says that nothing is stored in the old version any more.
        let controller = site.trigger().await;
        until_state(&site.cluster, WIDGETS, &[a, b], b).await;
        let migration = until_migration(&site.cluster, WIDGETS, &[uid(&before)]).await;
        let killed = site.proxy.kill(of_widgets);
        succeed(&site.cluster, &migration).await;
        assert!(killed.until(|| false).await);
        controller.cut_off().await;
        killed.next();
        let state = site.cluster.get(&state_path(WIDGETS)).await.1;
        assert_eq!(persisted(&state), [a, b]);
        let controller = site.trigger().await;
        until_state(&site.cluster, WIDGETS, &[b], b).await;
        let counted = until_migration(&site.cluster, WIDGETS, &[]).await;
        assert_eq!(uid(&counted), uid(&migration), "it is not done again");
        controller.stop().await;
        before = migration;
    }
}
