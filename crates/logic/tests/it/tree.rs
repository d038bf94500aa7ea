//! The decision tree, row by row: every branch of the document, and every reading that settles what it leaves open.
//!
//! A row says what is known about a device and what must be decided: the branch, the steps (the entry of the boot in
//! the record apart, which is always the first) and whether the workload may start.

use logic::guard::*;
use logic::host::{DeploymentId, Host};
use logic::version::Version;

const NOW: &str = "this-boot";

fn id(name: &str) -> DeploymentId {
    DeploymentId::new(name).expect("a name for a deployment")
}

fn version(text: &str) -> Version {
    Version::parse(text).expect("a version")
}

/// A boot in which the workload ran.
fn ran(seq: Seq, deployment: &str, system: Health) -> Boot {
    let vouched = system == Health::Healthy;
    Boot { ran: true, vouched, ..idle(seq, deployment, system) }
}

/// A boot in which it never started.
fn idle(seq: Seq, deployment: &str, system: Health) -> Boot {
    Boot {
        seq,
        boot: BootId::new(&format!("boot-{seq}")),
        deployment: id(deployment),
        pre_run: PreRun::None,
        ran: false,
        workload: system,
        system,
        vouched: false,
        at: String::new(),
    }
}

fn owner(deployment: &str, seq: Seq) -> Owner {
    Owner { deployment: id(deployment), seq: (seq > 0).then_some(seq) }
}

/// A healthy backup under its deployment's own name, made in the boot after its owner's.
fn backup(number: Seq, of: &str, seq: Seq, text: &str) -> CopyRecord {
    CopyRecord {
        number,
        kind: CopyKind::Backup,
        place: Place::Current(id(of)),
        owner: owner(of, seq),
        version: Some(version(text)),
        made_in: seq + 1,
        healthy: true,
        tainted: false,
        same_as: None,
        bytes: 0,
    }
}

fn data(of: &str, seq: Seq, text: &str) -> Data {
    let record = DataRecord { version: version(text), owner: owner(of, seq), state: DataState::Ok };
    Data::Present(Recorded::Known(record))
}

/// Data in the middle of a migration from 4.14.0 to 4.15.0.
fn migrating(of: &str, seq: Seq, base: Option<Seq>) -> Data {
    let (from, to) = (version("4.14.0"), version("4.15.0"));
    let state = DataState::Tainted { failed: false, from: from.clone(), to, base };
    Data::Present(Recorded::Known(DataRecord { version: from, owner: owner(of, seq), state }))
}

/// A device that knows nothing, with this deployment booted. The host lists d1, d2 and d3.
fn device(booted: &str, program: &str) -> Observed {
    Observed {
        host: Host {
            booted: id(booted),
            rollback: None,
            staged: None,
            pinned: vec![],
            deployments: ["d1", "d2", "d3", booted].map(id).to_vec(),
        },
        boot: BootId::new(NOW),
        program: version(program),
        policy: Policy {
            max_skew: 1,
            blocked: vec![],
            assumed: version("4.13"),
            staged_over_unhealthy: StagedOverUnhealthy::StartClean,
            keep: Keep::Deployments,
            min_healthy: 2,
            aside_max: 3,
            aside_max_bytes: u64::MAX,
        },
        metadata: Metadata::Readable,
        data: Data::Absent,
        boots: Boots::default(),
        copies: Copies::default(),
        request: None,
        unfinished: None,
        leftovers: vec![],
        last_number: 0,
        foreign: vec![],
    }
}

trait With {
    fn boots<const N: usize>(self, boots: [Boot; N]) -> Observed;
    fn copies<const N: usize>(self, copies: [CopyRecord; N]) -> Observed;
    fn data(self, data: Data) -> Observed;
    fn but(self, change: impl FnOnce(&mut Observed)) -> Observed;
}

impl With for Observed {
    fn boots<const N: usize>(self, boots: [Boot; N]) -> Observed {
        Observed { boots: Boots::from_records(boots.into()), ..self }
    }

    fn copies<const N: usize>(self, copies: [CopyRecord; N]) -> Observed {
        Observed { copies: Copies::new(copies.into()), ..self }
    }

    fn data(self, data: Data) -> Observed {
        Observed { data, ..self }
    }

