//! The storage controller on a real kube-apiserver and an etcd on disk, against a bare loop that gets and puts the same
//! objects with 16 workers, which is 1.0. The controller is the binary that ships, a process of its own.
//!
//! Every object is really rewritten each time: between two runs the custom resource's storage version is flipped.

mod controller;
mod loops;
#[path = "../table.rs"]
mod table;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use controller::{Controller, holdfast};
use table::{Row, Wanted, write_section};
use testkit::kube::{Cluster, Options, WIDGETS_GROUP};

const OBJECTS: usize = 50_000;
const LARGE_OBJECTS: usize = 3_000;
const LARGE: usize = 100_000;
const THROTTLED_OBJECTS: usize = 10_000;
const ONE_BY_ONE: usize = 2_000;
const ROUNDS: usize = 2;
const WORKERS: usize = 16;
/// What the API server takes at once while it throttles.
const BUDGET: usize = 4;

/// Rows that are measured together.
const FRESH: [&str; 2] =
    ["a pass of the trigger over all resources of a fresh server", "its migrations, most of them empty"];
const SMALL: [&str; 4] = [
    "objects a second, 50,000 small custom objects",
    "the same, one object after another",
    "CPU of the controller",
    "peak memory, small objects",
];
const LARGE_MEMORY: &str = "peak memory, objects of 100 kB";
const THROTTLED: &str = "writes beyond the budget of an API server that throttles";

const MIGRATIONS: &str = "/apis/migration.k8s.io/v1alpha1/storageversionmigrations";

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let directory =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("bench-storage-{}", std::process::id()));
    let wanted = Wanted::from_arguments();
    let rows = runtime.block_on(async {
        let mut rows = vec![];
        if FRESH.iter().any(|what| wanted.has(what)) {
            rows.extend(fresh(&directory.join("fresh")).await);
        }
        if SMALL.iter().any(|what| wanted.has(what)) {
            rows.extend(small(&directory.join("small")).await);
        }
        if wanted.has(LARGE_MEMORY) {
            rows.push(large(&directory.join("large")).await);
        }
        if wanted.has(THROTTLED) {
            rows.push(throttled(&directory.join("throttled")).await);
        }
        rows
    });
    let _ = std::fs::remove_dir_all(&directory);
    print!("{}", Row::table(&rows));
    write_section("storage", &rows, &wanted);
    if rows.iter().any(|row| !row.holds()) {
        eprintln!("a bar was missed");
        std::process::exit(1);
    }
}

fn cluster(directory: &Path, options: Options) -> Cluster {
    std::fs::create_dir_all(directory).expect("a directory");
    let cluster = Cluster::with_data_in(directory, options);
    // Rights are not needed where everything is allowed; the custom resources are.
    holdfast(&cluster.kubeconfig("admin"), &["install"]);
    cluster
}

fn row(what: &str, measured: String, bar: String, detail: String, holds: bool) -> Row {
    Row { what: what.to_owned(), measured, bar, detail, holds }.said()
}

async fn small(directory: &Path) -> Vec<Row> {
    let cluster = cluster(directory, Options::default());
    let kubeconfig = cluster.kubeconfig("admin");
    let mut rows = vec![];
    cluster.install_widgets("v1", &["v1", "v2"], None).await;
    eprintln!("  filling: {OBJECTS} objects");
    cluster.create_widgets("v1", OBJECTS, 100).await;
    let controller = Controller::start(&kubeconfig, &["--no-trigger"]).await;
    let (mut bare, mut ours, mut cpu) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    for _ in 0..ROUNDS {
        cluster.flip_storage("v2").await;
        bare += loops::get_and_put(&cluster.server, OBJECTS, WORKERS).await;
        cluster.flip_storage("v1").await;
        let (before, begun) = (controller.cpu(), Instant::now());
        migrate(&kubeconfig, OBJECTS);
        ours += begun.elapsed();
        cpu += controller.cpu() - before;
    }
    let memory = controller.peak_memory();
    drop(controller);
    cluster.flip_storage("v2").await;
    let one_by_one = loops::get_and_put(&cluster.server, ONE_BY_ONE, 1).await;

    let rate = |objects: usize, time: Duration| objects as f64 / time.as_secs_f64();
    let all = OBJECTS * ROUNDS;
    let (our_rate, bare_rate, slow_rate) = (rate(all, ours), rate(all, bare), rate(ONE_BY_ONE, one_by_one));
    rows.push(row(
        SMALL[0],
        format!("{:.2}", our_rate / bare_rate),
        "≥ 0.95".to_owned(),
        format!("{our_rate:.0}, bare loop with {WORKERS} workers {bare_rate:.0}"),
        our_rate / bare_rate >= 0.95,
    ));
    rows.push(row(
        SMALL[1],
        format!("{:.2}", slow_rate / bare_rate),
        "–".to_owned(),
        format!("{slow_rate:.0} a second, get and put without a limit on the rate, as kube-storage-version-migrator does it"),
        true,
    ));
    let each = cpu.as_secs_f64() * 1e3 / all as f64;
    rows.push(row(
        SMALL[2],
        format!("{each:.3} ms an object"),
        "≤ 0.2 ms".to_owned(),
        format!("{:.1} s for {all}", cpu.as_secs_f64()),
        each <= 0.2,
    ));
    rows.push(memory_row(SMALL[3], memory, format!("{OBJECTS} of them, {ROUNDS} times")));
    rows
}

