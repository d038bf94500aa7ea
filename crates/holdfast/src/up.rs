//! `holdfast up`: all parts on this machine, in the foreground, with one log.
//!
//! Each part is this program again, as its own unit would start it: what works here works there, and a part that fails takes
//! no other with it. What is not configured is not started, and the log says so.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use disk::Lock;
use logic::exit::Exit;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;

use crate::cli::Global;
use crate::config::{self, Config};
use crate::failure::{Failure, Result};

#[derive(Debug, Args)]
pub struct UpCommand {
    /// Leave a part out: graph, images, storage, agent; may be given again
    #[arg(long, value_name = "PART")]
    without: Vec<String>,
}

/// After a part ended by itself.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// One that ran this long has come up.
const CAME_UP: Duration = Duration::from_secs(30);
/// For a part to end when it is told to; an update that is being applied is not cut short by it.
const PATIENCE: Duration = Duration::from_secs(120);
/// For what a part said last to arrive; whoever has inherited its streams is not waited for.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Between two looks whether there is an appliance by now.
const LOOK: Duration = Duration::from_secs(2);
/// No line of a log is longer.
const LINE: usize = 16 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    name: &'static str,
    arguments: Vec<&'static str>,
    environment: BTreeMap<&'static str, String>,
    /// It is not started before that is there.
    waits_for: Option<Wanted>,
}

/// The appliance that the agent is for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    name: Option<String>,
    directory: PathBuf,
}

impl Wanted {
    /// Why the agent would end at once, and the way out.
    fn is_missing(&self, there: &[String]) -> Option<String> {
        let directory = self.directory.display();
        match (&self.name, there) {
            (Some(name), _) if there.contains(name) => None,
            (Some(name), _) => Some(format!(
                "there is no appliance {name} in {directory} yet; `holdfast appliance create {name}` makes it"
            )),
            (None, [_]) => None,
            (None, []) => Some(format!(
                "there is no appliance in {directory} yet; `holdfast appliance create` makes one"
            )),
            (None, _) => Some(format!(
                "there are {} appliances in {directory}; set appliance in [agent] and start this again",
                there.len()
            )),
        }
    }

    fn look(&self) -> Option<String> {
        match ::upgrade::names(&self.directory) {
            Ok(names) => self.is_missing(&names.iter().map(ToString::to_string).collect::<Vec<_>>()),
            // The agent says it better.
            Err(_) => None,
        }
    }
}

/// Where the graph of this machine is asked.
fn upstream(graph: &::graph::settings::Settings) -> String {
    let scheme = if graph.tls.is_some() { "https" } else { "http" };
    let path = match graph.path_prefix.as_str() {
        "" => String::new(),
        prefix => format!("{prefix}/v1/graph"),
    };
    format!("{scheme}://{}{path}", graph.listen)
}

/// Why a part is not for this machine; none: it is.
pub fn missing(part: &str, config: &Config) -> Option<&'static str> {
    match part {
        "graph" if config.graph.sources.is_empty() && config.graph.upstream.is_none() => {
            Some("no sources are set in [graph]")
        }
        "images" if config.images.disks.is_empty() => Some("no disks are set in [images]"),
        "storage" if config.storage.kubeconfig.is_none() => Some("no kubeconfig is set in [storage]"),
        _ => None,
    }
}

/// Which parts there are to run, and why the others are not.
fn parts(config: &Config, without: &[String]) -> (Vec<Part>, Vec<String>) {
    let (mut parts, mut left_out) = (vec![], vec![]);
    let mut part = |name: &'static str, arguments: &[&'static str]| {
        let left = without.iter().any(|other| other == name).then_some("--without");
        match left.or(missing(name, config)) {
            None => {
                let (arguments, environment) = (arguments.to_vec(), BTreeMap::new());
                parts.push(Part { name, arguments, environment, waits_for: None });
                true
            }
            Some(why) => {
                left_out.push(format!("{name} is left out: {why}"));
                false
            }
        }
    };
    let graph = part("graph", &["graph", "serve"]);
    let images = part("images", &["image", "serve"]);
    part("storage", &["storage", "controller"]);
    part("agent", &["agent", "run"]);
    if let Some(agent) = parts.iter_mut().find(|part| part.name == "agent") {
        let (name, directory) = (config.agent.appliance.clone(), config.upgrade.directory.clone());
        agent.waits_for = Some(Wanted { name, directory });
        if graph && config.agent.upstream.is_none() {
            agent.environment.insert("HOLDFAST_AGENT_UPSTREAM", upstream(&config.graph));
        }
        if images && config.agent.site.is_none() {
            let token = config.images.state.with_file_name("admin.token").display().to_string();
            agent.environment.insert("HOLDFAST_AGENT_SITE", format!("http://{}", config.images.listen));
            agent.environment.insert("HOLDFAST_AGENT_SITE_TOKEN", token);
            if let Some(disk) = config.images.disks.first() {
                agent.environment.insert("HOLDFAST_AGENT_SITE_DISK", disk.display().to_string());
            }
        }
    }
    (parts, left_out)
}

