//! A site on links of 100 Mbit/s, each way: namespaces, a bridge between them, and a bucket for tokens at both ends of each
//! cable. Needs root, `ip` and `tc`.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::fixture::{Manager, Site, content};

const BITS_PER_SECOND: f64 = 100e6;

/// So many receivers, each on its own link, get the same image at once, and each has all of it in the end. Returns how long
/// that took, and how long one transfer takes at the speed of the link.
pub async fn receive_at_once(receivers: usize, size: usize) -> (Duration, Duration) {
    assert!(rustix::process::geteuid().is_root(), "needs root: `make` uses sudo where it works");
    let bytes = content(50, size);
    let site = Site::new(bytes.clone());
    // The image comes to the first disk before its cable is plugged in.
    let mut first = site.manager("m0");
    first.calls.pull(site.pull(1)).await.unwrap();
    first.until_downloaded(1).await;
    first.kill();
    let network = Network::for_receivers(receivers);
    let (disk, id) = (first.disk.clone(), first.id.clone());
    let mut first = site.run(network.plug(&site, 0, "m0", &disk), "m0", &disk, &id);
    first.until_downloaded(1).await;
    let mut others: Vec<Manager> = Vec::new();
    for number in 1..=receivers {
        let name = format!("m{number}");
        let idle = site.manager(&name);
        let (disk, id) = (idle.disk.clone(), idle.id.clone());
        drop(idle);
        others.push(site.run(network.plug(&site, number, &name, &disk), &name, &disk, &id));
    }
    let peers: Vec<_> = others.iter().map(Manager::peer).chain([first.peer()]).collect();
    let begin = Instant::now();
    for other in &mut others {
        other.sync_with(1, peers.clone()).await.unwrap();
    }
    for other in &mut others {
        other.until_downloaded(1).await;
    }
    let taken = begin.elapsed();
    others.iter().for_each(|other| other.assert_has(1, &bytes));
    (taken, Duration::from_secs_f64(size as f64 * 8.0 / BITS_PER_SECOND))
}

/// Namespaces that are gone with the test.
struct Network {
    tag: String,
    receivers: usize,
}

impl Network {
    fn for_receivers(receivers: usize) -> Self {
        let network = Self { tag: format!("hf{}", std::process::id() % 100_000), receivers };
        let (switch, tag) = (network.switch(), &network.tag);
        run(&["ip", "netns", "add", &switch]);
        run(&["ip", "-n", &switch, "link", "add", "bridge", "type", "bridge"]);
        run(&["ip", "-n", &switch, "link", "set", "bridge", "up"]);
        // The test itself, in the controllers' place, is plugged in as well.
        run(&["ip", "link", "add", tag, "type", "veth", "peer", "name", "test", "netns", &switch]);
        run(&["ip", "-n", &switch, "link", "set", "test", "master", "bridge", "up"]);
        run(&["ip", "address", "add", "10.177.0.1/24", "dev", tag]);
        run(&["ip", "link", "set", tag, "up"]);
        network
    }

    fn switch(&self) -> String {
        format!("{}s", self.tag)
    }

    /// A manager with a cable of its own.
    fn plug(&self, site: &Site, number: usize, name: &str, disk: &Path) -> Command {
        let (switch, space, port) =
            (self.switch(), format!("{}n{number}", self.tag), format!("port{number}"));
        run(&["ip", "netns", "add", &space]);
        run(&[
            "ip", "-n", &switch, "link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns",
            &space,
        ]);
        run(&["ip", "-n", &switch, "link", "set", &port, "master", "bridge", "up"]);
        run(&["ip", "-n", &space, "address", "add", &format!("10.177.0.{}/24", number + 2), "dev", "eth0"]);
        run(&["ip", "-n", &space, "link", "set", "eth0", "up"]);
        run(&["ip", "-n", &space, "link", "set", "lo", "up"]);
        shape(&space, "eth0");
        shape(&switch, &port);
        site.command_in(&space, &format!("10.177.0.{}:0", number + 2), name, disk)
    }
}

/// What leaves by a device does so at the link's speed.
pub fn shape(space: &str, device: &str) {
    // A bucket that holds what the kernel sends at once: otherwise each packet is cut up, and the processor is measured.
    run(&[
        "tc", "-n", space, "qdisc", "add", "dev", device, "root", "tbf", "rate", "100mbit", "burst", "256kb",
        "latency", "50ms",
    ]);
}

impl Drop for Network {
    fn drop(&mut self) {
        let spaces =
            (0..=self.receivers).map(|number| format!("{}n{number}", self.tag)).chain([self.switch()]);
        for space in spaces {
            let _ = Command::new("ip").args(["netns", "del", &space]).output();
        }
        let _ = Command::new("ip").args(["link", "del", &self.tag]).output();
    }
}

pub fn run(words: &[&str]) {
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}
