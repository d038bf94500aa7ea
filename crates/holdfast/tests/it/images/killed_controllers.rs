//! kill -9 of a site's service while something goes through its hands: a hand-over, an upload, a new volume, a restored one.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use testkit::proof;

use crate::images::cli::Served;
use crate::images::fixture::{HOLDFAST, MIB, content, sha256};
use crate::images::running::{
    backing, is_downloaded, kill_the_service, manager_by, manager_of, managers_of, run_managers_with, signal,
};
use crate::images::volumes::{qemu, refuses, volume};

/// A command that is not waited for.
fn begin(site: &Served, arguments: &[&str]) -> Child {
    let mut command = Command::new(HOLDFAST);
    command.arg("--config").arg(&site.config).args(arguments).env("HOLDFAST_SERVER", &site.address);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Freezes the manager as soon as the file has some of what goes through the service, and kills the service.
fn kill_in_the_middle(site: &mut Served, what: &mut Child, file: impl Fn() -> Option<PathBuf>) {
    let manager = manager_of(site, &site.root.join("disk0")).unwrap();
    let begun = || file().and_then(|file| fs::metadata(file).ok()).is_some_and(|file| file.len() > 0);
    while !begun() {
        assert!(what.try_wait().unwrap().is_none(), "it ended before anything came");
        std::thread::yield_now();
    }
    signal(manager, Signal::STOP);
    assert!(what.try_wait().unwrap().is_none(), "it ended before the service was killed");
    kill_the_service(site);
    assert!(!what.wait().unwrap().success(), "it ended well, and half of it was lost");
    site.until_disks_are_ready(1);
}

#[test]
fn a_hand_over_is_gone_on_with_wherever_the_service_was_killed() {
    let bytes = content(110, 2 * MIB);
    let mut site = Served::new(bytes.clone(), 1);
    site.until_disks_are_ready(1);
    site.does(&["create", "debian", "--url", &site.origin.url(), "--wait"]);
    let disk = site.root.join("disk0");
    let file = backing(&disk).unwrap();
    let inode = fs::metadata(&file).unwrap().ino();
    let next = site.root.join("holdfast-next");
    fs::copy(HOLDFAST, &next).unwrap();
    // What managers say when they were told of each step: the new one is there, the old one offers, the new one has it.
    let steps = ["another manager of this disk runs", "offered to another", "taken over from another"];
    for (step, program) in steps.into_iter().zip([next.as_path(), Path::new(HOLDFAST), &next]) {
        let log = site.root.join("site.log");
        let said = || fs::read_to_string(&log).unwrap().matches(step).count();
        let before = said();
        run_managers_with(&site, program);
        while said() == before {
            std::thread::yield_now();
        }
        kill_the_service(&mut site);
        site.until("the manager runs the other program", || {
            managers_of(&site, &disk).len() == 1 && manager_by(&site, &disk, program).is_some()
        });
        site.until("it has the image", || is_downloaded(&site, "debian", 1));
        assert_eq!(fs::metadata(&file).unwrap().ino(), inode, "{step}");
    }
    assert!(fs::read(&file).unwrap() == bytes);
    assert_eq!(site.origin.sent(), bytes.len() as u64);
    proof::count(proof::Kind::KillPoints, steps.len());
}

#[test]
fn an_upload_through_a_service_that_is_killed_is_no_image_until_it_was_made_again() {
    let bytes = content(111, 64 * MIB);
    let mut site = Served::new(vec![], 1);
    site.until_disks_are_ready(1);
    let from = site.root.join("in.img");
    fs::write(&from, &bytes).unwrap();
    let checksum = sha256(&bytes);
    let upload = ["upload", "mine", from.to_str().unwrap(), "--checksum", &checksum];
    let images = site.root.join("disk0/backing-images");
    let part = || Some(fs::read_dir(&images).ok()?.flatten().next()?.path().join("backing.tmp"));
    let mut uploading = begin(&site, &[&["image"][..], &upload[..]].concat());
    kill_in_the_middle(&mut site, &mut uploading, part);
    assert!(!is_downloaded(&site, "mine", 1) && backing(&site.root.join("disk0")).is_none());
    site.does(&[&upload[..], &["--wait"]].concat());
    assert!(fs::read(backing(&site.root.join("disk0")).unwrap()).unwrap() == bytes);
}

#[test]
fn volumes_of_a_service_that_is_killed_are_made_or_are_not_there() {
    let bytes = content(112, 16 * MIB);
    let mut site = Served::new(bytes, 1);
    site.until_disks_are_ready(1);
    site.origin.set(|served| served.rate = 8 * MIB as u64);
    // While the volume waits for its image: the site knows what was asked of it.
    let (url, disk) = (site.origin.url(), site.root.join("disk0"));
    let from = ["--backing-image", "debian", "--url", &url, "--size", "256M"];
    let mut creating = begin(&site, &[&["volume", "create", "root"][..], &from[..]].concat());
    site.until("the image is on its way", || site.does(&["ls"]).contains("downloading"));
    kill_the_service(&mut site);
    creating.kill().unwrap();
    creating.wait().unwrap();
    site.until("the volume is ready", || volume(&site, &["ls"]).contains("ready"));
    // While the bytes of a restored one come.
    let overlay = disk.join("volumes/root/volume.qcow2").display().to_string();
    qemu("qemu-io", &["-f", "qcow2", "-c", "write -P 7 64M 64M", &overlay]);
    let backup = site.root.join("backup").display().to_string();
    volume(&site, &["backup", "root", "--to", &backup]);
    let mut restoring = begin(&site, &["volume", "restore", &backup, "--name", "again"]);
    let part = disk.join("volumes/.again/volume.qcow2");
    kill_in_the_middle(&mut site, &mut restoring, || Some(part.clone()));
    assert!(!disk.join("volumes/again").exists(), "half of it became a volume");
    // What the site still waits for is named, and how to be rid of it.
    let said = refuses(&site, &["restore", &backup, "--name", "again"], 4);
    assert!(said.contains("holdfast volume rm again"), "{said}");
    volume(&site, &["rm", "again"]);
    site.until("the site forgets it", || !volume(&site, &["ls", "-o", "name"]).contains("again"));
    volume(&site, &["restore", &backup, "--name", "again"]);
    let again = disk.join("volumes/again/volume.qcow2").display().to_string();
    qemu("qemu-img", &["compare", "-f", "qcow2", "-F", "qcow2", &overlay, &again]);
    assert!(!part.exists());
}
