//! `scripts/shared-checkout`: clones build in one place, at one path, and never two of them in the same place.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A repository with the scripts under test, and a cache directory of its own.
struct Ground {
    root: PathBuf,
}

impl Ground {
    fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("holdfast-{name}-{}", std::process::id()));
        let scripts = root.join("origin/scripts");
        fs::create_dir_all(&scripts).unwrap();
        for script in ["shared-checkout", "steps"] {
            let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts").join(script);
            fs::copy(from, scripts.join(script)).unwrap();
        }
        let ground = Self { root };
        ground.git("origin", &["init", "-q"]);
        ground.commit("changes", "1");
        ground
    }

    fn git(&self, repository: &str, words: &[&str]) {
        let identity = ["-c", "user.name=test", "-c", "user.email=test@example.org"];
        let mut command = Command::new("git");
        command.arg("-C").arg(self.root.join(repository)).args(identity).args(words);
        assert!(command.status().unwrap().success(), "git {words:?}");
    }

    fn commit(&self, file: &str, content: &str) {
        fs::write(self.root.join("origin").join(file), content).unwrap();
        fs::write(self.root.join("origin/stays"), "the same").unwrap();
        self.git("origin", &["add", "-A"]);
        self.git("origin", &["commit", "-q", "-m", content]);
    }

    /// Runs shell commands in the shared checkout of a fresh clone.
    fn start(&self, clone: &str, script: &str) -> Child {
        self.git(".", &["clone", "-q", "origin", clone]);
        Command::new(self.root.join(clone).join("scripts/shared-checkout"))
            .args(["sh", "-c", script])
            .env("HOLDFAST_CACHE", self.root.join("cache"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn run(&self, clone: &str, script: &str) -> String {
        output(self.start(clone, script))
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn output(child: Child) -> String {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_fresh_clone_is_built_at_the_same_path_and_only_what_differs_is_new() {
    let ground = Ground::new("clones");
    let look =
        "pwd; echo $CARGO_TARGET_DIR; stat -c %y stays; stat -c %y changes; cat changes; touch left-behind";
    let first = ground.run("clone-1", look);
    ground.commit("changes", "2");
    let second = ground.run("clone-2", &format!("test ! -e left-behind && {look}"));
    let (first, second): (Vec<_>, Vec<_>) = (first.lines().collect(), second.lines().collect());
    assert_eq!(first[..3], second[..3], "path, build directory and the file that stays");
    assert_ne!(first[3], second[3], "the file that changes");
    assert_eq!((first[4], second[4]), ("1", "2"));
}

#[test]
fn two_clones_at_the_same_time_have_a_checkout_and_a_build_directory_each() {
    let ground = Ground::new("at-once");
    let go_on = ground.root.join("go-on");
    // Each waits for the other, so that both run at the same time.
    let wait = format!(
        "echo $PWD $CARGO_TARGET_DIR; touch {0}.$CLONE; until test -e {0}.1 && test -e {0}.2; do sleep 0.05; done",
        go_on.display()
    );
    let runs =
        ["1", "2"].map(|clone| ground.start(&format!("clone-{clone}"), &format!("CLONE={clone}; {wait}")));
    let [first, second] = runs.map(output);
    for (one, other) in first.split_whitespace().zip(second.split_whitespace()) {
        assert_ne!(one, other);
    }
    // Afterwards the first place is free again.
    let place = ground.run("clone-3", "pwd");
    assert!(first.contains(place.trim()) || second.contains(place.trim()), "{place}");
}

#[test]
fn the_directory_is_safe_to_delete() {
    let ground = Ground::new("deleted");
    ground.run("clone-1", "true");
    fs::remove_dir_all(ground.root.join("cache")).unwrap();
    assert_eq!(ground.run("clone-2", "cat changes"), "1");
}
