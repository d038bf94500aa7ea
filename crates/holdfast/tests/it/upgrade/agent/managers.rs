//! Layers through the image managers of a site.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::processes::children;
use super::world::World;
use crate::upgrade::site::{Release, Slot};

/// A site of three disks, each with a manager of its own.
struct Managers {
    url: String,
    process: Child,
}

impl Managers {
    fn start(world: &mut World<Slot>) -> Self {
        let root = world.site.root.join("site");
        let disks = ["a", "b", "c"].map(|name| root.join(name));
        for disk in &disks {
            std::fs::create_dir_all(disk).unwrap();
        }
        let log = std::fs::File::create(root.join("log")).unwrap();
        let mut command = world.command(&["image", "serve", "--listen", "127.0.0.1:0"]);
        command.arg("--state").arg(root.join("state.redb"));
        for disk in &disks {
            command.arg("--disk").arg(disk);
        }
        command
            .env("HOLDFAST_IMAGES_ORIGIN__ALLOW_PRIVATE_HOSTS", format!("[{:?}]", world.registry().host()));
        let mut process = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let url = url.trim().to_owned();
        world.settings.push_str(&format!(
            "site = {url:?}\nsite-token = {:?}\nsite-disk = {:?}\n",
            root.join("admin.token"),
            disks[0]
        ));
        Self { url, process }
    }

    fn images(&self, world: &World<Slot>) -> Vec<Value> {
        let token = world.site.root.join("site/admin.token");
        let words =
            ["image", "ls", "-o", "json", "--server", &self.url, "--token-file", token.to_str().unwrap()];
        let listed = world.ends(&words, 0);
        let listed: Value = serde_json::from_str(&listed.out).unwrap();
        listed["items"].as_array().or(listed["images"].as_array()).cloned().unwrap_or_default()
    }
}

impl Drop for Managers {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let _ = self.process.wait();
    }
}

#[test]
fn layers_come_through_three_managers_also_when_all_are_killed_meanwhile() {
    let mut world = World::<Slot>::new().with_registry();
    let managers = Managers::start(&mut world);
    let second = Release::of(2).with_data(2);
    world.publish(&second);
    world.start_graph();
    world.automatic().start_agent();
    world.ends_as(&second, "completed");
    world.site.serves(&second);
    let images = managers.images(&world);
    assert_eq!(images.len(), 1, "{images:#?}\n{}", world.log());
    // Killed while they are to fetch, and fetch nothing, they come back; the agent has its layers all the same.
    let children = children(Pid::from_child(&managers.process));
    assert_eq!(children.len(), 3);
    let all = |signal| children.iter().for_each(|pid| kill_process(*pid, signal).unwrap());
    all(Signal::STOP);
    let third = Release::of(3).with_data(2).never_ready();
    world.publish(&third);
    world.site.wait("the managers are asked for its layer", || managers.images(&world).len() == 2);
    all(Signal::KILL);
    world.ends_as(&third, "rolled-back");
    world.site.serves(&second);
    world.nothing_left();
}
