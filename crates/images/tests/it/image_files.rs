//! Images as files: resumed after a crash at any point, never whole without every chunk verified, never on the wrong disk.

use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::sync::Arc;

use crate::support::{Image, Place};
use images::file::{DiskDir, FileError, ImageFile, Validators};
use logic::images::{DiskId, Format};

fn forever(_: u64) -> bool {
    true
}

#[test]
fn an_image_is_filled_chunk_by_chunk_in_any_order_and_is_whole_only_at_its_end() {
    let place = Place::new();
    let image = Image::of(5_000_000);
    let file = place.open();
    file.extend(0, 0, &image.chunks, Some(image.size()), &Validators::default()).unwrap();
    for index in (0..image.chunks.len()).rev() {
        assert!(matches!(file.finish(), Err(FileError::NotSealed | FileError::Incomplete { .. })));
        assert_eq!(file.put(index, image.bytes(index..index + 1)).unwrap().good, 1);
    }
    assert!(matches!(file.finish(), Err(FileError::NotSealed)));
    assert!(!file.filled_now().downloaded);
    file.set_seal(image.seal()).unwrap();
    file.finish().unwrap();
    let filled = file.filled_now();
    assert!(filled.downloaded && filled.bytes == image.size());
    assert_eq!(fs::read(file.path()).unwrap(), image.content);
    assert!(!file.dir().join("backing.tmp").exists());
    let shape = file.shape().unwrap();
    assert_eq!((shape.format, shape.virtual_size), (Format::Raw, image.size()));
    drop(file);
    let again = place.open();
    assert!(again.filled_now().downloaded);
    let mut bytes = vec![];
    again.read(0..3, &mut bytes, 0).unwrap();
    assert_eq!(bytes, image.bytes(0..3));
}

#[test]
fn an_empty_image_is_an_image_too() {
    let place = Place::new();
    let image = Image::of(0);
    let file = place.open();
    file.set_seal(image.seal()).unwrap();
    file.finish().unwrap();
    assert!(place.open().filled_now().downloaded);
    assert_eq!(fs::read(file.path()).unwrap(), b"");
}

#[test]
fn bad_chunks_are_named_and_not_written_and_the_good_ones_beside_them_are_kept() {
    let place = Place::new();
    let image = Image::of(3_000_000);
    let file = place.open();
    file.extend(0, 0, &image.chunks, None, &Validators::default()).unwrap();
    let mut bytes = image.bytes(2..7).to_vec();
    let second = image.chunks[2].length as usize + 5;
    bytes[second] ^= 1;
    let put = file.put(2, &bytes).unwrap();
    assert_eq!((put.good, put.bad), (4, vec![3]));
    let mut read = vec![];
    assert!(matches!(file.read(2..5, &mut read, 0), Err(FileError::NotHeld { chunk: 3 })));
    assert!(read.is_empty());
    file.read(4..7, &mut read, 0).unwrap();
    assert_eq!(read, image.bytes(4..7));
    assert!(matches!(file.put(0, &image.content[..100]), Err(FileError::NotWhole { .. })));
}

#[test]
fn a_list_that_contradicts_what_is_known_is_refused_and_changes_nothing() {
    let place = Place::new();
    let (image, other) = (Image::of(3_000_000), Image::seeded(3_000_000, 9));
    let file = place.open();
    let none = Validators::default();
    file.extend(0, 0, &image.chunks[..10], Some(image.size()), &none).unwrap();
    file.extend(0, 5, &image.chunks[5..12], None, &none).unwrap();
    assert!(matches!(file.extend(0, 0, &other.chunks, None, &none), Err(FileError::Contradiction { at: 0 })));
    assert!(matches!(
        file.extend(0, 20, &image.chunks[20..], None, &none),
        Err(FileError::Gap { at: 20, known: 12 })
    ));
    assert!(matches!(
        file.extend(3, 0, &image.chunks, None, &none),
        Err(FileError::Generation { ours: 0, theirs: 3 })
    ));
    assert!(matches!(file.extend(0, 0, &image.chunks, Some(7), &none), Err(FileError::Size { .. })));
    let mut longer = image.chunks.clone();
    longer.extend_from_slice(&other.chunks[..1]);
    assert!(matches!(file.extend(0, 0, &longer, None, &none), Err(FileError::Size { .. })));
    assert_eq!(file.filled_now().listed, 12);
    file.extend(0, 12, &image.chunks[12..], None, &none).unwrap();
    assert!(matches!(file.set_seal(other.seal()), Err(FileError::SealMismatch)));
    file.set_seal(image.seal()).unwrap();
    assert!(matches!(file.set_seal(other.seal()), Err(FileError::OtherSeal)));
    assert_eq!(place.reopen(file).filled_now().listed, image.chunks.len());
}

