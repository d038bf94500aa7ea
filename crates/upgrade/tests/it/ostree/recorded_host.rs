//! A host of which only the command lines are there: `bootc`, `rpm-ostree` and `ostree` as scripts that note what they are
//! asked, and answer as the real ones do in one of six situations.
//!
//! A is what runs at first, O an older one, B the new release.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use upgrade::backend::ostree::{Settings, Tool};

use crate::ostree::support::Scratch;

pub const A: &str = "registry.example/os@sha256:aaaa";
pub const B: &str = "registry.example/os@sha256:bbbb";

pub struct Host {
    pub scratch: Scratch,
}

/// One deployment as the fixtures of `host` have it, for each of the tools.
struct Deployment {
    bootc: Value,
    rpm_ostree: Value,
    ostree: String,
}

impl Host {
    pub fn new() -> Self {
        let host = Self { scratch: Scratch::new() };
        let [b, a, o] = deployments();
        host.situation("runs-a", &[(&a, "booted"), (&o, "rollback")], false);
        host.situation("staged-b", &[(&b, "staged"), (&a, "booted"), (&o, "rollback")], false);
        host.situation("runs-b", &[(&b, "booted"), (&a, "rollback")], false);
        host.situation("queued-a", &[(&a, "rollback"), (&b, "booted")], true);
        host.situation("back-on-a", &[(&a, "booted"), (&b, "rollback")], false);
        host.enter("runs-a");
        host.scripts();
        host
    }

    pub fn settings(&self, tool: Option<Tool>) -> Settings {
        let root = self.scratch.path();
        let mut settings = Settings { tool, ..Settings::default() };
        settings.programs.bootc = root.join("bootc");
        settings.programs.rpm_ostree = root.join("rpm-ostree");
        settings.programs.ostree = root.join("ostree");
        settings.programs.kernel_cmdline = root.join("cmdline");
        settings.boot_id = root.join("boot_id");
        settings.reboot = vec![root.join("systemctl").display().to_string(), "reboot".to_owned()];
        settings
    }

    pub fn enter(&self, situation: &str) {
        fs::write(self.scratch.path().join("now"), situation).unwrap();
    }

    pub fn situation_now(&self) -> String {
        fs::read_to_string(self.scratch.path().join("now")).unwrap().trim().to_owned()
    }

    /// What the tools were asked to change, since the last time.
    pub fn asked(&self) -> Vec<String> {
        let path = self.scratch.path().join("asked");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let _ = fs::remove_file(path);
        text.lines().map(str::to_owned).collect()
    }

    fn situation(&self, name: &str, order: &[(&Deployment, &str)], queued: bool) {
        let dir: PathBuf = self.scratch.path().join(name);
        fs::create_dir(&dir).unwrap();
        let slot = |wanted: &str| {
            let found = order.iter().find(|(_, role)| *role == wanted);
            found.map_or(Value::Null, |(deployment, _)| deployment.bootc.clone())
        };
        let bootc = json!({
            "apiVersion": "org.containers.bootc/v1",
            "kind": "BootcHost",
            "metadata": {"name": "host"},
            "spec": {"image": null, "bootOrder": if queued { "rollback" } else { "default" }},
            "status": {
                "staged": slot("staged"), "booted": slot("booted"), "rollback": slot("rollback"),
                "rollbackQueued": queued, "type": "bootcHost",
            },
        });
        let rpm: Vec<Value> = order
            .iter()
            .map(|(deployment, role)| {
                let mut one = deployment.rpm_ostree.clone();
                one["booted"] = json!(*role == "booted");
                one["staged"] = json!(*role == "staged");
                one
            })
            .collect();
        let mut ostree = String::new();
        for (deployment, role) in order {
            let mark = if *role == "booted" { "*" } else { " " };
            let note = match *role {
                "booted" => String::new(),
                role => format!(" ({role})"),
            };
            ostree.push_str(&format!("{mark} {}{note}\n    Version: 9\n", deployment.ostree));
        }
        fs::write(dir.join("bootc.json"), bootc.to_string()).unwrap();
        let rpm = json!({"deployments": rpm, "transaction": null, "cached-update": null});
        fs::write(dir.join("rpm-ostree.json"), rpm.to_string()).unwrap();
        fs::write(dir.join("ostree.txt"), ostree).unwrap();
    }

