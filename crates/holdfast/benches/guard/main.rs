//! Guard against `cp`: how long a device waits at boot, as ratios within one run.
//!
//! The comparison is what a user would type instead: `cp -a --reflink=auto`, then `sync -f`. What is timed is the whole
//! command, `holdfast guard pre-run` or `backups restore`, with its start-up, its records and its checks. Five rounds,
//! in which both sides take turns; medians. Needs root, xfsprogs, e2fsprogs and btrfs-progs.

mod measure;
#[path = "../table.rs"]
mod table;
mod trees;

use measure::Bench;
use table::{Row, write_section};
use testkit::scratch_fs::{FsKind, ScratchFs};
use trees::{few_large, fragmented, many_small};

const XFS: FsKind = FsKind::Xfs { reflink: true };
const SIZE: u64 = 16 << 30;

fn main() {
    if let Some(command) = measure::asked_for_memory() {
        measure::print_peak_memory(&command);
        return;
    }
    let mut rows = Vec::new();
    eprintln!("XFS: a 1 GiB file with 90,000 extents");
    let bench = Bench::new(ScratchFs::on_disk(XFS, SIZE), fragmented);
    rows.push(bench.first_backup("1 GiB file with 90,000 extents, XFS", 0.4, false));
    drop(bench);
    eprintln!("btrfs: subvolumes of 1 GiB and of 1 MiB");
    rows.push(measure::subvolumes(&ScratchFs::on_disk(FsKind::Btrfs, SIZE)));
    for (kind, name, cold_bar) in [(XFS, "XFS", 0.7), (FsKind::Ext4, "ext4", 0.5)] {
        eprintln!("{name}: a 1 GiB file and 2,000 small ones (A)");
        let bench = Bench::new(ScratchFs::on_disk(kind, SIZE), few_large);
        rows.push(bench.first_backup(&format!("first backup, warm cache, A, {name}"), 1.1, false));
        rows.push(bench.restore(&format!("whole restore, A, warm, {name}"), 1.1));
        drop(bench);
        eprintln!("{name}: 50,000 small files (B)");
        let bench = Bench::new(ScratchFs::on_disk(kind, SIZE), many_small);
        rows.push(bench.first_backup(&format!("first backup, warm cache, B, {name}"), 1.1, false));
        rows.push(bench.first_backup(&format!("first backup, cold cache, B, {name}"), cold_bar, true));
        rows.push(bench.backup_again(&format!("backup again after 1 % of B changed, warm, {name}"), 0.35));
        rows.push(bench.restore(&format!("whole restore, B, warm, {name}"), 1.1));
        rows.push(bench.gap(&format!("of it, the time in which the data is not in place, {name}")));
        if kind == XFS {
            rows.push(bench.peak_memory("peak memory, 50,000 files"));
        }
        // What is measured is written down at once: a run that is cut short has said something too.
        write_section("guard", &Row::table(&rows));
    }
    let table = Row::table(&rows);
    print!("{table}");
    write_section("guard", &table);
    if rows.iter().any(|row| !row.holds()) {
        eprintln!("a bar was missed");
        std::process::exit(1);
    }
}
