//! A small file kept twice, so that one damaged copy loses nothing.
//!
//! The second copy has the same content, written after the first: at any instant at least one is whole, and a reader
//! that has to use the second gets what was written last, not what was written before that. A record that is one
//! write behind could name the wrong owner of the data.

use std::path::{Path, PathBuf};

use disk::durable::{read_limited, write_durably};

/// What could be read of a file that is kept twice.
#[derive(Debug)]
pub enum Kept<T> {
    Missing,
    Whole(T),
    /// The file itself is damaged; this is its second copy.
    Second(T, String),
    Damaged(String),
}

/// What one copy holds.
enum Half<T> {
    Missing,
    Whole(T),
    Bad(String),
}

pub fn second(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.second"))
}

pub fn read<T>(
    path: &Path,
    limit: u64,
    parse: impl Fn(&[u8]) -> Result<T, String>,
) -> Result<Kept<T>, disk::Error> {
    let half = |path: &Path| -> Result<Half<T>, disk::Error> {
        match read_limited(path, limit) {
            Ok(None) => Ok(Half::Missing),
            Ok(Some(bytes)) if bytes.iter().all(u8::is_ascii_whitespace) => {
                Ok(Half::Bad("it is empty".to_owned()))
            }
            Ok(Some(bytes)) => Ok(parse(&bytes).map_or_else(Half::Bad, Half::Whole)),
            Err(error @ disk::Error::TooLarge { .. }) => Ok(Half::Bad(error.to_string())),
            Err(error) => Err(error),
        }
    };
    Ok(match half(path)? {
        Half::Whole(value) => Kept::Whole(value),
        Half::Missing => Kept::Missing,
        Half::Bad(why) => match half(&second(path))? {
            Half::Whole(value) => Kept::Second(value, why),
            Half::Missing | Half::Bad(_) => Kept::Damaged(why),
        },
    })
}

pub fn write(path: &Path, bytes: &[u8]) -> Result<(), disk::Error> {
    write_durably(path, bytes)?;
    write_durably(&second(path), bytes)
}
