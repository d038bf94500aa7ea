//! The appliance of `make run`, its publisher, its graph and its agent.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub struct Fleet {
    root: PathBuf,
    port: u16,
    graph: Child,
    agent: Option<Child>,
}

const PATIENCE: Duration = Duration::from_secs(60);

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port").port()
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/notes").join(name)
}

fn run(command: &mut Command) {
    let output = command.output().expect("a program");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Fleet {
    /// Release 1 runs, and is all that is published.
    pub fn new(period: &str) -> Self {
        let root = std::env::temp_dir().join(format!("holdfast-bench-agent-{}-{period}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).expect("a directory");
        let key = root.join("key.pem");
        run(Command::new("openssl")
            .args(["ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out"])
            .arg(&key));
        run(Command::new("openssl")
            .args(["ec", "-pubout", "-in"])
            .arg(&key)
            .arg("-out")
            .arg(root.join("key.pub")));
        run(Command::new(example("build")).arg(root.join("releases")).arg(root.join("key.pub")));
        let (port, graph_port) = (free_port(), free_port());
        let place = root.display();
        let text = format!(
            "[graph]\nlisten = \"127.0.0.1:{graph_port}\"\nsources = [\"oci:{place}/layout\"]\ninterval = \"250ms\"\n\
             cache-dir = \"{place}/cache\"\n[upgrade]\ndirectory = \"{place}/appliances\"\n\
             [agent]\ndirectory = \"{place}/agent\"\nupstream = \"http://127.0.0.1:{graph_port}\"\nchannel = \"stable\"\n\
             automatic = true\nperiod = \"{period}\"\nkeys = [\"{place}/key.pub\"]\nmax-skew = 100\n",
        );
        fs::write(root.join("holdfast.toml"), text).expect("a configuration");
        publish(&root, 1, &root.join("releases/release-1"));
        let release = format!("oci:{place}/layout:1.0.0");
        let set = format!("port={port}");
        let words = ["appliance", "create", "notes", "--release", &release, "--set", &set, "--start"];
        run(holdfast(&root).args(words));
        let graph =
            holdfast(&root).args(["graph", "serve"]).stderr(Stdio::null()).stdout(Stdio::null()).spawn();
        Self { port, graph: graph.expect("a graph service"), agent: None, root }
    }

    /// Release 2 under another number.
    pub fn release(&self, number: u32) -> PathBuf {
        let directory = self.root.join(format!("releases/as-{number}"));
        run(Command::new("cp").arg("-a").arg(self.root.join("releases/release-2")).arg(&directory));
        let rename = |file: &str, from: &str, to: &str| {
            let path = directory.join(file);
            let text = fs::read_to_string(&path).expect("a file").replace(from, to);
            fs::write(&path, text).expect("a file");
        };
        rename("release.json", "v2.0.0-200-", &format!("v{number}.0.0-{number}00-"));
        let metadata = "release-manifests/release-metadata";
        rename(metadata, "\"1.0.0\"", &format!("\"{}.0.0\"", number - 1));
        rename(metadata, "\"version\": \"2.0.0\"", &format!("\"version\": \"{number}.0.0\""));
        directory
    }

    pub fn publish(&self, number: u32, release: &Path) {
        publish(&self.root, number, release);
    }

    /// By hand, from an image that only this command knows.
    pub fn upgrade(&self, release: &Path) {
        let layout = self.root.join("by-hand");
        run(Command::new(example("publish"))
            .arg(&layout)
            .arg("next")
            .arg(release)
            .arg(self.root.join("key.pem")));
        let reference = format!("oci:{}:next", layout.display());
        run(holdfast(&self.root).args(["upgrade", "notes", "--release", &reference]));
    }

    pub fn start_agent(&mut self) {
        let log = fs::File::options().create(true).append(true).open(self.root.join("log")).expect("a log");
        let agent = holdfast(&self.root).args(["agent", "run"]).stderr(log).stdout(Stdio::null()).spawn();
        self.agent = Some(agent.expect("an agent"));
    }

    pub fn stop_agent(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_child(&agent),
                rustix::process::Signal::TERM,
            );
            let _ = agent.wait();
        }
    }

    fn until(&self, what: &str, so: impl Fn() -> bool) {
        let start = Instant::now();
        while !so() {
            let log = || fs::read_to_string(self.root.join("log")).unwrap_or_default();
            assert!(start.elapsed() < PATIENCE, "{what}: {}", log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The agent has heard of a release that it runs.
    pub fn until_it_knows(&self, number: u32) {
        self.until("the agent knows where it is", || {
            let news = fs::read(self.root.join("agent/news.json")).unwrap_or_default();
            let news: serde_json::Value = serde_json::from_slice(&news).unwrap_or_default();
            news["running"] == format!("{number}.0.0")
                && news["asked"].is_string()
                && news["trouble"].is_null()
        });
    }

    pub fn until_it_runs(&self, number: u32) {
        let release = format!("\"v{number}.0.0-");
        self.until("the release runs", || {
            let answer = testkit::vm::ask(self.port, "GET", "/version", "");
            answer.is_some_and(|answer| answer.status == 200 && answer.body.contains(&release))
        });
    }

    fn proc(&self, file: &str) -> String {
        let pid = self.agent.as_ref().expect("an agent").id();
        fs::read_to_string(format!("/proc/{pid}/{file}")).expect("a process")
    }

    /// Seconds.
    pub fn cpu_of_the_agent(&self) -> f64 {
        let stat = self.proc("stat");
        let fields: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_whitespace().collect();
        let ticks = |at: usize| fields[at].parse::<f64>().expect("a number");
        (ticks(11) + ticks(12)) / 100.0
    }

    pub fn memory_of_the_agent(&self) -> u64 {
        let status = self.proc("status");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
        let kib = line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok());
        kib.expect("a number") << 10
    }
}

fn publish(root: &Path, number: u32, release: &Path) {
    let tag = format!("{number}.0.0");
    run(Command::new(example("publish"))
        .arg(root.join("layout"))
        .arg(tag)
        .arg(release)
        .arg(root.join("key.pem")));
}

fn holdfast(root: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.arg("--config").arg(root.join("holdfast.toml")).stdin(Stdio::null());
    command
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.stop_agent();
        let _ = self.graph.kill();
        let _ = self.graph.wait();
        let _ = holdfast(&self.root).args(["appliance", "rm", "notes", "--force"]).output();
        let _ = fs::remove_dir_all(&self.root);
    }
}
