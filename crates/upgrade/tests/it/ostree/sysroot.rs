//! A sysroot with a tiny operating system on two branches, and a reboot that only changes what is said to be booted.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use upgrade::backend::ostree::{Settings, Tool};

use crate::ostree::support::Scratch;

pub struct Sysroot {
    pub scratch: Scratch,
    path: PathBuf,
}

pub const FIRST: &str = "hf/1";
pub const SECOND: &str = "hf/2";

impl Sysroot {
    /// The first branch is deployed, and booted.
    pub fn new() -> Self {
        let scratch = Scratch::new();
        let path = scratch.path().join("sysroot");
        fs::create_dir(&path).unwrap();
        let sysroot = Self { scratch, path };
        ostree(&["admin", "init-fs", &sysroot.path.display().to_string()]);
        sysroot.admin("os-init", &["holdfast"]);
        sysroot.commit(FIRST);
        sysroot.commit(SECOND);
        sysroot.admin("deploy", &["--os=holdfast", FIRST]);
        // ostree knows what is booted by the root of the file system that it runs on, which is none of these.
        sysroot.scratch.script(
            "ostree",
            &format!(
                "booted=$(cat {}/booted)\n\
                 [ \"$1 $2\" = 'admin status' ] || exec ostree \"$@\"\n\
                 ostree \"$@\" | sed \"s/^  holdfast $booted/* holdfast $booted/\"",
                sysroot.scratch.path().display()
            ),
        );
        sysroot.write_reboot("");
        sysroot.reboot();
        sysroot
    }

    pub fn settings(&self) -> Settings {
        let mut settings = Settings { tool: Some(Tool::Ostree), ..Settings::default() };
        settings.programs.sysroot = Some(self.path.clone());
        settings.programs.ostree = self.scratch.path().join("ostree");
        settings.boot_id = self.scratch.path().join("boot_id");
        settings.reboot = vec![self.scratch.path().join("reboot").display().to_string()];
        settings
    }

    /// What `reboot` does from now on, before it reboots: `exit` keeps it from doing so.
    pub fn write_reboot(&self, first: &str) {
        let root = self.scratch.path().display();
        let entries = self.path.join("boot/loader/entries");
        self.scratch.script(
            "reboot",
            &format!(
                "cd {root}; echo once >>reboots; {first}\n\
                 entry=$(grep -l '(ostree:0)' {}/*)\n\
                 link=$(sed -n 's/^options .*ostree=//p' \"$entry\" | cut -d' ' -f1)\n\
                 basename $(readlink -f {}/$link) >booted\n\
                 wc -l <reboots >boot_id",
                entries.display(),
                self.path.display()
            ),
        );
    }

    /// As if by hand.
    pub fn reboot(&self) {
        assert!(Command::new(self.scratch.path().join("reboot")).status().unwrap().success());
    }

    pub fn reboots(&self) -> usize {
        fs::read_to_string(self.scratch.path().join("reboots")).unwrap().lines().count()
    }

    /// Names of deployments in boot order, with what is said about them.
    pub fn status(&self) -> String {
        self.admin("status", &[])
    }

    pub fn deployments(&self) -> usize {
        self.status().lines().filter(|line| line.contains("holdfast ")).count()
    }

    pub fn pins(&self) -> usize {
        self.status().matches("Pinned: yes").count()
    }

    pub fn commit_of(&self, branch: &str) -> String {
        ostree(&["rev-parse", &self.repo(), branch]).trim().to_owned()
    }

    /// The commit that runs.
    pub fn booted(&self) -> String {
        let name = fs::read_to_string(self.scratch.path().join("booted")).unwrap();
        name.split('.').next().unwrap().to_owned()
    }

    fn commit(&self, branch: &str) {
        let tree = self.scratch.path().join("tree");
        let modules = tree.join("usr/lib/modules/6.1.0");
        fs::create_dir_all(&modules).unwrap();
        fs::create_dir_all(tree.join("usr/etc")).unwrap();
        for (name, text) in [
            ("usr/lib/modules/6.1.0/vmlinuz", "kernel"),
            ("usr/lib/modules/6.1.0/initramfs.img", "initramfs"),
            ("usr/lib/os-release", "ID=holdfast\n"),
            ("usr/lib/version", branch),
        ] {
            fs::write(tree.join(name), text).unwrap();
        }
        let (branch, tree) = (format!("--branch={branch}"), format!("--tree=dir={}", tree.display()));
        ostree(&["commit", &self.repo(), &branch, &tree]);
    }

    fn repo(&self) -> String {
        format!("--repo={}", self.path.join("ostree/repo").display())
    }

    fn admin(&self, verb: &str, args: &[&str]) -> String {
        let option = format!("--sysroot={}", self.path.display());
        ostree(&[&["admin", verb, &option], args].concat())
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
