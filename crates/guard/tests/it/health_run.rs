//! Checks as they run: executables, limits, retries, and the built-in kinds against real sockets and files.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::health_support::{Reply, Server, Tls, closed_port, tls_file};
use crate::host_support::Scratch;
use guard::health::{
    Check, CheckKind, CheckResult, Config, Ending, Outcome, Period, Report, Verdict, run_checks,
};

const LONG: Duration = Duration::from_secs(30);

fn millis(millis: u64) -> Period {
    Duration::from_millis(millis).into()
}

/// No directories of the machine, no checks.
fn bare() -> Config {
    Config { required_dirs: vec![], wanted_dirs: vec![], ..Config::default() }
}

fn check(name: &str, kind: CheckKind) -> Check {
    Check { name: name.into(), required: true, timeout: Some(millis(1200)), retry_every: millis(100), kind }
}

fn run(config: &Config, limit: Duration) -> Report {
    run_checks(config, limit, None).unwrap()
}

fn only(kind: CheckKind) -> CheckResult {
    let report = run(&Config { checks: vec![check("it", kind)], ..bare() }, LONG);
    report.checks.into_iter().next().unwrap()
}

fn outcomes(report: &Report) -> Vec<(&str, Outcome)> {
    report.checks.iter().map(|check| (check.name.as_str(), check.outcome)).collect()
}

fn dirs(scratch: &Scratch, names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(|name| scratch.path().join(name)).collect()
}

#[test]
fn required_executables_decide_and_wanted_ones_are_recorded() {
    let scratch = Scratch::new("scripts");
    scratch.script("required.d/10-good", "echo fine");
    scratch.script("wanted.d/20-bad", "echo no space; echo left >&2; exit 7");
    let mut config = Config {
        required_dirs: dirs(&scratch, &["required.d"]),
        wanted_dirs: dirs(&scratch, &["wanted.d"]),
        ..Config::default()
    };
    let report = run(&config, LONG);
    assert_eq!(report.verdict, Verdict::Healthy);
    assert_eq!(outcomes(&report), [("10-good", Outcome::Passed), ("20-bad", Outcome::Failed)]);
    assert_eq!(report.checks[0].detail, "fine");
    assert_eq!(report.checks[1].detail, "exit code 7: no space\nleft");
    assert_eq!(report.warnings().count(), 1);

    scratch.script("required.d/30-bad", "kill -SEGV $$");
    let report = run(&config, LONG);
    assert_eq!(report.verdict, Verdict::Unhealthy);
    assert_eq!(
        report.failures().map(|check| check.detail.as_str()).collect::<Vec<_>>(),
        ["killed by signal 11"]
    );
    assert!(!report.only_timed_out());

    config.disabled = vec!["30-bad".into()];
    let report = run(&config, LONG);
    assert_eq!(report.verdict, Verdict::Healthy);
    assert_eq!(report.notes[0].why, "it is disabled in the configuration");
}

#[test]
fn later_directories_override_and_what_is_no_check_is_noted() {
    let scratch = Scratch::new("override");
    scratch.script("usr/10-same", "exit 1");
    scratch.script("etc/10-same", "exit 0");
    scratch.script("usr/20-off", "exit 1");
    std::os::unix::fs::symlink("/dev/null", scratch.path().join("etc/20-off")).unwrap();
    scratch.write("etc/30-plain", "#!/bin/sh\nexit 1\n");
    scratch.script("etc/40-old.rpmsave", "exit 1");
    scratch.script("etc/.hidden", "exit 1");
    std::fs::create_dir(scratch.path().join("etc/50-dir")).unwrap();
    let config = Config { required_dirs: dirs(&scratch, &["usr", "etc", "absent"]), ..bare() };
    let report = run(&config, LONG);
    assert_eq!((report.verdict, outcomes(&report)), (Verdict::Healthy, vec![("10-same", Outcome::Passed)]));
    let notes: Vec<_> = report.notes.iter().map(|note| note.why.as_str()).collect();
    assert_eq!(
        notes,
        [
            "there is no such directory",
            "its name is that of a hidden file or a leftover",
            "it is disabled by a link to /dev/null",
            "it is not executable",
            "its name is that of a hidden file or a leftover",
            "it is not a file",
        ]
    );
}

