//! What is installed works as it stands: systemd accepts the units, greenboot's hooks reach the binary and leave a
//! verdict, the configuration says what the binary does without it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const DIST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dist");
const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");
const UNITS: &str = "usr/lib/systemd/system";

/// A directory of this test's own, gone when the test is over.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("dist-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn script(&self, path: &str, text: &str) -> PathBuf {
        let path = self.write(path, text);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn succeeds(command: &mut Command) -> String {
    let output = run(command);
    assert!(output.status.success(), "{command:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// All files below a directory of `dist/`.
fn files(below: &str) -> Vec<PathBuf> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { walk(&path, found) } else { found.push(path) }
        }
    }
    let mut found = Vec::new();
    walk(&Path::new(DIST).join(below), &mut found);
    found.sort();
    found
}

/// The device's root as the package leaves it, with systemd's own units and a stand-in for the workload and greenboot.
fn installed(name: &str) -> Scratch {
    let root = Scratch::new(name);
    succeeds(Command::new("cp").arg("-r").arg(format!("{DIST}/.")).arg(&root.0));
    fs::create_dir_all(root.0.join("usr/bin")).unwrap();
    fs::copy(HOLDFAST, root.0.join("usr/bin/holdfast")).unwrap();
    symlink("holdfast", root.0.join("usr/bin/kill")).unwrap();
    symlink("usr/lib", root.0.join("lib")).unwrap();
    for entry in
        fs::read_dir("/usr/lib/systemd/system").or_else(|_| fs::read_dir("/lib/systemd/system")).unwrap()
    {
        let path = entry.unwrap().path();
        let kind = path.extension().unwrap_or_default();
        if path.is_file() && (kind == "target" || kind == "slice") {
            fs::copy(&path, root.0.join(UNITS).join(path.file_name().unwrap())).unwrap();
        }
    }
    for unit in ["microshift", "greenboot-healthcheck", "example-workload", "systemd-tmpfiles-setup"] {
        root.write(
            &format!("{UNITS}/{unit}.service"),
            "[Unit]\nDescription=A stand-in\n[Service]\nType=oneshot\nExecStart=/usr/bin/holdfast version\n",
        );
    }
    root
}

/// systemd warns about a key that it doesn't know and goes on: what it says counts as much as how it ends.
#[track_caller]
fn verified(root: &Scratch, unit: &str) {
    let mut command = Command::new("systemd-analyze");
    command.arg("--man=no").arg(format!("--root={}", root.0.display())).args(["verify", unit]);
    let output = run(&mut command);
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success() && said.trim().is_empty(), "{unit}: {said}");
}

