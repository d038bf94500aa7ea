//! Chunks that a disk, or another disk of the node, holds already are not fetched: taken, verified, shared where possible.

use std::fs;
use std::os::unix::fs::FileExt;

use crate::support::{Image, Place, fill, noise};
use images::file::{FileError, ImageFile, Reused, Validators};
use testkit::proof::{self, Kind};
use testkit::sample::Sample;
use testkit::scratch_fs::{FsKind, ScratchFs};

/// The next version of an image: something inserted, something changed, something appended.
fn next(content: &[u8]) -> Image {
    let mut next = content.to_vec();
    next.splice(500_000..500_000, *b"inserted");
    let middle = next.len() / 2;
    next[middle..middle + 5000].fill(7);
    next.extend(noise(200_000, 99));
    Image::new(next)
}

fn list(file: &ImageFile, image: &Image) {
    file.extend(0, 0, &image.chunks, Some(image.size()), &Validators::default()).unwrap();
}

/// Brings what is missing, and says how many bytes that were.
fn complete(file: &ImageFile, image: &Image) -> u64 {
    let missing: Vec<usize> =
        file.with(|list, held, _| (0..list.len()).filter(|index| !held.contains(*index)).collect()).unwrap();
    for index in &missing {
        assert_eq!(file.put(*index, image.bytes(*index..*index + 1)).unwrap().bad, Vec::<usize>::new());
    }
    file.set_seal(image.seal()).unwrap();
    file.finish().unwrap();
    assert!(fs::read(file.path()).unwrap() == image.content);
    missing.iter().map(|index| u64::from(image.chunks[*index].length)).sum()
}

#[test]
fn of_the_next_version_only_what_changed_is_fetched() {
    let place = Place::new();
    let first = Image::of(20_000_000);
    fill(&place.other(1), &first);
    let second = next(&first.content);
    let file = place.other(2);
    list(&file, &second);
    let reused = file.fill_from_this_disk().unwrap();
    assert_eq!(reused.bytes, file.filled_now().bytes);
    let fetched = complete(&file, &second);
    assert_eq!(reused.bytes + fetched, second.size());
    assert!(fetched < 1_500_000, "{fetched}");
}

#[test]
fn a_growing_list_is_looked_through_once() {
    let place = Place::new();
    let image = Image::of(10_000_000);
    fill(&place.other(1), &image);
    let file = place.other(2);
    let mut reused = Reused::default();
    for start in (0..image.chunks.len()).step_by(16) {
        let end = (start + 16).min(image.chunks.len());
        file.extend(0, start, &image.chunks[start..end], Some(image.size()), &Validators::default()).unwrap();
        reused += file.fill_from_this_disk().unwrap();
        assert_eq!(file.fill_from_this_disk().unwrap(), Reused::default());
    }
    assert_eq!((reused.chunks, reused.bytes), (image.chunks.len(), image.size()));
    assert_eq!(complete(&file, &image), 0);
}

#[test]
fn what_is_damaged_in_another_image_is_not_taken_from_it() {
    let place = Place::new();
    let image = Image::of(5_000_000);
    let donor = place.other(1);
    fill(&donor, &image);
    let raw = fs::OpenOptions::new().write(true).open(donor.path()).unwrap();
    raw.write_all_at(&[!image.content[usize::try_from(image.start(7)).unwrap()]], image.start(7)).unwrap();
    let file = place.other(2);
    list(&file, &image);
    assert_eq!(file.fill_from_this_disk().unwrap().chunks, image.chunks.len() - 1);
    assert!(!file.with(|_, held, _| held.contains(7)).unwrap());
    // Nor from one that was cut off, or is gone.
    raw.set_len(image.start(3)).unwrap();
    let third = place.other(3);
    drop(file);
    place.disk.remove(&place.name, place.other(2).id()).unwrap();
    list(&third, &image);
    assert!(third.fill_from_this_disk().unwrap().chunks <= 3);
    complete(&third, &image);
}

#[test]
fn a_damaged_image_is_repaired_from_another_one_of_the_disk() {
    let place = Place::new();
    let image = Image::of(3_000_000);
    fill(&place.other(1), &image);
    let file = place.other(2);
    fill(&file, &image);
    fs::OpenOptions::new().write(true).open(file.path()).unwrap().write_all_at(b"!", 70_000).unwrap();
    assert_eq!(file.scrub(&mut |_| true).unwrap().len(), 1);
    assert!(!file.filled_now().downloaded);
    assert_eq!(file.fill_from_this_disk().unwrap().chunks, 1);
    file.finish().unwrap();
    assert!(fs::read(file.path()).unwrap() == image.content);
}

#[test]
fn another_disk_of_the_node_gives_what_it_has_whole_or_not() {
    let (here, there) = (Place::new(), Place::new());
    let image = Image::of(6_000_000);
    let donor = there.open();
    list(&donor, &image);
    donor.put(0, image.bytes(0..20)).unwrap();
    let file = here.open();
    assert_eq!(file.copy_from(donor.dir()).unwrap(), Reused::default());
    list(&file, &image);
    assert_eq!(file.copy_from(donor.dir()).unwrap().chunks, 20);
    donor.put(20, image.bytes(20..image.chunks.len())).unwrap();
    donor.set_seal(image.seal()).unwrap();
    donor.finish().unwrap();
    assert_eq!(file.copy_from(donor.dir()).unwrap().chunks, image.chunks.len() - 20);
    assert_eq!(complete(&file, &image), 0);
    let outside = here.outside().join("link");
    std::os::unix::fs::symlink(donor.dir(), &outside).unwrap();
    assert!(matches!(file.copy_from(&outside), Err(FileError::Stranger { .. })));
}

