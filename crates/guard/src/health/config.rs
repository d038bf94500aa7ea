//! `[guard.health]` of the configuration. Unknown keys, keys of another kind of check, and values that can't
//! work are refused when the configuration is read, with the place in the file.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::error::Error;
use super::workload::{Workload, is_kubernetes_name};
use logic::period::Period;

const DEFAULT_TIMEOUT: Period = Period::seconds(300);
const DEFAULT_RETRY_EVERY: Period = Period::seconds(2);
const DEFAULT_PARALLEL: usize = 4;
const MAX_PARALLEL: usize = 64;
const MAX_CHECKS: usize = 1000;
const MAX_NAME: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Config {
    /// Directories of executables that must succeed; a name in a later one replaces the same name in an
    /// earlier one.
    pub required_dirs: Vec<PathBuf>,
    /// Directories of executables whose failure is only recorded.
    pub wanted_dirs: Vec<PathBuf>,
    /// Names of executables to leave out.
    pub disabled: Vec<String>,
    /// For all checks together.
    pub timeout: Period,
    /// How many checks are under way at once.
    pub parallel: usize,
    /// For one executable; without it only the overall limit holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script_timeout: Option<Period>,
    /// Run a failing executable again after this time; without it each runs once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script_retry_every: Option<Period>,
    /// The program that knows about units.
    pub systemctl: PathBuf,
    #[serde(rename = "check", skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
}

impl Default for Config {
    fn default() -> Self {
        let dirs =
            |name: &str| ["/usr/lib", "/etc"].map(|top| format!("{top}/holdfast/health/{name}").into());
        Self {
            required_dirs: dirs("required.d").into(),
            wanted_dirs: dirs("wanted.d").into(),
            disabled: Vec::new(),
            timeout: DEFAULT_TIMEOUT,
            parallel: DEFAULT_PARALLEL,
            script_timeout: None,
            script_retry_every: None,
            systemctl: "systemctl".into(),
            checks: Vec::new(),
        }
    }
}

impl Config {
    /// What no single field can tell by itself.
    pub fn validate(&self) -> Result<(), Error> {
        let wrong = |what: String| Err(Error::Config { what });
        if self.parallel == 0 || self.parallel > MAX_PARALLEL {
            return wrong(format!("parallel is {}, but must be 1 to {MAX_PARALLEL}", self.parallel));
        }
        if self.timeout.is_zero() {
            return wrong("timeout is zero".to_owned());
        }
        if self.checks.len() > MAX_CHECKS {
            return wrong(format!(
                "there are {} checks, at most {MAX_CHECKS} are allowed",
                self.checks.len()
            ));
        }
        for (index, check) in self.checks.iter().enumerate() {
            if self.checks[..index].iter().any(|earlier| earlier.name == check.name) {
                return wrong(format!("two checks are called {:?}", check.name));
            }
        }
        Ok(())
    }
}

/// One built-in check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Raw", into = "Raw")]
pub struct Check {
    pub name: String,
    pub required: bool,
    /// How long it may take to become good; without it only the overall limit holds.
    pub timeout: Option<Period>,
    pub retry_every: Period,
    pub kind: CheckKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckKind {
    /// A systemd unit is active.
    Unit { unit: String },
    /// A GET is answered with one of the statuses (any 2xx if none is named), and with a body that contains
    /// a text. `ca`: the certificates to trust instead of the system's.
    Http { url: String, status: Vec<u16>, contains: Option<String>, ca: Option<PathBuf> },
    /// A connection to `host:port` is accepted.
    Tcp { address: String },
    /// A file was modified at most this long ago.
    FileAge { path: PathBuf, max_age: Period },
    /// Workloads are rolled out and ready, as `kubectl rollout status` has it: those named, and all of the
    /// namespaces named.
    Kubernetes {
        kubeconfig: PathBuf,
        context: Option<String>,
        namespaces: Vec<String>,
        workloads: Vec<Workload>,
    },
}

impl CheckKind {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Unit { .. } => "unit",
            Self::Http { .. } => "http",
            Self::Tcp { .. } => "tcp",
            Self::FileAge { .. } => "file-age",
            Self::Kubernetes { .. } => "kubernetes",
        }
    }
}

/// The table as it is written: flat, because serde can refuse unknown keys only without `flatten`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Raw {
    name: String,
    kind: String,
    #[serde(default = "yes")]
    required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<Period>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_every: Option<Period>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Vec<u16>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    contains: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ca: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_age: Option<Period>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kubeconfig: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespaces: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workloads: Option<Vec<Workload>>,
}

fn yes() -> bool {
    true
}

impl TryFrom<Raw> for Check {
    type Error = String;