    fn but(mut self, change: impl FnOnce(&mut Observed)) -> Observed {
        change(&mut self);
        self
    }
}

/// A step in a few words.
fn spell(step: &Step) -> Option<String> {
    let words = match step {
        Step::RecordBoot { .. } => return None,
        Step::Recover { finish: true, .. } => "finish".to_owned(),
        Step::Recover { finish: false, .. } => "undo".to_owned(),
        Step::Sweep { places } => format!("sweep {}", places.len()),
        Step::Assume { version, .. } => format!("assume {version}"),
        Step::Operate(Operation::Backup { copy, make_room, .. }) => {
            let healthy = if copy.healthy { "" } else { "unhealthy " };
            let apart = make_room.iter().any(|moved| matches!(moved.to, Place::LastHealthy(_)));
            let apart = if apart { ", last healthy apart" } else { "" };
            format!("back up {healthy}{}{apart}", copy.owner.deployment)
        }
        Step::Operate(Operation::MoveAside { copy }) => format!("move aside {}", copy.owner.deployment),
        Step::Operate(Operation::Restore { source, .. }) => format!("restore {source}"),
        Step::Operate(Operation::Discard { number, .. }) => format!("discard {number}"),
        Step::Migrate { from, to, .. } => format!("migrate {from} to {to}"),
        Step::PinRequest { number } => format!("pin {number}"),
        Step::ClearRequest => "clear the request".to_owned(),
    };
    Some(words)
}

/// No rule: the workload may start.
fn decides(row: &str, seen: &Observed, branch: Branch, steps: &[&str], block: Option<Rule>) {
    let plan = plan(seen);
    let spelled: Vec<String> = plan.steps.iter().filter_map(|planned| spell(&planned.step)).collect();
    let rule = match &plan.outcome {
        Outcome::Allow => None,
        Outcome::Block(Block { rule, why, way_out }) => {
            assert!(!why.is_empty() && way_out.contains(' '), "{row}: a block says why, and what to do");
            Some(*rule)
        }
    };
    assert_eq!(
        (plan.branch, spelled, rule),
        (branch, steps.iter().map(|s| s.to_string()).collect(), block),
        "{row}"
    );
    assert!(!plan.reason.is_empty(), "{row}: every decision has a reason");
    assert_eq!(plan, logic::guard::plan(seen), "{row}: a plan is a function of what was seen");
}

use Health::{Healthy, Unhealthy, Unknown};

#[test]
fn a_first_boot_starts_with_nothing() {
    decides("nothing there", &device("d1", "4.14.0"), Branch::FirstBoot, &[], None);
    let gone = device("d1", "4.14.0").boots([ran(1, "d1", Healthy)]).copies([backup(2, "d1", 1, "4.14.0")]);
    decides("data gone, backups there", &gone, Branch::DataGone, &[], None);
}

#[test]
fn while_the_data_is_gone_nothing_is_pruned() {
    let generation =
        |copy: CopyRecord| CopyRecord { place: Place::Generation(id("d1"), copy.number), ..copy };
    let gone = || {
        device("d1", "4.14.0").boots([1, 2, 3, 4].map(|seq| ran(seq, "d1", Healthy))).copies([
            generation(backup(5, "d1", 1, "4.14.0")),
            generation(backup(6, "d1", 2, "4.14.0")),
            backup(7, "d1", 3, "4.14.0"),
        ])
    };
    assert!(
        !retention::prune(&gone().data(data("d1", 4, "4.14.0"))).is_empty(),
        "with data, the oldest goes"
    );
    assert!(retention::prune(&gone()).is_empty());
}

#[test]
fn data_without_a_record_is_assumed_or_foreign() {
    let bare = || Data::Present(Recorded::Missing);
    let steps = ["assume 4.13", "back up 4.13", "migrate 4.13 to 4.14.0"];
    decides("no records at all", &device("d1", "4.14.0").data(bare()), Branch::NoRecordAssumed, &steps, None);
    decides(
        "no records, program too far ahead",
        &device("d2", "4.15.0").data(bare()),
        Branch::NoRecordAssumed,
        &steps[..2],
        Some(Rule::TooManyMinorVersionsAhead),
    );
    let known = device("d1", "4.14.0").data(bare()).boots([ran(1, "d1", Healthy)]);
    decides("boots on record", &known, Branch::ForeignData, &[], Some(Rule::ForeignData));
}

