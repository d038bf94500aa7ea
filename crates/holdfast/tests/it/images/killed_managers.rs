//! kill -9 of a site's managers, whatever they do to their file: the service starts them again, and has them go on.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use images::dial::Dialler;
use images::identity::{Authority, Role};
use logic::images::{DiskId, FileState};
use rustix::process::Signal;
use serde_json::Value;
use testkit::proof;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tonic::transport::Channel;
use wire::images::GetRequest;
use wire::images::image_manager_client::ImageManagerClient;

use crate::images::cli::Served;
use crate::images::fixture::{HOLDFAST, MIB, content, sha256};
use crate::images::running::{
    backing, is_alive, is_downloaded, kill, manager_by, manager_of, managers_of, run_managers_with, signal,
    states,
};

fn disk(site: &Served, number: usize) -> PathBuf {
    site.root.join(format!("disk{number}"))
}

/// Kills the manager of a disk, and returns when another one was started.
fn kill_manager(site: &Served, disk: &Path) {
    let before = manager_of(site, disk).unwrap();
    kill(before);
    site.until("it is started again", || {
        !is_alive(before) && manager_of(site, disk).is_some_and(|now| now != before)
    });
}

/// Asks a manager itself: the site hears of some states when they are over.
struct Asked {
    runtime: Runtime,
    calls: ImageManagerClient<Channel>,
}

impl Asked {
    fn manager(site: &Served, disk: &Path) -> Self {
        let disks = site.json(&["disks"]);
        let there = |it: &&Value| it["spec"]["path"] == disk.to_str().unwrap();
        let found = disks["items"].as_array().unwrap().iter().find(there).unwrap();
        let id = DiskId::parse(found["metadata"]["name"].as_str().unwrap()).unwrap();
        let authority = Authority::open(&site.root.join("state/authority")).unwrap();
        let identity = authority.identity(&Role::Controller, &[]).unwrap();
        let dialler = Dialler::new(watch::channel(Arc::new(identity)).1);
        let runtime = Runtime::new().unwrap();
        let entered = runtime.enter();
        let calls = dialler.calls(&id, found["manager"]["address"].as_str().unwrap()).unwrap();
        drop(entered);
        Self { runtime, calls }
    }

    fn state(&mut self, image: &str) -> FileState {
        let answer = self.runtime.block_on(self.calls.get(GetRequest { name: image.to_owned() }));
        wire::file_status(&answer.unwrap().into_inner()).unwrap().1.state
    }
}

#[test]
fn killed_while_its_file_has_failed_a_manager_fetches_it_when_it_can_be_had() {
    let bytes = content(100, 2 * MIB);
    let site = Served::new(bytes.clone(), 1);
    site.until_disks_are_ready(1);
    let disk = disk(&site, 0);
    // A page instead of the image, which may pass; and an image that is another one, which does not by itself.
    site.origin.set(|served| served.content_type = "text/html");
    site.does(&["create", "passing", "--url", &site.origin.url()]);
    site.until("it has failed", || states(&site, "passing") == ["failed"]);
    kill_manager(&site, &disk);
    site.origin.set(|served| served.content_type = "application/octet-stream");
    site.until("it is there", || is_downloaded(&site, "passing", 1));
    let wrong = sha256(b"something else");
    site.does(&["create", "lasting", "--url", &site.origin.url(), "--checksum", &wrong]);
    site.until("it has failed", || states(&site, "lasting") == ["failed"]);
    let asked = site.origin.asked().len();
    kill_manager(&site, &disk);
    // Who knew that it is in vain is gone: it is found out once more.
    site.until("it was tried again", || site.origin.asked().len() > asked);
    site.until("it has failed again", || states(&site, "lasting") == ["failed"]);
    assert!(site.does(&["show", "lasting"]).contains("the checksum is wrong"));
    // Nothing of it is taken for an image.
    let whole = |image: &PathBuf| image.join("backing").exists();
    let images = fs::read_dir(disk.join("backing-images")).unwrap().map(|image| image.unwrap().path());
    assert_eq!(images.filter(whole).count(), 1);
}

#[test]
fn killed_while_it_verifies_a_manager_believes_nothing_and_verifies_again() {
    let bytes = content(101, 96 * MIB);
    let site = Served::new(bytes.clone(), 1);
    site.until_disks_are_ready(1);
    site.does(&["create", "debian", "--url", &site.origin.url(), "--wait"]);
    let disk = disk(&site, 0);
    let (file, asked) = (backing(&disk).unwrap(), site.origin.sent());
    let mut manager = Asked::manager(&site, &disk);
    let opened = fs::OpenOptions::new().write(true).open(&file).unwrap();
    opened.write_all_at(&[!bytes[50 * MIB]], 50 * MIB as u64).unwrap();
    // Looked for without a pause: it does not take long.
    let begin = Instant::now();
    while manager.state("debian") != FileState::Unknown {
        assert!(begin.elapsed() < Duration::from_secs(60), "it does not verify");
    }
    kill_manager(&site, &disk);
    site.until("it is whole again", || {
        is_downloaded(&site, "debian", 1) && fs::read(&file).is_ok_and(|found| found == bytes)
    });
    let again = site.origin.sent() - asked;
    assert!(again > 0 && again < 8 * MIB as u64, "{again} bytes were fetched for one bad chunk");
}