impl UpCommand {
    pub fn run(&self, global: &Global) -> Result<Exit> {
        const PARTS: [&str; 4] = ["graph", "images", "storage", "agent"];
        if let Some(other) = self.without.iter().find(|name| !PARTS.contains(&name.as_str())) {
            return Err(Failure::usage(
                format!("there is no part {other:?}"),
                format!("they are {}", PARTS.join(", ")),
            ));
        }
        let config = config::load(global.config.as_deref())?.config;
        let _only = only_one(&config)?;
        let (parts, left_out) = parts(&config, &self.without);
        let log = Log::default();
        for line in left_out {
            log.line("up", &line);
        }
        let program = std::env::current_exe()
            .map_err(|error| Failure::new(Exit::Unexpected, &error, "see that /proc is mounted"))?;
        let mut given: Vec<OsString> = vec![];
        if let Some(file) = &global.config {
            let file = std::path::absolute(file).map_err(|error| {
                Failure::new(Exit::Usage, &error, "give --config as a path from the root")
            })?;
            given.extend([OsString::from("--config"), file.into()]);
        }
        let runner = Arc::new(Runner { program: program.into(), given, log });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime
            .map_err(|error| Failure::new(Exit::Unexpected, &error, "see the limits on file descriptors"))?;
        runtime.block_on(async {
            let (stop, stopped) = watch::channel(false);
            runner.once("appliances", &["appliance", "start", "--wanted"]).await;
            let running: Vec<_> = parts
                .into_iter()
                .map(|part| tokio::spawn(Arc::clone(&runner).keep(part, stopped.clone())))
                .collect();
            service::notify("READY=1");
            service::terminated().await;
            service::notify("STOPPING=1");
            let _ = stop.send(true);
            for part in running {
                let _ = part.await;
            }
            runner.once("appliances", &["appliance", "stop", "--all"]).await;
        });
        Ok(Exit::Done)
    }
}

/// A second one would stop the appliances of the first.
fn only_one(config: &Config) -> Result<Lock> {
    let directory = &config.upgrade.directory;
    let unusable = |error: &dyn std::error::Error| Failure {
        exit: Exit::Usage,
        error: format!("{}: {error}", directory.display()),
        causes: vec![],
        hint: "see directory in [upgrade]; `holdfast up` needs the rights of whoever owns it".to_owned(),
    };
    std::fs::create_dir_all(directory).map_err(|error| unusable(&error))?;
    let lock = Lock::try_acquire(&directory.join("up.lock")).map_err(|error| unusable(&error))?;
    lock.ok_or_else(|| Failure {
        exit: Exit::TryAgain,
        error: format!("`holdfast up` runs already for {}", directory.display()),
        causes: vec![],
        hint: "`holdfast status` shows what it does".to_owned(),
    })
}

/// Whole lines, whoever writes them.
#[derive(Debug, Default)]
struct Log(Mutex<()>);

impl Log {
    fn line(&self, name: &str, text: &str) {
        let _one = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        eprintln!("{name}: {text}");
    }
}

struct Runner {
    program: OsString,
    given: Vec<OsString>,
    log: Log,
}

