//! Many receivers at once.

use logic::images::FileState;
use tonic::Code;

use crate::images::fixture::{MIB, Manager, Site, content};
use crate::images::proxy::Proxy;

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_receivers_at_once_all_come_to_their_end_and_no_sender_serves_more_than_three() {
    let bytes = content(40, 24 * MIB);
    let site = Site::new(bytes.clone());
    let mut first = site.manager("first");
    let mut others: Vec<_> = (0..16).map(|number| site.manager(&format!("r{number}"))).collect();
    let peers: Vec<_> = others.iter().map(Manager::peer).chain([first.peer()]).collect();
    first.calls.pull(site.pull(1)).await.unwrap();
    for other in &mut others {
        other.sync_with(1, peers.clone()).await.unwrap();
    }
    loop {
        let mut done = 0;
        for manager in others.iter_mut().chain([&mut first]) {
            let status = manager.get(1).await.unwrap();
            assert!(status.sending <= 3, "{} serves {}", manager.name, status.sending);
            assert_ne!(status.state, FileState::Failed, "{}", status.reason);
            done += usize::from(status.state == FileState::Downloaded);
        }
        if done == 17 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    others.iter().for_each(|other| other.assert_has(1, &bytes));
    assert_eq!(site.origin.sent(), bytes.len() as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn receivers_follow_a_list_that_still_grows_and_are_not_done_before_its_seal() {
    let bytes = content(41, 40 * MIB);
    let site = Site::new(bytes.clone());
    site.origin.set(|served| served.rate = 10 * MIB as u64);
    let mut puller = site.manager("a");
    let mut receiver = site.manager("b");
    puller.calls.pull(site.pull(1)).await.unwrap();
    receiver.sync(1, &[&puller]).await;
    receiver.until_partly(1, 16 * MIB).await;
    assert_eq!(puller.get(1).await.unwrap().state, FileState::Downloading);
    receiver.until_downloaded(1).await;
    assert_eq!(puller.get(1).await.unwrap().state, FileState::Downloaded, "it was done before the puller");
    receiver.assert_has(1, &bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn followers_of_a_puller_whose_checksum_is_wrong_end_with_nothing() {
    let bytes = content(42, 8 * MIB);
    let site = Site::new(bytes);
    site.origin.set(|served| served.rate = 8 * MIB as u64);
    let mut puller = site.manager("a");
    let mut receiver = site.manager("b");
    let request =
        wire::images::PullRequest { checksum: crate::images::fixture::sha256(b"other"), ..site.pull(1) };
    puller.calls.pull(request).await.unwrap();
    receiver.sync(1, &[&puller]).await;
    puller.until_failed(1).await;
    let status = receiver.get(1).await.unwrap();
    assert_ne!(status.state, FileState::Downloaded);
    assert!(!receiver.dir(1).join("backing").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_version_is_fetched_for_what_is_new_in_it_only() {
    let bytes = content(43, 32 * MIB);
    let site = Site::new(bytes.clone());
    let mut sender = site.manager("a");
    let mut receiver = site.manager("b");
    sender.calls.pull(site.pull(1)).await.unwrap();
    sender.until_downloaded(1).await;
    receiver.sync(1, &[&sender]).await;
    receiver.until_downloaded(1).await;
    // A little more in the middle, so that everything after it is elsewhere.
    let mut next = bytes.clone();
    next.splice(10 * MIB..10 * MIB + 5, content(44, 100_000));
    site.origin.replace(next.clone());
    sender.calls.pull(site.pull(2)).await.unwrap();
    sender.until_downloaded(2).await;
    let proxy = Proxy::to(&sender);
    receiver.sync_with(2, vec![proxy.peer(&sender)]).await.unwrap();
    receiver.until_downloaded(2).await;
    receiver.assert_has(2, &next);
    assert!(proxy.passed() < 4 * MIB as u64, "{} bytes came over the network", proxy.passed());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_nobody_has_is_not_sent() {
    let site = Site::new(content(45, MIB));
    let mut receiver = site.manager("b");
    let sender = site.manager("a");
    receiver.sync(1, &[&sender]).await;
    let again = receiver.sync_with(1, vec![sender.peer()]).await.unwrap_err();
    assert_eq!(again.code(), Code::AlreadyExists, "{again}");
    assert_eq!(receiver.get(1).await.unwrap().state, FileState::Downloading);
}
