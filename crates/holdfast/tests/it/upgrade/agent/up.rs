//! `holdfast up`: all parts on one machine, with one log and one status.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::processes::{below, children, runs, words_of};
use super::world::World;
use crate::upgrade::site::{Done, Release, Slot};

/// A machine with a disk of a site, too.
struct Machine {
    world: World<Slot>,
    images_port: u16,
}

impl Machine {
    fn new() -> Self {
        Self { world: World::new(), images_port: testkit::ports::free_port() }
    }

    fn command(&self, words: &[&str]) -> Command {
        let images = self.world.site.root.join("images");
        fs::create_dir_all(images.join("disk")).unwrap();
        let mut command = self.world.command(words);
        command
            .env("HOLDFAST_IMAGES_DISKS", format!("[{:?}]", images.join("disk")))
            .env("HOLDFAST_IMAGES_STATE", images.join("state.redb"))
            .env("HOLDFAST_IMAGES_LISTEN", format!("127.0.0.1:{}", self.images_port));
        command
    }

    fn up(&self, words: &[&str]) -> Up {
        let log = self.world.site.root.join("up.log");
        let mut command = self.command(&[&["up"], words].concat());
        let process = command.stdout(Stdio::null()).stderr(fs::File::create(&log).unwrap()).spawn().unwrap();
        Up { process, log }
    }

    /// What `holdfast status` says of a service: what stands behind its name.
    fn status_of(&self, service: &str) -> String {
        let status = Done::by(self.command(&["status"]));
        assert_eq!(status.code, 0, "{status:?}");
        let line = status.out.lines().find(|line| line.split(' ').next() == Some(service));
        line.unwrap_or_else(|| panic!("{service}: {}", status.out)).to_owned()
    }
}

struct Up {
    process: Child,
    log: PathBuf,
}

