//! QEMU's control protocol: JSON documents, one a line, over a Unix socket.
//!
//! The peer may be hung, half dead, or somebody else: everything that is waited for has a time limit, and a line has a
//! longest length. A connection is short: QEMU talks to one at a time.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde::Deserialize;
use serde_json::{Value, json};

const LONGEST_LINE: usize = 1 << 20;
/// Older ones are forgotten.
const MOST_EVENTS: usize = 64;
const TICK: Duration = Duration::from_millis(10);
const EXCERPT: usize = 80;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("nobody listens on the control socket")]
    Connect(#[source] io::Error),
    #[error("the connection failed")]
    Connection(#[source] io::Error),
    #[error("the connection was closed")]
    Closed,
    #[error("no answer within {} ms", limit.as_millis())]
    TimedOut { limit: Duration },
    #[error("the answer is longer than {LONGEST_LINE} bytes")]
    TooLong,
    #[error("the answer is not QMP: {excerpt:?}")]
    Nonsense { excerpt: String },
    #[error("{command} was refused: {why}")]
    Refused { command: String, why: String },
}

/// One line from QEMU: a greeting, an event, or an answer.
#[derive(Deserialize)]
struct Line {
    #[serde(rename = "QMP")]
    greeting: Option<Value>,
    event: Option<String>,
    id: Option<Value>,
    #[serde(rename = "return")]
    result: Option<Value>,
    error: Option<Refusal>,
}

#[derive(Deserialize)]
struct Refusal {
    #[serde(default)]
    desc: String,
}

#[derive(Debug)]
pub struct Qmp {
    stream: UnixStream,
    /// Received, and not taken apart yet.
    pending: Vec<u8>,
    events: VecDeque<String>,
    asked: u64,
}

impl Qmp {
    /// `name` is the socket in `directory`. Within `limit` in all: connected, greeted, and ready for commands.
    pub fn connect(directory: &Path, name: &str, limit: Duration) -> Result<Self, Error> {
        let wait = Wait::new(limit);
        let stream = open(directory, name, &wait)?;
        let mut qmp = Self { stream, pending: vec![], events: VecDeque::new(), asked: 0 };
        if qmp.line(&wait)?.greeting.is_none() {
            return Err(Error::Nonsense { excerpt: "no greeting".to_owned() });
        }
        qmp.ask("qmp_capabilities", json!({}), &wait)?;
        Ok(qmp)
    }

    pub fn execute(&mut self, command: &str, arguments: Value, limit: Duration) -> Result<Value, Error> {
        self.ask(command, arguments, &Wait::new(limit))
    }

    /// Names of events that came while answers were waited for, oldest first.
    pub fn events(&mut self) -> Vec<String> {
        self.events.drain(..).collect()
    }

    fn ask(&mut self, command: &str, arguments: Value, wait: &Wait) -> Result<Value, Error> {
        self.asked += 1;
        let id = json!(self.asked);
        let mut line = json!({"execute": command, "arguments": arguments, "id": id}).to_string();
        line.push('\n');
        self.stream.set_write_timeout(Some(wait.left()?)).map_err(Error::Connection)?;
        self.stream.write_all(line.as_bytes()).map_err(|error| wait.explain(error))?;
        loop {
            let line = self.line(wait)?;
            if let Some(event) = line.event {
                self.events.push_back(event);
                if self.events.len() > MOST_EVENTS {
                    self.events.pop_front();
                }
                continue;
            }
            // Of a command that was given up before.
            if line.id.as_ref() != Some(&id) && line.id.is_some() {
                continue;
            }
            return match (line.result, line.error) {
                (Some(result), None) => Ok(result),
                (_, Some(refusal)) => {
                    let why = excerpt(refusal.desc.as_bytes());
                    Err(Error::Refused { command: command.to_owned(), why })
                }
                (None, None) => Err(Error::Nonsense { excerpt: format!("no answer to {command}") }),
            };
        }
    }

    fn line(&mut self, wait: &Wait) -> Result<Line, Error> {
        let mut looked_at = 0;
        loop {
            if let Some(at) = self.pending[looked_at..].iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.pending.drain(..=looked_at + at).collect();
                return serde_json::from_slice(&line)
                    .map_err(|_| Error::Nonsense { excerpt: excerpt(&line) });
            }
            looked_at = self.pending.len();
            if looked_at > LONGEST_LINE {
                return Err(Error::TooLong);
            }
            self.stream.set_read_timeout(Some(wait.left()?)).map_err(Error::Connection)?;
            let mut chunk = [0; 4096];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(Error::Closed),
                Ok(count) => self.pending.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(wait.explain(error)),
            }
        }
    }
}

/// Through an open directory, since a socket's path has room for 108 bytes only; and without waiting in the kernel, which
/// knows no end while somebody else's connection waits to be accepted.
fn open(directory: &Path, name: &str, wait: &Wait) -> Result<UnixStream, Error> {
    let failed = |errno: Errno| Error::Connect(errno.into());
    let directory = File::open(directory).map_err(Error::Connect)?;
    let path = format!("/proc/self/fd/{}/{name}", directory.as_raw_fd());
    let address = SocketAddrUnix::new(path.as_str()).map_err(failed)?;
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket: OwnedFd =
        socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(failed)?;
    loop {
        match connect(&socket, &address) {
            Ok(()) => break,
            Err(Errno::AGAIN | Errno::INTR) => {
                thread::sleep(wait.left()?.min(TICK));
            }
            Err(errno) => return Err(failed(errno)),
        }
    }
    rustix::io::ioctl_fionbio(&socket, false).map_err(failed)?;
    Ok(UnixStream::from(socket))
}

/// How long all of an exchange may take.
struct Wait {
    limit: Duration,
    until: Instant,
}

impl Wait {
    fn new(limit: Duration) -> Self {
        Self { limit, until: Instant::now() + limit }
    }

    /// Never nothing: for a socket that would mean without end.
    fn left(&self) -> Result<Duration, Error> {
        match self.until.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => Ok(left),
            _ => Err(Error::TimedOut { limit: self.limit }),
        }
    }

    fn explain(&self, error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::TimedOut { limit: self.limit },
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Error::Closed,
            _ => Error::Connection(error),
        }
    }
}

fn excerpt(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().filter(|c| !c.is_control()).take(EXCERPT).collect()
}
