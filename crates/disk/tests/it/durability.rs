//! Durable files, the journal and the lock.

use std::fs;

use crate::common::{FileSystem, Temp, run};
use disk::durable::{
    append_durably, exchange_durably, read_limited, rename_durably, sweep_temporaries, write_durably,
};
use disk::{Error, Journal, Lock};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Step {
    name: String,
    number: u32,
}

fn step(number: u32) -> Step {
    Step { name: format!("step \u{1f9f1} with\nnewline {number}"), number }
}

#[test]
fn a_write_replaces_the_whole_file_and_leaves_nothing_beside_it() {
    let temp = Temp::new();
    // A name as long as names may be leaves no room for a suffix.
    for name in ["file".to_owned(), "n".repeat(255)] {
        let path = temp.path.join(&name);
        write_durably(&path, b"first, and longer").unwrap();
        write_durably(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
    }
    assert_eq!(fs::read_dir(&temp.path).unwrap().count(), 2);
}

#[test]
fn a_write_that_fails_leaves_the_old_content_and_no_temporary() {
    let fs_ = FileSystem::new("ext4", 8);
    let path = fs_.path("file");
    write_durably(&path, b"old").unwrap();
    let error = write_durably(&path, &vec![1; 16 << 20]).unwrap_err();
    assert!(error.is_out_of_space(), "{error:?}");
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(sweep_temporaries(&fs_.root).unwrap(), 0);
    run("chattr", &["+i", fs_.root.to_str().unwrap()]);
    let error = write_durably(&path, b"new").unwrap_err();
    run("chattr", &["-i", fs_.root.to_str().unwrap()]);
    assert!(error.is_denied(), "{error:?}");
    fs_.remount("ro");
    assert!(write_durably(&path, b"new").unwrap_err().is_read_only());
}

#[test]
fn reading_is_limited_and_a_missing_file_is_no_error() {
    let temp = Temp::new();
    let path = temp.path.join("file");
    assert_eq!(read_limited(&path, 10).unwrap(), None);
    fs::write(&path, b"0123456789").unwrap();
    assert_eq!(read_limited(&path, 10).unwrap().unwrap(), b"0123456789");
    assert!(matches!(read_limited(&path, 9), Err(Error::TooLarge { limit: 9, .. })));
}

#[test]
fn a_line_is_never_glued_to_one_that_was_torn() {
    let temp = Temp::new();
    let path = temp.path.join("log");
    append_durably(&path, b"one").unwrap();
    append_durably(&path, b"two").unwrap();
    fs::write(&path, b"one\ntw").unwrap();
    append_durably(&path, b"three").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"one\ntw\nthree\n");
}

#[test]
fn a_rename_never_replaces_and_an_exchange_swaps() {
    let temp = Temp::new();
    let (a, b) = (temp.path.join("a"), temp.path.join("b"));
    fs::create_dir(&a).unwrap();
    fs::write(a.join("inside"), b"a").unwrap();
    rename_durably(&a, &b).unwrap();
    fs::create_dir(&a).unwrap();
    assert!(matches!(rename_durably(&a, &b), Err(Error::Exists { path }) if path == b));
    exchange_durably(&a, &b).unwrap();
    assert!(a.join("inside").exists() && !b.join("inside").exists());
    assert!(exchange_durably(&a, &temp.path.join("none")).unwrap_err().is_not_found());
}

#[test]
fn records_come_back_in_order_until_they_are_cleared() {
    let temp = Temp::new();
    let path = temp.path.join("journal");
    let (mut journal, records) = Journal::<Step>::open(&path).unwrap();
    assert_eq!(records, []);
    for n in 0..5 {
        journal.append(&step(n)).unwrap();
    }
    drop(journal);
    let (mut journal, records) = Journal::<Step>::open(&path).unwrap();
    assert_eq!(records, (0..5).map(step).collect::<Vec<_>>());
    journal.clear().unwrap();
    journal.append(&step(9)).unwrap();
    assert_eq!(Journal::<Step>::open(&path).unwrap().1, [step(9)]);
}

