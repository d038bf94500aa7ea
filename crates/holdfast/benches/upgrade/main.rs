//! Upgrades: how long an appliance is away, against a plain stop and start; what migrations cost.

mod downtime;
mod migrations;
#[path = "../table.rs"]
mod table;

use table::{Row, Wanted, write_section};

fn main() {
    let wanted = Wanted::from_arguments();
    let mut rows = vec![];
    if wanted.has(downtime::DOWNTIME) {
        rows.push(downtime::row());
    }
    if wanted.has("migrations") {
        rows.extend(migrations::rows());
    }
    print!("{}", Row::table(&rows));
    write_section("upgrade", &rows, &wanted);
    if rows.iter().any(|row| !row.holds()) {
        eprintln!("a bar was missed");
        std::process::exit(1);
    }
}