#[test]
fn what_cannot_be_read_is_left_alone() {
    let damaged = Data::Present(Recorded::Damaged("empty".to_owned()));
    let seen = device("d1", "4.14.0").data(damaged).boots([ran(1, "d1", Unhealthy)]);
    decides("version.json", &seen, Branch::DamagedRecord, &[], Some(Rule::MetadataDamaged));
    let seen = device("d1", "4.14.0").data(data("d1", 1, "4.14.0")).but(|seen| {
        seen.metadata = Metadata::Damaged { file: "health.json".to_owned(), why: "empty".to_owned() };
    });
    decides("health.json", &seen, Branch::DamagedRecord, &[], Some(Rule::MetadataDamaged));
}

#[test]
fn after_a_healthy_boot_the_data_is_backed_up() {
    let after_d1 = |booted, program| {
        device(booted, program).boots([ran(1, "d1", Healthy)]).data(data("d1", 1, "4.14.0"))
    };
    let healthy = Branch::OwnerHealthy;
    decides("same deployment", &after_d1("d1", "4.14.0"), healthy, &["back up d1"], None);
    let upgrade = ["back up d1", "migrate 4.14.0 to 4.15.0"];
    decides("next minor", &after_d1("d2", "4.15.0"), healthy, &upgrade, None);
    decides("other patch", &after_d1("d2", "4.14.7"), healthy, &["back up d1"], None);
    decides("older patch", &after_d1("d2", "4.14.0-rc.1"), healthy, &["back up d1"], None);
    let refused = [
        ("too far ahead", after_d1("d3", "4.16.0"), Rule::TooManyMinorVersionsAhead),
        ("older program", after_d1("d2", "4.13.9"), Rule::ProgramOlderThanData),
        ("other major", after_d1("d2", "5.0.0"), Rule::OtherMajorVersion),
        (
            "on the block list",
            after_d1("d2", "4.15.0").but(|seen| seen.policy.blocked = vec![version("4.14")]),
            Rule::VersionBlockListed,
        ),
    ];
    for (row, seen, rule) in refused {
        decides(row, &seen, healthy, &["back up d1"], Some(rule));
    }
    let kept = after_d1("d1", "4.14.0").copies([backup(2, "d1", 1, "4.14.0")]);
    decides("kept already", &kept, healthy, &[], None);
}

#[test]
fn a_rollback_on_demand_returns_to_older_data() {
    let back = |d1: Health| {
        device("d1", "4.14.0")
            .boots([ran(1, "d1", d1), ran(2, "d2", Healthy)])
            .copies([backup(3, "d1", 1, "4.14.0")])
            .data(data("d2", 2, "4.15.0"))
    };
    decides("d1 was healthy", &back(Healthy), Branch::RollbackOnDemand, &["back up d2", "restore 3"], None);
    decides(
        "d1 was not",
        &back(Unhealthy),
        Branch::OwnerHealthy,
        &["back up d2"],
        Some(Rule::ProgramOlderThanData),
    );
    let same = device("d1", "4.15.0")
        .boots([ran(1, "d1", Healthy), ran(2, "d2", Healthy)])
        .copies([backup(3, "d1", 1, "4.15.0")])
        .data(data("d2", 2, "4.15.0"));
    decides("no older version", &same, Branch::OwnerHealthy, &["back up d2"], None);
    let gone = back(Healthy).but(|seen| seen.copies = Copies::default());
    decides("no backup", &gone, Branch::OwnerHealthy, &["back up d2"], Some(Rule::ProgramOlderThanData));
}

#[test]
fn without_a_verdict_the_same_deployment_goes_on_and_another_starts_clean() {
    let unjudged = |booted, program| {
        device(booted, program).boots([ran(1, "d1", Unknown)]).data(data("d1", 1, "4.14.0"))
    };
    decides("same", &unjudged("d1", "4.14.0"), Branch::OwnerUnknownSame, &[], None);
    let newer = ["back up unhealthy d1", "migrate 4.14.0 to 4.15.0"];
    decides("same, newer program", &unjudged("d1", "4.15.0"), Branch::OwnerUnknownSame, &newer, None);
    decides("another", &unjudged("d2", "4.15.0"), Branch::StagedOverUnhealthy, &["move aside d1"], None);
}

