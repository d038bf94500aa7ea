//! An appliance, a publisher, a graph service and an agent, each a process of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use testkit::registry::Registry;
use testkit::releases::{CosignKey, Releases};

pub use super::published::{Published, version};
use crate::upgrade::site::{Done, Kind, Release, Site};

const PATIENCE: Duration = Duration::from_secs(180);

pub struct World<K: Kind> {
    pub site: Site<K>,
    pub releases: Releases,
    pub key: CosignKey,
    /// Where the graph finds releases, as it is written in its settings.
    pub(super) source: String,
    graph_port: u16,
    graph: Option<Child>,
    agent: Option<Child>,
    /// More lines for `[agent]`.
    pub settings: String,
    registry: Option<Registry>,
}

impl<K: Kind> World<K> {
    /// The appliance runs release 1; nothing else is published, nothing else runs.
    pub fn new() -> Self {
        let site = Site::<K>::new();
        let releases = Releases::create(&site.root.join("layout"));
        let key = CosignKey::new(&site.root, "p256");
        let source = format!("\"oci:{}\"", releases.layout.path.display());
        let mut world = Self {
            site,
            releases,
            key,
            source,
            graph_port: testkit::ports::free_port(),
            graph: None,
            agent: None,
            settings: String::new(),
            registry: None,
        };
        world.site.create(&Release::of(1));
        world.publish(&Release::of(1));
        world
    }

    /// Releases are in a real registry instead.
    pub fn with_registry(mut self) -> Self {
        let registry = Registry::start();
        let place = format!("http://{}/shop", registry.host());
        // Without TLS, which only a test does: payloads must say so.
        self.source = format!("{{ address = \"registry:{place}\", payload-repository = \"{place}\" }}");
        self.registry = Some(registry);
        self.push();
        self
    }

    pub fn registry(&self) -> &Registry {
        self.registry.as_ref().unwrap()
    }

    pub fn registry_mut(&mut self) -> &mut Registry {
        self.registry.as_mut().unwrap()
    }

    pub fn push(&self) {
        if let Some(registry) = &self.registry {
            self.releases.push(registry, "shop");
        }
    }

    pub fn state(&self) -> PathBuf {
        self.site.root.join("agent")
    }

    pub fn upstream(&self) -> String {
        format!("http://127.0.0.1:{}", self.graph_port)
    }

    /// The configuration as it stands now.
    fn config(&self) -> PathBuf {
        let path = self.site.root.join("holdfast.toml");
        let text = format!(
            "[graph]\nlisten = \"127.0.0.1:{}\"\nsources = [{}]\ninterval = \"200ms\"\ncache-dir = {:?}\n\
             [agent]\ndirectory = {:?}\nappliance = \"shop\"\nchannel = \"stable\"\nperiod = \"300ms\"\nkeys = [{:?}]\n\
             preconditions = [{:?}]\n{}{}{}\n[upgrade]\ntimeout = {:?}\n",
            self.graph_port,
            self.source,
            self.site.root.join("cache"),
            self.state(),
            self.key.public_file(),
            self.site.root.join("preconditions.d"),
            self.unless_set("upstream", &format!("{:?}", self.upstream())),
            self.unless_set("reserve", "0"),
            self.settings,
            // To boot in, or to fail to.
            if K::BACKEND == "vm" { "60s" } else { "4s" },
        );
        // In one piece: an agent that is just starting reads it, too.
        let draft = self.site.root.join("holdfast.toml.new");
        fs::write(&draft, text).unwrap();
        fs::rename(&draft, &path).unwrap();
        path
    }

    /// A line of settings that a test may have chosen otherwise.
    fn unless_set(&self, key: &str, value: &str) -> String {
        if self.settings.contains(&format!("{key} = ")) {
            String::new()
        } else {
            format!("{key} = {value}\n")
        }
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = self.site.command(&[]);
        command.arg("--config").arg(self.config()).args(words);
        command
    }

    pub fn run(&self, words: &[&str]) -> Done {
        Done::by(self.command(words))
    }

    #[track_caller]
    pub fn ends(&self, words: &[&str], code: i32) -> Done {
        let done = self.run(words);
        assert_eq!(done.code, code, "{words:?}: {done:#?}\n{}", self.log());
        done
    }

    fn spawn(&self, words: &[&str], log: &str) -> Child {
        let log = fs::File::options().create(true).append(true).open(self.site.root.join(log)).unwrap();
        let mut command = self.command(words);
        command.stdout(Stdio::null()).stderr(log).stdin(Stdio::null());
        command.spawn().unwrap()
    }

