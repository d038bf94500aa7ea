//! The supervisor's life: one loop over what the program prints, what it says, how it ends, and whether it should.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use disk::{Lock, Operation};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};

use super::backoff::Backoff;
use super::error::{Error, Result, system};
use super::keeper::{Kept, adopt_orphans};
use super::log::Log;
use super::notify::Socket;
use super::place::Place;
use super::power::{STARTED, Starter};
use super::program::Program;
use super::status::{self, Status};

/// Whoever looks whether the lock is held has it for an instant.
const LOCK_TRIES: u32 = 500;
const LOCK_PAUSE: Duration = Duration::from_millis(2);

/// Runs what lies in `dir` until it is told to stop (SIGTERM). Says on its standard input, which is a socket then, to
/// whoever started it how that went.
pub fn run(dir: &Path) -> crate::Result<()> {
    let mut starter = Starter::from_stdin();
    let begun = begin(dir, &starter);
    match &begun {
        Ok(_) => starter.tell(STARTED),
        Err(error) => starter.tell(&text(error)),
    }
    drop(starter);
    begun?.supervise().map_err(|error| crate::backend::Error::from(error).into())
}

fn text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text.replace('\n', " ")
}

/// A program that runs.
struct Running {
    kept: Kept,
    /// None when nobody can write to it any more.
    output: Option<File>,
    since: Instant,
    /// Told to end, and to be killed then.
    until: Option<Instant>,
}

struct Supervisor {
    place: Place,
    program: Program,
    configuration: File,
    notify: Socket,
    log: Log,
    status: Status,
    stop: UnixStream,
    stopping: bool,
    running: Option<Running>,
    backoff: Backoff,
    /// When a program that has ended is started again.
    again: Option<Instant>,
    lock: Lock,
}

/// Up to the program's first start.
fn begin(dir: &Path, starter: &Starter) -> crate::Result<Supervisor> {
    let place = Place::new(dir);
    let mut supervisor = prepare(place, dir, starter)?;
    supervisor.start().map_err(crate::backend::Error::from)?;
    Ok(supervisor)
}

fn prepare(place: Place, dir: &Path, starter: &Starter) -> crate::Result<Supervisor> {
    let run = place.run();
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&run)
        .map_err(|error| disk::Error::io(Operation::Create, &run, error))?;
    let lock = take_lock(&place)?;
    // Whoever started us holds off everybody else who would start or stop it. If he is dead, somebody may have found
    // it to be off before we had the lock: then off it stays.
    if starter.is_gone() {
        return Err(failed(Error::NotStarted { why: "whoever asked for it has ended".to_owned() }));
    }
    // As services have it, whoever started this one.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let program = Program::of(dir)?;
    let stop = stop_signals().map_err(|error| failed(system("listen for signals")(error)))?;
    adopt_orphans().map_err(|error| failed(system("adopt orphans")(error)))?;
    let configuration =
        program.handed().map_err(|error| failed(system("keep the configuration in memory")(error)))?;
    let notify = Socket::bind(&place).map_err(|error| failed(system("make a socket")(error)))?;
    let pid = std::process::id();
    let status = Status {
        supervisor: pid,
        born: status::born(pid).unwrap_or_default(),
        release: program.release.clone(),
        pid: None,
        restarts: 0,
        last_exit: None,
        since: jiff::Timestamp::now().to_string(),
        ready: false,
        said: None,
        stop_timeout_millis: u64::try_from(program.stop_timeout.as_millis()).unwrap_or(u64::MAX),
    };
    let log = Log::open(&place);
    Ok(Supervisor {
        place,
        program,
        configuration,
        notify,
        log,
        status,
        stop,
        stopping: false,
        running: None,
        backoff: Backoff::new(),
        again: None,
        lock,
    })
}

fn failed(error: Error) -> crate::Error {
    crate::backend::Error::from(error).into()
}

fn take_lock(place: &Place) -> crate::Result<Lock> {
    for _ in 0..LOCK_TRIES {
        if let Some(lock) = Lock::try_acquire(&place.lock())? {
            return Ok(lock);
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    Err(failed(Error::NotStarted { why: "it is on already".to_owned() }))
}

/// Readable when this process was told to stop.
fn stop_signals() -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::low_level::pipe::register(signal, theirs.try_clone()?)?;
    }
    Ok(ours)
}

impl Supervisor {
    fn supervise(mut self) -> Result<()> {
        loop {
            match (&self.running, self.again) {
                (None, _) if self.stopping => return Ok(()),
                (None, Some(at)) if at <= Instant::now() => self.start_again(),
                _ => {}
            }
            self.wait_for_something()?;
            self.look_at_signals();
            self.look_at_output();
            self.look_at_notifications();
            self.look_at_program();
        }
    }

