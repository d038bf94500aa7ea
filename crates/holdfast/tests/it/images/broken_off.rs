//! Calls that are given up in the middle: what came is not all, and must not be taken for it.

use std::fs;
use std::process::Command;

use futures_util::{StreamExt as _, stream};
use logic::images::FileState;
use wire::images::{self as api, upload_request, volume_restore_request};

use crate::images::fixture::{MIB, Site, content, image, until};

fn upload(part: upload_request::Part) -> api::UploadRequest {
    api::UploadRequest { part: Some(part) }
}

fn restore(part: volume_restore_request::Part) -> api::VolumeRestoreRequest {
    api::VolumeRestoreRequest { part: Some(part) }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_is_given_up_does_not_become_an_image() {
    // So slow that messages wait.
    let site = Site::with(vec![], &format!("bandwidth = {}", MIB / 2));
    let mut manager = site.manager("a");
    let bytes = content(13, 4 * MIB);
    // While the manager waits for more, and while more waits for the manager.
    for (number, length) in [(1, MIB / 4), (2, bytes.len())] {
        let header = api::UploadHeader { image: Some(image(number)), ..api::UploadHeader::default() };
        let mut parts = vec![upload(upload_request::Part::Header(header))];
        let data = bytes[..length].chunks(64 << 10);
        parts.extend(data.map(|data| upload(upload_request::Part::Data(data.to_vec().into()))));
        let mut calls = manager.calls.clone();
        let call = tokio::spawn(async move {
            let _ = calls.upload(stream::iter(parts).chain(stream::pending())).await;
        });
        manager.until(number, "begun", |status| status.bytes > 0).await;
        call.abort();
        let status = manager
            .until(number, "ended", |status| {
                matches!(status.state, FileState::Failed | FileState::Downloaded)
            })
            .await;
        assert_eq!(status.state, FileState::Failed, "half of it became the image");
        assert!(!manager.dir(number).join("backing").exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_of_unknown_length_is_whole_when_its_end_was_said() {
    let bytes = content(14, MIB + 5);
    let site = Site::new(vec![]);
    let mut manager = site.manager("a");
    let header = api::UploadHeader { image: Some(image(1)), ..api::UploadHeader::default() };
    let mut parts = vec![upload(upload_request::Part::Header(header))];
    parts.extend(bytes.chunks(MIB / 4).map(|data| upload(upload_request::Part::Data(data.to_vec().into()))));
    let unsaid = manager.calls.upload(stream::iter(parts.clone())).await.unwrap_err();
    assert!(unsaid.message().contains("broke off"), "{unsaid}");
    parts.push(upload(upload_request::Part::Data(bytes::Bytes::new())));
    manager.calls.upload(stream::iter(parts)).await.unwrap();
    manager.assert_has(1, &bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_is_given_up_leaves_no_volume() {
    let site = Site::new(content(15, MIB));
    let mut manager = site.manager("a");
    manager.calls.pull(site.pull(1)).await.unwrap();
    manager.until_downloaded(1).await;
    let overlay = site.root.join("overlay");
    let made =
        Command::new("qemu-img").args(["create", "-q", "-f", "qcow2"]).arg(&overlay).arg("1M").status();
    assert!(made.unwrap().success());
    let overlay = fs::read(overlay).unwrap();
    let header = api::VolumeCreateRequest { name: "root".to_owned(), image: Some(image(1)), size: None };
    let mut parts = vec![restore(volume_restore_request::Part::Header(header))];
    parts.extend(
        overlay
            .chunks(64 << 10)
            .map(|data| restore(volume_restore_request::Part::Data(data.to_vec().into()))),
    );
    let (mut calls, sent) = (manager.calls.clone(), parts.clone());
    let call = tokio::spawn(async move {
        let _ = calls.volume_restore(stream::iter(sent).chain(stream::pending())).await;
    });
    let (unfinished, whole) = (manager.disk.join("volumes/.root"), manager.disk.join("volumes/root"));
    until("all of it has come", async || {
        let there = fs::metadata(unfinished.join("volume.qcow2")).map(|file| file.len());
        there.is_ok_and(|there| there == overlay.len() as u64)
    })
    .await;
    call.abort();
    until("what came is removed", async || !unfinished.exists()).await;
    assert!(!whole.exists(), "what was given up became a volume");
    parts.push(restore(volume_restore_request::Part::Data(bytes::Bytes::new())));
    manager.calls.volume_restore(stream::iter(parts)).await.unwrap();
    assert!(whole.exists());
}