#[test]
fn a_record_torn_at_any_byte_is_dropped_and_the_next_one_is_whole() {
    let temp = Temp::new();
    let path = temp.path.join("journal");
    let (mut journal, _) = Journal::<Step>::open(&path).unwrap();
    journal.append(&step(0)).unwrap();
    let kept = fs::read(&path).unwrap().len();
    journal.append(&step(1)).unwrap();
    let whole = fs::read(&path).unwrap();
    for cut in kept..whole.len() {
        // Cut short, or with the length written and the bytes not.
        for zeros in [0, whole.len() - cut] {
            let mut torn = whole[..cut].to_vec();
            torn.resize(cut + zeros, 0);
            fs::write(&path, &torn).unwrap();
            let (mut journal, records) = Journal::<Step>::open(&path).unwrap();
            assert_eq!(records, [step(0)], "cut at {cut}");
            assert_eq!(journal.had_torn_tail(), torn.len() > kept);
            journal.append(&step(2)).unwrap();
            assert_eq!(Journal::<Step>::open(&path).unwrap().1, [step(0), step(2)]);
        }
    }
}

#[test]
fn damage_before_the_last_record_is_an_error_that_names_the_line_and_keeps_what_came_before() {
    let temp = Temp::new();
    let path = temp.path.join("journal");
    let (mut journal, _) = Journal::<Step>::open(&path).unwrap();
    let mut ends = Vec::new();
    for n in 0..3 {
        journal.append(&step(n)).unwrap();
        ends.push(fs::read(&path).unwrap().len());
    }
    let whole = fs::read(&path).unwrap();
    for at in ends[0]..ends[1] {
        let mut bad = whole.clone();
        bad[at] ^= 0x04;
        fs::write(&path, &bad).unwrap();
        match Journal::<Step>::open(&path) {
            Err(Error::JournalDamaged { line: 2, before, path: p, .. }) => {
                assert_eq!(p, path);
                assert_eq!(serde_json::from_str::<Step>(&before[0]).unwrap(), step(0));
                assert_eq!(before.len(), 1);
            }
            other => panic!("byte {at}: {other:?}"),
        }
        assert_eq!(fs::read(&path).unwrap(), bad, "a damaged journal is not touched");
    }
    // A line that is gone altogether.
    fs::write(&path, [&whole[..ends[0]], &whole[ends[1]..]].concat()).unwrap();
    assert!(matches!(Journal::<Step>::open(&path), Err(Error::JournalDamaged { line: 2, .. })));
}

#[test]
fn a_journal_on_a_full_disk_says_so_and_stays_whole() {
    let fs_ = FileSystem::new("ext4", 8);
    let path = fs_.path("journal");
    let (mut journal, _) = Journal::<Step>::open(&path).unwrap();
    journal.append(&step(1)).unwrap();
    let _ = fs::write(fs_.path("ballast"), vec![0; 16 << 20]);
    let big = Step { name: "x".repeat(100_000), number: 0 };
    assert!(journal.append(&big).unwrap_err().is_out_of_space());
    fs::remove_file(fs_.path("ballast")).unwrap();
    journal.append(&step(2)).unwrap();
    assert_eq!(Journal::<Step>::open(&path).unwrap().1, [step(1), step(2)]);
}

#[test]
fn a_lock_is_held_by_one_and_names_its_holder() {
    let temp = Temp::new();
    let path = temp.path.join("lock");
    let lock = Lock::try_acquire(&path).unwrap().unwrap();
    assert!(Lock::try_acquire(&path).unwrap().is_none());
    let holder = Lock::holder(&path).unwrap().unwrap();
    assert_eq!(holder.pid, std::process::id());
    let this = std::env::current_exe().unwrap();
    assert!(holder.command.contains(this.file_name().unwrap().to_str().unwrap()), "{holder:?}");
    drop(lock);
    assert_eq!(Lock::holder(&path).unwrap(), None);
    assert!(Lock::try_acquire(&path).unwrap().is_some());
    fs::write(&path, b"{ nonsense").unwrap();
    assert_eq!(Lock::holder(&path).unwrap(), None);
}

#[test]
fn a_lock_that_is_shared_is_held_until_the_last_child_has_ended() {
    let temp = Temp::new();
    let path = temp.path.join("lock");
    let lock = Lock::try_acquire(&path).unwrap().unwrap();
    let shared = lock.share(&path).unwrap();
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    drop((lock, shared));
    assert!(Lock::is_held(&path).unwrap());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!Lock::is_held(&path).unwrap());
}