#[test]
fn what_can_not_be_run_is_told_from_what_is_bad() {
    let scratch = Scratch::new("cannot");
    scratch.script("d/10-fine", "exit 0");
    let broken = scratch.script("d/20-no-interpreter", "");
    std::fs::write(&broken, "#!/nonexistent/interpreter\n").unwrap();
    std::os::unix::fs::symlink("/nonexistent/target", scratch.path().join("d/30-dangling")).unwrap();
    scratch.write("file", "");
    let config = Config { required_dirs: dirs(&scratch, &["d", "file"]), ..bare() };
    let report = run(&config, LONG);
    assert_eq!(report.verdict, Verdict::Unhealthy);
    for result in &report.checks {
        let expected = if result.name == "10-fine" { Outcome::Passed } else { Outcome::CouldNotRun };
        assert_eq!(result.outcome, expected, "{result:?}");
    }
    assert_eq!(report.checks.len(), 4);
}

#[test]
fn an_executable_runs_once_unless_it_is_to_be_retried() {
    let scratch = Scratch::new("once");
    let count = scratch.path().join("count");
    scratch.script("d/count", &format!("echo x >>{0}; [ $(wc -l <{0}) -ge 3 ]", count.display()));
    let mut config = Config { required_dirs: dirs(&scratch, &["d"]), ..bare() };
    let first = run(&config, LONG);
    assert_eq!((first.checks[0].outcome, first.checks[0].attempts), (Outcome::Failed, 1));
    config.script_retry_every = Some(millis(50));
    let again = run(&config, LONG);
    assert_eq!((again.checks[0].outcome, again.checks[0].attempts), (Outcome::Passed, 2));
}

#[test]
fn limits_end_executables_and_say_which_limit_it_was() {
    let scratch = Scratch::new("limits");
    scratch.script("d/10-hangs", "echo waiting for the disk; sleep 60");
    scratch.script("d/20-good", "exit 0");
    let mut config = Config { required_dirs: dirs(&scratch, &["d"]), ..bare() };
    let started = Instant::now();
    let report = run(&config, Duration::from_millis(500));
    assert!(started.elapsed() < Duration::from_secs(8));
    assert_eq!(outcomes(&report), [("10-hangs", Outcome::TimedOut), ("20-good", Outcome::Passed)]);
    assert_eq!(report.checks[0].ending, Ending::OverallLimit);
    assert_eq!(report.checks[0].detail, "still running, after: waiting for the disk");
    assert!(report.only_timed_out());

    config.script_timeout = Some(millis(300));
    let report = run(&config, LONG);
    assert_eq!((report.checks[0].outcome, report.checks[0].ending), (Outcome::TimedOut, Ending::OwnLimit));
}

#[test]
fn no_more_than_the_configured_number_run_at_once_and_all_get_their_turn() {
    let scratch = Scratch::new("parallel");
    let log = scratch.path().join("log");
    for index in 0..6 {
        let body = format!("echo + >>{0}; sleep 0.2; echo - >>{0}", log.display());
        scratch.script(&format!("d/{index}"), &body);
    }
    let most = |parallel| {
        let _ = std::fs::remove_file(&log);
        let config = Config { required_dirs: dirs(&scratch, &["d"]), parallel, ..bare() };
        let report = run(&config, LONG);
        assert_eq!(report.verdict, Verdict::Healthy);
        let text = std::fs::read_to_string(&log).unwrap();
        let mut now = 0_i32;
        text.lines()
            .map(|line| {
                now += if line == "+" { 1 } else { -1 };
                now
            })
            .max()
            .unwrap()
    };
    assert_eq!(most(1), 1);
    assert!((2..=3).contains(&most(3)));
}