impl Runner {
    fn start(
        &self,
        arguments: &[&str],
        environment: &BTreeMap<&'static str, String>,
    ) -> std::io::Result<Child> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.given)
            .args(arguments)
            .envs(environment)
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Ctrl-C is for this one, which tells the others in their turn.
            .process_group(0);
        // Killed, it leaves nobody behind who would be in the way of the next one.
        service::end_with_us(&mut command, Signal::TERM);
        command.spawn()
    }

    async fn pass_on(&self, name: &str, from: Option<impl AsyncRead + Unpin>) {
        let Some(from) = from else { return };
        let mut reader = BufReader::with_capacity(LINE, from);
        let mut line = Vec::new();
        loop {
            line.clear();
            match reader.read_until(b'\n', &mut line).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {
                    let text = String::from_utf8_lossy(&line[..line.len().min(LINE)]);
                    self.log.line(name, text.trim_end());
                }
            }
        }
    }

    /// What is done once, and need not succeed.
    async fn once(&self, name: &'static str, arguments: &[&str]) {
        match self.start(arguments, &BTreeMap::new()) {
            // Appliances outlive it, and may have inherited its streams: its end is waited for, not theirs.
            Ok(child) => drop(self.to_its_end(name, child).await),
            Err(error) => self.log.line(name, &format!("can't be started: {error}")),
        }
    }

    /// Passes on what a child says until it has ended, with its last words.
    async fn to_its_end(&self, name: &str, mut child: Child) -> std::io::Result<ExitStatus> {
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let lines = async { tokio::join!(self.pass_on(name, out), self.pass_on(name, err)) };
        tokio::pin!(lines);
        let mut silent = false;
        let ended = loop {
            tokio::select! {
                ended = child.wait() => break ended,
                _ = &mut lines, if !silent => silent = true,
            }
        };
        if !silent {
            let _ = tokio::time::timeout(LAST_WORDS, &mut lines).await;
        }
        ended
    }

    /// Until what a part needs is there; says once what that is. True: it was told to stop meanwhile.
    async fn wait_for(&self, part: &Part, stopped: &mut watch::Receiver<bool>) -> bool {
        let mut said = None;
        while let Some(why) = part.waits_for.as_ref().and_then(Wanted::look) {
            if said.as_ref() != Some(&why) {
                self.log.line("up", &format!("{} waits: {why}", part.name));
                said = Some(why);
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                _ = stopped.wait_for(|stop| *stop) => return true,
            }
        }
        false
    }

    /// Runs a part again and again until it is told to stop.
    async fn keep(self: Arc<Self>, part: Part, mut stopped: watch::Receiver<bool>) {
        let mut pause = FIRST_PAUSE;
        loop {
            if self.wait_for(&part, &mut stopped).await {
                return;
            }
            let began = Instant::now();
            match self.start(&part.arguments, &part.environment) {
                Ok(child) => {
                    if self.watch(&part, child, &mut stopped).await {
                        return;
                    }
                }
                Err(error) => self.log.line(part.name, &format!("can't be started: {error}")),
            }
            if began.elapsed() >= CAME_UP {
                pause = FIRST_PAUSE;
            }
            self.log.line("up", &format!("{} is started again in {} s", part.name, pause.as_secs()));
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = stopped.wait_for(|stop| *stop) => return,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// True: it was told to stop, and has.
    async fn watch(&self, part: &Part, child: Child, stopped: &mut watch::Receiver<bool>) -> bool {
        let pid = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        let ending = self.to_its_end(part.name, child);
        tokio::pin!(ending);
        let told = tokio::select! {
            ended = &mut ending => {
                let how = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
                self.log.line("up", &format!("{} has ended: {how}", part.name));
                false
            }
            _ = stopped.wait_for(|stop| *stop) => true,
        };
        if !told {
            return false;
        }
        if let Some(pid) = pid {
            let _ = kill_process(pid, Signal::TERM);
        }
        if tokio::time::timeout(PATIENCE, ending).await.is_err() {
            self.log.line("up", &format!("{} does not end: it is left alone", part.name));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        toml::from_str(text).unwrap()
    }

    fn names(text: &str, without: &[&str]) -> Vec<&'static str> {
        let without: Vec<String> = without.iter().map(ToString::to_string).collect();
        parts(&config(text), &without).0.iter().map(|part| part.name).collect()
    }

    #[test]
    fn what_is_not_configured_is_not_started() {
        assert_eq!(names("", &[]), ["agent"]);
        let all = "[graph]\nsources=[\"oci:/x\"]\n[images]\ndisks=[\"/d\"]\n[storage]\nkubeconfig=\"/k\"\n";
        assert_eq!(names(all, &[]), ["graph", "images", "storage", "agent"]);
        assert_eq!(names(all, &["agent", "graph"]), ["images", "storage"]);
    }

    #[test]
    fn the_agent_waits_for_its_appliance_and_says_how_to_make_one() {
        let missing = |name: Option<&str>, there: &[&str]| {
            let there: Vec<String> = there.iter().map(ToString::to_string).collect();
            Wanted { name: name.map(str::to_owned), directory: "/d".into() }.is_missing(&there)
        };
        assert_eq!(missing(None, &["shop"]), None);
        assert_eq!(missing(Some("shop"), &["bar", "shop"]), None);
        for (name, there, why) in [
            (None, &[][..], "`holdfast appliance create` makes one"),
            (None, &["bar", "shop"], "there are 2 appliances in /d; set appliance in [agent]"),
            (Some("shop"), &["bar"], "`holdfast appliance create shop` makes it"),
        ] {
            let said = missing(name, there).unwrap();
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn the_agent_finds_its_neighbours_unless_it_is_told_of_others() {
        let text = "[graph]\nsources=[\"oci:/x\"]\nlisten=\"127.0.0.1:81\"\n[images]\ndisks=[\"/d\"]\nstate=\"/s/x.redb\"\n";
        let agent = |text: &str| parts(&config(text), &[]).0.pop().unwrap().environment;
        let environment = agent(text);
        assert_eq!(environment["HOLDFAST_AGENT_UPSTREAM"], "http://127.0.0.1:81");
        assert_eq!(environment["HOLDFAST_AGENT_SITE_TOKEN"], "/s/admin.token");
        let below = text.replace("[images]", "path-prefix=\"/x\"\n[images]");
        assert_eq!(agent(&below)["HOLDFAST_AGENT_UPSTREAM"], "http://127.0.0.1:81/x/v1/graph");
        let sealed = format!("{text}[graph.tls]\ncertificates=\"/c\"\nkey=\"/k\"\n");
        assert_eq!(agent(&sealed)["HOLDFAST_AGENT_UPSTREAM"], "https://127.0.0.1:81");
        let other = agent(&format!("{text}[agent]\nupstream=\"https://graph.example\"\n"));
        assert!(!other.contains_key("HOLDFAST_AGENT_UPSTREAM"));
    }
}
