//! The real `ostree` on a sysroot that the test makes. Nothing of it is booted: what is booted comes from a
//! kernel command line that the test writes, or is given.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::Scratch;
use host::{Error, Kind, Source, read};
use logic::host::DeploymentId;
use program::Limits;

struct Sysroot {
    scratch: Scratch,
    path: PathBuf,
}

impl Sysroot {
    fn new() -> Self {
        let scratch = Scratch::new("sysroot");
        let path = scratch.path().join("sysroot");
        std::fs::create_dir(&path).unwrap();
        let sysroot = Self { scratch, path };
        ostree(&["admin", "init-fs", &sysroot.path.display().to_string()]);
        sysroot.admin(&["os-init", "holdfast"]);
        sysroot
    }

    fn admin(&self, args: &[&str]) -> String {
        let option = format!("--sysroot={}", self.path.display());
        ostree(&[&["admin", args[0], &option], &args[1..]].concat())
    }

    /// Commits a tiny operating system whose only content is `version`; its checksum.
    fn commit(&self, version: &str) -> String {
        let tree = self.scratch.path().join("tree");
        let modules = tree.join("usr/lib/modules/6.1.0");
        std::fs::create_dir_all(&modules).unwrap();
        std::fs::create_dir_all(tree.join("usr/etc")).unwrap();
        for (name, text) in [
            ("usr/lib/modules/6.1.0/vmlinuz", "kernel"),
            ("usr/lib/modules/6.1.0/initramfs.img", "initramfs"),
            ("usr/lib/os-release", "ID=holdfast\n"),
            ("usr/lib/version", version),
        ] {
            std::fs::write(tree.join(name), text).unwrap();
        }
        let repo = format!("--repo={}", self.path.join("ostree/repo").display());
        let tree = format!("--tree=dir={}", tree.display());
        let meta = format!("--add-metadata-string=version={version}");
        ostree(&["commit", &repo, "--branch=hf/stable", &tree, &meta]).trim().to_owned()
    }

    fn deploy(&self) {
        self.admin(&["deploy", "--os=holdfast", "--retain", "hf/stable"]);
    }

    fn source(&self, kernel_cmdline: &str) -> Source {
        Source::Ostree {
            program: "ostree".into(),
            sysroot: Some(self.path.clone()),
            kernel_cmdline: self.scratch.write("cmdline", kernel_cmdline),
        }
    }

    /// The kernel arguments of the boot entry with this index, as the boot loader would pass them.
    fn boot_arguments(&self, index: usize) -> String {
        let entries = std::fs::read_dir(self.path.join("boot/loader/entries")).unwrap();
        let wanted = format!("(ostree:{index})");
        for entry in entries {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            if text.lines().any(|line| line.starts_with("title ") && line.ends_with(&wanted)) {
                let options = text.lines().find_map(|line| line.strip_prefix("options ")).unwrap();
                return format!("BOOT_IMAGE=/vmlinuz root=/dev/vda3 {options} quiet\n");
            }
        }
        panic!("no boot entry {wanted}");
    }
}

impl Drop for Sysroot {
    fn drop(&mut self) {
        // ostree makes the roots of deployments immutable where the file system can.
        let _ = Command::new("chattr").args(["-R", "-i"]).arg(self.path.join("ostree/deploy")).output();
    }
}

fn ostree(args: &[&str]) -> String {
    let out = Command::new("ostree").args(args).output().unwrap_or_else(|error| {
        panic!("this test needs Debian's package \"ostree\" (make test installs it): {error}")
    });
    assert!(out.status.success(), "ostree {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

fn id(checksum: &str, serial: u32) -> DeploymentId {
    DeploymentId::new(format!("holdfast-{checksum}.{serial}")).unwrap()
}

#[test]
fn deployments_of_a_real_sysroot_are_found_through_every_change() {
    let limits = Limits::default();
    let sysroot = Sysroot::new();

    // Nothing deployed yet: that is "unknown", not "none".
    let error = read(&sysroot.source("quiet"), None, &limits).unwrap_err();
    assert!(matches!(error, Error::NothingListed { .. }), "{error:?}");

    let first = sysroot.commit("1.0");
    sysroot.deploy();
    let found = read(&sysroot.source(&sysroot.boot_arguments(0)), None, &limits).unwrap();
    assert_eq!(found.source, Kind::Ostree);
    assert_eq!(found.host.booted, id(&first, 0));
    assert_eq!(found.host.deployments, [id(&first, 0)]);
    assert_eq!(found.host.rollback, None);

    // An update, then the same commit deployed again: another serial.
    let second = sysroot.commit("2.0");
    sysroot.deploy();
    sysroot.deploy();
    let all = [id(&second, 1), id(&second, 0), id(&first, 0)];
    for (index, rollback) in [(0, Some(&all[1])), (1, Some(&all[2])), (2, None)] {
        let host = read(&sysroot.source(&sysroot.boot_arguments(index)), None, &limits).unwrap().host;
        assert_eq!(host.deployments, all);
        assert_eq!((host.booted, host.rollback.as_ref()), (all[index].clone(), rollback));
        assert_eq!((host.staged, host.pinned), (None, vec![]));
    }

    // A pin; and what is booted given from outside beats the command line.
    sysroot.admin(&["pin", "2"]);
    let given = read(&sysroot.source(&sysroot.boot_arguments(0)), Some(&all[2]), &limits).unwrap().host;
    assert_eq!((given.booted, given.pinned), (all[2].clone(), vec![all[2].clone()]));
    let host = read(&sysroot.source("no ostree argument"), Some(&all[0]), &limits).unwrap().host;
    assert_eq!(host.booted, all[0]);

    // A command line from before the boot entries changed leads nowhere, and says so.
    let stale = sysroot.boot_arguments(0);
    sysroot.commit("3.0");
    sysroot.deploy();
    let error = read(&sysroot.source(&stale), None, &limits).unwrap_err();
    assert!(matches!(error, Error::BootLink { .. }), "{error:?}");
    let error = read(&sysroot.source("quiet ostree=../../etc"), None, &limits).unwrap_err();
    assert!(matches!(error, Error::NoBootArgument { .. }), "{error:?}");
}

#[test]
fn a_sysroot_that_is_none_is_an_error_that_repeats_what_ostree_says() {
    let source = Source::Ostree {
        program: "ostree".into(),
        sysroot: Some(Path::new("/nonexistent/sysroot").to_owned()),
        kernel_cmdline: "/proc/cmdline".into(),
    };
    let error = read(&source, None, &Limits::default()).unwrap_err();
    assert!(matches!(error, Error::Failed { .. }), "{error:?}");
    assert!(error.to_string().contains("nonexistent"), "{error}");
}