fn units() -> BTreeSet<String> {
    let services = files(UNITS).into_iter().filter(|path| path.extension() == Some(OsStr::new("service")));
    services.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn systemd_has_nothing_to_say_against_the_units() {
    let root = installed("units");
    assert_eq!(units().len(), 9);
    for unit in units() {
        verified(&root, &unit);
    }
}

#[test]
fn systemd_has_nothing_to_say_against_the_drop_ins() {
    let root = installed("drop-ins");
    for unit in ["microshift.service", "greenboot-healthcheck.service", "boot-complete.target"] {
        assert!(root.0.join(UNITS).join(format!("{unit}.d/50-holdfast-guard.conf")).is_file(), "{unit}");
        verified(&root, unit);
    }
}

#[test]
fn systemd_has_nothing_to_say_against_the_examples() {
    let root = installed("examples");
    let places = [
        ("workload.conf", "example-workload.service"),
        ("pre-run-mounts.conf", "holdfast-guard-pre-run.service"),
        ("healthcheck-after.conf", "holdfast-guard-healthcheck.service"),
        ("reboot-when-red.conf", "holdfast-guard-red.service"),
    ];
    let shipped = files("usr/share/doc/holdfast/examples");
    assert_eq!(shipped.len(), places.len(), "an example without a place: {shipped:?}");
    for (example, unit) in places {
        let text = fs::read_to_string(format!("{DIST}/usr/share/doc/holdfast/examples/{example}")).unwrap();
        assert!(text.contains("/etc/systemd/system/"), "{example} does not say where it goes");
        root.write(&format!("etc/systemd/system/{unit}.d/50-example.conf"), &text);
        verified(&root, unit);
    }
}

#[test]
fn a_key_that_systemd_does_not_know_would_be_noticed() {
    let root = installed("unknown-key");
    root.write(
        &format!("{UNITS}/wrong.service"),
        "[Service]\nType=oneshot\nExecStart=/usr/bin/holdfast\nTypo=1\n",
    );
    assert!(std::panic::catch_unwind(|| verified(&root, "wrong.service")).is_err());
}

#[test]
fn pre_run_lets_a_long_copy_finish_and_its_migration_die_with_it() {
    let unit = fs::read_to_string(format!("{DIST}/{UNITS}/holdfast-guard-pre-run.service")).unwrap();
    let lines: BTreeSet<&str> = unit.lines().collect();
    for line in [
        "Type=oneshot",
        "RemainAfterExit=yes",
        "TimeoutStartSec=infinity",
        "KillMode=control-group",
        "Before=microshift.service",
        "RequiredBy=microshift.service",
        "RequiresMountsFor=/var/lib/microshift /var/lib/microshift-backups",
    ] {
        assert!(lines.contains(line), "{line} is missing");
    }
    // Each of these takes something from a copy, or makes the data directory a mount point.
    for key in [
        "ReadWritePaths",
        "BindPaths",
        "ProtectSystem=strict",
        "RestrictSUIDSGID",
        "PrivateDevices",
        "DeviceAllow",
        "ProtectClock",
        "ProtectHome",
        "NoNewPrivileges",
        "PrivateUsers",
        "DynamicUser",
    ] {
        assert!(!lines.iter().any(|line| line.starts_with(key)), "{key} breaks copying");
    }
}

#[test]
fn whoever_may_record_a_verdict_stands_back_where_greenboot_is_enabled() {
    for unit in ["healthcheck", "green", "red"] {
        let text = fs::read_to_string(format!("{DIST}/{UNITS}/holdfast-guard-{unit}.service")).unwrap();
        for top in ["/etc", "/usr/lib"] {
            let link =
                format!("{top}/systemd/system/boot-complete.target.requires/greenboot-healthcheck.service");
            assert!(
                text.contains(&format!("\nConditionPathExists=!{link}\n")),
                "{unit} does not look for {link}"
            );
        }
    }
}

#[test]
fn the_preset_speaks_of_all_units_that_can_be_enabled() {
    let preset =
        fs::read_to_string(format!("{DIST}/usr/lib/systemd/system-preset/85-holdfast.preset")).unwrap();
    let named = |word: &str| -> BTreeSet<String> {
        preset.lines().filter_map(|line| line.strip_prefix(word)).map(str::to_owned).collect()
    };
    let (enabled, disabled) = (named("enable "), named("disable "));
    assert_eq!(
        disabled,
        BTreeSet::from(
            [
                "holdfast-agent.service",
                "holdfast-appliances.service",
                "holdfast-graph.service",
                "holdfast-image-manager@.service",
                "holdfast-images.service",
            ]
            .map(str::to_owned)
        )
    );
    let has_install = |unit: &String| {
        fs::read_to_string(format!("{DIST}/{UNITS}/{unit}")).unwrap().contains("\n[Install]\n")
    };
    let spoken_of: BTreeSet<String> = enabled.union(&disabled).cloned().collect();
    assert_eq!(spoken_of, units().into_iter().filter(has_install).collect());

    // And systemd reads it the same way.
    let root = installed("preset");
    let root_flag = format!("--root={}", root.0.display());
    succeeds(Command::new("systemctl").arg(&root_flag).arg("preset").args(&enabled));
    for link in [
        "microshift.service.requires/holdfast-guard-pre-run.service",
        "boot-complete.target.requires/holdfast-guard-healthcheck.service",
        "multi-user.target.wants/holdfast-guard-green.service",
    ] {
        let link = root.0.join("etc/systemd/system").join(link);
        assert!(link.is_symlink(), "{} was not made", link.display());
    }
}

#[test]
fn the_manual_pages_that_the_units_name_are_written() {
    let pages = Scratch::new("man");
    succeeds(Command::new(HOLDFAST).arg("man").arg(&pages.0));
    for unit in units() {
        let text = fs::read_to_string(format!("{DIST}/{UNITS}/{unit}")).unwrap();
        let page = text.lines().find_map(|line| line.strip_prefix("Documentation=man:")).unwrap();
        let file = page.replace('(', ".").replace(')', "");
        assert!(pages.0.join(&file).is_file(), "{unit} names {page}");
    }
}

#[test]
fn tmpfiles_makes_the_backups_directory_for_root_alone() {
    let root = Scratch::new("tmpfiles");
    root.write("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n");
    root.write("etc/group", "root:x:0:\n");
    // Who runs the tests may not be root, and only root may give files to root.
    let line = fs::read_to_string(format!("{DIST}/usr/lib/tmpfiles.d/holdfast.conf")).unwrap();
    let line = match rustix::process::geteuid().is_root() {
        true => line,
        false => line.replace(" root root ", " - - "),
    };
    let conf = root.write("usr/lib/tmpfiles.d/holdfast.conf", &line);
    let mut command = Command::new("systemd-tmpfiles");
    command.arg(format!("--root={}", root.0.display())).arg("--create").arg(&conf);
    let output = run(&mut command);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let made = fs::metadata(root.0.join("var/lib/microshift-backups")).unwrap();
    assert_eq!(made.permissions().mode() & 0o7777, 0o700);
    assert!(!root.0.join("var/lib/microshift").exists(), "guard decides by whether there is data");
}

// --- the configuration ------------------------------------------------------------------------------------------------

fn vendor_toml() -> String {
    fs::read_to_string(format!("{DIST}/usr/lib/holdfast/holdfast.toml")).unwrap()
}

/// Takes the comment marks off: of the defaults alone, or of the examples too.
fn uncommented(examples: bool) -> String {
    let line = |line: &str| match (line.strip_prefix("#? "), line.strip_prefix('#')) {
        (Some(example), _) if examples => example.to_owned(),
        (None, Some(rest)) if rest.starts_with(|c: char| c.is_ascii_lowercase()) => rest.to_owned(),
        _ => line.to_owned(),
    };
    vendor_toml().lines().map(line).collect::<Vec<_>>().join("\n") + "\n"
}

fn config(file: &Path, what: &str) -> String {
    let mut command = Command::new(HOLDFAST);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HOLDFAST_")) {
        command.env_remove(name);
    }
    succeeds(command.arg("--config").arg(file).args(["config", what]))
}

