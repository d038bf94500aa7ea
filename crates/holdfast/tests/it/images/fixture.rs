//! A site without its controllers: managers as processes, and the test in the controllers' place.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use images::dial::Dialler;
use images::file::DiskDir;
use images::identity::{Authority, Role};
use logic::images::{DiskId, FileState, FileStatus};
use testkit::origin::Origin;
use tokio::sync::watch;
use tonic::transport::Channel;
use wire::images::image_manager_client::ImageManagerClient;
use wire::images::{self as api, ImageRef};
use wire::site::Serving;

pub const HOLDFAST: &str = env!("CARGO_BIN_EXE_holdfast");
/// Nothing that is waited for takes longer, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(120);
pub const MIB: usize = 1 << 20;

/// Bytes that are the same each time, and like nothing else.
pub fn content(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

pub fn image(number: u8) -> ImageRef {
    ImageRef {
        name: format!("image-{number}"),
        uuid: format!("00000000-0000-4000-8000-0000000000{number:02x}"),
    }
}

pub fn sha256(content: &[u8]) -> String {
    trust::digest::Digest::sha256(content).as_str().to_owned()
}

pub struct Site {
    pub root: PathBuf,
    pub authority: Authority,
    pub controller: Dialler,
    pub origin: Origin,
    config: PathBuf,
}

impl Drop for Site {
    fn drop(&mut self) {
        // What is left of a test that failed is there to be looked at.
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.root);
        }
    }
}

impl Site {
    pub fn new(content: Vec<u8>) -> Self {
        Self::with(content, "")
    }

    /// With more settings of `[images.manager]`.
    pub fn with(content: Vec<u8>, settings: &str) -> Self {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let root =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("images-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).unwrap();
        let authority = Authority::open(&root.join("site")).unwrap();
        let identity = authority.identity(&Role::Controller, &[]).unwrap();
        let controller = Dialler::new(watch::channel(Arc::new(identity)).1);
        let origin = Origin::start(content);
        let config = root.join("holdfast.toml");
        let text = format!(
            "[images.manager]\ndisk-reserve = 0\ncheck-interval = \"1s\"\npeer-timeout = \"2s\"\n{settings}\n[images.origin]\nallow-private-hosts = [\"{}\"]\nstall-timeout = \"2s\"\n",
            origin.host()
        );
        fs::write(&config, text).unwrap();
        Self { root, authority, controller, origin, config }
    }

    /// A disk with a manager that runs.
    pub fn manager(&self, name: &str) -> Manager {
        let disk = self.root.join(name);
        let id = DiskDir::init(&disk).unwrap();
        let identity = self.root.join("identities").join(name);
        self.authority.identity(&Role::Manager(id.clone()), &[]).unwrap().save(&identity).unwrap();
        self.start(name, &disk, &id)
    }

    pub fn command(&self, name: &str, disk: &Path) -> Command {
        self.command_of(HOLDFAST, name, disk)
    }

    /// By another program.
    pub fn command_of(&self, program: &str, name: &str, disk: &Path) -> Command {
        let mut command = Command::new(program);
        command.arg("--config").arg(&self.config).arg("image-manager");
        self.arguments(&mut command, name, disk);
        command
    }

    /// In a network of its own.
    pub fn command_in(&self, namespace: &str, listen: &str, name: &str, disk: &Path) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", namespace, HOLDFAST, "--config"])
            .arg(&self.config)
            .arg("image-manager");
        self.arguments_at(&mut command, listen, name, disk);
        command
    }

    fn arguments(&self, command: &mut Command, name: &str, disk: &Path) {
        self.arguments_at(command, "127.0.0.1:0", name, disk);
    }

    fn arguments_at(&self, command: &mut Command, listen: &str, name: &str, disk: &Path) {
        command
            .arg("--disk")
            .arg(disk)
            .arg("--identity")
            .arg(self.root.join("identities").join(name))
            .args(["--listen", listen, "--node", name, "--end-with-stdin"]);
    }

    /// A manager of a disk that is there, perhaps with another manager running.
    pub fn start(&self, name: &str, disk: &Path, id: &DiskId) -> Manager {
        self.run(self.command(name, disk), name, disk, id)
    }

