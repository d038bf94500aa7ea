//! Volumes through the commands and through a manager's calls: on other images, on exchanged disks, damaged.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tonic::Code;
use wire::images as api;

use crate::images::cli::{Served, text};
use crate::images::fixture::{HOLDFAST, MIB, Site, content, image, sha256};
use crate::images::running::{Far, backing, is_downloaded, kill_the_service};

pub fn volume(site: &Served, arguments: &[&str]) -> String {
    let mut command = Command::new(HOLDFAST);
    command.arg("--config").arg(&site.config).arg("volume").args(arguments);
    let done = command.env("HOLDFAST_SERVER", &site.address).output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", text(&done.stderr));
    text(&done.stdout)
}

/// Where the overlay of the only volume is.
fn overlay(site: &Served) -> String {
    let shown: Value = serde_json::from_str(&volume(site, &["ls", "-o", "json"])).unwrap();
    shown["items"][0]["status"]["path"].as_str().unwrap().to_owned()
}

pub fn qemu(program: &str, arguments: &[&str]) {
    let done = Command::new(program).args(arguments).output().unwrap();
    assert!(done.status.success(), "{program} {arguments:?}: {}{}", text(&done.stdout), text(&done.stderr));
}

pub fn refuses(site: &Served, arguments: &[&str], code: i32) -> String {
    let mut command = Command::new(HOLDFAST);
    command.arg("--config").arg(&site.config).arg("volume").args(arguments);
    let done = command.env("HOLDFAST_SERVER", &site.address).output().unwrap();
    let said = text(&done.stderr);
    assert_eq!(done.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(said.contains("hint: "), "{arguments:?} gives no way out: {said}");
    said
}

fn path(site: &Served, name: &str) -> String {
    let shown: Value = serde_json::from_str(&volume(site, &["show", name, "-o", "json"])).unwrap();
    shown["status"]["path"].as_str().unwrap().to_owned()
}

#[test]
fn a_volume_waits_for_its_image_and_keeps_it() {
    let bytes = content(87, 4 * MIB);
    let site = Served::with(bytes, 2, "backing-image-cleanup-wait-interval = \"2s\"\n");
    site.until_disks_are_ready(2);
    let disks = site.json(&["disks"]);
    let disk = disks["items"][1]["metadata"]["name"].as_str().unwrap().to_owned();
    site.does(&[
        "create",
        "debian",
        "--url",
        &site.origin.url(),
        "--disk",
        disks["items"][0]["metadata"]["name"].as_str().unwrap(),
        "--wait",
    ]);
    let volume = |arguments: &[&str]| {
        let mut command = Command::new(HOLDFAST);
        command.arg("--config").arg(&site.config).arg("volume").args(arguments);
        command.env("HOLDFAST_SERVER", &site.address).output().unwrap()
    };
    let made = volume(&["create", "root", "--backing-image", "debian", "--disk", &disk]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    site.until("it is ready", || {
        let shown: Value = serde_json::from_slice(&volume(&["ls", "-o", "json"]).stdout).unwrap_or_default();
        shown["items"][0]["status"]["state"] == "ready"
    });
    // The copy under the volume stays, the other one goes; nothing takes the image away.
    site.until("the unused copy went", || is_downloaded(&site, "debian", 1));
    std::thread::sleep(Duration::from_secs(3));
    assert!(is_downloaded(&site, "debian", 1));
    assert!(backing(&site.root.join("disk0")).is_some() != backing(&site.root.join("disk1")).is_some());
    let said = site.refuses(&["rm", "debian"], 4);
    assert!(said.contains("root"), "{said}");
    let removed = volume(&["rm", "root"]);
    assert!(removed.status.success(), "{}", text(&removed.stderr));
    site.until("the volume is gone", || {
        let shown: Value = serde_json::from_slice(&volume(&["ls", "-o", "json"]).stdout).unwrap_or_default();
        shown["items"].as_array().is_some_and(Vec::is_empty)
    });
    site.does(&["rm", "debian"]);
    site.until("the image is gone", || site.does(&["ls", "-o", "name"]).is_empty());
}

#[test]
fn a_volume_is_restored_on_another_site_that_does_not_have_its_image() {
    let bytes = content(88, 8 * MIB);
    let here = Served::new(bytes.clone(), 1);
    here.until_disks_are_ready(1);
    here.does(&["create", "debian", "--url", &here.origin.url(), "--wait"]);
    volume(&here, &["create", "root", "--backing-image", "debian"]);
    let before = overlay(&here);
    qemu("qemu-io", &["-f", "qcow2", "-c", "write -P 7 1M 256k", "-c", "write -P 9 7M 64k", &before]);
    let backup = here.root.join("backup");
    volume(&here, &["backup", "root", "--to", backup.to_str().unwrap()]);
    let kept = fs::metadata(backup.join("overlay.qcow2")).unwrap().len();
    assert!(kept < bytes.len() as u64, "the image's bytes are in the backup");

    let mut there = Served::new(vec![], 1);
    // Its origin is the same as that of the other site.
    let config = fs::read_to_string(&there.config).unwrap();
    fs::write(&there.config, config.replace(&there.origin.host(), &here.origin.host())).unwrap();
    kill_the_service(&mut there);
    there.until_disks_are_ready(1);
    assert!(there.does(&["ls", "-o", "name"]).is_empty());
    volume(&there, &["restore", backup.to_str().unwrap(), "--timeout", "2m"]);
    assert_eq!(there.does(&["ls", "-o", "name"]), "debian\n");
    assert_eq!(there.json(&["show", "debian"])["status"]["seal"]["sha256"], sha256(&bytes));
    assert_eq!(here.origin.sent(), 2 * bytes.len() as u64, "each site fetches it once");
    let after = overlay(&there);
    assert_ne!(after, before);
    qemu("qemu-img", &["compare", "-f", "qcow2", "-F", "qcow2", &before, &after]);
}

#[test]
fn a_volume_brings_the_image_that_was_meant_and_is_restored_on_another_one_when_told() {
    let bytes = content(90, 4 * MIB);
    let site = Served::new(bytes.clone(), 1);
    site.until_disks_are_ready(1);
    let (url, right, wrong) = (site.origin.url(), sha256(&bytes), sha256(b"something else"));
    // The missing image is created.
    volume(&site, &["create", "root", "--backing-image", "debian", "--url", &url, "--checksum", &right]);
    assert_eq!(site.json(&["show", "debian"])["spec"]["checksum"], right);
    // The one that is there is used if it is what was asked for.
    let other = ["create", "data", "--backing-image", "debian", "--url", &url, "--checksum", &wrong];
    let said = refuses(&site, &other, 4);
    assert!(said.contains(&right) && said.contains(&wrong), "{said}");
    volume(&site, &["create", "data", "--backing-image", "debian", "--url", &url, "--checksum", &right]);
    // Nobody takes the image away under them.
    let disk = site.json(&["disks"])["items"][0]["metadata"]["name"].as_str().unwrap().to_owned();
    let said = site.refuses(&["cleanup", "debian", "--disk", &disk], 4);
    assert!(said.contains("holdfast volume rm"), "{said}");

    qemu("qemu-io", &["-f", "qcow2", "-c", "write -P 7 1M 64k", &path(&site, "root")]);
    let backup = site.root.join("backup");
    volume(&site, &["backup", "root", "--to", backup.to_str().unwrap()]);
    site.origin.replace(content(91, 4 * MIB));
    site.does(&["create", "next", "--url", &url, "--wait"]);
    volume(&site, &["restore", backup.to_str().unwrap(), "--name", "again", "--backing-image", "next"]);
    let raw = site.root.join("raw");
    qemu("qemu-img", &["convert", "-f", "qcow2", "-O", "raw", &path(&site, "again"), raw.to_str().unwrap()]);
    let mut expected = content(91, 4 * MIB);
    expected[MIB..MIB + (64 << 10)].fill(7);
    assert!(fs::read(&raw).unwrap() == expected, "it does not stand on the image that was told");
}

#[test]
fn an_upload_with_another_checksum_than_the_image_has_is_refused() {
    let bytes = content(92, MIB);
    let site = Served::new(vec![], 1);
    site.until_disks_are_ready(1);
    let file = site.root.join("in.img");
    fs::write(&file, &bytes).unwrap();
    let file = file.to_str().unwrap();
    // It fails, and the image waits for the right bytes.
    let wrong = sha256(b"something else");
    assert!(!site.run(&["upload", "mine", file, "--checksum", &wrong]).status.success());
    let said = site.refuses(&["upload", "mine", file, "--checksum", &sha256(&bytes)], 4);
    assert!(said.contains(&wrong) && said.contains("holdfast image rm mine"), "{said}");
    site.refuses(&["upload", "other", file, "--on-demand"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_of_another_disk_in_its_place_are_not_touched() {
    let site = Site::new(content(93, MIB));
    let mut manager = site.manager("a");
    manager.calls.pull(site.pull(1)).await.unwrap();
    manager.until_downloaded(1).await;
    let create =
        |name: &str| api::VolumeCreateRequest { name: name.to_owned(), image: Some(image(1)), size: None };
    manager.calls.volume_create(create("root")).await.unwrap();
    let away = site.root.join("away");
    fs::rename(&manager.disk, &away).unwrap();
    images::file::DiskDir::init(&manager.disk).unwrap();
    // It has a volume of the same name.
    let theirs = manager.disk.join("volumes/root");
    fs::create_dir_all(&theirs).unwrap();
    fs::copy(away.join("volumes/root/volume.cfg"), theirs.join("volume.cfg")).unwrap();
    let what = Some(api::read_request::What::Volume("root".to_owned()));
    let refused = [
        manager.calls.volume_delete(api::VolumeDeleteRequest { name: "root".to_owned() }).await.err(),
        manager.calls.volume_delete(api::VolumeDeleteRequest { name: "gone".to_owned() }).await.err(),
        manager.calls.volume_create(create("new")).await.err(),
        manager.calls.volume_list(api::VolumeListRequest {}).await.err(),
        manager.calls.read(api::ReadRequest { what, offset: 0 }).await.err(),
        manager.calls.delete(api::DeleteRequest { image: Some(image(1)) }).await.err(),
        manager.calls.list(api::ListRequest {}).await.err(),
    ];
    for (number, refused) in refused.into_iter().enumerate() {
        let code = refused.map(|status| status.code());
        assert_eq!(code, Some(Code::FailedPrecondition), "call {number}");
    }
    assert!(theirs.join("volume.cfg").exists());
    assert!(!manager.disk.join("volumes/new").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_volume_keeps_images_from_being_deleted_until_it_is_removed() {
    let site = Site::new(content(94, MIB));
    let mut manager = site.manager("a");
    manager.calls.pull(site.pull(1)).await.unwrap();
    manager.until_downloaded(1).await;
    let create = api::VolumeCreateRequest { name: "root".to_owned(), image: Some(image(1)), size: None };
    manager.calls.volume_create(create).await.unwrap();
    fs::write(manager.disk.join("volumes/root/volume.cfg"), "nonsense").unwrap();
    fs::write(manager.disk.join("volumes/root/volume.qcow2"), "nonsense").unwrap();
    let list = manager.calls.volume_list(api::VolumeListRequest {}).await.unwrap().into_inner();
    assert_eq!((list.volumes[0].name.as_str(), list.volumes[0].state.as_str()), ("root", "failed"));
    let delete = api::DeleteRequest { image: Some(image(1)) };
    let refused = manager.calls.delete(delete.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert!(refused.message().contains("holdfast volume rm root"), "{refused}");
    manager.calls.volume_delete(api::VolumeDeleteRequest { name: "root".to_owned() }).await.unwrap();
    manager.calls.delete(delete).await.unwrap();
}

#[test]
fn a_disk_of_another_node_that_is_exchanged_is_noticed_and_its_volumes_are_kept() {
    let bytes = content(95, 2 * MIB);
    let site = Served::new(bytes, 1);
    let disk = site.root.join("there");
    let _far = Far::join(&site, "there", &disk);
    site.until_disks_are_ready(2);
    site.does(&["create", "debian", "--url", &site.origin.url(), "--wait"]);
    volume(&site, &["create", "root", "--backing-image", "debian", "--disk", "there"]);
    let away = site.root.join("away");
    fs::rename(&disk, &away).unwrap();
    images::file::DiskDir::init(&disk).unwrap();
    site.until("it is noticed", || {
        let shown = site.json(&["show", "debian"]);
        let disks = shown["status"]["disks"].as_object().cloned().unwrap_or_default();
        disks.values().any(|disk| disk["state"] == "unknown")
    });
    let reason = site.does(&["show", "debian"]);
    assert!(reason.contains("not what it was"), "{reason}");
    // Nobody forgets a volume that can't be removed now.
    volume(&site, &["rm", "root"]);
    std::thread::sleep(Duration::from_secs(2));
    assert!(volume(&site, &["ls", "-o", "name"]).contains("root"));
    assert!(away.join("volumes/root/volume.qcow2").exists());
    fs::remove_dir_all(&disk).unwrap();
    fs::rename(&away, &disk).unwrap();
    site.until("the volume is gone", || volume(&site, &["ls", "-o", "name"]).is_empty());
    assert!(!disk.join("volumes/root").exists());
}
