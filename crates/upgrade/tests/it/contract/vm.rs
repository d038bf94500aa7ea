//! The contract on `vm`: the appliance is a virtual machine under software emulation.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use logic::upgrade::{Image, ImageId, ReleaseVersion};
use serde_json::{Value, json};
use testkit::vm::{Behaviour, Guest, ask};
use upgrade::backend::Backend;
use upgrade::backend::vm::{Settings, Vm};
use upgrade::{Configuration, Layout};

use crate::contract::backends::contract;
use crate::contract::fixture::{Fixture, Kind};
use crate::contract::scratch::{Directory, image};

contract!(VmFixture:
    an_image_is_staged_any_number_of_times_but_never_over_the_one_in_force,
    an_appliance_that_is_off_stays_off_through_everything_else,
    a_release_that_is_never_ready_is_waited_for_as_long_as_it_was_said,
    whoever_does_not_want_to_wait_any_longer_need_not,
);

// In these a machine boots to its end. The story of a machine in `make test` is the one in `holdfast`.
contract!(VmFixture, prove "prove: machines":
    what_there_is_is_described,
    an_image_is_removed_any_number_of_times_but_never_the_one_in_force,
    a_release_that_is_switched_to_runs_with_the_data_of_the_one_before,
    going_back_is_by_id_and_restores_release_data_and_configuration,
    a_snapshot_holds_what_was_written_after_it_was_prepared,
    a_snapshot_is_deleted_any_number_of_times_and_then_leads_nowhere,
    switching_on_or_off_twice_is_switching_once,
    readiness_is_of_the_release_in_force,
    a_release_that_ends_is_not_waited_for,
);

pub struct VmFixture {
    vm: Vm,
    layout: Layout,
    port: u16,
    _directory: Directory,
}

impl VmFixture {
    fn configure(&self, values: Value) {
        let version = ReleaseVersion::parse("v1-1-abc").unwrap();
        let configuration = Configuration {
            release: Image { id: image(1), version },
            data_version: 1,
            applied: vec![],
            values: values.as_object().unwrap().clone(),
        };
        configuration.save(&self.layout).unwrap();
    }

    fn processes(&self) -> Vec<PathBuf> {
        let run = fs::canonicalize(self.layout.run()).unwrap();
        let all = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        all.filter(|path| fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd == run)).collect()
    }
}

/// Nothing of a test that failed may run on.
impl Drop for VmFixture {
    fn drop(&mut self) {
        for process in self.processes() {
            let id = process.file_name().unwrap().to_owned();
            let _ = std::process::Command::new("kill").arg("-9").arg(id).status();
        }
    }
}

impl Fixture for VmFixture {
    fn new() -> Self {
        let directory = Directory::new();
        let layout = Layout::at(&directory.path().join("appliance"));
        let vm = Vm::new(layout.clone(), Settings { accelerate: false, ..Settings::default() });
        vm.files().lay_out().unwrap();
        let port = testkit::ports::free_port();
        let fixture = Self { vm, layout, port, _directory: directory };
        fixture.set_colour("green");
        let (image, brought) = fixture.bring(1, Kind::Good);
        fixture.vm.stage_image(&image, &brought).unwrap();
        fixture.vm.reconfigure(&image).unwrap();
        fixture
    }

    fn backend(&self) -> &dyn Backend {
        &self.vm
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn bring(&self, build: u64, kind: Kind) -> (ImageId, PathBuf) {
        let brought = self.layout.incoming();
        let _ = fs::remove_dir_all(&brought);
        let mut guest = Guest::new(&format!("v{build}-{build}-abc"));
        guest.answer = format!("v{build}");
        guest.behaviour = match kind {
            Kind::Good => Behaviour::Good,
            Kind::NeverReady => Behaviour::NeverReady,
            Kind::Dead => Behaviour::Panics,
        };
        guest.write(&brought);
        (image(build), brought)
    }

    fn version(&self) -> Option<String> {
        ask(self.port, "GET", "/version", "").map(|answer| answer.body)
    }

    fn put(&self, key: &str, value: &str) {
        assert_eq!(ask(self.port, "PUT", &format!("/notes/{key}"), value).unwrap().status, 200);
    }

    fn get(&self, key: &str) -> Option<String> {
        let answer = ask(self.port, "GET", &format!("/notes/{key}"), "")?;
        (answer.status == 200).then_some(answer.body)
    }

    fn set_colour(&self, colour: &str) {
        self.configure(json!({"port": self.port, "colour": colour}));
    }

    fn colour(&self) -> String {
        Configuration::load(&self.layout).unwrap().values["colour"].as_str().unwrap().to_owned()
    }

    fn instances(&self) -> usize {
        self.processes().len()
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(300)
    }
}
