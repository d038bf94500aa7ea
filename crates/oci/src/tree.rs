//! Putting the layers of an image into a directory, one over the other.
//!
//! Every name is reached from the one open directory, and the kernel follows links on the way as if that directory were
//! the root of everything: there is no way out of it, whatever an earlier layer left lying there. What is there already
//! is replaced and never written to. It must not be used on a directory that others write to.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, chownat, fchmod,
    fchown, fstat, futimens, linkat, mkdirat, openat, openat2, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use crate::layers::{Entry, EntryKind, LayerError, for_each};
use crate::path::{ImagePath, OPAQUE, PathError, WHITEOUT, split};

/// Directories in directories, when something has to be removed: each takes a descriptor.
const DEPTH: usize = 256;
const BUFFER: usize = 128 << 10;
/// Of directories that no entry describes.
const PARENT_MODE: u32 = 0o755;

/// What of an image is put on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Regular files and directories. Links and devices are left out, and hide what they replace; so there is never a
    /// link to be followed.
    PlainFiles,
    /// Links too; devices are refused. Everything belongs to whoever unpacks, so nothing is setuid or setgid.
    Whole,
    /// As [`Self::Whole`], with owners, setuid and setgid as the image has them.
    WithOwners,
}

/// What may be put on disk, over all layers of an image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Budget {
    pub bytes: u64,
    pub entries: usize,
}

pub(crate) struct TreeWriter {
    root: OwnedFd,
    extent: Extent,
    granted: Budget,
    left: Budget,
    /// The directory that was needed last: the next entry is most likely in it, too.
    last: Option<(Vec<u8>, Arc<Open>)>,
    /// What the present layer has made, as hashes of directory and name: its removals are about layers below only.
    made: HashSet<u64>,
    hashes: RandomState,
    buffer: Vec<u8>,
}

/// A directory inside the tree.
struct Open {
    fd: OwnedFd,
    inode: u64,
}

impl Open {
    fn new(fd: OwnedFd) -> io::Result<Self> {
        let inode = fstat(&fd)?.st_ino;
        Ok(Self { fd, inode })
    }
}

impl TreeWriter {
    /// `root` is an empty directory.
    pub(crate) fn new(root: &Path, extent: Extent, granted: Budget) -> io::Result<Self> {
        let root = openat(CWD, root, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let (made, hashes, buffer) = (HashSet::new(), RandomState::new(), vec![0; BUFFER]);
        Ok(Self { root, extent, granted, left: granted, last: None, made, hashes, buffer })
    }

    /// Puts one layer over those before it. After an error the tree is of no use.
    pub(crate) fn layer(&mut self, layer: impl Read, limit: u64) -> Result<(), LayerError> {
        self.made.clear();
        for_each(layer, limit, |path, entry| self.entry(path, entry))
    }

    fn entry<R: Read>(&mut self, path: &ImagePath, entry: &mut Entry<'_, '_, R>) -> Result<(), LayerError> {
        let (parent, name) = split(path.as_bytes());
        let failed = |source: io::Error| LayerError::Write { path: path.to_string(), source };
        if name.is_empty() {
            // The root itself is the caller's.
            return Ok(());
        }
        if name == OPAQUE {
            let Some(directory) = self.existing(parent, path)? else { return Ok(()) };
            return self.remove_all_in(&directory, Removed::OfLayersBelow, DEPTH).map_err(failed);
        }
        if let Some(hidden) = name.strip_prefix(WHITEOUT) {
            if matches!(hidden, b"" | b"." | b"..") {
                return Err(PathError::Climbs(path.to_string()).into());
            }
            let Some(directory) = self.existing(parent, path)? else { return Ok(()) };
            return self.remove(&directory, hidden, Removed::OfLayersBelow, DEPTH).map_err(failed);
        }
        let (kind, plain) = (entry.kind(), self.extent == Extent::PlainFiles);
        match kind {
            EntryKind::Other if !plain => return Err(LayerError::Special { path: path.to_string() }),
            EntryKind::Symlink | EntryKind::HardLink | EntryKind::Other if plain => {
                let Some(directory) = self.existing(parent, path)? else { return Ok(()) };
                return self.remove(&directory, name, Removed::Anything, DEPTH).map_err(failed);
            }
            _ => {}
        }
        let directory = self.directory(parent, path)?;
        if kind != EntryKind::Directory || !is_directory(&directory, name).map_err(failed)? {
            self.remove(&directory, name, Removed::Anything, DEPTH).map_err(failed)?;
            self.take_entry()?;
        }
        match kind {
            EntryKind::Directory => self.make_directory(&directory, name, entry).map_err(failed)?,
            EntryKind::File => self.make_file(&directory, name, path, entry)?,
            EntryKind::Symlink => self.make_symlink(&directory, name, path, entry)?,
            EntryKind::HardLink => self.make_link(&directory, name, path, entry)?,
            EntryKind::Other => {}
        }
        self.made.insert(self.mark(&directory, name));
        Ok(())
    }

    fn take_entry(&mut self) -> Result<(), LayerError> {
        let limit = self.granted.entries;
        self.left.entries = self.left.entries.checked_sub(1).ok_or(LayerError::Files { limit })?;
        Ok(())
    }

    fn mark(&self, directory: &Open, name: &[u8]) -> u64 {
        self.hashes.hash_one((directory.inode, name))
    }

    fn open(&self, path: &[u8]) -> io::Result<Open> {
        let path: &[u8] = if path.is_empty() { b"." } else { path };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        Open::new(openat2(&self.root, path, flags, Mode::empty(), resolve)?)
    }

    /// The directory of that path, if there is one.
    fn existing(&self, path: &[u8], entry: &ImagePath) -> Result<Option<Arc<Open>>, LayerError> {
        match &self.last {
            Some((last, open)) if last == path => return Ok(Some(Arc::clone(open))),
            _ => {}
        }
        match self.open(path) {
            Ok(open) => Ok(Some(Arc::new(open))),
            Err(error) if is_nothing(&error) => Ok(None),
            Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
                Err(PathError::Nowhere(entry.to_string()).into())
            }
            Err(source) => Err(LayerError::Write { path: entry.to_string(), source }),
        }
    }

