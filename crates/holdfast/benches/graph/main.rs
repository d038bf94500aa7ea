//! The graph service against a bare hyper server: 1,000 releases on 4 architectures, 1,700 blocked edges, 76 channels.
//!
//! The comparison answers every request with one fixed body of the same mean size, on the same kind of runtime, in a
//! process of its own. `wrk` with 64 connections on loopback; both sides take turns, five rounds, medians. Words on
//! the command line are parts of what is measured: `building the graph`, `not yet made`, `plain`, `gzip`.

mod load;
mod servers;
#[path = "../table.rs"]
mod table;
mod world;

use std::time::{Duration, Instant};

use load::{Load, Run};
use servers::Server;
use table::{Row, Wanted, median, write_section};

const ROUNDS: u64 = 5;
const SECONDS: u64 = 4;

fn main() {
    if servers::asked_for() {
        return;
    }
    let dir = std::env::temp_dir().join(format!("holdfast-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let wanted = Wanted::from_arguments();
    let mut rows = vec![];
    if wanted.has("building the graph") {
        rows.push(build());
    }
    let mut ours = Server::ours();
    if wanted.has("not yet made") {
        rows.push(first_requests(&ours));
    }
    let mut asked = 0;
    for (gzip, form) in [(false, "plain"), (true, "gzip")] {
        if !wanted.has(form) {
            continue;
        }
        let normal = against_bare(&dir, &mut ours, gzip, &mut rows, &mut asked);
        if !gzip {
            rows.push(memory(&ours, asked));
            rows.extend(under_rebuild(&dir, &mut ours, normal, &mut asked));
        }
    }
    std::fs::remove_dir_all(&dir).expect("the directory is removed");
    print!("{}", Row::table(&rows));
    write_section("graph", &rows, &wanted);
    if rows.iter().any(|row| !row.holds()) {
        eprintln!("a bar was missed");
        std::process::exit(1);
    }
}

fn build() -> Row {
    const BAR: f64 = 1.0;
    let data = world::data();
    let mut times: Vec<Duration> = (0..ROUNDS)
        .map(|round| {
            let harvest = world::harvest(round);
            let started = Instant::now();
            let (graph, _) = logic::graph::build(harvest, &data);
            let took = started.elapsed();
            assert_eq!(graph.nodes().len(), world::SIZE.releases * world::SIZE.architectures);
            took
        })
        .collect();
    let (graph, _) = logic::graph::build(world::harvest(0), &data);
    let (plain, conditional) = graph.edge_count();
    let took = median(&mut times).as_secs_f64();
    Row {
        what: "building the graph, metadata already fetched".to_owned(),
        measured: format!("{took:.3} s"),
        bar: format!("≤ {BAR} s"),
        detail: format!("4,000 nodes, {plain} plain and {conditional} conditional edges"),
        holds: took <= BAR,
    }
    .said()
}

fn first_requests(ours: &Server) -> Row {
    const BAR: f64 = 2.0;
    let times = load::first_requests(&ours.address);
    let millis = |at: usize| times[at].as_secs_f64() * 1e3;
    let p99 = millis(times.len() * 99 / 100);
    Row {
        what: "a request whose window was not yet made, p99".to_owned(),
        measured: format!("{p99:.2} ms"),
        bar: format!("≤ {BAR} ms"),
        detail: format!(
            "of {} windows: median {:.2} ms, the slowest {:.2} ms",
            times.len(),
            millis(times.len() / 2),
            millis(times.len() - 1)
        ),
        holds: p99 <= BAR,
    }
    .said()
}

fn against_bare(
    dir: &std::path::Path,
    ours: &mut Server,
    gzip: bool,
    rows: &mut Vec<Row>,
    asked: &mut u64,
) -> Duration {
    let mut load = Load::new(dir, gzip);
    load.learn_head(&ours.address, gzip);
    let first = load.run(&ours.address, 2, 100);
    *asked += first.requests;
    let bare = Server::bare(first.body);
    load.run(&bare.address, 1, 101);
    let (mut ours_runs, mut bare_runs) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        bare_runs.push(load.run(&bare.address, SECONDS, round));
        ours_runs.push(load.run(&ours.address, SECONDS, round + 200 * u64::from(gzip)));
    }
    let failed: u64 = ours_runs.iter().map(|run| run.failed).sum();
    *asked += ours_runs.iter().map(|run| run.requests).sum::<u64>();
    let rate = |runs: &[Run]| median(&mut runs.iter().map(|run| run.per_second).collect::<Vec<_>>());
    let slow = |runs: &[Run]| median(&mut runs.iter().map(|run| run.p99).collect::<Vec<_>>());
    let form = if gzip { "gzip" } else { "plain" };
    let ratio = rate(&ours_runs) / rate(&bare_runs);
    let bars = (0.8, 3.0);
    rows.push(
        Row {
            what: format!("requests per second, {form}"),
            measured: format!("{ratio:.2}"),
            bar: format!("≥ {}", bars.0),
            detail: format!(
                "graph {:.0}, bare {:.0}; {} different questions, bodies of {} bytes, {failed} failed",
                rate(&ours_runs),
                rate(&bare_runs),
                load::questions(),
                first.body
            ),
            holds: ratio >= bars.0 && failed == 0,
        }
        .said(),
    );
    let (our_p99, bare_p99) = (slow(&ours_runs), slow(&bare_runs));
    let ratio = our_p99.as_secs_f64() / bare_p99.as_secs_f64();
    rows.push(
        Row {
            what: format!("p99 of the latency, {form}"),
            measured: format!("{ratio:.2}"),
            bar: format!("≤ {}", bars.1),
            detail: format!("graph {:.2} ms, bare {:.2} ms", millis(our_p99), millis(bare_p99)),
            holds: ratio <= bars.1,
        }
        .said(),
    );
    our_p99
}

/// A new graph about every second while clients ask.
fn under_rebuild(dir: &std::path::Path, ours: &mut Server, normal: Duration, asked: &mut u64) -> Vec<Row> {
    const BAR: f64 = 2.0;
    let load = Load::new(dir, false);
    let mut runs = Vec::new();
    let mut rebuilds = 0;
    for round in 0..ROUNDS {
        let address = ours.address.clone();
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| load.run(&address, SECONDS, 300 + round));
            while !asking.is_finished() {
                ours.rebuild();
                rebuilds += 1;
                std::thread::sleep(Duration::from_secs(1));
            }
            runs.push(asking.join().expect("wrk"));
        });
    }
    *asked += runs.iter().map(|run| run.requests).sum::<u64>();
    let failed: u64 = runs.iter().map(|run| run.failed).sum();
    let p99 = median(&mut runs.iter().map(|run| run.p99).collect::<Vec<_>>());
    let ratio = p99.as_secs_f64() / normal.as_secs_f64();
    let row = |what: &str, measured, bar, detail, holds| {
        Row { what: what.to_owned(), measured, bar, detail, holds }.said()
    };
    vec![
        row(
            "p99 while graphs are rebuilt, against normal",
            format!("{ratio:.2}"),
            format!("≤ {BAR}"),
            format!("{:.2} ms, normal {:.2} ms; {rebuilds} rebuilds", millis(p99), millis(normal)),
            ratio <= BAR,
        ),
        row(
            "requests that fail while graphs are rebuilt",
            failed.to_string(),
            "0".to_owned(),
            format!("of {}", runs.iter().map(|run| run.requests).sum::<u64>()),
            failed == 0,
        ),
    ]
}

fn memory(ours: &Server, asked: u64) -> Row {
    const BAR: u64 = 200;
    let mebibytes = ours.peak_memory().div_ceil(1024);
    Row {
        what: "memory after 100,000 distinct clients".to_owned(),
        measured: format!("{mebibytes} MiB"),
        bar: format!("≤ {BAR} MiB"),
        detail: format!("the peak, after {asked} clients"),
        holds: mebibytes <= BAR && asked >= 100_000,
    }
    .said()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
