//! Images: pulled, and spread to more managers, against `curl -o` from the same server to the same disk; what that costs.
#![allow(clippy::unwrap_used, dead_code)] // a benchmark stops at the first surprise; the tests' helpers can do more

#[path = "../../tests/it/images/fixture.rs"]
mod fixture;
mod list;
#[path = "../../tests/it/images/network.rs"]
mod network;
mod next_version;
mod origin;
#[path = "../../tests/it/images/proxy.rs"]
mod proxy;
mod pull;
mod shaped;
mod spread;
#[path = "../table.rs"]
mod table;

use table::{Row, Wanted, write_section};

fn main() {
    let wanted = Wanted::from_arguments();
    let dir = std::env::temp_dir().join(format!("holdfast-bench-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let mut rows = pull::rows(&dir, &wanted);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    rows.extend(runtime.block_on(spread::rows(&dir, &wanted)));
    rows.extend(runtime.block_on(shaped::rows(&dir, &wanted)));
    rows.extend(next_version::rows(&dir, &wanted));
    std::fs::remove_dir_all(&dir).unwrap();
    rows.extend(runtime.block_on(list::rows(&wanted)));
    print!("{}", Row::table(&rows));
    write_section("images", &rows, &wanted);
    if rows.iter().any(|row| !row.holds()) {
        eprintln!("a bar was missed");
        std::process::exit(1);
    }
}
