//! `holdfast graph` as people use it: the commands, and the service as a process that is asked, told to read its
//! configuration again, and stopped.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory with a graph of seven releases, graph data, and a configuration that names both.
struct Site {
    dir: PathBuf,
}

impl Site {
    fn new(name: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("graph-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let site = Self { dir };
        let versions = ["4.1.0", "4.1.1", "4.1.2", "4.2.0", "4.2.1", "4.2.3", "5.0.0"];
        let node = |(at, version)| serde_json::json!({"version": version, "payload": format!("r.example/a@sha256:{at:064}")});
        let nodes: Vec<Value> = versions.iter().enumerate().map(node).collect();
        let edges: Vec<[usize; 2]> = (0..6).flat_map(|to| (0..to).map(move |from| [from, to])).collect();
        site.write(
            "graph.json",
            &serde_json::json!({"version": 1, "nodes": nodes, "edges": edges}).to_string(),
        );
        site.write("data/version", "1.1.0\n");
        site.channel(&["4.1.0", "4.1.1", "4.1.2", "4.2.0", "4.2.1"]);
        site.write("data/channels/fast-4.yaml", "name: fast-4\nversions: [4.1.0, 4.2.1, 4.2.3, 5.0.0]\n");
        site.write("data/blocked-edges/plain.yaml", "to: 4.2.0\nfrom: ^4[.]1[.].*\n");
        site.write(
            "data/blocked-edges/risky.yaml",
            "to: 4.2.1\nfrom: ^4[.]1[.].*\nurl: https://example.test/slow\nname: SlowDisk\n\
             message: Slow disks become slower.\nmatchingRules:\n- type: Always\n",
        );
        site.configure("");
        site
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn channel(&self, versions: &[&str]) {
        let list = versions.join(", ");
        self.write("data/channels/stable-4.yaml", &format!("name: stable-4\nversions: [{list}]\n"));
    }

    fn configure(&self, more: &str) {
        let at = self.dir.display();
        self.write(
            "holdfast.toml",
            &format!(
                "[graph]\nlisten = \"127.0.0.1:0\"\nsources = [\"graph:{at}/graph.json\"]\n\
                 graph-data = \"{at}/data\"\ncache-dir = \"{at}/cache\"\ninterval = \"1h\"\n{more}"
            ),
        );
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(HOLDFAST);
        command.current_dir(&self.dir).args(["--config", "holdfast.toml", "graph"]).args(words);
        command
    }

    fn run(&self, words: &[&str]) -> (i32, String, String) {
        let Output { status, stdout, stderr } = self.command(words).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (status.code().unwrap(), text(stdout), text(stderr))
    }

    fn serve(&self, words: &[&str]) -> Server {
        let mut command = self.command(&["serve"]);
        let mut child = command.args(words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, log) = channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).all(|line| sender.send(line).is_ok())
        });
        let mut server = Server { child, log, said: vec![], address: String::new() };
        let line = server.wait_for("address=");
        server.address = line.split("address=").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
        server
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

struct Server {
    child: Child,
    log: Receiver<String>,
    said: Vec<String>,
    address: String,
}

impl Server {
    #[track_caller]
    fn wait_for(&mut self, words: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        while let Ok(line) = self.log.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            self.said.push(line.clone());
            if line.contains(words) {
                return line;
            }
        }
        panic!("never said {words:?}: {:#?}", self.said);
    }

    /// Status and body.
    fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn versions(&self, version: &str, channel: &str) -> Vec<String> {
        let (status, body) = self.get(&format!("/v1/graph?version={version}&channel={channel}&id=device-1"));
        assert_eq!(status, 200, "{body}");
        let graph: Value = serde_json::from_str(&body).unwrap();
        let version = |node: &Value| node["version"].as_str().unwrap().to_owned();
        graph["nodes"].as_array().unwrap().iter().map(version).collect()
    }