#[test]
fn one_who_has_nothing_takes_up_any_generation() {
    let place = Place::new();
    let image = Image::of(300_000);
    let file = place.open();
    file.extend(7, 0, &image.chunks, None, &Validators::default()).unwrap();
    assert_eq!(place.reopen(file).filled_now().generation, 7);
}

/// The log is cut at every byte, as a crash may leave it: what is taken up is a part of what was there, and right.
#[test]
fn wherever_the_log_ends_what_is_taken_up_is_right() {
    let place = Place::new();
    let image = Image::of(1_200_000);
    let file = place.open();
    let etag = Validators { etag: Some("\"a\"".into()), last_modified: None };
    file.extend(0, 0, &image.chunks[..6], Some(image.size()), &etag).unwrap();
    file.put(0, image.bytes(0..3)).unwrap();
    file.release().unwrap();
    file.extend(0, 6, &image.chunks[6..], None, &etag).unwrap();
    file.put(8, image.bytes(8..10)).unwrap();
    let dir = file.dir().to_owned();
    drop(file);
    let log = fs::read(dir.join("backing.chunks")).unwrap();
    let (mut before, mut whole) = (0, 0);
    for length in (0..=log.len()).rev() {
        fs::write(dir.join("backing.chunks"), &log[..length]).unwrap();
        let file = place.open();
        let filled = file.filled_now();
        assert!(filled.held <= filled.listed);
        file.with(|list, held, _| {
            assert_eq!(list.chunks(), &image.chunks[..list.len()]);
            assert!(held.iter().all(|index| index < 3 || (8..10).contains(&index)));
        })
        .unwrap();
        before = before.max(filled.held);
        whole += usize::from(filled.held == 5);
    }
    assert!(before == 5 && whole > 0);
    // Damage in the middle costs what lies behind it, and nothing else.
    for at in [10, log.len() / 2, log.len() - 3] {
        let mut damaged = log.clone();
        damaged[at] ^= 0x40;
        fs::write(dir.join("backing.chunks"), &damaged).unwrap();
        let file = place.open();
        file.extend(file.filled_now().generation, 0, &image.chunks, Some(image.size()), &etag).unwrap();
        file.put(0, &image.content).unwrap();
        file.set_seal(image.seal()).unwrap();
        file.finish().unwrap();
        assert_eq!(fs::read(file.path()).unwrap(), image.content);
        fs::rename(dir.join("backing"), dir.join("backing.tmp")).unwrap();
        fs::remove_file(dir.join("backing.cfg")).unwrap();
    }
}

#[test]
fn what_was_written_and_not_synced_is_verified_before_it_counts() {
    let place = Place::new();
    let image = Image::of(1_000_000);
    let file = place.open();
    file.extend(0, 0, &image.chunks, Some(image.size()), &Validators::default()).unwrap();
    file.put(0, image.bytes(0..5)).unwrap();
    let data = file.dir().join("backing.tmp");
    drop(file);
    // As if the power had gone: the log says written, the bytes did not reach the disk.
    let lost = fs::OpenOptions::new().write(true).open(&data).unwrap();
    lost.write_all_at(&[0; 1000], u64::from(image.chunks[0].length)).unwrap();
    let file = place.open();
    assert_eq!(file.filled_now().held, 4);
    assert!(file.with(|_, held, _| held.contains(0) && !held.contains(1)).unwrap());
}

#[test]
fn an_interruption_between_the_last_steps_of_finishing_is_made_good_at_the_next_start() {
    let place = Place::new();
    let image = Image::of(1_000_000);
    let dir = place.whole(&image).dir().to_owned();
    fs::remove_file(dir.join("backing.cfg")).unwrap();
    assert!(place.open().filled_now().downloaded);
    fs::remove_file(dir.join("backing.cfg")).unwrap();
    fs::rename(dir.join("backing"), dir.join("backing.tmp")).unwrap();
    let file = place.open();
    assert!(file.filled_now().downloaded);
    assert_eq!(fs::read(file.path()).unwrap(), image.content);
}

