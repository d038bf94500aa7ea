//! A site on shaped links. How long it takes is for the benchmarks to say.

use crate::images::fixture::MIB;
use crate::images::network;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_receive_at_once_on_links_of_a_hundred_megabits() {
    let (taken, one) = network::receive_at_once(3, 32 * MIB).await;
    println!("{taken:.1?}, one transfer at the link's speed: {one:.1?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "prove: links"]
async fn fifteen_receive_at_once_on_links_of_a_hundred_megabits() {
    let (taken, one) = network::receive_at_once(15, 256 * MIB).await;
    println!("{taken:.1?}, one transfer at the link's speed: {one:.1?}");
}