#[test]
fn checks_that_never_got_a_turn_are_timed_out_not_passed() {
    let scratch = Scratch::new("turn");
    scratch.script("d/10-hangs", "sleep 60");
    scratch.script("d/20-waits", "exit 0");
    let config = Config { required_dirs: dirs(&scratch, &["d"]), parallel: 1, ..bare() };
    let report = run(&config, Duration::from_millis(300));
    let late = &report.checks[1];
    assert_eq!((late.outcome, late.attempts), (Outcome::TimedOut, 0));
    assert_eq!(late.detail, "the time was over before it began");
}

#[test]
fn a_waiting_check_does_not_hold_up_the_others() {
    // One place, and the first check fills all of its own two seconds.
    let mut slow = check("slow", CheckKind::Tcp { address: format!("127.0.0.1:{}", closed_port()) });
    slow.timeout = Some(Period::seconds(2));
    let server = Server::start(Tls::Off, |_, _| Reply::new(200, ""));
    let quick = check("quick", CheckKind::Tcp { address: format!("127.0.0.1:{}", server.port) });
    let report = run(&Config { checks: vec![slow, quick], parallel: 1, ..bare() }, LONG);
    assert_eq!(outcomes(&report), [("slow", Outcome::Failed), ("quick", Outcome::Passed)]);
    assert!(report.checks[0].attempts > 1);
    assert!(report.checks[1].took.get() < Duration::from_millis(1500));
}

#[test]
fn a_stop_ends_the_run_and_is_marked_in_the_report() {
    let scratch = Scratch::new("stop");
    scratch.script("d/hangs", "sleep 60");
    let closed = CheckKind::Tcp { address: format!("127.0.0.1:{}", closed_port()) };
    let mut waiting = check("waiting", closed);
    waiting.timeout = None;
    let config = Config { required_dirs: dirs(&scratch, &["d"]), checks: vec![waiting], ..bare() };
    let stop = Arc::new(AtomicBool::new(false));
    let setter = stop.clone();
    let thread = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        setter.store(true, Ordering::Relaxed);
    });
    let started = Instant::now();
    let report = run_checks(&config, LONG, Some(&stop)).unwrap();
    thread.join().unwrap();
    assert!(started.elapsed() < Duration::from_secs(8));
    assert!(report.interrupted);
    assert!(report.checks.iter().all(|check| check.ending == Ending::Interrupted), "{report:?}");
    assert_eq!(report.checks[1].last_attempt, Some(Outcome::Failed));
}

#[test]
fn nothing_to_check_is_healthy() {
    let report = run(&bare(), LONG);
    assert_eq!((report.verdict, report.checks.len()), (Verdict::Healthy, 0));
}

#[test]
fn units_are_asked_of_systemctl() {
    let scratch = Scratch::new("unit");
    let answers = format!("{}/tests/fixtures/health/systemctl", env!("CARGO_MANIFEST_DIR"));
    // The stand-in answers with the recorded answer that the unit is named after.
    let body =
        format!("[ \"$1 $2 $4\" = 'show --no-pager --' ] || exit 9\ncat '{answers}/'\"$5.txt\" || exit 4");
    let systemctl = scratch.script("systemctl", &body);
    let unit = &|unit: &str, systemctl: &PathBuf| {
        let kind = CheckKind::Unit { unit: unit.into() };
        let config = Config { checks: vec![check("it", kind)], systemctl: systemctl.clone(), ..bare() };
        run(&config, LONG).checks.remove(0)
    };
    let no_bus = scratch.script("no-bus", "echo 'Failed to connect to bus: No such file' >&2; exit 1");
    let missing = scratch.path().join("missing");
    let silent = scratch.script("silent", "");
    let cases = [
        ("active", &systemctl, Outcome::Passed, "active"),
        ("failed", &systemctl, Outcome::Failed, "the unit is failed, exit-code"),
        ("not-found", &systemctl, Outcome::Failed, "there is no such unit"),
        ("active", &no_bus, Outcome::CouldNotRun, "Failed to connect to bus"),
        ("active", &missing, Outcome::CouldNotRun, "can't start"),
        ("active", &silent, Outcome::CouldNotRun, "has no ActiveState"),
    ];
    std::thread::scope(|scope| {
        for (name, systemctl, outcome, part) in cases {
            scope.spawn(move || {
                let result = unit(name, systemctl);
                assert_eq!(result.outcome, outcome, "{result:?}");
                assert!(result.detail.contains(part), "{result:?}");
                assert_eq!(result.attempts > 1, outcome != Outcome::Passed, "{result:?}");
            });
        }
    });
}

