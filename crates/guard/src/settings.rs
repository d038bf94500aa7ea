//! What can be configured, with the defaults for MicroShift on an ostree device. `[guard]` in the configuration.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use logic::guard::{BootId, Keep, Policy, StagedOverUnhealthy};
use logic::host::DeploymentId;
use logic::version::Version;
use serde::{Deserialize, Serialize};

use crate::device::Device;
use crate::error::{Doing, Error, Result, While};
use crate::health::{self, Period};
use program::{Invocation, Limits, run_limited};

use crate::host::{self, Found, Programs, Source};
use crate::layout::Layout;
use crate::migration::{Migration, Programs as MigrationPrograms};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    pub data_dir: PathBuf,
    pub backups_dir: PathBuf,
    /// The version of the workload's program on this deployment; otherwise its command is asked.
    pub workload_version: Option<Version>,
    pub workload_version_command: Vec<String>,
    /// Given from outside instead of being read from the kernel.
    pub boot_id: Option<String>,
    /// Who knows the deployments.
    pub host: HostKind,
    /// A file that says which deployments there are, instead of asking the host.
    pub deployments: Option<PathBuf>,
    /// Which deployment is booted, where the host can't say.
    pub booted: Option<DeploymentId>,
    pub sysroot: Option<PathBuf>,
    pub kernel_cmdline: PathBuf,
    pub status_timeout: Period,
    pub max_skew: u32,
    pub blocked_versions: Vec<Version>,
    pub assumed_version: Version,
    pub staged_over_unhealthy: StagedOverUnhealthy,
    /// Threads that copy; 0: as many as suit what they wait for.
    pub copy_threads: usize,
    pub retention: Retention,
    pub migration: MigrationSettings,
    pub health: health::Config,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostKind {
    #[default]
    Auto,
    RpmOstree,
    Bootc,
    Ostree,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Retention {
    pub keep: Keep,
    pub min_healthy: usize,
    pub aside_max: usize,
    pub aside_max_bytes: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct MigrationSettings {
    pub command: Vec<String>,
    pub directory: Option<PathBuf>,
    pub timeout: Option<Period>,
    /// Whether the programs of the directory are kept from the network and from all but the data.
    pub sandbox: bool,
}

impl Default for MigrationSettings {
    fn default() -> Self {
        Self { command: vec![], directory: None, timeout: None, sandbox: true }
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self { keep: Keep::Deployments, min_healthy: 2, aside_max: 3, aside_max_bytes: 8 << 30 }
    }
}

fn assumed_by_the_document() -> Version {
    // A constant that the test below parses: the fallback is never reached.
    Version::parse("4.13").unwrap_or_else(|_| unreachable!("4.13 is a version"))
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            data_dir: "/var/lib/microshift".into(),
            backups_dir: "/var/lib/microshift-backups".into(),
            workload_version: None,
            workload_version_command: vec!["microshift".to_owned(), "version".to_owned()],
            boot_id: None,
            host: HostKind::Auto,
            deployments: None,
            booted: None,
            sysroot: None,
            kernel_cmdline: "/proc/cmdline".into(),
            status_timeout: Period::from(program::DEFAULT_TIMEOUT),
            max_skew: 1,
            blocked_versions: vec![],
            assumed_version: assumed_by_the_document(),
            staged_over_unhealthy: StagedOverUnhealthy::StartClean,
            copy_threads: 0,
            retention: Retention::default(),
            migration: MigrationSettings::default(),
            health: health::Config::default(),
        }
    }
}

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

impl Settings {
    /// What can't be right, whatever the host says.
    pub fn validate(&self) -> Result<()> {
        let refuse = |what: String, hint: &str| Err(Error::Refused { what, hint: hint.to_owned() });
        let (data, backups) = (&self.data_dir, &self.backups_dir);
        if !data.is_absolute() || !backups.is_absolute() {
            return refuse(
                "data-dir and backups-dir must be absolute paths".to_owned(),
                "give both from the root of the file system",
            );
        }
        if data.starts_with(backups) || backups.starts_with(data) {
            return refuse(
                format!("{} and {} are inside each other", data.display(), backups.display()),
                "keep the backups outside the data, or a backup would hold all older ones",
            );
        }
        if !self.migration.command.is_empty() && self.migration.directory.is_some() {
            return refuse(
                "both a migration command and a directory of migrations are configured".to_owned(),
                "keep one of them",
            );
        }
        Ok(())
    }

    /// What can't be right once links are followed. A data directory that is itself a link could not be exchanged with
    /// a copy: only the link would change its place.
    fn refuse_links(&self) -> Result<()> {
        let (data, backups) = (&self.data_dir, &self.backups_dir);
        let refuse = |what: String, hint: String| Err(Error::Refused { what, hint });
        if std::fs::symlink_metadata(data).is_ok_and(|found| found.is_symlink()) {
            let target = std::fs::canonicalize(data).unwrap_or_else(|_| "the directory it leads to".into());
            return refuse(
                format!("{} is a symbolic link", data.display()),
                format!("give {} as data-dir, or mount it there", target.display()),
            );
        }
        if let (Ok(data), Ok(backups)) = (std::fs::canonicalize(data), std::fs::canonicalize(backups))
            && (data.starts_with(&backups) || backups.starts_with(&data))
        {
            return refuse(
                format!("{} and {} are inside each other", data.display(), backups.display()),
                "keep the backups outside the data, or a backup would hold all older ones".to_owned(),
            );
        }
        Ok(())
    }

