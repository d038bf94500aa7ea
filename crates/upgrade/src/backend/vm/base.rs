//! What a machine's disk may stand on: an image on this host, which is only ever read.
//!
//! An image of the form qcow2 can name another file that it stands on itself, and QEMU would open that, whatever it is.
//! An image comes from elsewhere: it may name what lies beside it, and nothing else of this host.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use super::error::Error;
use super::qemu_img::QemuImg;
use crate::backend::Result;

const QCOW2: &[u8] = b"QFI\xfb";
/// More images than this do not stand on each other for a good reason.
const DEEPEST: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    pub path: PathBuf,
    pub format: &'static str,
    pub bytes: u64,
}

/// The image at `path`, if it may be stood on.
pub fn examine(qemu_img: &QemuImg, path: &Path) -> Result<Base> {
    let refused = |why: String| Error::Base { path: path.to_owned(), why };
    let whole = fs::canonicalize(path).map_err(|error| refused(error.to_string()))?;
    let directory = whole.parent().unwrap_or(Path::new("/")).to_owned();
    let first = one(qemu_img, &whole, None).map_err(refused)?;
    let (base, mut below) = first;
    let mut depth = 0;
    while let Some((next, format)) = below {
        depth += 1;
        if depth > DEEPEST {
            return Err(refused(format!("more than {DEEPEST} images stand on each other")).into());
        }
        let inside = within(&directory, &next).map_err(refused)?;
        (_, below) = one(qemu_img, &inside, Some(&format)).map_err(refused)?;
    }
    Ok(base)
}

/// What an image stands on, as it names it, and the form that it says that has.
type Below = Option<(String, String)>;

fn one(qemu_img: &QemuImg, path: &Path, said: Option<&str>) -> std::result::Result<(Base, Below), String> {
    let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err(format!("{} is not a file", path.display()));
    }
    let format = match said {
        None if has_magic(path).map_err(|error| error.to_string())? => "qcow2",
        None | Some("raw") => "raw",
        Some("qcow2") => "qcow2",
        Some(other) => return Err(format!("{} is said to be {other:?}", path.display())),
    };
    let info = qemu_img.info(path, format).map_err(|error| error.to_string())?;
    let base = Base { path: path.to_owned(), format, bytes: info.virtual_size };
    if format == "raw" {
        return Ok((base, None));
    }
    if info.data_file().is_some() {
        return Err(format!("{} has its data in another file", path.display()));
    }
    let below = match (info.backing_filename, info.backing_filename_format) {
        (None, _) => None,
        (Some(name), Some(format)) => Some((name, format)),
        // It would be guessed from content that somebody else may have written.
        (Some(name), None) => return Err(format!("it does not say of which form {name:?} is")),
    };
    Ok((base, below))
}

/// `name`, as an image in `directory` names it, if it lies there.
fn within(directory: &Path, name: &str) -> std::result::Result<PathBuf, String> {
    let outside = || format!("it stands on {name:?}, which is not beside it");
    // Before the first slash a colon makes it a protocol: nbd:, json:, ssh:.
    if name.split('/').next().is_some_and(|first| first.contains(':')) {
        return Err(outside());
    }
    let path = fs::canonicalize(directory.join(name)).map_err(|_| outside())?;
    if path.parent() == Some(directory) { Ok(path) } else { Err(outside()) }
}

fn has_magic(path: &Path) -> std::io::Result<bool> {
    let mut start = Vec::new();
    File::open(path)?.take(QCOW2.len() as u64).read_to_end(&mut start)?;
    Ok(start == QCOW2)
}
