//! A site on shaped links. How long it takes is for the benchmarks to say.

use crate::network;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifteen_receive_at_once_on_links_of_a_hundred_megabits() {
    let (taken, one) = network::fifteen_receive_at_once().await;
    println!("{taken:.1?}, one transfer at the link's speed: {one:.1?}");
}