    /// The directory of that path, which is made where it is not there: not every writer of layers names them.
    fn directory(&mut self, path: &[u8], entry: &ImagePath) -> Result<Arc<Open>, LayerError> {
        let failed = |source: io::Error| LayerError::Write { path: entry.to_string(), source };
        let found = match self.existing(path, entry)? {
            Some(found) => found,
            None => {
                let (above, name) = split(path);
                let above = self.directory(above, entry)?;
                match kind_of(&above, name).map_err(failed)? {
                    Some(FileType::Directory) => {}
                    Some(FileType::Symlink) => return Err(PathError::Nowhere(entry.to_string()).into()),
                    found => {
                        if found.is_some() {
                            self.remove(&above, name, Removed::Anything, DEPTH).map_err(failed)?;
                        }
                        self.take_entry()?;
                        let made = make_empty(&above, name).map_err(failed)?;
                        fchmod(made, Mode::from_raw_mode(PARENT_MODE))
                            .map_err(|error| failed(error.into()))?;
                    }
                }
                Arc::new(self.open(path).map_err(failed)?)
            }
        };
        self.last = Some((path.to_vec(), Arc::clone(&found)));
        Ok(found)
    }

    fn make_directory<R: Read>(
        &mut self,
        directory: &Open,
        name: &[u8],
        entry: &Entry<'_, '_, R>,
    ) -> io::Result<()> {
        let made = make_empty(directory, name)?;
        // Open to its owner: whoever unpacks has to put files into it, and to remove it one day.
        self.dress(&made, entry, 0o700)
    }

