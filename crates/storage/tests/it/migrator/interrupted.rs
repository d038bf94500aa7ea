//! A migrator that ends in the middle by order, and one whose last word is not answered.

use std::time::Duration;

use storage::migrator::Ended;
use testkit::kube::Fault;

use crate::migrator::ground::{Ground, is_put_of_an_object};

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
    assert_eq!(crate::migrator::ground::holds(&migration).0, "Succeeded");
    assert_eq!(ground.puts().len(), 30);
}
