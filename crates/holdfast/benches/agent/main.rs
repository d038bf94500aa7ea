//! The agent: what it costs while there is nothing to do, and what it adds to an update.

mod fleet;
#[path = "../table.rs"]
mod table;

use std::time::{Duration, Instant};

use fleet::Fleet;
use table::{Row, Wanted, median, write_section};

/// Ten minutes; a shorter look would not see that it asks only now and then.
const IDLE: Duration = Duration::from_secs(600);
const CPU: f64 = 0.1;
const MEMORY: u64 = 20 << 20;
const ROUNDS: u32 = 5;
const OVERHEAD: Duration = Duration::from_secs(1);

fn main() {
    let wanted = Wanted::from_arguments();
    let mut rows = vec![];
    if wanted.has("overhead") {
        rows.push(overhead());
    }
    if wanted.has("idle") {
        rows.extend(idle());
    }
    print!("{}", Row::table(&rows));
    write_section("agent", &rows, &wanted);
    if rows.iter().any(|row| !row.holds()) {
        eprintln!("a bar was missed");
        std::process::exit(1);
    }
}

/// From "published" to "running it" by the agent, and the same way by hand: fetched, migrated, switched, proven ready.
fn overhead() -> Row {
    let mut fleet = Fleet::new("250ms");
    let (mut by_hand, mut by_agent) = (vec![], vec![]);
    let mut number = 2;
    for _ in 0..ROUNDS {
        let release = fleet.release(number);
        fleet.stop_agent();
        let start = Instant::now();
        fleet.upgrade(&release);
        by_hand.push(start.elapsed());
        fleet.publish(number, &release);
        fleet.start_agent();
        fleet.until_it_knows(number);
        let next = fleet.release(number + 1);
        let start = Instant::now();
        fleet.publish(number + 1, &next);
        let published = start.elapsed();
        fleet.until_it_runs(number + 1);
        by_agent.push(start.elapsed().saturating_sub(published));
        number += 2;
    }
    let (by_hand, by_agent) = (median(&mut by_hand), median(&mut by_agent));
    let over = by_agent.saturating_sub(by_hand);
    Row {
        what: "overhead of the agent, from published to running".to_owned(),
        measured: format!("{:.2} s", over.as_secs_f64()),
        bar: format!("≤ {} s", OVERHEAD.as_secs()),
        detail: format!(
            "medians of {ROUNDS}: by the agent {:.2} s, `holdfast upgrade` of the same release {:.2} s; graph and agent look every 250 ms, as in `make run`",
            by_agent.as_secs_f64(),
            by_hand.as_secs_f64()
        ),
        holds: over <= OVERHEAD,
    }
    .said()
}

fn idle() -> Vec<Row> {
    let mut fleet = Fleet::new("3m30s");
    fleet.start_agent();
    std::thread::sleep(Duration::from_secs(10));
    let before = fleet.cpu_of_the_agent();
    std::thread::sleep(IDLE);
    let used = fleet.cpu_of_the_agent() - before;
    let memory = fleet.memory_of_the_agent();
    let minutes = IDLE.as_secs() / 60;
    vec![
        Row {
            what: format!("CPU of an idle agent in {minutes} minutes"),
            measured: format!("{used:.2} s"),
            bar: format!("≤ {CPU} s"),
            detail: "asks the graph every 3.5 minutes; from /proc, to a hundredth of a second".to_owned(),
            holds: used <= CPU,
        }
        .said(),
        Row {
            what: "memory of an idle agent".to_owned(),
            measured: format!("{:.1} MiB", memory as f64 / f64::from(1 << 20)),
            bar: format!("≤ {} MiB", MEMORY >> 20),
            detail: "resident, the program's own pages included".to_owned(),
            holds: memory <= MEMORY,
        }
        .said(),
    ]
}