    pub fn start_graph(&mut self) {
        self.graph = Some(self.spawn(&["graph", "serve"], "graph.log"));
        let port = self.graph_port;
        self.site.wait("the graph is served", || {
            testkit::vm::ask(port, "GET", "/readyz", "").is_some_and(|answer| answer.status == 200)
        });
    }

    pub fn kill_graph(&mut self) {
        kill(self.graph.take());
    }

    pub fn start_agent(&mut self) {
        self.agent = Some(self.spawn(&["agent", "run"], "agent.log"));
    }

    /// From then on it is the one whom commands leave their work to.
    pub fn until_the_agent_runs(&self) {
        self.site.wait("the agent runs", || {
            self.run(&["agent", "status", "-o", "json"]).out.contains("\"agentRuns\": true")
        });
    }

    pub fn kill_agent(&mut self) {
        kill(self.agent.take());
    }

    /// True: the agent has ended. False: `other` came first.
    pub fn ends_by_itself_or(&mut self, other: impl Fn(&Self) -> bool) -> bool {
        let start = Instant::now();
        loop {
            if self.agent.as_mut().is_some_and(|agent| agent.try_wait().unwrap().is_some()) {
                return true;
            }
            if other(self) {
                return false;
            }
            assert!(start.elapsed() < PATIENCE, "{:#}\n{}", self.books(), self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn agent_pid(&self) -> Pid {
        Pid::from_child(self.agent.as_ref().unwrap())
    }

    pub fn stop_agent(&mut self) {
        let Some(mut agent) = self.agent.take() else { return };
        kill_process(Pid::from_child(&agent), Signal::TERM).unwrap();
        assert!(agent.wait().unwrap().success(), "{}", self.log());
    }

    pub fn automatic(&mut self) -> &mut Self {
        self.settings.push_str("automatic = true\n");
        self
    }

    /// What agents have said, one after the other.
    pub fn agent_log(&self) -> PathBuf {
        self.site.root.join("agent.log")
    }

    pub fn log(&self) -> String {
        let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        format!("agent:\n{}\ngraph:\n{}", read(&self.agent_log()), read(&self.site.root.join("graph.log")))
    }

    pub fn books_file(&self) -> PathBuf {
        self.state().join("books.json")
    }

    pub fn books(&self) -> Value {
        read(&self.books_file())
    }

    pub fn agent_state(&self) -> String {
        state(&self.books_file())
    }

    pub fn attempts(&self) -> Vec<Value> {
        history(&self.books_file())
    }

    /// The last attempt at a release, once the agent is at rest again.
    #[track_caller]
    pub fn ended(&self, release: &Release) -> Value {
        let start = Instant::now();
        loop {
            let at_rest = self.agent_state() == "looking";
            let of_it = |attempt: &&Value| attempt["to"] == version(release);
            if let Some(attempt) = self.attempts().iter().rev().find(of_it).filter(|_| at_rest) {
                return attempt.clone();
            }
            assert!(start.elapsed() < PATIENCE, "no end: {:#}\n{}", self.books(), self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[track_caller]
    pub fn ends_as(&self, release: &Release, outcome: &str) -> Value {
        let attempt = self.ended(release);
        assert_eq!(attempt["outcome"], Value::from(outcome), "{attempt:#}\n{}", self.log());
        attempt
    }

    /// Nothing is in quarantine.
    #[track_caller]
    pub fn nothing_left(&self) {
        let quarantine = self.state().join("quarantine");
        let left: Vec<PathBuf> =
            fs::read_dir(&quarantine).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        assert_eq!(left, Vec::<PathBuf>::new());
    }
}

fn read(books: &Path) -> Value {
    serde_json::from_slice(&fs::read(books).unwrap_or_default()).unwrap_or_default()
}

pub fn state(books: &Path) -> String {
    read(books)["agent"]["state"].as_str().unwrap_or_default().to_owned()
}

pub fn history(books: &Path) -> Vec<Value> {
    read(books)["history"].as_array().cloned().unwrap_or_default()
}

fn kill(child: Option<Child>) {
    let Some(mut child) = child else { return };
    let _ = child.kill();
    let _ = child.wait();
}

impl<K: Kind> Drop for World<K> {
    fn drop(&mut self) {
        kill(self.agent.take());
        kill(self.graph.take());
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}
