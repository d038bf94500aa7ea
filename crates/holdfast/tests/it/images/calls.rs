//! One manager and its calls.

use std::fs;
use std::os::unix::fs::FileExt;

use images::dial::Dialler;
use images::identity::{Authority, Role};
use logic::images::FileState;
use tokio::sync::watch;
use tonic::Code;
use wire::images::{self as api, ImageRef};

use crate::images::fixture::{MIB, Site, content, image, sha256, until};

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_pulled_verified_and_shown_with_all_that_is_known() {
    let bytes = content(1, 5 * MIB + 123);
    let site = Site::new(bytes.clone());
    let mut manager = site.manager("a");
    let request = api::PullRequest { checksum: sha256(&bytes), ..site.pull(1) };
    manager.calls.pull(request).await.unwrap();
    let status = manager.until_downloaded(1).await;
    manager.assert_has(1, &bytes);
    let seal = status.seal.unwrap();
    assert_eq!((seal.size, seal.sha256), (bytes.len() as u64, sha256(&bytes)));
    assert_eq!((status.size, status.bytes), (Some(bytes.len() as u64), bytes.len() as u64));
    assert_eq!(status.virtual_size, Some(bytes.len() as u64));
    assert!(status.real_size >= bytes.len() as u64);
    let list = manager.calls.list(api::ListRequest {}).await.unwrap().into_inner();
    assert_eq!(list.images.len(), 1);
    assert!(list.disk_free > 0 && list.disk_size >= list.disk_free);
    let version = manager.calls.version_get(api::VersionGetRequest {}).await.unwrap().into_inner();
    assert_eq!((version.api_version, version.api_min_version), (wire::API_VERSION, wire::API_MIN_VERSION));
    assert_eq!(version.disk, manager.id.to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_fifty_equal_calls_one_wins_and_the_others_are_told_so() {
    let bytes = content(2, 8 * MIB);
    let site = Site::new(bytes.clone());
    // Slow, so that it is still being pulled when the last call comes.
    site.origin.set(|served| served.rate = 4 * MIB as u64);
    let mut manager = site.manager("a");
    let calls = (0..50).map(|_| {
        let (mut calls, request) = (manager.calls.clone(), site.pull(1));
        tokio::spawn(async move { calls.pull(request).await })
    });
    let mut won = 0;
    for call in calls.collect::<Vec<_>>() {
        match call.await.unwrap() {
            Ok(_) => won += 1,
            Err(status) => assert_eq!(status.code(), Code::AlreadyExists, "{status}"),
        }
    }
    assert_eq!(won, 1);
    manager.until_downloaded(1).await;
    manager.assert_has(1, &bytes);
    assert_eq!(site.origin.sent(), bytes.len() as u64);
    let again = manager.calls.pull(site.pull(1)).await.unwrap_err();
    assert_eq!((again.code(), again.message()), (Code::AlreadyExists, "image-1 is downloaded"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_checksum_fails_with_both_values_keeps_nothing_and_can_be_tried_again() {
    let bytes = content(3, 2 * MIB);
    let site = Site::new(bytes.clone());
    let mut manager = site.manager("a");
    let wrong = sha256(b"something else");
    manager.calls.pull(api::PullRequest { checksum: wrong.clone(), ..site.pull(1) }).await.unwrap();
    let status = manager.until_failed(1).await;
    assert!(status.reason.contains(&wrong) && status.reason.contains(&sha256(&bytes)), "{}", status.reason);
    assert_eq!(status.bytes, 0);
    assert!(!manager.dir(1).join("backing").exists());
    manager.calls.pull(api::PullRequest { checksum: sha256(&bytes), ..site.pull(1) }).await.unwrap();
    manager.until_downloaded(1).await;
    manager.assert_has(1, &bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_meant_is_refused_before_anything_begins() {
    let site = Site::new(content(4, MIB));
    let mut manager = site.manager("a");
    let refused =
        async |calls: &mut wire::images::image_manager_client::ImageManagerClient<_>,
               request: api::PullRequest| { calls.pull(request).await.unwrap_err() };
    let nameless = api::PullRequest { image: None, ..site.pull(1) };
    assert_eq!(refused(&mut manager.calls, nameless).await.code(), Code::InvalidArgument);
    let away = ImageRef { name: "../../etc".into(), uuid: image(1).uuid };
    let away = api::PullRequest { image: Some(away), ..site.pull(1) };
    assert_eq!(refused(&mut manager.calls, away).await.code(), Code::InvalidArgument);
    let odd = api::PullRequest { checksum: "md5:0".into(), ..site.pull(1) };
    assert_eq!(refused(&mut manager.calls, odd).await.code(), Code::InvalidArgument);
    let gopher = api::PullRequest { url: "gopher://example.com/x".into(), ..site.pull(1) };
    assert_eq!(refused(&mut manager.calls, gopher).await.code(), Code::InvalidArgument);
    assert!(manager.calls.list(api::ListRequest {}).await.unwrap().into_inner().images.is_empty());
    let unknown = api::DeleteRequest { image: Some(image(1)) };
    assert_eq!(manager.calls.delete(unknown).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_image_of_the_same_name_has_to_be_deleted_first() {
    let bytes = content(5, MIB);
    let site = Site::new(bytes.clone());
    let mut manager = site.manager("a");
    manager.calls.pull(site.pull(1)).await.unwrap();
    manager.until_downloaded(1).await;
    let next = ImageRef { name: image(1).name, uuid: image(2).uuid };
    let request = api::PullRequest { image: Some(next.clone()), ..site.pull(1) };
    let refused = manager.calls.pull(request.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("delete image-1 from this disk first"), "{}", refused.message());
    manager.calls.delete(api::DeleteRequest { image: Some(image(1)) }).await.unwrap();
    assert!(!manager.dir(1).exists());
    manager.calls.pull(request).await.unwrap();
    let status = manager.until_downloaded(1).await;
    assert_eq!(status.uuid.to_string(), next.uuid);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_being_pulled_can_be_deleted() {
    let site = Site::new(content(6, 32 * MIB));
    site.origin.set(|served| served.rate = 4 * MIB as u64);
    let mut manager = site.manager("a");
    manager.calls.pull(site.pull(1)).await.unwrap();
    manager.until_partly(1, MIB).await;
    manager.calls.delete(api::DeleteRequest { image: Some(image(1)) }).await.unwrap();
    assert!(!manager.dir(1).exists());
    assert!(manager.get(1).await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_hears_of_changes_and_of_the_files_end() {
    let bytes = content(7, 4 * MIB);
    let site = Site::new(bytes.clone());
    let mut manager = site.manager("a");
    let mut watch = manager.calls.watch(api::WatchRequest {}).await.unwrap().into_inner();
    watch.message().await.unwrap().unwrap();
    manager.calls.pull(site.pull(1)).await.unwrap();
    watch.message().await.unwrap().unwrap();
    manager.until_downloaded(1).await;
    // A file that is gone is noticed, said, and fetched again when told.
    fs::remove_file(manager.dir(1).join("backing")).unwrap();
    let status = manager.until(1, "failed", |status| status.state == FileState::Failed).await;
    assert!(status.reason.contains("gone"), "{}", status.reason);
    manager.calls.pull(site.pull(1)).await.unwrap();
    manager.until_downloaded(1).await;
    manager.assert_has(1, &bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bit_flipped_in_a_ready_file_costs_the_bad_chunk_only() {
    let bytes = content(8, 8 * MIB);
    let site = Site::new(bytes.clone());
    let mut manager = site.manager("a");
    manager.calls.pull(site.pull(1)).await.unwrap();
    manager.until_downloaded(1).await;
    let sent = site.origin.sent();
    let file = fs::OpenOptions::new().write(true).open(manager.dir(1).join("backing")).unwrap();
    file.write_all_at(&[bytes[5 * MIB] ^ 1], 5 * MIB as u64).unwrap();
    let status = manager.until(1, "failed", |status| status.state == FileState::Failed).await;
    assert!(status.reason.contains("changed"), "{}", status.reason);
    assert!(status.bytes > 7 * MIB as u64);
    manager.calls.pull(site.pull(1)).await.unwrap();
    manager.until_downloaded(1).await;
    manager.assert_has(1, &bytes);
    assert!(
        site.origin.sent() - sent <= MIB as u64,
        "{} bytes were fetched again",
        site.origin.sent() - sent
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_call_what_is_in_the_certificate() {
    let bytes = content(9, MIB);
    let site = Site::new(bytes);
    let mut manager = site.manager("a");
    let identity = |authority: &Authority, role: Role| {
        Dialler::new(watch::channel(std::sync::Arc::new(authority.identity(&role, &[]).unwrap())).1)
    };
    let other = site.manager("b");
    let peer = identity(&site.authority, Role::Manager(other.id.clone()));
    let mut calls = peer.calls(&manager.id, &manager.serving.address).unwrap();
    let refused = calls.pull(site.pull(1)).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert!(refused.message().contains("may not call Pull"), "{}", refused.message());
    assert_eq!(calls.list(api::ListRequest {}).await.unwrap_err().code(), Code::PermissionDenied);
    calls.version_get(api::VersionGetRequest {}).await.unwrap();
    // Nobody asks in somebody else's name.
    let send = api::SendRequest { image: Some(image(1)), receiver: manager.id.to_string() };
    assert_eq!(calls.send(send).await.unwrap_err().code(), Code::PermissionDenied);
    // A controller of another site is nobody here.
    let stranger = Authority::open(&site.root.join("stranger")).unwrap();
    let mut calls =
        identity(&stranger, Role::Controller).calls(&manager.id, &manager.serving.address).unwrap();
    assert!(calls.version_get(api::VersionGetRequest {}).await.is_err());
    assert!(manager.calls.list(api::ListRequest {}).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_exchanged_is_not_touched() {
    let bytes = content(10, MIB);
    let site = Site::new(bytes);
    let mut manager = site.manager("a");
    manager.calls.pull(site.pull(1)).await.unwrap();
    manager.until_downloaded(1).await;
    // Somebody puts another disk in its place.
    let (away, other) = (site.root.join("away"), manager.disk.clone());
    fs::rename(&other, &away).unwrap();
    let other_id = images::file::DiskDir::init(&other).unwrap();
    let refused = manager.calls.pull(site.pull(2)).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert!(refused.message().contains(other_id.as_str()), "{}", refused.message());
    let status = manager.until(1, "unknown", |status| status.state == FileState::Unknown).await;
    assert!(status.reason.contains("nothing on it was touched"), "{}", status.reason);
    assert_eq!(fs::read_dir(&other).unwrap().count(), 1);
    // Back again, all is as it was.
    fs::remove_dir_all(&other).unwrap();
    fs::rename(&away, &other).unwrap();
    manager.until_downloaded(1).await;
    // A manager is not started on a disk that its certificate is not for.
    manager.kill();
    fs::rename(&other, &away).unwrap();
    images::file::DiskDir::init(&other).unwrap();
    let output = site.command("a", &other).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&output.stderr).contains("hint: mount the right disk"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_uploaded_and_read_back() {
    let bytes = content(11, 3 * MIB + 77);
    let site = Site::new(vec![]);
    let mut manager = site.manager("a");
    let header = api::UploadHeader {
        image: Some(image(1)),
        checksum: sha256(&bytes),
        format: "raw".into(),
        size: Some(bytes.len() as u64),
    };
    let part = |part| api::UploadRequest { part: Some(part) };
    let mut parts = vec![part(api::upload_request::Part::Header(header.clone()))];
    parts.extend(bytes.chunks(MIB).map(|data| part(api::upload_request::Part::Data(data.to_vec().into()))));
    // One that breaks off is failed, and no obstacle to the next.
    let cut = futures_util::stream::iter(parts[..2].to_vec());
    let refused = manager.calls.upload(cut).await.unwrap_err();
    assert_eq!(refused.code(), Code::DataLoss, "{refused}");
    let done = manager.calls.upload(futures_util::stream::iter(parts)).await.unwrap().into_inner();
    assert_eq!(done.state, "downloaded");
    manager.assert_has(1, &bytes);
    let request = api::ReadRequest { what: Some(api::read_request::What::Image(image(1))), offset: 1000 };
    let mut stream = manager.calls.read(request).await.unwrap().into_inner();
    let mut read = Vec::new();
    while let Some(data) = stream.message().await.unwrap() {
        read.extend_from_slice(&data.data);
    }
    assert!(read == bytes[1000..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manager_that_is_told_to_stop_keeps_what_it_has_and_ends_well() {
    let bytes = content(12, 64 * MIB);
    let site = Site::new(bytes.clone());
    site.origin.set(|served| served.rate = 16 * MIB as u64);
    let mut manager = site.manager("a");
    manager.calls.pull(site.pull(1)).await.unwrap();
    manager.until_partly(1, 20 * MIB).await;
    manager.signal(rustix::process::Signal::TERM);
    assert!(manager.ended().success(), "{}", site.log("a"));
    let mut manager = site.start("a", &manager.disk.clone(), &manager.id.clone());
    let status = manager.get(1).await.unwrap();
    // Nothing is begun by itself: the controllers know what they want.
    assert_eq!(status.state, FileState::Pending);
    assert!(status.bytes >= 20 * MIB as u64, "{}", status.bytes);
    site.origin.set(|served| served.rate = 0);
    manager.calls.pull(site.pull(1)).await.unwrap();
    manager.until_downloaded(1).await;
    manager.assert_has(1, &bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_ends_with_whoever_started_it() {
    let site = Site::new(vec![1]);
    let mut manager = site.manager("a");
    manager.close_stdin();
    until("the manager ended", async || !manager.is_running()).await;
    assert!(manager.ended().success());
}
