//! A server as a child: it ends when we do, however that is, and its last words are kept.

use std::collections::VecDeque;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kubernetes::connect::ConnectError;
use kubernetes::request::RequestError;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tracing::{debug, info, warn};

use crate::error::{Error, LastWords};

/// For each to end when it is asked to; what it was doing is safe in any case.
const ENDS_WITHIN: Duration = Duration::from_secs(20);
const LINES: usize = 30;
/// Of a line that is kept.
const LINE_BYTES: usize = 1000;

pub(super) struct Server {
    name: &'static str,
    child: Child,
    words: Arc<Mutex<VecDeque<String>>>,
}

impl Server {
    /// The thread that calls this must last: the child is killed when it ends.
    pub fn start(name: &'static str, line: &[String]) -> Result<Self, Error> {
        let Some((program, arguments)) = line.split_first() else {
            return Err(Error::Server {
                name,
                why: "is not configured".to_owned(),
                words: LastWords::default(),
            });
        };
        let mut command = Command::new(program);
        // A group of its own: Ctrl-C is for us, and we end it in order.
        command.args(arguments).process_group(0).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        service::end_with_us(&mut command, Signal::KILL);
        let child = command.spawn().map_err(|error| {
            let why = format!("can't be started as {program}: {error}");
            Error::Server { name, why, words: LastWords::default() }
        });
        let mut server = Self { name, child: child?, words: Arc::default() };
        info!(server = name, pid = server.child.id(), "started");
        if let Some(output) = server.child.stdout.take() {
            server.listen(output);
        }
        if let Some(output) = server.child.stderr.take() {
            server.listen(output);
        }
        Ok(server)
    }

    fn listen(&self, output: impl AsyncRead + Unpin + Send + 'static) {
        let (words, name) = (Arc::clone(&self.words), self.name);
        tokio::spawn(async move {
            let mut lines = BufReader::new(output).lines();
            while let Ok(Some(mut line)) = lines.next_line().await {
                line.truncate(line.floor_char_boundary(LINE_BYTES));
                debug!(server = name, line);
                let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
                if words.len() == LINES {
                    words.pop_front();
                }
                words.push_back(line);
            }
        });
    }

    /// Waits until it ends, which it should not.
    pub async fn ended(&mut self) -> Error {
        let status = self.child.wait().await;
        // What it said last is still on its way.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let why = match status {
            Ok(status) => format!("ended by itself: {status}"),
            Err(error) => format!("can't be waited for: {error}"),
        };
        self.error(&why)
    }

    pub fn error(&self, why: &str) -> Error {
        Error::Server { name: self.name, why: why.to_owned(), words: self.last_words() }
    }

    /// The same error, with its last words if it is about not being reached.
    pub fn explain(&self, error: Error) -> Error {
        match error {
            Error::Request(RequestError::Unreached { .. })
            | Error::Connect(ConnectError::Kubeconfig { .. }) => {
                let cause =
                    std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
                self.error(&format!("{error}{cause}"))
            }
            other => other,
        }
    }

    fn last_words(&self) -> LastWords {
        LastWords(self.words.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect())
    }

    /// In order, if it ends in time.
    pub async fn stop(mut self) {
        let id = self.child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let Some(id) = id else { return };
        if let Err(error) = kill_process(id, Signal::TERM) {
            warn!(server = self.name, %error, "can't be asked to end");
        }
        match tokio::time::timeout(ENDS_WITHIN, self.child.wait()).await {
            Ok(_) => info!(server = self.name, "ended"),
            Err(_) => {
                warn!(server = self.name, "does not end by itself, killing it");
                // Nothing more can be done than this.
                let _ = self.child.kill().await;
            }
        }
    }
}
