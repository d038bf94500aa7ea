//! Upgrade, failure, rollback and resume, with the `ostree` of this system.

use upgrade::backend::{Backend, Error};

use crate::ostree::support::{Appliance, image, snapshot_id};
use crate::ostree::sysroot::{FIRST, SECOND, Sysroot};

/// Release 1 is what runs; release 2 is staged, the state captured.
fn before_the_switch(sysroot: &Sysroot, check: &str) -> Appliance {
    let appliance = Appliance::new(&sysroot.scratch, sysroot.settings());
    appliance.configure(1, "green");
    appliance.stage(1, FIRST, "exit 0").unwrap();
    appliance.twice(|backend| backend.reconfigure(&image(1)));
    appliance.twice(Backend::power_on);
    assert_eq!((sysroot.reboots(), sysroot.deployments()), (1, 1), "what runs is left as it is");
    assert_eq!(appliance.current(), Some(image(1)));
    appliance.wait_ready().unwrap();

    appliance.stage(2, SECOND, check).unwrap();
    appliance.twice(|backend| backend.prepare_snapshot(&snapshot_id(1)));
    appliance.twice(Backend::power_off);
    appliance.twice(|backend| backend.snapshot(&snapshot_id(1), &image(1)));
    assert_eq!((sysroot.reboots(), sysroot.deployments(), sysroot.pins()), (1, 1, 1), "{}", sysroot.status());
    appliance
}

fn switch(appliance: &Appliance) {
    appliance.configure(2, "blue");
    appliance.twice(|backend| backend.reconfigure(&image(2)));
    assert_eq!(appliance.current(), Some(image(1)), "it is not booted yet");
    assert!(!appliance.backend.describe().unwrap().on);
}

#[test]
fn an_upgrade_boots_the_new_deployment_and_a_rollback_the_old_one() {
    let sysroot = Sysroot::new();
    let appliance = before_the_switch(&sysroot, "exit 0");
    switch(&appliance);
    appliance.twice(Backend::power_on);
    assert_eq!((sysroot.reboots(), sysroot.booted()), (2, sysroot.commit_of(SECOND)));
    assert!(appliance.backend.describe().unwrap().on);
    appliance.wait_ready().unwrap();
    assert_eq!(appliance.current(), Some(image(2)));
    assert_eq!(sysroot.deployments(), 2);

    // Back, from a snapshot of the present.
    appliance.twice(|backend| backend.snapshot(&snapshot_id(2), &image(2)));
    assert_eq!(sysroot.pins(), 2);
    appliance.twice(|backend| backend.revert(&snapshot_id(1)));
    assert_eq!(appliance.colour(), "green");
    appliance.twice(Backend::power_on);
    assert_eq!((sysroot.reboots(), sysroot.booted()), (3, sysroot.commit_of(FIRST)));
    assert_eq!(appliance.current(), Some(image(1)));
    appliance.wait_ready().unwrap();

    // The rollback is not to be: the present of before is still there.
    appliance.twice(|backend| backend.revert(&snapshot_id(2)));
    appliance.twice(Backend::power_on);
    assert_eq!((appliance.current(), appliance.colour()), (Some(image(2)), "blue".to_owned()));
    assert_eq!(sysroot.booted(), sysroot.commit_of(SECOND));

    // And once more back, for good: nothing of the new release stays.
    appliance.backend.revert(&snapshot_id(1)).unwrap();
    appliance.backend.power_on().unwrap();
    for number in [1, 2] {
        appliance.twice(|backend| backend.delete_snapshot(&snapshot_id(number)));
    }
    appliance.twice(|backend| backend.remove_image(&image(2)));
    assert_eq!((sysroot.deployments(), sysroot.pins()), (1, 0), "{}", sysroot.status());
    assert!(sysroot.status().contains("origin refspec: hf/1"), "{}", sysroot.status());
    assert_eq!(appliance.backend.describe().unwrap().images, [image(1)]);
    assert!(matches!(appliance.backend.remove_image(&image(1)), Err(Error::InForce { .. })));
}

