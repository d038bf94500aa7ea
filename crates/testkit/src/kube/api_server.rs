//! kube-apiserver, on loopback, with users that have tokens.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::client::Client;
use super::process::Process;
use super::program::Kubernetes;
use super::{Etcd, Keys, wait_for};
use crate::ports::free_port;

/// Far more than it takes: this is for a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Authorization {
    #[default]
    AlwaysAllow,
    Rbac,
}

#[derive(Debug, Clone)]
pub struct User {
    pub name: String,
    pub groups: Vec<String>,
}

impl User {
    pub fn new(name: &str, groups: &[&str]) -> Self {
        Self { name: name.to_owned(), groups: groups.iter().map(|group| (*group).to_owned()).collect() }
    }

    pub fn token(&self) -> String {
        token_of(&self.name)
    }
}

fn token_of(user: &str) -> String {
    format!("{user}-token")
}

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Come last, so they win over what the harness says.
    pub flags: Vec<String>,
    /// A free one, unless named.
    pub port: Option<u16>,
    pub authorization: Authorization,
    /// Besides `ServiceAccount`, which would wait for a controller that is not there.
    pub disable_admission: Vec<String>,
    /// Besides `admin`, of the group `system:masters`, and `plain`, of none.
    pub users: Vec<User>,
    pub kubernetes: Kubernetes,
}

impl Options {
    pub fn rbac() -> Self {
        Self { authorization: Authorization::Rbac, ..Self::default() }
    }

    /// For what only this version does.
    pub fn of(kubernetes: Kubernetes) -> Self {
        Self { kubernetes, ..Self::default() }
    }

    #[must_use]
    pub fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.to_owned());
        self
    }

    /// Every list comes from etcd. Otherwise 1.36 continues a list from a snapshot in memory, after etcd has compacted what the list
    /// began with.
    #[must_use]
    pub fn without_snapshots(self) -> Self {
        self.flag("--watch-cache=false")
    }

    #[must_use]
    pub fn user(mut self, name: &str, groups: &[&str]) -> Self {
        self.users.push(User::new(name, groups));
        self
    }
}

pub struct ApiServer {
    process: Option<Process>,
    directory: PathBuf,
    etcd: String,
    keys: Keys,
    options: Options,
    port: u16,
    /// Once, at least.
    started: bool,
}

impl ApiServer {
    /// Several may be on one etcd: what they must agree on is in `keys`. Each needs a directory of its own.
    pub fn start(etcd: &Etcd, keys: &Keys, directory: &Path, options: Options) -> Self {
        let mut server = Self::prepare(etcd, keys, directory, options);
        server.launch_anywhere();
        server
    }

    /// As [`Self::start`], without starting it: [`Self::restart`] does.
    pub fn prepare(etcd: &Etcd, keys: &Keys, directory: &Path, options: Options) -> Self {
        fs::create_dir_all(directory).expect("a directory for the API server");
        let mut users = vec![User::new("admin", &["system:masters"]), User::new("plain", &[])];
        users.extend(options.users.iter().cloned());
        let rows = users.iter().enumerate().map(|(number, user)| {
            format!("{},{},{number},\"{}\"\n", user.token(), user.name, user.groups.join(","))
        });
        fs::write(directory.join("tokens.csv"), rows.collect::<String>()).expect("tokens");
        let port = options.port.unwrap_or_else(free_port);
        let (etcd, keys, directory) = (etcd.url(), keys.clone(), directory.to_owned());
        Self { process: None, directory, etcd, keys, options, port, started: false }
    }

    fn launch_anywhere(&mut self) {
        for _ in 0..5 {
            if self.launch() {
                return;
            }
            // Between finding a free port and taking it, somebody else may.
            if !self.last_words().contains("address already in use") {
                break;
            }
            if self.options.port.is_none() {
                self.port = free_port();
            }
            thread::sleep(Duration::from_millis(200));
        }
        panic!("kube-apiserver does not start:\n{}", self.last_words());
    }

