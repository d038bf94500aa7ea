//! Managers of other versions: a program of its own (`before.rs`), which speaks the API of before, or one that nobody here speaks.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use logic::images::FileState;
use serde_json::Value;
use tonic::Code;
use wire::images as api;

use crate::images::cli::Served;
use crate::images::fixture::{HOLDFAST, MIB, Site, content, image};
use crate::images::running::{
    Far, backing, is_alive, is_downloaded, manager_of, managers_of, run_managers_with,
};

const BEFORE: &str = env!("CARGO_BIN_EXE_holdfast-before");

#[tokio::test(flavor = "multi_thread")]
async fn an_old_manager_says_so_sends_whole_images_only_and_hands_over_to_the_new_one() {
    let bytes = content(50, 6 * MIB);
    let site = Site::new(bytes.clone());
    let new = site.manager("a");
    let (disk, id) = (new.disk.clone(), new.id.clone());
    drop(new);
    let mut old = site.run(site.command_of(BEFORE, "a", &disk), "a", &disk, &id);
    assert_eq!((old.serving.api_version, old.serving.api_min_version), (1, 1));
    assert_eq!(old.serving.version, "0.0.9");
    site.origin.set(|served| served.rate = 3 * MIB as u64);
    old.calls.pull(site.pull(1)).await.unwrap();
    // Half an image is nothing to it.
    let mut receiver = site.manager("b");
    receiver.sync(1, &[&old]).await;
    let peers = api::PeersRequest { image: Some(image(1)), peers: vec![] };
    assert_eq!(old.calls.peers(peers).await.unwrap_err().code(), Code::Unimplemented);
    old.until_downloaded(1).await;
    receiver.until_downloaded(1).await;
    receiver.assert_has(1, &bytes);
    let mut new = site.start("a", &disk, &id);
    let mut images = vec![];
    crate::images::fixture::until("the image is offered", async || {
        let start = api::OwnershipTransferStartRequest {};
        images = old.calls.ownership_transfer_start(start).await.unwrap().into_inner().images;
        !images.is_empty()
    })
    .await;
    let confirm = |images| api::OwnershipTransferConfirmRequest { images };
    new.calls.ownership_transfer_confirm(confirm(images)).await.unwrap();
    old.calls.ownership_transfer_confirm(confirm(vec![])).await.unwrap();
    assert_eq!(new.get(1).await.unwrap().state, FileState::Downloaded);
}

/// The manager that counts on a disk, as people see it.
fn manager_on(site: &Served, node: &str) -> Value {
    let disks = site.json(&["disks"]);
    let of_the_node = |disk: &&Value| disk["spec"]["node"] == node;
    disks["items"].as_array().unwrap().iter().find(of_the_node).unwrap()["manager"].clone()
}

