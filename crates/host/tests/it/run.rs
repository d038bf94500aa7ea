//! Programs that hang, flood, die and leave children behind; and the sources that run them.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::Scratch;
use host::{Error, Kind, Programs, Source, read};
use program::{Invocation, Limits, Overflow, RunError, run_limited};

fn quick() -> Limits<'static> {
    Limits {
        timeout: Some(Duration::from_millis(400)),
        grace: Duration::from_millis(300),
        ..Limits::default()
    }
}

fn shell(script: &str) -> Invocation {
    Invocation::new("/bin/sh").args(["-c", script])
}

/// The process named in a file is gone, or a zombie that waits for init.
fn is_gone(pid_file: &Path) -> bool {
    let pid = std::fs::read_to_string(pid_file).unwrap();
    let until = Instant::now() + Duration::from_secs(5);
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        if stat.is_empty() || stat.contains(") Z ") {
            return true;
        }
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn output_exit_code_and_environment_come_through() {
    let what = shell("echo out $WORD; echo err >&2; exit 3").env("WORD", "and more");
    let done = run_limited(&what, &Limits::default()).unwrap();
    assert_eq!((done.stdout, done.stderr), (b"out and more\n".to_vec(), b"err\n".to_vec()));
    assert_eq!(done.status.code(), Some(3));
    let died = run_limited(&shell("kill -9 $$"), &Limits::default()).unwrap();
    assert_eq!(died.ending(), "killed by signal 9");
}

#[test]
fn stdin_is_empty_and_both_pipes_are_read_at_once() {
    let done = run_limited(&Invocation::new("cat"), &quick()).unwrap();
    assert!(done.stdout.is_empty());
    // More than a pipe holds on one stream, then on the other: a reader of one at a time would hang.
    let what = shell("head -c 300000 /dev/zero >&2; head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2");
    let done = run_limited(&what, &Limits::default()).unwrap();
    assert_eq!((done.stdout.len(), done.stderr.len()), (300_000, 600_000));
}

#[test]
fn a_program_that_hangs_is_ended_with_its_children() {
    let scratch = Scratch::new("hang");
    let pid = scratch.path().join("pid");
    // Neither the shell nor its child listens to SIGTERM.
    let script = format!(
        "trap '' TERM; sh -c 'trap \"\" TERM; sleep 60' & echo $! >{}; echo half; wait",
        pid.display()
    );
    let started = Instant::now();
    let error = run_limited(&shell(&script), &quick()).unwrap_err();
    let RunError::TimedOut { stdout, .. } = &error else { panic!("{error:?}") };
    assert_eq!(stdout, b"half\n");
    assert!(started.elapsed() < Duration::from_secs(5));
    assert!(is_gone(&pid));
    assert_eq!(error.to_string(), "/bin/sh did not end within 0.4 s");
}

#[test]
fn sigterm_comes_first_and_gives_time_to_clean_up() {
    let scratch = Scratch::new("term");
    let mark = scratch.path().join("mark");
    let script =
        format!("trap 'echo cleaned >{}; exit 1' TERM; while :; do sleep 0.05; done", mark.display());
    run_limited(&shell(&script), &quick()).unwrap_err();
    assert_eq!(std::fs::read_to_string(mark).unwrap(), "cleaned\n");
}

#[test]
fn a_flood_is_stopped_at_the_limit_or_loses_its_middle() {
    let limits = Limits { max_output: 1 << 20, timeout: Some(Duration::from_secs(20)), ..quick() };
    let started = Instant::now();
    let error = run_limited(&Invocation::new("yes"), &limits).unwrap_err();
    let RunError::TooMuchOutput { stream, limit, start, .. } = &error else { panic!("{error:?}") };
    assert_eq!((*stream, *limit, start.len()), ("stdout", 1 << 20, 1 << 20));
    assert!(started.elapsed() < Duration::from_secs(10));

    let limits = Limits { max_output: 1000, overflow: Overflow::Trim, ..Limits::default() };
    let done = run_limited(&shell("echo first; seq 100000; echo last"), &limits).unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(text.starts_with("first\n1\n") && text.ends_with("100000\nlast\n"), "{text}");
    assert!(text.len() < 1100 && done.trimmed.0 > 500_000);
}

#[test]
fn an_endless_flood_does_not_outrun_the_time_limit() {
    let limits = Limits { overflow: Overflow::Trim, ..quick() };
    let started = Instant::now();
    assert!(matches!(run_limited(&Invocation::new("yes"), &limits), Err(RunError::TimedOut { .. })));
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn what_a_program_leaves_behind_neither_holds_the_caller_nor_lives_on() {
    let scratch = Scratch::new("left");
    let pid = scratch.path().join("pid");
    let script = format!("sleep 60 & echo $! >{}; echo done", pid.display());
    let started = Instant::now();
    let done = run_limited(&shell(&script), &Limits::default()).unwrap();
    assert_eq!(done.stdout, b"done\n");
    assert!(started.elapsed() < Duration::from_secs(5));
    assert!(is_gone(&pid));
}

#[test]
fn a_stop_from_outside_ends_it() {
    let stop = AtomicBool::new(false);
    let limits = Limits { timeout: None, stop: Some(&stop), ..quick() };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            stop.store(true, Ordering::Relaxed);
        });
        assert!(matches!(run_limited(&shell("sleep 60"), &limits), Err(RunError::Stopped { .. })));
    });
}

