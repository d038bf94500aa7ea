//! What is timed, and how the two sides take turns.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use testkit::scratch_fs::ScratchFs;

use crate::table::Row;
use crate::trees::{self, run};

const ROUNDS: u64 = 5;
const ASK_FOR_MEMORY: &str = "--peak-memory-of";

/// A device on a scratch file system, in the state after a healthy first boot.
pub struct Bench {
    fs: ScratchFs,
}

impl Bench {
    pub fn new(fs: ScratchFs, fill: fn(&Path)) -> Self {
        let bench = Self { fs };
        fs::create_dir(bench.data()).expect("the data directory");
        fill(&bench.data());
        bench.settle();
        bench
    }

    fn data(&self) -> PathBuf {
        self.fs.path().join("data")
    }

    fn backups(&self) -> PathBuf {
        self.fs.path().join("backups")
    }

    /// Everything on disk, and nothing still going on: XFS frees removed files in the background, after `sync` has
    /// returned, and the side that is timed next would pay for them. Freezing waits for that.
    fn settle(&self) {
        run(Command::new("sync").arg("-f").arg(self.fs.path()));
        for how in ["--freeze", "--unfreeze"] {
            run(Command::new("fsfreeze").arg(how).arg(self.fs.path()));
        }
    }

    /// All caches of the kernel, those of the loop device's file included.
    fn chill(&self) {
        run(&mut Command::new("sync"));
        fs::write("/proc/sys/vm/drop_caches", "3").expect("drop_caches");
    }

    fn warm(&self) {
        run(Command::new("cp").arg("-a").arg(self.data()).arg(self.fs.path().join("warm")));
        fs::remove_dir_all(self.fs.path().join("warm")).expect("remove");
        self.settle();
    }

    fn holdfast(&self, boot: &str, words: &[&str]) -> Command {
        holdfast(&self.data(), &self.backups(), self.fs.path(), boot, words)
    }

    /// The device ran, was healthy, and boots again.
    fn be_healthy(&self, boot: &str) {
        run(&mut self.holdfast(boot, &["pre-run"]));
        run(&mut self.holdfast(boot, &["run", "--", "true"]));
        run(&mut self.holdfast(boot, &["persist-system-health", "--healthy"]));
        self.settle();
    }

    fn forget_backups(&self) {
        if self.backups().exists() {
            fs::remove_dir_all(self.backups()).expect("remove the backups");
        }
        self.settle();
    }

    /// `cp -a --reflink=auto`, then `sync -f`.
    fn time_cp(&self, cold: bool) -> Duration {
        let target = self.fs.path().join("copy");
        if cold {
            self.chill();
        }
        let started = Instant::now();
        run(Command::new("cp").args(["-a", "--reflink=auto"]).arg(self.data()).arg(&target));
        run(Command::new("sync").arg("-f").arg(&target));
        let took = started.elapsed();
        fs::remove_dir_all(&target).expect("remove the copy");
        self.settle();
        took
    }

    /// The `pre-run` that makes the first backup.
    fn time_first_backup(&self, cold: bool) -> Duration {
        self.forget_backups();
        self.be_healthy("first");
        if cold {
            self.chill();
        }
        let mut command = self.holdfast("second", &["pre-run"]);
        let started = Instant::now();
        run(&mut command);
        let took = started.elapsed();
        assert!(self.backups().join("rhel-d1").exists(), "no backup was made");
        took
    }

