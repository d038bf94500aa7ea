//! The tracer sees every call that changes a file, always in the same order, and stops exactly after it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use testkit::scratch_fs::{FsKind, ScratchFs};
use testkit::trace::{Call, Role, Trace};

/// A directory that goes with the test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = std::env::temp_dir().join(format!("testkit-trace-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Directory(path)
    }

    fn emptied(&self) -> &Path {
        fs::remove_dir_all(&self.0).unwrap();
        fs::create_dir(&self.0).unwrap();
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn shell(directory: &Path, script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(directory);
    command
}

/// This test binary again, running only the named function of the list below.
fn helper(directory: &Path, name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "trace::child_process_of_other_tests", "--nocapture", "--test-threads=1"]);
    command.env("TESTKIT_HELPER", name).current_dir(directory);
    command
}

/// Not a test by itself: what the tracees of other tests run.
#[test]
fn child_process_of_other_tests() {
    let write_files = |thread: usize| {
        for number in 0..25 {
            let mut file = File::create(format!("{thread}-{number}")).unwrap();
            file.write_all(b"content").unwrap();
        }
    };
    match std::env::var("TESTKIT_HELPER").as_deref() {
        Ok("threads") => std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || write_files(thread));
            }
        }),
        Ok("spawn and execute") => {
            // The test runs in a thread that is not the first of its process, so the exec ends the others.
            assert!(Command::new("mkdir").arg("spawned").status().unwrap().success());
            let _other = std::thread::spawn(|| std::thread::sleep(Duration::from_secs(1000)));
            panic!("{}", Command::new("mkdir").arg("executed").exec());
        }
        Ok("500 calls") => {
            let mut file = File::create("file").unwrap();
            for _ in 0..499 {
                file.write_all(b"x").unwrap();
            }
        }
        _ => {}
    }
}

fn names(calls: &[Call]) -> Vec<&str> {
    // The same words for the calls with and without `at`, which differ between architectures.
    calls.iter().map(|call| call.name.trim_end_matches('2').trim_end_matches("at")).collect()
}

const STORY: &str = "mkdir d; echo one > d/a; ln d/a d/b; mv d/a d/c; ln -s nowhere d/l; \
                     chmod 600 d/c; truncate -s 9 d/c; sync d/c; rm d/b d/c d/l; rmdir d";

#[test]
fn the_list_names_each_call_with_its_target_and_is_the_same_each_time() {
    let directory = Directory::new("story");
    let traced = Trace::run(shell(&directory.0, STORY), &[&directory.0]);
    assert!(traced.status.success(), "{}", traced.stderr);
    let expected = [
        "mkdir",
        "open",
        "write",
        "link",
        "rename",
        "symlink",
        "fchmod",
        "open",
        "ftruncate",
        "fsync",
        "unlink",
        "unlink",
        "unlink",
        "unlink",
    ];
    let listing = traced.calls.iter().map(|call| format!("{call}\n")).collect::<String>();
    let mut seen = names(&traced.calls);
    if seen.last() == Some(&"rmdir") {
        seen.pop();
        seen.push("unlink");
    }
    assert_eq!(seen, expected, "{listing}");
    let in_directory = |name: &str| format!("{}/{name}", directory.0.canonicalize().unwrap().display());
    assert_eq!(traced.calls[0].what, in_directory("d"));
    assert_eq!((traced.calls[0].role, traced.calls[0].program.as_str()), (Role::Child, "mkdir"));
    assert_eq!(traced.calls[2].what, in_directory("d/a"));
    assert_eq!(traced.calls[2].role, Role::Main);
    assert_eq!(traced.calls[4].what, format!("{} -> {}", in_directory("d/a"), in_directory("d/c")));
    assert_eq!(traced.calls[5].what, format!("{} -> nowhere", in_directory("d/l")));
    for _ in 0..5 {
        let again = Trace::run(shell(directory.emptied(), STORY), &[&directory.0]);
        assert_eq!(again.calls, traced.calls);
    }
}

#[test]
fn a_kill_leaves_the_effects_of_exactly_the_calls_before_it() {
    let directory = Directory::new("kill");
    let script = "for i in 1 2 3 4 5 6; do echo content > $i; done";
    let all = Trace::run(shell(&directory.0, script), &[&directory.0]).calls;
    assert_eq!(all.len(), 12);
    for n in 0..=all.len() {
        let killed = Trace::kill_after(shell(directory.emptied(), script), &[&directory.0], n).unwrap();
        assert_eq!(killed.calls, all[..n]);
        assert_eq!(killed.call.as_ref(), n.checked_sub(1).map(|index| &all[index]));
        let files: Vec<u64> =
            fs::read_dir(&directory.0).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).collect();
        assert_eq!(files.len(), n.div_ceil(2), "after {n} calls");
        assert_eq!(files.iter().filter(|size| **size > 0).count(), n / 2, "after {n} calls");
    }
    let ended = Trace::kill_after(shell(directory.emptied(), script), &[&directory.0], all.len() + 1);
    assert!(ended.unwrap_err().status.success());
}

