//! Fifteen receivers on links of 100 Mbit/s, against one transfer over such a link.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::fixture::{MIB, content};
use crate::network::{self, run, shape};
use crate::table::{Row, Wanted};

const WHAT: &str = "256 MiB to 15 receivers on links of 100 Mbit/s";
const RECEIVERS: usize = 15;
const SIZE: usize = 256 * MIB;
const ROUNDS: usize = 3;
const SERVER: &str = "10.178.0.1";
const PORT: &str = "8080";
/// Until the server listens.
const TRIES: u32 = 100;

pub async fn rows(dir: &Path, wanted: &Wanted) -> Vec<Row> {
    if !wanted.has(WHAT) {
        return vec![];
    }
    let (mut ours, mut one) = (vec![], vec![]);
    for _ in 0..ROUNDS {
        one.push(one_transfer(dir));
        ours.push(network::receive_at_once(RECEIVERS, SIZE).await.0);
    }
    vec![Row::ratio(WHAT, &mut ours, &mut one, 1.2, ("all ready", "one transfer by curl over such a link"))]
}

/// By the tools that one would use. The heads of packets take their part of the link here, too.
fn one_transfer(dir: &Path) -> Duration {
    let files = dir.join("shaped");
    fs::create_dir_all(&files).expect("a directory");
    fs::write(files.join("image"), content(50, SIZE)).expect("room for it");
    let cable = Cable::new();
    let mut command = cable.at(&cable.server);
    command.args(["python3", "-m", "http.server", PORT, "--bind", SERVER, "--directory"]).arg(&files);
    let _server = Server(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("python3 runs"));
    let url = |name: &str| format!("http://{SERVER}:{PORT}/{name}");
    let curl = |name: &str| {
        let mut command = cable.at(&cable.client);
        command.args(["curl", "-sf", "-o"]).arg(dir.join("curled")).arg(url(name));
        command.status().expect("curl runs").success()
    };
    let listens = (0..TRIES).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        curl("")
    });
    assert!(listens, "nobody listens");
    let begin = Instant::now();
    assert!(curl("image"), "curl failed");
    let took = begin.elapsed();
    fs::remove_dir_all(&files).expect("what was served");
    took
}

/// Two hosts, and a cable between them.
struct Cable {
    server: String,
    client: String,
}

impl Cable {
    fn new() -> Self {
        let end = |name| format!("hf{}{name}", std::process::id() % 100_000);
        let cable = Self { server: end("x"), client: end("y") };
        for space in [&cable.server, &cable.client] {
            run(&["ip", "netns", "add", space]);
        }
        run(&[
            "ip",
            "-n",
            &cable.server,
            "link",
            "add",
            "eth0",
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            &cable.client,
        ]);
        for (space, address) in [(&cable.server, "10.178.0.1/24"), (&cable.client, "10.178.0.2/24")] {
            run(&["ip", "-n", space, "address", "add", address, "dev", "eth0"]);
            run(&["ip", "-n", space, "link", "set", "eth0", "up"]);
            shape(space, "eth0");
        }
        cable
    }

    fn at(&self, space: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", space]);
        command
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for space in [&self.server, &self.client] {
            let _ = Command::new("ip").args(["netns", "del", space]).output();
        }
    }
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