#[test]
fn the_configuration_is_understood_with_and_without_its_comment_marks() {
    let scratch = Scratch::new("toml");
    for (name, text) in
        [("as-shipped", vendor_toml()), ("defaults", uncommented(false)), ("examples", uncommented(true))]
    {
        let said = config(&scratch.write(&format!("{name}.toml"), &text), "check");
        assert!(said.starts_with("understood: "), "{name}: {said}");
    }
}

#[test]
fn what_the_configuration_calls_a_default_is_one() {
    let scratch = Scratch::new("defaults");
    let shown = config(&scratch.write("defaults.toml", &uncommented(false)), "show");
    let check = "\n[[guard.health.check]]\nname = \"microshift\"\nkind = \"unit\"\nrequired = true\n\
                 retry-every = \"2s\"\nunit = \"microshift.service\"\n";
    assert!(shown.contains(check), "the one check that is no comment: {shown}");
    assert_eq!(shown.replacen(check, "", 1), config(&scratch.write("empty.toml", ""), "show"));
}

#[test]
fn the_configuration_explains_every_key() {
    let scratch = Scratch::new("keys");
    let shown = config(&scratch.write("examples.toml", &uncommented(true)), "show");
    let keys = |text: &str| -> BTreeSet<String> {
        let words = text.lines().filter_map(|line| line.split_once(" = ")).map(|(key, _)| key.to_owned());
        words.filter(|key| key.chars().all(|c| c.is_ascii_lowercase() || c == '-')).collect()
    };
    let explained = keys(&uncommented(true));
    let missing: Vec<_> = keys(&shown).difference(&explained).cloned().collect();
    assert!(missing.is_empty(), "not in holdfast.toml: {missing:?}");
    // Keys without a default are shown only when they are set, so a new one is noticed by its name in the code.
    for part in ["guard", "graph", "storage"] {
        let file = format!("{}/../{part}/src/settings.rs", env!("CARGO_MANIFEST_DIR"));
        let code = fs::read_to_string(file).unwrap();
        let fields =
            code.lines().filter_map(|line| line.strip_prefix("    pub ")).filter_map(|l| l.split_once(": "));
        for (field, _) in fields.filter(|(field, _)| !field.contains('(')) {
            let key = field.replace('_', "-");
            let table = ["retention", "migration", "health", "tls", "owners", "limits", "offline"]
                .contains(&key.as_str());
            let told = vendor_toml().lines().any(|line| line.starts_with('#') && line.contains(&key));
            assert!(table || explained.contains(&key) || told, "not in holdfast.toml: {key}");
        }
    }
}

// --- greenboot's hooks ------------------------------------------------------------------------------------------------

