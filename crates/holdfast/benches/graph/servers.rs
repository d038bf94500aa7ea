//! The two servers, each a process of its own on the same kind of runtime: this program, started again.

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use bytes::Bytes;
use graph::current::{Current, Snapshot};
use graph::serve::Service;
use graph::settings::Settings;
use http_body_util::Full;
use hyper::Response;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use logic::graph::build;
use tokio::net::TcpListener;

use crate::world;

const OURS: &str = "--serve-graph";
const BARE: &str = "--serve-bare";

/// Whether this process is one of the servers; it then runs until its input ends.
pub fn asked_for() -> bool {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [OURS, ..] => runtime().block_on(ours()),
        [BARE, size, ..] => runtime().block_on(bare(size.parse().expect("a size"))),
        _ => return false,
    }
    true
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime")
}

/// Each line of input is one rebuild, answered with a line when the new graph is in force.
async fn ours() {
    let current = Current::default();
    publish(&current, 0).await;
    let settings = Settings { listen: ([127, 0, 0, 1], 0).into(), ..Settings::default() };
    let service = Service::bind(settings, current.clone()).await.expect("a port");
    let (handle, address) = (service.handle(), service.address().expect("an address"));
    tokio::spawn(service.run(std::future::pending()));
    handle.refreshed().await;
    println!("{address}");
    let mut round = 0;
    while tokio::task::spawn_blocking(input_goes_on).await.unwrap_or(false) {
        round += 1;
        publish(&current, round).await;
        handle.refreshed().await;
        println!("{round}");
    }
}

/// Waits for a line; false at the end.
fn input_goes_on() -> bool {
    std::io::stdin().read_line(&mut String::new()).is_ok_and(|read| read > 0)
}

/// As a scrape does it.
async fn publish(current: &Current, round: u64) {
    let (harvest, data) = (world::harvest(round), world::data());
    let built = tokio::task::spawn_blocking(move || build(harvest, &data)).await;
    let (graph, notes) = built.expect("a graph");
    current.publish(Snapshot { graph, notes, confirmed: Instant::now().into() });
}

/// One fixed body for every request, and nothing else.
async fn bare(size: usize) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    println!("{}", listener.local_addr().expect("an address"));
    std::thread::spawn(|| {
        while input_goes_on() {}
        std::process::exit(0);
    });
    let body = Bytes::from(vec![b'x'; size]);
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        let body = body.clone();
        let service = service_fn(move |_| {
            let body = body.clone();
            async move { Ok::<_, Infallible>(Response::new(Full::new(body))) }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

pub struct Server {
    child: Child,
    pub address: String,
    output: BufReader<std::process::ChildStdout>,
}

impl Server {
    pub fn ours() -> Self {
        Self::start(&[OURS])
    }

    pub fn bare(size: usize) -> Self {
        Self::start(&[BARE, &size.to_string()])
    }

    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("this program runs");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let mut server = Self { child, address: String::new(), output };
        server.address = server.line();
        server
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line of the server");
        assert!(!line.is_empty(), "the server ended");
        line.trim().to_owned()
    }

    /// Returns when the new graph is in force.
    pub fn rebuild(&mut self) {
        let input = self.child.stdin.as_mut().expect("its input");
        input.write_all(b"rebuild\n").expect("the server listens");
        self.line();
    }

    /// The most memory that it ever had, in KiB.
    pub fn peak_memory(&self) -> u64 {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
