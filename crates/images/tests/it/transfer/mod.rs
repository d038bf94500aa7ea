//! Images between managers of one process, with everything that can go wrong on the way.

mod growing;
mod site;
mod troubles;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::{Image, fill};
use images::transfer::{ReceiveError, Refused, SendError};
use site::Site;

pub const MIB: usize = 1 << 20;

pub fn is_downloaded(site: &Site, at: usize, image: &Image) {
    let file = &site.managers[at].file;
    assert!(file.filled_now().downloaded, "{at}: {:?}", file.filled_now());
    assert!(std::fs::read(file.path()).unwrap() == image.content, "{at} has other bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_comes_from_one_peer() {
    let (site, image) = (Site::of(2), Image::of(20 * MIB + 12_345));
    fill(&site.managers[0].file, &image);
    site.receives(1, site.peers()).ends().await.unwrap();
    is_downloaded(&site, 1, &image);
    assert_eq!(site.managers[1].file.seal(), Some(image.seal()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_image_of_one_chunk_comes_too() {
    let (site, image) = (Site::of(2), Image::of(1));
    fill(&site.managers[0].file, &image);
    site.receives(1, site.peers()).ends().await.unwrap();
    is_downloaded(&site, 1, &image);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_receive_at_once_and_nobody_sends_to_more_than_three() {
    let (site, image) = (Site::of(17), Image::of(12 * MIB));
    fill(&site.managers[0].file, &image);
    let watched = Arc::clone(&site);
    let watching = tokio::spawn(async move {
        let mut most = 0;
        loop {
            let sending = watched.managers.iter().map(|manager| manager.sends.sending(manager.file.id()));
            most = most.max(sending.max().unwrap());
            assert!(most <= 3, "{most} sends at once");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    let receiving: Vec<_> = (1..17).map(|at| site.receives(at, site.peers())).collect();
    for receiving in receiving {
        receiving.ends().await.unwrap();
    }
    assert!(!watching.is_finished());
    watching.abort();
    (1..17).for_each(|at| is_downloaded(&site, at, &image));
    // It was passed on: the first one did not send it to everybody.
    let first = site.managers[0].sent.load(Ordering::Relaxed);
    assert!(first < 10 * image.size(), "the first sent {first} bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_here_already_is_not_sent_again() {
    let (site, image) = (Site::of(2), Image::of(24 * MIB));
    fill(&site.managers[0].file, &image);
    let file = &site.managers[1].file;
    let none = images::file::Validators::default();
    file.extend(0, 0, &image.chunks, Some(image.size()), &none).unwrap();
    let half = image.chunks.len() / 2;
    file.put(0, image.bytes(0..half)).unwrap();
    let missing = image.size() - image.start(half);
    site.receives(1, site.peers()).ends().await.unwrap();
    is_downloaded(&site, 1, &image);
    let sent = site.managers[0].sent.load(Ordering::Relaxed);
    assert!(sent < missing + 300_000, "{sent} bytes were sent, {missing} were missing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_receiver_that_was_stopped_goes_on_from_there() {
    let (site, image) = (Site::of(2), Image::of(48 * MIB));
    fill(&site.managers[0].file, &image);
    let receiving = site.receives(1, site.peers());
    let mut filled = site.managers[1].file.filled();
    filled.wait_for(|filled| filled.bytes > 10 << 20).await.unwrap();
    receiving.cancel.cancel();
    assert!(matches!(receiving.ends().await, Err(ReceiveError::Cancelled)));
    site.receives(1, site.peers()).ends().await.unwrap();
    is_downloaded(&site, 1, &image);
    let sent = site.managers[0].sent.load(Ordering::Relaxed);
    assert!(sent < image.size() + (8 << 20), "{sent} bytes were sent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peers_that_come_later_are_asked_too() {
    let (site, image) = (Site::of(2), Image::of(4 * MIB));
    fill(&site.managers[0].file, &image);
    let receiving = site.receives(1, vec![]);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!site.managers[1].file.filled_now().downloaded);
    receiving.peers.send(site.peers()).unwrap();
    receiving.ends().await.unwrap();
    is_downloaded(&site, 1, &image);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_an_image_is_on_offer_nothing_of_it_is_sent() {
    let (site, image) = (Site::of(2), Image::of(4 * MIB));
    fill(&site.managers[0].file, &image);
    let sender = &site.managers[0];
    sender.sends.pause(sender.file.id(), true);
    assert_eq!(sender.sends.ticket(&sender.file, site.managers[1].place.disk.id()), Err(Refused::Paused));
    let receiving = site.receives(1, site.peers());
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(site.managers[1].file.filled_now().bytes, 0);
    sender.sends.pause(sender.file.id(), false);
    receiving.ends().await.unwrap();
    is_downloaded(&site, 1, &image);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_that_were_stopped_come_back_when_they_may() {
    let (site, image) = (Site::of(2), Image::of(64 * MIB));
    fill(&site.managers[0].file, &image);
    let sender = &site.managers[0];
    let receiving = site.receives(1, site.peers());
    site.managers[1].file.filled().wait_for(|filled| filled.bytes > 0).await.unwrap();
    sender.sends.stop(sender.file.id());
    assert_eq!(sender.sends.sending(sender.file.id()), 0);
    receiving.ends().await.unwrap();
    is_downloaded(&site, 1, &image);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ticket_is_good_once_and_for_one_receiver() {
    let (site, image) = (Site::of(3), Image::of(MIB));
    fill(&site.managers[0].file, &image);
    let sender = &site.managers[0];
    let [one, other] = [1, 2].map(|at| site.managers[at].place.disk.id().clone());
    let hello = |ticket: [u8; 32]| {
        let mut frame = vec![85, 0, 0, 0, 1, 1];
        frame.extend(ticket);
        frame.extend([0; 52]);
        frame
    };
    let ticket = sender.sends.ticket(&sender.file, &one).unwrap();
    // The receiver goes away as soon as it has said what it wants.
    let stream = || tokio::io::join(std::io::Cursor::new(hello(ticket)), tokio::io::sink());
    assert!(matches!(sender.sends.serve(stream(), &other).await, Err(SendError::Ticket)));
    assert!(matches!(sender.sends.serve(stream(), &one).await, Err(SendError::Io(_))));
    assert!(matches!(sender.sends.serve(stream(), &one).await, Err(SendError::Ticket)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_links_than_allowed_are_promised() {
    let (site, image) = (Site::of(2), Image::of(MIB));
    fill(&site.managers[0].file, &image);
    let sender = &site.managers[0];
    let receiver = site.managers[1].place.disk.id();
    for _ in 0..sender.limits.links {
        sender.sends.ticket(&sender.file, receiver).unwrap();
    }
    assert_eq!(sender.sends.ticket(&sender.file, receiver), Err(Refused::Busy));
}
