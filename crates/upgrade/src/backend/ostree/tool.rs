//! The three programs that change deployments, and what each is asked for.
//!
//! | | bring | make it boot next | back to an earlier one |
//! | --- | --- | --- | --- |
//! | `bootc` | with the next | `switch` | `rollback` |
//! | `rpm-ostree` | `rebase --download-only` | `rebase --cache-only` | `rollback` |
//! | `ostree` | `pull`, if the reference is of a remote | `admin deploy --retain` | `admin set-default` |
//!
//! All three stand on ostree: pins, and an order that none of them can make by itself, are `ostree admin`'s. What is on
//! top of the boot order, and what is booted, is always asked anew: what a command meant to do is not what counts.

use std::path::PathBuf;
use std::time::Duration;

use host::{Found, Kind, Programs, Source};
use logic::host::{DeploymentId, Host};
use program::{Finished, Invocation, Limits, Overflow, run_limited};

use super::error::Error;
use serde::{Deserialize, Serialize};

use crate::backend::{self, Result};

/// An operating system comes over a network.
const BRING: Duration = Duration::from_secs(3600);
const CHANGE: Duration = Duration::from_secs(600);
const OUTPUT: usize = 1 << 20;
const SAID: usize = 600;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tool {
    Bootc,
    RpmOstree,
    Ostree,
}

#[derive(Debug, Clone)]
pub struct Settings {
    /// None: the first that answers.
    pub tool: Option<Tool>,
    pub programs: Programs,
    pub reboot: Vec<String>,
    /// Where the kernel says in which boot this is.
    pub boot_id: PathBuf,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            tool: None,
            programs: Programs::default(),
            reboot: ["systemctl", "reboot"].map(str::to_owned).into(),
            boot_id: "/proc/sys/kernel/random/boot_id".into(),
        }
    }
}

#[derive(Debug, Clone)]
pub struct Tools {
    settings: Settings,
}

impl Tools {
    pub fn new(settings: Settings) -> Self {
        Self { settings }
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What there is, and who says so.
    pub fn look(&self) -> Result<Found> {
        let programs = self.settings.programs.clone();
        let source = match self.settings.tool {
            None => Source::Auto(programs),
            Some(Tool::RpmOstree) => Source::RpmOstree { program: programs.rpm_ostree },
            Some(Tool::Bootc) => {
                Source::Bootc { program: programs.bootc, kernel_cmdline: programs.kernel_cmdline }
            }
            Some(Tool::Ostree) => self.ostree_source(),
        };
        Ok(host::read(&source, None, &Limits::default()).map_err(Error::Host)?)
    }

    pub fn tool(&self) -> Result<Tool> {
        match self.settings.tool {
            Some(tool) => Ok(tool),
            None => Ok(match self.look()?.source {
                Kind::Bootc => Tool::Bootc,
                Kind::RpmOstree => Tool::RpmOstree,
                Kind::Ostree | Kind::File => Tool::Ostree,
            }),
        }
    }

    /// As ostree numbers them.
    fn listed(&self) -> Result<Host> {
        let found = host::read(&self.ostree_source(), None, &Limits::default()).map_err(Error::Host)?;
        Ok(found.host)
    }

    fn ostree_source(&self) -> Source {
        let Programs { ostree, sysroot, kernel_cmdline, .. } = self.settings.programs.clone();
        Source::Ostree { program: ostree, sysroot, kernel_cmdline }
    }

    /// Brings what can be brought without changing what boots next.
    pub fn bring(&self, reference: &str) -> Result<()> {
        match self.tool()? {
            Tool::Bootc => plain(reference, "bootc"),
            Tool::RpmOstree => {
                plain(reference, "rpm-ostree")?;
                let done = self.rpm_ostree(&[verb(reference), "--download-only", reference], BRING)?;
                settled(done).map(drop)
            }
            Tool::Ostree => {
                plain(reference, "ostree")?;
                if let Some((remote, branch)) = reference.split_once(':') {
                    self.run(self.ostree(&["pull"], true).args([remote, branch]), BRING)?;
                }
                // It is there, or this says that it is not.
                self.resolve(reference).map(drop)
            }
        }
    }

    /// Makes the release boot next; gives the deployment that it is.
    pub fn deploy(&self, reference: &str, known: Option<&DeploymentId>) -> Result<DeploymentId> {
        let before = self.look()?.host;
        if let Some(known) = known
            && before.deployments.contains(known)
        {
            return self.put_first(known, reference);
        }
        match self.tool()? {
            Tool::Bootc => {
                plain(reference, "bootc")?;
                let what = Invocation::new(&self.settings.programs.bootc).args(["switch", reference]);
                self.run(what, BRING)?;
            }
            Tool::RpmOstree => {
                plain(reference, "rpm-ostree")?;
                settled(self.rpm_ostree(&[verb(reference), "--cache-only", reference], BRING)?)?;
            }
            Tool::Ostree => return self.deploy_commit(reference, &before),
        }
        first(&self.look()?.host)
    }

    fn deploy_commit(&self, reference: &str, before: &Host) -> Result<DeploymentId> {
        plain(reference, "ostree")?;
        let checksum = self.resolve(reference)?;
        // Of an earlier try, or it runs already: one deployment of a commit is enough.
        if let Some(there) = before.deployments.iter().find(|one| commit(one) == Some(&checksum)) {
            return self.put_first(there, reference);
        }
        self.deploy_anew(&checksum, reference, osname(&before.booted))
    }

    fn resolve(&self, reference: &str) -> Result<String> {
        let done = self.run(self.ostree(&["rev-parse"], true).args([reference]), CHANGE)?;
        Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned())
    }