#[test]
fn a_kill_of_many_threads_leaves_no_more_than_the_counted_calls() {
    let directory = Directory::new("threads");
    let all = Trace::run(helper(&directory.0, "threads"), &[&directory.0]);
    assert!(all.status.success(), "{}", all.stdout);
    assert_eq!(all.calls.len(), 4 * 25 * 2);
    assert!(all.calls.iter().all(|call| call.role == Role::Main));
    for n in (0..=200).step_by(7) {
        let killed = Trace::kill_after(helper(directory.emptied(), "threads"), &[&directory.0], n).unwrap();
        let path = |call: &Call| PathBuf::from(&call.what);
        let opened: BTreeSet<_> =
            killed.calls.iter().filter(|call| call.name.starts_with("open")).map(path).collect();
        let written: BTreeSet<_> =
            killed.calls.iter().filter(|call| call.name == "write").map(path).collect();
        let root = directory.0.canonicalize().unwrap();
        let exist: BTreeSet<_> = fs::read_dir(&root).unwrap().map(|file| file.unwrap().path()).collect();
        let filled: BTreeSet<_> =
            exist.iter().filter(|path| fs::metadata(path).unwrap().len() > 0).cloned().collect();
        assert_eq!((exist, filled), (opened, written), "after {n} calls");
    }
}

#[test]
fn everything_that_the_command_started_dies_with_it() {
    let directory = Directory::new("children");
    let script =
        "sleep 1000 & echo $!; (sleep 1000 & echo $!); setsid sleep 1000 & echo $!; echo now > file; wait";
    let killed = Trace::kill_after(shell(&directory.0, script), &[&directory.0], 1).unwrap();
    let pids: Vec<&str> = killed.stdout.lines().collect();
    assert_eq!(pids.len(), 3, "{killed:?}");
    let is_alive = |pid: &str| {
        let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        state.contains("sleep") && !state.contains(") Z ")
    };
    assert!(!pids.iter().any(|pid| is_alive(pid)));
}

#[test]
fn a_command_that_is_killed_alone_leaves_what_it_started() {
    let directory = Directory::new("alone");
    let script = "sleep 1000 & echo $!; mkdir child; echo now > first; echo then > second; wait";
    let is_first = |call: &Call| call.what.ends_with("first");
    let killed = Trace::kill_alone_when(shell(&directory.0, script), &[&directory.0], is_first).unwrap();
    // What others did is not among its calls.
    assert_eq!(killed.calls.len(), 1, "{killed:?}");
    assert!(directory.0.join("child").exists() && !directory.0.join("second").exists());
    let left = nix::unistd::Pid::from_raw(killed.stdout.trim().parse().unwrap());
    nix::sys::signal::kill(left, nix::sys::signal::Signal::SIGKILL).unwrap();
}

#[test]
fn a_spawned_program_is_a_child_and_an_executed_one_is_the_command_itself() {
    let directory = Directory::new("spawn");
    let traced = Trace::run(helper(&directory.0, "spawn and execute"), &[&directory.0]);
    assert!(traced.status.success(), "{}", traced.stdout);
    let made_by: Vec<_> = traced.calls.iter().map(|call| (call.role, call.program.as_str())).collect();
    assert_eq!(made_by, [(Role::Child, "mkdir"), (Role::Main, "mkdir")]);
    let killed =
        Trace::kill_after(helper(directory.emptied(), "spawn and execute"), &[&directory.0], 1).unwrap();
    assert_eq!(killed.calls, traced.calls[..1]);
    assert!(directory.0.join("spawned").exists() && !directory.0.join("executed").exists());
}

#[test]
fn calls_that_change_nothing_below_the_roots_do_not_count() {
    let directory = Directory::new("outside");
    let root = directory.0.join("root");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("file"), "content").unwrap();
    let script = "cat root/file | cat > outside; mkdir root 2>/dev/null; rm -f root/missing; echo text; \
                  mkfifo pipe; cat < pipe > /dev/null & echo through > pipe; wait; cat root/file > /dev/null";
    let traced = Trace::run(shell(&directory.0, script), &[&root]);
    assert_eq!(traced.stdout, "text\n");
    assert!(traced.calls.is_empty(), "{:?}", traced.calls);
    // Into the root counts, and out of it does too.
    let traced = Trace::run(shell(&directory.0, "mv outside root/inside; mv root/inside outside"), &[&root]);
    assert_eq!(names(&traced.calls), ["rename", "rename"]);
    // By a link from outside as well.
    std::os::unix::fs::symlink(&root, directory.0.join("link")).unwrap();
    let traced = Trace::run(shell(&directory.0, "mkdir link/new; echo x > link/file"), &[&root]);
    assert_eq!(names(&traced.calls), ["mkdir", "open", "write"]);
    // And the root may be given by a link.
    let traced = Trace::run(shell(&root, "cd new; mkdir below"), &[&directory.0.join("link")]);
    assert_eq!(names(&traced.calls), ["mkdir"]);
}