#[test]
fn a_deployment_staged_over_an_unhealthy_one_does_as_configured() {
    let staged = |policy| {
        device("d2", "4.15.0")
            .boots([ran(1, "d1", Healthy), ran(2, "d1", Unhealthy)])
            .copies([backup(3, "d1", 1, "4.14.0")])
            .data(data("d1", 2, "4.14.0"))
            .but(|seen| seen.policy.staged_over_unhealthy = policy)
    };
    let rows: [(_, &[&str], _); 4] = [
        (StagedOverUnhealthy::StartClean, &["move aside d1"], None),
        (StagedOverUnhealthy::Keep, &["back up unhealthy d1", "migrate 4.14.0 to 4.15.0"], None),
        (StagedOverUnhealthy::RestoreLastHealthy, &["restore 3", "migrate 4.14.0 to 4.15.0"], None),
        (StagedOverUnhealthy::Block, &[], Some(Rule::StagedOverUnhealthy)),
    ];
    for (policy, steps, block) in rows {
        decides(&format!("{policy:?}"), &staged(policy), Branch::StagedOverUnhealthy, steps, block);
    }
}

#[test]
fn a_rollback_returns_to_the_data_of_the_deployment() {
    let back = |d1: Health| {
        device("d1", "4.14.0")
            .boots([ran(1, "d1", d1), ran(2, "d2", Unhealthy)])
            .data(data("d2", 2, "4.15.0"))
    };
    let with_backup = |d1| back(d1).copies([backup(3, "d1", 1, "4.14.0")]);
    decides("d1 was healthy", &with_backup(Healthy), Branch::RolledBackToHealthy, &["restore 3"], None);
    decides(
        "healthy, no backup",
        &back(Healthy),
        Branch::RolledBackToHealthy,
        &[],
        Some(Rule::NoBackupToReturnTo),
    );
    decides("unhealthy too", &with_backup(Unhealthy), Branch::RolledBackToUnhealthy, &["restore 3"], None);
    decides("never healthy", &back(Unhealthy), Branch::RolledBackToUnhealthy, &["move aside d2"], None);
    decides("no verdict", &with_backup(Unknown), Branch::RolledBackToUnknown, &["restore 3"], None);
    decides(
        "no verdict, nothing kept",
        &back(Unknown),
        Branch::RolledBackToUnknown,
        &[],
        Some(Rule::NoBackupToReturnTo),
    );
    let another = back(Unknown)
        .but(|seen| {
            seen.boots = Boots::from_records(vec![
                ran(1, "d1", Unknown),
                ran(2, "d2", Unhealthy),
                ran(4, "d3", Healthy),
            ])
        })
        .copies([backup(5, "d3", 4, "4.13.2")]);
    let steps = ["restore 5", "migrate 4.13.2 to 4.14.0"];
    decides("no verdict, another's backup fits", &another, Branch::RolledBackToUnknown, &steps, None);
}

#[test]
fn data_is_judged_by_its_owner_and_not_by_the_last_boot() {
    // d2 was tried and could not even back up; the data is still what d1 left.
    let untouched = |booted, program| {
        device(booted, program)
            .boots([ran(1, "d1", Healthy), idle(2, "d2", Unhealthy)])
            .data(data("d1", 1, "4.14.0"))
    };
    decides("back in d1", &untouched("d1", "4.14.0"), Branch::OwnerHealthy, &["back up d1"], None);
    let retry = ["back up d1", "migrate 4.14.0 to 4.15.0"];
    decides("d2 tries again", &untouched("d2", "4.15.0"), Branch::OwnerHealthy, &retry, None);
    // L1: the backup failed once and the boot went red.
    let red = device("d1", "4.14.0")
        .boots([ran(1, "d1", Healthy), idle(2, "d1", Unhealthy)])
        .data(data("d1", 1, "4.14.0"));
    decides("a backup failed", &red, Branch::OwnerHealthy, &["back up d1"], None);
    // The document's flow 4.13 → 4.14 → 4.13 → 4.14: put back by hand.
    let by_hand = device("d2", "4.14.0").boots([ran(1, "d1", Unhealthy)]).data(data("4.13", 0, "4.13"));
    let steps = ["back up 4.13", "migrate 4.13 to 4.14.0"];
    decides("restored by hand", &by_hand, Branch::OwnerUnjudged, &steps, None);
}