fn get(url: String) -> CheckKind {
    CheckKind::Http { url, status: vec![], contains: None, ca: None }
}

#[test]
fn http_answers_are_judged_by_status_and_body() {
    let server = Server::start(Tls::Off, |asked, _| match asked.path.as_str() {
        "/ok" => Reply::new(200, "all is ok here"),
        "/moved" => Reply::new(301, ""),
        "/big" => Reply::new(200, vec![b'x'; 3 << 20]),
        "/cut" => Reply::cut("all is ok here", 5),
        _ => Reply::new(503, "starting up"),
    });
    let with = &|path: &str, status: &[u16], contains: Option<&str>| {
        only(CheckKind::Http {
            url: server.url(path),
            status: status.to_vec(),
            contains: contains.map(str::to_owned),
            ca: None,
        })
    };
    assert_eq!(with("/ok", &[], None).outcome, Outcome::Passed);
    assert_eq!(with("/ok", &[200, 204], Some("is ok")).outcome, Outcome::Passed);
    assert_eq!(with("/moved", &[301], None).outcome, Outcome::Passed);
    let cases: [(&str, &[u16], Option<&str>, &str); 6] = [
        ("/down", &[], None, "answered 503 Service Unavailable: starting up"),
        ("/moved", &[], None, "answered 301"),
        ("/ok", &[204], None, "answered 200"),
        ("/ok", &[], Some("well"), "without \"well\""),
        ("/big", &[], Some("well"), "in the first 1048576 bytes"),
        ("/cut", &[], Some("here"), "broke off"),
    ];
    // Each waits for its own limit; they can do so together.
    std::thread::scope(|scope| {
        for (path, status, contains, part) in cases {
            scope.spawn(move || {
                let result = with(path, status, contains);
                assert_eq!(result.outcome, Outcome::Failed, "{result:?}");
                assert!(result.detail.contains(part), "{result:?}");
                assert_eq!(result.ending, Ending::OwnLimit);
            });
        }
    });
    let refused = only(get(format!("http://127.0.0.1:{}/", closed_port())));
    assert!(refused.outcome == Outcome::Failed && refused.detail.contains("can't connect"), "{refused:?}");
}

#[test]
fn a_workload_that_takes_time_to_come_up_is_waited_for() {
    let server = Server::start(
        Tls::Off,
        |_, before| if before < 3 { Reply::new(503, "") } else { Reply::new(200, "") },
    );
    let mut check = check("api", get(server.url("/")));
    check.timeout = None;
    let report = run(&Config { checks: vec![check], ..bare() }, LONG);
    assert_eq!((report.checks[0].outcome, report.checks[0].attempts), (Outcome::Passed, 4));
    assert!(report.took.get() < Duration::from_secs(10));
}

#[test]
fn the_overall_limit_keeps_what_the_last_try_found() {
    let server = Server::start(Tls::Off, |_, _| Reply::new(503, "no"));
    let mut check = check("api", get(server.url("/")));
    check.timeout = None;
    let report = run(&Config { checks: vec![check], ..bare() }, Duration::from_millis(400));
    let result = &report.checks[0];
    assert_eq!((result.outcome, result.last_attempt), (Outcome::TimedOut, Some(Outcome::Failed)));
    assert!(result.detail.contains("503"));
}

