//! The machine's disk: what it stands on, and what a kill leaves of it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use testkit::proof;
use testkit::sample::Sample;
use testkit::vm::Guest;
use upgrade::backend::vm::Settings;
use upgrade::backend::{Backend, Error};

use crate::vm::support::{Appliance, settings, snapshot_id};

fn qemu_img(args: &[&str]) -> String {
    let done = Command::new("qemu-img").args(args).output().unwrap();
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Writes to the disk of a machine that is off, as the machine would.
fn write(disk: &Path, pattern: u8, at: &str) {
    let done = Command::new("qemu-io")
        .args(["-f", "qcow2", "-c", &format!("write -P {pattern} {at} 64k")])
        .arg(disk)
        .output()
        .unwrap();
    assert!(done.status.success() && String::from_utf8_lossy(&done.stdout).contains("wrote"));
}

fn holds(disk: &Path, pattern: u8, at: &str) -> bool {
    let done = Command::new("qemu-io")
        .args(["-f", "qcow2", "-c", &format!("read -P {pattern} {at} 64k")])
        .arg(disk)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(said.contains("read 65536"), "{said}");
    !said.contains("Pattern verification failed")
}

fn disk(appliance: &Appliance) -> PathBuf {
    appliance.layout.root().join("disk/disk.qcow2")
}

fn guest_on(base: &Path) -> Guest {
    let mut guest = Guest::new("v1.0.0-1-a");
    guest.vm = json!({"disk": {"sizeMib": 8, "base": base.to_str().unwrap()}});
    guest
}

#[test]
fn a_disk_stands_on_an_image_that_stays_as_it_is() {
    for format in ["raw", "qcow2"] {
        let appliance = Appliance::new();
        let base = appliance.scratch().join("base.img");
        qemu_img(&["create", "-q", "-f", format, base.to_str().unwrap(), "16M"]);
        let done = Command::new("qemu-io")
            .args(["-f", format, "-c", "write -P 7 1M 64k", base.to_str().unwrap()])
            .output()
            .unwrap();
        assert!(done.status.success());
        let before = fs::read(&base).unwrap();

        let image = appliance.install(&guest_on(&base));
        let info = qemu_img(&["info", disk(&appliance).to_str().unwrap()]);
        assert!(info.contains(&format!("backing file format: {format}")), "{info}");
        assert!(info.contains("virtual size: 16 MiB"), "not smaller than its base: {info}");
        assert!(holds(&disk(&appliance), 7, "1M"));
        appliance.vm.snapshot(&snapshot_id(1), &image).unwrap();
        write(&disk(&appliance), 9, "1M");
        appliance.vm.revert(&snapshot_id(1)).unwrap();
        assert!(holds(&disk(&appliance), 7, "1M"));
        assert_eq!(fs::read(&base).unwrap(), before);
    }
}

#[test]
fn a_base_that_names_what_is_not_beside_it_is_refused() {
    let appliance = Appliance::new();
    let root = appliance.scratch();
    let (inside, outside) = (root.join("images"), root.join("elsewhere"));
    for dir in [&inside, &outside] {
        fs::create_dir(dir).unwrap();
        qemu_img(&["create", "-q", "-f", "qcow2", dir.join("low.qcow2").to_str().unwrap(), "1M"]);
    }
    let on = |name: &str, backing: &str, format: &[&str]| {
        let path = inside.join(name);
        let text = path.to_str().unwrap().to_owned();
        let mut args = vec!["create", "-q", "-u", "-f", "qcow2", "-b", backing];
        args.extend(format);
        args.extend([text.as_str(), "1M"]);
        qemu_img(&args);
        path
    };
    let format = ["-F", "qcow2"];
    let good = on("good.qcow2", "low.qcow2", &format);
    let absolute = inside.join("low.qcow2");
    let good_too = on("good-too.qcow2", absolute.to_str().unwrap(), &format);
    std::os::unix::fs::symlink(outside.join("low.qcow2"), inside.join("link.qcow2")).unwrap();
    let bad = [
        on("up.qcow2", "../elsewhere/low.qcow2", &format),
        on("far.qcow2", "/etc/passwd", &["-F", "raw"]),
        on("linked.qcow2", "link.qcow2", &format),
        on("net.qcow2", "nbd:127.0.0.1:10809", &["-F", "raw"]),
        on("json.qcow2", "json:{\"driver\":\"file\",\"filename\":\"/etc/passwd\"}", &["-F", "raw"]),
        on("missing.qcow2", "nothing.qcow2", &format),
        on("self.qcow2", "self.qcow2", &format),
        // One step further down.
        on("two.qcow2", "up.qcow2", &format),
    ];
    // One that does not say of which form the other is: the name of the form becomes something that nobody knows.
    let unsaid = on("unsaid.qcow2", "low.qcow2", &format);
    let mut bytes = fs::read(&unsaid).unwrap();
    let at = bytes.windows(4).position(|window| window == [0xe2, 0x79, 0x2a, 0xca]).unwrap();
    bytes[at..at + 4].copy_from_slice(&[0x12, 0x34, 0x56, 0x78]);
    fs::write(&unsaid, bytes).unwrap();
    // And one that has its data elsewhere.
    let apart = inside.join("apart.qcow2");
    let option = format!("data_file={}", outside.join("data").display());
    qemu_img(&["create", "-q", "-f", "qcow2", "-o", &option, apart.to_str().unwrap(), "1M"]);
    let bad = bad.into_iter().chain([unsaid, apart]);
    for base in [good, good_too] {
        let appliance = Appliance::new();
        appliance.install(&guest_on(&base));
    }
    for base in bad {
        let guest = guest_on(&base);
        let image = appliance.stage(&guest);
        appliance.configure(&guest, json!({}));
        let error = appliance.vm.reconfigure(&image).unwrap_err();
        assert!(error.to_string().contains("cannot be stood on"), "{}: {error}", base.display());
        assert!(!disk(&appliance).exists());
        appliance.vm.remove_image(&image).unwrap();
    }
}

#[test]
fn a_revert_to_before_there_was_a_disk_takes_the_disk_away() {
    let appliance = Appliance::new();
    let mut without = Guest::new("v1.0.0-1-a");
    without.vm = json!({"disk": null});
    let first = appliance.install(&without);
    appliance.vm.snapshot(&snapshot_id(1), &first).unwrap();
    assert_eq!(appliance.vm.describe().unwrap().snapshots[0].image, Some(first.clone()));
    appliance.install(&Guest::new("v1.0.0-2-b"));
    assert!(disk(&appliance).exists());
    appliance.vm.revert(&snapshot_id(1)).unwrap();
    assert!(!disk(&appliance).exists());
    assert_eq!(appliance.vm.describe().unwrap().current, Some(first));
    appliance.vm.delete_snapshot(&snapshot_id(1)).unwrap();
}

/// A `qemu-img` that is killed in the middle of its work, the next time it changes something.
fn mortal(appliance: &Appliance, after: &str) -> Settings {
    let path = appliance.scratch().join("qemu-img");
    let script = format!(
        "#!/bin/sh\ncase $1 in snapshot) ;; *) exec qemu-img \"$@\" ;; esac\nqemu-img \"$@\" & sleep {after}; kill -9 $! 2>/dev/null && exit 1; wait $!\n"
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    Settings { qemu_img: path, ..settings() }
}

#[test]
fn qemu_img_killed_at_any_time_leaves_a_disk_on_which_the_same_call_ends_well() {
    let appliance = Appliance::new();
    let image = appliance.install(&Guest::new("v1.0.0-1-a"));
    let (first, second) = (snapshot_id(1), snapshot_id(2));
    let disk = disk(&appliance);
    write(&disk, 1, "0");
    let sample = Sample::of("qemu-img is killed");
    let mut kills = 0;
    for round in sample.with_ends(0..12) {
        let mortal = appliance.seen_with(mortal(&appliance, &format!("0.0{:02}", round * 5)));
        let again = |call: &dyn Fn(&upgrade::backend::vm::Vm) -> Result<(), Error>| {
            let _ = call(&mortal);
            call(&appliance.vm).unwrap_or_else(|error| panic!("round {round}, {sample}: {error}"));
        };
        again(&|vm| vm.snapshot(&first, &image));
        write(&disk, 2, "0");
        write(&disk, 2, "1M");
        again(&|vm| vm.snapshot(&second, &image));
        again(&|vm| vm.revert(&first));
        assert!(holds(&disk, 1, "0") && holds(&disk, 0, "1M"));
        again(&|vm| vm.revert(&second));
        assert!(holds(&disk, 2, "0") && holds(&disk, 2, "1M"));
        again(&|vm| vm.revert(&first));
        for id in [&first, &second] {
            again(&|vm| vm.delete_snapshot(id));
        }
        assert!(appliance.vm.describe().unwrap().snapshots.is_empty());
        assert!(holds(&disk, 1, "0") && holds(&disk, 0, "1M"));
        // Says by its exit code whether anything is lost or wrong.
        qemu_img(&["check", "-q", disk.to_str().unwrap()]);
        // Each of the seven calls of a round was killed.
        kills += 7;
    }
    proof::count(proof::Kind::KillPoints, kills);
}

#[test]
#[ignore = "prove: machines"]
fn a_machine_that_was_killed_starts_again_on_its_disk() {
    let appliance = Appliance::new();
    appliance.install(&Guest::new("v1.0.0-1-a"));
    appliance.start();
    appliance.put("a", "one");
    appliance.kill_process();
    assert!(!appliance.vm.describe().unwrap().on);
    appliance.start();
    assert_eq!(appliance.get("/notes/a").as_deref(), Some("one"));
    appliance.vm.power_off().unwrap();
}
