//! A boot with the shipped units, under a real systemd: whatever happens, exactly one verdict is recorded, by holdfast's
//! own units where greenboot is not enabled and by none of them where it is.
//!
//! The manager is a user's, in namespaces and a control group of its own, so that nothing of the machine is touched. What
//! only the system's manager can do (hardening, mounts) is taken out of the units; dependencies, conditions and failures
//! are theirs. Needs root.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const DIST_UNITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dist/usr/lib/systemd/system");
const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");

const PATIENCE: Duration = Duration::from_secs(60);
/// A second verdict would follow within this time.
const SETTLED: Duration = Duration::from_secs(2);

/// What only the manager of a whole system can do.
const SYSTEM_ONLY: [&str; 7] = [
    "RequiresMountsFor=",
    "Protect",
    "PrivateNetwork=",
    "CapabilityBoundingSet=",
    "IOScheduling",
    "Nice=",
    "After=local-fs",
];

struct Machine {
    root: PathBuf,
    group: String,
    manager: Option<Child>,
}

impl Machine {
    fn new(name: &str) -> Self {
        let name = format!("dist-boot-{name}-{}", std::process::id());
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(&name);
        let _ = fs::remove_dir_all(&root);
        let machine = Self { root, group: format!("holdfast-{name}"), manager: None };
        let at = machine.root.display().to_string();
        machine.write("deployments.json", r#"{"booted": "d1", "deployments": ["d1"]}"#);
        let check = machine.write("health/10-check", &format!("#!/bin/sh\ntest ! -e {at}/broken\n"));
        fs::set_permissions(check, fs::Permissions::from_mode(0o755)).unwrap();
        machine.write(
            "holdfast.toml",
            &format!(
                "[guard]\ndata-dir = \"{at}/data\"\nbackups-dir = \"{at}/backups\"\n\
                 workload-version = \"4.14.0\"\nboot-id = \"b1\"\ndeployments = \"{at}/deployments.json\"\n\
                 [guard.health]\nrequired-dirs = [\"{at}/health\"]\nwanted-dirs = []\n"
            ),
        );
        machine.install();
        machine
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// The shipped units and drop-ins, as `systemctl preset` enables them, and the least of systemd's own around them.
    fn install(&self) {
        for target in ["basic", "sysinit", "shutdown", "boot-complete"] {
            self.write(&format!("units/{target}.target"), "[Unit]\nDescription=systemd's own\n");
        }
        self.write(
            "units/multi-user.target",
            "[Unit]\nDescription=systemd's own\nWants=microshift.service\n",
        );
        self.write("units/microshift.service", "[Service]\nExecStart=sleep infinity\n");
        for unit in ["pre-run", "healthcheck", "green", "red"] {
            self.ship(&format!("holdfast-guard-{unit}.service"));
        }
        for unit in ["boot-complete.target", "greenboot-healthcheck.service", "microshift.service"] {
            self.ship(&format!("{unit}.d/50-holdfast-guard.conf"));
        }
        self.enable("multi-user.target.wants", "holdfast-guard-green.service");
        self.enable("boot-complete.target.requires", "holdfast-guard-healthcheck.service");
        self.enable("microshift.service.requires", "holdfast-guard-pre-run.service");
    }

    fn ship(&self, unit: &str) {
        let at = self.root.display();
        let text = fs::read_to_string(Path::new(DIST_UNITS).join(unit)).unwrap();
        let kept = text.lines().filter(|line| !SYSTEM_ONLY.iter().any(|key| line.starts_with(key)));
        let text = kept.collect::<Vec<_>>().join("\n") + "\n";
        let text = text
            .replace("/usr/bin/holdfast", &format!("{HOLDFAST} --config {at}/holdfast.toml"))
            .replace("microshift run", "sleep infinity")
            .replace("!/etc/systemd/system/", &format!("!{at}/units/"));
        self.write(&format!("units/{unit}"), &text);
    }

    fn enable(&self, dir: &str, unit: &str) {
        let dir = self.root.join("units").join(dir);
        fs::create_dir_all(&dir).unwrap();
        symlink(format!("../{unit}"), dir.join(unit)).unwrap();
    }

    /// A check of someone else's that the boot is measured by.
    fn required_check(&self, unit: &str, program: &str) {
        let text =
            format!("[Unit]\nBefore=boot-complete.target\n[Service]\nType=oneshot\nExecStart={program}\n");
        self.write(&format!("units/{unit}"), &text);
        self.enable("boot-complete.target.requires", unit);
    }

    fn groups(&self) -> Vec<PathBuf> {
        let tops = ["/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"].map(Path::new);
        let tops = tops.into_iter().filter(|top| top.join("cgroup.procs").exists());
        tops.map(|top| top.join(&self.group)).collect()
    }

    fn boot(&mut self) {
        let mut script =
            "set -e\nmount -t tmpfs none /run\nmkdir -p /run/systemd/system /run/user\n".to_owned();
        for group in self.groups() {
            fs::create_dir_all(&group).unwrap();
            script.push_str(&format!("echo $$ >{}/cgroup.procs\n", group.display()));
        }
        let manager =
            ["/usr/lib/systemd/systemd", "/lib/systemd/systemd"].into_iter().find(|p| Path::new(p).exists());
        script.push_str(&format!(
            "unshare --cgroup env -i PATH=\"$PATH\" HOME=/ XDG_RUNTIME_DIR=/run/user SYSTEMD_UNIT_PATH={}/units {} \
             --user --unit=multi-user.target --log-target=console --log-level=info\nexit $?\n",
            self.root.display(),
            manager.expect("systemd is installed"),
        ));
        let log = fs::File::create(self.root.join("manager.log")).unwrap();
        let child = Command::new("unshare")
            .args([
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
                "--propagation=private",
                "sh",
                "-c",
            ])
            .arg(script)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.manager = Some(child);
    }

    /// The log of actions: step and outcome.
    fn actions(&self) -> Vec<(String, String)> {
        let log = fs::read_to_string(self.root.join("backups/actions.log")).unwrap_or_default();
        let entries = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let text = |entry: &serde_json::Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        entries.map(|entry| (text(&entry, "step"), text(&entry, "outcome"))).collect()
    }

    #[track_caller]
    fn wait_for(&mut self, step: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.actions().iter().any(|(found, _)| found == step) {
            let ended = self.manager.as_mut().and_then(|child| child.try_wait().unwrap());
            if ended.is_some() || Instant::now() > deadline {
                let log = fs::read_to_string(self.root.join("manager.log")).unwrap_or_default();
                panic!("no {step} ({ended:?}); {:?}; systemd said: {log}", self.actions());
            }
            sleep(Duration::from_millis(50));
        }
    }

    /// All verdicts on the system, once no more can come.
    fn verdicts(&self) -> Vec<String> {
        sleep(SETTLED);
        let verdicts = self.actions().into_iter().filter(|(step, _)| step == "persist-system-health");
        verdicts.map(|(_, outcome)| outcome).collect()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if let Some(mut child) = self.manager.take() {
            // With the first process of the namespace all others go.
            let _ = child.kill();
            let _ = child.wait();
        }
        // A group can go when the last of its processes is gone, and those were only told to go just now.
        let deadline = Instant::now() + SETTLED;
        for group in self.groups() {
            while group.exists() && Instant::now() < deadline {
                remove_group(&group);
                sleep(Duration::from_millis(10));
            }
        }
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn remove_group(group: &Path) {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            remove_group(&entry.path());
        }
    }
    let _ = fs::remove_dir(group);
}

#[test]
fn a_good_boot_is_recorded_as_healthy_once() {
    let mut machine = Machine::new("good");
    machine.boot();
    machine.wait_for("persist-system-health");
    machine.wait_for("run");
    assert_eq!(machine.verdicts(), ["healthy"]);
    let steps: Vec<String> = machine.actions().into_iter().map(|(step, _)| step).collect();
    // A workload that doesn't tell when it is ready (Type=simple, as here) counts as started before `guard run` has
    // written its step, so checks may come first; what they wait for is up to them. Only preparing comes before both.
    let (runs, others): (Vec<&str>, Vec<&str>) =
        steps.iter().map(String::as_str).partition(|step| *step == "run");
    assert_eq!(others, ["record-boot", "pre-run", "check", "healthcheck", "persist-system-health"]);
    assert_eq!(runs.len(), 1, "{steps:?}");
    let at = |name: &str| steps.iter().position(|step| step == name);
    assert!(at("pre-run") < at("run"), "{steps:?}");
}

#[test]
fn a_failing_check_is_recorded_as_unhealthy_once() {
    let mut machine = Machine::new("bad");
    machine.write("broken", "");
    machine.boot();
    machine.wait_for("persist-system-health");
    assert_eq!(machine.verdicts(), ["unhealthy"]);
}

#[test]
fn data_that_could_not_be_prepared_is_an_unhealthy_boot_and_the_workload_stays_off() {
    let mut machine = Machine::new("blocked");
    // Data that nobody knows, beside a record of boots: pre-run preserves it and blocks.
    machine.write("data/found", "x");
    machine.write("data/version.json", "{}");
    machine.write("backups/health.json", r#"{"deployments": []}"#);
    machine.boot();
    machine.wait_for("persist-system-health");
    assert_eq!(machine.verdicts(), ["unhealthy"]);
    let steps: Vec<String> = machine.actions().into_iter().map(|(step, _)| step).collect();
    assert!(!steps.iter().any(|step| step == "run" || step == "healthcheck"), "{steps:?}");
}

#[test]
fn a_failing_check_of_someone_else_is_recorded_as_unhealthy_once() {
    let mut machine = Machine::new("other");
    machine.required_check("other-check.service", "false");
    machine.boot();
    machine.wait_for("persist-system-health");
    assert_eq!(machine.verdicts(), ["unhealthy"]);
}

#[test]
fn where_greenboot_is_enabled_its_hooks_alone_pass_the_verdict() {
    for (name, program) in [("greenboot-good", "true"), ("greenboot-bad", "false")] {
        let mut machine = Machine::new(name);
        machine.required_check("greenboot-healthcheck.service", program);
        machine.boot();
        machine.wait_for("run");
        assert_eq!(machine.verdicts(), <[&str; 0]>::default(), "{name}");
        assert!(!machine.actions().iter().any(|(step, _)| step == "healthcheck"), "{name}");
    }
}