#[test]
fn what_was_healthy_once_is_kept_whatever_was_said_later() {
    let fallen = |booted, program| {
        device(booted, program)
            .boots([Boot { vouched: true, ..ran(1, "d1", Unhealthy) }])
            .data(data("d1", 1, "4.14.0"))
    };
    decides("same deployment", &fallen("d1", "4.14.0"), Branch::UnhealthyAgain, &["back up d1"], None);
    let aside = ["back up d1", "move aside d1"];
    decides("another", &fallen("d2", "4.15.0"), Branch::StagedOverUnhealthy, &aside, None);
    // A boot that was found healthy without the workload says nothing about data that it migrated.
    let never_ran = device("d2", "4.15.0").boots([idle(1, "d2", Healthy)]).data(data("d2", 1, "4.15.0"));
    decides("never ran", &never_ran, Branch::OwnerHealthy, &["back up unhealthy d2"], None);
}

#[test]
fn an_unhealthy_deployment_whose_data_another_left_alone_keeps_its_last_healthy_backup_apart() {
    let seen = device("d1", "4.14.0")
        .boots([ran(1, "d1", Healthy), ran(2, "d1", Unhealthy), idle(4, "d2", Unhealthy)])
        .copies([backup(3, "d1", 1, "4.14.0")])
        .data(data("d1", 2, "4.14.0"));
    let steps = ["back up unhealthy d1, last healthy apart"];
    decides("with a healthy backup", &seen, Branch::UnhealthyUntouched, &steps, None);
    let seen = seen.but(|seen| seen.copies = Copies::default());
    decides("without", &seen, Branch::UnhealthyUntouched, &["back up unhealthy d1"], None);
}

#[test]
fn an_unhealthy_deployment_tries_again_or_starts_clean() {
    let again = device("d1", "4.14.0")
        .boots([ran(1, "d1", Healthy), ran(2, "d1", Unhealthy)])
        .copies([backup(3, "d1", 1, "4.14.0")])
        .data(data("d1", 2, "4.14.0"));
    decides("healthy before", &again, Branch::UnhealthyAgain, &[], None);
    let first = device("d1", "4.14.0").boots([ran(1, "d1", Unhealthy)]).data(data("d1", 1, "4.14.0"));
    decides("nothing before it", &first, Branch::AlwaysUnhealthyFirst, &["move aside d1"], None);
    let over = |d1: Health| {
        device("d2", "4.15.0")
            .boots([ran(1, "d1", d1), ran(2, "d2", Unhealthy)])
            .copies([backup(3, "d1", 1, "4.14.0")])
            .data(data("d2", 2, "4.15.0"))
    };
    let retry = ["restore 3", "migrate 4.14.0 to 4.15.0"];
    decides("over a healthy one", &over(Healthy), Branch::AlwaysUnhealthyRetry, &retry, None);
    let lost = over(Healthy).but(|seen| seen.copies = Copies::default());
    decides("and no backup", &lost, Branch::AlwaysUnhealthyRetry, &[], Some(Rule::NoBackupToReturnTo));
    decides(
        "over an unhealthy one",
        &over(Unhealthy),
        Branch::AlwaysUnhealthyOverUnhealthy,
        &[],
        Some(Rule::StagedOverUnhealthy),
    );
    decides("over an unjudged one", &over(Unknown), Branch::AlwaysUnhealthyOverUnknown, &[], None);
    let leftover = over(Healthy).but(|seen| seen.host.deployments = ["d2", "d3"].map(id).to_vec());
    decides("over one that is gone", &leftover, Branch::AlwaysUnhealthyLeftover, &["move aside d2"], None);
    let silent = over(Healthy).but(|seen| seen.host.deployments.clear());
    decides("the host lists nothing", &silent, Branch::AlwaysUnhealthyRetry, &retry, None);
}

