//! The data that is backed up.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;

const GIBIBYTE: u64 = 1 << 30;

/// Bytes that neither compress nor repeat, from a seed.
fn noise(seed: u64, buffer: &mut [u8]) {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for chunk in buffer.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
    }
}

fn large_file(path: &Path) {
    let mut file = File::create(path).expect("a large file");
    let mut buffer = vec![0; 1 << 20];
    for piece in 0..GIBIBYTE >> 20 {
        noise(piece + 1, &mut buffer);
        file.write_all(&buffer).expect("room for a large file");
    }
    file.sync_all().expect("sync");
}

pub fn small_file(path: &Path, seed: u64) {
    let mut buffer = vec![0; 512 + (seed % 7) as usize * 1024];
    noise(seed + 1, &mut buffer);
    fs::write(path, &buffer).expect("a small file");
}

fn small_files(dir: &Path, count: u64) {
    for number in 0..count {
        let below = dir.join(format!("{:03}", number / 100));
        if number % 100 == 0 {
            fs::create_dir_all(&below).expect("a directory");
        }
        small_file(&below.join(format!("{number:06}")), number);
    }
}

/// A: a 1 GiB file and 2,000 small ones.
pub fn few_large(dir: &Path) {
    large_file(&dir.join("database"));
    small_files(dir, 2_000);
}

/// B: 50,000 small files.
pub fn many_small(dir: &Path) {
    small_files(dir, 50_000);
}

/// 1 % of B, spread over all of it.
pub fn change_one_percent(dir: &Path, round: u64) {
    for number in (0..50_000).step_by(100) {
        let path = dir.join(format!("{:03}", number / 100)).join(format!("{number:06}"));
        small_file(&path, number + 1_000_003 * (round + 1));
    }
}

/// A file that was shared with another one and then overwritten here and there, as a database is after a backup.
pub fn fragmented(dir: &Path) {
    const WANTED: u64 = 90_000;
    let path = dir.join("database");
    large_file(&path);
    let twin = dir.join("twin");
    run(Command::new("cp").arg("--reflink=always").arg(&path).arg(&twin));
    run(Command::new("xfs_io").args(["-c", "cowextsize 4096"]).arg(&path));
    let mut file = File::options().write(true).open(&path).expect("the file");
    let blocks = GIBIBYTE / 4096;
    let mut block = vec![0; 4096];
    for number in 0..WANTED / 2 {
        noise(number + 77, &mut block);
        file.seek(SeekFrom::Start(number * (blocks / (WANTED / 2)) * 4096)).expect("seek");
        file.write_all(&block).expect("write");
    }
    file.sync_all().expect("sync");
    fs::remove_file(twin).expect("the twin goes");
    let answer = Command::new("filefrag").arg(&path).output().expect("filefrag").stdout;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let extents: u64 =
        answer.split(": ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok()).unwrap_or(0);
    assert!(extents >= WANTED * 9 / 10, "only {extents} extents: {answer}");
}

pub fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
