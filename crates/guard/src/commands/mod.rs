//! What each command does, without its printing.

mod backups;
mod boot;
mod verdicts;

pub use backups::{
    Pruned, Verified, adopt_backup, adopt_data, cancel_restore, plan_of_restore, prune, request_restore,
    restore, seal, tidy, verify,
};
pub use boot::{pre_run, run};
pub use verdicts::{Marked, check_of_pre_run, mark_healthy, persist_system_health, persist_workload_health};