#[test]
fn names_of_any_bytes_are_printed_on_one_line() {
    let directory = Directory::new("bytes");
    let name = std::ffi::OsStr::from_bytes(b"not\xFFtext\nat 'all'");
    let mut command = Command::new("mkdir");
    command.arg(directory.0.join(name));
    let traced = Trace::run(command, &[&directory.0]);
    assert!(traced.calls[0].what.ends_with(r"/not\xfftext\nat 'all'"), "{}", traced.calls[0]);
}

#[test]
fn copies_and_clones_and_data_from_a_pipe_count() {
    let kind = FsKind::Xfs { reflink: true };
    let scratch = ScratchFs::new(kind, kind.smallest());
    fs::write(scratch.path().join("a"), vec![1; 1 << 20]).unwrap();
    let clone = Trace::run(shell(scratch.path(), "cp --reflink=always a b"), &[scratch.path()]);
    assert_eq!(names(&clone.calls), ["open", "ioctl(FICLONE)"]);
    let copy = Trace::run(shell(scratch.path(), "cp --reflink=never --preserve=all a c"), &[scratch.path()]);
    assert!(copy.calls.len() >= 4, "{:?}", copy.calls);
    // A reader that writes files while its source writes files too: neither waits for the other for ever.
    let script = "for i in 1 2 3 4; do echo $i > source-$i; echo $i; done | while read i; do echo $i > reader-$i; done";
    let both = Trace::run(shell(scratch.path(), script), &[scratch.path()]);
    assert_eq!(both.calls.len(), 16);
}

#[test]
fn a_signal_arrives_after_the_call_and_the_command_goes_on() {
    let directory = Directory::new("signal");
    let script = "trap 'echo caught' TERM; for i in 1 2 3; do echo content > $i; echo wrote $i; done";
    for n in 0..=6 {
        let command = shell(directory.emptied(), script);
        let signalled =
            Trace::signal_after(command, &[&directory.0], n, nix::sys::signal::Signal::SIGTERM).unwrap();
        assert!(signalled.traced.status.success());
        assert_eq!(signalled.traced.calls.len(), 6);
        assert_eq!(signalled.call.map_or(0, |call| call.n), n);
        let lines: Vec<&str> = signalled.traced.stdout.lines().collect();
        let caught = lines.iter().position(|line| *line == "caught").unwrap();
        assert_eq!(caught, n.saturating_sub(1) / 2, "after {n} calls: {lines:?}");
    }
    let command = shell(directory.emptied(), "echo content > file; sleep 1000");
    let killed = Trace::signal_after(command, &[&directory.0], 2, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert_eq!(killed.traced.status.signal(), Some(15));
}

/// The smallest whole use: a file is replaced, with the power cut at each of its calls.
fn broken_replacements(kind: FsKind, script: &str) -> (usize, Vec<String>) {
    let mut scratch = ScratchFs::new(kind, kind.smallest());
    fs::write(scratch.path().join("file"), "old").unwrap();
    let image = scratch.snapshot_image();
    let all = Trace::run(shell(scratch.path(), script), &[scratch.path()]).calls;
    let mut broken = Vec::new();
    for n in 0..=all.len() {
        scratch.reset(&image);
        let command = shell(scratch.path(), script);
        let killed = Trace::kill_after_doing(command, &[scratch.path()], n, || scratch.power_off()).unwrap();
        assert_eq!(killed.calls, all[..n]);
        scratch = scratch.power_cut();
        let content = fs::read_to_string(scratch.path().join("file"));
        if !content.as_ref().is_ok_and(|content| content == "old" || content == "new") {
            broken.push(format!("{n}: {content:?}"));
        }
    }
    (all.len(), broken)
}

#[test]
fn a_power_cut_at_every_call_tells_a_safe_replacement_from_an_unsafe_one() {
    for kind in [FsKind::Xfs { reflink: true }, FsKind::Ext4, FsKind::Btrfs] {
        let safe = "printf new > file.new; sync file.new; mv file.new file; sync .";
        let (points, broken) = broken_replacements(kind, safe);
        println!("{kind:?}: {points} points, none broken");
        assert_eq!((points, broken), (5, Vec::new()), "{kind:?}");
    }
    let (_, broken) =
        broken_replacements(FsKind::Xfs { reflink: true }, "printf new > file.new; mv file.new file; sync .");
    assert!(!broken.is_empty(), "a file that was not synced before its rename must be lost on XFS");
    let (_, broken) = broken_replacements(FsKind::Ext4, "rm file; sync .; printf new > file; sync file");
    assert!(!broken.is_empty(), "a file that is removed before its successor exists must be lost on ext4");
}

#[test]
fn tracing_costs_little() {
    let directory = Directory::new("quick");
    let mut untraced = helper(&directory.0, "500 calls");
    let begin = Instant::now();
    assert!(untraced.output().unwrap().status.success());
    let without = begin.elapsed();
    let begin = Instant::now();
    let traced = Trace::run(helper(&directory.0, "500 calls"), &[&directory.0]);
    let with = begin.elapsed();
    assert_eq!(traced.calls.len(), 500);
    println!("500 calls: {without:?} untraced, {with:?} traced");
    // Several times the target, since the machine may be busy with other tests.
    assert!(with < Duration::from_millis(500));
}
