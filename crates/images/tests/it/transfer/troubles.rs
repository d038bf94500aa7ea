//! Links that break, freeze and lie, disks that rot, peers that disagree.

use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

use images::file::{ImageFile, Validators};
use images::transfer::ReceiveError;

use crate::support::{Image, fill};
use crate::transfer::site::{Site, Trouble};
use crate::transfer::{MIB, is_downloaded};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_that_break_again_and_again_lose_nothing() {
    let (site, image) = (Site::of(2), Image::of(16 * MIB));
    fill(&site.managers[0].file, &image);
    site.is_in_trouble(0, Trouble::Breaks(5 << 20));
    site.receives(1, site.peers()).ends().await.unwrap();
    is_downloaded(&site, 1, &image);
    let sent = site.managers[0].sent.load(Ordering::Relaxed);
    assert!(sent < image.size() * 3 / 2, "{sent} bytes for {}", image.size());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bit_flipped_on_the_wire_is_noticed_and_its_sender_avoided() {
    let (site, image) = (Site::of(3), Image::of(16 * MIB));
    fill(&site.managers[0].file, &image);
    fill(&site.managers[1].file, &image);
    site.is_in_trouble(0, Trouble::Flips(2 << 20));
    site.receives(2, site.peers()).ends().await.unwrap();
    is_downloaded(&site, 2, &image);
    assert_eq!(site.managers[0].dialled.load(Ordering::Relaxed), 1);
    // Its own copy is good: it was looked at, and stays.
    assert!(site.managers[0].file.filled_now().downloaded);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bit_flipped_on_a_senders_disk_is_noticed_there_too() {
    let (site, image) = (Site::of(3), Image::of(8 * MIB));
    fill(&site.managers[0].file, &image);
    fill(&site.managers[1].file, &image);
    flip(&site.managers[0].file, image.start(40) + 7);
    // From the damaged one alone all but that chunk comes.
    let damaged = vec![site.peers()[0].clone()];
    let receiving = site.receives(2, damaged);
    let mut own = site.managers[0].file.filled();
    own.wait_for(|filled| !filled.downloaded).await.unwrap();
    assert_eq!(site.managers[0].file.filled_now().held, image.chunks.len() - 1);
    receiving.peers.send(site.peers()).unwrap();
    receiving.ends().await.unwrap();
    is_downloaded(&site, 2, &image);
    // And the damaged one is repaired with one piece.
    let before = site.managers[1].sent.load(Ordering::Relaxed);
    site.receives(0, vec![site.peers()[1].clone()]).ends().await.unwrap();
    is_downloaded(&site, 0, &image);
    let repair = site.managers[1].sent.load(Ordering::Relaxed) - before;
    assert!(repair < 512 << 10, "{repair} bytes for one chunk");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_peer_is_left_alone_and_others_finish() {
    let (site, image) = (Site::of(3), Image::of(16 * MIB));
    fill(&site.managers[0].file, &image);
    fill(&site.managers[1].file, &image);
    site.is_in_trouble(0, Trouble::Freezes(3 << 20));
    site.receives(2, site.peers()).ends().await.unwrap();
    is_downloaded(&site, 2, &image);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_froze_and_thawed_is_asked_again() {
    let (site, image) = (Site::of(2), Image::of(16 * MIB));
    fill(&site.managers[0].file, &image);
    site.is_in_trouble(0, Trouble::Absent);
    let receiving = site.receives(1, site.peers());
    while site.managers[0].dialled.load(Ordering::Relaxed) < 3 {
        tokio::task::yield_now().await;
    }
    *site.managers[0].trouble.lock().unwrap() = None;
    receiving.ends().await.unwrap();
    is_downloaded(&site, 1, &image);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_does_no_harm() {
    let (site, image) = (Site::of(3), Image::of(4 * MIB));
    fill(&site.managers[0].file, &image);
    fill(&site.managers[1].file, &image);
    site.is_in_trouble(0, Trouble::Garbage);
    site.receives(2, site.peers()).ends().await.unwrap();
    is_downloaded(&site, 2, &image);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn among_many_a_few_bad_ones_stop_nobody() {
    let (site, image) = (Site::of(10), Image::of(24 * MIB));
    fill(&site.managers[0].file, &image);
    site.is_in_trouble(3, Trouble::Flips(1 << 20));
    site.is_in_trouble(4, Trouble::Breaks(2 << 20));
    site.is_in_trouble(5, Trouble::Freezes(1 << 20));
    site.is_in_trouble(6, Trouble::Garbage);
    let receiving: Vec<_> = (1..10).map(|at| site.receives(at, site.peers())).collect();
    for receiving in receiving {
        receiving.ends().await.unwrap();
    }
    (1..10).for_each(|at| is_downloaded(&site, at, &image));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_does_not_add_up_to_what_the_site_knows_is_thrown_away_and_others_asked() {
    let (site, image, other) = (Site::of(3), Image::of(6 * MIB), Image::seeded(6 * MIB, 2));
    fill(&site.managers[0].file, &other);
    fill(&site.managers[1].file, &image);
    let file = &site.managers[2].file;
    file.set_seal(image.seal()).unwrap();
    let receiving = site.receives(2, vec![site.peers()[0].clone()]);
    file.filled().wait_for(|filled| filled.generation > 0).await.unwrap();
    receiving.peers.send(site.peers()).unwrap();
    receiving.ends().await.unwrap();
    is_downloaded(&site, 2, &image);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_whose_list_contradicts_is_left_alone() {
    let (site, image, other) = (Site::of(3), Image::of(6 * MIB), Image::seeded(6 * MIB, 2));
    fill(&site.managers[0].file, &image);
    fill(&site.managers[1].file, &other);
    site.managers[2].file.extend(0, 0, &image.chunks[..20], None, &Validators::default()).unwrap();
    site.receives(2, site.peers()).ends().await.unwrap();
    is_downloaded(&site, 2, &image);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_ends_it_with_the_reason_and_what_came_stays() {
    let (site, image) = (Site::of(2), Image::of(2 * MIB));
    fill(&site.managers[0].file, &image);
    let place = crate::support::Place::with_reserve(u64::MAX / 2);
    let limits = site.managers[1].limits.clone();
    let (_peers, told) = tokio::sync::watch::channel(site.peers());
    let (sources, _) = tokio::sync::watch::channel(vec![]);
    let what = images::transfer::Receive {
        peers: told,
        dial: site.dialler(1),
        follow: true,
        sources,
        elsewhere: None,
    };
    let cancelled = tokio_util::sync::CancellationToken::new();
    let ended = images::transfer::receive(&place.open(), what, &limits, cancelled).await;
    let Err(ReceiveError::File(error)) = ended else { panic!("{ended:?}") };
    assert!(error.is_out_of_space(), "{error}");
}

/// As the disk does it: nobody is told.
fn flip(file: &ImageFile, at: u64) {
    let data = std::fs::OpenOptions::new().read(true).write(true).open(file.path()).unwrap();
    let times = data.metadata().unwrap().modified().unwrap();
    let mut byte = [0];
    data.read_exact_at(&mut byte, at).unwrap();
    data.write_all_at(&[byte[0] ^ 1], at).unwrap();
    data.set_modified(times).unwrap();
}