#[test]
fn managers_of_the_version_before_go_on_and_hand_over_when_new_ones_are_there() {
    let bytes = content(52, 12 * MIB);
    let old_program = format!("default-backing-image-manager-image = \"{BEFORE}\"\n");
    let site = Served::with(bytes.clone(), 2, &old_program);
    site.until_disks_are_ready(2);
    let first = site.root.join("disk0");
    site.does(&[
        "create",
        "debian",
        "--url",
        &site.origin.url(),
        "--disk",
        first.to_str().unwrap(),
        "--wait",
    ]);
    assert_eq!(manager_on(&site, "here")["apiVersion"], 1);
    // A receiver so slow that the old manager sends while it is exchanged.
    let config = fs::read_to_string(&site.config).unwrap();
    let slow = format!("[images.manager]\nbandwidth = {}", 2 * MIB);
    fs::write(&site.config, config.replace("[images.manager]", &slow)).unwrap();
    let disk = site.root.join("there");
    let mut before = Far::join_by(Path::new(BEFORE), &site, "there", &disk);
    site.until_disks_are_ready(3);
    let sender = manager_of(&site, &first).unwrap();
    let inode = |disk: &Path| fs::metadata(backing(disk).unwrap()).unwrap().ino();
    let here = inode(&first);
    site.does(&["spread", "debian", "--all"]);
    let on_its_way = || site.does(&["show", "debian"]).contains("downloading");
    site.until("it is being sent", on_its_way);

    run_managers_with(&site, Path::new(HOLDFAST));
    site.until("a manager of the new version is beside the old one", || {
        managers_of(&site, &first).len() == 2
    });
    assert!(on_its_way() && is_alive(sender), "the old manager did not go on sending");
    site.until("it has arrived", || is_downloaded(&site, "debian", 3));
    site.until("the old manager has handed over, and ended", || !is_alive(sender));
    site.until("people see the new one", || manager_on(&site, "here")["apiVersion"] == wire::API_VERSION);
    assert_eq!(inode(&first), here);

    // Nobody has upgraded the other machine: its manager keeps what it has.
    let there = inode(&disk);
    assert_eq!(manager_on(&site, "there")["version"], "0.0.9");
    let _new = Far::join(&site, "there", &disk);
    site.until("the old manager ends by itself", || !before.is_running());
    site.until("the new one has what it had", || {
        manager_on(&site, "there")["apiVersion"] == wire::API_VERSION && is_downloaded(&site, "debian", 3)
    });
    assert_eq!(inode(&disk), there);
    assert_eq!(site.origin.sent(), bytes.len() as u64);
    // When the second disk had all of it, the far manager could have been told: those of before can't be.
    let log = fs::read_to_string(site.root.join("site.log")).unwrap();
    assert!(!log.contains("a call failed"), "{log}");
}

/// A program of a version that this site can't talk to. It notes each of its starts, and what it does.
fn stranger(site: &Served) -> PathBuf {
    let path = site.root.join("holdfast-stranger");
    let script = format!(
        r#"#!/bin/sh
export HOLDFAST_TEST_ACT_AS="99.0.0 98 99"
case "$1" in --version) exec "{BEFORE}" "$@";; esac
echo started >>"{root}/starts"
exec "{BEFORE}" "$@" 2>>"{root}/stranger.log"
"#,
        root = site.root.display(),
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn an_incompatible_manager_is_told_nothing_and_the_one_of_before_goes_on() {
    let bytes = content(51, 4 * MIB);
    let site = Served::new(bytes.clone(), 1);
    site.until_disks_are_ready(1);
    site.does(&["create", "debian", "--url", &site.origin.url(), "--wait"]);
    let managers = || site.json(&["disks"]).to_string();
    let stranger = stranger(&site);
    run_managers_with(&site, &stranger);
    site.until("it is found to be incompatible", || managers().contains("versions 98 to 99 of the API"));
    // The one of before still has the image, and gives it.
    let out = site.root.join("out.img");
    site.does(&["export", "debian", out.to_str().unwrap()]);
    assert!(fs::read(&out).unwrap() == bytes);
    assert!(site.does(&["ls"]).contains("downloaded 1/1"));
    let noted = |file: &str| fs::read_to_string(site.root.join(file)).unwrap_or_default();
    assert_eq!(noted("starts"), "started\n", "it is started over and over");
    // What is new is for a manager that can be talked to. One from elsewhere is turned away at the door.
    site.does(&["create", "next", "--url", &site.origin.url()]);
    let far = Far::join_by(&stranger, &site, "there", &site.root.join("there"));
    site.until("it is turned away", || noted("stranger.log").contains("the manager speaks API 98 to 99"));
    drop(far);
    assert_eq!(site.json(&["disks"])["items"].as_array().unwrap().len(), 1);
    run_managers_with(&site, Path::new(HOLDFAST));
    site.until_disks_are_ready(1);
    site.until("the stranger is gone", || !managers().contains("98 to 99"));
    assert!(is_downloaded(&site, "debian", 1));
    site.until("the other image is there", || is_downloaded(&site, "next", 1));
    assert_eq!(site.origin.sent(), 2 * bytes.len() as u64);
    let asked = ["begins", "offered", "taken over", "deleted"];
    assert!(!asked.iter().any(|word| noted("stranger.log").contains(word)), "{}", noted("stranger.log"));
}
