//! Conditional edges, against a real Prometheus.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::origin::Origin;

use super::world::World;
use crate::upgrade::site::{Release, Slot};

struct Prometheus {
    port: u16,
    process: Child,
}

impl Prometheus {
    fn start(world: &World<Slot>) -> Self {
        let directory = world.site.root.join("prometheus");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("config.yml"), "global: {}\n").unwrap();
        let port = testkit::ports::free_port();
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", directory.join("config.yml").display()))
            .arg(format!("--storage.tsdb.path={}", directory.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(fs::File::create(directory.join("log")).unwrap())
            .spawn()
            .expect("prometheus is needed: install the package of that name");
        let start = Instant::now();
        let ready =
            || testkit::vm::ask(port, "GET", "/-/ready", "").is_some_and(|answer| answer.status == 200);
        while !ready() {
            assert!(start.elapsed() < Duration::from_secs(60), "prometheus does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        Self { port, process }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn risk(name: &str, query: &str) -> Value {
    json!({
        "name": name, "url": "https://example.com/risk", "message": format!("{name} is at stake"),
        "matchingRules": [{"type": "PromQL", "promql": {"promql": query}}],
    })
}

#[test]
fn a_risk_is_one_unless_prometheus_says_that_it_does_not_concern_this_machine() {
    let mut world = World::<Slot>::new();
    let digest = world.publish(&Release::of(2));
    let image = |digest: &str| format!("oci:{}@{digest}", world.releases.layout.path.display());
    let (first, second) = (image(&world.releases.get("1.0.0").digest), image(&digest));
    let graph = |query: &str| {
        json!({
            "version": 1,
            "nodes": [{"version": "1.0.0", "payload": first}, {"version": "2.0.0", "payload": second}],
            // Plain, too: it counts as conditional.
            "edges": [[0, 1]],
            "conditionalEdges": [
                {"edges": [{"from": "1.0.0", "to": "2.0.0"}], "risks": [risk("Fan", query)]},
            ],
        })
        .to_string()
        .into_bytes()
    };
    let origin = Origin::start(graph("vector(1)"));
    world.settings.push_str(&format!("upstream = {:?}\n", origin.url()));
    let checked = |world: &World<Slot>| -> (Value, String) {
        let seen = world.ends(&["agent", "check", "-o", "json"], 0);
        let seen: Value = serde_json::from_str(&seen.out).unwrap();
        let offer = &seen["available"][0];
        (offer["standing"].clone(), offer["risks"][0]["verdict"].to_string())
    };
    // Nobody to ask.
    let (standing, verdict) = checked(&world);
    assert_eq!(standing, "not-recommended");
    assert!(verdict.contains("no Prometheus is set"), "{verdict}");
    let prometheus = Prometheus::start(&world);
    world.settings.push_str(&format!("prometheus = \"http://127.0.0.1:{}\"\n", prometheus.port));
    for (query, standing, verdict) in [
        ("vector(1)", "not-recommended", "applies"),
        ("scalar(vector(1))", "not-recommended", "applies"),
        ("vector(0)", "recommended", "does-not-apply"),
        ("absent(fans_that_stand_still) - 1", "recommended", "does-not-apply"),
        ("fans_that_stand_still", "not-recommended", "0 samples"),
        ("vector(0.5)", "not-recommended", "where 0 or 1 is expected"),
        (
            "vector(0) or on() label_replace(vector(0), \"a\", \"b\", \"\", \"\")",
            "recommended",
            "does-not-apply",
        ),
        ("this is no query", "not-recommended", "parse error"),
    ] {
        origin.replace(graph(query));
        let (found, said) = checked(&world);
        assert_eq!((found, true), (Value::from(standing), said.contains(verdict)), "{query}: {said}");
    }
    // A person is told, and may insist.
    origin.replace(graph("vector(1)"));
    let refused = world.ends(&["agent", "update", "--to", "2.0.0"], 4);
    assert!(refused.err.contains("Fan is at stake") && refused.err.contains("--anyway"), "{refused:?}");
    world.site.serves(&Release::of(1));
    // By itself it is taken when the answer is 0.
    origin.replace(graph("vector(0)"));
    world.automatic().start_agent();
    world.ends_as(&Release::of(2), "completed");
    world.site.serves(&Release::of(2));
}