    fn wait_for_something(&self) -> Result<()> {
        let deadline = self.running.as_ref().map_or(self.again, |running| running.until);
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        // A moment more, so as not to come back just before.
        let left = left.map(|left| left + Duration::from_millis(1));
        let timeout = left.map(|left| Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        let mut fds =
            vec![PollFd::new(&self.stop, PollFlags::IN), PollFd::new(self.notify.socket(), PollFlags::IN)];
        if let Some(running) = &self.running {
            fds.push(PollFd::new(running.kept.wire(), PollFlags::IN));
            fds.extend(running.output.as_ref().map(|output| PollFd::new(output, PollFlags::IN)));
        }
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(system("wait for its program")(error.into())),
        }
    }

    fn look_at_signals(&mut self) {
        let mut buffer = [0; 16];
        while matches!(self.stop.read(&mut buffer), Ok(1..)) {
            self.stopping = true;
        }
        let Some(running) = &mut self.running else { return };
        match running.until {
            None if self.stopping => {
                running.kept.ask();
                running.until = Some(Instant::now() + self.program.stop_timeout);
            }
            Some(until) if until <= Instant::now() => {
                running.kept.end();
                // It is gone when its wire is readable; there is nothing more to be done about it until then.
                running.until = Some(until + Duration::from_secs(3600));
                self.log.say("it did not stop in time, and was killed");
            }
            _ => {}
        }
    }

    fn look_at_output(&mut self) {
        let Some(running) = &mut self.running else { return };
        let Some(output) = &mut running.output else { return };
        let mut buffer = [0; 64 << 10];
        // One buffer at a time: a program that never stops printing must not keep us from listening to others.
        match output.read(&mut buffer) {
            Ok(0) => running.output = None,
            Ok(length) => self.log.write(&buffer[..length]),
            Err(_) => {}
        }
    }

    fn look_at_notifications(&mut self) {
        let said = self.notify.hear();
        if self.running.is_none() || said == super::notify::Said::default() {
            return;
        }
        self.status.ready |= said.ready;
        self.status.said = said.status.or(self.status.said.take());
        self.publish();
    }

    fn look_at_program(&mut self) {
        let Some(running) = &self.running else { return };
        let mut fds = [PollFd::new(running.kept.wire(), PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if !matches!(poll(&mut fds, Some(&now)), Ok(1..)) {
            return;
        }
        let Some(Running { kept, output, since, .. }) = self.running.take() else { return };
        let status = kept.wait();
        let mut buffer = [0; 64 << 10];
        // Nobody is left to write more.
        while let Some(Ok(length @ 1..)) = output.as_ref().map(|mut output| output.read(&mut buffer)) {
            self.log.write(&buffer[..length]);
        }
        let ending = status.map_or("its keeper was killed".to_owned(), program::ending);
        self.log.say(&format!("the program ended: {ending}"));
        self.ended(ending, since.elapsed());
    }

    fn ended(&mut self, ending: String, after: Duration) {
        self.status.last_exit = Some(ending);
        self.status.pid = None;
        self.status.ready = false;
        self.status.since = jiff::Timestamp::now().to_string();
        self.again = Some(Instant::now() + self.backoff.after(after));
        self.publish();
    }

    fn start_again(&mut self) {
        self.status.restarts = self.status.restarts.saturating_add(1);
        if let Err(error) = self.start() {
            let why = text(&error);
            self.log.say(&why);
            self.ended(why, Duration::ZERO);
        }
    }

    fn start(&mut self) -> Result<()> {
        // Said by whoever ran before, if anybody did.
        let _ = self.notify.hear();
        let (output, end) =
            pipe_with(PipeFlags::CLOEXEC).map_err(|error| system("make a pipe")(error.into()))?;
        rustix::io::ioctl_fionbio(&output, true).map_err(|error| system("make a pipe")(error.into()))?;
        let mut command = self.program.command(&self.configuration, self.notify.name());
        let end = File::from(end);
        let copy = end.try_clone().map_err(system("make a pipe"))?;
        command.stdin(Stdio::null()).stdout(end).stderr(copy);
        let kept = Kept::start(command, self.lock.as_fd(), self.configuration.as_fd())
            .map_err(|source| Error::Start { program: self.program.path.clone(), source })?;
        self.status.pid = Some(kept.program);
        self.status.ready = false;
        self.status.said = None;
        self.status.since = jiff::Timestamp::now().to_string();
        self.running =
            Some(Running { kept, output: Some(File::from(output)), since: Instant::now(), until: None });
        self.publish();
        Ok(())
    }

    /// A disk that is full must not keep a program from running; what is on it about us is old then.
    fn publish(&mut self) {
        if let Err(error) = status::write(&self.place, &self.status) {
            self.log.say(&format!("the status cannot be written: {error}"));
        }
    }
}
