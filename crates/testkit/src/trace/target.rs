//! What a system call is about to change: finds the path behind its arguments by looking at the process
//! that stands at the door of the call, and decides whether it lies below one of the roots.

use super::calls::{self, Where};
use nix::libc;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};

const PATH_MAX: usize = 4096;

/// A call that counts if it succeeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) name: &'static str,
    pub(super) what: String,
    /// Can wait for data from another process.
    pub(super) waits_for_others: bool,
}

/// The candidate that a call is, or none if it changes nothing below the roots.
pub(super) fn candidate(
    tracee: i32,
    number: i64,
    arguments: &[u64; 6],
    roots: &[PathBuf],
) -> Option<Candidate> {
    let (name, place) = calls::mutating(number)?;
    let process = Process { tracee, arguments, roots };
    let waits_for_others = matches!(name, "splice" | "sendfile");
    let of = |what: Option<String>| what.map(|what| Candidate { name, what, waits_for_others });
    match place {
        Where::At { directory, path } => of(process.one(Some(directory), path)),
        Where::Path(path) => of(process.one(None, path)),
        Where::TwoAt { directories: [from_in, to_in], paths: [from, to] } => {
            of(process.two((Some(from_in), from), (Some(to_in), to)))
        }
        Where::TwoPaths([from, to]) => of(process.two((None, from), (None, to))),
        Where::LinkAt { text, directory, path } => of(process.link(text, Some(directory), path)),
        Where::LinkPath { text, path } => of(process.link(text, None, path)),
        Where::Descriptor(descriptor) => of(process.descriptor(descriptor)),
        Where::OpenAt { directory, path, flags } => of(process.open(Some(directory), path, arguments[flags])),
        Where::OpenPath { path, flags } => of(process.open(None, path, arguments[flags])),
        Where::OpenAtHow { directory, path, how } => {
            let flags = process.word(arguments[how]).unwrap_or(libc::O_CREAT as u64);
            of(process.open(Some(directory), path, flags))
        }
        Where::Ioctl => {
            let name = calls::mutating_ioctl(arguments[1])?;
            process.descriptor(0).map(|what| Candidate { name, what, waits_for_others })
        }
        Where::Mapping => {
            let writable = arguments[2] & libc::PROT_WRITE as u64 != 0;
            // MAP_SHARED_VALIDATE has the bit of MAP_SHARED too.
            let shared = arguments[3] & libc::MAP_SHARED as u64 != 0;
            let of_a_file = arguments[3] & libc::MAP_ANONYMOUS as u64 == 0;
            if writable && shared && of_a_file { of(process.descriptor(4)) } else { None }
        }
        Where::Anywhere => of(Some("?".into())),
        Where::Invisible => panic!("{name} was called: changes made through it cannot be traced"),
    }
}

/// A process that stands still at the entry of a call.
struct Process<'a> {
    tracee: i32,
    arguments: &'a [u64; 6],
    roots: &'a [PathBuf],
}