#[test]
fn killed_while_it_deletes_a_manager_leaves_nothing_behind() {
    let site = Served::new(content(102, 64 * MIB), 1);
    site.until_disks_are_ready(1);
    let images = disk(&site, 0).join("backing-images");
    // When it is told, and when the file was moved away and goes.
    let moments = [true, false];
    for told in moments {
        site.does(&["create", "debian", "--url", &site.origin.url(), "--wait"]);
        let file = backing(&disk(&site, 0)).unwrap();
        let manager = manager_of(&site, &disk(&site, 0)).unwrap();
        site.does(&["rm", "debian"]);
        while !told && file.exists() {
            std::thread::yield_now();
        }
        kill(manager);
        site.until("it is gone", || site.does(&["ls", "-o", "name"]).is_empty());
        site.until("its files are gone", || fs::read_dir(&images).unwrap().next().is_none());
    }
    proof::count(proof::Kind::KillPoints, moments.len());
}

#[test]
fn killed_while_they_fetch_and_send_at_once_managers_go_on_with_what_they_have() {
    let bytes = content(103, 64 * MIB);
    let site = Served::new(bytes.clone(), 3);
    site.until_disks_are_ready(3);
    site.origin.set(|served| served.rate = 4 * MIB as u64);
    site.does(&["create", "debian", "--url", &site.origin.url(), "--checksum", &sha256(&bytes)]);
    let disks = site.json(&["disks"])["items"].as_array().unwrap().clone();
    let shown = || site.json(&["show", "debian"]);
    let until_all_have = |least: usize| {
        site.until("all have some of it", || {
            let image = shown();
            let has = |disk: &Value| {
                image["status"]["disks"][disk["metadata"]["name"].as_str().unwrap()]["bytes"].as_u64()
            };
            disks.iter().all(|disk| has(disk) >= Some(least as u64))
        });
    };
    until_all_have(2 * MIB);
    let puller = shown()["status"]["puller"]["disk"].clone();
    let (pulls, follow): (Vec<_>, Vec<_>) = disks.iter().partition(|disk| disk["metadata"]["name"] == puller);
    // Those that pass on what they get, then the one that all of it comes from.
    for (killed, then) in [(follow, 8 * MIB), (pulls, 0)] {
        assert!(!states(&site, "debian").contains(&"downloaded".to_owned()), "too late to be half-way");
        for disk in killed {
            kill_manager(&site, Path::new(disk["spec"]["path"].as_str().unwrap()));
        }
        until_all_have(then);
    }
    site.origin.set(|served| served.rate = 0);
    site.until("all of it is there", || is_downloaded(&site, "debian", 3));
    for number in 0..3 {
        assert!(fs::read(backing(&disk(&site, number)).unwrap()).unwrap() == bytes);
    }
    let again = site.origin.sent().saturating_sub(bytes.len() as u64);
    assert!(again <= 64 * MIB as u64, "{again} bytes were fetched again");
    proof::count(proof::Kind::KillPoints, disks.len());
}

#[test]
fn killed_in_a_hand_over_either_manager_leaves_the_image_to_the_other() {
    let bytes = content(104, 2 * MIB);
    let site = Served::new(bytes.clone(), 1);
    site.until_disks_are_ready(1);
    site.does(&["create", "debian", "--url", &site.origin.url(), "--wait"]);
    let disk = disk(&site, 0);
    let inode = fs::metadata(backing(&disk).unwrap()).unwrap().ino();
    let next = site.root.join("holdfast-next");
    fs::copy(HOLDFAST, &next).unwrap();
    let kills = [(next.as_path(), true), (Path::new(HOLDFAST), false)];
    for (program, the_new_one) in kills {
        // Frozen, the old one can't offer anything: it owns the image when one of them is killed.
        let old = manager_of(&site, &disk).unwrap();
        signal(old, Signal::STOP);
        run_managers_with(&site, program);
        site.until("the new one is there", || manager_by(&site, &disk, program).is_some());
        kill(if the_new_one { manager_by(&site, &disk, program).unwrap() } else { old });
        if the_new_one {
            signal(old, Signal::CONT);
        }
        site.until("the new one is alone", || {
            managers_of(&site, &disk).len() == 1 && manager_by(&site, &disk, program).is_some()
        });
        site.until("it has the image", || is_downloaded(&site, "debian", 1));
    }
    assert_eq!(fs::metadata(backing(&disk).unwrap()).unwrap().ino(), inode);
    assert_eq!(site.origin.sent(), bytes.len() as u64);
    proof::count(proof::Kind::KillPoints, kills.len());
}
