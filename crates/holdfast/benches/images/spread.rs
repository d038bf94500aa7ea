//! From one manager to others: time, processor, memory, and what is sent twice.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::fixture::{MIB, Manager, Site, content, image};
use crate::origin::Origin;
use crate::proxy::Proxy;
use crate::pull::curl;
use crate::table::{Row, Wanted};

/// Of `/proc`, on every Linux.
const TICKS_PER_SECOND: u64 = 100;
const GIB: usize = 1024 * MIB;
const ROUNDS: usize = 3;

const SPREAD: &str = "the same image to 3 more managers";
const CPU: &str = "CPU of a receiving manager";
const MEMORY: &str = "memory of a manager while it sends and receives";
const AGAIN: &str = "bytes sent again after kill -9 of a receiver at half-way";

pub async fn rows(dir: &Path, wanted: &Wanted) -> Vec<Row> {
    let mut rows = vec![];
    if wanted.has(SPREAD) || wanted.has(MEMORY) {
        rows.extend(spread(dir).await);
    }
    if wanted.has(CPU) {
        rows.push(cpu().await);
    }
    if wanted.has(AGAIN) {
        rows.push(again().await);
    }
    rows
}

/// Nothing of the round before is still on its way to the disk.
pub fn settle() {
    rustix::fs::sync();
}

async fn spread(dir: &Path) -> Vec<Row> {
    let bytes = content(60, GIB);
    let file = dir.join("spread");
    fs::write(&file, &bytes).unwrap();
    let origin = Origin::of(&file);
    let site = Site::new(bytes);
    let mut first = site.manager("first");
    first.calls.pull(site.pull(1)).await.unwrap();
    first.until_downloaded(1).await;
    let mut others: Vec<Manager> = (0..3).map(|number| site.manager(&format!("m{number}"))).collect();
    let peers: Vec<_> = others.iter().map(Manager::peer).chain([first.peer()]).collect();
    let (mut ours, mut theirs, mut most) = (vec![], vec![], 0);
    for _ in 0..ROUNDS {
        settle();
        theirs.push(curl(&origin, dir));
        settle();
        let begin = Instant::now();
        for other in &mut others {
            other.sync_with(1, peers.clone()).await.unwrap();
        }
        for other in &mut others {
            other.until_downloaded(1).await;
        }
        ours.push(begin.elapsed());
        for other in &mut others {
            most = most.max(peak(other.pid()));
            let request = wire::images::DeleteRequest { image: Some(image(1)) };
            other.calls.delete(request).await.unwrap();
        }
    }
    most = most.max(peak(first.pid()));
    vec![
        Row::ratio(SPREAD, &mut ours, &mut theirs, 2.5, ("all ready", "curl")),
        Row {
            what: MEMORY.to_owned(),
            measured: format!("{} MiB", most >> 20),
            bar: "≤ 64 MiB".to_owned(),
            detail: "the largest of four managers".to_owned(),
            holds: most <= 64 << 20,
        }
        .said(),
    ]
}

async fn cpu() -> Row {
    let site = Site::new(content(61, GIB));
    let mut first = site.manager("first");
    first.calls.pull(site.pull(1)).await.unwrap();
    first.until_downloaded(1).await;
    let mut used = vec![];
    let mut receiver = site.manager("receiver");
    for _ in 0..ROUNDS {
        settle();
        let before = processor(receiver.pid());
        receiver.sync(1, &[&first]).await;
        receiver.until_downloaded(1).await;
        used.push(processor(receiver.pid()) - before);
        let request = wire::images::DeleteRequest { image: Some(image(1)) };
        receiver.calls.delete(request).await.unwrap();
    }
    let seconds = crate::table::median(&mut used).as_secs_f64();
    Row {
        what: CPU.to_owned(),
        measured: format!("{seconds:.2} s per GiB"),
        bar: "≤ 1.2 s per GiB".to_owned(),
        detail: "with TLS, verification and syncing; user and system".to_owned(),
        holds: seconds <= 1.2,
    }
    .said()
}

async fn again() -> Row {
    let site = Site::new(content(62, GIB));
    let mut first = site.manager("first");
    first.calls.pull(site.pull(1)).await.unwrap();
    first.until_downloaded(1).await;
    let proxy = Proxy::to(&first);
    let mut receiver = site.manager("receiver");
    receiver.sync_with(1, vec![proxy.peer(&first)]).await.unwrap();
    receiver.until_partly(1, GIB / 2).await;
    site.restart(&mut receiver);
    receiver.sync_with(1, vec![proxy.peer(&first)]).await.unwrap();
    receiver.until_downloaded(1).await;
    let again = proxy.passed().saturating_sub(GIB as u64);
    Row {
        what: AGAIN.to_owned(),
        measured: format!("{} MiB", again >> 20),
        bar: "≤ 64 MiB".to_owned(),
        detail: "of 1 GiB, all that the network carried beyond it".to_owned(),
        holds: again <= 64 << 20,
    }
    .said()
}

/// The most memory that a process ever had.
fn peak(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// User and system time of a process so far.
fn processor(pid: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = |at: usize| fields.split_whitespace().nth(at).unwrap().parse::<u64>().unwrap();
    Duration::from_millis((ticks(11) + ticks(12)) * 1000 / TICKS_PER_SECOND)
}