#[test]
fn zeros_are_not_fetched_and_take_no_room() {
    let place = Place::new();
    let mut content = noise(1_000_000, 4);
    content.extend(vec![0; 20 << 20]);
    content.extend(noise(1_000_000, 5));
    let image = Image::new(content);
    let file = place.open();
    list(&file, &image);
    let reused = file.fill_from_this_disk().unwrap();
    assert!(reused.bytes > 19 << 20, "{reused:?}");
    complete(&file, &image);
    assert!(file.real_size() < 4 << 20, "{}", file.real_size());
}

#[test]
fn where_the_file_system_can_blocks_are_shared_and_no_room_is_taken() {
    for kind in [FsKind::Xfs { reflink: true }, FsKind::Btrfs] {
        let scratch = ScratchFs::new(kind, kind.smallest().max(400 << 20));
        let place = Place::below(scratch.path(), 0);
        let image = Image::of(40_000_000);
        let donor = place.other(1);
        fill(&donor, &image);
        let free = place.disk.room().unwrap().free;
        let file = place.other(2);
        list(&file, &image);
        let reused = file.fill_from_this_disk().unwrap();
        assert!(reused.shared > image.size() * 9 / 10, "{kind:?}: {reused:?}");
        assert_eq!(complete(&file, &image), 0);
        // Changing one leaves the other as it is.
        fs::OpenOptions::new()
            .write(true)
            .open(donor.path())
            .unwrap()
            .write_all_at(&[1; 9000], 100_000)
            .unwrap();
        assert!(fs::read(file.path()).unwrap() == image.content);
        assert_eq!(file.scrub(&mut |_| true).unwrap(), Vec::<usize>::new());
        let taken = free.saturating_sub(place.disk.room().unwrap().free);
        assert!(taken < image.size() / 2, "{kind:?}: {taken}");
    }
}

#[test]
fn room_for_the_whole_is_set_aside_at_once_and_given_back_as_it_fills() {
    for kind in [FsKind::Ext4, FsKind::Xfs { reflink: true }] {
        let scratch = ScratchFs::new(kind, 640 << 20);
        let place = Place::below(scratch.path(), 0);
        let free = || place.disk.room().unwrap().free;
        let before = free();
        let image = Image::of(40 << 20);
        let size = before * 3 / 5;
        let file = place.other(1);
        file.extend(0, 0, &image.chunks, Some(size), &Validators::default()).unwrap();
        assert!(free() <= before - size + (8 << 20), "{kind:?}: {} of {before} are free", free());
        let refused = place.other(2).extend(0, 0, &image.chunks, Some(size), &Validators::default());
        assert!(matches!(refused, Err(FileError::NoRoom { .. })), "{refused:?}");
        let during = free();
        file.put(0, &image.content).unwrap();
        file.release().unwrap();
        drop(file);
        // What is written is taken, the rest is free again.
        assert!(free() > during + size / 2, "{kind:?}");
        place.other(2).extend(0, 0, &image.chunks, Some(size), &Validators::default()).unwrap();
    }
}

#[test]
fn a_disk_that_fills_up_in_the_middle_loses_nothing() {
    let scratch = ScratchFs::new(FsKind::Ext4, 64 << 20);
    let place = Place::below(scratch.path(), 0);
    let image = Image::of(20 << 20);
    let file = place.open();
    // Nobody says how long it will be: room is set aside step by step, here as much as there is.
    file.extend(0, 0, &image.chunks[..4], None, &Validators::default()).unwrap_err();
    let file = place.reopen(file);
    list(&file, &image);
    file.put(0, image.bytes(0..50)).unwrap();
    // Nothing is set aside while nobody fetches; and somebody else takes the room.
    let file = place.reopen(file);
    let hog = scratch.path().join("hog");
    let full = fs::File::create(&hog).unwrap();
    let mut at = 0;
    while full.write_all_at(&[1; 65_536], at).is_ok() {
        at += 65_536;
    }
    let mut error = None;
    for index in 50..image.chunks.len() {
        if let Err(failed) = file.put(index, image.bytes(index..index + 1)) {
            error = Some(failed);
            break;
        }
    }
    let error = error.expect("a full disk");
    assert!(error.is_out_of_space() && error.hint().unwrap().contains("kept"), "{error:?}");
    let held = file.filled_now().held;
    assert!(held >= 50);
    drop(full);
    fs::remove_file(&hog).unwrap();
    let file = place.reopen(file);
    assert!(file.filled_now().held >= 50, "{}", file.filled_now().held);
    complete(&file, &image);
}

#[test]
fn after_a_power_cut_everything_that_counts_is_right() {
    let kinds = [FsKind::Xfs { reflink: true }, FsKind::Ext4];
    let drawn = Sample::of("images without power").rotate(&kinds);
    proof::count(Kind::PowerCuts, 2 * drawn.len());
    for (kind, sample) in drawn {
        let scratch = ScratchFs::new(*kind, kind.smallest().max(200 << 20));
        let mut place = Place::below(scratch.path(), 0);
        let image = Image::of(60 << 20);
        let file = place.open();
        list(&file, &image);
        for start in (0..image.chunks.len()).step_by(16) {
            let end = (start + 16).min(image.chunks.len());
            file.put(start, image.bytes(start..end)).unwrap();
        }
        scratch.power_off();
        drop(file);
        let scratch = scratch.power_cut();
        place.mounted_again();
        let file = place.open();
        let held = file.filled_now().held;
        assert_eq!(file.scrub(&mut |_| true).unwrap(), Vec::<usize>::new(), "{kind:?}: of {held}, {sample}");
        list(&file, &image);
        complete(&file, &image);
        scratch.power_off();
        drop(file);
        let _scratch = scratch.power_cut();
        place.mounted_again();
        assert!(place.open().filled_now().downloaded, "{kind:?}, {sample}");
    }
}