    fn make_file<R: Read>(
        &mut self,
        directory: &Open,
        name: &[u8],
        path: &ImagePath,
        entry: &mut Entry<'_, '_, R>,
    ) -> Result<(), LayerError> {
        let failed = |source: Errno| LayerError::Write { path: path.to_string(), source: source.into() };
        if entry.is_sparse_in_disguise().map_err(LayerError::Damaged)? {
            return Err(LayerError::Special { path: path.to_string() });
        }
        let size = entry.size();
        if size > self.left.bytes {
            return Err(LayerError::FileSize { path: path.to_string(), size, limit: self.left.bytes });
        }
        self.left.bytes -= size;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&directory.fd, name, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        let mut left = size;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(BUFFER);
            let got = match entry.read(&mut self.buffer[..most]) {
                Ok(0) => return Err(LayerError::Damaged(io::ErrorKind::UnexpectedEof.into())),
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(LayerError::Damaged(error)),
            };
            write_all(&file, &self.buffer[..got]).map_err(failed)?;
            left -= got as u64;
        }
        // Plain files are there to be read by whoever took them out.
        let at_least = if self.extent == Extent::PlainFiles { 0o600 } else { 0 };
        let dressed = self.dress(&file, entry, at_least);
        let times = Timespec { tv_sec: entry.modified(), tv_nsec: 0 };
        dressed
            .and_then(|()| Ok(futimens(&file, &Timestamps { last_access: times, last_modification: times })?))
            .map_err(|source| LayerError::Write { path: path.to_string(), source })
    }

    /// Owner and mode: in this order, because a new owner takes setuid away.
    fn dress<R: Read>(&self, file: impl AsFd, entry: &Entry<'_, '_, R>, at_least: u32) -> io::Result<()> {
        let keep = match self.extent {
            Extent::WithOwners => {
                let (user, group) = entry.owner()?;
                fchown(&file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?;
                0o7777
            }
            Extent::PlainFiles | Extent::Whole => 0o1777,
        };
        fchmod(file, Mode::from_raw_mode(entry.mode()? & keep | at_least))?;
        Ok(())
    }

    fn make_symlink<R: Read>(
        &mut self,
        directory: &Open,
        name: &[u8],
        path: &ImagePath,
        entry: &Entry<'_, '_, R>,
    ) -> Result<(), LayerError> {
        let failed = |source: io::Error| LayerError::Write { path: path.to_string(), source };
        let target = entry.link_target().ok_or_else(|| LayerError::Link { path: path.to_string() })?;
        symlinkat(&target[..], &directory.fd, name).map_err(|error| failed(error.into()))?;
        if self.extent == Extent::WithOwners {
            let (user, group) = entry.owner().map_err(failed)?;
            let owner = (Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
            chownat(&directory.fd, name, owner.0, owner.1, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|error| failed(error.into()))?;
        }
        Ok(())
    }

    /// To what is in the image already, in this layer or in one below.
    fn make_link<R: Read>(
        &mut self,
        directory: &Open,
        name: &[u8],
        path: &ImagePath,
        entry: &Entry<'_, '_, R>,
    ) -> Result<(), LayerError> {
        let failed = |source: io::Error| LayerError::Write { path: path.to_string(), source };
        let nowhere = || LayerError::Link { path: path.to_string() };
        let target = ImagePath::of_entry(&entry.link_target().ok_or_else(nowhere)?)?;
        let (above, target) = split(target.as_bytes());
        let above = self.existing(above, path)?.ok_or_else(nowhere)?;
        match kind_of(&above, target).map_err(failed)? {
            Some(FileType::RegularFile | FileType::Symlink) => {}
            _ => return Err(nowhere()),
        }
        linkat(&above.fd, target, &directory.fd, name, AtFlags::empty()).map_err(|error| failed(error.into()))
    }

    /// Removes a name, whatever is there.
    fn remove(&mut self, directory: &Open, name: &[u8], what: Removed, depth: usize) -> io::Result<()> {
        let keep = what == Removed::OfLayersBelow && self.made.contains(&self.mark(directory, name));
        let flags = match kind_of(directory, name)? {
            None => return Ok(()),
            Some(FileType::Directory) => {
                let deeper = depth.checked_sub(1).ok_or(Errno::NAMETOOLONG)?;
                let inner = Open::new(open_directory(directory, name)?)?;
                self.remove_all_in(&inner, what, deeper)?;
                AtFlags::REMOVEDIR
            }
            Some(_) => AtFlags::empty(),
        };
        if keep {
            return Ok(());
        }
        // A directory that was kept may be this one, or be reached through it.
        self.last = None;
        match unlinkat(&directory.fd, name, flags) {
            // It holds what the present layer has made.
            Err(Errno::NOTEMPTY | Errno::EXIST) if what == Removed::OfLayersBelow => Ok(()),
            other => Ok(other?),
        }
    }

    fn remove_all_in(&mut self, directory: &Open, what: Removed, depth: usize) -> io::Result<()> {
        let mut names = vec![];
        for entry in Dir::read_from(&directory.fd)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if !matches!(&name[..], b"." | b"..") {
                names.push(name);
            }
        }
        names.iter().try_for_each(|name| self.remove(directory, name, what, depth))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Removed {
    Anything,
    /// And not what the present layer has made, in whichever order it names the two.
    OfLayersBelow,
}

/// Of what has that name itself; links are not followed.
fn kind_of(directory: &Open, name: &[u8]) -> io::Result<Option<FileType>> {
    match statat(&directory.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn is_directory(directory: &Open, name: &[u8]) -> io::Result<bool> {
    Ok(kind_of(directory, name)? == Some(FileType::Directory))
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn open_directory(directory: &Open, name: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(&directory.fd, name, flags, Mode::empty())
}

/// The directory of that name, new if it is not there.
fn make_empty(directory: &Open, name: &[u8]) -> io::Result<OwnedFd> {
    match mkdirat(&directory.fd, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => Ok(open_directory(directory, name)?),
        Err(error) => Err(error.into()),
    }
}

fn write_all(file: &OwnedFd, mut bytes: &[u8]) -> rustix::io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(file, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
