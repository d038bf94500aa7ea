//! kube-controller-manager, from the source of the API server: deployments roll out, jobs run, what belongs to nothing goes.

use std::path::{Path, PathBuf};

use super::api_server::ApiServer;
use super::process::Process;
use super::program::found;
use crate::ports::free_port;

/// What tests need of it. Not the one that looks after nodes, which would wait for their heartbeats.
const CONTROLLERS: &str = "deployment,replicaset,statefulset,daemonset,job,garbagecollector,namespace";

pub struct ControllerManager {
    process: Process,
}

impl ControllerManager {
    /// As `admin` of this API server, with a directory of its own.
    pub fn start(server: &ApiServer, directory: &Path) -> Self {
        std::fs::create_dir_all(directory).expect("a directory for the controller manager");
        let arguments = [
            format!("--kubeconfig={}", server.kubeconfig("admin").display()),
            format!("--controllers={CONTROLLERS}"),
            format!("--cert-dir={}", directory.join("certs").display()),
            format!("--secure-port={}", free_port()),
            "--bind-address=127.0.0.1".to_owned(),
            "--port=0".to_owned(),
            "--leader-elect=false".to_owned(),
            "--kube-api-qps=200".to_owned(),
            "--kube-api-burst=400".to_owned(),
        ];
        let log = directory.join("kube-controller-manager.log");
        Self { process: Process::start(program(), &arguments, log) }
    }

    pub fn last_words(&self) -> String {
        self.process.last_words()
    }
}

fn program() -> &'static Path {
    static PROGRAM: std::sync::OnceLock<Result<PathBuf, String>> = std::sync::OnceLock::new();
    let found = PROGRAM.get_or_init(|| found("kube-controller-manager"));
    found.as_deref().unwrap_or_else(|why| panic!("a controller manager is needed: {why}"))
}
