//! The file: kill -9, a second process, damage, files of others.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;
use store::{File, OpenError, Part, Store};

/// Names the file in the process that is killed.
const VICTIM: &str = "HOLDFAST_STORE_VICTIM";

fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("holdfast-store-file-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// Not a test: what the next one starts as a process of its own. Says each size that was answered.
#[tokio::test]
async fn child_process_that_writes() {
    let Some(path) = std::env::var_os(VICTIM) else { return };
    let store = File::open(Path::new(&path)).unwrap();
    let mut object = match store.get("Thing", "a").await.unwrap() {
        Some(object) => object,
        None => store.create("Thing", json!({"metadata": {"name": "a"}, "spec": {"size": 0}})).await.unwrap(),
    };
    loop {
        let mut document = (*object.document).clone();
        let size = document["spec"]["size"].as_u64().unwrap() + 1;
        document["spec"]["size"] = size.into();
        object = store.update("Thing", Part::Spec, document).await.unwrap();
        println!("size {size}");
        std::io::stdout().flush().unwrap();
    }
}

#[tokio::test]
async fn what_was_answered_survives_kill_9() {
    let dir = scratch("killed");
    let path = dir.join("state.redb");
    let mut answered = 0;
    for round in 0..8 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "file::child_process_that_writes", "--nocapture", "--test-threads=1"])
            .env(VICTIM, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut seen = 0;
        for line in lines {
            let line = line.unwrap();
            let Some(size) = line.rsplit_once("size ").and_then(|(_, size)| size.parse::<u64>().ok()) else {
                continue;
            };
            answered = size;
            seen += 1;
            if seen == 3 + round * 5 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        let store = File::open(&path).unwrap();
        let kept = store.get("Thing", "a").await.unwrap().unwrap().document["spec"]["size"].as_u64().unwrap();
        // One more may have been on disk before it was answered.
        assert!(kept == answered || kept == answered + 1, "answered {answered}, kept {kept}");
    }
    assert!(answered > 20);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_second_one_is_refused_while_the_first_is_open() {
    let dir = scratch("second");
    let path = dir.join("state.redb");
    let first = File::open(&path).unwrap();
    let error = File::open(&path).err().unwrap();
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    assert!(error.hint().contains("stop the other one"));
    drop(first);
    assert!(File::open(&path).is_ok());
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_file_of_somebody_else_is_refused_and_left_as_it_is() {
    let dir = scratch("foreign");
    for (name, bytes) in
        [("text", b"hello, world".repeat(1000)), ("zeros", vec![0; 8192]), ("short", b"x".to_vec())]
    {
        let path = dir.join(name);
        std::fs::write(&path, &bytes).unwrap();
        let error = File::open(&path).err().unwrap();
        assert!(matches!(error, OpenError::Foreign { .. } | OpenError::Damaged { .. }), "{name}: {error:?}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "{name}");
    }
    let path = dir.join("redb");
    let other = redb::Database::create(&path).unwrap();
    let transaction = other.begin_write().unwrap();
    transaction.open_table(redb::TableDefinition::<u64, u64>::new("mine")).unwrap().insert(1, 2).unwrap();
    transaction.commit().unwrap();
    drop(other);
    let error = File::open(&path).err().unwrap();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error:?}");
    std::fs::remove_dir_all(dir).unwrap();
}

#[tokio::test]
async fn damage_is_an_error_in_words_or_harmless_never_a_wrong_object() {
    let dir = scratch("damaged");
    let path = dir.join("state.redb");
    {
        let store = File::open(&path).unwrap();
        for at in 0..50 {
            let document = json!({"metadata": {"name": format!("n{at}")}, "spec": {"text": "y".repeat(500)}});
            store.create("Thing", document).await.unwrap();
        }
    }
    let whole = std::fs::read(&path).unwrap();
    let mut refused = 0;
    for at in (0..whole.len()).step_by(whole.len() / 200) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        std::fs::write(&path, &bytes).unwrap();
        match File::open(&path) {
            Ok(store) => {
                for object in store.list("Thing").await.unwrap().items {
                    assert_eq!(object.document["spec"]["text"], "y".repeat(500), "byte {at}");
                }
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 0);
    for length in [1, whole.len() / 2] {
        std::fs::write(&path, &whole[..length]).unwrap();
        assert!(File::open(&path).is_err(), "{length}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}