#[test]
fn a_touched_image_counts_as_nothing_until_it_is_verified_and_only_bad_chunks_are_dropped() {
    let place = Place::new();
    let image = Image::of(2_000_000);
    let path = place.whole(&image).path();
    let touch = || fs::File::options().write(true).open(&path).unwrap();
    // Only its time.
    touch().set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    let file = place.open();
    assert!(file.filled_now().checking && !file.filled_now().downloaded && file.filled_now().held == 0);
    file.verify(&mut forever).unwrap();
    assert!(file.filled_now().downloaded && !file.filled_now().checking);
    assert!(place.reopen(file).filled_now().downloaded);
    // A byte of chunk 2, while it is open.
    let file = place.open();
    touch().write_all_at(b"!", image.start(2)).unwrap();
    assert!(!file.check().unwrap());
    assert!(file.filled_now().checking);
    file.verify(&mut forever).unwrap();
    let filled = file.filled_now();
    assert_eq!((filled.downloaded, filled.checking, filled.held), (false, false, image.chunks.len() - 1));
    let file = place.reopen(file);
    assert_eq!(file.filled_now().held, image.chunks.len() - 1);
    file.put(2, image.bytes(2..3)).unwrap();
    file.finish().unwrap();
    assert_eq!(fs::read(&path).unwrap(), image.content);
    // Longer, and shorter.
    touch().write_all_at(b"more", image.size()).unwrap();
    assert!(!file.check().unwrap());
    file.verify(&mut forever).unwrap();
    assert!(file.filled_now().downloaded);
    assert_eq!(fs::read(&path).unwrap(), image.content);
    touch().set_len(image.start(5)).unwrap();
    assert!(!file.check().unwrap());
    file.verify(&mut forever).unwrap();
    assert_eq!(file.filled_now().held, 5);
    // Gone.
    file.put(5, image.bytes(5..image.chunks.len())).unwrap();
    file.finish().unwrap();
    fs::remove_file(&path).unwrap();
    assert!(!file.check().unwrap());
    assert_eq!((file.filled_now().held, file.filled_now().listed), (0, image.chunks.len()));
    file.put(0, &image.content).unwrap();
    file.finish().unwrap();
    assert_eq!(fs::read(&path).unwrap(), image.content);
}

#[test]
fn a_whole_image_whose_list_was_lost_is_cut_again_and_a_changed_one_then_is_nothing() {
    let place = Place::new();
    let image = Image::of(2_000_000);
    let dir = place.whole(&image).dir().to_owned();
    fs::remove_file(dir.join("backing.chunks")).unwrap();
    let file = place.open();
    assert!(file.filled_now().downloaded);
    // Only who asks for chunks finds out.
    file.with(|_, _, _| ()).unwrap();
    assert!(file.filled_now().checking);
    file.verify(&mut forever).unwrap();
    assert!(file.filled_now().downloaded);
    assert_eq!(file.with(|list, _, _| list.chunks().to_vec()).unwrap(), image.chunks);
    drop(file);
    fs::remove_file(dir.join("backing.chunks")).unwrap();
    fs::OpenOptions::new().write(true).open(dir.join("backing")).unwrap().write_all_at(b"!", 9).unwrap();
    let file = place.open();
    file.verify(&mut forever).unwrap();
    assert_eq!((file.filled_now().listed, file.filled_now().downloaded), (0, false));
}

#[test]
fn a_suspected_chunk_is_dropped_only_if_it_is_bad_and_that_survives_a_crash() {
    let place = Place::new();
    let image = Image::of(2_000_000);
    let file = place.whole(&image);
    assert!(!file.suspect(4).unwrap());
    assert!(file.filled_now().downloaded);
    let raw = fs::OpenOptions::new().write(true).open(file.path()).unwrap();
    raw.write_all_at(&[image.content[usize::try_from(image.start(4)).unwrap()] ^ 1], image.start(4)).unwrap();
    assert!(file.suspect(4).unwrap());
    assert!(!file.suspect(4).unwrap());
    let filled = file.filled_now();
    assert_eq!((filled.downloaded, filled.held), (false, image.chunks.len() - 1));
    let file = place.reopen(file);
    assert_eq!((file.filled_now().downloaded, file.filled_now().held), (false, image.chunks.len() - 1));
    assert_eq!(file.scrub(&mut forever).unwrap(), Vec::<usize>::new());
    file.put(4, image.bytes(4..5)).unwrap();
    file.finish().unwrap();
    let config = fs::File::options().write(true).open(file.dir().join("backing.cfg")).unwrap();
    config.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(file.scrub(&mut forever).unwrap(), Vec::<usize>::new());
    assert_ne!(file.verified_at(), Some(std::time::SystemTime::UNIX_EPOCH));
    assert!(place.reopen(Arc::clone(&file)).filled_now().downloaded);
    raw.write_all_at(&[image.content[0] ^ 1], 0).unwrap();
    assert_eq!(file.scrub(&mut forever).unwrap(), [0]);
    assert!(!file.filled_now().downloaded);
    assert!(matches!(file.scrub(&mut |_| false), Err(FileError::Cancelled)));
}