    /// Any program that behaves like a manager.
    pub fn run(&self, mut command: Command, name: &str, disk: &Path, id: &DiskId) -> Manager {
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.root.join(format!("{name}.log")))
            .unwrap();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.find(|line| line.as_ref().is_ok_and(|line| line.starts_with('{')));
        let line = line.unwrap_or_else(|| panic!("no manager: {}", self.log(name))).unwrap();
        let serving: Serving = serde_json::from_str(&line).unwrap();
        assert_eq!(&serving.disk, id);
        // Whatever else it writes is of no interest, but must not keep it waiting.
        std::thread::spawn(move || lines.for_each(drop));
        let calls = self.controller.calls(id, &serving.address).unwrap();
        Manager { child, name: name.to_owned(), disk: disk.to_owned(), id: id.clone(), serving, calls }
    }

    pub fn log(&self, name: &str) -> String {
        fs::read_to_string(self.root.join(format!("{name}.log"))).unwrap_or_default()
    }

    /// Ends a manager as a power cut would, and starts it again.
    pub fn restart(&self, manager: &mut Manager) {
        manager.kill();
        *manager = self.start(&manager.name, &manager.disk, &manager.id);
    }

    pub fn pull(&self, number: u8) -> api::PullRequest {
        api::PullRequest { image: Some(image(number)), url: self.origin.url(), ..api::PullRequest::default() }
    }
}

pub struct Manager {
    child: Child,
    pub name: String,
    pub disk: PathBuf,
    pub id: DiskId,
    pub serving: Serving,
    pub calls: ImageManagerClient<Channel>,
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Manager {
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// How it ended, once it has.
    pub fn ended(&mut self) -> std::process::ExitStatus {
        self.child.wait().unwrap()
    }

    pub fn close_stdin(&mut self) {
        drop(self.child.stdin.take());
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    #[allow(dead_code, reason = "the benchmarks use this as well")]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn peer(&self) -> api::Peer {
        api::Peer {
            disk: self.id.to_string(),
            node: self.name.clone(),
            address: self.serving.address.clone(),
            path: self.disk.display().to_string(),
        }
    }

    pub fn dir(&self, number: u8) -> PathBuf {
        let image = image(number);
        self.disk.join("backing-images").join(format!("{}-{}", image.name, image.uuid))
    }

    pub fn inode(&self, number: u8) -> u64 {
        fs::metadata(self.dir(number).join("backing")).unwrap().ino()
    }

    pub async fn get(&mut self, number: u8) -> Option<FileStatus> {
        let request = api::GetRequest { name: image(number).name };
        let answer = self.calls.get(request).await.ok()?.into_inner();
        Some(wire::file_status(&answer).unwrap().1)
    }

    /// Waits until the image is like that.
    pub async fn until(&mut self, number: u8, what: &str, is: impl Fn(&FileStatus) -> bool) -> FileStatus {
        let begin = Instant::now();
        let mut last = None;
        while begin.elapsed() < PATIENCE {
            if let Some(status) = self.get(number).await {
                if is(&status) {
                    return status;
                }
                last = Some(status);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{} is not {what}: {last:?}", self.name);
    }

    pub async fn until_downloaded(&mut self, number: u8) -> FileStatus {
        let status = self
            .until(number, "downloaded", |status| {
                matches!(status.state, FileState::Downloaded | FileState::Failed)
            })
            .await;
        assert_eq!(status.state, FileState::Downloaded, "{}: {}", self.name, status.reason);
        status
    }

    pub async fn until_failed(&mut self, number: u8) -> FileStatus {
        let status = self
            .until(number, "failed", |status| {
                matches!(status.state, FileState::Downloaded | FileState::Failed)
            })
            .await;
        assert_eq!(status.state, FileState::Failed, "{}", self.name);
        status
    }

    /// Waits until so many bytes are verified, and it is not all of it yet.
    pub async fn until_partly(&mut self, number: u8, bytes: usize) -> FileStatus {
        let status = self.until(number, "far enough", |status| status.bytes >= bytes as u64).await;
        assert_eq!(status.state, FileState::Downloading, "{}: too late to be half-way", self.name);
        status
    }

    #[track_caller]
    pub fn assert_has(&self, number: u8, content: &[u8]) {
        let found = fs::read(self.dir(number).join("backing")).unwrap();
        assert!(found == content, "{} has something else", self.name);
    }

    pub async fn sync(&mut self, number: u8, peers: &[&Manager]) {
        self.sync_with(number, peers.iter().map(|peer| peer.peer()).collect()).await.unwrap();
    }

    pub async fn sync_with(
        &mut self,
        number: u8,
        peers: Vec<api::Peer>,
    ) -> Result<api::Image, tonic::Status> {
        let request = api::SyncRequest { image: Some(image(number)), peers, ..api::SyncRequest::default() };
        self.calls.sync(request).await.map(tonic::Response::into_inner)
    }
}

/// Waits until something is so.
pub async fn until(what: &str, mut is: impl AsyncFnMut() -> bool) {
    let begin = Instant::now();
    while !is().await {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