const CHECK: &str = "etc/greenboot/check/required.d/40_holdfast_guard.sh";
const GREEN: &str = "etc/greenboot/green.d/40_holdfast_guard.sh";
const RED: &str = "etc/greenboot/red.d/40_holdfast_guard.sh";

/// A device in a directory, with a `holdfast` in PATH that is the real one on this device.
struct Device {
    dir: Scratch,
    path: String,
}

impl Device {
    fn booted(name: &str) -> Self {
        let dir = Scratch::new(name);
        let at = dir.0.display();
        dir.write("deployments.json", r#"{"booted": "d1", "deployments": ["d1"]}"#);
        dir.script("health/10-check", &format!("#!/bin/sh\ntest ! -e {at}/broken\n"));
        let toml = format!(
            "[guard]\ndata-dir = \"{at}/data\"\nbackups-dir = \"{at}/backups\"\nworkload-version = \"4.14.0\"\n\
             boot-id = \"b1\"\ndeployments = \"{at}/deployments.json\"\n\
             [guard.health]\nrequired-dirs = [\"{at}/health\"]\nwanted-dirs = []\n"
        );
        dir.write("holdfast.toml", &toml);
        dir.script(
            "bin/holdfast",
            &format!("#!/bin/sh\nexec '{HOLDFAST}' --config '{at}/holdfast.toml' \"$@\"\n"),
        );
        let path = format!("{at}/bin:{}", std::env::var("PATH").unwrap());
        let device = Self { dir, path };
        succeeds(device.command("holdfast").args(["guard", "pre-run"]));
        succeeds(device.command("holdfast").args(["guard", "run", "--", "true"]));
        device
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("PATH", &self.path);
        command
    }

    /// As greenboot does it: by bash, whatever the mode of the file.
    fn hook(&self, path: &str) -> i32 {
        run(self.command("bash").arg(format!("{DIST}/{path}"))).status.code().unwrap()
    }

    /// What was recorded of this boot: of the workload, and of the system.
    fn verdict(&self) -> (String, String) {
        let said = succeeds(self.command("holdfast").args(["guard", "status", "-o", "json"]));
        let json: serde_json::Value = serde_json::from_str(&said).unwrap();
        let of = |what: &str| json["this_boot"][what].as_str().unwrap().to_owned();
        (of("workload"), of("system"))
    }
}

fn pair(workload: &str, system: &str) -> (String, String) {
    (workload.to_owned(), system.to_owned())
}

#[test]
fn the_hooks_are_executable_and_bash_understands_them() {
    let hooks = files("etc/greenboot");
    assert_eq!(hooks.len(), 3);
    for hook in hooks {
        assert_eq!(hook.metadata().unwrap().permissions().mode() & 0o111, 0o111, "{}", hook.display());
        assert_eq!(hook.extension(), Some(OsStr::new("sh")), "greenboot runs nothing else");
        succeeds(Command::new("bash").arg("-n").arg(&hook));
    }
}

#[test]
fn a_good_boot_goes_through_the_hooks_to_a_healthy_verdict() {
    let device = Device::booted("green");
    assert_eq!(device.hook(CHECK), 0);
    assert_eq!(device.verdict(), pair("healthy", "unknown"), "the check alone is no verdict on the boot");
    assert_eq!(device.hook(GREEN), 0);
    assert_eq!(device.verdict(), pair("healthy", "healthy"));
}

#[test]
fn a_bad_boot_goes_through_the_hooks_to_an_unhealthy_verdict() {
    let device = Device::booted("red");
    device.dir.write("broken", "");
    assert_eq!(device.hook(CHECK), 12);
    assert_eq!(device.hook(RED), 0);
    assert_eq!(device.verdict(), pair("unhealthy", "unhealthy"));
}

#[test]
fn data_that_could_not_be_prepared_fails_the_check_at_once() {
    let device = Device::booted("failed-pre-run");
    // systemd says that the unit has failed.
    device.dir.script(
        "bin/systemctl",
        "#!/bin/sh\ntest \"$*\" = 'is-failed --quiet holdfast-guard-pre-run.service'\n",
    );
    assert_eq!(device.hook(CHECK), 1);
    assert_eq!(device.verdict(), pair("unknown", "unknown"));
}

#[test]
fn guards_checks_and_greenboots_are_kept_apart() {
    let dirs: Vec<String> =
        uncommented(true).lines().filter(|line| line.contains("-dirs = ")).map(str::to_owned).collect();
    assert_eq!(dirs.len(), 2);
    assert!(dirs.iter().all(|line| !line.contains("greenboot")), "the hook would call itself: {dirs:?}");
}
