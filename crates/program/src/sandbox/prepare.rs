//! Everything that the processes of a sandbox need, made before there are any.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::process::{Pid, Resource};
use rustix::thread::CapabilitySet;

use super::board::Board;
use super::describe::{Protections, Sandbox};
use super::filter::filter;
use super::kernel;
use super::layout::{Layout, OWN_DIRECTORIES, Place, layout};

/// The private `/tmp` is memory, and nobody's in particular.
const TMP_SIZE: &str = "67108864";
/// Number of pids that the kernel does not give out again once they were all used (`RESERVED_PIDS`).
const RESERVED_PIDS: u32 = 300;
/// From this kernel on, a process namespace has a highest pid of its own. Before, it was the machine's.
const OWN_PID_MAX: (u32, u32) = (6, 15);
const OPEN_FILES: u64 = 4096;
/// Where pages are larger, as many of them as of these are more than enough.
const SMALLEST_PAGE: u64 = 4096;
const SPARE_PROCESSES: u64 = 512;

/// A place, and the detached mount of it once there is one.
pub(crate) struct Shown {
    pub place: Place,
    pub tree: Option<OwnedFd>,
}

pub(crate) struct Prepared {
    pub parent: Pid,
    pub board: Board,
    pub allow_unconfined: bool,
    /// `None`: this process may make namespaces as it is.
    pub user: Option<UserMap>,
    pub shown: Vec<Shown>,
    pub links: Vec<(CString, CString, Vec<CString>)>,
    pub own_directories: Vec<CString>,
    pub tmp_size: CString,
    pub pid_max: Option<Vec<u8>>,
    /// Pages of System V shared memory, which belongs to no process.
    pub shared_memory: Option<Vec<u8>>,
    pub work: CString,
    pub rlimits: Vec<(Resource, u64)>,
    pub filter: Option<Vec<libc::sock_filter>>,
    /// Where there is no private root: Landlock does not know owners, modes and times.
    pub stricter_filter: Option<Vec<libc::sock_filter>>,
    pub landlock: u32,
    pub processes: Option<u32>,
    pub memory: Option<u64>,
    pub protections: Protections,
}

pub(crate) struct UserMap {
    pub users: Vec<u8>,
    pub groups: Vec<u8>,
}

impl Prepared {
    pub(crate) fn new(sandbox: &Sandbox, work: Option<&Path>, board: &Board) -> io::Result<Self> {
        let Layout { places, links } = layout(sandbox)?;
        let work = work.or(sandbox.writable.first().map(AsRef::as_ref)).unwrap_or(Path::new("/"));
        let work = std::path::absolute(work)?;
        Ok(Self {
            parent: rustix::process::getpid(),
            board: board.try_clone()?,
            allow_unconfined: sandbox.allow_unconfined,
            user: user_map(),
            shown: places.into_iter().map(|place| Shown { place, tree: None }).collect(),
            links,
            own_directories: OWN_DIRECTORIES
                .iter()
                .map(|name| CString::new(*name))
                .collect::<Result<_, _>>()?,
            tmp_size: CString::new(TMP_SIZE)?,
            pid_max: sandbox.processes.filter(|_| has_own_pid_max()).map(|processes| {
                // A kernel gives the reserved ones out only once: as many as are allowed must be left then.
                processes.saturating_add(RESERVED_PIDS + 2).to_string().into_bytes()
            }),
            shared_memory: sandbox.memory.map(|bytes| (bytes / SMALLEST_PAGE).to_string().into_bytes()),
            work: CString::new(work.as_os_str().as_bytes())?,
            rlimits: rlimits(sandbox),
            filter: filter(sandbox.memory.is_some(), false),
            stricter_filter: filter(sandbox.memory.is_some(), true),
            landlock: kernel::landlock_version().unwrap_or(0),
            processes: sandbox.processes,
            memory: sandbox.memory,
            protections: Protections::default(),
        })
    }
}

/// Root makes namespaces without a user namespace; others are themselves in a new one, and nobody else.
fn user_map() -> Option<UserMap> {
    let able = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN));
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    (!able).then(|| UserMap {
        users: format!("{user} {user} 1").into_bytes(),
        groups: format!("{group} {group} 1").into_bytes(),
    })
}

fn has_own_pid_max() -> bool {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    matches!((numbers.next(), numbers.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= OWN_PID_MAX)
}

fn rlimits(sandbox: &Sandbox) -> Vec<(Resource, u64)> {
    let mut limits = vec![(Resource::Core, 0), (Resource::Nofile, OPEN_FILES)];
    limits.extend(sandbox.file_size.map(|bytes| (Resource::Fsize, bytes)));
    // Does not bind root. Above what is counted: who asks for too many is to be ended, not to be refused for ever.
    limits.extend(sandbox.processes.map(|number| (Resource::Nproc, u64::from(number) + SPARE_PROCESSES)));
    limits
}
