//! The rows about migrations of the upgrade benchmarks, alone: `cargo bench -p migrate`.

#[path = "../../holdfast/benches/upgrade/migrations.rs"]
mod migrations;
#[allow(dead_code)] // Nothing is written into the page from here.
#[path = "../../holdfast/benches/table.rs"]
mod table;

fn main() {
    // `cargo test` builds and runs benchmarks too, to see that they can be.
    if std::env::args().any(|word| word == "--bench") {
        println!("{}", table::Row::table(&migrations::rows()));
    }
}