#[test]
fn a_changed_origin_begins_a_new_generation_with_nothing() {
    let place = Place::new();
    let (image, other) = (Image::of(2_000_000), Image::seeded(1_000_000, 5));
    let file = place.open();
    let etag = Validators { etag: Some("\"a\"".into()), last_modified: None };
    file.extend(0, 0, &image.chunks, Some(image.size()), &etag).unwrap();
    file.put(0, image.bytes(0..8)).unwrap();
    file.restart().unwrap();
    let filled = file.filled_now();
    assert_eq!((filled.generation, filled.listed, filled.bytes, filled.total), (1, 0, 0, None));
    assert!(file.validators().is_empty());
    assert!(matches!(file.restart_at(1), Err(FileError::Generation { .. })));
    file.extend(1, 0, &other.chunks, None, &etag).unwrap();
    file.put(0, &other.content).unwrap();
    file.set_seal(other.seal()).unwrap();
    file.finish().unwrap();
    assert_eq!(fs::read(file.path()).unwrap(), other.content);
    assert!(matches!(file.restart(), Err(FileError::Whole)));
    file.discard().unwrap();
    assert!(!file.path().exists());
    assert_eq!(file.real_size(), 0);
    assert!(!place.reopen(file).filled_now().downloaded);
}

#[test]
fn space_is_refused_before_a_byte_is_written_and_the_reason_names_the_numbers() {
    let place = Place::with_reserve(1 << 60);
    let image = Image::of(1_000_000);
    let file = place.open();
    let refused = file.extend(0, 0, &image.chunks, Some(image.size()), &Validators::default()).unwrap_err();
    assert!(refused.is_out_of_space());
    assert!(refused.to_string().contains("1000000 bytes more are needed"), "{refused}");
    assert!(refused.hint().unwrap().contains("cleanup"));
    assert_eq!(file.real_size(), 0);
    assert_eq!(file.filled_now().listed, 0);
}

#[test]
fn nothing_is_touched_on_a_disk_that_is_not_the_expected_one() {
    let place = Place::new();
    let other = DiskId::parse("1b4e28ba-2fa1-41d2-883f-0016d3cca427").unwrap();
    let refused = DiskDir::open(place.path(), Some(&other), 0).unwrap_err();
    assert!(refused.is_wrong_disk() && refused.to_string().contains(other.as_str()), "{refused}");
    let file = place.open();
    let config = place.path().join("holdfast-disk.cfg");
    let before = fs::read(&config).unwrap();
    // Exchanged while the manager runs.
    fs::write(&config, format!("{{\"diskUUID\":\"{other}\"}}")).unwrap();
    let image = Image::of(100_000);
    let extended = file.extend(0, 0, &image.chunks, None, &Validators::default());
    assert!(matches!(extended, Err(FileError::WrongDisk { .. })));
    assert!(file.check().unwrap_err().is_wrong_disk());
    assert!(place.disk.remove(file.name(), file.id()).unwrap_err().is_wrong_disk());
    assert!(place.disk.scan().unwrap_err().is_wrong_disk());
    assert!(!file.dir().exists());
    // Unmounted.
    fs::remove_file(&config).unwrap();
    assert!(matches!(place.disk.check(), Err(FileError::NotADisk { .. })));
    assert!(place.disk.check().unwrap_err().hint().unwrap().contains("mounted"));
    for nonsense in ["", "{}", "{\"diskUUID\":\"../x\"}", &"x".repeat(10_000)] {
        fs::write(&config, nonsense).unwrap();
        assert!(place.disk.check().is_err(), "{nonsense}");
    }
    fs::write(&config, before).unwrap();
    place.disk.check().unwrap();
}