    pub fn first_backup(&self, what: &str, bar: f64, cold: bool) -> Row {
        self.warm();
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            theirs.push(self.time_cp(cold));
            ours.push(self.time_first_backup(cold));
        }
        Row::ratio(what, &mut ours, &mut theirs, bar, ("guard", "cp"))
    }

    /// In the steady state: enough generations exist that one may go.
    pub fn backup_again(&self, what: &str, bar: f64) -> Row {
        self.forget_backups();
        for boot in 0..4 {
            self.be_healthy(&format!("before-{boot}"));
        }
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            trees::change_one_percent(&self.data(), round);
            self.settle();
            theirs.push(self.time_cp(false));
            let boot = format!("round-{round}");
            let mut command = self.holdfast(&boot, &["pre-run"]);
            let started = Instant::now();
            run(&mut command);
            ours.push(started.elapsed());
            self.be_healthy(&boot);
        }
        Row::ratio(what, &mut ours, &mut theirs, bar, ("guard", "cp"))
    }

    /// From the command to the data in place; what was there is moved aside.
    pub fn restore(&self, what: &str, bar: f64) -> Row {
        self.prepare_restore();
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            theirs.push(self.time_cp(false));
            ours.push(self.time_restore());
        }
        Row::ratio(what, &mut ours, &mut theirs, bar, ("guard", "cp"))
    }

    fn prepare_restore(&self) {
        self.forget_backups();
        self.be_healthy("first");
        self.be_healthy("second");
        run(&mut self.holdfast("third", &["pre-run"]));
        run(&mut self.holdfast("third", &["run", "--", "true"]));
        self.warm();
    }

    fn time_restore(&self) -> Duration {
        let mut command = self.holdfast("third", &["backups", "restore", "rhel-d1"]);
        let started = Instant::now();
        run(&mut command);
        let took = started.elapsed();
        // The workload would run on it: what is replaced next time is not a copy that need not be kept.
        run(&mut self.holdfast("third", &["run", "--", "true"]));
        self.settle();
        took
    }

    /// The longest time in which a reader finds no data, asked all the time while a restore runs.
    pub fn gap(&self, what: &str) -> Row {
        const BAR: f64 = 0.1;
        self.prepare_restore();
        let probe = self.data().join("version.json");
        let done = AtomicBool::new(false);
        let longest = std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let (mut longest, mut since) = (Duration::ZERO, None);
                while !done.load(Ordering::Relaxed) {
                    match (probe.exists(), since) {
                        (false, None) => since = Some(Instant::now()),
                        (true, Some(start)) => {
                            longest = longest.max(Instant::duration_since(&Instant::now(), start));
                            since = None;
                        }
                        _ => {}
                    }
                }
                longest
            });
            for _ in 0..ROUNDS {
                self.time_restore();
            }
            done.store(true, Ordering::Relaxed);
            watcher.join().expect("the watcher")
        });
        eprintln!("  {what}: {:.4} s (bar {BAR})", longest.as_secs_f64());
        Row {
            what: what.to_owned(),
            measured: format!("{:.4} s", longest.as_secs_f64()),
            bar: format!("≤ {BAR} s"),
            detail: "the longest of five restores".to_owned(),
            holds: longest.as_secs_f64() <= BAR,
        }
    }

    pub fn peak_memory(&self, what: &str) -> Row {
        const BAR: u64 = 64;
        self.forget_backups();
        self.be_healthy("first");
        let mut peak = 0;
        for words in [
            &["pre-run"][..],
            &["run", "--", "true"],
            &["persist-system-health", "--healthy"],
            &["backups", "verify"],
        ] {
            peak = peak.max(peak_memory_of(&self.holdfast("second", words)));
        }
        let mebibytes = peak.div_ceil(1024);
        eprintln!("  {what}: {mebibytes} MiB (bar {BAR})");
        Row {
            what: what.to_owned(),
            measured: format!("{mebibytes} MiB"),
            bar: format!("≤ {BAR} MiB"),
            detail: "the largest of backup, verdict with hashing, and verification".to_owned(),
            holds: mebibytes <= BAR,
        }
    }

    /// A snapshot must not care how much it holds.
    pub fn subvolumes(&self, what: &str) -> Row {
        let devices: Vec<(PathBuf, PathBuf)> = [("large", 1 << 30), ("small", 1 << 20)]
            .into_iter()
            .map(|(name, size): (&str, u64)| {
                let at = self.fs.path().join(name);
                fs::create_dir(&at).expect("a directory");
                run(Command::new("btrfs").args(["subvolume", "create"]).arg(at.join("data")));
                let mut left = size;
                while left > 0 {
                    let piece = left.min(1 << 20);
                    let buffer = vec![(left >> 20) as u8; piece as usize];
                    fs::write(at.join("data").join(format!("{left:010}")), buffer).expect("data");
                    left -= piece;
                }
                (at.join("data"), at.join("backups"))
            })
            .collect();
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            for ((data, backups), times) in devices.iter().zip(&mut times) {
                let at = data.parent().expect("a parent");
                if backups.exists() {
                    run(Command::new("sh")
                        .arg("-c")
                        .arg(format!("btrfs subvolume delete {0}/rhel-d1 && rm -rf {0}", backups.display())));
                }
                for words in
                    [&["pre-run"][..], &["run", "--", "true"], &["persist-system-health", "--healthy"]]
                {
                    run(&mut holdfast(data, backups, at, "first", words));
                }
                run(Command::new("sync").arg("-f").arg(at));
                let mut command = holdfast(data, backups, at, "second", &["pre-run"]);
                let started = Instant::now();
                run(&mut command);
                times.push(started.elapsed());
            }
        }
        let [large, small] = &mut times;
        Row::ratio(what, large, small, 1.2, ("1 GiB", "1 MiB"))
    }
}

fn holdfast(data: &Path, backups: &Path, at: &Path, boot: &str, words: &[&str]) -> Command {
    let host = at.join("deployments.json");
    fs::write(&host, r#"{"booted":"rhel-d1","deployments":["rhel-d1"]}"#).expect("a file of deployments");
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.arg("guard").args(words).stdout(Stdio::null());
    command.env("HOLDFAST_GUARD_DATA_DIR", data).env("HOLDFAST_GUARD_BACKUPS_DIR", backups);
    command.env("HOLDFAST_GUARD_DEPLOYMENTS", &host).env("HOLDFAST_GUARD_WORKLOAD_VERSION", "4.14.0");
    command.env("HOLDFAST_GUARD_BOOT_ID", boot);
    command
}

/// Runs a command in a process of its own and says, in KiB, how much memory its largest child took: the kernel counts
/// that only over all children that a process has ever waited for.
fn peak_memory_of(command: &Command) -> u64 {
    let mut asker = Command::new(std::env::current_exe().expect("this program"));
    asker.arg(ASK_FOR_MEMORY).arg(command.get_program()).args(command.get_args());
    asker.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = asker.output().expect("this program runs");
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number of KiB")
}

pub fn asked_for_memory() -> Option<Vec<String>> {
    let mut arguments = std::env::args().skip(1);
    (arguments.next().as_deref() == Some(ASK_FOR_MEMORY)).then(|| arguments.collect())
}

pub fn print_peak_memory(command: &[String]) {
    let (program, arguments) = command.split_first().expect("a command");
    let status =
        Command::new(program).args(arguments).stdout(Stdio::null()).status().expect("the command runs");
    assert!(status.success(), "{command:?} failed");
    println!("{}", getrusage(UsageWho::RUSAGE_CHILDREN).expect("getrusage").max_rss());
}
