//! Graph data in a git repository, by the `git` program.
//!
//! Nothing is checked out: files are read from the commit itself, so there are no hooks, filters, links or submodules
//! that could do something. What a fetch may use is listed, not what it may not.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

use super::DataError;
use super::tree::{Kind, Tree};
use crate::settings::Limits;

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("{url:?} can't be used: {why}")]
    Url { url: String, why: &'static str },
    #[error("cannot run git")]
    Run(#[source] std::io::Error),
    #[error("git {command} took longer than {} s and was stopped", limit.as_secs())]
    Late { command: &'static str, limit: Duration },
    #[error("git {command} failed: {said}")]
    Failed { command: &'static str, said: String },
    #[error("git {command} said something unexpected")]
    Unexpected { command: &'static str },
    #[error("cannot make {}", path.display())]
    Cache { path: PathBuf, source: std::io::Error },
}

/// A repository and what is wanted of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitUrl {
    url: String,
    /// A branch or a tag; the repository's default where it is not given.
    branch: Option<String>,
}

impl GitUrl {
    /// `https://…`, `http://…`, `ssh://…`, `git://…` or `file://…`, with `#BRANCH` behind it if need be.
    pub fn parse(text: &str) -> Result<Self, GitError> {
        let bad = |why| GitError::Url { url: without_secrets(text), why };
        if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(bad("it has blanks in it"));
        }
        let (url, branch) = match text.split_once('#') {
            Some((url, branch)) => (url, Some(branch)),
            None => (text, None),
        };
        // Other schemes are programs that git runs: `ext::sh -c …`. An option begins with a dash.
        let schemes = ["https://", "http://", "ssh://", "git://", "file://"];
        let Some(rest) = schemes.iter().find_map(|scheme| url.strip_prefix(scheme)) else {
            return Err(bad("it must begin with https://, http://, ssh://, git:// or file://"));
        };
        if rest.is_empty() || rest.starts_with('-') {
            return Err(bad("there is no host or path in it"));
        }
        let strange = |c: char| !(c.is_alphanumeric() || "/._-+@".contains(c));
        if let Some(branch) = branch
            && (branch.is_empty()
                || branch.starts_with('-')
                || branch.contains("..")
                || branch.contains(strange))
        {
            return Err(bad("what follows # is not a branch"));
        }
        Ok(Self { url: url.to_owned(), branch: branch.map(str::to_owned) })
    }
}

/// Without the user and the password that may be in it.
fn without_secrets(url: &str) -> String {
    let url: String = url.chars().take(300).collect();
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let end = rest.find('/').unwrap_or(rest.len());
            let host = rest[..end].rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}{}", &rest[end..])
        }
        None => url,
    }
}

/// A repository of our own that holds what was fetched.
#[derive(Debug)]
pub struct Repository {
    url: GitUrl,
    directory: PathBuf,
}

impl Repository {
    pub fn new(url: GitUrl, directory: PathBuf) -> Self {
        Self { url, directory }
    }

    /// The commit and its files; None if it is still `last`.
    pub async fn read(
        &mut self,
        last: Option<&str>,
        limits: &Limits,
    ) -> Result<Option<(String, Tree)>, DataError> {
        let limit = limits.fetch_timeout.get();
        let first = self.read_once(last, limit, limits).await;
        if !matches!(first, Err(DataError::Git(GitError::Failed { .. } | GitError::Unexpected { .. }))) {
            return first;
        }
        // Either the repository can't be had, or what was fetched before is damaged. Nothing in it is worth a rescue.
        match std::fs::remove_dir_all(&self.directory) {
            Ok(()) => self.read_once(last, limit, limits).await,
            Err(source) => Err(DataError::Git(GitError::Cache { path: self.directory.clone(), source })),
        }
    }

    async fn read_once(
        &self,
        last: Option<&str>,
        limit: Duration,
        limits: &Limits,
    ) -> Result<Option<(String, Tree)>, DataError> {
        let commit = self.fetch(limit).await.map_err(DataError::Git)?;
        if last == Some(commit.as_str()) {
            return Ok(None);
        }
        let tree = self.tree(&commit, limit, limits).await?;
        Ok(Some((commit, tree)))
    }

