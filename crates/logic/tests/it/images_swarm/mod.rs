//! The swarm in numbers: the shipped decisions of receivers and senders, on sites of 3 to 1,000 managers, with the table
//! of docs/swarm.md as the result. `UPDATE=1` writes it; otherwise it is compared.

mod site;

use std::fmt::Write as _;
use std::sync::Mutex;

use logic::images::swarm::Rules;
use site::{Outcome, Plan, Site};
use testkit::sample::full_or;

fn site_of(peers: usize) -> Plan {
    Plan {
        peers,
        pieces: 1024,
        seed: 20_26,
        rules: Rules::default(),
        origin: None,
        speed: |_| (1.0, 1.0),
        die: 0,
        cut: 0,
        bad: 0,
        freeze: 0,
    }
}

struct Row {
    what: &'static str,
    plan: Plan,
    /// More transfers than this are a failure.
    bar: f64,
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    // The largest sites take most of the time: in `make prove` only.
    let most = if std::env::var_os("UPDATE").is_some() { 1000 } else { full_or(1000, 63) };
    for peers in [1000, 255, 63, 15, 3] {
        rows.push(Row { what: "equal peers", plan: site_of(peers), bar: 1.1 });
    }
    for peers in [1000, 255, 63, 15, 3] {
        let plan = Plan { origin: Some(1.0), ..site_of(peers) };
        rows.push(Row { what: "while the origin is pulled", plan, bar: 1.15 });
    }
    for peers in [255, 63, 15] {
        let plan =
            Plan { speed: |peer| if peer % 10 == 5 { (0.1, 0.1) } else { (1.0, 1.0) }, ..site_of(peers) };
        rows.push(Row { what: "every tenth ten times slower", plan, bar: 1.3 });
    }
    for peers in [255, 63, 15] {
        let plan = Plan { speed: |_| (0.25, 1.0), ..site_of(peers) };
        rows.push(Row { what: "sending at a quarter of the speed", plan, bar: 4.6 });
    }
    for peers in [255, 63, 15] {
        let plan = Plan { die: 10, cut: 10, bad: 5, freeze: 5, ..site_of(peers) };
        rows.push(Row { what: "losses", plan, bar: 1.4 });
    }
    for peers in [255, 63, 15] {
        let plan = Plan { die: 10, cut: 10, bad: 5, freeze: 5, origin: Some(1.0), ..site_of(peers) };
        rows.push(Row { what: "losses while the origin is pulled", plan, bar: 1.5 });
    }
    rows.retain(|row| row.plan.peers <= most);
    rows
}

/// All of them, on all cores.
fn outcomes(rows: &[Row]) -> Vec<Outcome> {
    let next = Mutex::new(0);
    let done = Mutex::new((0..rows.len()).map(|_| None).collect::<Vec<Option<Outcome>>>());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let mut next = next.lock().unwrap();
                    let at = *next;
                    *next += 1;
                    drop(next);
                    let Some(row) = rows.get(at) else { break };
                    let outcome = Site::new(row.plan.clone()).run();
                    done.lock().unwrap()[at] = Some(outcome);
                }
            });
        }
    });
    done.into_inner().unwrap().into_iter().map(Option::unwrap).collect()
}

#[test]
fn an_image_reaches_any_number_of_peers_in_little_more_than_one_transfer() {
    let rows = rows();
    let outcomes = outcomes(&rows);
    let mut table = String::from(
        "| | peers | until the last has it | until half have it | the first sends | sent in vain |\n\
         | --- | ---: | ---: | ---: | ---: | ---: |\n",
    );
    let mut missed = Vec::new();
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|at| (rows.iter().position(|row| row.what == rows[*at].what), rows[*at].plan.peers));
    for (row, outcome) in order.into_iter().map(|at| (&rows[at], &outcomes[at])) {
        let Outcome { transfers, median, first_sent, sent } = outcome;
        let vain = (sent - 1.0) * 100.0;
        writeln!(
            table,
            "| {} | {} | {transfers:.2} | {median:.2} | {first_sent:.2} | {vain:.1} % |",
            row.what, row.plan.peers
        )
        .unwrap();
        if *transfers > row.bar {
            missed.push(format!("{}, {} peers: {transfers:.3} > {}", row.what, row.plan.peers, row.bar));
        }
    }
    print!("{table}");
    assert!(missed.is_empty(), "{missed:?}");
    compare(&table);
}

/// Compares the page with the table, or with the part of the table that `make test` computes.
fn compare(table: &str) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/swarm.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, format!("{INTRODUCTION}{table}{NOTES}")).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    let wrong = "docs/swarm.md is not what the simulation says: run the test with UPDATE=1";
    let page = written.strip_prefix(INTRODUCTION).and_then(|rest| rest.strip_suffix(NOTES)).expect(wrong);
    assert!(full_or(page == table, true), "{wrong}");
    for line in table.lines() {
        assert!(page.lines().any(|written| written == line), "{wrong}: {line}");
    }
}

const INTRODUCTION: &str = "\
# How an image spreads, in numbers

Whoever has a piece of an image (16 neighbouring chunks, about a megabyte) passes it on while the rest is still on its
way. How long that takes for 3 to 1,000 peers is simulated with the very code that managers run
(`logic::images::swarm`): who is asked for what, who is served, who is dropped. The network is simulated: every manager
has one link, equally fast each way; all that passes it shares it; a message takes a quarter of the time of a piece.

One image of 1 GiB, 100 Mbit/s; times in units of one transfer of it. Written by the test `images_swarm` of the crate
`logic`, which fails when a number changes (`UPDATE=1` writes the new ones) or exceeds its bar.

";

const NOTES: &str = "
- *While the origin is pulled*: the first gets the image at the speed of a link, and the others follow.
- *Every tenth ten times slower*, each way: the times are those of the others.
- *Sending at a quarter of the speed*: four transfers are the least that is possible, since everything that is received
  must be sent.
- *Losses*: half-way, 10 % of the peers die (half of them come back) and 5 % freeze; 1 % of all links are cut each second;
  5 % of the peers send every fourth piece with a bad chunk. The last are those that came back.

What it rests on, and what it would be otherwise, for 255 equal peers: the sender picks one of six pieces that it was asked
for, the one that it has given least (1.12 with one); a receiver lets no more peers serve it than a peer serves, and a
peer serves the hungriest first (1.14 without).
";
