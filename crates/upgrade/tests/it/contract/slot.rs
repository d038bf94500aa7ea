//! The contract on `slot`: the appliance is the program `notes`.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use logic::upgrade::{Image, ImageId, ReleaseVersion};
use serde_json::{Value, json};
use upgrade::backend::Backend;
use upgrade::backend::slot::Slot;
use upgrade::{Configuration, Layout};

use crate::contract::backends::contract;
use crate::contract::fixture::{Fixture, Kind};
use crate::contract::processes;
use crate::contract::scratch::{Directory, image};
use crate::contract::supervising::launcher;

contract!(SlotFixture);

pub struct SlotFixture {
    slot: Slot,
    layout: Layout,
    port: u16,
    directory: Directory,
}

impl SlotFixture {
    pub fn below(directory: Directory) -> Self {
        let layout = Layout::at(&directory.path().join("appliance"));
        let slot = Slot::new(layout.clone(), launcher());
        slot.files().lay_out().unwrap();
        let port = testkit::ports::free_port();
        let fixture = Self { slot, layout, port, directory };
        fixture.configure(json!({"port": port, "colour": "green", "password": {"$secret": "swordfish"}}));
        let (image, brought) = fixture.bring(1, Kind::Good);
        fixture.slot.stage_image(&image, &brought).unwrap();
        fixture.slot.reconfigure(&image).unwrap();
        fixture
    }

    pub fn slot(&self) -> &Slot {
        &self.slot
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn configure(&self, values: Value) {
        let version = ReleaseVersion::parse("v1-1-abc").unwrap();
        let configuration = Configuration {
            release: Image { id: image(1), version },
            data_version: 1,
            applied: vec![],
            values: values.as_object().unwrap().clone(),
        };
        configuration.save(&self.layout).unwrap();
    }

    /// A release whose manifest is as it should be but for what `change` does to it.
    pub fn bring_changed(&self, build: u64, change: impl FnOnce(&mut Value)) -> (ImageId, PathBuf) {
        let brought = self.layout.incoming();
        let _ = fs::remove_dir_all(&brought);
        fs::create_dir_all(brought.join("bin")).unwrap();
        symlink(testkit::programs::notes(), brought.join("bin/notes")).unwrap();
        let mut manifest = json!({
            "apiVersion": "holdfast/v1",
            "kind": "Release",
            "version": format!("v{build}-{build}-abc"),
            "slot": {"command": [
                "bin/notes", "--data", "{data}", "--port", "{config.port}", "--version", format!("v{build}"),
            ]},
            "readiness": {
                "probe": {"http": {"url": "http://127.0.0.1:{config.port}/ready"}}, "interval": "10ms",
            },
        });
        change(&mut manifest);
        fs::write(brought.join("release.json"), manifest.to_string()).unwrap();
        (image(build), brought)
    }

    /// Release 2, in force, with `words` at the end of its command.
    pub fn misbehaving(&self, words: &[&str]) {
        let (image, brought) = self.bring_changed(2, |manifest| {
            let command = manifest["slot"]["command"].as_array_mut().unwrap();
            for word in words {
                command.extend([json!("--misbehave"), json!(word)]);
            }
        });
        self.slot.stage_image(&image, &brought).unwrap();
        self.slot.reconfigure(&image).unwrap();
    }
}

/// Nothing of a test that failed may run on.
impl Drop for SlotFixture {
    fn drop(&mut self) {
        let _ = self.slot.power_off();
        let _ = &self.directory;
    }
}

impl Fixture for SlotFixture {
    fn new() -> Self {
        Self::below(Directory::new())
    }

    fn backend(&self) -> &dyn Backend {
        &self.slot
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn bring(&self, build: u64, kind: Kind) -> (ImageId, PathBuf) {
        self.bring_changed(build, |manifest| {
            let command = manifest["slot"]["command"].as_array_mut().unwrap();
            match kind {
                Kind::Good => {}
                Kind::NeverReady => command.extend([json!("--misbehave"), json!("never-ready")]),
                Kind::Dead => command.extend([json!("--misbehave"), json!("crash-at-start")]),
            }
        })
    }

    fn version(&self) -> Option<String> {
        ask(self.port, "GET", "/version", "")
    }

    fn put(&self, key: &str, value: &str) {
        ask(self.port, "PUT", &format!("/notes/{key}"), value).unwrap();
    }

    fn get(&self, key: &str) -> Option<String> {
        ask(self.port, "GET", &format!("/notes/{key}"), "")
    }

    fn set_colour(&self, colour: &str) {
        self.configure(json!({"port": self.port, "colour": colour}));
    }

    fn colour(&self) -> String {
        Configuration::load(&self.layout).unwrap().values["colour"].as_str().unwrap().to_owned()
    }

    fn instances(&self) -> usize {
        processes::of_program(&self.layout.data()).len()
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(60)
    }
}

/// The body of a good answer.
pub fn ask(port: u16, method: &str, path: &str, body: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let length = body.len();
    let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
}

/// All files below a directory that hold `text`.
pub fn files_with(root: &Path, text: &str) -> Vec<PathBuf> {
    let output = std::process::Command::new("grep").args(["-rlaF", "-e", text]).arg(root).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(PathBuf::from).collect()
}
