//! Compares two trees completely: the oracle that tests ask whether a copy is a copy.
//!
//! Independent of `disk` on purpose. Compared are names, kinds, content, permissions, owners, times of
//! modification to the nanosecond, extended attributes (ACLs are such), targets of symbolic links, numbers of
//! devices, which names are the same file, and roughly whether holes stayed holes. Not compared are inode
//! numbers, times of access and change, and the flags of `chattr`.

use rustix::fs::{lgetxattr, llistxattr};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{CString, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Differences beyond this number are only counted.
const MOST_PRINTED: usize = 20;
const BLOCK: usize = 128 << 10;
/// Fewer bytes of holes than this may be lost: file systems allocate ahead and in units of their own.
const SLACK_FOR_HOLES: u64 = 1 << 20;

/// An error lists what differs, one difference per line.
pub fn same_tree(a: &Path, b: &Path) -> Result<(), String> {
    same_tree_except(a, b, &|_, _| false)
}

/// The same, but leaves out what `skip` names, with everything below it: it is given the path below the
/// root and the metadata in the tree where it is.
pub fn same_tree_except(a: &Path, b: &Path, skip: &dyn Fn(&Path, &Metadata) -> bool) -> Result<(), String> {
    let mut comparison = Comparison { a, b, skip, differences: Vec::new(), pairs: Pairs::default() };
    comparison.compare_everything();
    let differences = comparison.differences;
    if differences.is_empty() {
        return Ok(());
    }
    let printed = differences.iter().take(MOST_PRINTED).map(|line| format!("\n  {line}")).collect::<String>();
    let more = match differences.len().saturating_sub(MOST_PRINTED) {
        0 => String::new(),
        more => format!("\n  and {more} more"),
    };
    Err(format!("{} and {} differ:{printed}{more}", a.display(), b.display()))
}

struct Comparison<'a> {
    a: &'a Path,
    b: &'a Path,
    skip: &'a dyn Fn(&Path, &Metadata) -> bool,
    differences: Vec<String>,
    pairs: Pairs,
}

/// Which inode of one tree stands for which of the other. It must be one for one: names that are the same
/// file here must be the same file there, and the other way round.
#[derive(Default)]
struct Pairs {
    a_to_b: HashMap<(u64, u64), ((u64, u64), PathBuf)>,
    b_to_a: HashMap<(u64, u64), ((u64, u64), PathBuf)>,
}

