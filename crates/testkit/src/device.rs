//! A device in a scratch directory: its data, its backups, and whatever boots on it, driven by the real binary.
//!
//! All that a command learns about the machine is given to it from outside, so that any sequence of boots can be
//! replayed anywhere. Nothing here knows what the right answer would be.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// The files of a tree with what is in them, without what guard itself keeps in the data.
pub type Contents = BTreeMap<String, String>;

/// How the facts about the device reach the binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Facts {
    Flags,
    Environment,
}

/// What the host says about its deployments in one boot.
#[derive(Debug, Clone, Default)]
pub struct Boot {
    pub deployment: String,
    pub version: String,
    /// The others on the host, in boot order; the first is what a rollback goes to.
    pub beside: Vec<String>,
    pub pinned: Vec<String>,
    /// The host says what is booted, but lists nothing.
    pub unlisted: bool,
}

/// How a command ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// `None`: it was killed.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

#[derive(Debug)]
pub struct Device {
    binary: PathBuf,
    root: PathBuf,
    boot: Boot,
    boot_number: u32,
    settings: BTreeMap<String, String>,
    mounted: bool,
}

static COUNTER: AtomicU64 = AtomicU64::new(0);

impl Device {
    /// A device on which nothing has happened yet.
    pub fn new(binary: &Path) -> Self {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        // In memory where that is possible: what is told here does not depend on how busy the disk is.
        let memory = Path::new("/dev/shm");
        let scratch = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let root = scratch.join(format!("holdfast-device-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let device = Self {
            binary: binary.to_owned(),
            root,
            boot: Boot::default(),
            boot_number: 0,
            settings: BTreeMap::new(),
            mounted: false,
        };
        fs::create_dir_all(device.checks()).expect("a scratch directory can be made");
        device.write_config();
        device
    }

    /// The same device elsewhere, to try something on.
    #[must_use]
    pub fn twin(&self) -> Self {
        let mut twin = Self::new(&self.binary);
        (twin.boot, twin.boot_number) = (self.boot.clone(), self.boot_number);
        twin.settings = self.settings.clone();
        fs::remove_dir_all(&twin.root).expect("the twin's own directory can be removed");
        let copied = Command::new("cp").arg("-a").args([&self.root, &twin.root]).status();
        assert!(copied.expect("cp is there").success(), "the device could not be copied");
        twin.write_config();
        twin.write_deployments();
        twin
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn data(&self) -> PathBuf {
        self.root.join("data")
    }

    pub fn backups(&self) -> PathBuf {
        self.root.join("backups")
    }

    /// Where executables are put that must succeed for the workload to be healthy.
    pub fn checks(&self) -> PathBuf {
        self.root.join("required.d")
    }

    fn deployments(&self) -> PathBuf {
        self.root.join("deployments.json")
    }

    fn config(&self) -> PathBuf {
        self.root.join("holdfast.toml")
    }

    pub fn booted(&self) -> &Boot {
        &self.boot
    }

    pub fn boot_id(&self) -> String {
        format!("boot-{}", self.boot_number)
    }

    /// Boots a deployment; a soft reboot keeps the name of the boot.
    pub fn boot(&mut self, boot: Boot, soft: bool) {
        self.boot = boot;
        self.boot_number += u32::from(!soft);
        self.write_deployments();
    }

    fn write_deployments(&self) {
        let list = |names: &mut dyn Iterator<Item = &String>| {
            names.map(|name| format!("{name:?}")).collect::<Vec<_>>().join(",")
        };
        let boot = &self.boot;
        let mut text = format!("{{\"booted\":{:?}", boot.deployment);
        if let Some(rollback) = boot.beside.first() {
            let _ = write!(text, ",\"rollback\":{rollback:?}");
        }
        let mut all = std::iter::once(&boot.deployment).chain(&boot.beside);
        if !boot.unlisted {
            let _ = write!(text, ",\"deployments\":[{}]", list(&mut all));
        }
        let _ = write!(text, ",\"pinned\":[{}]}}", list(&mut boot.pinned.iter()));
        fs::write(self.deployments(), text).expect("the list of deployments can be written");
    }

    fn write_config(&self) {
        let checks = self.checks();
        let text = format!("[guard.health]\nrequired-dirs = [{checks:?}]\nwanted-dirs = []\n");
        fs::write(self.config(), text).expect("the configuration can be written");
    }

    /// Sets or takes back a key of the configuration, by way of the environment.
    pub fn set(&mut self, key: &str, value: Option<&str>) {
        let name = format!("HOLDFAST_GUARD_{}", key.replace('.', "__").replace('-', "_").to_uppercase());
        match value {
            Some(value) => drop(self.settings.insert(name, value.to_owned())),
            None => drop(self.settings.remove(&name)),
        }
    }

    /// The binary with these arguments, and with the facts of this boot.
    pub fn command(&self, facts: Facts, args: &[String]) -> Command {
        let mut command = Command::new(&self.binary);
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HOLDFAST"))
        {
            command.env_remove(name);
        }
        command.envs(&self.settings).stdin(Stdio::null());
        let given = [
            ("data-dir", self.data().display().to_string()),
            ("backups-dir", self.backups().display().to_string()),
            ("workload-version", self.boot.version.clone()),
            ("boot-id", self.boot_id()),
            ("deployments", self.deployments().display().to_string()),
        ];
        // Flags go before `--`: what follows it is the workload's.
        let end = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
        command.args(&args[..end]).arg("--config").arg(self.config());
        for (name, value) in given {
            match facts {
                Facts::Flags => drop(command.arg(format!("--{name}")).arg(value)),
                Facts::Environment => {
                    let name = format!("HOLDFAST_GUARD_{}", name.replace('-', "_").to_uppercase());
                    command.env(name, value);
                }
            }
        }
        command.args(&args[end..]);
        command
    }

    pub fn run(&self, facts: Facts, args: &[String]) -> Ended {
        ended(self.command(facts, args))
    }

    /// What an administrator, or bad luck, does: a line of shell that knows `$DATA`, `$BACKUPS` and `$SCRATCH`.
    pub fn shell(&self, line: &str) -> Ended {
        let mut command = Command::new("/bin/sh");
        command.args(["-euc", line]).current_dir(&self.root).stdin(Stdio::null());
        command.env("DATA", self.data()).env("BACKUPS", self.backups()).env("SCRATCH", &self.root);
        ended(command)
    }

    /// Puts the backups on a file system of their own that is soon full.
    pub fn mount_small_backups(&mut self, size: &str) {
        fs::create_dir_all(self.backups()).expect("the backups directory can be made");
        let line = format!("mount -t tmpfs -o size={size},mode=0700 tmpfs \"$BACKUPS\"");
        let mounted = self.shell(&line);
        assert_eq!(mounted.code, Some(0), "this story needs root, to mount a tmpfs: {}", mounted.stderr);
        self.mounted = true;
    }

    /// The text of a command's output, with paths of this device by their names.
    pub fn by_name(&self, text: &str) -> String {
        let named = [(self.data(), "$DATA"), (self.backups(), "$BACKUPS"), (self.root.clone(), "$SCRATCH")];
        named.iter().fold(text.to_owned(), |text, (path, name)| text.replace(&*path.to_string_lossy(), name))
    }

    /// Every copy of the data that one command could bring back, and the data itself.
    pub fn all_trees(&self) -> Vec<Contents> {
        let generations = self.backups().join(".generations");
        let below = |dir: &Path| -> Vec<PathBuf> {
            let entries = fs::read_dir(dir).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
        };
        let visible = below(&self.backups()).into_iter().filter(|path| !is_hidden(path));
        let older = below(&generations).into_iter().flat_map(|deployment| below(&deployment));
        std::iter::once(self.data()).chain(visible).chain(older).filter_map(|tree| contents(&tree)).collect()
    }

    /// Every file of the device with its size and time: equal before and after means that nothing was written.
    pub fn fingerprint(&self) -> BTreeSet<(PathBuf, u64, SystemTime)> {
        let mut found = BTreeSet::new();
        let mut open = vec![self.root.clone()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                let Ok(meta) = entry.metadata() else { continue };
                if meta.is_dir() {
                    open.push(entry.path());
                }
                found.insert((entry.path(), meta.len(), meta.modified().unwrap_or(SystemTime::UNIX_EPOCH)));
            }
        }
        found
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if self.mounted {
            self.shell("umount \"$BACKUPS\"");
        }
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn ended(mut command: Command) -> Ended {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} could not be run: {error}"));
    assert_ne!(output.status.signal(), Some(6), "{command:?} aborted");
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

/// What is in a data directory or a copy of one; `None` where there is no such directory.
pub fn contents(tree: &Path) -> Option<Contents> {
    let mut found = Contents::new();
    let mut open = vec![tree.to_owned()];
    if !tree.is_dir() {
        return None;
    }
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).ok()?.flatten() {
            let path = entry.path();
            if is_hidden(&path) || entry.file_name() == "version.json" {
                continue;
            }
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let name = path.strip_prefix(tree).unwrap_or(&path).display().to_string();
            let text = fs::read(&path).map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned());
            let text = text.unwrap_or_else(|error| format!("({error})"));
            // Ballast is there for its size.
            found.insert(name, if text.len() > 64 { format!("({}-bytes)", text.len()) } else { text });
        }
    }
    Some(found)
}

/// The names that an administrator sees in a directory; directories end in a slash.
pub fn visible_names(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let shown = entries.filter(|entry| !is_hidden(&entry.path())).map(|entry| {
        let slash = if entry.path().is_dir() { "/" } else { "" };
        format!("{}{slash}", entry.file_name().to_string_lossy())
    });
    shown.collect()
}
