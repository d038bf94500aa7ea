//! The programs that guard runs to bring data from one version to the next: what they are told, and what those of a
//! directory are kept from.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use guard::{Migration, MigrationPrograms};
use logic::version::Version;

struct Device(PathBuf);

impl Device {
    fn new(name: &str) -> Self {
        let dir =
            std::env::temp_dir().join(format!("holdfast-guard-migration-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        for below in ["data", "migrations", "elsewhere"] {
            fs::create_dir_all(dir.join(below)).unwrap();
        }
        Self(dir)
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.join(below)
    }

    fn script(&self, name: &str, body: &str) -> PathBuf {
        let path = self.path("migrations").join(name);
        fs::write(&path, format!("#!/bin/sh\nset -eu\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn run(&self, what: MigrationPrograms, sandbox: bool) -> Result<String, String> {
        let [from, to] = ["4.14.0", "4.15.0"].map(|text| Version::parse(text).unwrap());
        Migration { what, timeout: Some(Duration::from_secs(60)), sandbox }.run(
            &self.path("data"),
            &from,
            &to,
            None,
        )
    }

    fn run_directory(&self, sandbox: bool) -> Result<String, String> {
        self.run(MigrationPrograms::Directory(self.path("migrations")), sandbox)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn every_program_of_a_directory_changes_the_data_and_is_told_the_versions() {
    for sandbox in [true, false] {
        let device = Device::new(&format!("contract-{sandbox}"));
        device.script(
            "10-first",
            r#"test "$1" = "$HOLDFAST_DATA_DIR"; test "$2" = "$HOLDFAST_FROM_VERSION"; test "$3" = "$HOLDFAST_TO_VERSION"
            echo "$2 to $3" > "$1/log"; mkdir "$1/dir"; chmod 700 "$1/dir"; chown 12:34 "$1/dir" 2>/dev/null || true
            echo first"#,
        );
        device.script("20-second", r#"echo again >> "$1/log"; rm -r "$1/dir"; echo second >&2"#);
        let printed = device.run_directory(sandbox).unwrap();
        assert!(printed.contains("first") && printed.contains("second"), "{printed}");
        assert_eq!(read(&device.path("data/log")), "4.14.0 to 4.15.0\nagain\n");
    }
}

#[test]
fn a_program_of_a_directory_changes_nothing_else_and_has_no_network() {
    let device = Device::new("walls");
    let outside = device.path("elsewhere/file");
    device.script("10-writes", &format!("echo x > {}", outside.display()));
    assert!(device.run_directory(true).is_err());
    assert!(!outside.exists());
    device.run_directory(false).unwrap();
    assert_eq!(read(&outside), "x\n", "without the sandbox it can");

    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let connects = format!(
        "exec /usr/bin/python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)'"
    );
    device.script("10-writes", &connects);
    let said = device.run_directory(true).unwrap_err();
    assert!(said.contains("Operation not permitted"), "{said}");
    device.run_directory(false).unwrap();
}

#[test]
fn a_command_is_trusted_whatever_the_setting() {
    let device = Device::new("command");
    let outside = device.path("elsewhere/file");
    let program = device.script("any", &format!("echo x > {}", outside.display()));
    device.run(MigrationPrograms::Command(vec![program.into()]), true).unwrap();
    assert_eq!(read(&outside), "x\n");
}

#[test]
fn a_program_that_fails_is_quoted_and_what_it_started_ends() {
    let device = Device::new("fails");
    device.script("10-fails", "setsid sleep 600 >/dev/null 2>&1 & echo 'no idea' >&2; exit 3");
    let said = device.run_directory(true).unwrap_err();
    assert!(said.contains("10-fails") && said.contains("exit code 3") && said.contains("no idea"), "{said}");
}