/// What a server with nothing in it costs.
async fn fresh(directory: &Path) -> Vec<Row> {
    let cluster = cluster(directory, Options::default());
    let kubeconfig = &cluster.kubeconfig("admin");
    let controller = Controller::start(kubeconfig, &[]).await;
    let first =
        controller.until(|page| page.value("passes_total").filter(|passes| *passes >= 1.0)?.into()).await;
    let pass = first.value("pass_seconds").expect("a pass");
    // Let what it asked for be done before it is asked for again.
    while !cluster.list(MIGRATIONS).await.iter().all(is_over) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let begun = Instant::now();
    let said = holdfast(kubeconfig, &["migrate", "--all", "-o", "name"]);
    let took = begun.elapsed().as_secs_f64();
    let migrations = said.lines().count();
    vec![
        row(
            FRESH[0],
            format!("{pass:.2} s"),
            "≤ 1 s".to_owned(),
            "the first: every StorageState and every migration is made in it".to_owned(),
            pass <= 1.0,
        ),
        row(
            FRESH[1],
            format!("{took:.2} s"),
            "≤ 3 s".to_owned(),
            format!("{migrations} of them, from asking for the first to the end of the last"),
            took <= 3.0 && migrations >= 40,
        ),
    ]
}

fn is_over(migration: &serde_json::Value) -> bool {
    let conditions = migration["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|it| it["type"] != "Running" && it["status"] == "True")
}

async fn large(directory: &Path) -> Row {
    let cluster = cluster(directory, Options::default());
    cluster.install_widgets("v1", &["v1", "v2"], None).await;
    eprintln!("  filling: {LARGE_OBJECTS} objects of {LARGE} bytes");
    cluster.create_widgets("v1", LARGE_OBJECTS, LARGE).await;
    cluster.flip_storage("v2").await;
    let controller = Controller::start(&cluster.kubeconfig("admin"), &["--no-trigger"]).await;
    let begun = Instant::now();
    migrate(&cluster.kubeconfig("admin"), LARGE_OBJECTS);
    let detail = format!(
        "{LARGE_OBJECTS} of them, {:.0} a second",
        LARGE_OBJECTS as f64 / begun.elapsed().as_secs_f64()
    );
    memory_row(LARGE_MEMORY, controller.peak_memory(), detail)
}

/// An API server that takes few writes at once, and refuses what is beyond that; from a user whom it does not favour.
async fn throttled(directory: &Path) -> Row {
    let budget = format!("--max-mutating-requests-inflight={BUDGET}");
    let options = Options::default().flag("--enable-priority-and-fairness=false");
    let mut cluster = cluster(directory, options);
    cluster.install_widgets("v1", &["v1", "v2"], None).await;
    cluster.create_widgets("v1", THROTTLED_OBJECTS, 100).await;
    cluster.flip_storage("v2").await;
    cluster.server.restart(&["--enable-priority-and-fairness=false", &budget]);
    let kubeconfig = cluster.kubeconfig("plain");
    let controller = Controller::start(&kubeconfig, &["--no-trigger"]).await;
    let begun = Instant::now();
    migrate(&kubeconfig, THROTTLED_OBJECTS);
    let took = begun.elapsed().as_secs_f64();
    let page = controller.page().await;
    let refused = page.value("throttled_total").unwrap_or(0.0);
    let at_once = page.value("writes_at_once").unwrap_or(0.0);
    let share = refused / (refused + THROTTLED_OBJECTS as f64);
    row(
        THROTTLED,
        format!("{:.2} %", share * 100.0),
        "≤ 1 %".to_owned(),
        format!(
            "it takes {BUDGET} at once and answers others with 429: {refused:.0} of {THROTTLED_OBJECTS}; the controller \
             settled at {at_once:.0} at once, {:.0} objects a second",
            THROTTLED_OBJECTS as f64 / took
        ),
        share <= 0.01 && at_once <= BUDGET as f64,
    )
}

fn memory_row(what: &str, kibibytes: u64, detail: String) -> Row {
    let mebibytes = kibibytes as f64 / 1024.0;
    row(what, format!("{mebibytes:.1} MiB"), "≤ 25 MiB".to_owned(), detail, mebibytes <= 25.0)
}

/// Has the widgets migrated by the controller that runs, and waits for it.
fn migrate(kubeconfig: &Path, objects: usize) {
    let said = holdfast(kubeconfig, &["migrate", &format!("widgets.{WIDGETS_GROUP}"), "-o", "json"]);
    assert!(
        said.contains(&format!("\"migrated\": {objects}"))
            || said.contains(&format!("\"migrated\":{objects}")),
        "{said}"
    );
}