#[test]
fn an_interrupted_migration_returns_to_its_base() {
    let broken = |base| {
        device("d2", "4.15.0")
            .boots([ran(1, "d1", Healthy), idle(2, "d2", Unknown)])
            .copies([backup(3, "d1", 1, "4.14.0")])
            .data(migrating("d2", 2, base))
    };
    let steps = ["restore 3", "migrate 4.14.0 to 4.15.0"];
    decides("its base is known", &broken(Some(3)), Branch::OwnerHealthy, &steps, None);
    decides("the old spelling names none", &broken(None), Branch::OwnerHealthy, &steps, None);
    let lost = broken(Some(9));
    decides("its base is gone", &lost, Branch::MigrationBroken, &[], Some(Rule::NoBackupToReturnTo));
}

#[test]
fn a_restore_that_was_asked_for_is_done_first() {
    let asked = |wanted| {
        device("d1", "4.14.0")
            .boots([ran(1, "d1", Healthy), ran(2, "d1", Healthy)])
            .copies([backup(3, "d1", 1, "4.14.0")])
            .data(data("d1", 2, "4.14.0"))
            .but(|seen| seen.request = Some(RestoreRequest { wanted, at: String::new() }))
    };
    let steps = ["pin 3", "back up d1", "restore 3", "clear the request"];
    decides("of the booted one", &asked(Wanted::Booted), Branch::Requested, &steps, None);
    decides("by name", &asked(Wanted::Deployment(id("d1"))), Branch::Requested, &steps, None);
    decides("by number", &asked(Wanted::Number(3)), Branch::Requested, &steps[1..], None);
    let missing = Some(Rule::RequestedBackupMissing);
    decides("not there", &asked(Wanted::Number(9)), Branch::Requested, &[], missing);
    let tainted = asked(Wanted::Number(3)).copies([CopyRecord {
        tainted: true,
        healthy: false,
        ..backup(3, "d1", 1, "4.14.0")
    }]);
    decides("not whole", &tainted, Branch::Requested, &[], Some(Rule::CopyHalfMigrated));
}

#[test]
fn a_restore_never_uses_up_its_own_source() {
    // Copy 3 is the only generation that may go, and the one that is wanted.
    let generation =
        CopyRecord { place: Place::Generation(id("d1"), 3), healthy: false, ..backup(3, "d1", 1, "4.14.0") };
    let seen = device("d1", "4.14.0")
        .boots([ran(1, "d1", Unhealthy), ran(2, "d1", Healthy)])
        .copies([generation])
        .data(data("d1", 2, "4.14.0"));
    let plan = plan_restore(&seen, &Wanted::Number(3)).unwrap();
    for planned in &plan.steps {
        if let Step::Operate(Operation::Backup { recycle, .. }) = &planned.step {
            assert_eq!(*recycle, None, "{plan:?}");
        }
    }
}

#[test]
fn interrupted_work_is_finished_or_undone_before_anything_else() {
    let copy = backup(2, "d1", 1, "4.14.0");
    let cut = |decided| {
        let operation = Operation::Backup { copy: copy.clone(), make_room: vec![], recycle: None };
        device("d1", "4.14.0")
            .boots([ran(1, "d1", Healthy)])
            .data(data("d1", 1, "4.14.0"))
            .but(|seen| seen.unfinished = Some(Unfinished { operation, decided }))
    };
    decides("before it was decided", &cut(false), Branch::OwnerHealthy, &["undo", "back up d1"], None);
    let decided = cut(true).copies([copy.clone()]);
    decides("after", &decided, Branch::OwnerHealthy, &["finish"], None);
    let rubbish = cut(false).but(|seen| {
        seen.unfinished = None;
        seen.leftovers = vec![Place::Staging(7), Place::Incoming(8)];
    });
    decides("rubbish", &rubbish, Branch::OwnerHealthy, &["sweep 2", "back up d1"], None);
}

#[test]
fn deployments_are_told_apart_by_their_whole_name() {
    let seen = device("rhel-d.1", "4.14.0")
        .boots([ran(1, "rhel-d.10", Healthy), ran(2, "rhel-d.1", Healthy), ran(4, "rhel-d2.0", Unhealthy)])
        .copies([backup(3, "rhel-d.10", 1, "4.14.0")])
        .data(data("rhel-d2.0", 4, "4.14.0"));
    let missing = Some(Rule::NoBackupToReturnTo);
    decides("….1 beside ….10", &seen, Branch::RolledBackToHealthy, &[], missing);
}

