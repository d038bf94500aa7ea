//! What runs of a site: its service, its managers here and elsewhere; and what they have.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;

use crate::images::cli::Served;
use crate::images::fixture::HOLDFAST;

/// Processes that a process has started.
pub fn children(parent: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>())
        .collect()
}

pub fn is_alive(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// The processes that look after a disk of the site's machine: two, while one hands over to the other.
pub fn managers_of(site: &Served, disk: &Path) -> Vec<u32> {
    let of_the_disk = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == disk.as_os_str().as_encoded_bytes())
    };
    children(site.child.id()).into_iter().filter(of_the_disk).collect()
}

/// The one that runs this program.
pub fn manager_by(site: &Served, disk: &Path, program: &Path) -> Option<u32> {
    let runs = |pid: &u32| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == *program);
    managers_of(site, disk).into_iter().find(runs)
}

/// The one that there is.
pub fn manager_of(site: &Served, disk: &Path) -> Option<u32> {
    managers_of(site, disk).first().copied()
}

fn try_signal(pid: u32, signal: Signal) -> rustix::io::Result<()> {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal)
}

pub fn signal(pid: u32, signal: Signal) {
    try_signal(pid, signal).unwrap();
}

pub fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

/// The state of an image on each of its disks, in words.
pub fn states(site: &Served, image: &str) -> Vec<String> {
    let shown = site.json(&["show", image]);
    let disks = shown["status"]["disks"].as_object().cloned().unwrap_or_default();
    disks.values().map(|disk| disk["state"].as_str().unwrap_or_default().to_owned()).collect()
}

pub fn is_downloaded(site: &Served, image: &str, copies: usize) -> bool {
    let states = states(site, image);
    states.len() == copies && states.iter().all(|state| state == "downloaded")
}

/// The file of an image on a disk.
pub fn backing(disk: &Path) -> Option<PathBuf> {
    let images = fs::read_dir(disk.join("backing-images")).ok()?;
    let mut files = images.flatten().map(|image| image.path().join("backing")).filter(|file| file.exists());
    files.next()
}

pub fn kill_the_service(site: &mut Served) {
    let managers = children(site.child.id());
    site.child.kill().unwrap();
    site.child.wait().unwrap();
    // One that is frozen notices when it is thawed; others may have ended by now.
    for pid in &managers {
        let _ = try_signal(*pid, Signal::CONT);
    }
    site.until("its managers end with it", || !managers.iter().any(|pid| is_alive(*pid)));
    site.start_again();
}

/// Has the managers of the site's machine exchanged for those of another program.
pub fn run_managers_with(site: &Served, program: &Path) {
    let config = fs::read_to_string(&site.config).unwrap();
    let key = "default-backing-image-manager-image";
    let rest: Vec<&str> = config.lines().filter(|line| !line.starts_with(key)).collect();
    let line = format!("[images]\n{key} = \"{}\"", program.display());
    fs::write(&site.config, rest.join("\n").replacen("[images]", &line, 1)).unwrap();
    signal(site.child.id(), Signal::HUP);
}

/// A manager of another node.
pub struct Far {
    child: Child,
}

impl Drop for Far {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Far {
    pub fn join(site: &Served, node: &str, disk: &Path) -> Self {
        Self::join_by(Path::new(HOLDFAST), site, node, disk)
    }

    /// By another program.
    pub fn join_by(program: &Path, site: &Served, node: &str, disk: &Path) -> Self {
        let token = site.does(&["token", "create", "--join"]);
        let url = site.address.replace("http://", "https://");
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(site.root.join(format!("{node}.log")))
            .unwrap();
        let mut command = Command::new(program);
        command.arg("--config").arg(&site.config).arg("image-manager");
        command
            .arg("--disk")
            .arg(disk)
            .arg("--init")
            .arg("--identity")
            .arg(site.root.join(format!("{node}-identity")));
        command.args(["--listen", "127.0.0.1:0", "--node", node, "--join", &url, "--end-with-stdin"]);
        command.args(["--token", token.trim()]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        Self { child }
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}
