//! What `bootc` and `rpm-ostree` are asked for, from staging to a rollback, and nothing else.

use upgrade::backend::Backend;
use upgrade::backend::ostree::Tool;

use crate::ostree::recorded_host::{A, B, Host};
use crate::ostree::support::{Appliance, image, snapshot_id};

/// Release 1 runs, release 2 is next.
fn switched(host: &Host, tool: Option<Tool>) -> Appliance {
    let appliance = Appliance::new(&host.scratch, host.settings(tool));
    appliance.configure(1, "green");
    appliance.stage(1, A, "exit 0").unwrap();
    appliance.backend.reconfigure(&image(1)).unwrap();
    appliance.backend.power_on().unwrap();
    assert_eq!(appliance.current(), Some(image(1)));
    host.asked();

    appliance.stage(2, B, "exit 0").unwrap();
    assert_eq!(host.situation_now(), "runs-a", "what boots next is not changed yet");
    appliance.twice(|backend| backend.snapshot(&snapshot_id(1), &image(1)));
    appliance.configure(2, "blue");
    appliance.twice(|backend| backend.reconfigure(&image(2)));
    assert_eq!(appliance.current(), Some(image(1)), "it is not booted yet");
    appliance
}

fn there_and_back(host: &Host, appliance: &Appliance) {
    appliance.twice(Backend::power_on);
    assert_eq!(appliance.current(), Some(image(2)));
    appliance.wait_ready().unwrap();
    appliance.twice(|backend| backend.snapshot(&snapshot_id(2), &image(2)));
    appliance.twice(|backend| backend.revert(&snapshot_id(1)));
    assert_eq!(host.situation_now(), "queued-a");
    appliance.twice(Backend::power_on);
    appliance.wait_ready().unwrap();
    assert_eq!((appliance.current(), appliance.colour()), (Some(image(1)), "green".to_owned()));
    for number in [1, 2] {
        appliance.twice(|backend| backend.delete_snapshot(&snapshot_id(number)));
    }
    appliance.twice(|backend| backend.remove_image(&image(2)));
}

#[test]
fn bootc_switches_and_rolls_back() {
    let host = Host::new();
    let appliance = switched(&host, Some(Tool::Bootc));
    there_and_back(&host, &appliance);
    assert_eq!(
        host.asked(),
        [
            "ostree admin pin 0",
            &format!("bootc switch {B}"),
            "systemctl reboot",
            "ostree admin pin 0",
            "bootc rollback",
            "systemctl reboot",
            "ostree admin pin --unpin 0",
            "ostree admin pin --unpin 1",
        ]
    );
}

#[test]
fn rpm_ostree_downloads_first_then_rebases_and_rolls_back() {
    let host = Host::new();
    // Found by itself: it is the first of the three that answers.
    let appliance = switched(&host, None);
    there_and_back(&host, &appliance);
    let download = format!("rpm-ostree rebase --download-only {B}");
    assert_eq!(
        host.asked(),
        [
            &download,
            &download,
            "ostree admin pin 0",
            &format!("rpm-ostree rebase --cache-only {B}"),
            "systemctl reboot",
            "ostree admin pin 0",
            "rpm-ostree rollback",
            "systemctl reboot",
            "ostree admin pin --unpin 0",
            "ostree admin pin --unpin 1",
        ]
    );
}

#[test]
fn what_is_only_staged_is_taken_back_without_a_reboot() {
    for (tool, taken_back) in
        [(Tool::Bootc, "ostree admin undeploy 0"), (Tool::RpmOstree, "rpm-ostree cleanup --pending")]
    {
        let host = Host::new();
        let appliance = switched(&host, Some(tool));
        host.asked();
        appliance.twice(|backend| backend.revert(&snapshot_id(1)));
        appliance.twice(Backend::power_on);
        assert_eq!(host.asked(), [taken_back]);
        assert_eq!(host.situation_now(), "runs-a");
        appliance.wait_ready().unwrap();
    }
}

#[test]
fn a_host_that_went_back_by_itself_is_noticed() {
    let host = Host::new();
    let appliance = switched(&host, Some(Tool::RpmOstree));
    // greenboot has had enough of B, and has rolled back before anybody asked.
    host.enter("back-on-a");
    host.asked();
    let error = appliance.backend.power_on().unwrap_err();
    assert!(error.to_string().contains("was to boot"), "{error}");
    assert_eq!(host.asked(), [""; 0]);
    appliance.twice(|backend| backend.revert(&snapshot_id(1)));
    appliance.twice(Backend::power_on);
    appliance.wait_ready().unwrap();
    assert_eq!(host.asked(), [""; 0]);
}

#[test]
fn a_tool_that_fails_is_an_error_with_its_words_and_nothing_is_in_force_that_was_not() {
    let host = Host::new();
    let appliance = switched(&host, Some(Tool::Bootc));
    appliance.backend.revert(&snapshot_id(1)).unwrap();
    host.scratch.script("bootc", &format!(
        "cd {}; if [ $1 = status ]; then cat $(cat now)/bootc.json; else echo 'no space left' >&2; exit 1; fi",
        host.scratch.path().display()
    ));
    let error = appliance.backend.reconfigure(&image(2)).unwrap_err();
    assert!(error.to_string().contains("no space left"), "{error}");
    assert_eq!(appliance.backend.files().current().unwrap(), Some(image(1)));
    assert_eq!(appliance.current(), Some(image(1)));
}
