//! Volumes on real qcow2 files: `qemu-img` and `qemu-io` say what is in them.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use images::volume::{Base, VolumeError, Volumes};
use logic::images::{Format, ImageId, ImageName};
use testkit::registry::Scratch;

const SIZE: u64 = 4 << 20;

fn name(text: &str) -> ImageName {
    ImageName::parse(text).unwrap()
}

fn run(program: &str, args: &[&str]) -> String {
    let done = Command::new(program).args(args).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    assert!(done.status.success(), "{program} {args:?}: {said}");
    said
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A disk with one image on it: four megabytes, each byte the number of its megabyte.
fn disk_with(format: Format) -> (Scratch, Base) {
    let disk = Scratch::new("volumes");
    let base = Base {
        name: name("base"),
        uuid: ImageId::parse("1b4e28ba-2fa1-41d2-883f-0016d3cca427").unwrap(),
        format,
        virtual_size: SIZE,
    };
    let image = disk.0.join("backing-images/base-1b4e28ba-2fa1-41d2-883f-0016d3cca427");
    fs::create_dir_all(&image).unwrap();
    let bytes: Vec<u8> = (0..4_u8).flat_map(|megabyte| vec![megabyte + 1; 1 << 20]).collect();
    match format {
        Format::Raw => fs::write(image.join("backing"), bytes).unwrap(),
        Format::Qcow2 => {
            let raw = disk.0.join("raw");
            fs::write(&raw, bytes).unwrap();
            run(
                "qemu-img",
                &["convert", "-f", "raw", "-O", "qcow2", text(&raw), text(&image.join("backing"))],
            );
        }
    }
    (disk, base)
}

fn write(overlay: &Path, byte: u8, at: &str) {
    run("qemu-io", &["-f", "qcow2", "-c", &format!("write -P {byte} {at} 64k"), text(overlay)]);
}

/// What a guest would read.
fn content(overlay: &Path) -> Vec<u8> {
    let raw = overlay.with_extension("raw");
    run("qemu-img", &["convert", "-f", "qcow2", "-O", "raw", text(overlay), text(&raw)]);
    fs::read(raw).unwrap()
}

fn backup(volumes: &Volumes, volume: &str) -> Vec<u8> {
    let (mut file, stamp) = volumes.read(&name(volume)).unwrap();
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    volumes.unchanged(&name(volume), &file, &stamp).unwrap();
    bytes
}

fn overlay(disk: &Path, volume: &str) -> PathBuf {
    disk.join("volumes").join(volume).join("volume.qcow2")
}

#[test]
fn a_volume_shows_its_image_and_keeps_what_is_written_to_itself() {
    for format in [Format::Raw, Format::Qcow2] {
        let (disk, base) = disk_with(format);
        let volumes = Volumes::open(&disk.0).unwrap();
        let record = volumes.create(&name("v1"), &base, None).unwrap();
        assert_eq!(record.virtual_size, SIZE);
        let before =
            fs::read(disk.0.join("backing-images/base-1b4e28ba-2fa1-41d2-883f-0016d3cca427/backing"))
                .unwrap();
        write(&overlay(&disk.0, "v1"), 0xaa, "1M");
        let content = content(&overlay(&disk.0, "v1"));
        assert_eq!((content[0], content[1 << 20], content[2 << 20]), (1, 0xaa, 3));
        let after = fs::read(disk.0.join("backing-images/base-1b4e28ba-2fa1-41d2-883f-0016d3cca427/backing"))
            .unwrap();
        assert_eq!(before, after);
    }
}

#[test]
fn a_disk_can_be_mounted_elsewhere_with_its_volumes() {
    let (disk, base) = disk_with(Format::Raw);
    Volumes::open(&disk.0).unwrap().create(&name("v1"), &base, None).unwrap();
    let elsewhere = Scratch::new("volumes");
    let moved = elsewhere.0.join("disk");
    fs::rename(&disk.0, &moved).unwrap();
    let found = Volumes::open(&moved).unwrap().get(&name("v1")).unwrap();
    assert_eq!(found.trouble, None);
    assert_eq!(content(&found.path)[3 << 20], 4);
    fs::create_dir(&disk.0).unwrap();
}

#[test]
fn a_restored_volume_reads_like_the_one_that_was_backed_up() {
    let (disk, base) = disk_with(Format::Raw);
    let volumes = Volumes::open(&disk.0).unwrap();
    volumes.create(&name("v1"), &base, Some(2 * SIZE)).unwrap();
    write(&overlay(&disk.0, "v1"), 0x55, "5M");
    let bytes = backup(&volumes, "v1");
    assert!(bytes.len() < 1 << 20, "the image's bytes are not in the backup");

    let (other, base) = disk_with(Format::Raw);
    let volumes = Volumes::open(&other.0).unwrap();
    let mut restore = volumes.restore(&name("again"), &base).unwrap();
    restore.write_all(&bytes).unwrap();
    assert_eq!(restore.finish(None).unwrap().virtual_size, 2 * SIZE);
    run(
        "qemu-img",
        &[
            "compare",
            "-f",
            "qcow2",
            "-F",
            "qcow2",
            text(&overlay(&disk.0, "v1")),
            text(&overlay(&other.0, "again")),
        ],
    );
}

#[test]
fn what_is_restored_is_an_overlay_or_nothing_stays() {
    let (disk, base) = disk_with(Format::Raw);
    let volumes = Volumes::open(&disk.0).unwrap();
    let finish = |bytes: &[u8]| {
        let mut restore = volumes.restore(&name("v1"), &base).unwrap();
        restore.write_all(bytes).unwrap();
        restore.finish(None).unwrap_err()
    };
    assert!(matches!(finish(b"not a disk"), VolumeError::NoOverlay { .. }));
    assert!(matches!(finish(b"QFI\xfb\0\0\0\x03"), VolumeError::Header { .. }));

    let hostile = disk.0.join("hostile");
    let data = format!("data_file={}", text(&disk.0.join("outside")));
    run("qemu-img", &["create", "-f", "qcow2", "-o", &data, text(&hostile), "4M"]);
    assert!(matches!(finish(&fs::read(&hostile).unwrap()), VolumeError::ExternalData { .. }));

    let smaller = disk.0.join("smaller");
    run("qemu-img", &["create", "-f", "qcow2", text(&smaller), "1M"]);
    assert!(matches!(finish(&fs::read(&smaller).unwrap()), VolumeError::TooSmall { .. }));

    // Given up in the middle.
    drop(volumes.restore(&name("v1"), &base).unwrap());
    assert_eq!(fs::read_dir(disk.0.join("volumes")).unwrap().count(), 0);
}

#[test]
fn an_overlay_that_names_another_backing_file_gets_this_disks_image() {
    let (disk, base) = disk_with(Format::Raw);
    let volumes = Volumes::open(&disk.0).unwrap();
    let hostile = disk.0.join("hostile");
    run("qemu-img", &["create", "-u", "-f", "qcow2", "-b", "/etc/shadow", "-F", "raw", text(&hostile), "4M"]);
    let mut restore = volumes.restore(&name("v1"), &base).unwrap();
    restore.write_all(&fs::read(&hostile).unwrap()).unwrap();
    restore.finish(None).unwrap();
    assert_eq!(content(&overlay(&disk.0, "v1"))[0], 1);
    let said = run("qemu-img", &["info", "-f", "qcow2", text(&overlay(&disk.0, "v1"))]);
    assert!(!said.contains("shadow"), "{said}");
}

#[test]
fn a_volume_that_is_open_for_writing_is_neither_read_nor_removed() {
    let (disk, base) = disk_with(Format::Raw);
    let volumes = Volumes::open(&disk.0).unwrap();
    volumes.create(&name("v1"), &base, None).unwrap();
    let mut guest = Command::new("qemu-io")
        .args(["-f", "qcow2", text(&overlay(&disk.0, "v1"))])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Its prompt says that the file is open.
    guest.stdout.as_mut().unwrap().read_exact(&mut [0; 8]).unwrap();
    assert!(matches!(volumes.read(&name("v1")), Err(VolumeError::InUse { .. })));
    assert!(matches!(volumes.delete(&name("v1")), Err(VolumeError::InUse { .. })));
    drop(guest.stdin.take());
    guest.wait().unwrap();
    volumes.delete(&name("v1")).unwrap();
    volumes.delete(&name("v1")).unwrap();
    assert!(matches!(volumes.get(&name("v1")), Err(VolumeError::Missing { .. })));
}

#[test]
fn a_volume_that_changed_while_it_was_read_is_no_backup() {
    let (disk, base) = disk_with(Format::Raw);
    let volumes = Volumes::open(&disk.0).unwrap();
    volumes.create(&name("v1"), &base, None).unwrap();
    let (file, stamp) = volumes.read(&name("v1")).unwrap();
    write(&overlay(&disk.0, "v1"), 7, "0");
    assert!(matches!(volumes.unchanged(&name("v1"), &file, &stamp), Err(VolumeError::Changed { .. })));
}

#[test]
fn a_volume_is_made_once_and_never_moved_to_another_image() {
    let (disk, base) = disk_with(Format::Raw);
    let volumes = Volumes::open(&disk.0).unwrap();
    let first = volumes.create(&name("v1"), &base, None).unwrap();
    write(&overlay(&disk.0, "v1"), 9, "0");
    assert_eq!(volumes.create(&name("v1"), &base, None).unwrap(), first);
    assert_eq!(content(&overlay(&disk.0, "v1"))[0], 9);
    let other =
        Base { uuid: ImageId::parse("00000000-2fa1-41d2-883f-0016d3cca427").unwrap(), ..base.clone() };
    assert!(matches!(volumes.create(&name("v1"), &other, None), Err(VolumeError::OnAnother { .. })));
    assert!(matches!(volumes.create(&name("v2"), &base, Some(1)), Err(VolumeError::TooSmall { .. })));
}

#[test]
fn what_was_left_unfinished_is_swept_but_not_what_somebody_works_on() {
    let (disk, base) = disk_with(Format::Raw);
    let volumes = Volumes::open(&disk.0).unwrap();
    fs::create_dir(disk.0.join("volumes/.left")).unwrap();
    File::create(disk.0.join("volumes/.left/volume.qcow2")).unwrap();
    let restore = volumes.restore(&name("working"), &base).unwrap();
    assert!(matches!(volumes.create(&name("left"), &base, None), Err(VolumeError::Busy { .. })));
    Volumes::open(&disk.0).unwrap();
    assert!(disk.0.join("volumes/.working/volume.qcow2").exists());
    volumes.create(&name("left"), &base, None).unwrap();
    drop(restore);
    assert_eq!(volumes.list().unwrap().0.len(), 1);
}

#[test]
fn a_damaged_volume_is_named_hides_no_other_and_can_be_removed() {
    let (disk, base) = disk_with(Format::Raw);
    let volumes = Volumes::open(&disk.0).unwrap();
    // What is called like this is not locked for that.
    for volume in ["block1", "lock", "whole"] {
        volumes.create(&name(volume), &base, None).unwrap();
    }
    fs::write(overlay(&disk.0, "block1"), b"not a qcow2 any more").unwrap();
    fs::write(disk.0.join("volumes/lock/volume.cfg"), b"{").unwrap();
    let (found, damaged) = volumes.list().unwrap();
    assert_eq!(found.iter().map(|found| found.record.name.as_str()).collect::<Vec<_>>(), ["block1", "whole"]);
    assert_eq!(damaged.iter().map(|damaged| damaged.name.as_str()).collect::<Vec<_>>(), ["lock"]);
    assert!(matches!(volumes.read(&name("block1")), Err(VolumeError::Qemu { .. })));
    for volume in ["block1", "lock"] {
        volumes.delete(&name(volume)).unwrap();
    }
    let (found, damaged) = volumes.list().unwrap();
    assert_eq!((found.len(), damaged.len()), (1, 0));
}