impl Process<'_> {
    fn one(&self, directory: Option<usize>, path: usize) -> Option<String> {
        self.counts(&[self.path(directory, path)])
    }

    fn two(&self, from: (Option<usize>, usize), to: (Option<usize>, usize)) -> Option<String> {
        self.counts(&[self.path(from.0, from.1), self.path(to.0, to.1)])
    }

    fn link(&self, text: usize, directory: Option<usize>, path: usize) -> Option<String> {
        let what = self.one(directory, path)?;
        let text = self.text(self.arguments[text]).map_or("?".into(), |text| readable(&PathBuf::from(text)));
        Some(format!("{what} -> {text}"))
    }

    fn open(&self, directory: Option<usize>, path: usize, flags: u64) -> Option<String> {
        let creates = libc::O_CREAT | libc::O_TRUNC | (libc::O_TMPFILE & !libc::O_DIRECTORY);
        if flags & creates as u64 == 0 {
            return None;
        }
        let path = self.path(directory, path);
        // Opening a pipe by its name changes nothing and can wait for ever, and the others with it.
        let is_pipe = |path: &PathBuf| fs::metadata(path).is_ok_and(|file| file.file_type().is_fifo());
        if path.as_ref().is_some_and(is_pipe) { None } else { self.counts(&[path]) }
    }

    /// An open file counts if it is a regular file or a directory below a root: not a pipe, a socket, a
    /// terminal, or a file in memory.
    fn descriptor(&self, argument: usize) -> Option<String> {
        let link = format!("/proc/{}/fd/{}", self.tracee, self.arguments[argument] as i32);
        let target = fs::read_link(&link).ok()?;
        let has_content = fs::metadata(&link).map_or(true, |file| file.is_file() || file.is_dir());
        if has_content && self.is_below_a_root(&target) { Some(readable(&target)) } else { None }
    }

    /// Says what the paths are if one of them is below a root, or if one of them cannot be known.
    fn counts(&self, paths: &[Option<PathBuf>]) -> Option<String> {
        let counts =
            |path: &Option<PathBuf>| path.as_ref().is_none_or(|path| self.is_below_a_root_by_any_name(path));
        paths.iter().any(counts).then(|| {
            let names = paths.iter().map(|path| path.as_deref().map_or("?".into(), readable));
            names.collect::<Vec<String>>().join(" -> ")
        })
    }

    fn is_below_a_root(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
    }

    /// As it is written, with the links on the way resolved, and with the last link followed: calls differ
    /// in whether they follow it, and one of these is right for each.
    fn is_below_a_root_by_any_name(&self, path: &Path) -> bool {
        let by_parent = || {
            let parent = path.parent()?.canonicalize().ok()?;
            Some(self.is_below_a_root(&path.file_name().map_or(parent.clone(), |name| parent.join(name))))
        };
        let followed = || path.canonicalize().is_ok_and(|path| self.is_below_a_root(&path));
        match by_parent() {
            Some(below) => below || followed(),
            // The parent does not exist, so the call will fail; nothing is lost by the simple answer.
            None => self.is_below_a_root(path) || followed(),
        }
    }

    /// The absolute path that an argument means for the process. None: it cannot be read.
    fn path(&self, directory: Option<usize>, path: usize) -> Option<PathBuf> {
        let given =
            if self.arguments[path] == 0 { OsString::new() } else { self.text(self.arguments[path])? };
        let given = PathBuf::from(given);
        if given.is_absolute() {
            let root = fs::read_link(format!("/proc/{}/root", self.tracee)).ok()?;
            return Some(if root == Path::new("/") {
                given
            } else {
                root.join(given.strip_prefix("/").ok()?)
            });
        }
        let base = match directory.map(|directory| self.arguments[directory] as i32) {
            None | Some(libc::AT_FDCWD) => format!("/proc/{}/cwd", self.tracee),
            Some(descriptor) => format!("/proc/{}/fd/{descriptor}", self.tracee),
        };
        let base = fs::read_link(base).ok()?;
        Some(if given.as_os_str().is_empty() { base } else { base.join(given) })
    }

    /// A text in the memory of the process, up to its end mark.
    fn text(&self, address: u64) -> Option<OsString> {
        let memory = File::open(format!("/proc/{}/mem", self.tracee)).ok()?;
        let mut text = Vec::new();
        let mut part = [0; 256];
        while text.len() < PATH_MAX {
            // Up to a border of 256 bytes, hence never into a page that may not be there.
            let position = address + text.len() as u64;
            let wanted = part.len() - (position % part.len() as u64) as usize;
            let got = memory.read_at(&mut part[..wanted], position).ok().filter(|got| *got > 0)?;
            match part[..got].iter().position(|byte| *byte == 0) {
                Some(end) => {
                    text.extend_from_slice(&part[..end]);
                    return Some(OsString::from_vec(text));
                }
                None => text.extend_from_slice(&part[..got]),
            }
        }
        None
    }

    fn word(&self, address: u64) -> Option<u64> {
        let memory = File::open(format!("/proc/{}/mem", self.tracee)).ok()?;
        let mut word = [0; 8];
        memory.read_exact_at(&mut word, address).ok()?;
        Some(u64::from_ne_bytes(word))
    }
}

/// A name of any bytes on one line.
fn readable(path: &Path) -> String {
    path.as_os_str().as_encoded_bytes().escape_ascii().to_string().replace("\\'", "'").replace("\\\"", "\"")
}