    pub fn policy(&self) -> Policy {
        Policy {
            max_skew: self.max_skew,
            blocked: self.blocked_versions.clone(),
            assumed: self.assumed_version.clone(),
            staged_over_unhealthy: self.staged_over_unhealthy,
            keep: self.retention.keep,
            min_healthy: self.retention.min_healthy.max(1),
            aside_max: self.retention.aside_max.max(1),
            aside_max_bytes: self.retention.aside_max_bytes,
        }
    }

    /// Asks the host which deployments there are.
    pub fn read_host(&self) -> Result<Found> {
        let programs = Programs {
            sysroot: self.sysroot.clone(),
            kernel_cmdline: self.kernel_cmdline.clone(),
            ..Programs::default()
        };
        let source = match (&self.deployments, self.host) {
            (Some(file), _) => Source::File(file.clone()),
            (None, HostKind::Auto) => Source::Auto(programs),
            (None, HostKind::RpmOstree) => Source::RpmOstree { program: programs.rpm_ostree },
            (None, HostKind::Bootc) => {
                Source::Bootc { program: programs.bootc, kernel_cmdline: programs.kernel_cmdline }
            }
            (None, HostKind::Ostree) => Source::Ostree {
                program: programs.ostree,
                sysroot: programs.sysroot,
                kernel_cmdline: programs.kernel_cmdline,
            },
        };
        let limits = Limits { timeout: Some(self.status_timeout.get()), ..Limits::default() };
        Ok(host::read(&source, self.booted.as_ref(), &limits)?)
    }

    /// Everything that must be known before anything is looked at.
    pub fn device(&self) -> Result<Device> {
        self.validate()?;
        self.refuse_links()?;
        let migration = match (&self.migration.directory, self.migration.command.is_empty()) {
            (Some(directory), _) => MigrationPrograms::Directory(directory.clone()),
            (None, false) => {
                MigrationPrograms::Command(self.migration.command.iter().map(OsString::from).collect())
            }
            (None, true) => MigrationPrograms::None,
        };
        Ok(Device {
            layout: Layout::new(&self.data_dir, &self.backups_dir),
            host: self.read_host()?.host,
            boot: self.read_boot_id()?,
            program: self.read_program_version()?,
            policy: self.policy(),
            migration: Migration {
                what: migration,
                timeout: self.migration.timeout.map(Period::get),
                sandbox: self.migration.sandbox,
            },
            threads: self.copy_threads,
        })
    }

    fn read_boot_id(&self) -> Result<BootId> {
        let text = match &self.boot_id {
            Some(given) => given.clone(),
            None => std::fs::read_to_string(BOOT_ID)
                .map_err(|error| disk::Error::io(disk::Operation::Read, Path::new(BOOT_ID), error))
                .during(Doing::Records)?,
        };
        match text.trim() {
            "" => Err(Error::Refused {
                what: "the boot id is empty".to_owned(),
                hint: "give a name for this boot with --boot-id, or leave it to the kernel".to_owned(),
            }),
            id => Ok(BootId::new(id)),
        }
    }

    fn read_program_version(&self) -> Result<Version> {
        if let Some(version) = &self.workload_version {
            return Ok(version.clone());
        }
        let unknown = |why: String| Error::Refused {
            what: format!("the workload's version is not known: {why}"),
            hint: "set `workload-version`, or a `workload-version-command` that prints it".to_owned(),
        };
        let Some((program, args)) = self.workload_version_command.split_first() else {
            return Err(unknown("neither a version nor a command is configured".to_owned()));
        };
        let limits = Limits { timeout: Some(self.status_timeout.get()), ..Limits::default() };
        let invocation = Invocation::new(program).args(args);
        let done = run_limited(&invocation, &limits).map_err(|error| unknown(crate::error_chain(&error)))?;
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        if !done.status.success() {
            return Err(unknown(format!("{} {}", invocation.shown(), done.ending())));
        }
        find_version(&said).ok_or_else(|| unknown(format!("{} printed no version", invocation.shown())))
    }
}

/// The first word that is a version, quotes and punctuation aside: workloads wrap it in text or in JSON.
fn find_version(text: &str) -> Option<Version> {
    text.split(|c: char| c.is_whitespace() || matches!(c, '"' | ',' | ':' | '{' | '}' | '(' | ')'))
        .filter(|word| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit() || c == 'v'))
        .find_map(|word| Version::parse(word).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_in_what_workloads_print() {
        for (text, version) in [
            ("4.14.0\n", "4.14.0"),
            ("MicroShift Version: 4.14.16\nBase OCP Version: 4.14.16\n", "4.14.16"),
            (r#"{"major":"4","minor":"15","gitVersion":"4.15.0-rc.1"}"#, "4.15.0-rc.1"),
            ("k3s version v1.29.3+k3s1 (8aecc26b)\n", "v1.29.3+k3s1"),
        ] {
            assert_eq!(find_version(text).unwrap().as_str(), version);
        }
        assert_eq!(find_version("no version here. none at all"), None);
    }

    #[test]
    fn the_defaults_are_those_of_the_document() {
        let settings = Settings::default();
        assert_eq!(settings.policy().assumed.as_str(), "4.13");
        assert_eq!(settings.policy().max_skew, 1);
        assert!(settings.validate().is_ok());
    }

    #[test]
    fn backups_inside_the_data_are_refused() {
        let inside = Settings { backups_dir: "/var/lib/microshift/backups".into(), ..Settings::default() };
        assert!(inside.validate().is_err());
    }
}