#[test]
fn a_disk_gets_its_uuid_once() {
    let place = Place::new();
    assert_eq!(DiskDir::init(place.path()).unwrap(), *place.disk.id());
}

#[test]
fn a_link_in_the_place_of_an_image_is_not_followed() {
    let place = Place::new();
    let outside = place.outside();
    fs::create_dir(outside.join("dir")).unwrap();
    fs::write(outside.join("victim"), b"precious").unwrap();
    let image = Image::of(100_000);
    let dir = place.disk.image_dir(&place.name, &place.id);
    symlink(outside.join("dir"), &dir).unwrap();
    assert!(matches!(ImageFile::open(&place.disk, &place.name, &place.id), Err(FileError::Stranger { .. })));
    fs::remove_file(&dir).unwrap();
    fs::create_dir(&dir).unwrap();
    symlink(outside.join("victim"), dir.join("backing.tmp")).unwrap();
    let file = place.open();
    let extended = file.extend(0, 0, &image.chunks, None, &Validators::default());
    assert!(matches!(extended, Err(FileError::Stranger { .. })), "{extended:?}");
    assert_eq!(fs::read(outside.join("victim")).unwrap(), b"precious");
    place.disk.remove(&place.name, &place.id).unwrap();
    assert_eq!(fs::read(outside.join("victim")).unwrap(), b"precious");
    let images = place.path().join("backing-images");
    fs::remove_dir_all(&images).unwrap();
    symlink(&outside, &images).unwrap();
    assert!(matches!(DiskDir::open(place.path(), None, 0), Err(FileError::Stranger { .. })));
}

#[test]
fn images_are_found_by_their_directories_and_removed_whole() {
    let place = Place::new();
    let file = place.whole(&Image::of(100_000));
    fs::create_dir(place.path().join("backing-images/lost+found")).unwrap();
    fs::create_dir(place.path().join("backing-images/.holdfast-removed-x")).unwrap();
    let found = place.disk.scan().unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!((&found[0].name, &found[0].id), (&place.name, &place.id));
    place.disk.remove(&place.name, &place.id).unwrap();
    place.disk.remove(&place.name, &place.id).unwrap();
    assert!(!file.dir().exists());
    DiskDir::open(place.path(), None, 0).unwrap();
    assert!(!place.path().join("backing-images/.holdfast-removed-x").exists());
}

#[test]
fn two_managers_of_one_disk_never_write_to_the_same_image() {
    let place = Place::new();
    let image = Image::of(2_000_000);
    let old = place.open();
    old.extend(0, 0, &image.chunks, None, &Validators::default()).unwrap();
    let new = place.open();
    assert!(matches!(new.put(0, image.bytes(0..1)), Err(FileError::Busy { .. })));
    old.put(0, image.bytes(0..4)).unwrap();
    old.release().unwrap();
    // It wrote since: what the new one read is not what there is.
    assert!(matches!(new.put(0, image.bytes(0..1)), Err(FileError::ChangedByOther { .. })));
    let new = place.reopen(new);
    new.put(4, image.bytes(4..image.chunks.len())).unwrap();
    assert!(matches!(old.put(4, image.bytes(4..5)), Err(FileError::Busy { .. })));
    new.set_seal(image.seal()).unwrap();
    new.finish().unwrap();
    assert_eq!(fs::read(new.path()).unwrap(), image.content);
}

#[test]
fn many_write_at_once_and_the_backlog_is_synced_behind_them() {
    let place = Place::new();
    let image = Image::of(96 << 20);
    let file = place.open();
    file.extend(0, 0, &image.chunks, Some(image.size()), &Validators::default()).unwrap();
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let start = next.fetch_add(16, std::sync::atomic::Ordering::Relaxed);
                    let end = (start + 16).min(image.chunks.len());
                    if start >= end {
                        break;
                    }
                    assert!(file.put(start, image.bytes(start..end)).unwrap().bad.is_empty());
                }
            });
        }
    });
    file.set_seal(image.seal()).unwrap();
    file.finish().unwrap();
    assert_eq!(fs::read(file.path()).unwrap(), image.content);
    file.rest(std::time::Duration::ZERO);
    assert_eq!(file.with(|list, held, _| (list.len(), held.count())).unwrap().1, image.chunks.len());
}