    async fn fetch(&self, limit: Duration) -> Result<String, GitError> {
        let make = std::fs::create_dir_all(&self.directory);
        make.map_err(|source| GitError::Cache { path: self.directory.clone(), source })?;
        // Each time: it costs next to nothing, and mends what a crash left half made.
        self.run("init", &["--quiet", "--bare", "--template="], limit).await?;
        let wanted = self.url.branch.as_deref().unwrap_or("HEAD");
        let what = format!("+{wanted}:{FETCHED}");
        let options = ["--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--force", "--"];
        let arguments = [&options[..], &[self.url.url.as_str(), what.as_str()]].concat();
        self.run("fetch", &arguments, limit).await?;
        let commit = format!("{FETCHED}^{{commit}}");
        let said = self.run("rev-parse", &["--verify", "--end-of-options", &commit], limit).await?;
        let commit = String::from_utf8_lossy(&said).trim().to_owned();
        let fits = matches!(commit.len(), 40 | 64) && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        if fits { Ok(commit) } else { Err(GitError::Unexpected { command: "rev-parse" }) }
    }

    async fn tree(&self, commit: &str, limit: Duration, limits: &Limits) -> Result<Tree, DataError> {
        let arguments = [
            "-r",
            "-z",
            "--long",
            "--full-tree",
            commit,
            "--",
            "version",
            "channels",
            "blocked-edges",
            "raw",
        ];
        let listing = self.run("ls-tree", &arguments, limit).await.map_err(DataError::Git)?;
        let mut tree = Tree::default();
        let mut wanted = vec![];
        let mut total = 0_u64;
        for entry in listing.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
            let unexpected = || DataError::Git(GitError::Unexpected { command: "ls-tree" });
            let entry = String::from_utf8_lossy(entry);
            let (about, path) = entry.split_once('\t').ok_or_else(unexpected)?;
            let about: Vec<&str> = about.split_whitespace().collect();
            let [mode, _, object, size] = about[..] else { return Err(unexpected()) };
            let kind = Kind::of(path);
            if let Kind::Stray(why) = kind {
                tree.stray(path, why);
            }
            if !kind.is_read() {
                continue;
            }
            if !matches!(mode, "100644" | "100755") {
                tree.stray(path, "it is a link or a submodule");
                continue;
            }
            let size: u64 = size.parse().map_err(|_| unexpected())?;
            total = total.saturating_add(size);
            tree.admit(path, total, limits)?;
            wanted.push((path.to_owned(), object.to_owned(), size));
            if wanted.len() > limits.graph_data_files {
                return Err(DataError::TooManyFiles(limits.graph_data_files));
            }
        }
        let files = in_time("cat-file", limit, self.contents(wanted)).await.map_err(DataError::Git)?;
        files.into_iter().for_each(|(path, content)| tree.insert(path, content));
        Ok(tree)
    }

    /// The contents of all files by one process; their sizes are known and within limits.
    async fn contents(&self, wanted: Vec<(String, String, u64)>) -> Result<Vec<(String, Vec<u8>)>, GitError> {
        let mut command = self.command("cat-file", &["--batch"]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = Group(child.spawn().map_err(GitError::Run)?);
        let (Some(mut asking), Some(answers)) = (child.0.stdin.take(), child.0.stdout.take()) else {
            return Err(GitError::Unexpected { command: "cat-file" });
        };
        let questions: String = wanted.iter().map(|(_, object, _)| format!("{object}\n")).collect();
        // Beside reading: both pipes are short.
        let ask = tokio::spawn(async move { asking.write_all(questions.as_bytes()).await });
        let mut answers = BufReader::new(answers);
        let mut files = vec![];
        for (path, object, size) in wanted {
            let unexpected = || GitError::Unexpected { command: "cat-file" };
            let mut head = String::new();
            (&mut answers).take(200).read_line(&mut head).await.map_err(GitError::Run)?;
            if head.trim_end() != format!("{object} blob {size}") {
                return Err(unexpected());
            }
            let mut content = vec![0; usize::try_from(size).map_err(|_| unexpected())? + 1];
            answers.read_exact(&mut content).await.map_err(GitError::Run)?;
            content.pop(); // the line's end behind it
            files.push((path, content));
        }
        ask.abort();
        Ok(files)
    }

    async fn run(
        &self,
        name: &'static str,
        arguments: &[&str],
        limit: Duration,
    ) -> Result<Vec<u8>, GitError> {
        let mut command = self.command(name, arguments);
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Group(child.spawn().map_err(GitError::Run)?);
        let (Some(stdout), Some(stderr)) = (child.0.stdout.take(), child.0.stderr.take()) else {
            return Err(GitError::Unexpected { command: name });
        };
        let mut output = Vec::new();
        let mut complaint = Vec::new();
        let work = async {
            let mut stdout = stdout.take(OUTPUT_LIMIT);
            let mut stderr = stderr.take(COMPLAINT_LIMIT);
            let (out, err) =
                tokio::join!(stdout.read_to_end(&mut output), stderr.read_to_end(&mut complaint));
            out.and(err).map_err(GitError::Run)?;
            child.0.wait().await.map_err(GitError::Run)
        };
        let status = in_time(name, limit, work).await?;
        if status.success() && (output.len() as u64) < OUTPUT_LIMIT {
            return Ok(output);
        }
        let said =
            String::from_utf8_lossy(&complaint).replace(&self.url.url, &without_secrets(&self.url.url));
        let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let said = if lines.is_empty() { status.to_string() } else { lines.join("; ") };
        Err(GitError::Failed { command: name, said })
    }

    fn command(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        // Whoever runs this may itself run in a repository, such as in one of its hooks.
        for variable in
            ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"]
        {
            command.env_remove(variable);
        }
        command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_ASKPASS", "true").env("LC_ALL", "C");
        if std::env::var_os("GIT_SSH_COMMAND").is_none() {
            command.env("GIT_SSH_COMMAND", "ssh -oBatchMode=yes");
        }
        for setting in ["core.hooksPath=/dev/null", "gc.autoDetach=false", "protocol.allow=never"] {
            command.args(["-c", setting]);
        }
        let scheme = self.url.url.split("://").next().unwrap_or_default();
        command.args(["-c", &format!("protocol.{scheme}.allow=always")]);
        // One http address may lead to another; to nothing else.
        if scheme == "http" {
            command.args(["-c", "protocol.https.allow=always"]);
        }
        let directory: &Path = &self.directory;
        command.arg("--git-dir").arg(directory).arg(name).args(arguments).current_dir(directory);
        command.process_group(0).kill_on_drop(true);
        command
    }
}