    fn scripts(&self) {
        let root = self.scratch.path().display().to_string();
        fs::write(self.scratch.path().join("cmdline"), "quiet").unwrap();
        fs::write(self.scratch.path().join("boot_id"), "first").unwrap();
        let begin = |name: &str| {
            format!(
                "cd {root}; now=$(cat now)\nnote() {{ echo \"{name} $*\" >>asked; }}\ngo() {{ echo \"$1\" >now; }}\n"
            )
        };
        let bootc = "case $1 in\n\
             status) cat $now/bootc.json; exit ;;\n\
             switch) note \"$@\"; case $2 in *bbbb) go staged-b ;; *) echo 'Image specification is unchanged.' ;; esac ;;\n\
             rollback) note \"$@\"; [ $now = runs-b ]; go queued-a ;;\n\
             *) exit 2 ;; esac";
        let rpm_ostree = "case $1 in\n\
             status) cat $now/rpm-ostree.json; exit ;;\n\
             rebase) note \"$@\"; case \"$2 $3\" in\n\
                 *aaaa) echo 'error: Old and new refs are equal: os' >&2; exit 1 ;;\n\
                 --download-only*) ;;\n\
                 --cache-only*) go staged-b ;;\n\
                 *) exit 2 ;; esac ;;\n\
             rollback) note \"$@\"; [ $now = runs-b ]; go queued-a ;;\n\
             cleanup) note \"$@\"; [ $now = staged-b ]; go runs-a ;;\n\
             *) exit 2 ;; esac";
        // A pin is of a deployment, and stays with it wherever it stands in the list.
        let ostree = "line() { grep -v '^    ' $now/ostree.txt | sed -n \"$(($1 + 1))p\" | tr -d '* ' | sed 's/(.*//'; }\n\
             touch pins\n\
             case \"$1 $2\" in\n\
             'admin --help') echo '  pin'; echo '  set-default'; exit ;;\n\
             'admin status') while IFS= read -r text; do echo \"$text\"\n\
                 case $text in '    '*) ;; *) id=$(echo \"$text\" | tr -d '* ' | sed 's/(.*//')\n\
                     if grep -qxF \"$id\" pins; then echo '    Pinned: yes'; fi ;; esac\n\
                 done <$now/ostree.txt; exit ;;\n\
             'admin pin') note \"$@\"\n\
                 if [ \"$3\" = --unpin ]; then line \"$4\" >gone; grep -vxF -f gone pins >kept || true; mv kept pins\n\
                 else line \"$3\" >>pins; fi ;;\n\
             'admin undeploy') note \"$@\"; [ \"$now $3\" = 'staged-b 0' ]; go runs-a ;;\n\
             *) exit 2 ;; esac";
        let reboot = "note \"$@\"; echo after >>boot_id\n\
             case $now in staged-b) go runs-b ;; queued-a) go back-on-a ;; *) exit 2 ;; esac";
        for (name, body) in
            [("bootc", bootc), ("rpm-ostree", rpm_ostree), ("ostree", ostree), ("systemctl", reboot)]
        {
            self.scratch.script(name, &format!("{}{body}", begin(name)));
        }
    }
}

/// Staged, booted and rollback of the fixtures.
fn deployments() -> [Deployment; 3] {
    let fixture = |name: &str| {
        let path = format!("{}/../host/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
        fs::read_to_string(path).unwrap()
    };
    let bootc: Value = serde_json::from_str(&fixture("bootc/v1-staged.json")).unwrap();
    let rpm: Value = serde_json::from_str(&fixture("rpm-ostree/staged.json")).unwrap();
    ["staged", "booted", "rollback"].map(|role| {
        let bootc = bootc["status"][role].clone();
        let checksum = bootc["ostree"]["checksum"].as_str().unwrap().to_owned();
        let serial = bootc["ostree"]["deploySerial"].as_u64().unwrap();
        let stateroot = bootc["ostree"]["stateroot"].as_str().unwrap().to_owned();
        let all = rpm["deployments"].as_array().unwrap();
        let mut rpm_ostree = all.iter().find(|one| one["checksum"] == checksum.as_str()).unwrap().clone();
        // The fixtures of the two are of different hosts; here they are the same.
        rpm_ostree["id"] = json!(format!("{stateroot}-{checksum}.{serial}"));
        rpm_ostree["osname"] = json!(stateroot);
        Deployment { ostree: format!("{stateroot} {checksum}.{serial}"), bootc, rpm_ostree }
    })
}
