//! The machine's process: from nothing to running, and back to nothing.
//!
//! Whether it runs is a question about a lock, never about a number: a process inherits the lock from whoever starts it,
//! and the kernel frees it with the process, whatever it dies of.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use ::disk::Operation;
use ::disk::durable::read_limited;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::process::{
    Flock, FlockType, Pid, PidfdFlags, Signal, fcntl_getlk, pidfd_open, pidfd_send_signal,
};
use serde_json::{Value, json};

use super::error::Error;
use super::qmp::{self, Qmp};
use super::serial;
use crate::backend::Result;

pub const LOCK: &str = "machine.lock";
pub const PID: &str = "machine.pid";
pub const SOCKET: &str = "qmp.sock";
const LOG: &str = "qemu.log";
const LOG_LIMIT: u64 = 1 << 20;
/// As much of what QEMU said as a message repeats.
const SAID: usize = 400;

/// From the start of the process until its processors run.
const START: Duration = Duration::from_secs(60);
/// One command; removing a snapshot from a large disk takes long.
pub const COMMAND: Duration = Duration::from_secs(5);
/// The power button is pressed again: a machine that is only booting has nobody yet who takes notice.
const PRESS_AGAIN: Duration = Duration::from_secs(1);
const QUIT: Duration = Duration::from_secs(5);
const KILL: Duration = Duration::from_secs(20);
const TICK: Duration = Duration::from_millis(20);

#[derive(Debug, Clone)]
pub struct Machine {
    run: PathBuf,
}

impl Machine {
    pub fn new(run: PathBuf) -> Self {
        Self { run }
    }

