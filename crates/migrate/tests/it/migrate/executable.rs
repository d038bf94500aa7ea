//! Executables of a release: what they are given, what they answer, and what they are kept from.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use logic::exit::Exit;
use migrate::{Error, Limits, Migrated, Options, Registry, Target};
use serde_json::{Value, json};

use crate::migrate::support::{Scratch, data, names};

struct Release {
    scratch: Scratch,
    limits: Limits,
}

impl Release {
    fn new() -> Self {
        Self { scratch: Scratch::new(), limits: Limits::default() }
    }

    /// A release with one migration.
    fn with(body: &str) -> Self {
        let release = Self::new();
        release.add("appliance-2", body);
        release
    }

    fn add(&self, name: &str, body: &str) -> &Self {
        let path = self.scratch.dir("migrations").join(name);
        fs::write(&path, body).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    fn stores(&self) -> PathBuf {
        self.scratch.dir("stores")
    }

    fn run(&self, values: Value) -> Result<Migrated, Error> {
        self.run_with(values, &Options { limits: self.limits, ..Options::default() })
    }

    fn run_with(&self, values: Value, options: &Options<'_>) -> Result<Migrated, Error> {
        let mut registry = Registry::new();
        registry.discover(&self.scratch.0.join("migrations")).unwrap();
        let stores = self.stores();
        registry.run(
            Target::Appliance,
            &data(1, values),
            Some(&stores),
            &self.scratch.0.join("work"),
            options,
        )
    }

    /// Why it failed, with all causes. Nothing may be left of it.
    fn failure(&self) -> String {
        let error = self.run(json!({})).unwrap_err();
        assert_eq!(error.exit(), Exit::MigrationFailed, "{error:?}");
        assert!(!error.hint().is_empty());
        assert!(names(&self.scratch.0.join("work")).is_empty(), "nothing is left in the scratch directory");
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(&error);
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text
    }
}

fn sh(body: &str) -> String {
    format!("#!/bin/sh\nset -eu\n{body}\n")
}

fn python(body: &str) -> String {
    format!("#!/usr/bin/python3\nimport json, os, socket, sys\n{body}\n")
}

const EMPTY: &str = r#"{"values":{}}"#;

#[test]
fn an_executable_gets_the_values_and_answers_with_new_ones() {
    let release = Release::with(&python(
        "question = json.load(sys.stdin)
values = question.pop('values')
values['listen'] = {'port': values.pop('port')}
json.dump({'values': values, 'notes': [json.dumps(question, sort_keys=True)], 'unavailable': ['attach']}, sys.stdout)",
    ));
    let done = release.run(json!({"port": 80, "key": {"$secret": "xyzzy-1"}})).unwrap();
    assert_eq!(
        Value::from(done.data.values.clone()),
        json!({"listen": {"port": 80}, "key": {"$secret": "xyzzy-1"}})
    );
    let step = &done.steps[0];
    assert_eq!(step.unavailable, ["attach"]);
    let question: Value = serde_json::from_str(&step.notes[0]).unwrap();
    let stores = release.stores();
    let expected = json!({
        "apiVersion": "holdfast/v1", "kind": "MigrationInput", "target": "appliance", "from": 1, "to": 2,
        "stores": stores,
    });
    assert_eq!(question, expected);
    let protections = step.protections.unwrap();
    println!("protections: {protections}");
    assert!(protections.suffice());
}

#[test]
fn its_environment_is_its_own_directory_and_little_else() {
    let release = Release::with(&sh(
        r#"test "$PWD" = "$HOLDFAST_WORK"; test "$HOME" = "$PWD"; test "$TMPDIR" = "$PWD"
echo x > here; echo y > /tmp/there; test -d stores; test -z "$(ls -A stores)"
test "$(env | cut -d= -f1 | grep -v '^_$' | sort | tr '\n' ' ')" = "HOLDFAST_WORK HOME LANG PATH PWD TMPDIR " || { env >&2; exit 9; }
test "$(ls /proc | grep -c '^[0-9]*$')" -lt 8
echo '{"values":{}}'"#,
    ));
    release.run(json!({})).unwrap();
}

#[test]
fn both_kinds_look_the_same_in_a_plan_and_in_one_chain() {
    let release = Release::with(&sh(r#"echo '{"values":{"by":"executable"}}'"#));
    let mut registry = Registry::new();
    registry.discover(&release.scratch.0.join("migrations")).unwrap();
    let rust = crate::migrate::support::values("in-rust", |values| {
        values.insert("then".into(), json!("rust"));
    });
    registry.register(Target::Appliance, 3, rust).unwrap();
    let plan = registry.plan(Target::Appliance, 1, &[]).unwrap();
    assert_eq!(plan.to_string(), "1 → 2 → 3");
    let done = registry
        .run(
            Target::Appliance,
            &data(1, json!({})),
            None,
            &release.scratch.0.join("work"),
            &Options::default(),
        )
        .unwrap();
    assert_eq!(Value::from(done.data.values), json!({"by": "executable", "then": "rust"}));
    assert_eq!(
        plan.steps.iter().map(|it| &it.digest).collect::<Vec<_>>(),
        done.steps.iter().map(|it| &it.digest).collect::<Vec<_>>()
    );
}

#[test]
fn stores_are_copied_forward_by_executables_too() {
    let release = Release::new();
    for version in 2..=4 {
        release.add(
            &format!("appliance-{version}"),
            &python(&format!(
                "stores = json.load(sys.stdin)['stores']
old = open(stores + '/metadata.v{}').read()
open('stores/metadata.v{version}', 'w').write(old + '+{version}')
print('{{\"values\":{{}}}}')",
                version - 1
            )),
        );
    }
    fs::write(release.stores().join("metadata.v1"), "1").unwrap();
    let done = release.run(json!({})).unwrap();
    done.install_stores(&release.stores()).unwrap();
    assert_eq!(names(&release.stores()), ["metadata.v1", "metadata.v2", "metadata.v3", "metadata.v4"]);
    assert_eq!(fs::read_to_string(release.stores().join("metadata.v4")).unwrap(), "1+2+3+4");
}

#[test]
fn what_a_failing_migration_said_is_in_the_message_without_secrets() {
    let release = Release::with(&sh("echo \"no field $(cat) here\" >&2; exit 3"));
    let error = release.run(json!({"key": {"$secret": "xyzzy-1"}})).unwrap_err();
    let Error::Failed { source, .. } = &error else { panic!("{error:?}") };
    let text = source.to_string();
    assert!(text.starts_with("it ended with exit code 3, saying") && text.contains("(secret)"), "{text}");
    assert!(!text.contains("xyzzy"), "{text}");
    let release = Release::with(&sh("kill -SEGV $$"));
    assert!(release.failure().contains("killed by signal 11"), "{}", release.failure());
}

#[test]
fn nonsense_half_an_answer_and_no_answer_are_failures() {
    for (body, says) in [
        ("echo nonsense", "is not the answer that was asked for"),
        (r#"printf '{"values":{"a":1'"#, "EOF while parsing"),
        (r#"echo '{"values":{}} trailing'"#, "trailing characters"),
        ("true", "printed nothing"),
        (r#"echo '{"valeus":{}}'"#, "unknown field `valeus`"),
        ("head -c 100000 /dev/urandom", "is not the answer that was asked for"),
    ] {
        let failure = Release::with(&sh(body)).failure();
        assert!(failure.contains(says), "{body}: {failure}");
    }
}

#[test]
fn an_interpreter_that_is_missing_is_named() {
    let failure = Release::with("#!/usr/bin/no-such-interpreter\n").failure();
    assert!(failure.contains("can't start") && failure.contains("No such file"), "{failure}");
}

#[test]
fn a_migration_that_opens_a_socket_is_refused() {
    let (tcp, udp) = (TcpListener::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    udp.set_nonblocking(true).unwrap();
    tcp.set_nonblocking(true).unwrap();
    let (tcp_port, udp_port) = (tcp.local_addr().unwrap().port(), udp.local_addr().unwrap().port());
    for (what, attempt) in [
        ("tcp to loopback", format!("socket.create_connection(('127.0.0.1', {tcp_port}), 1)")),
        (
            "udp to loopback",
            format!(
                "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {udp_port}))"
            ),
        ),
        ("tcp to the world", "socket.create_connection(('192.0.2.1', 80), 1)".to_owned()),
        ("ipv6", "socket.socket(socket.AF_INET6)".to_owned()),
        ("raw", "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)".to_owned()),
        ("netlink", "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)".to_owned()),
        ("packet", "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)".to_owned()),
        ("listening", "socket.create_server(('127.0.0.1', 0))".to_owned()),
    ] {
        let failure = Release::with(&python(&format!("{attempt}\nprint('{EMPTY}')"))).failure();
        assert!(failure.contains("Operation not permitted"), "{what}: {failure}");
    }
    assert!(tcp.accept().is_err() && udp.recv(&mut [0; 8]).is_err(), "nothing arrived");
}

#[test]
fn a_socket_of_the_machine_is_out_of_reach() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};
    let scratch = Scratch::new();
    let by_path = scratch.0.join("socket");
    let named = format!("holdfast-test-{}", std::process::id());
    let _by_path = UnixListener::bind(&by_path).unwrap();
    let _by_name = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&named).unwrap()).unwrap();
    for address in [format!("'{}'", by_path.display()), format!("'\\0{named}'")] {
        let body = format!("socket.socket(socket.AF_UNIX).connect({address})\nprint('{EMPTY}')");
        let failure = Release::with(&python(&body)).failure();
        assert!(failure.contains("No such file") || failure.contains("refused"), "{address}: {failure}");
    }
}

#[test]
fn a_migration_that_writes_elsewhere_is_refused_and_nothing_is_there() {
    let outside = Scratch::new();
    let release = Release::new();
    fs::write(release.stores().join("metadata.v1"), "as it was").unwrap();
    let targets = [
        outside.0.join("file"),
        release.stores().join("metadata.v2"),
        release.stores().join("metadata.v1"),
        release.scratch.dir("migrations").join("appliance-3"),
        "/etc/holdfast-was-here".into(),
        "/usr/holdfast-was-here".into(),
        "/var/lib/holdfast-was-here".into(),
        "/root/holdfast-was-here".into(),
        "/holdfast-was-here".into(),
        "/proc/sys/kernel/core_pattern".into(),
        "/sys/kernel/mm/transparent_hugepage/enabled".into(),
        "/dev/holdfast-was-here".into(),
    ];
    let core_pattern = fs::read("/proc/sys/kernel/core_pattern").unwrap();
    for target in &targets {
        let before = fs::read(target).ok();
        release.add(
            "appliance-2",
            &python(&format!("open('{}', 'a').write('x')\nprint('{EMPTY}')", target.display())),
        );
        let failure = release.failure();
        assert!(
            ["Read-only file system", "Permission denied", "No such file"]
                .iter()
                .any(|it| failure.contains(it)),
            "{}: {failure}",
            target.display()
        );
        if target.starts_with("/proc") {
            assert_eq!(fs::read(target).unwrap(), core_pattern);
        } else {
            assert_eq!(fs::read(target).ok(), before, "{}", target.display());
        }
    }
    assert!(names(&outside.0).is_empty());
}

#[test]
fn a_migration_that_removes_or_renames_what_it_can_read_is_refused() {
    let release = Release::new();
    fs::write(release.stores().join("metadata.v1"), "as it was").unwrap();
    let path = release.stores().join("metadata.v1");
    for attempt in [
        format!("os.unlink('{}')", path.display()),
        format!("os.rename('{}', 'mine')", path.display()),
        format!("os.link('{}', 'mine')", path.display()),
        format!("os.chmod('{}', 0o777)", path.display()),
        format!("os.truncate('{}', 0)", path.display()),
        format!("os.utime('{}')", path.display()),
    ] {
        release.add("appliance-2", &python(&format!("{attempt}\nprint('{EMPTY}')")));
        let failure = release.failure();
        assert!(failure.contains("OSError") || failure.contains("PermissionError"), "{attempt}: {failure}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "as it was");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
    }
}

#[test]
fn a_secret_file_of_another_appliance_can_not_be_read() {
    let other = Scratch::new();
    let secret = other.0.join("key");
    fs::write(&secret, "the-key-of-another").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    for path in [secret.as_path(), Path::new("/etc/shadow"), Path::new("/proc/1/root/etc/shadow")] {
        let body = format!("print(open('{}').read(), file=sys.stderr)\nprint('{EMPTY}')", path.display());
        let failure = Release::with(&python(&body)).failure();
        assert!(!failure.contains("the-key-of-another") && !failure.contains("root:"), "{failure}");
        assert!(failure.contains("FileNotFoundError") || failure.contains("PermissionError"), "{failure}");
    }
}

#[test]
fn a_migration_that_forks_without_end_is_stopped() {
    for bomb in [
        sh("bomb() { bomb | bomb & }; bomb; sleep 60"),
        python("while True:\n  try: os.fork()\n  except OSError: pass"),
        python("import threading, time\nwhile True: threading.Thread(target=time.sleep, args=(60,)).start()"),
    ] {
        let mut release = Release::with(&bomb);
        // Room for the stacks of threads: it is their number that must stop them.
        // And time enough: beside other work, ten seconds can pass before anything is counted.
        release.limits = Limits { time: Duration::from_secs(60), memory: 8 << 30, ..release.limits };
        let failure = release.failure();
        // A bomb can also go off so fast that it takes its own breath away: what is left of it ends with its time, or with
        // its first process, which could not start the last one.
        let over = failure.contains("did not end within") || failure.contains("ended with exit code 2");
        let out_of_breath = failure.contains("Cannot fork") && over;
        assert!(failure.contains("processes and threads") || out_of_breath, "{failure}");
        assert_no_process_of(&release);
    }
}

#[test]
fn a_migration_that_eats_memory_is_stopped_alone_and_with_its_children() {
    for eater in [
        "x = []\nwhile True: x.append(bytearray(1 << 20))",
        "for _ in range(4): os.fork()\nx = bytearray(60 << 20)\nimport time\ntime.sleep(60)",
        "import mmap, time\nx = mmap.mmap(-1, 300 << 20)\nx.write(bytes(300 << 20))\ntime.sleep(60)",
    ] {
        let mut release = Release::with(&python(eater));
        release.limits =
            Limits { memory: 256 << 20, processes: 1000, time: Duration::from_secs(20), ..release.limits };
        let failure = release.failure();
        assert!(failure.contains("used more than 268435456 bytes of memory"), "{failure}");
        assert_no_process_of(&release);
    }
}

#[test]
fn memory_that_belongs_to_no_process_is_not_to_be_had() {
    let mut release = Release::with(&python("os.write(os.memfd_create('x'), b'x')"));
    assert!(release.failure().contains("Operation not permitted"));
    let shared = "import ctypes; c = ctypes.CDLL(None, use_errno=True); r = c.shmget(0, 512 << 20, 0o1600)
print('answer', r, 'errno', ctypes.get_errno(), file=sys.stderr); sys.exit(1)";
    release = Release::with(&python(shared));
    release.limits.memory = 256 << 20;
    let failure = release.failure();
    assert!(failure.contains("answer -1 errno 28") || !is_root(), "{failure}");
    let fills_tmp = "f = open('/tmp/x', 'wb')\nwhile True: f.write(bytes(1 << 20))";
    assert!(Release::with(&python(fills_tmp)).failure().contains("No space left"));
}

#[test]
fn a_migration_that_prints_for_ever_is_stopped() {
    let mut release = Release::with(&sh("exec yes"));
    release.limits.output = 1 << 20;
    assert!(release.failure().contains("printed more than 1048576 bytes on stdout"));
    assert_no_process_of(&release);
}

#[test]
fn a_migration_that_complains_for_ever_ends_with_its_time() {
    let mut release = Release::with(&sh("yes complaint >&2"));
    release.limits.time = Duration::from_millis(500);
    let failure = release.failure();
    assert!(failure.contains("did not end within 0.5 s") && failure.len() < 20_000, "{}", failure.len());
}

#[test]
fn a_migration_that_never_ends_is_stopped_with_everything_it_started() {
    for body in [
        "sleep 600",
        "trap '' TERM INT HUP; while :; do sleep 1; done",
        "setsid sleep 600 & setsid setsid sleep 600 & sleep 600",
        "kill -STOP $$",
    ] {
        let mut release = Release::with(&sh(body));
        release.limits.time = Duration::from_millis(300);
        assert!(release.failure().contains("did not end within 0.3 s"), "{body}");
        assert_no_process_of(&release);
    }
}

#[test]
fn what_it_leaves_running_ends_with_it() {
    let release = Release::with(&sh(&format!("setsid sleep 600 >/dev/null 2>&1 & echo '{EMPTY}'")));
    release.run(json!({})).unwrap();
    assert_no_process_of(&release);
}

#[test]
fn a_store_that_grows_without_end_is_stopped() {
    let mut release = Release::with(&sh("cat /dev/zero > stores/metadata.v2"));
    release.limits.store = 1 << 20;
    let failure = release.failure();
    assert!(
        failure.contains("File too large") || failure.contains("signal 25") || failure.contains("code 153"),
        "{failure}"
    );
}

#[test]
fn the_tools_for_climbing_out_are_taken_away() {
    for (attempt, errors) in [
        ("import ctypes; c = ctypes.CDLL(None, use_errno=True); r = c.unshare(0x10000000)", "1"),
        (
            "import ctypes; c = ctypes.CDLL(None, use_errno=True); r = c.mount(b'none', b'/tmp', b'tmpfs', 0, None)",
            "1",
        ),
        ("import ctypes; c = ctypes.CDLL(None, use_errno=True); r = c.ptrace(16, 1, 0, 0)", "1"),
        ("import ctypes; c = ctypes.CDLL(None, use_errno=True); r = c.chroot(b'/')", "1"),
        ("import ctypes; c = ctypes.CDLL(None, use_errno=True); r = c.syscall(425, 8, 0)", "1"),
        ("import ctypes; c = ctypes.CDLL(None, use_errno=True); r = c.syscall(321, 0, 0, 0)", "1"),
    ] {
        let body = format!(
            "{attempt}\nprint('answer', r, 'errno', ctypes.get_errno(), file=sys.stderr); sys.exit(1)"
        );
        let failure = Release::with(&python(&body)).failure();
        assert!(failure.contains(&format!("answer -1 errno {errors}")), "{attempt}: {failure}");
    }
    let caps =
        Release::with(&sh("grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp:' /proc/self/status >&2; exit 1"))
            .failure();
    assert!(caps.contains("NoNewPrivs:\\t1") && caps.contains("Seccomp:\\t2"), "{caps}");
    // chown, dac_override, fowner, fsetid, kill, setgid, setuid; an ordinary user has none.
    assert!(
        caps.contains("CapEff:\\t00000000000000fb") || caps.contains("CapEff:\\t0000000000000000"),
        "{caps}"
    );
}

#[test]
fn a_running_executable_is_ended_when_it_is_asked_to_stop() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let release = Release::with(&sh("sleep 600"));
    let stopper = std::thread::spawn(|| {
        std::thread::sleep(Duration::from_millis(200));
        STOP.store(true, Ordering::Relaxed);
    });
    let error =
        release.run_with(json!({}), &Options { stop: Some(&STOP), ..Options::default() }).unwrap_err();
    stopper.join().unwrap();
    assert_eq!(error.exit(), Exit::Interrupted);
    assert_no_process_of(&release);
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The tests of this file once more, in a copy of this program that is somebody else.
fn again(launcher: &[&str], only: &[&str]) {
    use std::process::Command;
    let scratch = Scratch::new();
    let program = scratch.0.join("tests");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    fs::set_permissions(&scratch.0, fs::Permissions::from_mode(0o755)).unwrap();
    let own = scratch.dir("own");
    fs::set_permissions(&own, fs::Permissions::from_mode(0o777)).unwrap();
    let run = Command::new(launcher[0])
        .args(&launcher[1..])
        .arg(&program)
        .args(only)
        .args(["--skip", "once_more", "--test-threads", "2"])
        .env("TMPDIR", &own)
        .current_dir(&own)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    println!("{said}");
    assert!(run.status.success(), "{said}\n{}", String::from_utf8_lossy(&run.stderr));
    assert!(!said.contains("running 0 tests"));
}

#[test]
fn once_more_as_an_ordinary_user() {
    if !is_root() {
        eprintln!("left out: this is an ordinary user already");
        return;
    }
    again(&["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"], &["executable::"]);
}

/// As in a container that may make no namespaces: Landlock and the filter are all there is.
#[test]
fn once_more_without_namespaces_the_walls_stand() {
    if !is_root() {
        eprintln!("left out: only root can take namespaces away");
        return;
    }
    let take_away = "echo 0 > /proc/sys/user/max_pid_namespaces && exec \"$@\"";
    again(
        &["unshare", "--user", "--map-root-user", "sh", "-c", take_away, "sh"],
        &[
            "executable::a_migration_that_opens_a_socket",
            "executable::a_migration_that_writes_elsewhere",
            "executable::a_migration_that_removes_or_renames",
            "executable::a_secret_file",
            "executable::an_executable_gets",
            "executable::stores_are",
            "executable::a_migration_that_prints_for_ever",
        ],
    );
}

/// Every process of a migration has its own directory as its working directory, or had it.
fn assert_no_process_of(release: &Release) {
    let own = release.scratch.0.to_str().unwrap().to_owned();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        if let Ok(cwd) = fs::read_link(entry.path().join("cwd")) {
            assert!(!cwd.to_string_lossy().contains(&own), "{} is still there", entry.path().display());
        }
    }
}
