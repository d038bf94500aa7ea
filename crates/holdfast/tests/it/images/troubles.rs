//! Bad luck on the way to a manager: at the origin, on the wire, on the disk.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use testkit::origin::Fault;
use testkit::scratch_fs::{FsKind, ScratchFs};
use wire::images as api;

use crate::images::cli::Served;
use crate::images::fixture::{HOLDFAST, MIB, Site, content, sha256};
use crate::images::proxy::Proxy;
use crate::images::running::{is_downloaded, kill, manager_of};

#[tokio::test(flavor = "multi_thread")]
async fn whatever_an_origin_does_the_image_is_right_or_it_is_not_there() {
    let bytes = content(70, 4 * MIB);
    let site = Site::new(bytes.clone());
    let mut manager = site.manager("a");
    let request = |number| api::PullRequest { checksum: sha256(&bytes), ..site.pull(number) };
    // It stalls, and breaks off: it is asked for the rest.
    site.origin.plan([Fault::StallAfter(MIB as u64), Fault::CutAfter(MIB as u64)]);
    manager.calls.pull(request(1)).await.unwrap();
    manager.until_downloaded(1).await;
    manager.assert_has(1, &bytes);
    assert!(site.origin.sent() <= (bytes.len() + MIB) as u64, "{} bytes were sent", site.origin.sent());
    // An error page with status 200, more than there is, and a bit that is another.
    let lies = [Fault::Page, Fault::Length(5 * MIB as u64), Fault::Flipped(3 * MIB as u64)];
    for (number, lie) in (2..).zip(lies) {
        let what = format!("{lie:?}");
        site.origin.plan([lie]);
        manager.calls.pull(request(number)).await.unwrap();
        let status = manager.until_failed(number).await;
        assert!(!status.reason.is_empty() && !manager.dir(number).join("backing").exists(), "{what}");
        manager.calls.pull(request(number)).await.unwrap();
        manager.until_downloaded(number).await;
        manager.assert_has(number, &bytes);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_origin_that_changes_between_two_requests_is_asked_for_the_whole() {
    let (before, after) = (content(71, 4 * MIB), content(72, 4 * MIB));
    let site = Site::new(before);
    let mut manager = site.manager("a");
    site.origin.plan([Fault::StallAfter(2 * MIB as u64)]);
    manager.calls.pull(site.pull(1)).await.unwrap();
    manager.until_partly(1, MIB).await;
    site.origin.replace(after.clone());
    manager.until_downloaded(1).await;
    manager.assert_has(1, &after);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bit_flipped_on_the_wire_is_never_believed() {
    let bytes = content(73, 16 * MIB);
    let site = Site::new(bytes.clone());
    let mut sender = site.manager("a");
    let mut receiver = site.manager("b");
    sender.calls.pull(site.pull(1)).await.unwrap();
    sender.until_downloaded(1).await;
    let proxy = Proxy::that_flips(&sender, 5 * MIB as u64);
    // Only what comes over the wire is of interest: disks of one node copy from each other.
    let peer = api::Peer { node: "elsewhere".to_owned(), path: String::new(), ..proxy.peer(&sender) };
    receiver.sync_with(1, vec![peer]).await.unwrap();
    receiver.until_downloaded(1).await;
    receiver.assert_has(1, &bytes);
    assert!(proxy.has_flipped(), "nothing was flipped");
}

#[test]
fn a_full_disk_fails_with_the_reason_and_goes_on_when_there_is_room() {
    let bytes = content(74, 48 * MIB);
    let scratch = ScratchFs::new(FsKind::Ext4, 64 << 20);
    let filler = scratch.fill(8 << 20);
    let site = Served::on(bytes.clone(), &[scratch.path().join("disk")]);
    site.until_disks_are_ready(1);
    site.does(&["create", "debian", "--url", &site.origin.url()]);
    site.until("it is said that the disk is full", || {
        let shown = site.does(&["show", "debian"]);
        shown.contains("failed")
            && (shown.contains("full") || shown.contains("space") || shown.contains("room"))
    });
    fs::remove_file(filler).unwrap();
    site.until("it is there", || is_downloaded(&site, "debian", 1));
}

#[test]
fn if_the_manager_that_pulls_is_killed_the_site_fetches_the_rest_only() {
    let bytes = content(75, 96 * MIB);
    let site = Served::new(bytes.clone(), 2);
    site.until_disks_are_ready(2);
    site.origin.set(|served| served.rate = 24 * MIB as u64);
    site.does(&["create", "debian", "--url", &site.origin.url(), "--checksum", &sha256(&bytes)]);
    let shown = || site.json(&["show", "debian"]);
    site.until("a third of it is there", || {
        let image = shown();
        let puller = image["status"]["puller"]["disk"].as_str().unwrap_or_default().to_owned();
        image["status"]["disks"][&puller]["bytes"].as_u64() > Some(32 * MIB as u64)
    });
    let image = shown();
    let disks = site.json(&["disks"]);
    let of_the_puller = |disk: &&Value| disk["metadata"]["name"] == image["status"]["puller"]["disk"];
    let puller = disks["items"].as_array().unwrap().iter().find(of_the_puller).unwrap();
    let path = puller["spec"]["path"].as_str().unwrap().to_owned();
    kill(manager_of(&site, Path::new(&path)).unwrap());
    site.origin.set(|served| served.rate = 0);
    site.until("it is there", || is_downloaded(&site, "debian", 2));
    assert_eq!(shown()["status"]["seal"]["sha256"], sha256(&bytes));
    let again = site.origin.sent() - bytes.len() as u64;
    assert!(again <= 64 * MIB as u64, "{again} bytes were fetched again");
}

#[test]
fn a_watch_tells_what_happens_and_goes_on_with_a_site_that_comes_back() {
    let mut site = Served::new(content(76, MIB), 1);
    site.until_disks_are_ready(1);
    // Its port stays the same from now on.
    let config = fs::read_to_string(&site.config).unwrap();
    let listen = site.address.trim_start_matches("http://").to_owned();
    fs::write(&site.config, config.replace("127.0.0.1:0", &listen)).unwrap();
    for image in ["debian", "other"] {
        site.does(&["create", image, "--url", &site.origin.url(), "--on-demand"]);
    }
    let said = site.refuses(&["wait", "debian"], 4);
    assert!(said.contains("nothing to wait for"), "{said}");
    let mut command = Command::new(HOLDFAST);
    command.arg("--config").arg(&site.config).args(["image", "watch", "debian"]);
    command.env("HOLDFAST_SERVER", &site.address).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut watch = command.spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut until = |what: &str| {
        let line = lines.by_ref().inspect(|line| assert!(line.starts_with("debian "), "{line}"));
        assert!(line.into_iter().any(|line| line.contains(what)), "the watch ended before {what}");
    };
    until("is there");
    site.does(&["spread", "debian", "--all"]);
    until("downloaded 1/1");
    site.child.kill().unwrap();
    site.child.wait().unwrap();
    site.start_again();
    until("is there");
    site.does(&["rm", "debian"]);
    until("is gone");
    watch.kill().unwrap();
    watch.wait().unwrap();
}
