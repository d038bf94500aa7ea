//! kube-controller-manager, of the same version as the API server: deployments roll out, jobs run, what belongs to nothing goes.

use std::path::Path;

use super::api_server::ApiServer;
use super::process::Process;
use super::program::Kubernetes;
use crate::ports::free_port;

/// The controllers that tests need. Not the one of nodes, which would wait for their heartbeats. 1.36 also takes these names,
/// which are those of 1.20.
const CONTROLLERS: &str = "deployment,replicaset,statefulset,daemonset,job,garbagecollector,namespace";

pub struct ControllerManager {
    process: Process,
}

impl ControllerManager {
    /// As `admin` of this API server, with a directory of its own.
    pub fn start(server: &ApiServer, directory: &Path) -> Self {
        std::fs::create_dir_all(directory).expect("a directory for the controller manager");
        let mut arguments = vec![
            format!("--kubeconfig={}", server.kubeconfig("admin").display()),
            format!("--controllers={CONTROLLERS}"),
            format!("--cert-dir={}", directory.join("certs").display()),
            format!("--secure-port={}", free_port()),
            "--bind-address=127.0.0.1".to_owned(),
            "--leader-elect=false".to_owned(),
            "--kube-api-qps=200".to_owned(),
            "--kube-api-burst=400".to_owned(),
        ];
        if server.kubernetes() == Kubernetes::V1_20 {
            // Its insecure port, which later versions do not have.
            arguments.push("--port=0".to_owned());
        }
        let program = server.kubernetes().program("kube-controller-manager");
        let program = program.unwrap_or_else(|why| panic!("a controller manager is needed: {why}"));
        let log = directory.join("kube-controller-manager.log");
        Self { process: Process::start(&program, &arguments, log) }
    }

    pub fn last_words(&self) -> String {
        self.process.last_words()
    }
}
