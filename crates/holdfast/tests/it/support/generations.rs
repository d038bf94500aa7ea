//! Data that says in every file, name and attribute of which generation it is, so that a mixture of two can't pass
//! for either. A complete copy of each generation is kept apart, to compare with.

use std::fs::{self, File, FileTimes};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, XattrFlags, setxattr, utimensat};
use testkit::compare::same_tree;

/// What guard itself writes into the data: who owns it is not part of the content.
const RECORDS: [&str; 2] = ["version.json", ".version.json.second"];
const SPARSE: u64 = 256 << 10;

pub struct Pristine(PathBuf);

impl Pristine {
    pub fn below(path: &Path) -> Pristine {
        fs::create_dir_all(path).unwrap();
        Pristine(path.to_owned())
    }

    /// Where the complete copy of a generation is.
    pub fn path(&self, generation: u32) -> PathBuf {
        let path = self.0.join(generation.to_string());
        if !path.exists() {
            fs::create_dir(&path).unwrap();
            write(&path, generation);
        }
        path
    }

    /// Makes the data be of this generation, as its workload would.
    pub fn write(&self, data: &Path, generation: u32) {
        self.path(generation);
        for entry in fs::read_dir(data).unwrap() {
            let entry = entry.unwrap();
            if RECORDS.iter().any(|name| entry.file_name() == *name) {
                continue;
            }
            match entry.file_type().unwrap().is_dir() {
                true => fs::remove_dir_all(entry.path()).unwrap(),
                false => fs::remove_file(entry.path()).unwrap(),
            }
        }
        write(data, generation);
    }

    /// Which generation a tree is, all of it; none where it is not there or holds nothing; an error if it is no
    /// whole generation.
    pub fn generation(&self, tree: &Path) -> Result<Option<u32>, String> {
        let mut names = super::names(tree);
        names.retain(|name| !RECORDS.contains(&name.as_str()));
        if names.is_empty() {
            return Ok(None);
        }
        let top = fs::read_to_string(tree.join("top"))
            .map_err(|error| format!("{}: {error}, though there are {names:?}", tree.display()))?;
        let number = top.trim().rsplit(' ').next().and_then(|word| word.parse().ok());
        let number = number.ok_or_else(|| format!("{}: top holds {top:?}", tree.display()))?;
        self.same(tree, number).map(|()| Some(number))
    }

    /// Is it this generation, byte for byte?
    pub fn same(&self, tree: &Path, generation: u32) -> Result<(), String> {
        let pristine = self.path(generation);
        let expected = super::names(&pristine);
        let mut found = super::names(tree);
        found.retain(|name| !RECORDS.contains(&name.as_str()));
        if found != expected {
            return Err(format!("{} holds {found:?} instead of {expected:?}", tree.display()));
        }
        let mode = |path: &Path| fs::metadata(path).map(|found| (found.mode(), found.uid(), found.gid()));
        if mode(tree).ok() != mode(&pristine).ok() {
            return Err(format!("{} has another owner or mode", tree.display()));
        }
        expected.iter().try_for_each(|name| same_tree(&pristine.join(name), &tree.join(name)))
    }
}

fn write(data: &Path, generation: u32) {
    let tag = format!("generation {generation}");
    let of = |what: &str| format!("{what} of {tag}\n");
    let payload = data.join("payload");
    fs::create_dir_all(payload.join("dir")).unwrap();
    fs::create_dir_all(payload.join("empty")).unwrap();
    fs::write(data.join("top"), of("top")).unwrap();
    fs::write(payload.join("a"), of("a")).unwrap();
    // Longer than what a file system keeps beside its metadata.
    fs::write(payload.join("dir/long"), of("long").repeat(300 + generation as usize)).unwrap();
    fs::hard_link(payload.join("a"), payload.join("dir/hard")).unwrap();
    symlink(&tag, payload.join("link")).unwrap();
    fs::write(payload.join("attribute"), of("attribute")).unwrap();
    setxattr(payload.join("attribute"), "user.generation", tag.as_bytes(), XattrFlags::empty()).unwrap();
    fs::set_permissions(payload.join("attribute"), fs::Permissions::from_mode(0o640)).unwrap();
    fs::write(payload.join(format!("only-in-{generation}")), of("only")).unwrap();
    let mut sparse = File::create(payload.join("sparse")).unwrap();
    sparse.seek(SeekFrom::Start(SPARSE)).unwrap();
    sparse.write_all(of("sparse").as_bytes()).unwrap();
    drop(sparse);
    // The deepest first: setting the time of what is in a directory leaves that of the directory alone.
    let only = format!("payload/only-in-{generation}");
    let in_order = [
        "payload/dir/long",
        "payload/dir",
        "payload/empty",
        "payload/a",
        "payload/attribute",
        "payload/sparse",
        &only,
        "payload",
        "top",
    ];
    for (index, name) in in_order.iter().enumerate() {
        let at = UNIX_EPOCH + Duration::new(1_700_000_000 + u64::from(generation) * 100 + index as u64, 123);
        let times = FileTimes::new().set_modified(at).set_accessed(at);
        File::open(data.join(name)).unwrap().set_times(times).unwrap();
    }
    let at = Timespec { tv_sec: 1_700_000_000 + i64::from(generation), tv_nsec: 7 };
    let times = Timestamps { last_access: at, last_modification: at };
    utimensat(CWD, payload.join("link"), &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}
