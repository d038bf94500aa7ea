//! The command line of QEMU, from the definition of a machine. It names files and asks for their real paths; it changes
//! nothing.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::error::Error;
use super::machine::{PID, SOCKET};
use super::serial;
use crate::backend::Result;
use crate::release::{VmPayload, Words, expand};

/// The machine's disk, as QMP commands name it.
pub const DISK_NODE: &str = "disk";

/// What of this host a machine is run with.
#[derive(Debug, Clone)]
pub struct Settings {
    pub qemu: PathBuf,
    pub qemu_img: PathBuf,
    /// The host's processor runs the machine's code where it can; else, or if not, it is emulated.
    pub accelerate: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { qemu: "qemu-system-x86_64".into(), qemu_img: "qemu-img".into(), accelerate: true }
    }
}

/// All arguments. The machine runs with `run/` as its directory: what lies there is named by its name alone.
pub fn arguments(
    settings: &Settings,
    vm: &VmPayload,
    release: &Path,
    disk: Option<&Path>,
    words: &Words,
) -> Result<Vec<OsString>> {
    let mut line = Line::default();
    // Nothing that is not asked for here: no devices, no configuration of this host.
    line.flag("-nodefaults").flag("-no-user-config");
    line.option("-display", "none");
    line.option("-machine", "q35,i8042=off,vmport=off");
    if settings.accelerate {
        line.option("-accel", "kvm");
    }
    line.option("-accel", "tcg");
    line.option("-cpu", "max");
    line.option("-smp", vm.cpus.to_string());
    line.option("-m", format!("{}M", vm.memory_mib));
    // A machine that panics or reboots ends: only what is told to starts it.
    line.flag("-no-reboot").option("-device", "pvpanic");
    // Should the machine ever get hold of QEMU itself, that can start nothing and gain nothing.
    line.option("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny");

    line.option("-kernel", inside(release, &vm.kernel)?);
    if let Some(initrd) = &vm.initrd {
        line.option("-initrd", inside(release, initrd)?);
    }
    if !vm.append.is_empty() {
        line.option("-append", &vm.append);
    }

    line.option("-pidfile", PID);
    line.option("-chardev", format!("socket,id=qmp,path={SOCKET},server=on,wait=off"));
    line.option("-mon", "chardev=qmp,mode=control");
    line.option("-chardev", format!("file,id=serial,path={},append=on", serial::FILE));
    line.option("-serial", "chardev:serial");
    line.option("-fw_cfg", "name=opt/holdfast/config,file=/dev/stdin");
    line.option("-device", "virtio-rng-pci");

    if let Some(disk) = disk {
        let file = json!({"driver": "file", "filename": text(disk)?});
        let node = json!({"driver": "qcow2", "node-name": DISK_NODE, "discard": "unmap", "file": file});
        line.option("-blockdev", node.to_string());
        line.option("-device", format!("virtio-blk-pci,drive={DISK_NODE}"));
    }
    // The machine reaches nobody; whom it serves reaches it from this host alone.
    let mut network = "user,id=net,restrict=on".to_owned();
    for forward in &vm.forward {
        let host = expand(&forward.host, words)?;
        let host = port(&host).ok_or_else(|| Error::Port { text: host.chars().take(80).collect() })?;
        network.push_str(&format!(",hostfwd=tcp:127.0.0.1:{host}-:{}", forward.guest));
    }
    line.option("-netdev", network);
    line.option("-device", "virtio-net-pci,netdev=net,romfile=");
    Ok(line.0)
}

#[derive(Default)]
struct Line(Vec<OsString>);

impl Line {
    fn flag(&mut self, name: &str) -> &mut Self {
        self.0.push(name.into());
        self
    }

    fn option(&mut self, name: &str, value: impl Into<OsString>) -> &mut Self {
        self.0.push(name.into());
        self.0.push(value.into());
        self
    }
}

fn port(text: &str) -> Option<u16> {
    text.parse().ok().filter(|port| *port > 0)
}

/// A file of the release, and not one that a link of it leads to elsewhere.
fn inside(release: &Path, relative: &str) -> Result<PathBuf> {
    let outside = || Error::Outside { path: relative.to_owned() };
    let found = |path: &Path| {
        fs::canonicalize(path).map_err(|error| ::disk::Error::io(::disk::Operation::Open, path, error))
    };
    let (root, path) = (found(release)?, found(&release.join(relative))?);
    if path.starts_with(&root) { Ok(path) } else { Err(outside().into()) }
}

fn text(path: &Path) -> Result<&str> {
    let why = || Error::Unexpected { why: format!("the path {} is not text", path.display()) };
    Ok(path.to_str().ok_or_else(why)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(host: &str, kernel: &str) -> VmPayload {
        let text = format!(
            r#"{{"kernel": "{kernel}", "append": "quiet, a=b", "forward": [{{"guest": 80, "host": "{host}"}}]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn release(name: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("holdfast-command-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("release")).unwrap();
        fs::write(root.join("release/vmlinuz"), "").unwrap();
        fs::write(root.join("secret"), "").unwrap();
        std::os::unix::fs::symlink("../secret", root.join("release/link")).unwrap();
        root
    }

    fn built(root: &Path, vm: &VmPayload) -> Result<String> {
        let mut words = Words::default();
        words.set("config.port", "8080").set("config.far", "8080,restrict=off");
        let disk = root.join("a,b.qcow2");
        let all = arguments(&Settings::default(), vm, &root.join("release"), Some(&disk), &words)?;
        let words: Vec<_> = all.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        Ok(words.join("\n"))
    }

    #[test]
    fn ports_are_forwarded_from_loopback_only_and_the_machine_reaches_nobody() {
        let root = release("ports");
        let line = built(&root, &payload("{config.port}", "vmlinuz")).unwrap();
        assert!(line.contains("user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:8080-:80\n"), "{line}");
        for bad in ["{config.far}", "0", "70000", "80 "] {
            let error = built(&root, &payload(bad, "vmlinuz")).unwrap_err();
            assert!(error.to_string().contains("is not a port"), "{error}");
        }
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn files_are_those_of_the_release() {
        let root = release("files");
        for bad in ["../secret", "link", "/etc/passwd"] {
            let error = built(&root, &payload("80", bad)).unwrap_err();
            assert!(error.to_string().contains("leads out of the release"), "{error}");
        }
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_comma_in_a_path_separates_nothing() {
        let root = release("comma");
        let line = built(&root, &payload("80", "vmlinuz")).unwrap();
        assert!(line.contains("/a,b.qcow2\"}"), "{line}");
        fs::remove_dir_all(root).unwrap();
    }
}
