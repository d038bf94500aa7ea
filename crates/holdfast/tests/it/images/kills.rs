//! kill -9 and SIGSTOP of pullers, senders and receivers, in every state.

use std::fs;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use logic::images::FileState;
use rustix::process::Signal;
use testkit::proof;

use crate::images::fixture::{MIB, Site, content, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_puller_that_is_killed_goes_on_where_it_was() {
    let bytes = content(30, 160 * MIB);
    let site = Site::new(bytes.clone());
    site.origin.set(|served| served.rate = 80 * MIB as u64);
    let mut manager = site.manager("a");
    let points = [1, 50, 100];
    for at in points {
        manager.calls.pull(site.pull(1)).await.unwrap();
        manager.until_partly(1, at * MIB).await;
        site.restart(&mut manager);
        let status = manager.get(1).await.unwrap();
        assert_eq!(status.state, FileState::Pending, "{}", status.reason);
        assert!(status.bytes + 64 * MIB as u64 >= (at * MIB) as u64, "{} of {at} MiB are left", status.bytes);
    }
    site.origin.set(|served| served.rate = 0);
    manager.calls.pull(site.pull(1)).await.unwrap();
    manager.until_downloaded(1).await;
    manager.assert_has(1, &bytes);
    proof::count(proof::Kind::KillPoints, points.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manager_that_is_killed_when_it_is_done_has_nothing_to_do() {
    let bytes = content(31, 4 * MIB);
    let site = Site::new(bytes.clone());
    let mut manager = site.manager("a");
    manager.calls.pull(site.pull(1)).await.unwrap();
    manager.until_downloaded(1).await;
    let (inode, sent) = (manager.inode(1), site.origin.sent());
    site.restart(&mut manager);
    assert_eq!(manager.get(1).await.unwrap().state, FileState::Downloaded);
    assert_eq!((manager.inode(1), site.origin.sent()), (inode, sent));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_killed_half_way_fetches_at_most_64_mib_again() {
    let bytes = content(32, 192 * MIB);
    let site = Site::with(bytes.clone(), &format!("bandwidth = {}", 96 * MIB));
    let mut sender = site.manager("a");
    let mut receiver = site.manager("b");
    sender.calls.pull(site.pull(1)).await.unwrap();
    sender.until_downloaded(1).await;
    receiver.sync(1, &[&sender]).await;
    let before = receiver.until_partly(1, 96 * MIB).await.bytes;
    site.restart(&mut receiver);
    let status = receiver.get(1).await.unwrap();
    assert_eq!(status.state, FileState::Pending);
    assert!(
        before.saturating_sub(status.bytes) <= 64 * MIB as u64,
        "{before} were there, {} are",
        status.bytes
    );
    receiver.sync(1, &[&sender]).await;
    receiver.until_downloaded(1).await;
    receiver.assert_has(1, &bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_that_is_killed_leaves_no_receiver_that_believes_it_is_done() {
    let bytes = content(33, 48 * MIB);
    let site = Site::with(bytes.clone(), &format!("bandwidth = {}", 16 * MIB));
    let mut sender = site.manager("a");
    let mut receiver = site.manager("b");
    sender.calls.pull(site.pull(1)).await.unwrap();
    sender.until_downloaded(1).await;
    receiver.sync(1, &[&sender]).await;
    receiver.until_partly(1, 8 * MIB).await;
    sender.kill();
    // It waits for somebody who has the rest, and says how far it is.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let status = receiver.get(1).await.unwrap();
    assert_ne!(status.state, FileState::Downloaded);
    assert!(!receiver.dir(1).join("backing").exists());
    let sender = site.start("a", &sender.disk.clone(), &sender.id.clone());
    // The address is another one: the controllers tell.
    let peers = wire::images::PeersRequest {
        image: Some(crate::images::fixture::image(1)),
        peers: vec![sender.peer()],
    };
    receiver.calls.peers(peers).await.unwrap();
    receiver.until_downloaded(1).await;
    receiver.assert_has(1, &bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sender_that_is_frozen_is_left_alone_for_one_that_is_not() {
    let bytes = content(34, 48 * MIB);
    let site = Site::with(bytes.clone(), &format!("bandwidth = {}", 16 * MIB));
    let mut first = site.manager("a");
    let mut second = site.manager("b");
    let mut receiver = site.manager("c");
    first.calls.pull(site.pull(1)).await.unwrap();
    first.until_downloaded(1).await;
    second.sync(1, &[&first]).await;
    second.until_downloaded(1).await;
    receiver.sync(1, &[&first, &second]).await;
    receiver.until_partly(1, 4 * MIB).await;
    first.signal(Signal::STOP);
    receiver.until_downloaded(1).await;
    receiver.assert_has(1, &bytes);
    first.signal(Signal::CONT);
    assert_eq!(first.get(1).await.unwrap().state, FileState::Downloaded);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_frozen_and_thawed_comes_to_its_end() {
    let bytes = content(35, 32 * MIB);
    let site = Site::with(bytes.clone(), &format!("bandwidth = {}", 16 * MIB));
    let mut sender = site.manager("a");
    let mut receiver = site.manager("b");
    sender.calls.pull(site.pull(1)).await.unwrap();
    sender.until_downloaded(1).await;
    receiver.sync(1, &[&sender]).await;
    receiver.until_partly(1, 4 * MIB).await;
    receiver.signal(Signal::STOP);
    until("the sender gives its place to others", async || sender.get(1).await.unwrap().sending == 0).await;
    receiver.signal(Signal::CONT);
    receiver.until_downloaded(1).await;
    receiver.assert_has(1, &bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bit_flipped_on_a_senders_disk_is_found_there_and_never_believed() {
    let bytes = content(36, 16 * MIB);
    // The sender does not read its files by itself while this test runs.
    let site = Site::with(bytes.clone(), "scrub-interval = \"0s\"");
    let mut sender = site.manager("a");
    let mut other = site.manager("b");
    let mut receiver = site.manager("c");
    sender.calls.pull(site.pull(1)).await.unwrap();
    sender.until_downloaded(1).await;
    other.sync(1, &[&sender]).await;
    other.until_downloaded(1).await;
    for at in (0..bytes.len()).step_by(MIB) {
        flip_silently(&sender.dir(1).join("backing"), at as u64);
    }
    receiver.sync(1, &[&sender]).await;
    let status = sender.until(1, "failed", |status| status.state == FileState::Failed).await;
    assert!(status.reason.contains("bad"), "{}", status.reason);
    assert_ne!(receiver.get(1).await.unwrap().state, FileState::Downloaded);
    // Somebody else has it: what is bad is not asked for twice.
    let peers = vec![sender.peer(), other.peer()];
    let peers = wire::images::PeersRequest { image: Some(crate::images::fixture::image(1)), peers };
    receiver.calls.peers(peers).await.unwrap();
    receiver.until_downloaded(1).await;
    receiver.assert_has(1, &bytes);
    // Told to fetch again, the sender mends what was found to be bad with what the others have.
    sender.sync(1, &[&other, &receiver]).await;
    sender.until_downloaded(1).await;
}

/// As a disk does it: without a trace in the file's times.
fn flip_silently(path: &std::path::Path, at: u64) {
    let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let before = file.metadata().unwrap().modified().unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 4], at).unwrap();
    file.set_modified(before).unwrap();
    file.sync_all().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn if_the_puller_is_killed_another_goes_on_and_the_origin_is_asked_for_the_rest_only() {
    let bytes = content(37, 96 * MIB);
    let site = Site::new(bytes.clone());
    site.origin.set(|served| served.rate = 24 * MIB as u64);
    let mut puller = site.manager("a");
    let mut second = site.manager("b");
    let mut third = site.manager("c");
    puller.calls.pull(site.pull(1)).await.unwrap();
    second.sync(1, &[&puller, &third]).await;
    third.sync(1, &[&puller, &second]).await;
    second.until_partly(1, 32 * MIB).await;
    third.until_partly(1, 32 * MIB).await;
    puller.kill();
    site.origin.set(|served| served.rate = 0);
    let request = wire::images::PullRequest { peers: vec![third.peer()], ..site.pull(1) };
    second.calls.pull(request).await.unwrap();
    second.until_downloaded(1).await;
    third.until_downloaded(1).await;
    second.assert_has(1, &bytes);
    third.assert_has(1, &bytes);
    // What the killed one had fetched and not passed on yet, and what was on its way.
    let again = site.origin.sent() - bytes.len() as u64;
    assert!(again <= 32 * MIB as u64, "{again} bytes were fetched from the origin again");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_images_to_several_disks_at_once_are_fetched_from_the_origin_once_each() {
    let bytes = content(38, 12 * MIB);
    let site = Site::new(bytes.clone());
    let mut managers: Vec<_> = ["a", "b", "c", "d"].iter().map(|name| site.manager(name)).collect();
    let peers: Vec<_> = managers.iter().map(crate::images::fixture::Manager::peer).collect();
    for number in 1..=4_u8 {
        for (at, manager) in managers.iter_mut().enumerate() {
            if at + 1 == usize::from(number) {
                let request = wire::images::PullRequest { peers: peers.clone(), ..site.pull(number) };
                manager.calls.pull(request).await.unwrap();
            } else {
                manager.sync_with(number, peers.clone()).await.unwrap();
            }
        }
    }
    for manager in &mut managers {
        for number in 1..=4 {
            manager.until_downloaded(number).await;
            manager.assert_has(number, &bytes);
        }
    }
    let most = 4 * bytes.len() as u64 + 4 * MIB as u64;
    assert!(site.origin.sent() <= most, "{} bytes were asked of the origin", site.origin.sent());
}