    pub fn is_on(&self) -> Result<bool> {
        let path = self.run.join(LOCK);
        let failed = |error| ::disk::Error::io(Operation::Lock, &path, error);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed(error).into()),
        };
        // Shared, so that those who ask at the same time do not take each other for the machine.
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(failed(error).into()),
        }
    }

    /// Another number for another process: to tell two apart, and for nothing else.
    pub fn generation(&self) -> u64 {
        let bytes = read_limited(&self.run.join(PID), 64).ok().flatten().unwrap_or_default();
        String::from_utf8_lossy(&bytes).trim().parse().unwrap_or_default()
    }

    /// Until it runs. Where it does already, or somebody else is starting it, there is one machine in the end.
    pub fn start(&self, qemu: &Path, arguments: &[OsString], configuration: &[u8]) -> Result<()> {
        let until = Instant::now() + START;
        loop {
            if let Some(lock) = self.try_own()? {
                return self.start_owned(lock, qemu, arguments, configuration, until);
            }
            match self.run_on() {
                Ok(true) => return Ok(()),
                Err(error) if Instant::now() > until => return Err(Error::Control(error).into()),
                Ok(false) if Instant::now() > until => {
                    return Err(Error::Start { said: "it stands still".to_owned() }.into());
                }
                _ => thread::sleep(TICK),
            }
        }
    }

    fn try_own(&self) -> Result<Option<File>> {
        let path = self.run.join(LOCK);
        let failed = |error| ::disk::Error::io(Operation::Lock, &path, error);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(failed(error).into()),
        }
    }

    fn start_owned(
        &self,
        lock: File,
        qemu: &Path,
        arguments: &[OsString],
        configuration: &[u8],
        until: Instant,
    ) -> Result<()> {
        // Of a machine that was killed: nobody is there who could still use them.
        for name in [SOCKET, PID] {
            let path = self.run.join(name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(::disk::Error::io(Operation::Remove, &path, error).into());
                }
                _ => {}
            }
        }
        serial::start_anew(&self.run)?;
        let mut child = self.spawn(lock, qemu, arguments, configuration)?;
        let started = self.follow(&mut child, until);
        if started.is_err() {
            let _ = child.kill();
        }
        // It outlives us, most of the time; where it does not, it is not to stay behind as a dead name.
        thread::spawn(move || child.wait());
        started
    }

    /// A session of its own, so that no terminal's end is the machine's. Its standard input is the configuration, and its
    /// standard output, which it has no use for, is the lock.
    fn spawn(&self, lock: File, qemu: &Path, arguments: &[OsString], configuration: &[u8]) -> Result<Child> {
        let log = self.run.join(LOG);
        let said = File::create(&log).map_err(|error| ::disk::Error::io(Operation::Create, &log, error))?;
        let mut command = Command::new("setsid");
        command.arg(qemu).args(arguments).current_dir(&self.run);
        command.stdin(in_memory(configuration).map_err(Error::Spawn)?).stdout(lock).stderr(said);
        Ok(command.spawn().map_err(Error::Spawn)?)
    }

    fn follow(&self, child: &mut Child, until: Instant) -> Result<()> {
        loop {
            if let Some(status) = child.try_wait().map_err(Error::Spawn)? {
                // So soon, but by itself: whether it was of any use is another question.
                if status.success() {
                    return Ok(());
                }
                let said = match self.said() {
                    said if said.is_empty() => program::ending(status),
                    said => said,
                };
                return Err(Error::Start { said }.into());
            }
            match self.run_on() {
                Ok(true) => return Ok(()),
                Err(error) if Instant::now() > until => return Err(Error::Control(error).into()),
                Ok(false) if Instant::now() > until => {
                    return Err(Error::Start { said: "it stands still".to_owned() }.into());
                }
                _ => thread::sleep(TICK),
            }
        }
    }

    /// Whether its processors run. One that was halted (by a full disk, for one) is told to go on.
    fn run_on(&self) -> Result<bool, qmp::Error> {
        let mut qmp = self.control(COMMAND)?;
        let status = qmp.execute("query-status", json!({}), COMMAND)?;
        if status.get("running") == Some(&Value::Bool(true)) {
            return Ok(true);
        }
        qmp.execute("cont", json!({}), COMMAND)?;
        Ok(false)
    }

    pub fn control(&self, limit: Duration) -> Result<Qmp, qmp::Error> {
        Qmp::connect(&self.run, SOCKET, limit)
    }

    /// When this returns well, its process is gone: asked to, told to, or made to.
    pub fn stop(&self, patience: Duration) -> Result<()> {
        let until = Instant::now() + patience;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            // Whatever is wrong with it, it may still end by itself, and otherwise it will be ended.
            let pressed = self.command("system_powerdown", COMMAND.min(left));
            let wait = if pressed.is_ok() { PRESS_AGAIN } else { TICK };
            if self.is_off_within(wait.min(left))? {
                return Ok(());
            }
        }
        let _ = self.command("quit", COMMAND);
        if self.is_off_within(QUIT)? {
            return Ok(());
        }
        self.kill().map_err(Error::Spawn)?;
        match self.is_off_within(KILL)? {
            true => Ok(()),
            false => Err(Error::DoesNotEnd.into()),
        }
    }

    fn command(&self, command: &str, limit: Duration) -> Result<Value, qmp::Error> {
        self.control(limit)?.execute(command, json!({}), limit)
    }

    fn is_off_within(&self, limit: Duration) -> Result<bool> {
        let until = Instant::now() + limit;
        loop {
            if !self.is_on()? {
                return Ok(true);
            }
            if Instant::now() >= until {
                return Ok(false);
            }
            thread::sleep(TICK);
        }
    }

    /// Kills who has locked the file of its process id, and nobody else, whatever number the file holds.
    fn kill(&self) -> io::Result<()> {
        let file = match OpenOptions::new().read(true).write(true).open(self.run.join(PID)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let Some(pid) = locker(&file)? else { return Ok(()) };
        let process = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => process,
            Err(rustix::io::Errno::SRCH) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        // Still the same, now that it is held on to: the number was not given to somebody else in between.
        if locker(&file)? == Some(pid) {
            match pidfd_send_signal(&process, Signal::KILL) {
                Err(errno) if errno != rustix::io::Errno::SRCH => return Err(errno.into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// The end of what QEMU itself said.
    pub fn said(&self) -> String {
        let bytes = read_limited(&self.run.join(LOG), LOG_LIMIT).ok().flatten().unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().filter(|line| !line.contains(": warning: ")).collect();
        let text: String = lines.join(" / ").chars().filter(|c| !c.is_control()).collect();
        let skip = text.chars().count().saturating_sub(SAID);
        text.chars().skip(skip).collect()
    }
}

fn locker(file: &File) -> io::Result<Option<Pid>> {
    let wanted = Flock::from(FlockType::WriteLock);
    Ok(fcntl_getlk(file, &wanted)?.and_then(|lock| lock.pid))
}

/// A file that has no name anywhere, and that nobody changes any more.
fn in_memory(bytes: &[u8]) -> io::Result<Stdio> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd: OwnedFd = memfd_create("configuration", flags)?;
    let mut file = File::from(fd);
    file.write_all(bytes)?;
    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(file.into())
}
