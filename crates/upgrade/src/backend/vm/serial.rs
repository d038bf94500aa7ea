//! What the machine says on its serial line. QEMU only ever adds to the file, so it is kept small from outside.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use ::disk::Operation;

pub const FILE: &str = "serial.log";
const BEFORE: &str = "serial.log.1";
/// A longer one is cut off by whoever looks at it.
const LONGEST: u64 = 10 << 20;
/// Of what is cut off, the end is kept.
const KEPT: u64 = 1 << 20;
/// Read at once.
const CHUNK: u64 = 1 << 20;
/// Of the end, what a message is chosen from, and how much of it.
const END: u64 = 16 << 10;
const LAST_WORDS: usize = 400;
const PANIC: &str = "Kernel panic";

/// An empty file for a machine that is about to start; what the one before said is kept beside it.
pub fn start_anew(run: &Path) -> Result<(), ::disk::Error> {
    trim(run)?;
    let path = run.join(FILE);
    match fs::rename(&path, run.join(BEFORE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(::disk::Error::io(Operation::Rename, &path, error))
        }
        _ => Ok(()),
    }
}

/// The machine goes on writing at the end of the file, wherever that is.
pub fn trim(run: &Path) -> Result<(), ::disk::Error> {
    let path = run.join(FILE);
    let failed = |error| ::disk::Error::io(Operation::Write, &path, error);
    let mut file = match OpenOptions::new().read(true).write(true).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    let length = file.metadata().map_err(failed)?.len();
    if length <= LONGEST {
        return Ok(());
    }
    let end = read_from(&mut file, length - KEPT, KEPT).map_err(failed)?;
    fs::write(run.join(BEFORE), end).and_then(|()| file.set_len(0)).map_err(failed)
}

/// Looks for a text, from the start of the machine on, piece by piece as it comes.
#[derive(Debug)]
pub struct Search {
    text: Vec<u8>,
    offset: u64,
}

impl Search {
    pub fn new(text: &str) -> Self {
        Self { text: text.as_bytes().to_vec(), offset: 0 }
    }

    /// Whether it is in what has come since the last time.
    pub fn look(&mut self, run: &Path) -> io::Result<bool> {
        let mut file = match File::open(run.join(FILE)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        loop {
            if file.metadata()?.len() < self.offset {
                self.offset = 0;
            }
            let bytes = read_from(&mut file, self.offset, CHUNK)?;
            if self.text.is_empty() || bytes.windows(self.text.len()).any(|window| window == self.text) {
                return Ok(true);
            }
            // The text may have come by half.
            let fresh = bytes.len().saturating_sub(self.text.len() - 1);
            self.offset += fresh as u64;
            if (bytes.len() as u64) < CHUNK {
                return Ok(false);
            }
        }
    }
}

/// For a message: why the kernel gave up, if it did; else the last lines.
pub fn last_words(run: &Path) -> String {
    let read = || -> io::Result<Vec<u8>> {
        let mut file = File::open(run.join(FILE))?;
        let length = file.metadata()?.len();
        read_from(&mut file, length.saturating_sub(END), END)
    };
    let text = String::from_utf8_lossy(&read().unwrap_or_default()).into_owned();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let words = match lines.clone().find(|line| line.contains(PANIC)) {
        Some(line) => line.to_owned(),
        None => lines.collect::<Vec<_>>().join(" / "),
    };
    let words: Vec<char> = words.chars().filter(|c| !c.is_control()).collect();
    words[words.len().saturating_sub(LAST_WORDS)..].iter().collect()
}

fn read_from(file: &mut File, offset: u64, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(offset))?;
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn scratch(name: &str) -> std::path::PathBuf {
        let run = std::env::temp_dir().join(format!("holdfast-serial-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&run);
        fs::create_dir_all(&run).unwrap();
        run
    }

    fn add(run: &Path, bytes: &[u8]) {
        let mut file = OpenOptions::new().append(true).create(true).open(run.join(FILE)).unwrap();
        file.write_all(bytes).unwrap();
    }

    #[test]
    fn a_text_is_found_that_comes_in_pieces_and_not_one_of_the_machine_before() {
        let run = scratch("pieces");
        add(&run, b"boot\nit is ready\n");
        start_anew(&run).unwrap();
        let mut search = Search::new("is ready");
        assert!(!search.look(&run).unwrap());
        add(&run, b"boot\nit is re");
        assert!(!search.look(&run).unwrap());
        add(&run, b"ady\n");
        assert!(search.look(&run).unwrap());
        assert_eq!(last_words(&run), "boot / it is ready");
        fs::remove_dir_all(run).unwrap();
    }

    #[test]
    fn a_machine_that_talks_without_end_does_not_fill_the_disk() {
        let run = scratch("talks");
        let lines = b"again and again\n".repeat(usize::try_from(LONGEST).unwrap() / 16 + 1);
        add(&run, &lines);
        trim(&run).unwrap();
        assert_eq!(fs::metadata(run.join(FILE)).unwrap().len(), 0);
        assert_eq!(fs::metadata(run.join(BEFORE)).unwrap().len(), KEPT);
        let mut search = Search::new("ready");
        assert!(!search.look(&run).unwrap());
        add(&run, b"ready\n");
        assert!(search.look(&run).unwrap());
        fs::remove_dir_all(run).unwrap();
    }
}