    /// By the reference, as long as that is the commit: it is what the deployment says to have come from.
    fn deploy_anew(&self, checksum: &str, reference: &str, osname: &str) -> Result<DeploymentId> {
        let os = format!("--os={osname}");
        let is_it =
            plain(reference, "ostree").and_then(|()| self.resolve(reference)).is_ok_and(|it| it == checksum);
        let checksum_or_reference = if is_it { reference } else { checksum };
        self.run(
            self.ostree(&["admin", "deploy"], false).args([&os, "--retain", checksum_or_reference]),
            CHANGE,
        )?;
        let host = self.look()?.host;
        let deployment = first(&host)?;
        match commit(&deployment) == Some(checksum) {
            true => Ok(deployment),
            false => {
                Err(Error::NoEffect { command: "ostree admin deploy".to_owned(), wanted: deployment }.into())
            }
        }
    }

    /// Makes a deployment that is there, and came from `reference`, the one that boots next. The one that does may be
    /// another of the same commit.
    pub fn put_first(&self, wanted: &DeploymentId, reference: &str) -> Result<DeploymentId> {
        let host = self.look()?.host;
        if host.deployments.first() == Some(wanted) {
            return Ok(wanted.clone());
        }
        if !host.deployments.contains(wanted) {
            return Err(Error::Gone { deployment: wanted.clone() }.into());
        }
        let tool = self.tool()?;
        let mut command = "ostree admin set-default".to_owned();
        match tool {
            // Only what was prepared for the next boot is in the way.
            Tool::RpmOstree if host.booted == *wanted && host.staged.is_some() => {
                command = "rpm-ostree cleanup --pending".to_owned();
                self.run_rpm_ostree(&["cleanup", "--pending"])?;
            }
            Tool::RpmOstree if host.rollback.as_ref() == Some(wanted) => {
                command = "rpm-ostree rollback".to_owned();
                self.run_rpm_ostree(&["rollback"])?;
            }
            Tool::Bootc if host.rollback.as_ref() == Some(wanted) => {
                command = "bootc rollback".to_owned();
                self.run(Invocation::new(&self.settings.programs.bootc).args(["rollback"]), CHANGE)?;
            }
            _ if host.booted == *wanted && host.staged.is_some() => {
                command = "ostree admin undeploy".to_owned();
                self.undeploy(host.staged.as_ref())?;
            }
            _ if self.has_set_default()? => self.set_default(wanted)?,
            _ => return self.put_first_without_set_default(wanted, reference, &host),
        }
        match self.look()?.host.deployments.first() == Some(wanted) {
            true => Ok(wanted.clone()),
            false => Err(Error::NoEffect { command, wanted: wanted.clone() }.into()),
        }
    }