impl Up {
    fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// The process of a part, once it runs.
    fn part(&self, words: &str) -> Option<Pid> {
        children(self.pid()).into_iter().find(|pid| words_of(*pid).ends_with(words))
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    #[track_caller]
    fn says(&self, line: &str) {
        assert!(self.log().lines().any(|said| said == line), "{line}\n{}", self.log());
    }

    /// Tells it to stop: it does, and so does everything below it.
    fn stop(mut self) {
        let all = below(self.pid());
        kill_process(self.pid(), Signal::TERM).unwrap();
        assert!(self.process.wait().unwrap().success(), "{}", self.log());
        let left: Vec<Pid> = all.into_iter().filter(|pid| runs(*pid)).collect();
        assert_eq!(left, [], "{}", self.log());
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        if self.process.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _ = kill_process(self.pid(), Signal::TERM);
            let _ = self.process.wait();
        }
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}

const PARTS: [(&str, &str); 3] =
    [("graph", "graph serve"), ("images", "image serve"), ("agent", "agent run")];

#[test]
fn what_dies_is_started_again_and_all_of_it_ends_together() {
    let mut machine = Machine::new();
    let (second, third) = (Release::of(2).with_data(2), Release::of(3).with_data(2));
    machine.world.publish(&second);
    machine.world.automatic();
    // Its appliances are started, too.
    machine.world.ends(&["appliance", "stop", "--all"], 0);
    let up = machine.up(&[]);
    machine.world.ends_as(&second, "completed");
    machine.world.site.serves(&second);
    for (part, words) in PARTS {
        let killed = up.part(words).unwrap_or_else(|| panic!("{part} does not run:\n{}", up.log()));
        kill_process(killed, Signal::KILL).unwrap();
        machine.world.site.wait("it runs again", || up.part(words).is_some_and(|pid| pid != killed));
        up.says(&format!("up: {part} has ended: signal: 9 (SIGKILL)"));
        up.says(&format!("up: {part} is started again in 1 s"));
    }
    machine.world.publish(&third);
    machine.world.ends_as(&third, "completed");
    machine.world.site.serves(&third);
    // One status.
    for service in ["graph", "images"] {
        machine.world.site.wait(service, || machine.status_of(service).ends_with(" answers"));
    }
    assert!(machine.status_of("running").ends_with("3.0.0"), "the agent");
    assert!(machine.status_of("shop").contains(&third.version()), "the appliance");
    // One log: whoever says something is named.
    up.says("up: storage is left out: no kubeconfig is set in [storage]");
    let names = ["up: ", "appliances: ", "graph: ", "images: ", "agent: "];
    for line in up.log().lines() {
        assert!(names.iter().any(|name| line.starts_with(name)), "{line:?}\n{}", up.log());
    }
    up.stop();
    assert_eq!(
        machine.world.site.get("/version").map(|answer| answer.body),
        None,
        "its appliances still run"
    );
    assert!(machine.status_of("graph").ends_with(" does not answer"));
}

#[test]
fn what_is_left_out_is_named_and_not_started() {
    let machine = Machine::new();
    let up = machine.up(&["--without", "graph", "--without", "agent"]);
    machine.world.site.wait("the only one runs", || up.part("image serve").is_some());
    up.says("up: graph is left out: --without");
    up.says("up: agent is left out: --without");
    assert_eq!((up.part("graph serve"), up.part("agent run")), (None, None));
    up.stop();
    let unknown = Done::by(machine.command(&["up", "--without", "grpah"]));
    assert_eq!(unknown.code, 2, "{unknown:?}");
    assert!(unknown.err.contains("graph, images, storage, agent"), "{unknown:?}");
}

#[test]
fn an_update_that_is_being_applied_comes_to_its_end_before_all_ends() {
    let mut machine = Machine::new();
    let broken = Release::of(2).with_data(2).never_ready();
    machine.world.publish(&broken);
    machine.world.automatic();
    let up = machine.up(&["--without", "images"]);
    machine.world.site.wait("it waits for the new one", || up.log().contains("prove-ready"));
    up.stop();
    assert_eq!(machine.world.attempts()[0]["outcome"], "rolled-back", "{:#}", machine.world.books());
    // What was on is on again at the next start.
    machine.world.ends(&["appliance", "start", "--wanted"], 0);
    machine.world.site.serves(&Release::of(1));
}

#[test]
fn the_agent_waits_for_its_appliance() {
    let machine = Machine::new();
    machine.world.ends(&["appliance", "rm", "shop", "--force"], 0);
    let up = machine.up(&["--without", "images"]);
    machine.world.site.wait("the other one runs", || up.part("graph serve").is_some());
    let directory = machine.world.site.appliances();
    machine.world.site.wait("it says what is missing", || up.log().contains("up: agent waits: "));
    up.says(&format!(
        "up: agent waits: there is no appliance shop in {} yet; `holdfast appliance create shop` makes it",
        directory.display()
    ));
    assert_eq!(up.part("agent run"), None);
    machine.world.site.create(&Release::of(1));
    machine.world.site.wait("it runs", || up.part("agent run").is_some());
    machine.world.until_the_agent_runs();
    up.stop();
}

#[test]
fn there_is_one_of_it_and_when_it_is_killed_its_parts_end() {
    let machine = Machine::new();
    let mut up = machine.up(&["--without", "images"]);
    machine.world.until_the_agent_runs();
    machine.world.site.wait("all runs", || up.part("graph serve").is_some());
    let second = Done::by(machine.command(&["up"]));
    assert_eq!(second.code, 75, "{second:?}");
    assert!(second.err.contains("`holdfast up` runs already"), "{second:?}");
    machine.world.site.serves(&Release::of(1));

    let parts = below(up.pid());
    up.process.kill().unwrap();
    up.process.wait().unwrap();
    machine.world.site.wait("its parts end", || !parts.iter().any(|pid| runs(*pid)));
    let up = machine.up(&["--without", "images"]);
    machine.world.until_the_agent_runs();
    up.stop();
}
