//! Whole transactions on the real `ostree`: each `Process` is one life of the program, which ends with the boot.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use logic::upgrade::{ApplianceName, Step, Way};
use upgrade::backend::Backend;
use upgrade::backend::ostree::Ostree;
use upgrade::commands::{self, Request, Upgraded};
use upgrade::{Appliance, BackendKind, Error, Held, Identity, Layout, Options, Witness};

use crate::ostree::support::{self, image, write_release};
use crate::ostree::sysroot::{FIRST, SECOND, Sysroot};

#[derive(Default)]
struct Nobody {
    stop: AtomicBool,
    abandon: AtomicBool,
    /// Raises `abandon` when this step comes, as a kill would.
    dies_at: Option<Step>,
}

impl Witness for Nobody {
    fn step(&self, _: usize, _: usize, step: Step, _: Way) {
        if self.dies_at == Some(step) {
            self.abandon.store(true, Ordering::Relaxed);
        }
    }
    fn note(&self, text: &str) {
        eprintln!("{text}");
    }
    fn stop(&self) -> &AtomicBool {
        &self.stop
    }
    fn abandon(&self) -> &AtomicBool {
        &self.abandon
    }
}

/// Release 1 runs, and is known to.
fn set_up(sysroot: &Sysroot) {
    let appliance = support::Appliance::new(&sysroot.scratch, sysroot.settings());
    appliance.configure(1, "green");
    appliance.stage(1, FIRST, "exit 0").unwrap();
    appliance.backend.reconfigure(&image(1)).unwrap();
    appliance.backend.power_on().unwrap();
    // A real one: the command returns, and the host goes down a moment later.
    sysroot.write_reboot("[ ! -e soft ] || exit 0");
    fs::write(sysroot.scratch.path().join("soft"), "").unwrap();
}

fn process(sysroot: &Sysroot) -> Held {
    let layout = Layout::at(&sysroot.scratch.path().join("appliance"));
    let name = ApplianceName::parse("host").unwrap();
    let identity = Identity::new(name, BackendKind::Ostree, "now".to_owned());
    let backend = Box::new(Ostree::new(layout.clone(), sysroot.settings()));
    Appliance { identity, layout, backend }.hold().unwrap()
}

fn upgrade_to_second(held: &mut Held, check: &str, witness: &Nobody) -> upgrade::Result<Upgraded> {
    let bring = |_: &str, to: &Path, _: &AtomicBool| {
        write_release(to, 2, SECOND, check);
        Ok(format!("sha256:{:064}", 2))
    };
    let request = Request { reference: "two", options: options(), bring: &bring, gate: None };
    commands::upgrade(held, &request, witness)
}

fn options() -> Options {
    Options { timeout: Some(std::time::Duration::from_millis(300)), ..Options::default() }
}

fn reboots<T: std::fmt::Debug>(ended: upgrade::Result<T>) {
    match ended {
        Err(error @ Error::Rebooting { .. }) => {
            assert_eq!(error.exit(), logic::exit::Exit::Interrupted);
        }
        other => panic!("{other:?}"),
    }
}

/// The host comes up again, with whatever boots next.
fn boot(sysroot: &Sysroot) {
    let soft = sysroot.scratch.path().join("soft");
    fs::remove_file(&soft).unwrap();
    sysroot.reboot();
    fs::write(soft, "").unwrap();
}

fn start(sysroot: &Sysroot) -> upgrade::Result<bool> {
    commands::start(&mut process(sysroot), &options(), &Nobody::default())
}

#[test]
fn an_upgrade_goes_through_a_boot_and_a_rollback_through_another() {
    let sysroot = Sysroot::new();
    set_up(&sysroot);
    reboots(upgrade_to_second(&mut process(&sysroot), "exit 0", &Nobody::default()));
    boot(&sysroot);
    start(&sysroot).unwrap();
    let mut held = process(&sysroot);
    assert!(held.interrupted.is_none());
    assert_eq!(held.appliance.current().unwrap().id, image(2));
    assert_eq!(sysroot.booted(), sysroot.commit_of(SECOND));
    assert_eq!(sysroot.pins(), 1, "the way back is kept: {}", sysroot.status());

    reboots(commands::roll_back(&mut held, &options(), &Nobody::default()));
    drop(held);
    boot(&sysroot);
    start(&sysroot).unwrap();
    let held = process(&sysroot);
    assert_eq!(held.appliance.current().unwrap().id, image(1));
    assert_eq!(sysroot.booted(), sysroot.commit_of(FIRST));
    assert_eq!((sysroot.deployments(), sysroot.pins()), (1, 0), "{}", sysroot.status());
}

#[test]
fn a_release_that_is_not_ready_after_its_boot_is_undone_by_another() {
    let sysroot = Sysroot::new();
    set_up(&sysroot);
    reboots(upgrade_to_second(&mut process(&sysroot), "exit 1", &Nobody::default()));
    boot(&sysroot);
    reboots(start(&sysroot));
    boot(&sysroot);
    start(&sysroot).unwrap();
    let held = process(&sysroot);
    assert!(held.interrupted.is_none());
    assert_eq!(held.appliance.current().unwrap().id, image(1));
    assert_eq!((sysroot.deployments(), sysroot.pins()), (1, 0), "{}", sysroot.status());
}

#[test]
fn a_boot_that_leads_back_undoes_the_upgrade_without_another() {
    let sysroot = Sysroot::new();
    set_up(&sysroot);
    reboots(upgrade_to_second(&mut process(&sysroot), "exit 0", &Nobody::default()));
    // The boot loader gives up on the new one, and boots what there was.
    fs::write(sysroot.scratch.path().join("boot_id"), "another").unwrap();
    let before = sysroot.reboots();
    start(&sysroot).unwrap();
    assert_eq!(process(&sysroot).appliance.current().unwrap().id, image(1));
    assert_eq!(sysroot.reboots(), before);
    assert_eq!((sysroot.deployments(), sysroot.pins()), (1, 0), "{}", sysroot.status());
}

#[test]
fn whatever_step_a_process_dies_at_the_next_one_finishes_or_undoes() {
    for step in [Step::Stage, Step::Prepare, Step::Snapshot, Step::Migrate, Step::Reconfigure, Step::PowerOn]
    {
        let sysroot = Sysroot::new();
        set_up(&sysroot);
        let witness = Nobody { dies_at: Some(step), ..Nobody::default() };
        let mut held = process(&sysroot);
        let ended = upgrade_to_second(&mut held, "exit 0", &witness);
        assert!(matches!(ended, Err(Error::Abandoned { .. } | Error::Rebooting { .. })), "{ended:?}");
        drop(held);
        let expected = match start(&sysroot) {
            Ok(_) => image(1),
            Err(Error::Rebooting { .. }) => {
                boot(&sysroot);
                start(&sysroot).unwrap();
                image(2)
            }
            Err(error) => panic!("{step}: {error}"),
        };
        let held = process(&sysroot);
        assert!(held.interrupted.is_none());
        assert_eq!(held.appliance.current().unwrap().id, expected, "{step}");
        let is_forward = expected == image(2);
        assert_eq!(is_forward, matches!(step, Step::Reconfigure | Step::PowerOn), "{step}");
        assert_eq!(sysroot.pins(), usize::from(is_forward), "{}", sysroot.status());
        assert_eq!(sysroot.deployments(), 1 + usize::from(is_forward), "{}", sysroot.status());
    }
}
