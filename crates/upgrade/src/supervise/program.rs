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
use crate::release::{self, PATH, SlotPayload, Words, expand, find};
use crate::workload;

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
        let words = configuration.words(layout, &release);
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
