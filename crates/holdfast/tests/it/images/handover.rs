//! Managers of one disk that hand over to each other while both run.

use logic::images::FileState;
use tonic::Code;
use wire::images as api;

use crate::images::fixture::{MIB, Manager, Site, content, image, until};

async fn offered(manager: &mut Manager) -> Vec<api::Image> {
    let answer = manager.calls.ownership_transfer_start(api::OwnershipTransferStartRequest {}).await;
    answer.unwrap().into_inner().images
}

async fn confirm(manager: &mut Manager, images: Vec<api::Image>) -> Result<(), tonic::Status> {
    let request = api::OwnershipTransferConfirmRequest { images };
    manager.calls.ownership_transfer_confirm(request).await.map(|_| ())
}

async fn names(manager: &mut Manager) -> Vec<String> {
    let list = manager.calls.list(api::ListRequest {}).await.unwrap().into_inner();
    list.images.into_iter().filter_map(|image| image.image.map(|image| image.name)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn images_go_from_the_old_manager_to_the_new_one_and_no_file_is_touched() {
    let bytes = content(20, 3 * MIB);
    let site = Site::new(bytes.clone());
    let mut old = site.manager("a");
    old.calls.pull(site.pull(1)).await.unwrap();
    old.until_downloaded(1).await;
    let (inode, sent) = (old.inode(1), site.origin.sent());
    let mut new = site.start("a", &old.disk.clone(), &old.id.clone());
    assert!(names(&mut new).await.is_empty(), "the old one has them still");
    let images = offered(&mut old).await;
    assert_eq!(images.len(), 1);
    // While it is offered, nothing is begun with it.
    let refused = old.calls.delete(api::DeleteRequest { image: Some(image(1)) }).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    confirm(&mut new, images).await.unwrap();
    confirm(&mut old, vec![]).await.unwrap();
    assert!(names(&mut old).await.is_empty());
    assert_eq!(names(&mut new).await, ["image-1"]);
    new.until_downloaded(1).await;
    assert_eq!((new.inode(1), site.origin.sent()), (inode, sent));
    // Once more is refused: there is nothing on offer.
    assert_eq!(confirm(&mut old, vec![]).await.unwrap_err().code(), Code::FailedPrecondition);
    old.kill();
    new.assert_has(1, &bytes);
    assert_eq!(new.get(1).await.unwrap().state, FileState::Downloaded);
}

#[tokio::test(flavor = "multi_thread")]
async fn if_the_new_manager_dies_half_way_the_old_one_still_owns_everything() {
    let bytes = content(21, 2 * MIB);
    let site = Site::new(bytes.clone());
    let mut old = site.manager("a");
    old.calls.pull(site.pull(1)).await.unwrap();
    old.until_downloaded(1).await;
    // Before it took anything on, and after.
    for takes_on in [false, true] {
        let mut new = site.start("a", &old.disk.clone(), &old.id.clone());
        let images = offered(&mut old).await;
        if takes_on {
            confirm(&mut new, images).await.unwrap();
        }
        new.kill();
        assert_eq!(names(&mut old).await, ["image-1"]);
        assert_eq!(old.get(1).await.unwrap().state, FileState::Downloaded);
        old.assert_has(1, &bytes);
    }
    // And hands it over when the next one comes.
    let mut new = site.start("a", &old.disk.clone(), &old.id.clone());
    let images = offered(&mut old).await;
    confirm(&mut new, images).await.unwrap();
    confirm(&mut old, vec![]).await.unwrap();
    assert_eq!(names(&mut new).await, ["image-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn if_the_old_manager_dies_the_new_one_takes_up_what_it_left() {
    let bytes = content(22, 2 * MIB);
    let site = Site::new(bytes.clone());
    let mut old = site.manager("a");
    old.calls.pull(site.pull(1)).await.unwrap();
    old.until_downloaded(1).await;
    let mut new = site.start("a", &old.disk.clone(), &old.id.clone());
    assert!(names(&mut new).await.is_empty());
    old.kill();
    until("the images are taken up", async || names(&mut new).await == ["image-1"]).await;
    new.until_downloaded(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_being_fetched_is_not_offered_and_goes_on() {
    let bytes = content(23, 24 * MIB);
    let site = Site::new(bytes.clone());
    site.origin.set(|served| served.rate = 8 * MIB as u64);
    let mut old = site.manager("a");
    old.calls.pull(site.pull(1)).await.unwrap();
    old.until_partly(1, MIB).await;
    let mut new = site.start("a", &old.disk.clone(), &old.id.clone());
    assert!(offered(&mut old).await.is_empty());
    old.until_downloaded(1).await;
    assert_eq!(site.origin.sent(), bytes.len() as u64, "it was interrupted");
    let images = offered(&mut old).await;
    confirm(&mut new, images).await.unwrap();
    confirm(&mut old, vec![]).await.unwrap();
    new.until_downloaded(1).await;
    new.assert_has(1, &bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_image_is_handed_over_too_and_fetched_by_the_new_one() {
    let bytes = content(24, 4 * MIB);
    let site = Site::new(bytes.clone());
    let mut old = site.manager("a");
    old.calls
        .pull(api::PullRequest { checksum: crate::images::fixture::sha256(b"x"), ..site.pull(1) })
        .await
        .unwrap();
    old.until_failed(1).await;
    let mut new = site.start("a", &old.disk.clone(), &old.id.clone());
    let images = offered(&mut old).await;
    assert_eq!(images.len(), 1);
    confirm(&mut new, images).await.unwrap();
    confirm(&mut old, vec![]).await.unwrap();
    new.calls.pull(site.pull(1)).await.unwrap();
    new.until_downloaded(1).await;
    new.assert_has(1, &bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_that_runs_is_kept_and_handed_over_only_when_it_has_ended() {
    let bytes = content(25, 24 * MIB);
    let site = Site::with(bytes.clone(), &format!("bandwidth = {}", 8 * MIB));
    let mut old = site.manager("a");
    let mut receiver = site.manager("b");
    old.calls.pull(site.pull(1)).await.unwrap();
    old.until_downloaded(1).await;
    let inode = old.inode(1);
    receiver.sync(1, &[&old]).await;
    receiver.until_partly(1, MIB).await;
    let mut new = site.start("a", &old.disk.clone(), &old.id.clone());
    assert!(offered(&mut old).await.is_empty(), "it is being sent");
    receiver.until_downloaded(1).await;
    receiver.assert_has(1, &bytes);
    let mut images = vec![];
    until("the image is offered", async || {
        images = offered(&mut old).await;
        !images.is_empty()
    })
    .await;
    confirm(&mut new, images).await.unwrap();
    confirm(&mut old, vec![]).await.unwrap();
    assert_eq!(new.inode(1), inode);
    // The new one sends it on.
    let mut third = site.manager("c");
    third.sync(1, &[&new]).await;
    third.until_downloaded(1).await;
    third.assert_has(1, &bytes);
}