#[test]
fn a_program_that_is_not_there_is_told_from_one_that_can_not_run() {
    let scratch = Scratch::new("missing");
    let missing = run_limited(&Invocation::new(scratch.path().join("nothing")), &quick()).unwrap_err();
    assert!(missing.is_missing() && missing.hint().starts_with("install "));
    let plain = scratch.write("plain", "no program");
    let error = run_limited(&Invocation::new(plain), &quick()).unwrap_err();
    assert!(!error.is_missing(), "{error:?}");
}

#[test]
fn no_threads_and_no_descriptors_are_left_over() {
    let count = |what: &str| std::fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
    // Other tests come and go in this process; what leaks would grow with the number of runs.
    let before = (count("fd"), count("task"));
    for _ in 0..50 {
        let _ = run_limited(&shell("echo x; exit 1"), &quick());
    }
    let after = (count("fd"), count("task"));
    assert!(after.0 < before.0 + 40 && after.1 < before.1 + 40, "{before:?} {after:?}");
}

fn rpm(program: &Path) -> Source {
    Source::RpmOstree { program: program.to_owned() }
}

fn fixture(name: &str) -> String {
    format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_status_command_that_misbehaves_is_named_with_what_it_did() {
    let scratch = Scratch::new("status");
    for (name, body, part) in [
        (
            "fails",
            "echo 'error: Bus owner changed' >&2; echo >&2; exit 1",
            "failed with exit code 1: error: Bus owner changed",
        ),
        ("junk", "echo ok then", "not what was expected: expected value at line 1 column 1, near \"ok then"),
        ("silent", "", "EOF while parsing"),
        ("binary", "printf '{\"deployments\\377'", "byte 13 is not UTF-8"),
        ("killed", "kill -9 $$", "killed by signal 9"),
    ] {
        let program = scratch.script(name, body);
        let error = read(&rpm(&program), None, &quick()).unwrap_err();
        assert!(error.to_string().contains(part), "{name}: {error}");
        assert!(!error.hint().is_empty());
    }
    let program = scratch.script("megabytes", "yes '[[[[[[[[' | head -c 5000000");
    let limits = Limits { timeout: Some(Duration::from_secs(10)), ..Limits::default() };
    let error = read(&rpm(&program), None, &limits).unwrap_err();
    assert!(matches!(error, Error::Run { source: RunError::TooMuchOutput { .. }, .. }), "{error:?}");
    let program = scratch.script("one-megabyte", "yes '[[[[[[[[' | head -c 1000000");
    let error = read(&rpm(&program), None, &limits).unwrap_err();
    assert!(matches!(error, Error::Malformed { .. }), "{error:?}");
    let program = scratch.script("hangs", "sleep 60");
    let error = read(&rpm(&program), None, &quick()).unwrap_err();
    assert!(matches!(error, Error::Run { source: RunError::TimedOut { .. }, .. }), "{error:?}");
}

#[test]
fn auto_takes_the_first_that_is_there_and_answers() {
    let scratch = Scratch::new("auto");
    let cat =
        |name: &str, fixture_name: &str| scratch.script(name, &format!("cat '{}'", fixture(fixture_name)));
    let missing = scratch.path().join("missing");
    let broken = scratch.script("broken", "echo 'error: not booted via libostree' >&2; exit 1");
    let none = cat("none", "rpm-ostree/none.json");
    let rpm_ostree = cat("rpm-ostree", "rpm-ostree/two.json");
    let bootc = cat("bootc", "bootc/v1-two.json");
    let not_bootc = cat("not-bootc", "bootc/not-bootc.json");
    let ostree = cat("ostree", "ostree/rollback.txt");
    let cmdline = scratch.write("cmdline", "quiet");

    for (programs, expected) in [
        ([&rpm_ostree, &bootc, &ostree], Kind::RpmOstree),
        ([&missing, &bootc, &ostree], Kind::Bootc),
        ([&broken, &bootc, &ostree], Kind::Bootc),
        ([&none, &not_bootc, &ostree], Kind::Ostree),
    ] {
        let [rpm_ostree, bootc, ostree] = programs.map(Clone::clone);
        let programs = Programs { rpm_ostree, bootc, ostree, sysroot: None, kernel_cmdline: cmdline.clone() };
        let found = read(&Source::Auto(programs), None, &quick()).unwrap();
        assert_eq!(found.source, expected);
        assert_eq!(found.host.deployments.len(), 2);
    }

    let programs = Programs {
        rpm_ostree: missing.clone(),
        bootc: broken,
        ostree: none,
        sysroot: None,
        kernel_cmdline: cmdline,
    };
    let error = read(&Source::Auto(programs), None, &quick()).unwrap_err().to_string();
    assert!(error.contains("rpm-ostree: not installed; bootc: "), "{error}");
    assert!(error.contains("not booted via libostree"), "{error}");
}

#[test]
fn the_old_bootc_layout_takes_the_name_from_the_kernel_command_line() {
    let scratch = Scratch::new("old-bootc");
    let program = scratch.script("bootc", &format!("cat '{}'", fixture("bootc/v1alpha1.json")));
    let kernel_cmdline = scratch.write("cmdline", "root=UUID=1 ostree=/ostree/boot.0/edge/0123/0 rw\n");
    let found = read(&Source::Bootc { program, kernel_cmdline }, None, &quick()).unwrap();
    assert!(found.host.booted.as_str().starts_with("edge-45ac60b6"), "{found:?}");
}

#[test]
fn a_file_of_deployments_is_read_bounded() {
    let scratch = Scratch::new("file");
    let good = scratch.write("good.json", r#"{"booted":"rhel-d2","deployments":["rhel-d2","rhel-d1"]}"#);
    let found = read(&Source::File(good.clone()), None, &quick()).unwrap();
    assert_eq!((found.source, found.host.booted.as_str()), (Kind::File, "rhel-d2"));
    let given = logic::host::DeploymentId::new("rhel-d1").unwrap();
    assert_eq!(read(&Source::File(good), Some(&given), &quick()).unwrap().host.booted, given);

    let missing = read(&Source::File(scratch.path().join("no.json")), None, &quick()).unwrap_err();
    assert!(missing.to_string().starts_with("can't read "));
    let huge = scratch.write("huge.json", &" ".repeat(2 << 20));
    let error = read(&Source::File(huge), None, &quick()).unwrap_err();
    assert!(matches!(error, Error::FileTooLarge { .. }), "{error:?}");
    let error = read(&Source::File(scratch.path().to_owned()), None, &quick()).unwrap_err();
    assert!(matches!(error, Error::ReadFile { .. }), "{error:?}");
}