#[test]
fn boots_are_ordered_by_their_number_and_not_by_the_clock() {
    let at = |boot: Boot, at: &str| Boot { at: at.to_owned(), ..boot };
    let seen = device("d1", "4.14.0")
        .boots([
            at(ran(2, "d2", Unhealthy), "1999-01-01 00:00:00"),
            at(ran(1, "d1", Healthy), "2033-01-01 00:00:00"),
        ])
        .copies([backup(3, "d1", 1, "4.14.0")])
        .data(data("d2", 2, "4.15.0"));
    decides("the clock was set back", &seen, Branch::RolledBackToHealthy, &["restore 3"], None);
}

#[test]
fn a_prepared_boot_is_left_alone_unless_its_data_was_vouched_for_since() {
    let prepared = |boot: Boot| Boot { boot: BootId::new(NOW), pre_run: PreRun::Ready, ..boot };
    let seen = device("d1", "4.14.0")
        .boots([ran(1, "d1", Unknown), prepared(idle(2, "d1", Unknown))])
        .data(data("d1", 1, "4.14.0"));
    decides("prepared", &seen, Branch::AlreadyPrepared, &[], None);
    assert!(plan(&seen).steps.is_empty(), "not even the boot is recorded again");
    assert_eq!(may_start(&seen), Ok(2));
    let marked = seen.but(|seen| seen.boots.judge_system(1, Healthy));
    assert_eq!(may_start(&marked), Err(NotReady::VouchedSince));
    decides("marked as healthy since", &marked, Branch::AlreadyPrepared, &["back up d1"], None);
    let kept = marked.copies([backup(3, "d1", 1, "4.14.0")]);
    assert_eq!(may_start(&kept), Ok(2));
}

#[test]
fn a_soft_reboot_is_a_boot_of_its_own_also_on_the_way_back() {
    let in_this_kernel = |boot: Boot| Boot { boot: BootId::new(NOW), pre_run: PreRun::Ready, ..boot };
    let there =
        device("d2", "4.14.0").boots([in_this_kernel(ran(1, "d1", Healthy))]).data(data("d1", 1, "4.14.0"));
    decides("there", &there, Branch::OwnerHealthy, &["back up d1"], None);
    assert_eq!(plan(&there).seq, 2);
    let back = device("d1", "4.14.0")
        .boots([in_this_kernel(ran(1, "d1", Healthy)), in_this_kernel(ran(2, "d2", Healthy))])
        .data(data("d2", 2, "4.14.0"));
    decides("and back", &back, Branch::OwnerHealthy, &["back up d2"], None);
    assert_eq!(plan(&back).seq, 3);
}

#[test]
fn data_that_was_replaced_in_the_middle_of_a_boot_gets_a_number_of_its_own() {
    let running = Boot { boot: BootId::new(NOW), pre_run: PreRun::Ready, ..ran(2, "d1", Healthy) };
    let seen = device("d1", "4.14.0")
        .boots([ran(1, "d1", Healthy), running])
        .copies([backup(3, "d1", 1, "4.14.0")])
        .data(data("d1", 2, "4.14.0"));
    assert_eq!(plan(&seen).seq, 2, "the same boot");
    let restore = plan_restore(&seen, &Wanted::Number(3)).unwrap();
    assert_eq!(
        restore.seq, 4,
        "a verdict on what runs after the restore must not count for what ran before it"
    );
}

#[test]
fn what_was_moved_aside_last_stays_even_where_there_is_too_much() {
    let aside = |number, seq| CopyRecord {
        kind: CopyKind::Aside,
        place: Place::Aside(format!("unhealthy__d1__{number}")),
        healthy: false,
        ..backup(number, "d1", seq, "4.14.0")
    };
    let seen = device("d2", "4.15.0")
        .boots([ran(9, "d1", Unhealthy)])
        .copies([aside(2, 1), aside(4, 3), aside(6, 5)])
        .data(data("d1", 9, "4.14.0"));
    decides("a fourth", &seen, Branch::StagedOverUnhealthy, &["move aside d1", "discard 2"], None);
}
