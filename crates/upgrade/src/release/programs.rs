//! The files of a release that are started, found before anything is stopped for them.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::error::Error;
use super::manifest::{Manifest, Probe};
use super::text::{Words, expand};
use crate::appliance::BackendKind;

/// As systemd gives it to services. Nothing else of the environment of whoever starts an appliance gets into it.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A relative path is one of the release; a bare name that the release does not have is one of the system.
pub fn find(release: &Path, program: &str) -> PathBuf {
    let own = release.join(program);
    if program.contains('/') || own.exists() {
        return own;
    }
    PATH.split(':').map(|dir| Path::new(dir).join(program)).find(|path| path.exists()).unwrap_or(own)
}

/// Whether all that the release at `release` is started from is there; `words` are those of this place.
pub fn are_there(
    manifest: &Manifest,
    backend: BackendKind,
    release: &Path,
    words: &Words,
) -> Result<(), Error> {
    let mut lines: Vec<&[String]> = vec![];
    if let Some(slot) = manifest.slot.as_ref().filter(|_| backend == BackendKind::Slot) {
        lines.push(&slot.command);
        lines.extend(slot.kubernetes.iter().flat_map(|it| [it.etcd.as_slice(), &it.kube_apiserver]));
    }
    if let Probe::Command { command } = &manifest.readiness.probe
        // Programs of a host come with the deployment.
        && backend != BackendKind::Ostree
    {
        lines.push(command);
    }
    for program in lines.into_iter().filter_map(|line| line.first()) {
        let program = expand(program, words)?;
        let found = std::fs::metadata(find(release, &program));
        if !found.is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0) {
            return Err(Error::NoProgram { program });
        }
    }
    if let Some(vm) = manifest.vm.as_ref().filter(|_| backend == BackendKind::Vm) {
        for file in [Some(&vm.kernel), vm.initrd.as_ref()].into_iter().flatten() {
            if !release.join(file).is_file() {
                return Err(Error::NoFile { file: file.clone() });
            }
        }
    }
    Ok(())
}
