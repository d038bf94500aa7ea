//! Guard against `cp`: how long a device waits at boot, as ratios within one run.
//!
//! The comparison is what a user would type instead: `cp -a --reflink=auto`, then `sync -f`. What is timed is the whole
//! command, `holdfast guard pre-run` or `backups restore`, with its start-up, its records and its checks. Five rounds,
//! in which both sides take turns; medians. Needs root, xfsprogs, e2fsprogs and btrfs-progs. Words on the command line are
//! parts of names of rows: only those are measured.

mod measure;
#[path = "../table.rs"]
mod table;
mod trees;

use std::path::Path;

use measure::Bench;
use table::{Row, Wanted, write_section};
use testkit::scratch_fs::{FsKind, ScratchFs};
use trees::{few_large, fragmented, many_small};

const XFS: FsKind = FsKind::Xfs { reflink: true };
const SIZE: u64 = 16 << 30;

fn main() {
    if let Some(command) = measure::asked_for_memory() {
        measure::print_peak_memory(&command);
        return;
    }
    let wanted = Wanted::from_arguments();
    let mut rows = Vec::new();
    let mut part = |title: &str, kind: FsKind, fill: fn(&Path), measurements: Vec<Measurement>| {
        let measurements: Vec<_> = measurements.into_iter().filter(|(what, _)| wanted.has(what)).collect();
        if measurements.is_empty() {
            return;
        }
        eprintln!("{title}");
        let bench = Bench::new(ScratchFs::on_disk(kind, SIZE), fill);
        rows.extend(measurements.iter().map(|(what, measure)| measure(&bench, what)));
        // What is measured is written down at once: a run that is cut short has said something too.
        write_section("guard", &rows, &wanted);
    };
    let first = |bar, cold| move |bench: &Bench, what: &str| bench.first_backup(what, bar, cold);
    part(
        "XFS: a 1 GiB file with 90,000 extents",
        XFS,
        fragmented,
        vec![row("1 GiB file with 90,000 extents, XFS", first(0.4, false))],
    );
    part(
        "btrfs: subvolumes of 1 GiB and of 1 MiB",
        FsKind::Btrfs,
        |_| (),
        vec![row("btrfs subvolume: 1 GiB against 1 MiB", Bench::subvolumes)],
    );
    for (kind, name, cold_bar) in [(XFS, "XFS", 0.7), (FsKind::Ext4, "ext4", 0.5)] {
        part(
            &format!("{name}: a 1 GiB file and 2,000 small ones (A)"),
            kind,
            few_large,
            vec![
                row(format!("first backup, warm cache, A, {name}"), first(1.1, false)),
                row(format!("whole restore, A, warm, {name}"), |bench, what| bench.restore(what, 1.1)),
            ],
        );
        let mut measurements = vec![
            row(format!("first backup, warm cache, B, {name}"), first(1.1, false)),
            row(format!("first backup, cold cache, B, {name}"), first(cold_bar, true)),
            row(format!("backup again after 1 % of B changed, warm, {name}"), |bench, what| {
                bench.backup_again(what, 0.35)
            }),
            row(format!("whole restore, B, warm, {name}"), |bench, what| bench.restore(what, 1.1)),
            row(format!("of it, the time in which the data is not in place, {name}"), Bench::gap),
        ];
        if kind == XFS {
            measurements.push(row("peak memory, 50,000 files", Bench::peak_memory));
        }
        part(&format!("{name}: 50,000 small files (B)"), kind, many_small, measurements);
    }
    print!("{}", Row::table(&rows));
    if rows.iter().any(|row| !row.holds()) {
        eprintln!("a bar was missed");
        std::process::exit(1);
    }
}

/// The name of a row, and how it is measured.
type Measurement = (String, Box<dyn Fn(&Bench, &str) -> Row>);

fn row(what: impl Into<String>, measure: impl Fn(&Bench, &str) -> Row + 'static) -> Measurement {
    (what.into(), Box::new(measure))
}
