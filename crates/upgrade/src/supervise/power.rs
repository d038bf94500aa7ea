//! Starting and ending supervisors. One at a time per place: whoever does either holds `run/power.lock`.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use disk::{Lock, Operation};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::error::{Error, Result, system};
use super::keeper::start_detached;
use super::place::Place;
use super::status;

/// What a supervisor says when its program runs.
pub(super) const STARTED: &str = "started";
/// How long a supervisor may take to say anything, and how much it may say.
const PATIENCE: Duration = Duration::from_secs(60);
const LONGEST_WORD: u64 = 16 << 10;
/// On top of the time that the program has for stopping.
const MARGIN: Duration = Duration::from_secs(10);
/// From being killed to being gone.
const LAST_WAIT: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(1);

/// How a supervisor is started: a program to which the directory is given as its last argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launcher {
    pub program: PathBuf,
    pub args: Vec<OsString>,
}

impl Launcher {
    /// `holdfast appliance supervise`, by the program that asks.
    pub fn of_this_program() -> io::Result<Self> {
        let args = ["appliance", "supervise"].map(OsString::from).to_vec();
        Ok(Self { program: std::env::current_exe()?, args })
    }
}

pub fn is_on(place: &Place) -> Result<bool> {
    place.is_held()
}

/// When it returns, a supervisor is in charge and has started the program. Does nothing where that is so already.
pub fn power_on(place: &Place, launcher: &Launcher) -> Result<()> {
    let _power = take_power(place)?;
    if in_charge(place)?.is_some() {
        return Ok(());
    }
    let (ours, theirs) = UnixStream::pair().map_err(system("make a socket"))?;
    let mut command = Command::new(&launcher.program);
    command.args(&launcher.args).arg(place.dir()).current_dir("/");
    command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null()).stderr(Stdio::null());
    start_detached(command).map_err(|source| Error::Launch { source })?;
    ours.set_read_timeout(Some(PATIENCE)).map_err(system("wait for the supervisor"))?;
    let mut word = String::new();
    match ours.take(LONGEST_WORD).read_to_string(&mut word) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(Error::Silent { seconds: PATIENCE.as_secs() })
        }
        _ if word == STARTED => Ok(()),
        _ if word.is_empty() => Err(Error::NotStarted { why: "the supervisor ended".to_owned() }),
        _ => Err(Error::NotStarted { why: word }),
    }
}

/// When it returns, nothing of it runs any more.
pub fn power_off(place: &Place) -> Result<()> {
    let _power = take_power(place)?;
    let Some(supervisor) = in_charge(place)? else { return Ok(()) };
    tell(&supervisor, Signal::TERM)?;
    match wait_until_free(place, supervisor.stop_timeout + MARGIN) {
        Err(Error::WillNotEnd { .. }) => {}
        ended => return ended,
    }
    tell(&supervisor, Signal::KILL)?;
    wait_until_free(place, LAST_WAIT)
}

/// A supervisor that lives.
struct InCharge {
    pid: u32,
    born: u64,
    stop_timeout: Duration,
}

/// Where the lock is held and nobody has said anything, a supervisor is about to, or was killed and its keeper is about
/// to follow: waits for either. None when nothing runs.
fn in_charge(place: &Place) -> Result<Option<InCharge>> {
    let until = Instant::now() + LAST_WAIT;
    while place.is_held()? {
        if let Some(status) = status::read(place)? {
            let stop_timeout = Duration::from_millis(status.stop_timeout_millis);
            return Ok(Some(InCharge { pid: status.supervisor, born: status.born, stop_timeout }));
        }
        if Instant::now() > until {
            // One that cannot write.
            let found = status::holders(place).first().and_then(|pid| Some((*pid, status::born(*pid)?)));
            let (pid, born) = found.ok_or(Error::WillNotEnd { pid: 0 })?;
            return Ok(Some(InCharge { pid, born, stop_timeout: MARGIN }));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(None)
}

/// Sends a signal to this very process, and waits until it ends if that is soon.
fn tell(supervisor: &InCharge, signal: Signal) -> Result<()> {
    let Some(pid) = Pid::from_raw(supervisor.pid.cast_signed()) else { return Ok(()) };
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return Ok(()) };
    if status::born(supervisor.pid) != Some(supervisor.born) {
        return Ok(());
    }
    match pidfd_send_signal(&process, signal) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => return Err(system("signal the supervisor")(error.into())),
    }
    let at_most = Timespec { tv_sec: 1, tv_nsec: 0 };
    let _ = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&at_most));
    Ok(())
}

fn wait_until_free(place: &Place, at_most: Duration) -> Result<()> {
    let until = Instant::now() + at_most;
    while place.is_held()? {
        if Instant::now() > until {
            let holder = Lock::holder(&place.lock())?;
            return Err(Error::WillNotEnd { pid: holder.map_or(0, |holder| holder.pid) });
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

fn take_power(place: &Place) -> Result<Lock> {
    let run = place.run();
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&run)
        .map_err(|error| disk::Error::io(Operation::Create, &run, error))?;
    let until = Instant::now() + 2 * PATIENCE;
    loop {
        if let Some(lock) = Lock::try_acquire(&place.power_lock())? {
            return Ok(lock);
        }
        if Instant::now() > until {
            return Err(Error::Busy { seconds: 2 * PATIENCE.as_secs() });
        }
        std::thread::sleep(PAUSE);
    }
}

/// The other end: whoever started this supervisor.
pub(super) struct Starter(Option<UnixStream>);

impl Starter {
    /// Takes standard input away from whatever comes later. A supervisor that was started by other means (a service
    /// manager, a person) has nobody to tell.
    pub(super) fn from_stdin() -> Self {
        let stream = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).ok().map(UnixStream::from);
        let stream = stream.filter(|stream| stream.peer_addr().is_ok());
        if let Ok(null) = fs::File::open("/dev/null") {
            let _ = rustix::stdio::dup2_stdin(&null);
        }
        Self(stream)
    }

    pub(super) fn is_gone(&self) -> bool {
        let Some(stream) = &self.0 else { return false };
        let mut fds = [PollFd::new(stream, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut fds, Some(&now)), Ok(1..))
    }

    pub(super) fn tell(&mut self, word: &str) {
        if let Some(stream) = &mut self.0 {
            let _ = stream.write_all(word.as_bytes());
        }
    }
}