#[test]
fn a_last_try_without_time_does_not_hide_what_the_one_before_it_found() {
    let server = Server::start(Tls::Off, |_, before| {
        if before > 0 {
            std::thread::sleep(LONG);
        }
        Reply::new(503, "no")
    });
    let result = only(get(server.url("/")));
    assert_eq!((result.outcome, result.attempts), (Outcome::Failed, 2));
    assert!(result.detail.contains("answered 503"), "{result:?}");
}

#[test]
fn a_server_that_accepts_and_says_nothing_does_not_hold_the_run() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let started = Instant::now();
    let result = only(get(url));
    assert!(started.elapsed() < Duration::from_secs(5));
    assert!(result.detail.contains("no answer within"), "{result:?}");
}

#[test]
fn https_trusts_the_named_ca_and_no_other() {
    let server = Server::start(Tls::On, |_, _| Reply::new(200, "ok"));
    let with = &|ca: Option<String>| {
        let url = format!("https://127.0.0.1:{}/", server.port);
        only(CheckKind::Http { url, status: vec![], contains: None, ca: ca.map(PathBuf::from) })
    };
    let cases = [
        (Some("ca.pem"), [Outcome::Passed; 2], "answered 200"),
        (Some("other-ca.pem"), [Outcome::Failed; 2], "certificate"),
        (Some("absent.pem"), [Outcome::CouldNotRun; 2], "absent.pem"),
        (Some("server.key"), [Outcome::CouldNotRun; 2], "holds no certificate"),
        // The system's certificates, if there are any, do not know it either.
        (None, [Outcome::Failed, Outcome::CouldNotRun], "certificate"),
    ];
    std::thread::scope(|scope| {
        for (ca, outcomes, part) in cases {
            scope.spawn(move || {
                let result = with(ca.map(tls_file));
                assert!(outcomes.contains(&result.outcome), "{result:?}");
                assert!(result.detail.contains(part), "{result:?}");
            });
        }
    });
}

#[test]
fn ports_and_files_are_looked_at() {
    let server = Server::start(Tls::Off, |_, _| Reply::new(200, ""));
    let open = only(CheckKind::Tcp { address: format!("localhost:{}", server.port) });
    assert_eq!(open.outcome, Outcome::Passed, "{open:?}");
    let closed = only(CheckKind::Tcp { address: format!("127.0.0.1:{}", closed_port()) });
    assert_eq!(closed.outcome, Outcome::Failed);

    let scratch = Scratch::new("age");
    let path = scratch.write("heartbeat", "");
    let age = |path: PathBuf| only(CheckKind::FileAge { path, max_age: Period::seconds(60) });
    assert_eq!(age(path.clone()).outcome, Outcome::Passed);
    let old = std::time::SystemTime::now() - Duration::from_secs(3600);
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
    let stale = age(path);
    assert_eq!(stale.outcome, Outcome::Failed);
    assert!(stale.detail.starts_with("modified 1h") && stale.detail.ends_with("more than 1m"), "{stale:?}");
    assert_eq!(age(scratch.path().join("absent")).outcome, Outcome::Failed);
}

#[test]
fn a_report_survives_being_stored() {
    let scratch = Scratch::new("stored");
    scratch.script("d/bad", "head -c 100000 /dev/urandom; exit 1");
    let config = Config { required_dirs: dirs(&scratch, &["d", "absent"]), ..bare() };
    let report = run(&config, LONG);
    let text = serde_json::to_string_pretty(&report).unwrap();
    assert!(text.len() < 40_000);
    assert_eq!(serde_json::from_str::<Report>(&text).unwrap(), report);
    assert!(text.contains("\"verdict\": \"unhealthy\"") && text.contains("\"outcome\": \"failed\""));
}
