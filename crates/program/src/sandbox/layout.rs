//! Which places a sandboxed program sees, and as what: decided before the fork, from what there is on this machine.

use std::ffi::{CString, OsStr};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Component, Path, PathBuf};

use super::describe::Sandbox;
use super::landlock::Access;

/// Programs and libraries. What is a link here is a link there.
const SYSTEM: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"];

/// What interpreters and the C library read of `/etc`. Not all of it: keys and passwords live there too, and a program
/// that runs as root could read them.
const ETC: [&str; 20] = [
    "alternatives",
    "crypto-policies",
    "debian_version",
    "group",
    "hostname",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "magic",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "pki/tls/openssl.cnf",
    "ssl/openssl.cnf",
    "timezone",
];
const ETC_PREFIXES: [&str; 6] = ["java", "lua", "perl", "php", "python", "ruby"];
/// Entries of `/etc` that are looked at for these prefixes.
const MAX_ETC: usize = 10_000;

const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
const LINKS: [(&str, &str); 5] = [
    ("/proc/self/fd", "dev/fd"),
    ("/proc/self/fd/0", "dev/stdin"),
    ("/proc/self/fd/1", "dev/stdout"),
    ("/proc/self/fd/2", "dev/stderr"),
    ("/tmp", "dev/shm"),
];
/// Where the private `/tmp` and the new `/proc` go, relative to the new root.
pub(crate) const OWN_DIRECTORIES: [&str; 3] = ["tmp", "proc", "dev"];

/// A place that is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub source: CString,
    /// Relative to the new root.
    pub at: CString,
    /// The directories above it, from the top.
    pub parents: Vec<CString>,
    pub access: Access,
    pub is_file: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Outer places before the places in them.
    pub places: Vec<Place>,
    /// What a link says, where it is, and the directories above it.
    pub links: Vec<(CString, CString, Vec<CString>)>,
}

pub(crate) fn layout(sandbox: &Sandbox) -> io::Result<Layout> {
    let mut layout = Layout::default();
    let mut shown: Vec<(PathBuf, Access)> = Vec::new();
    // Who keeps data in shared memory still finds it there.
    let given = sandbox.readable.iter().chain(&sandbox.writable);
    let shares_memory = given.into_iter().any(|path| path.starts_with("/dev/shm"));
    for (text, at) in LINKS.into_iter().filter(|(_, at)| !(shares_memory && *at == "dev/shm")) {
        layout.links.push((text_of(OsStr::new(text))?, text_of(OsStr::new(at))?, vec![]));
    }
    for path in system_paths() {
        match fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_symlink() => {
                let (at, parents) = relative(&path)?;
                layout.links.push((text_of(fs::read_link(&path)?.as_os_str())?, at, parents));
            }
            Ok(_) => shown.push((path, Access::Read)),
            Err(_) => {}
        }
    }
    shown.extend(DEVICES.iter().map(|path| (PathBuf::from(path), Access::Device)));
    for (paths, access) in [(&sandbox.readable, Access::Read), (&sandbox.writable, Access::Write)] {
        for path in paths {
            // Where links lead to, so that what is shown is what is meant; and both ways of naming it work.
            let real = fs::canonicalize(path)?;
            let named = std::path::absolute(path)?;
            if real != named && !shown.iter().any(|(outer, _)| named.starts_with(outer)) {
                let (at, parents) = relative(&named)?;
                layout.links.push((text_of(real.as_os_str())?, at, parents));
            }
            shown.push((real, access));
        }
    }
    shown.sort_by_key(|(path, access)| (path.components().count(), path.clone(), *access != Access::Write));
    shown.dedup_by(|later, earlier| later.0 == earlier.0);
    let outer = shown.clone();
    for (path, access) in shown {
        // What is read as part of something larger needs no place of its own.
        let within =
            |(other, its): &(PathBuf, Access)| *other != path && path.starts_with(other) && *its == access;
        if access != Access::Read || !outer.iter().any(within) {
            layout.places.push(place(&path, access)?);
        }
    }
    Ok(layout)
}

fn system_paths() -> Vec<PathBuf> {
    let etc = Path::new("/etc");
    let interpreters = fs::read_dir(etc).into_iter().flatten().take(MAX_ETC).flatten();
    let interpreters = interpreters
        .map(|entry| entry.file_name())
        .filter(|name| ETC_PREFIXES.iter().any(|prefix| name.as_bytes().starts_with(prefix.as_bytes())));
    let system = SYSTEM.iter().map(PathBuf::from);
    system
        .chain(ETC.iter().map(|name| etc.join(name)))
        .chain(interpreters.map(|name| etc.join(name)))
        .collect()
}

fn place(path: &Path, access: Access) -> io::Result<Place> {
    let kind = fs::metadata(path)?.file_type();
    let (at, parents) = relative(path)?;
    let is_file = kind.is_file() || kind.is_char_device() || kind.is_block_device();
    Ok(Place { source: text_of(path.as_os_str())?, at, parents, access, is_file })
}

/// The path without its slash, and the directories above it.
fn relative(path: &Path) -> io::Result<(CString, Vec<CString>)> {
    let names: Vec<&OsStr> = path
        .components()
        .filter_map(|component| if let Component::Normal(name) = component { Some(name) } else { None })
        .collect();
    let mut so_far = PathBuf::new();
    let mut all = Vec::with_capacity(names.len());
    for name in names {
        so_far.push(name);
        all.push(text_of(so_far.as_os_str())?);
    }
    let at =
        all.pop().ok_or_else(|| io::Error::other("the whole file system can't be shown to a program"))?;
    Ok((at, all))
}

fn text_of(text: &OsStr) -> io::Result<CString> {
    CString::new(text.as_bytes()).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find<'a>(layout: &'a Layout, at: &str) -> Option<&'a Place> {
        layout.places.iter().find(|place| place.at.to_str() == Ok(at.trim_start_matches('/')))
    }

    #[test]
    fn a_place_inside_a_writable_one_is_put_there_after_it_and_duplicates_merge_to_the_wider_right() {
        let dir = std::env::temp_dir().join(format!("holdfast-layout-{}", std::process::id()));
        fs::create_dir_all(dir.join("own/stores")).unwrap();
        fs::create_dir_all(dir.join("release/migrations")).unwrap();
        let sandbox = Sandbox {
            readable: vec![
                dir.join("own/stores"),
                dir.join("release"),
                dir.join("release/migrations"),
                "/usr/bin".into(),
            ],
            writable: vec![dir.join("own"), dir.join("own")],
            ..Sandbox::new()
        };
        let layout = layout(&sandbox).unwrap();
        let index = |name: &str| {
            let real = fs::canonicalize(dir.join(name)).unwrap();
            layout.places.iter().position(|place| place.source.to_bytes() == real.as_os_str().as_bytes())
        };
        assert!(index("own").unwrap() < index("own/stores").unwrap(), "read-only inside writable");
        assert!(index("release").is_some() && index("release/migrations").is_none());
        assert!(find(&layout, "usr").is_some() && find(&layout, "usr/bin").is_none());
        assert!(
            find(&layout, "etc/passwd").is_some_and(|place| place.is_file && place.access == Access::Read)
        );
        assert!(find(&layout, "etc").is_none() && find(&layout, "etc/shadow").is_none());
        assert!(
            find(&layout, "dev/null").is_some_and(|place| place.access == Access::Device && place.is_file)
        );
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn the_whole_machine_is_no_place() {
        assert!(layout(&Sandbox { writable: vec!["/".into()], ..Sandbox::new() }).is_err());
    }
}
