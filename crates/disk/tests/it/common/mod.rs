//! Scratch directories and file systems, and a picture of a tree that is taken without any code of `disk`.
//! Needs root and mkfs: where they are missing the test fails, it does not pretend.
#![allow(dead_code)]

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

static COUNTER: AtomicU32 = AtomicU32::new(0);

pub struct Temp {
    pub path: PathBuf,
}

impl Temp {
    pub fn new() -> Temp {
        let n = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("holdfast-disk-{}-{n}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Temp { path }
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = disk::tree::remove(&self.path);
    }
}

pub fn run(program: &str, args: &[&str]) {
    let output = Command::new(program).args(args).output().unwrap_or_else(|e| panic!("{program}: {e}"));
    assert!(output.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A file system of its own on a loop device.
pub struct FileSystem {
    pub root: PathBuf,
    _temp: Temp,
}

impl FileSystem {
    pub fn new(kind: &str, megabytes: u64) -> FileSystem {
        let temp = Temp::new();
        let (image, root) = (temp.path.join("image"), temp.path.join("mnt"));
        fs::File::create(&image).unwrap().set_len(megabytes << 20).unwrap();
        fs::create_dir(&root).unwrap();
        let image = image.to_str().unwrap();
        match kind {
            "xfs" => run("mkfs.xfs", &["-q", image]),
            "xfs-plain" => run("mkfs.xfs", &["-q", "-m", "reflink=0", image]),
            "ext4" => run("mkfs.ext4", &["-q", "-m", "0", image]),
            "btrfs" => run("mkfs.btrfs", &["-q", image]),
            other => panic!("no such kind: {other}"),
        }
        run("mount", &["-o", "loop", image, root.to_str().unwrap()]);
        FileSystem { root, _temp: temp }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub fn remount(&self, how: &str) {
        run("mount", &["-o", &format!("remount,{how}"), self.root.to_str().unwrap()]);
    }
}

impl Drop for FileSystem {
    fn drop(&mut self) {
        let status = Command::new("umount").arg(&self.root).status();
        if !status.is_ok_and(|s| s.success()) {
            let _ = Command::new("umount").arg("-l").arg(&self.root).status();
        }
    }
}

/// All that a copy must keep of one entry.
#[derive(Debug, PartialEq, Eq)]
pub struct Picture {
    pub kind: &'static str,
    pub mode: u32,
    pub owner: (u32, u32),
    pub rdev: u64,
    pub size: u64,
    pub times: [(i64, i64); 2],
    pub content: Vec<u8>,
    pub attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The first name of the same inode.
    pub linked_to: Option<PathBuf>,
}

/// As `picture`, of a tree that was just made: the first reading of a file changes its access time, later
/// ones do not.
pub fn settled(root: &Path) -> BTreeMap<PathBuf, Picture> {
    picture(root);
    picture(root)
}

pub fn picture(root: &Path) -> BTreeMap<PathBuf, Picture> {
    let mut all = BTreeMap::new();
    let mut inodes = HashMap::new();
    // Metadata first: reading must not change the access times that are compared.
    visit(root, Path::new(""), &mut all, &mut inodes);
    for (rel, picture) in &mut all {
        let path = root.join(rel);
        match picture.kind {
            "file" => picture.content = fs::read(&path).unwrap(),
            "link" => picture.content = fs::read_link(&path).unwrap().into_os_string().into_vec(),
            _ => {}
        }
    }
    all
}

fn visit(root: &Path, rel: &Path, all: &mut BTreeMap<PathBuf, Picture>, inodes: &mut HashMap<u64, PathBuf>) {
    let path = if rel.as_os_str().is_empty() { root.to_owned() } else { root.join(rel) };
    let meta = fs::symlink_metadata(&path).unwrap();
    let t = meta.file_type();
    let kind = if t.is_dir() {
        "directory"
    } else if t.is_file() {
        "file"
    } else if t.is_symlink() {
        "link"
    } else if t.is_fifo() {
        "fifo"
    } else if t.is_socket() {
        "socket"
    } else if t.is_char_device() {
        "char"
    } else {
        "block"
    };
    let linked_to = (kind != "directory" && meta.nlink() > 1)
        .then(|| inodes.entry(meta.ino()).or_insert_with(|| rel.to_owned()).clone());
    let picture = Picture {
        kind,
        mode: meta.mode(),
        owner: (meta.uid(), meta.gid()),
        rdev: meta.rdev(),
        size: if kind == "directory" { 0 } else { meta.size() },
        times: [(meta.atime(), meta.atime_nsec()), (meta.mtime(), meta.mtime_nsec())],
        content: Vec::new(),
        attributes: attributes(&path),
        linked_to,
    };
    all.insert(rel.to_owned(), picture);
    if kind == "directory" {
        let mut names: Vec<_> = fs::read_dir(&path).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        for name in names {
            let top = rel.as_os_str().is_empty();
            if !(top && name.as_bytes().starts_with(b".holdfast-")) {
                visit(root, &rel.join(&name), all, inodes);
            }
        }
    }
}

pub fn attributes(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut list = vec![0_u8; 65536];
    let n = rustix::fs::llistxattr(path, &mut list[..]).unwrap_or(0);
    let names = list[..n].split(|&b| b == 0).filter(|n| !n.is_empty());
    names
        .map(|name| {
            let mut value = vec![0_u8; 65536];
            let n = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap();
            value.truncate(n);
            (name.to_vec(), value)
        })
        .collect()
}

/// Compares two trees and names the first difference.
#[track_caller]
pub fn assert_same(a: &BTreeMap<PathBuf, Picture>, b: &BTreeMap<PathBuf, Picture>) {
    for (path, picture) in a {
        assert_eq!(Some(picture), b.get(path), "at {}", path.display());
    }
    for path in b.keys() {
        assert!(a.contains_key(path), "extra: {}", path.display());
    }
}

/// Long enough ago that nothing counts as changed just now.
pub fn let_the_clock_tick() {
    std::thread::sleep(std::time::Duration::from_millis(130));
}