    fn set_default(&self, wanted: &DeploymentId) -> Result<()> {
        let index = self.index(wanted)?.ok_or_else(|| Error::Gone { deployment: wanted.clone() })?;
        let what = self.ostree(&["admin", "set-default"], false).args([index.to_string()]);
        self.run(what, CHANGE).map(drop)
    }

    /// An ostree from before `set-default`: what stands before it gives way, where nobody needs it; else its commit is
    /// deployed once more, which takes changes in `/etc` along from the deployment that runs.
    fn put_first_without_set_default(
        &self,
        wanted: &DeploymentId,
        reference: &str,
        host: &Host,
    ) -> Result<DeploymentId> {
        if let Some(first) = host.deployments.first().filter(|first| commit(first) == commit(wanted)) {
            return Ok(first.clone());
        }
        let before: Vec<_> = host.deployments.iter().take_while(|one| *one != wanted).collect();
        if before.iter().any(|one| **one == host.booted || host.pinned.contains(one)) {
            let checksum = commit(wanted).ok_or_else(|| Error::Gone { deployment: wanted.clone() })?;
            return self.deploy_anew(checksum, reference, osname(wanted));
        }
        before.into_iter().try_for_each(|one| self.undeploy(Some(one)))?;
        Ok(wanted.clone())
    }

    fn has_set_default(&self) -> Result<bool> {
        let what = Invocation::new(&self.settings.programs.ostree).args(["admin", "--help"]);
        let done = run_limited(&english(what), &limits(CHANGE))?;
        Ok(String::from_utf8_lossy(&done.stdout).contains("set-default"))
    }

    pub fn pin(&self, deployment: &DeploymentId) -> Result<()> {
        let host = self.listed()?;
        if host.pinned.contains(deployment) {
            return Ok(());
        }
        let index =
            position(&host, deployment).ok_or_else(|| Error::Gone { deployment: deployment.clone() })?;
        self.run(self.ostree(&["admin", "pin"], false).args([index.to_string()]), CHANGE).map(drop)
    }

    /// Nothing, where it is not pinned or not there.
    pub fn unpin(&self, deployment: &DeploymentId) -> Result<()> {
        let host = self.listed()?;
        let Some(index) = position(&host, deployment) else { return Ok(()) };
        if !host.pinned.contains(deployment) {
            return Ok(());
        }
        let what = self.ostree(&["admin", "pin"], false).args(["--unpin", &index.to_string()]);
        self.run(what, CHANGE).map(drop)
    }

    /// The other two tools let go by themselves of what is not pinned, booted, or the way back.
    pub fn let_go(&self, deployment: &DeploymentId) -> Result<()> {
        let host = self.look()?.host;
        if self.tool()? != Tool::Ostree || host.booted == *deployment || host.pinned.contains(deployment) {
            return Ok(());
        }
        self.undeploy(Some(deployment))
    }

    fn undeploy(&self, deployment: Option<&DeploymentId>) -> Result<()> {
        let Some(index) = deployment.map(|one| self.index(one)).transpose()?.flatten() else { return Ok(()) };
        self.run(self.ostree(&["admin", "undeploy"], false).args([index.to_string()]), CHANGE).map(drop)
    }

    fn index(&self, deployment: &DeploymentId) -> Result<Option<usize>> {
        Ok(position(&self.listed()?, deployment))
    }

    pub fn reboot(&self) -> Result<()> {
        let (program, args) = self.settings.reboot.split_first().ok_or(Error::NoReboot)?;
        self.run(Invocation::new(program).args(args), CHANGE).map(drop)
    }

