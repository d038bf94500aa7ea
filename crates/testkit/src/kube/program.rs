//! The versions of Kubernetes that tests run, and where their programs are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use super::lock;

/// Selects the version for every test that does not name one: `1.36` (default) or `1.20`.
pub const VERSION_VARIABLE: &str = "TEST_KUBERNETES";

/// A version of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kubernetes {
    /// Built from Debian's source package by `scripts/kubernetes-1.20`. The last minor versions that serve Ingresses as
    /// `extensions/v1beta1` are of its time.
    V1_20,
    /// Built from Go modules by `scripts/kubernetes`.
    V1_36,
}

impl Default for Kubernetes {
    /// The version that [`VERSION_VARIABLE`] names, or 1.36.
    fn default() -> Self {
        match std::env::var(VERSION_VARIABLE).as_deref() {
            Err(_) | Ok("" | "1.36") => Self::V1_36,
            Ok("1.20") => Self::V1_20,
            Ok(other) => panic!("{VERSION_VARIABLE} is {other}: the tests run 1.36 or 1.20"),
        }
    }
}

impl Kubernetes {
    /// The version that a kubelet beside this API server reports.
    pub fn kubelet_version(self) -> &'static str {
        match self {
            Self::V1_20 => "v1.20.2",
            Self::V1_36 => "v1.36.0",
        }
    }

    /// The path of a program of this version, from the environment or from the script that builds it. The error says why there
    /// is none.
    pub fn program(self, command: &'static str) -> Result<PathBuf, String> {
        type Known = BTreeMap<(Kubernetes, &'static str), Result<PathBuf, String>>;
        // The script runs once in a process.
        static KNOWN: Mutex<Known> = Mutex::new(BTreeMap::new());
        lock(&KNOWN).entry((self, command)).or_insert_with(|| self.find(command)).clone()
    }

    /// The etcd that API servers of this version are used with: Debian's 3.4 with 1.20, and 3.6 with 1.36.
    pub fn etcd(self) -> Result<PathBuf, String> {
        match self {
            Self::V1_20 => Ok(PathBuf::from("etcd")),
            Self::V1_36 => self.program("etcd"),
        }
    }

    fn find(self, command: &str) -> Result<PathBuf, String> {
        let (script, suffix) = match self {
            Self::V1_20 => ("kubernetes-1.20", "_1_20"),
            Self::V1_36 => ("kubernetes", ""),
        };
        let variable = format!("{}{suffix}", command.to_uppercase().replace('-', "_"));
        match std::env::var_os(&variable).filter(|given| !given.is_empty()) {
            Some(none) if none == "none" => return Err(format!("{variable} is none")),
            Some(path) => return Ok(path.into()),
            None => {}
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").join(script);
        let output = Command::new(&script).arg(command).output();
        let output = output.map_err(|error| format!("{}: {error}", script.display()))?;
        match output.status.success() {
            true => Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim())),
            false => Err(format!("there is no {command}:\n{}", String::from_utf8_lossy(&output.stderr))),
        }
    }
}
