//! Is the workload well? Runs the configured checks and reports, for each, what was found.
//!
//! What may be decided without touching anything is pure and apart: the verdict ([`verdict`]), whether a
//! workload is ready ([`readiness`]), what systemctl's answer means ([`parse_unit`]). [`run_checks`] has the effects.
//! It only looks and reports: recording the verdict is the caller's.

mod attempt;
mod config;
mod error;
mod http;
mod kubeconfig;
mod kubernetes;
mod probe;
mod report;
mod run;
mod scripts;
mod tls;
mod unit;
mod workload;

pub use config::{Check, CheckKind, Config};
pub use error::Error;
pub use kubeconfig::{Access, Held, Identity, Kubeconfig, KubeconfigError};
pub use logic::period::{BadPeriod, Period};
pub use report::{CheckResult, Ending, Outcome, Report, Verdict, verdict};
pub use run::run_checks;
pub use scripts::{Note, Script, ScriptsFound, find_scripts};
pub use unit::{UnitState, parse_unit};
pub use workload::{BadWorkload, Object, Readiness, Workload, WorkloadKind, readiness};
