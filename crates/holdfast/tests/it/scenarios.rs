//! Every workflow of the source document, and every promise of the design page, replayed through the real binary:
//! one file of `scenarios/` is one story and one test. How a story is written: `scenarios/README.md`.

mod expect;
mod story;
mod teller;

use std::fs;
use std::path::{Path, PathBuf};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/scenarios")
}

/// One test per story: `name_of_a_story` replays `name-of-a-story.story`.
macro_rules! stories {
    ($($name:ident)*) => {
        const STORIES: &[&str] = &[$(stringify!($name)),*];

        $(#[test]
        fn $name() {
            let file = format!("{}.story", stringify!($name).replace('_', "-"));
            teller::tell(&directory().join(file));
        })*
    };
}

#[test]
fn every_story_is_a_test() {
    let entries = fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path());
    let stories = entries.filter(|path| path.extension().is_some_and(|extension| extension == "story"));
    let name = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().replace('-', "_");
    let mut names: Vec<String> = stories.map(name).collect();
    names.sort();
    assert_eq!(names, STORIES, "list every file of scenarios/ in scenarios.rs, in alphabetical order");
}

stories! {
    boot_loader_rollback_after_migration
    boot_loader_rollback_before_pre_run
    boot_loader_rollback_without_red
    clock_set_back
    clock_stands_still
    data_gone
    documents
    fdo_three_deployments
    first_deployment_first_boot_healthy
    first_deployment_first_boot_unhealthy
    first_deployment_second_boot_backup_fails
    first_deployment_second_boot_backup_succeeds
    first_deployment_second_boot_unhealthy
    foreign_directory
    green_then_red_in_one_boot
    green_without_the_workload
    health_json_of_the_document
    health_record_damaged
    health_unknown_fields_survive
    health_yaml_of_the_document
    host_does_not_answer
    host_lists_nothing
    host_reserved_name
    l1_failed_backup_then_delete
    l2_half_migrated_over_good
    l3_restart_forgets_health
    l4_newer_work_overwritten
    l5_cut_after_the_exchange
    l5_half_restored_over_good
    manual_first_unhealthy_stage_another
    manual_health_checks_again
    manual_health_forgotten
    manual_health_marked
    manual_health_marked_too_late
    manual_restore_fails_then_mended
    manual_restored_but_unhealthy_addressed
    manual_restored_but_unhealthy_marked
    manual_restored_but_unhealthy_reboot
    migration_fails_then_rollback
    migration_interrupted_same_boot
    migration_interrupted_then_succeeds
    policy_staged_over_unhealthy_block
    policy_staged_over_unhealthy_keep
    policy_staged_over_unhealthy_restore
    power_fails_inside_the_backup
    pre_run_twice
    redeployed_commit_other_serial
    restore_now
    restore_on_next_boot
    restore_on_next_boot_nothing_there
    restore_on_next_boot_then_migrate
    retention_aside_cap
    retention_aside_vouched
    retention_keep_all
    retention_keep_deployments
    rollback_on_demand_backup_gone
    rollback_on_demand_requested
    rollback_on_demand_same_version
    rollback_on_demand_with_backup_of_second
    rollback_on_demand_without_backup_of_second
    rollback_restore_fails
    run_cannot_start
    run_without_pre_run
    second_deployment_backup_of_first_fails
    second_deployment_backup_of_first_succeeds_on_retry
    second_deployment_green
    second_deployment_red_until_rollback
    serial_1_beside_10
    soft_reboot
    soft_reboot_and_back
    spellings_of_the_document
    three_deployments_with_a_pin
    tree_always_unhealthy_earlier_without_backup
    tree_always_unhealthy_over_unhealthy
    tree_always_unhealthy_over_unknown
    tree_both_unhealthy_backup_exists
    tree_both_unhealthy_no_backup
    tree_rolled_back_to_healthy_without_backup
    tree_rolled_back_to_unknown
    tree_rolled_back_to_unknown_nothing_to_return_to
    tree_unhealthy_untouched_data_last_healthy
    tree_unhealthy_untouched_data_no_backup
    tree_unknown_same_deployment
    tree_unknown_same_deployment_version_still_checked
    tree_unknown_then_another_new
    tree_unknown_then_rollback
    two_restores_in_a_row
    two_rollbacks_in_a_row
    upgrade_from_413_and_back
    upgrade_from_413_blocked
    upgrade_from_413_little_room
    upgrade_from_413_migration_fails
    upgrade_through_two_versions
    version_block_list
    version_next_y
    version_older
    version_record_damaged
    version_record_missing
    version_same_y_other_z
    version_spelled_migrating
    version_y_plus_two
}
