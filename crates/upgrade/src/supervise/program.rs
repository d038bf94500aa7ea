//! What a supervisor runs: the program of a release, with its words replaced, and the configuration it is handed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use crate::backend::files::Files;
use crate::configuration::Configuration;
use crate::layout::Layout;
use crate::release::{self, SlotPayload, Words, expand};
use crate::workload;

/// As systemd gives it to services. Nothing else of the environment of whoever starts an appliance gets into it.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A relative path is one of the release; a bare name that the release does not have is one of the system.
fn find(release: &Path, program: &str) -> PathBuf {
    let own = release.join(program);
    if program.contains('/') || own.exists() {
        return own;
    }
    PATH.split(':').map(|dir| Path::new(dir).join(program)).find(|path| path.exists()).unwrap_or(own)
}

#[derive(Clone)]
pub struct Program {
    pub release: String,
    pub path: PathBuf,
    pub args: Vec<String>,
    pub environment: BTreeMap<String, String>,
    /// Where it keeps its data, and begins.
    pub data: PathBuf,
    pub stop_timeout: Duration,
    /// JSON, with secrets in clear: never on disk, never printed.
    pub configuration: Vec<u8>,
}

impl Program {
    /// Of an appliance or of a workload, whichever lies in `dir`.
    pub fn of(dir: &Path) -> crate::Result<Self> {
        match workload::program(dir)? {
            Some(program) => Ok(program),
            None => Self::of_appliance(&Layout::at(dir)),
        }
    }

    fn of_appliance(layout: &Layout) -> crate::Result<Self> {
        let (image, release) = Files::new(layout.clone()).current_release()?;
        let manifest = release::read(&release)?;
        let slot = manifest.slot.ok_or(release::Error::OtherBackend { backend: "slot" })?;
        let configuration = Configuration::load(layout)?;
        let mut words = Words::default();
        words.set_path("release", &release).set_path("data", &layout.data()).set_path("run", &layout.run());
        configuration.words(&mut words);
        let plain = configuration.plain().to_string().into_bytes();
        Self::new(image.as_str(), &release, layout.data(), &slot, &words, plain)
    }

    pub(crate) fn new(
        image: &str,
        release: &Path,
        data: PathBuf,
        payload: &SlotPayload,
        words: &Words,
        configuration: Vec<u8>,
    ) -> crate::Result<Self> {
        let command: Vec<String> =
            payload.command.iter().map(|word| expand(word, words)).collect::<Result<_, _>>()?;
        let environment = payload
            .environment
            .iter()
            .map(|(name, value)| Ok((name.clone(), expand(value, words)?)))
            .collect::<Result<_, release::Error>>()?;
        let (program, args) =
            command.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
        Ok(Self {
            release: image.to_owned(),
            path: find(release, program),
            args: args.to_vec(),
            environment,
            data,
            stop_timeout: payload.stop_timeout.get(),
            configuration,
        })
    }

    /// The command, but for where its output goes. `configuration` is what [`Program::handed`] made.
    pub(super) fn command(&self, configuration: &File, notify: &std::ffi::OsStr) -> Command {
        let mut command = Command::new(&self.path);
        command.args(&self.args).current_dir(&self.data).env_clear();
        command.env("PATH", PATH).envs(&self.environment);
        command.env("HOLDFAST_DATA_DIR", &self.data).env("HOLDFAST_RELEASE", &self.release);
        command.env("HOLDFAST_CONFIG", format!("/proc/self/fd/{}", configuration.as_raw_fd()));
        command.env("NOTIFY_SOCKET", notify);
        command
    }

    /// The configuration as a file in memory that nobody can change.
    pub(super) fn handed(&self) -> io::Result<File> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let mut file = File::from(memfd_create("configuration", flags)?);
        file.write_all(&self.configuration)?;
        fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
        Ok(file)
    }
}