    fn try_from(mut raw: Raw) -> Result<Self, String> {
        let name = std::mem::take(&mut raw.name);
        let said = |what: String| format!("check {name:?}: {what}");
        if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
            return Err(said(format!("the name must be 1 to {MAX_NAME} printable bytes")));
        }
        let kind = kind(&mut raw).map_err(said)?;
        if let Some(key) = left_over(&raw) {
            return Err(said(format!("{key} does not belong to kind {:?}", raw.kind)));
        }
        let retry_every = raw.retry_every.unwrap_or(DEFAULT_RETRY_EVERY);
        if retry_every.is_zero() || raw.timeout.is_some_and(Period::is_zero) {
            return Err(said("timeout and retry-every must be longer than zero".to_owned()));
        }
        Ok(Self { name, required: raw.required, timeout: raw.timeout, retry_every, kind })
    }
}

/// Takes what belongs to the kind out of the table.
fn kind(raw: &mut Raw) -> Result<CheckKind, String> {
    fn need<T>(value: &mut Option<T>, key: &str, kind: &str) -> Result<T, String> {
        value.take().ok_or_else(|| format!("kind {kind:?} needs {key}"))
    }
    let name = raw.kind.clone();
    Ok(match name.as_str() {
        "unit" => {
            let unit = need(&mut raw.unit, "unit", &name)?;
            if unit.is_empty() || unit.starts_with('-') || unit.contains(char::is_whitespace) {
                return Err(format!("{unit:?} is not the name of a unit"));
            }
            CheckKind::Unit { unit }
        }
        "http" => {
            let url = need(&mut raw.url, "url", &name)?;
            let parsed = reqwest::Url::parse(&url).map_err(|error| format!("url {url:?}: {error}"))?;
            if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
                return Err(format!("url {url:?} must begin with http:// or https://"));
            }
            let status = raw.status.take().unwrap_or_default();
            if let Some(wrong) = status.iter().find(|status| !(100..600).contains(*status)) {
                return Err(format!("{wrong} is not an HTTP status"));
            }
            CheckKind::Http { url, status, contains: raw.contains.take(), ca: raw.ca.take() }
        }
        "tcp" => {
            let address = need(&mut raw.address, "address", &name)?;
            let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port);
            if port.and_then(|port| port.parse::<u16>().ok()).is_none_or(|port| port == 0) {
                return Err(format!("address {address:?} must be HOST:PORT"));
            }
            CheckKind::Tcp { address }
        }
        "file-age" => CheckKind::FileAge {
            path: need(&mut raw.path, "path", &name)?,
            max_age: need(&mut raw.max_age, "max-age", &name)?,
        },
        "kubernetes" => {
            let namespaces = raw.namespaces.take().unwrap_or_default();
            let workloads = raw.workloads.take().unwrap_or_default();
            if namespaces.is_empty() && workloads.is_empty() {
                return Err("kind \"kubernetes\" needs namespaces or workloads".to_owned());
            }
            if let Some(wrong) = namespaces.iter().find(|name| !is_kubernetes_name(name)) {
                return Err(format!("{wrong:?} is not the name of a namespace"));
            }
            let kubeconfig = need(&mut raw.kubeconfig, "kubeconfig", &name)?;
            CheckKind::Kubernetes { kubeconfig, context: raw.context.take(), namespaces, workloads }
        }
        other => {
            return Err(format!(
                "there is no kind {other:?}; there are unit, http, tcp, file-age, kubernetes"
            ));
        }
    })
}

fn left_over(raw: &Raw) -> Option<&'static str> {
    let keys = [
        (raw.unit.is_some(), "unit"),
        (raw.url.is_some(), "url"),
        (raw.status.is_some(), "status"),
        (raw.contains.is_some(), "contains"),
        (raw.ca.is_some(), "ca"),
        (raw.address.is_some(), "address"),
        (raw.path.is_some(), "path"),
        (raw.max_age.is_some(), "max-age"),
        (raw.kubeconfig.is_some(), "kubeconfig"),
        (raw.context.is_some(), "context"),
        (raw.namespaces.is_some(), "namespaces"),
        (raw.workloads.is_some(), "workloads"),
    ];
    keys.into_iter().find_map(|(is_there, key)| is_there.then_some(key))
}

impl From<Check> for Raw {
    fn from(check: Check) -> Self {
        let Check { name, required, timeout, retry_every, kind } = check;
        let mut raw = Raw { name, required, timeout, retry_every: Some(retry_every), ..Raw::default() };
        kind.name().clone_into(&mut raw.kind);
        match kind {
            CheckKind::Unit { unit } => raw.unit = Some(unit),
            CheckKind::Http { url, status, contains, ca } => {
                raw.url = Some(url);
                raw.status = Some(status).filter(|status| !status.is_empty());
                (raw.contains, raw.ca) = (contains, ca);
            }
            CheckKind::Tcp { address } => raw.address = Some(address),
            CheckKind::FileAge { path, max_age } => {
                (raw.path, raw.max_age) = (Some(path), Some(max_age));
            }
            CheckKind::Kubernetes { kubeconfig, context, namespaces, workloads } => {
                (raw.kubeconfig, raw.context) = (Some(kubeconfig), context);
                raw.namespaces = Some(namespaces).filter(|list| !list.is_empty());
                raw.workloads = Some(workloads).filter(|list| !list.is_empty());
            }
        }
        raw
    }
}
