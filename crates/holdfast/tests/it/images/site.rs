//! A site under bad luck: its service is killed, its managers are, disks are exchanged and moved, nodes are away.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::time::Duration;

use crate::images::cli::{Served, text};
use crate::images::fixture::{HOLDFAST, MIB, content, sha256};
use crate::images::running::{
    Far, backing, children, is_alive, is_downloaded, kill, kill_the_service, run_managers_with, states,
};

#[test]
fn a_service_that_is_killed_in_any_state_goes_on_with_what_it_had() {
    let bytes = content(80, 24 * MIB);
    let mut site = Served::new(bytes.clone(), 2);
    site.until_disks_are_ready(2);
    site.origin.set(|origin| origin.rate = 8 << 20);
    // As soon as it was told of the image.
    site.does(&["create", "debian", "--url", &site.origin.url(), "--checksum", &sha256(&bytes)]);
    kill_the_service(&mut site);
    let uuid = site.json(&["show", "debian"])["status"]["uuid"].clone();
    // While it is pulled.
    site.until("some of it is there", || {
        let shown = site.json(&["show", "debian"]);
        shown["status"]["disks"]
            .as_object()
            .is_some_and(|disks| disks.values().any(|disk| disk["bytes"].as_u64() > Some(2 << 20)))
    });
    kill_the_service(&mut site);
    site.until("it is there", || is_downloaded(&site, "debian", 2));
    if uuid.is_string() {
        assert_eq!(site.json(&["show", "debian"])["status"]["uuid"], uuid, "it became another image");
    }
    // When it is there.
    let asked = site.origin.sent();
    kill_the_service(&mut site);
    site.until("it is there still", || is_downloaded(&site, "debian", 2));
    assert_eq!(site.origin.sent(), asked, "the origin was asked again");
    for disk in 0..2 {
        assert!(fs::read(backing(&site.root.join(format!("disk{disk}"))).unwrap()).unwrap() == bytes);
    }
    // While it is removed.
    site.does(&["rm", "debian"]);
    kill_the_service(&mut site);
    site.until("it is gone", || site.does(&["ls", "-o", "name"]).is_empty());
    // It was there until the managers had come back and said that they have nothing of it.
    let left = (0..2).filter(|disk| backing(&site.root.join(format!("disk{disk}"))).is_some()).count();
    assert_eq!(left, 0, "it is called gone, and its files are there");
}

#[test]
fn a_manager_that_is_killed_is_started_again_and_no_file_is_touched() {
    let bytes = content(81, 8 * MIB);
    let site = Served::new(bytes.clone(), 2);
    site.until_disks_are_ready(2);
    site.does(&["create", "debian", "--url", &site.origin.url(), "--wait"]);
    let asked = site.origin.sent();
    let file = |disk: usize| backing(&site.root.join(format!("disk{disk}"))).unwrap();
    let before: Vec<_> = (0..2).map(|disk| fs::metadata(file(disk)).unwrap().ino()).collect();
    for _ in 0..3 {
        let managers = children(site.child.id());
        assert_eq!(managers.len(), 2);
        managers.iter().for_each(|pid| kill(*pid));
        site.until("they run again", || {
            let now = children(site.child.id());
            now.len() == 2 && !now.iter().any(|pid| managers.contains(pid))
        });
        site.until_disks_are_ready(2);
        site.until("what they had is known", || is_downloaded(&site, "debian", 2));
    }
    let after: Vec<_> = (0..2).map(|disk| fs::metadata(file(disk)).unwrap().ino()).collect();
    assert_eq!(after, before);
    assert_eq!(site.origin.sent(), asked);
}

#[test]
fn a_disk_that_moves_to_another_node_brings_its_images_along() {
    let bytes = content(82, 6 * MIB);
    let site = Served::new(bytes.clone(), 1);
    let first = site.root.join("mounted-there");
    let far = Far::join(&site, "there", &first);
    site.until_disks_are_ready(2);
    site.does(&["create", "debian", "--url", &site.origin.url(), "--wait"]);
    let asked = site.origin.sent();
    let inode = fs::metadata(backing(&first).unwrap()).unwrap().ino();
    drop(far);
    site.until("its node is missed", || states(&site, "debian").contains(&"unknown".to_owned()));
    let second = site.root.join("mounted-elsewhere");
    fs::rename(&first, &second).unwrap();
    let _far = Far::join(&site, "elsewhere", &second);
    site.until("its image is there", || is_downloaded(&site, "debian", 2));
    let disks = site.json(&["disks"]);
    let nodes: Vec<&str> =
        disks["items"].as_array().unwrap().iter().filter_map(|disk| disk["spec"]["node"].as_str()).collect();
    assert!(nodes.contains(&"elsewhere") && !nodes.contains(&"there"), "{nodes:?}");
    assert_eq!(fs::metadata(backing(&second).unwrap()).unwrap().ino(), inode);
    assert_eq!(site.origin.sent(), asked);
}

