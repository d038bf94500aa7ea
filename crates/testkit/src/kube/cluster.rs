//! One etcd and one API server, in a directory that goes with them.

use std::fs::{self, File};
use std::ops::Deref;
use std::path::{Path, PathBuf};

use super::{ApiServer, Client, Etcd, Keys, Options};
use crate::registry::Scratch;

/// Derefs to a client of its API server as `admin`.
pub struct Cluster {
    client: Client,
    // In this order they go: the API server first, the directory last.
    pub server: ApiServer,
    pub etcd: Etcd,
    pub keys: Keys,
    scratch: Scratch,
    more: u32,
    _ours: File,
}

const LOCK: &str = "in-use";

/// A directory that is known to be in use for as long as the file is open. A test that was killed leaves its
/// own, in memory, with all of etcd's data: those go now.
fn scratch() -> (Scratch, File) {
    let scratch = Scratch::new("kube");
    for entry in fs::read_dir(scratch.0.parent().expect("a parent")).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_string_lossy().starts_with("holdfast-kube-");
        if ours && File::open(entry.path().join(LOCK)).is_ok_and(|file| file.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    // The name comes after the lock: nobody finds it free.
    let file = File::create(scratch.join("not-yet")).expect("a file");
    file.lock().expect("a lock");
    fs::rename(scratch.join("not-yet"), scratch.join(LOCK)).expect("a name");
    (scratch, file)
}

impl Cluster {
    pub fn start() -> Self {
        Self::with(Options::default())
    }

    /// With etcd's data in memory, where there is such a place: no disk is waited for.
    pub fn with(options: Options) -> Self {
        let scratch = scratch();
        let etcd = Etcd::start(options.kubernetes, &scratch.0.join("etcd"));
        Self::around(scratch, etcd, options)
    }

    /// With etcd's data where it is told, such as on a disk.
    pub fn with_data_in(directory: &Path, options: Options) -> Self {
        let etcd = Etcd::start(options.kubernetes, directory);
        Self::around(scratch(), etcd, options)
    }

    fn around((scratch, ours): (Scratch, File), etcd: Etcd, options: Options) -> Self {
        let keys = Keys::make(&scratch.join("keys"));
        let server = ApiServer::start(&etcd, &keys, &scratch.join("api-server"), options);
        Self { client: server.client("admin"), server, etcd, keys, scratch, more: 0, _ours: ours }
    }

    /// Another API server on the same etcd.
    pub fn another(&mut self, options: Options) -> ApiServer {
        self.more += 1;
        let directory = self.scratch.join(&format!("api-server-{}", self.more));
        ApiServer::start(&self.etcd, &self.keys, &directory, options)
    }

    /// A directory for what the test has.
    pub fn directory(&self) -> &Path {
        &self.scratch.0
    }

    /// As the given user of the one API server.
    pub fn kubeconfig(&self, user: &str) -> PathBuf {
        self.server.kubeconfig(user)
    }

    /// The flag by which secrets are encrypted, each with the first of the keys; the others can still be read.
    /// A name ever gives the same key.
    pub fn encryption(&self, keys: &[&str]) -> String {
        use base64::Engine as _;
        use sha2::Digest as _;
        let keys = keys.iter().map(|name| {
            let secret = base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(name));
            format!("      - name: {name}\n        secret: {secret}\n")
        });
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n\
             - resources: [secrets]\n  providers:\n  - aescbc:\n      keys:\n{}  - identity: {{}}\n",
            keys.collect::<String>()
        );
        let path = self.scratch.join("encryption.yaml");
        fs::write(&path, text).expect("a configuration of encryption");
        format!("--encryption-provider-config={}", path.display())
    }
}

impl Deref for Cluster {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}