    fn arguments(&self) -> Vec<String> {
        let key = |name: &str| self.keys.path(name).display().to_string();
        let mut without = vec!["ServiceAccount".to_owned()];
        without.extend(self.options.disable_admission.iter().cloned());
        let authorization = match self.options.authorization {
            Authorization::AlwaysAllow => "AlwaysAllow",
            Authorization::Rbac => "RBAC",
        };
        let mut arguments = vec![
            format!("--etcd-servers={}", self.etcd),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.port),
            // Nobody may be told to find it on loopback: endpoints there are refused.
            "--advertise-address=127.0.0.1".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            format!("--cert-dir={}", self.directory.join("certs").display()),
            format!("--tls-cert-file={}", key("server.pem")),
            format!("--tls-private-key-file={}", key("server.key")),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", key("service-accounts.key")),
            format!("--service-account-signing-key-file={}", key("service-accounts.key")),
            format!("--requestheader-client-ca-file={}", key("ca.pem")),
            "--requestheader-allowed-names=front-proxy".to_owned(),
            "--requestheader-username-headers=X-Remote-User".to_owned(),
            "--requestheader-group-headers=X-Remote-Group".to_owned(),
            "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
            format!("--proxy-client-cert-file={}", key("front-proxy.pem")),
            format!("--proxy-client-key-file={}", key("front-proxy.key")),
            format!("--token-auth-file={}", self.directory.join("tokens.csv").display()),
            format!("--authorization-mode={authorization}"),
            format!("--disable-admission-plugins={}", without.join(",")),
            "--profiling=false".to_owned(),
        ];
        arguments.extend(self.options.flags.iter().cloned());
        arguments
    }

    fn launch(&mut self) -> bool {
        let mut process = Process::start(
            &own_program(self.options.kubernetes),
            &self.arguments(),
            self.directory.join("kube-apiserver.log"),
        );
        let deadline = Instant::now() + PATIENCE;
        // Looking after priority classes begins with a second of sleep, and where they are already, is for nothing.
        let ready = match self.started {
            false => "/readyz",
            true => "/readyz?exclude=poststarthook/scheduling/bootstrap-system-priority-classes",
        };
        let mut up = false;
        while !up && process.ended().is_none() && Instant::now() < deadline {
            // Its own client each time: none may keep a connection that outlives the attempt.
            let client = self.client("admin");
            up = wait_for(async move {
                // Ready, and with the namespace that objects go to; it comes a moment later.
                client.answers(ready).await && client.answers("/api/v1/namespaces/default").await
            });
            if !up {
                thread::sleep(Duration::from_millis(20));
            }
        }
        self.process = Some(process);
        self.started |= up;
        up
    }

    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The certificate to trust, PEM.
    pub fn ca(&self) -> PathBuf {
        self.keys.ca()
    }

    pub fn kubernetes(&self) -> Kubernetes {
        self.options.kubernetes
    }

    pub fn keys(&self) -> &Keys {
        &self.keys
    }

    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    pub fn log(&self) -> PathBuf {
        self.directory.join("kube-apiserver.log")
    }

    fn last_words(&self) -> String {
        self.process.as_ref().map(Process::last_words).unwrap_or_default()
    }

    /// A client of its own connections, as this user.
    pub fn client(&self, user: &str) -> Client {
        Client::new(&self.url(), &self.keys.ca_pem(), &token_of(user))
    }

    pub fn kubeconfig(&self, user: &str) -> PathBuf {
        self.kubeconfig_to(user, &self.url())
    }

    /// For a server in front of this one.
    pub fn kubeconfig_to(&self, user: &str, url: &str) -> PathBuf {
        let port = url.rsplit(':').next().unwrap_or_default();
        // KUBECONFIG is a list: no colon of an account's name may be in it.
        let path = self.directory.join(format!("{}-{port}.kubeconfig", user.replace(':', "-")));
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: test\n\
             clusters:\n- name: test\n  cluster:\n    server: {url}\n    certificate-authority: {ca}\n\
             users:\n- name: {user}\n  user:\n    token: {token}\n\
             contexts:\n- name: test\n  context:\n    cluster: test\n    user: {user}\n",
            ca = self.ca().display(),
            token = token_of(user),
        );
        fs::write(&path, text).expect("a kubeconfig");
        path
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// As an administrator stops it: what is being answered, is answered.
    pub fn terminate(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.terminate(Duration::from_secs(10));
        }
    }

    /// Up again on the same port, with these flags instead of those before. Stopped first, if it runs.
    pub fn restart(&mut self, flags: &[&str]) {
        self.kill();
        self.options.flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        self.options.port = Some(self.port);
        self.launch_anywhere();
    }
}

/// The program of a server with flags of the test's own, on an etcd that the test reads. No other cluster will do.
fn own_program(kubernetes: Kubernetes) -> PathBuf {
    kubernetes
        .program("kube-apiserver")
        .unwrap_or_else(|why| panic!("an API server of its own is needed, whatever KUBECONFIG names: {why}"))
}