/// What was fetched last.
const FETCHED: &str = "refs/holdfast/graph-data";
/// A listing of as many files as there may be.
const OUTPUT_LIMIT: u64 = 32 << 20;
const COMPLAINT_LIMIT: u64 = 16 << 10;

async fn in_time<T>(
    command: &'static str,
    limit: Duration,
    work: impl Future<Output = Result<T, GitError>>,
) -> Result<T, GitError> {
    tokio::time::timeout(limit, work).await.unwrap_or(Err(GitError::Late { command, limit }))
}

/// A process and all that it started; none of it outlives this.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        // None once it was waited for.
        let id = self.0.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(id) = id {
            let _ = rustix::process::kill_process_group(id, rustix::process::Signal::KILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_git_would_run_or_take_for_an_option_are_refused() {
        for text in [
            "",
            "-x",
            "--upload-pack=x",
            "ext::sh -c x",
            "ext::x",
            "fd::1",
            "https://",
            "https://-x",
            "ftp://h/p",
            "host:path",
            "/a/path",
            "https://h/p#",
            "https://h/p#-x",
            "https://h/p#a..b",
            "https://h/p#a:b",
            "https://h/p#a b",
            "https://h/p q",
        ] {
            assert!(GitUrl::parse(text).is_err(), "{text:?}");
        }
        let url = GitUrl::parse("ssh://git@host/graph.git#release/4.x").unwrap();
        assert_eq!(
            (url.url.as_str(), url.branch.as_deref()),
            ("ssh://git@host/graph.git", Some("release/4.x"))
        );
        assert_eq!(GitUrl::parse("https://host/graph").unwrap().branch, None);
    }

    #[test]
    fn secrets_of_an_address_are_not_told() {
        assert_eq!(without_secrets("https://me:secret@host/p@q"), "https://host/p@q");
        let error = GitUrl::parse("https://me:secret@host/p#-x").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
