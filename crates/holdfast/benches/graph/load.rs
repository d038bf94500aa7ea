//! The load: `wrk` with a script that mixes channels, versions and architectures, every request from another client; and
//! single requests for what was never asked before.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use testkit::graph_data::{self, ARCHITECTURES};

use crate::world::SIZE;

const CONNECTIONS: &str = "64";

/// What one run of `wrk` said.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    pub requests: u64,
    pub per_second: f64,
    pub p99: Duration,
    pub failed: u64,
    /// Of bodies, on average.
    pub body: usize,
}

pub struct Load {
    script: PathBuf,
    head: usize,
}

impl Load {
    /// `gzip`: with the header that asks for it.
    pub fn new(dir: &Path, gzip: bool) -> Self {
        let script = dir.join(if gzip { "gzip.lua" } else { "plain.lua" });
        fs::write(&script, lua(gzip)).expect("the script");
        Self { script, head: 0 }
    }

    /// So that sizes of bodies can be told from sizes of answers.
    pub fn learn_head(&mut self, address: &str, gzip: bool) {
        let path = paths().remove(0);
        let (answer, _) = Client::new(address).ask(&path, gzip);
        self.head = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
    }

    /// `round` keeps the ids of clients apart from those of other rounds.
    pub fn run(&self, address: &str, seconds: u64, round: u64) -> Run {
        let output = Command::new("wrk")
            .args(["-t", "2", "-c", CONNECTIONS, "-d", &format!("{seconds}s"), "-s"])
            .arg(&self.script)
            .arg(format!("http://{address}"))
            .env("ROUND", round.to_string())
            .output()
            .expect("wrk is installed (Debian: wrk)");
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("RESULT "))
            .unwrap_or_else(|| panic!("wrk said: {text}{}", String::from_utf8_lossy(&output.stderr)));
        let numbers: Vec<f64> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
        let [requests, micros, bytes, failed, p99] = numbers[..] else { panic!("{line}") };
        Run {
            requests: requests as u64,
            per_second: requests / (micros / 1e6),
            p99: Duration::from_micros(p99 as u64),
            failed: failed as u64,
            body: ((bytes / requests) as usize).saturating_sub(self.head),
        }
    }
}

/// Several channels, with versions that their clients run, on all architectures.
fn paths() -> Vec<String> {
    let mut paths = Vec::new();
    for (channel, versions) in graph_data::channels(SIZE).into_iter().skip(6).step_by(13) {
        for version in versions.iter().rev().step_by(13) {
            for arch in &ARCHITECTURES[..SIZE.architectures] {
                paths.push(format!("/v1/graph?channel={channel}&version={version}&arch={arch}"));
            }
        }
    }
    paths
}

/// How many different questions the mix has.
pub fn questions() -> usize {
    paths().len()
}

fn lua(gzip: bool) -> String {
    let quoted: Vec<String> = paths().iter().map(|path| format!("  {path:?},\n")).collect();
    let headers = if gzip { "wrk.headers[\"Accept-Encoding\"] = \"gzip\"\n" } else { "" };
    format!(
        r#"local paths = {{
{}}}
{headers}
local threads = 0
function setup(thread)
  thread:set("number", threads)
  threads = threads + 1
end
function init(args)
  round = os.getenv("ROUND")
  asked = 0
  math.randomseed(number * 1000 + tonumber(round))
end
function request()
  asked = asked + 1
  local path = paths[math.random(#paths)]
  return wrk.format("GET", path .. "&id=client-" .. round .. "-" .. number .. "-" .. asked)
end
function done(summary, latency, requests)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  print("RESULT " .. summary.requests .. " " .. summary.duration .. " " .. summary.bytes .. " " .. failed
    .. " " .. latency:percentile(99))
end
"#,
        quoted.concat()
    )
}

/// One connection that stays.
struct Client(TcpStream);

impl Client {
    fn new(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("the server");
        stream.set_nodelay(true).expect("no delay");
        Self(stream)
    }

    fn ask(&mut self, path: &str, gzip: bool) -> (Vec<u8>, Duration) {
        let encoding = if gzip { "Accept-Encoding: gzip\r\n" } else { "" };
        let request = format!("GET {path}&id=single HTTP/1.1\r\nHost: localhost\r\n{encoding}\r\n");
        let started = Instant::now();
        self.0.write_all(request.as_bytes()).expect("sent");
        let mut answer = Vec::with_capacity(1 << 20);
        let mut buffer = vec![0; 256 << 10];
        loop {
            let read = self.0.read(&mut buffer).expect("an answer");
            assert!(read > 0, "the server hung up");
            answer.extend_from_slice(&buffer[..read]);
            let Some(head) = answer.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
            let text = String::from_utf8_lossy(&answer[..head]).to_ascii_lowercase();
            assert!(text.starts_with("http/1.1 200"), "{text}");
            let length =
                text.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
            if answer.len() >= head + 4 + length.trim().parse::<usize>().expect("a number") {
                return (answer, started.elapsed());
            }
        }
    }
}

/// Times of requests for windows that were never asked for, sorted.
pub fn first_requests(address: &str) -> Vec<Duration> {
    let mut client = Client::new(address);
    // What the mix has is known already; the connection and the code are warm after it.
    for path in paths().iter().take(20) {
        client.ask(path, false);
    }
    let mut times = Vec::new();
    for (channel, versions) in graph_data::channels(SIZE).into_iter().step_by(5) {
        for version in versions.iter().step_by(11) {
            let path = format!("/v1/graph?channel={channel}&version={version}&arch=amd64");
            if !paths().contains(&path) {
                times.push(client.ask(&path, false).1);
            }
        }
    }
    times.sort();
    times
}