    /// `ostree` on the sysroot that is configured; `repo`: on its repository.
    fn ostree(&self, words: &[&str], repo: bool) -> Invocation {
        let what = Invocation::new(&self.settings.programs.ostree).args(words);
        let sysroot = self.settings.programs.sysroot.as_deref();
        match (repo, sysroot) {
            (true, sysroot) => {
                let repo = sysroot.unwrap_or("/sysroot".as_ref()).join("ostree/repo");
                what.args([format!("--repo={}", repo.display())])
            }
            (false, Some(sysroot)) => what.args([format!("--sysroot={}", sysroot.display())]),
            (false, None) => what,
        }
    }

    fn rpm_ostree(&self, args: &[&str], limit: Duration) -> Result<(Invocation, Finished)> {
        let what = english(Invocation::new(&self.settings.programs.rpm_ostree).args(args));
        let done = run_limited(&what, &limits(limit))?;
        Ok((what, done))
    }

    fn run_rpm_ostree(&self, args: &[&str]) -> Result<()> {
        let what = Invocation::new(&self.settings.programs.rpm_ostree).args(args);
        self.run(what, CHANGE).map(drop)
    }

    fn run(&self, what: Invocation, limit: Duration) -> Result<Finished> {
        let what = english(what);
        let done = run_limited(&what, &limits(limit))?;
        if done.status.success() { Ok(done) } else { Err(failed(&what, &done)) }
    }
}

/// rpm-ostree is not asked to rebase to where it is: that it says so is good news.
fn settled((what, done): (Invocation, Finished)) -> Result<Finished> {
    let equal = String::from_utf8_lossy(&done.stderr).contains("Old and new refs are equal");
    if done.status.success() || equal { Ok(done) } else { Err(failed(&what, &done)) }
}

/// A commit of the branch that is followed, or another thing to follow.
fn verb(reference: &str) -> &'static str {
    let is_checksum = reference.len() == 64 && reference.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_checksum { "deploy" } else { "rebase" }
}

/// Not one that would be taken for an option.
fn plain(reference: &str, tool: &'static str) -> Result<()> {
    let good = !reference.is_empty()
        && !reference.starts_with('-')
        && !reference.chars().any(|c| c.is_whitespace() || c.is_control());
    if good { Ok(()) } else { Err(Error::Reference { reference: reference.to_owned(), tool }.into()) }
}

fn first(host: &Host) -> Result<DeploymentId> {
    Ok(host.deployments.first().unwrap_or(&host.booted).clone())
}

fn position(host: &Host, deployment: &DeploymentId) -> Option<usize> {
    host.deployments.iter().position(|one| one == deployment)
}

/// `OSNAME-CHECKSUM.SERIAL`; only the first may hold dashes.
fn parts(deployment: &DeploymentId) -> Option<(&str, &str)> {
    let (osname, rest) = deployment.as_str().rsplit_once('-')?;
    Some((osname, rest.split_once('.')?.0))
}

fn osname(deployment: &DeploymentId) -> &str {
    parts(deployment).map_or("", |(osname, _)| osname)
}

fn commit(deployment: &DeploymentId) -> Option<&str> {
    parts(deployment).map(|(_, checksum)| checksum)
}

/// Messages are translated otherwise.
fn english(what: Invocation) -> Invocation {
    what.env("LC_ALL", "C.UTF-8").env("LANGUAGE", "")
}

fn limits(timeout: Duration) -> Limits<'static> {
    Limits { timeout: Some(timeout), max_output: OUTPUT, overflow: Overflow::Trim, ..Limits::default() }
}

fn failed(what: &Invocation, done: &Finished) -> backend::Error {
    let said = String::from_utf8_lossy(&done.stderr).trim().replace('\n', " / ");
    let said = said.chars().filter(|c| !c.is_control()).take(SAID).collect();
    backend::Error::Failed { command: what.shown(), ending: done.ending(), said }
}
