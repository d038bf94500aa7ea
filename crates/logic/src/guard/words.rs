//! What people read: names for data and copies, and for every refusal the way out.

use super::copies::CopyRecord;
use super::data::DataRecord;
use super::observed::Wanted;
use super::steps::{Block, Rule};
use crate::host::DeploymentId;
use crate::version::{Misfit, Version};

pub(super) fn data(record: &DataRecord) -> String {
    match record.owner.seq {
        Some(seq) => format!("the data of {} (boot {seq})", record.owner.deployment),
        None => format!("the data of {}", record.owner.deployment),
    }
}

pub(super) fn copy(copy: &CopyRecord) -> String {
    format!("copy {} of {}", copy.number, copy.owner.deployment)
}

pub(super) fn metadata_damaged(file: &str, why: &str) -> Block {
    Block {
        rule: Rule::MetadataDamaged,
        why: format!("{file} and its second copy can't be understood ({why}); the data was not touched"),
        way_out: match file {
            "version.json" => {
                "look at version.json in the data directory; `holdfast guard adopt --version V` writes \
                               it anew, `holdfast guard backups restore` brings back a backup"
                    .to_owned()
            }
            _ => format!(
                "repair {file}, or move it away to begin a new record: `holdfast guard backups list` \
                          shows what can be restored"
            ),
        },
    }
}

pub(super) fn foreign_data() -> Block {
    Block {
        rule: Rule::ForeignData,
        why: "the data directory has no version.json although guard has kept records before: this data came from \
              somewhere else and was left as it is"
            .to_owned(),
        way_out: "`holdfast guard adopt --version V` takes it over as data of version V; \
                  `holdfast guard backups restore` brings back a backup instead"
            .to_owned(),
    }
}

pub(super) fn no_backup(what: &str) -> Block {
    Block {
        rule: Rule::NoBackupToReturnTo,
        why: format!("{what} is needed and does not exist; the data was left as it is"),
        way_out: "`holdfast guard backups list` shows what there is and `holdfast guard backups restore N` brings \
                  it back; if the data in place is good, `holdfast guard mark-deploy-as-healthy ID --reason TEXT`"
            .to_owned(),
    }
}

pub(super) fn staged_over_unhealthy(over: &DeploymentId, booted: &DeploymentId) -> Block {
    Block {
        rule: Rule::StagedOverUnhealthy,
        why: format!("{booted} was staged over {over}, which was not healthy"),
        way_out: format!(
            "if the data of {over} is good, `holdfast guard mark-deploy-as-healthy {over} --reason TEXT`; \
             `holdfast guard backups restore N` brings back a copy; or move the data directory away to start clean"
        ),
    }
}

pub(super) fn requested_backup_missing(wanted: &Wanted, booted: &DeploymentId) -> Block {
    let what = match wanted {
        Wanted::Booted => format!("a backup of {booted}"),
        Wanted::Deployment(deployment) => format!("a backup of {deployment}"),
        Wanted::Number(number) => format!("copy {number}"),
    };
    Block {
        rule: Rule::RequestedBackupMissing,
        why: format!("a restore of {what} was asked for, and there is none"),
        way_out: "`holdfast guard backups list` shows what there is; \
                  `holdfast guard backups restore --cancel` takes the request back"
            .to_owned(),
    }
}

pub(super) fn migration_needed() -> Block {
    Block {
        rule: Rule::MigrationNeeded,
        why: "the data is of an older version than the booted program and was not migrated".to_owned(),
        way_out: "boot the deployment that it belongs to, or migrate it: `holdfast guard pre-run`".to_owned(),
    }
}

pub(super) fn copy_half_migrated(copy: &CopyRecord) -> Block {
    Block {
        rule: Rule::CopyHalfMigrated,
        why: format!(
            "copy {} is what a migration left that did not end well: neither old data nor new, kept to be looked at",
            copy.number
        ),
        way_out: "`holdfast guard backups list` shows the copies that are whole".to_owned(),
    }
}

pub(super) fn misfit(misfit: Misfit, data: &Version, program: &Version, max_skew: u32) -> Block {
    let (rule, why) = match misfit {
        Misfit::ProgramOlder => (
            Rule::ProgramOlderThanData,
            format!(
                "the data is of {data}, the program is {program}: an older program can't read newer data"
            ),
        ),
        Misfit::TooFarAhead => (
            Rule::TooManyMinorVersionsAhead,
            format!("the program {program} is more than {max_skew} minor version ahead of the data ({data})"),
        ),
        Misfit::OtherMajor => (
            Rule::OtherMajorVersion,
            format!("the program {program} is of another major version than the data ({data})"),
        ),
        Misfit::BlockListed => (
            Rule::VersionBlockListed,
            format!("data of {data} is on the list of versions that {program} must not take over"),
        ),
    };
    let way_out = match misfit {
        Misfit::ProgramOlder => format!(
            "boot a deployment with {data} or newer, or bring back data that fits: \
             `holdfast guard backups list`, then `holdfast guard backups restore N`"
        ),
        Misfit::TooFarAhead => {
            "go through the versions between, or set `max-skew` if the workload allows it".to_owned()
        }
        Misfit::OtherMajor | Misfit::BlockListed => format!(
            "boot the deployment that made the data and go through a version in between, or bring back other data: \
             `holdfast guard backups list`; the data stays at {data}"
        ),
    };
    Block { rule, why, way_out }
}
