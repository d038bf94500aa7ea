//! A server as a process: its log in a file, and itself gone when we are, however we go.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{LazyLock, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::lock;

pub struct Process {
    child: Child,
    log: PathBuf,
}

type Order = (Command, mpsc::Sender<std::io::Result<Child>>);

/// The system kills a child whose parent is gone, but means the parent's thread by that. So all are started
/// by a thread that lasts as long as we do.
static STARTER: LazyLock<Mutex<mpsc::Sender<Order>>> = LazyLock::new(|| {
    let (orders, inbox) = mpsc::channel::<Order>();
    thread::spawn(move || {
        for (mut command, answer) in inbox {
            let _ = answer.send(command.spawn());
        }
    });
    Mutex::new(orders)
});

impl Process {
    pub fn start(program: &Path, arguments: &[String], log: PathBuf) -> Self {
        Self::with_environment(program, arguments, &[], log)
    }

    /// With these variables besides our own.
    pub fn with_environment(
        program: &Path,
        arguments: &[String],
        environment: &[(String, String)],
        log: PathBuf,
    ) -> Self {
        let file = OpenOptions::new().create(true).append(true).open(&log).expect("a log");
        let both: File = file.try_clone().expect("a log");
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program).args(arguments);
        // Options of either server could come from there, and from a machine that has one they would.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("ETCD") {
                command.env_remove(name);
            }
        }
        command.envs(environment.iter().cloned());
        command.stdin(Stdio::null()).stdout(file).stderr(both);
        let (answer, result) = mpsc::channel();
        lock(&STARTER).send((command, answer)).expect("the starter");
        let child = result.recv().expect("the starter").expect("setpriv is needed: it is in util-linux");
        Self { child, log }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the state of a process")
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to end.
    pub fn ask_to_end(&mut self) {
        let id = i32::try_from(self.child.id()).expect("an id");
        if self.ended().is_none() {
            let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
        }
    }

    /// Asks it to end, and takes no longer than that.
    pub fn terminate(&mut self, patience: Duration) {
        self.ask_to_end();
        let deadline = Instant::now() + patience;
        while self.ended().is_none() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
        }
        self.kill();
    }

    /// The end of the log, for a message.
    pub fn last_words(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