impl Comparison<'_> {
    fn compare_everything(&mut self) {
        let mut to_visit = vec![PathBuf::new()];
        while let Some(name) = to_visit.pop() {
            let found = [self.a, self.b].map(|root| present(&under(root, &name)));
            match found {
                [Err(error), _] => self.differs(&name, format!("cannot be read in the first: {error}")),
                [_, Err(error)] => self.differs(&name, format!("cannot be read in the second: {error}")),
                [Ok(None), Ok(None)] => self.differs(&name, "is in neither".into()),
                [Ok(Some(only)), Ok(None)] if !(self.skip)(&name, &only) => {
                    self.differs(&name, format!("{} is missing in the second", kind(&only)));
                }
                [Ok(None), Ok(Some(only))] if !(self.skip)(&name, &only) => {
                    self.differs(&name, format!("{} is only in the second", kind(&only)));
                }
                [Ok(Some(a)), Ok(Some(b))] if !(self.skip)(&name, &a) => {
                    let compared = self.compare_one(&name, &a, &b, &mut to_visit);
                    compared
                        .unwrap_or_else(|error| self.differs(&name, format!("cannot be compared: {error}")));
                }
                _ => {}
            }
        }
    }

    fn compare_one(
        &mut self,
        name: &Path,
        a: &Metadata,
        b: &Metadata,
        to_visit: &mut Vec<PathBuf>,
    ) -> io::Result<()> {
        if kind(a) != kind(b) {
            self.differs(name, format!("is {} and {}", kind(a), kind(b)));
            return Ok(());
        }
        self.same(name, "mode", format!("{:o}", a.mode()), format!("{:o}", b.mode()));
        self.same(name, "owner", format!("{}:{}", a.uid(), a.gid()), format!("{}:{}", b.uid(), b.gid()));
        self.same(name, "time of modification", time(a), time(b));
        let (path_a, path_b) = (under(self.a, name), under(self.b, name));
        self.compare_attributes(name, &path_a, &path_b)?;
        if a.is_dir() {
            let mut names = names_in(&path_a)?;
            names.append(&mut names_in(&path_b)?);
            // The last is visited first.
            to_visit.extend(names.into_iter().rev().map(|entry| name.join(entry)));
            return Ok(());
        }
        self.compare_links(name, a, b);
        if a.is_symlink() {
            let (target_a, target_b) = (fs::read_link(&path_a)?, fs::read_link(&path_b)?);
            self.same(name, "target", readable(&target_a), readable(&target_b));
        } else if a.is_file() {
            self.compare_content(name, &path_a, &path_b)?;
            self.compare_holes(name, a, b);
        } else if a.file_type().is_block_device() || a.file_type().is_char_device() {
            self.same(name, "device number", a.rdev(), b.rdev());
        }
        Ok(())
    }

    fn compare_attributes(&mut self, name: &Path, path_a: &Path, path_b: &Path) -> io::Result<()> {
        let (mut a, mut b) = (attributes(path_a)?, attributes(path_b)?);
        let every_key: BTreeSet<CString> = a.keys().chain(b.keys()).cloned().collect();
        for key in every_key {
            let shown = |value: Option<Vec<u8>>| {
                value.map_or("absent".into(), |value| format!("\"{}\"", value.escape_ascii()))
            };
            let what = format!("attribute {}", key.to_string_lossy());
            self.same(name, &what, shown(a.remove(&key)), shown(b.remove(&key)));
        }
        Ok(())
    }

    fn compare_links(&mut self, name: &Path, a: &Metadata, b: &Metadata) {
        let (id_a, id_b) = ((a.dev(), a.ino()), (b.dev(), b.ino()));
        let (in_b, first_a) = self.pairs.a_to_b.entry(id_a).or_insert((id_b, name.into())).clone();
        let (in_a, first_b) = self.pairs.b_to_a.entry(id_b).or_insert((id_a, name.into())).clone();
        if in_b != id_b {
            self.differs(name, format!("is one file with {} only in the first", readable(&first_a)));
        }
        if in_a != id_a {
            self.differs(name, format!("is one file with {} only in the second", readable(&first_b)));
        }
    }

    fn compare_content(&mut self, name: &Path, path_a: &Path, path_b: &Path) -> io::Result<()> {
        let (mut a, mut b) = (File::open(path_a)?, File::open(path_b)?);
        let (size_a, size_b) = (a.metadata()?.len(), b.metadata()?.len());
        if size_a != size_b {
            self.differs(name, format!("size is {size_a} and {size_b}"));
            return Ok(());
        }
        let (mut block_a, mut block_b) = (Vec::with_capacity(BLOCK), Vec::with_capacity(BLOCK));
        let mut position = 0;
        loop {
            block_a.clear();
            block_b.clear();
            (&mut a).take(BLOCK as u64).read_to_end(&mut block_a)?;
            (&mut b).take(BLOCK as u64).read_to_end(&mut block_b)?;
            if block_a != block_b {
                let same = block_a.iter().zip(&block_b).take_while(|(a, b)| a == b).count();
                self.differs(name, format!("content differs from byte {}", position + same));
                return Ok(());
            }
            if block_a.is_empty() {
                return Ok(());
            }
            position += block_a.len();
        }
    }

    /// Only one way: a copy that takes less room is no worse, one that lost its holes can fill a disk.
    fn compare_holes(&mut self, name: &Path, a: &Metadata, b: &Metadata) {
        let holes = |file: &Metadata| file.len().saturating_sub(file.blocks() * 512);
        if holes(a) > SLACK_FOR_HOLES && holes(b) < holes(a) / 2 {
            self.differs(name, format!("holes take {} bytes and {}", holes(a), holes(b)));
        }
    }

    fn same<T: PartialEq + std::fmt::Display>(&mut self, name: &Path, what: &str, a: T, b: T) {
        if a != b {
            self.differs(name, format!("{what} is {a} and {b}"));
        }
    }

    fn differs(&mut self, name: &Path, how: String) {
        let name = if name.as_os_str().is_empty() { ".".into() } else { readable(name) };
        self.differences.push(format!("{name}: {how}"));
    }
}

/// `join` would add a slash at the end for the root itself, and that would follow a link.
fn under(root: &Path, name: &Path) -> PathBuf {
    if name.as_os_str().is_empty() { root.into() } else { root.join(name) }
}

fn present(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn names_in(directory: &Path) -> io::Result<BTreeSet<OsString>> {
    fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name())).collect()
}

fn kind(metadata: &Metadata) -> &'static str {
    let kind = metadata.file_type();
    match () {
        () if kind.is_dir() => "a directory",
        () if kind.is_file() => "a file",
        () if kind.is_symlink() => "a symbolic link",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () if kind.is_block_device() => "a block device",
        () if kind.is_char_device() => "a character device",
        () => "something unknown",
    }
}

fn time(metadata: &Metadata) -> String {
    format!("{}.{:09}", metadata.mtime(), metadata.mtime_nsec())
}

/// All extended attributes. A file system without them has none.
fn attributes(path: &Path) -> io::Result<BTreeMap<CString, Vec<u8>>> {
    let mut names = vec![0; 64 << 10];
    let length = match llistxattr(path, &mut names) {
        Ok(length) => length,
        Err(Errno::NOTSUP) => 0,
        Err(error) => return Err(error.into()),
    };
    let mut attributes = BTreeMap::new();
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let name = CString::new(name).map_err(io::Error::other)?;
        let mut value = vec![0; 64 << 10];
        let length = lgetxattr(path, &name, &mut value)?;
        value.truncate(length);
        attributes.insert(name, value);
    }
    Ok(attributes)
}

fn readable(path: &Path) -> String {
    path.as_os_str().as_encoded_bytes().escape_ascii().to_string()
}
