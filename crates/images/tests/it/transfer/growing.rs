//! Images that are still being pulled: the list grows, others follow it, and pullers change.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use images::file::{ImageFile, Validators};

use crate::support::Image;
use crate::transfer::site::Site;
use crate::transfer::{MIB, is_downloaded};

/// As the one who pulls does it, a few chunks at a time.
async fn pull(file: &Arc<ImageFile>, image: &Image, from: usize, to: usize) {
    for at in (from..to).step_by(7) {
        let end = (at + 7).min(to);
        file.append(at, &image.chunks[at..end], image.bytes(at..end)).unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn seal(file: &Arc<ImageFile>, image: &Image) {
    file.set_seal(image.seal()).unwrap();
    file.finish().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_are_close_behind_a_pull_and_done_only_when_it_is_sealed() {
    let (site, image) = (Site::of(5), Image::of(24 * MIB));
    let receiving: Vec<_> = (1..5).map(|at| site.receives(at, site.peers())).collect();
    let file = &site.managers[0].file;
    let all = image.chunks.len();
    pull(file, &image, 0, all).await;
    // All that is listed is with everybody, except for the last piece, which might still grow.
    for at in 1..5 {
        let mut filled = site.managers[at].file.filled();
        filled.wait_for(|filled| filled.held >= all / 16 * 16).await.unwrap();
        assert!(!filled.borrow().downloaded);
    }
    seal(file, &image);
    for receiving in receiving {
        receiving.ends().await.unwrap();
    }
    (1..5).for_each(|at| is_downloaded(&site, at, &image));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_puller_dies_another_adopts_the_longest_list_and_only_pulls_the_rest() {
    let (site, image) = (Site::of(4), Image::of(24 * MIB));
    let validators = Validators { etag: Some("\"v1\"".into()), last_modified: None };
    let half = image.chunks.len() / 2;
    let first = &site.managers[0].file;
    first.set_about(Some(image.size()), &validators).unwrap();
    let receiving: Vec<_> = (2..4).map(|at| site.receives(at, site.peers())).collect();
    pull(first, &image, 0, half).await;
    for at in 2..4 {
        let there = |filled: &images::file::Filled| filled.listed == half && filled.held >= half / 16 * 16;
        site.managers[at].file.filled().wait_for(there).await.unwrap();
    }
    // The first is gone, with all that it had.
    site.is_in_trouble(0, crate::transfer::site::Trouble::Absent);
    site.managers[0].sends.stop_all();
    let next = &site.managers[1].file;
    site.adopts(1).await;
    assert_eq!(next.filled_now().listed, half);
    assert_eq!(next.filled_now().total, Some(image.size()));
    assert_eq!(next.validators(), validators);
    // What the site has comes from the site.
    let beside = site.receives_as(1, site.peers(), false);
    next.filled().wait_for(|filled| filled.held >= half / 16 * 16).await.unwrap();
    let missing: Vec<usize> =
        next.with(|_, held, _| (0..half).filter(|at| !held.contains(*at)).collect()).unwrap();
    for at in missing {
        next.put(at, image.bytes(at..at + 1)).unwrap();
    }
    pull(next, &image, half, image.chunks.len()).await;
    seal(next, &image);
    beside.ends().await.unwrap();
    for receiving in receiving {
        receiving.ends().await.unwrap();
    }
    (1..4).for_each(|at| is_downloaded(&site, at, &image));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_a_pull_the_list_is_never_taken_from_others() {
    let (site, image) = (Site::of(2), Image::of(8 * MIB));
    crate::support::fill(&site.managers[0].file, &image);
    let file = &site.managers[1].file;
    file.extend(0, 0, &image.chunks[..48], None, &Validators::default()).unwrap();
    let beside = site.receives_as(1, site.peers(), false);
    file.filled().wait_for(|filled| filled.held == 48).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(file.filled_now().listed, 48);
    assert!(!file.filled_now().sealed);
    beside.cancel.cancel();
    let _ = beside.ends().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_origin_changed_everybody_begins_again() {
    let (site, old, new) = (Site::of(4), Image::of(12 * MIB), Image::seeded(16 * MIB, 2));
    let receiving: Vec<_> = (1..4).map(|at| site.receives(at, site.peers())).collect();
    let file = &site.managers[0].file;
    pull(file, &old, 0, old.chunks.len() / 2).await;
    for at in 1..4 {
        site.managers[at].file.filled().wait_for(|filled| filled.held > 16).await.unwrap();
    }
    file.restart().unwrap();
    pull(file, &new, 0, new.chunks.len()).await;
    seal(file, &new);
    for receiving in receiving {
        receiving.ends().await.unwrap();
    }
    (1..4).for_each(|at| is_downloaded(&site, at, &new));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_thrown_away_here_can_be_had_again_from_those_who_did_not() {
    let (site, image) = (Site::of(2), Image::of(4 * MIB));
    crate::support::fill(&site.managers[0].file, &image);
    site.receives(1, site.peers()).ends().await.unwrap();
    site.managers[1].file.discard().unwrap();
    assert!(!site.managers[1].file.filled_now().downloaded);
    site.receives(1, site.peers()).ends().await.unwrap();
    is_downloaded(&site, 1, &image);
    assert!(site.managers[0].sent.load(Ordering::Relaxed) > 2 * image.size());
}
