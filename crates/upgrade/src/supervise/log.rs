//! What a program prints, in a file that does not grow without end: one, and one old.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;

use super::place::Place;

const MOST: u64 = 10 << 20;

/// A log that cannot be written must not keep a program from running: what it prints is then lost.
#[derive(Debug)]
pub struct Log {
    place: Place,
    file: Option<File>,
    length: u64,
}

impl Log {
    pub fn open(place: &Place) -> Self {
        let mut log = Self { place: place.clone(), file: None, length: 0 };
        log.reopen();
        log
    }

    fn reopen(&mut self) {
        self.file = OpenOptions::new().append(true).create(true).mode(0o600).open(self.place.log()).ok();
        self.length = self.file.as_ref().and_then(|file| file.metadata().ok()).map_or(0, |meta| meta.len());
    }

    pub fn write(&mut self, bytes: &[u8]) {
        if self.length > 0 && self.length + bytes.len() as u64 > MOST {
            let _ = fs::rename(self.place.log(), self.place.older_log());
            self.reopen();
        }
        if let Some(file) = &mut self.file
            && file.write_all(bytes).is_ok()
        {
            self.length += bytes.len() as u64;
        }
    }

    /// A line of the supervisor's own.
    pub fn say(&mut self, text: &str) {
        self.write(format!("{} holdfast: {text}\n", jiff::Timestamp::now()).as_bytes());
    }
}