    #[track_caller]
    fn eventually(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(Instant::now() < deadline, "{what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    fn stop(mut self) -> i32 {
        self.signal(nix::sys::signal::SIGTERM);
        self.child.wait().unwrap().code().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn channels_and_their_releases_are_shown() {
    let site = Site::new("show");
    let (code, out, err) = site.run(&["show"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(
        out,
        "CHANNEL    ARCH   RELEASES   LEADS TO\n\
         fast-4     any    4          5.0.0\n\
         stable-4   any    5          4.2.1\n"
    );
    let (_, out, _) = site.run(&["show", "--channel", "stable-4"]);
    assert_eq!(
        out,
        "RELEASE   REACHED FROM      RISKS\n\
         4.1.0     0\n\
         4.1.1     1\n\
         4.1.2     2\n\
         4.2.0     0\n\
         4.2.1 *   1 +3 with risks   SlowDisk\n"
    );
    let (_, out, _) = site.run(&["show", "--channel", "stable-4", "--version", "4.1.1", "-o", "name"]);
    assert_eq!(out, "4.1.1\n4.1.2\n4.2.1\n");
    let (code, _, err) = site.run(&["show", "--channel", "nightly"]);
    assert_eq!(
        (code, err.as_str()),
        (3, "error: there is no channel nightly\nhint: there are fast-4, stable-4\n")
    );
}

#[test]
fn a_channel_is_drawn() {
    let site = Site::new("pictures");
    let picture = |format: &str| site.run(&["show", "--channel", "stable-4", "-o", format]).1;
    assert!(picture("dot").contains("\"4.1.0\" -> \"4.2.1\" [style=dashed"));
    assert!(picture("mermaid").contains("flowchart LR\n"));
    let svg = picture("svg");
    assert!(svg.starts_with("<svg ") && svg.contains("dashed: with a risk to weigh"), "{svg}");
    let (code, _, err) = site.run(&["show", "-o", "svg"]);
    assert_eq!(code, 2);
    assert!(err.contains("give --channel: fast-4, stable-4"), "{err}");
}

#[test]
fn a_way_is_told_with_its_risks_and_a_missing_one_with_its_reasons() {
    let site = Site::new("path");
    let path = |from: &str, to: &str, channel: &str| site.run(&["path", from, to, "--channel", channel]);
    let (code, out, _) = path("4.1.0", "4.2.1", "stable-4");
    assert_eq!((code, out.as_str()), (0, "  4.1.0 → 4.2.1   risks to weigh: SlowDisk\n"));
    let (code, out, _) = path("4.1.0", "4.2.0", "stable-4");
    assert_eq!(code, 3);
    assert!(out.contains("4.1.0 → 4.2.0 was taken away by blocked-edges/plain.yaml"), "{out}");
    let (code, out, _) = path("4.1.0", "4.2.3", "stable-4");
    assert_eq!(code, 3);
    assert!(out.contains("4.2.3 is not approved for stable-4, only for fast-4"), "{out}");
    let (code, out, _) = path("4.1.0", "5.0.0", "fast-4");
    assert_eq!(code, 3);
    assert!(out.contains("none was ever declared; the newest within reach is 4.2.3"), "{out}");
}

#[test]
fn what_was_built_is_read_again_and_compared() {
    let site = Site::new("diff");
    let (code, out, _) = site.run(&["build", "-o", "json"]);
    assert_eq!(code, 0);
    site.write("built.json", &out);
    assert_eq!(site.run(&["diff", "built.json", "built.json"]).1, "no difference\n");
    let (_, out, _) = site.run(&["diff", "graph.json", "built.json"]);
    assert!(out.contains("- 4.1.0 → 4.2.0\n~ 4.1.0 → 4.2.1   plain → conditional (SlowDisk)\n"), "{out}");
}

#[test]
fn mistakes_in_graph_data_are_found_with_their_lines() {
    let site = Site::new("check");
    assert_eq!(site.run(&["check", "data"]).0, 0);
    site.write("data/channels/other.yaml", "name: other\nversions:\n- 4.1.0\n- four\n");
    site.write("data/blocked-edges/broken.yaml", "to: 4.1.1\nfrom: '('\n");
    let (code, out, _) = site.run(&["check", "data"]);
    assert_eq!(code, 4);
    for place in ["channels/other.yaml:4: error", "blocked-edges/broken.yaml:2: error"] {
        assert!(out.contains(place), "{place}: {out}");
    }
}

#[test]
fn what_can_not_be_served_is_refused_with_a_way_out() {
    let site = Site::new("refused");
    let (code, _, err) = site.run(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(code, 2);
    assert!(err.contains("without TLS") && err.contains("hint: "), "{err}");
    let (code, _, err) = site.run(&["build", "--source", "ftp://x"]);
    assert_eq!(code, 2);
    assert!(err.contains("registry:https://HOST/REPO"), "{err}");
    let (code, _, err) = site.run(&["build", "--source", "graph:nowhere.json"]);
    assert_eq!(code, 3);
    assert!(err.contains("nowhere.json"), "{err}");
    let (code, _, err) = site.run(&["build", "--graph-data-key", "key.asc"]);
    assert_eq!(code, 4);
    assert!(err.contains("would be used unsigned"), "{err}");
    let (code, _, err) = site.run(&["build", "-o", "svg"]);
    assert_eq!((code, err.contains("no picture")), (2, true), "{err}");
    let none = Command::new(HOLDFAST).args(["--config", "/dev/null", "graph", "show"]).output().unwrap();
    assert_eq!(none.status.code(), Some(2));
}

#[test]
fn a_service_answers_reads_its_configuration_again_and_ends_when_told() {
    let site = Site::new("serve");
    let mut server = site.serve(&[]);
    server.eventually("it gets ready", |server| server.get("/readyz").0 == 200);
    assert_eq!(server.versions("4.1.1", "stable-4"), ["4.1.1", "4.1.2", "4.2.1"]);
    assert_eq!(server.get("/v1/graph?version=4.1.1&channel=stable-4").0, 400, "the id is missing");
    assert!(server.get("/metrics").1.contains("source_releases{source=\"graph:"));

    // Graph data is looked at again at once, and a parameter is no longer required.
    site.channel(&["4.1.0", "4.1.1", "4.1.2"]);
    site.configure("required-parameters = [\"version\", \"channel\"]\n");
    server.signal(nix::sys::signal::SIGHUP);
    server.wait_for("configuration was read again");
    server.eventually("the new channel is served", |server| {
        server.versions("4.1.1", "stable-4") == ["4.1.1", "4.1.2"]
    });
    assert_eq!(server.get("/v1/graph?version=4.1.1&channel=stable-4").0, 200);

    // A mistake changes nothing.
    site.configure("no-such-key = 1\n");
    server.signal(nix::sys::signal::SIGHUP);
    assert!(server.wait_for("old one stays in force").contains("no-such-key"));
    assert_eq!(server.versions("4.1.1", "stable-4"), ["4.1.1", "4.1.2"]);

    // Another source.
    site.write("other.json", r#"{"nodes": [{"version": "4.1.1", "payload": "x"}], "edges": []}"#);
    let other = format!("sources = [\"graph:{}/other.json\"]\n", site.dir.display());
    site.configure("");
    let text = fs::read_to_string(site.dir.join("holdfast.toml")).unwrap();
    let text = text.lines().filter(|line| !line.starts_with("sources")).collect::<Vec<_>>().join("\n");
    site.write("holdfast.toml", &format!("{text}\n{other}"));
    server.signal(nix::sys::signal::SIGHUP);
    server
        .eventually("the other source is served", |server| server.versions("4.1.1", "stable-4") == ["4.1.1"]);
    assert_eq!(server.stop(), 0);
}

#[test]
fn before_the_first_look_is_done_the_service_says_so_and_later_failures_leave_the_last_graph() {
    let site = Site::new("not-ready");
    let graph = fs::read_to_string(site.dir.join("graph.json")).unwrap();
    fs::remove_file(site.dir.join("graph.json")).unwrap();
    let mut server = site.serve(&["--interval", "1s"]);
    server.wait_for("failed");
    server.eventually("the reason is told", |server| {
        let (status, body) = server.get("/v1/graph?version=4.1.1&channel=stable-4&id=a");
        assert_eq!(status, 503, "{body}");
        body.contains("graph.json")
    });
    assert_eq!((server.get("/livez").0, server.get("/readyz").0), (200, 503));
    site.write("graph.json", &graph);
    server.eventually("it gets ready", |server| server.get("/readyz").0 == 200);
    site.write("graph.json", "{");
    server.eventually("the failure is noticed", |server| server.get("/metrics").1.contains("_stale 1"));
    assert_eq!(server.versions("4.1.1", "stable-4"), ["4.1.1", "4.1.2", "4.2.1"]);
    assert_eq!(server.stop(), 0);
}

#[test]
fn builder_and_policy_run_apart_and_show_what_they_show_together() {
    let site = Site::new("apart");
    let together = site.serve(&[]);
    let builder = site.serve(&["--builder"]);
    for server in [&together, &builder] {
        server.eventually("it gets ready", |server| server.get("/readyz").0 == 200);
    }
    let other = Site::new("apart-policy");
    other.write("holdfast.toml", "[graph]\nlisten = \"127.0.0.1:0\"\n");
    let upstream = format!("http://{}/v1/graph", builder.address);
    let policy = other.serve(&["--upstream", &upstream]);
    // And one more onto the one that has already cut the window out.
    let upstream = format!("http://{}/v1/graph", together.address);
    let onto_policy = other.serve(&["--upstream", &upstream]);
    for channel in ["stable-4", "fast-4", "nightly"] {
        for version in ["4.1.0", "4.1.1", "4.2.0", "4.2.3", "5.0.0", "9.9.9"] {
            let seen = together.versions(version, channel);
            assert_eq!(policy.versions(version, channel), seen, "{version} {channel}");
            assert_eq!(onto_policy.versions(version, channel), seen, "{version} {channel}");
        }
    }
}