#[test]
fn a_release_that_is_not_ready_is_undone_as_if_it_had_never_been() {
    let sysroot = Sysroot::new();
    let appliance = before_the_switch(&sysroot, "echo no such luck; exit 1");
    switch(&appliance);
    appliance.backend.power_on().unwrap();
    match appliance.wait_ready() {
        Err(Error::NotReady { last, .. }) => assert!(last.contains("no such luck"), "{last}"),
        other => panic!("{other:?}"),
    }
    appliance.twice(|backend| backend.revert(&snapshot_id(1)));
    assert_eq!(appliance.current(), Some(image(2)), "that is what still runs");
    assert!(
        matches!(appliance.wait_ready(), Err(Error::Ostree(_))),
        "the old one is not ready before it runs"
    );
    appliance.twice(Backend::power_on);
    appliance.wait_ready().unwrap();
    appliance.twice(|backend| backend.remove_image(&image(2)));
    appliance.twice(|backend| backend.delete_snapshot(&snapshot_id(1)));
    assert_eq!((appliance.current(), appliance.colour()), (Some(image(1)), "green".to_owned()));
    assert_eq!((sysroot.deployments(), sysroot.pins()), (1, 0), "{}", sysroot.status());
    assert_eq!(sysroot.booted(), sysroot.commit_of(FIRST));
}

#[test]
fn what_is_undone_before_the_reboot_needs_none() {
    let sysroot = Sysroot::new();
    let appliance = before_the_switch(&sysroot, "exit 0");
    switch(&appliance);
    appliance.twice(|backend| backend.revert(&snapshot_id(1)));
    appliance.twice(Backend::power_on);
    appliance.wait_ready().unwrap();
    assert_eq!((sysroot.reboots(), sysroot.deployments()), (1, 1), "{}", sysroot.status());
}

#[test]
fn whoever_comes_after_the_reboot_goes_on() {
    let sysroot = Sysroot::new();
    let appliance = before_the_switch(&sysroot, "exit 0");
    switch(&appliance);
    // A real one: the command returns, and the host goes down a moment later.
    sysroot.write_reboot("exit 0");
    for _ in 0..2 {
        assert!(matches!(appliance.backend.power_on(), Err(Error::Rebooting)));
    }
    drop(appliance);
    sysroot.write_reboot("");
    sysroot.reboot();

    let appliance = Appliance::new(&sysroot.scratch, sysroot.settings());
    let before = sysroot.reboots();
    appliance.twice(Backend::power_on);
    appliance.wait_ready().unwrap();
    assert_eq!((appliance.current(), sysroot.reboots()), (Some(image(2)), before));
}

#[test]
fn a_boot_that_ends_up_elsewhere_is_not_tried_again_for_ever() {
    let sysroot = Sysroot::new();
    let appliance = before_the_switch(&sysroot, "exit 0");
    switch(&appliance);
    // The boot loader gives up on the new one, and boots what there was.
    sysroot.write_reboot("echo another >boot_id; exit 0");
    assert!(matches!(appliance.backend.power_on(), Err(Error::Rebooting)));
    let before = sysroot.reboots();
    for _ in 0..2 {
        let error = appliance.backend.power_on().unwrap_err();
        assert!(error.to_string().contains("was to boot"), "{error}");
    }
    assert_eq!(sysroot.reboots(), before);
    sysroot.write_reboot("");
    appliance.twice(|backend| backend.revert(&snapshot_id(1)));
    appliance.twice(Backend::power_on);
    appliance.wait_ready().unwrap();
    assert_eq!((appliance.current(), sysroot.reboots()), (Some(image(1)), before));
}

#[test]
fn a_reference_that_is_not_there_or_none_at_all_is_refused_before_anything_changes() {
    let sysroot = Sysroot::new();
    let appliance = before_the_switch(&sysroot, "exit 0");
    for bad in ["hf/nothing", "--help", "", "a b", "remote:hf/1"] {
        assert!(appliance.stage(3, bad, "exit 0").is_err(), "{bad:?}");
    }
    assert_eq!(appliance.backend.describe().unwrap().images, [image(1), image(2)]);
    assert_eq!((sysroot.deployments(), sysroot.reboots()), (1, 1));
}

#[test]
fn a_snapshot_is_of_what_runs_or_it_is_refused() {
    let sysroot = Sysroot::new();
    let appliance = before_the_switch(&sysroot, "exit 0");
    switch(&appliance);
    let error = appliance.backend.snapshot(&snapshot_id(3), &image(2)).unwrap_err();
    assert!(error.to_string().contains("which is in force"), "{error}");
    assert!(matches!(appliance.backend.revert(&snapshot_id(3)), Err(Error::NoSnapshot { .. })));
}
