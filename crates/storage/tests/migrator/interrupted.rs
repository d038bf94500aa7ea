//! A migrator that ends in the middle, by order or by force.

use std::collections::BTreeMap;
use std::time::Duration;

use storage::migrator::Ended;
use testkit::kube::Fault;

use crate::ground::{Ground, WIDGETS_IN_ETCD, is_put_of_an_object};

async fn slow_ground(widgets: usize) -> Ground {
    let ground = Ground::new().await;
    ground.cluster.install_widgets("v1", &["v1", "v2"], None).await;
    ground.cluster.create_widgets("v1", widgets, 20).await;
    ground.cluster.flip_storage("v2").await;
    ground.proxy.plan(|asked| match is_put_of_an_object(asked) {
        true => Fault::Delay(Duration::from_millis(40)),
        false => Fault::None,
    });
    ground
}

#[tokio::test]
async fn a_migrator_that_is_killed_goes_on_from_its_last_record() {
    const WIDGETS: usize = 2000;
    let ground = slow_ground(WIDGETS).await;
    let (_stop, running) = ground.spawn(ground.ask_for_widgets("killed").await);
    let recorded = loop {
        let status = ground.migration("killed").await.status.unwrap_or_default();
        let migrated = status.progress.map_or(0, |progress| progress.migrated);
        if status.continue_token.is_some() && migrated > 0 {
            break usize::try_from(migrated).unwrap();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    ground.proxy.heal();
    // What was under way when it was killed arrives or not; then it is quiet.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let recorded_now = ground.migration("killed").await.status.unwrap().progress.unwrap().migrated;
    let recorded = recorded.max(usize::try_from(recorded_now).unwrap());
    ground.proxy.forget();

    let (ended, migration) = ground.run(ground.migration("killed").await).await;
    assert_eq!(ended, Ended::Succeeded);
    assert_eq!(migration["status"]["progress"]["migrated"], WIDGETS);
    assert_eq!(ground.stored(WIDGETS_IN_ETCD).await, [("stable.example.com/v2".to_owned(), WIDGETS)]);
    let mut puts = BTreeMap::<String, usize>::new();
    for asked in ground.puts() {
        *puts.entry(asked.path.clone()).or_default() += 1;
    }
    assert_eq!(puts.len(), WIDGETS - recorded, "what was recorded is not done again");
    assert!(puts.values().all(|count| *count <= 2));
}

#[tokio::test]
async fn not_one_more_write_begins_when_it_must_stop() {
    let ground = slow_ground(600).await;
    let (stop, running) = ground.spawn(ground.ask_for_widgets("stopped").await);
    ground.proxy.until_asked(100, is_put_of_an_object).await;
    let before = ground.puts().len();
    stop.cancel();
    assert_eq!(running.await.unwrap(), Ended::Stopped);
    tokio::time::sleep(Duration::from_millis(500)).await;
    // Those that were on their way to the proxy, at most.
    assert!(ground.puts().len() - before <= 16, "{} after it was stopped", ground.puts().len() - before);

    // One whose object is deleted finds out by itself, at its next record.
    let migration = ground.ask_for_widgets("deleted").await;
    ground.proxy.forget();
    let (_stop, running) = ground.spawn(migration);
    ground.proxy.until_asked(20, is_put_of_an_object).await;
    ground.delete("deleted").await;
    assert_eq!(running.await.unwrap(), Ended::Gone);
}

#[tokio::test]
async fn the_last_word_is_written_once_even_if_its_answer_is_lost() {
    let ground = Ground::new().await;
    ground.cluster.install_widgets("v1", &["v1", "v2"], None).await;
    ground.cluster.create_widgets("v1", 30, 20).await;
    ground.cluster.flip_storage("v2").await;
    let mut words = 0;
    ground.proxy.plan(move |asked| {
        words += u32::from(asked.method == "PUT" && asked.path.ends_with("/status"));
        match asked.path.ends_with("/status") && words == 1 {
            true => Fault::CutAnswer,
            false => Fault::None,
        }
    });
    let (ended, migration) = ground.run(ground.ask_for_widgets("lost").await).await;
    assert_eq!(ended, Ended::Succeeded);
    assert_eq!(crate::ground::holds(&migration).0, "Succeeded");
    assert_eq!(ground.puts().len(), 30);
}