#[test]
fn a_disk_whose_node_is_down_gets_what_is_wanted_when_it_is_back() {
    let bytes = content(83, 6 * MIB);
    let site = Served::new(bytes.clone(), 1);
    let disk = site.root.join("there");
    let far = Far::join(&site, "there", &disk);
    site.until_disks_are_ready(2);
    let ids: Vec<String> = site.json(&["disks"])["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|disk| disk["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    drop(far);
    site.does(&["create", "debian", "--url", &site.origin.url(), "--disk", &ids[0], "--disk", &ids[1]]);
    site.until("it is here, and unknown there", || {
        let mut states = states(&site, "debian");
        states.sort();
        states == ["downloaded", "unknown"]
    });
    let _far = Far::join(&site, "there", &disk);
    site.until("it is there too", || is_downloaded(&site, "debian", 2));
    assert_eq!(site.origin.sent(), bytes.len() as u64);
    assert!(fs::read(backing(&disk).unwrap()).unwrap() == bytes);
}

#[test]
fn a_disk_that_is_exchanged_for_another_is_left_alone() {
    let bytes = content(84, 4 * MIB);
    let mut site = Served::new(bytes.clone(), 2);
    site.until_disks_are_ready(2);
    site.does(&["create", "debian", "--url", &site.origin.url(), "--wait"]);
    let (there, away) = (site.root.join("disk1"), site.root.join("away"));
    fs::rename(&there, &away).unwrap();
    fs::create_dir_all(&there).unwrap();
    fs::write(there.join("holdfast-disk.cfg"), "{\"diskUUID\":\"11111111-2222-4333-8444-555555555555\"}")
        .unwrap();
    let mut exchanged = || {
        let mut states = states(&site, "debian");
        states.sort();
        states == ["downloaded", "unknown"]
    };
    site.until("it is noticed", &mut exchanged);
    let left = || fs::read_dir(&there).unwrap().flatten().map(|entry| entry.file_name()).collect::<Vec<_>>();
    assert_eq!(left(), ["holdfast-disk.cfg"], "something was put on the other disk");
    kill_the_service(&mut site);
    // An empty mount point does not become a disk either.
    site.child.kill().unwrap();
    site.child.wait().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    fs::remove_dir_all(&there).unwrap();
    fs::create_dir_all(&there).unwrap();
    site.start_again();
    std::thread::sleep(Duration::from_secs(2));
    assert!(left().is_empty(), "an empty mount point became a disk");
    fs::remove_dir(&there).unwrap();
    fs::rename(&away, &there).unwrap();
    site.until("it is back", || is_downloaded(&site, "debian", 2));
    assert_eq!(site.origin.sent(), bytes.len() as u64);
}

#[test]
fn what_nothing_uses_is_cleaned_up_but_for_the_last_copy() {
    let bytes = content(85, 4 * MIB);
    let site = Served::with(bytes, 3, "backing-image-cleanup-wait-interval = \"2s\"\n");
    site.until_disks_are_ready(3);
    site.does(&["create", "debian", "--url", &site.origin.url(), "--wait"]);
    site.until("one copy is left", || is_downloaded(&site, "debian", 1));
    std::thread::sleep(Duration::from_secs(4));
    assert!(is_downloaded(&site, "debian", 1), "the last copy went");
    let there = (0..3).filter(|disk| backing(&site.root.join(format!("disk{disk}"))).is_some()).count();
    assert_eq!(there, 1);
    // Nor does anybody remove it from its last disk by hand.
    let shown = site.json(&["show", "debian"]);
    let disk = shown["spec"]["disks"][0].as_str().unwrap().to_owned();
    let said = site.refuses(&["cleanup", "debian", "--disk", &disk], 4);
    assert!(said.contains("last verified copy"), "{said}");
}

#[test]
fn managers_are_exchanged_for_another_program_while_they_run() {
    let bytes = content(86, 8 * MIB);
    let site = Served::new(bytes.clone(), 2);
    site.until_disks_are_ready(2);
    site.does(&["create", "debian", "--url", &site.origin.url(), "--wait"]);
    let asked = site.origin.sent();
    let file = backing(&site.root.join("disk0")).unwrap();
    let inode = fs::metadata(&file).unwrap().ino();
    let before = children(site.child.id());
    let other = site.root.join("holdfast-next");
    fs::copy(HOLDFAST, &other).unwrap();
    run_managers_with(&site, &other);
    site.until("all managers run the other program", || {
        let now = children(site.child.id());
        let program = |pid: &u32| fs::read_link(format!("/proc/{pid}/exe")).ok();
        now.len() == 2 && now.iter().all(|pid| program(pid) == Some(other.clone()))
    });
    assert!(!before.iter().any(|pid| is_alive(*pid)));
    site.until("they have what the others had", || is_downloaded(&site, "debian", 2));
    assert_eq!(fs::metadata(&file).unwrap().ino(), inode);
    assert_eq!(site.origin.sent(), asked);
}

#[test]
fn a_second_service_on_the_same_state_is_refused() {
    let site = Served::new(vec![1; 1000], 1);
    let mut command = Command::new(HOLDFAST);
    command.arg("--config").arg(&site.config).args(["image", "serve"]);
    let refused = command.output().unwrap();
    let said = text(&refused.stderr);
    assert!(!refused.status.success() && said.contains("in use by another process"), "{said}");
    assert!(said.contains("hint: "), "{said}");
}
