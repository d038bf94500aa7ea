//! The real `gpg`, with a home of its own for each test.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

pub struct Gpg {
    home: PathBuf,
}

impl Default for Gpg {
    fn default() -> Self {
        Self::new()
    }
}

impl Gpg {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        // The agent's socket lives there, and the path of a socket must be short.
        let home = std::env::temp_dir().join(format!("hf-gpg-{}-{n}", std::process::id()));
        fs::create_dir_all(&home).expect("gpg works");
        fs::set_permissions(&home, fs::Permissions::from_mode(0o700)).expect("gpg works");
        Self { home }
    }

    pub fn run(&self, arguments: &[&str], input: &[u8]) -> Vec<u8> {
        let input_file = self.home.join("input");
        fs::write(&input_file, input).expect("gpg works");
        let output = Command::new("gpg")
            .args([
                "--batch",
                "--yes",
                "--quiet",
                "--no-tty",
                "--pinentry-mode",
                "loopback",
                "--passphrase",
                "",
            ])
            .args(arguments)
            .env("GNUPGHOME", &self.home)
            .stdin(fs::File::open(&input_file).expect("gpg works"))
            .stderr(Stdio::piped())
            .output()
            .expect("gpg is installed");
        assert!(output.status.success(), "gpg {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// For programs that start gpg themselves.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// A key that signs; its fingerprint.
    pub fn key(&self, name: &str, algorithm: &str, expires: &str) -> String {
        self.run(&["--quick-generate-key", name, algorithm, "sign", expires], b"");
        self.fingerprint(name)
    }

    pub fn fingerprint(&self, name: &str) -> String {
        let listing =
            String::from_utf8(self.run(&["--with-colons", "--list-keys", name], b"")).expect("gpg works");
        let line = listing.lines().find(|line| line.starts_with("fpr:")).expect("gpg works");
        line.split(':').nth(9).expect("gpg works").to_owned()
    }

    pub fn export(&self, name: &str) -> Vec<u8> {
        self.run(&["--armor", "--export", name], b"")
    }

    pub fn sign(&self, name: &str, content: &[u8]) -> Vec<u8> {
        self.run(&["--local-user", name, "--sign"], content)
    }
}

impl Drop for Gpg {
    fn drop(&mut self) {
        let _ = Command::new("gpgconf").args(["--kill", "all"]).env("GNUPGHOME", &self.home).status();
        let _ = fs::remove_dir_all(&self.home);
    }
}
