//! etcd, and what is stored in it, read past the API server.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::process::Process;
use super::program::Kubernetes;
use super::{http, wait_for};
use crate::ports::free_port;

/// How long a server may take to come up. Far more than it does: this is for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const PAGE: u32 = 200;

pub struct Etcd {
    process: Option<Process>,
    program: PathBuf,
    directory: PathBuf,
    port: u16,
    peer_port: u16,
    http: reqwest::Client,
}

impl Etcd {
    /// The etcd for API servers of this version. Data and log are in the directory: with one in memory, no disk is waited for.
    pub fn start(kubernetes: Kubernetes, directory: &Path) -> Self {
        std::fs::create_dir_all(directory).expect("a directory for etcd");
        let mut etcd = Self {
            process: None,
            program: kubernetes.etcd().unwrap_or_else(|why| panic!("etcd is needed: {why}")),
            directory: directory.to_owned(),
            port: 0,
            peer_port: 0,
            // A connection is for one question: none outlives a restart.
            http: http().pool_max_idle_per_host(0).build().expect("a client"),
        };
        // Between finding a free port and taking it, somebody else may.
        for _ in 0..5 {
            (etcd.port, etcd.peer_port) = (free_port(), free_port());
            if etcd.launch() {
                return etcd;
            }
        }
        panic!("etcd does not start:\n{}", etcd.last_words());
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    fn last_words(&self) -> String {
        self.process.as_ref().map(Process::last_words).unwrap_or_default()
    }

    fn launch(&mut self) -> bool {
        let (client, peer) = (self.url(), format!("http://127.0.0.1:{}", self.peer_port));
        let arguments = vec![
            "--name=test".to_owned(),
            format!("--data-dir={}", self.data().display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=test={peer}"),
            "--quota-backend-bytes=8589934592".to_owned(),
            "--logger=zap".to_owned(),
            // There is nobody to hear from before it takes the lead.
            "--heartbeat-interval=10".to_owned(),
            "--election-timeout=100".to_owned(),
        ];
        let mut process = Process::start(&self.program, &arguments, self.directory.join("etcd.log"));
        let deadline = Instant::now() + PATIENCE;
        let health = format!("{client}/health");
        let mut up = false;
        while !up && process.ended().is_none() && Instant::now() < deadline {
            // Its own client each time: none may keep a connection beyond its runtime, or its attempt.
            let request = http().build().expect("a client").get(&health);
            up = wait_for(
                async move { request.send().await.is_ok_and(|answer| answer.status().is_success()) },
            );
            if !up {
                thread::sleep(Duration::from_millis(10));
            }
        }
        self.process = Some(process);
        up
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// As an administrator stops it.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.terminate(Duration::from_secs(10));
        }
    }

    /// Up again where it was, with what it has. Killed before, if it runs.
    pub fn restart(&mut self) {
        self.kill();
        // A connection from before may hold the port for a moment.
        for _ in 0..5 {
            if self.launch() {
                return;
            }
            thread::sleep(Duration::from_millis(200));
        }
        panic!("etcd does not start again:\n{}", self.last_words());
    }

    async fn ask(&self, path: &str, body: Value) -> Value {
        let answer = self.http.post(format!("{}{path}", self.url())).json(&body).send().await.expect("etcd");
        let status = answer.status();
        let text = answer.text().await.expect("an answer of etcd");
        assert!(status.is_success(), "etcd: {path}: {status}: {text}");
        serde_json::from_str(&text).expect("JSON of etcd")
    }

    /// Keys that begin with the prefix, and what is under them, as of one moment.
    pub async fn get_raw(&self, prefix: &str) -> Vec<(String, Vec<u8>)> {
        let decode =
            |value: &Value| STANDARD.decode(value.as_str().unwrap_or_default()).expect("base64 of etcd");
        let mut end = prefix.as_bytes().to_vec();
        *end.last_mut().expect("a prefix") += 1;
        let (mut from, mut revision, mut found) = (prefix.as_bytes().to_vec(), Value::from("0"), vec![]);
        loop {
            let page = self
                .ask(
                    "/v3/kv/range",
                    json!({
                        "key": STANDARD.encode(&from), "range_end": STANDARD.encode(&end),
                        "limit": PAGE, "revision": revision,
                    }),
                )
                .await;
            revision = page["header"]["revision"].clone();
            for pair in page["kvs"].as_array().into_iter().flatten() {
                from = decode(&pair["key"]);
                found.push((String::from_utf8_lossy(&from).into_owned(), decode(&pair["value"])));
            }
            if page["more"] != true {
                return found;
            }
            from.push(0);
        }
    }

    /// Puts what the API server would never write.
    pub async fn put_raw(&self, key: &str, value: &[u8]) {
        self.ask("/v3/kv/put", json!({"key": STANDARD.encode(key), "value": STANDARD.encode(value)})).await;
    }

    pub async fn delete_raw(&self, key: &str) {
        self.ask("/v3/kv/deleterange", json!({"key": STANDARD.encode(key)})).await;
    }

    pub async fn revision(&self) -> u64 {
        let answer = self.ask("/v3/kv/range", json!({"key": STANDARD.encode("/"), "limit": 1})).await;
        answer["header"]["revision"].as_str().and_then(|revision| revision.parse().ok()).expect("a revision")
    }

    /// Forgets all history: what was to be continued from before now, can't be.
    pub async fn compact(&self) {
        let revision = self.revision().await;
        self.ask("/v3/kv/compaction", json!({"revision": revision.to_string(), "physical": true})).await;
    }
}
