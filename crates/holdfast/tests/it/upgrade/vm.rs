//! A real virtual machine: QEMU, Debian's kernel.

use std::path::Path;

use serde_json::json;
use testkit::vm::{Behaviour, Guest};

use crate::stories;
use crate::upgrade::site::{Kind, Release};

pub struct Vm;

impl Kind for Vm {
    const BACKEND: &'static str = "vm";

    fn write(release: &Release, to: &Path) {
        let mut guest = Guest::new(&release.version());
        guest.data_version = release.data;
        if release.never_ready {
            guest.behaviour = Behaviour::NeverReady;
        }
        guest.vm = json!({});
        guest.write(to);
    }
}

// The one story of a virtual machine in `make test`: an upgrade with a migration, a rollback with its data, an upgrade.
stories! { Vm:
    roll_back,
}

stories! { Vm, prove "prove: machines":
    upgrade_without_migration,
    upgrade_with_migration,
    roll_back_with_a_new_workload,
    resume_before_the_snapshot,
    resume_after_success,
    resume_without_the_old_image,
    resume_and_roll_back_after_it,
    a_failed_upgrade_puts_everything_back,
    an_appliance_that_is_off_is_upgraded_and_stays_off,
}
