//! Owners, and what holds for them.

use std::time::Duration;

use graph::settings::{OwnerSettings, Settings};

use crate::serve::fake::{Fake, Told};
use crate::serve::support::{Dir, Served, settings, small};

const RULES: &str = r#"
[ids]
mine = "acme"

[[override]]
owner = "acme"
add-releases = ["1.3.0"]
reason = "a hotfix"

[[override]]
id = "held"
hold = true
"#;

fn ask(id: &str) -> String {
    format!("/v1/graph?channel=stable&version=1.1.0&arch=amd64&id={id}")
}

const PLAIN: [&str; 2] = ["1.1.0", "1.2.0"];
const HOTFIX: [&str; 3] = ["1.1.0", "1.2.0", "1.3.0"];

fn with(owners: OwnerSettings) -> Settings {
    Settings { owners, ..settings() }
}

#[tokio::test]
async fn the_file_says_whose_a_client_is_and_what_holds() {
    let dir = Dir::new("owners-file");
    let file = Some(dir.file("owners.toml", RULES));
    let served = Served::with(with(OwnerSettings { file, ..Default::default() }), small()).await;
    assert_eq!(served.versions(&ask("mine")).await, HOTFIX);
    assert_eq!(served.versions(&ask("other")).await, PLAIN);
    assert_eq!(served.versions(&ask("held")).await, ["1.1.0"]);
}

#[tokio::test]
async fn a_service_is_asked_for_owners_and_its_answers_are_remembered() {
    let dir = Dir::new("owners-lookup");
    let lookup = Fake::new(Told::ok(r#"{"owner":"acme"}"#)).await;
    let owners = OwnerSettings {
        file: Some(dir.file("owners.toml", RULES)),
        lookup_url: Some(format!("{}/owners/{{id}}", lookup.url)),
        lookup_headers: [("authorization".to_owned(), "Bearer secret".to_owned())].into(),
        ..Default::default()
    };
    let served = Served::with(with(owners), small()).await;
    for _ in 0..3 {
        assert_eq!(served.versions(&ask("a%2Fb")).await, HOTFIX);
    }
    let asked = lookup.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].uri, "/owners/a%2Fb");
    assert_eq!(asked[0].headers["authorization"], "Bearer secret");
    // The file comes first, and nobody is asked about those that it names.
    assert_eq!(served.versions(&ask("mine")).await, HOTFIX);
    lookup.tell(Told::status(404));
    for _ in 0..3 {
        assert_eq!(served.versions(&ask("nobodys")).await, PLAIN);
    }
    assert_eq!(lookup.asked().len(), 2);
    assert_eq!(served.metric("owner_lookups_total").await, 2);
    assert_eq!(served.metric("owner_lookup_failures_total").await, 0);
}

#[tokio::test]
async fn a_lookup_that_fails_or_takes_too_long_means_the_plain_graph() {
    let dir = Dir::new("owners-fail");
    let lookup = Fake::new(Told::status(500)).await;
    let owners = OwnerSettings {
        file: Some(dir.file("owners.toml", RULES)),
        lookup_url: Some(format!("{}/{{id}}", lookup.url)),
        lookup_timeout: Duration::from_millis(100).into(),
        ..Default::default()
    };
    let served = Served::with(with(owners), small()).await;
    assert_eq!(served.versions(&ask("a")).await, PLAIN);
    lookup.tell(Told::ok("no json"));
    assert_eq!(served.versions(&ask("b")).await, PLAIN);
    lookup.tell(Told::ok(r#"{"owner":"acme"}"#).after(Duration::from_secs(60)));
    assert_eq!(served.versions(&ask("c")).await, PLAIN);
    assert_eq!(served.metric("owner_lookup_failures_total").await, 3);
    // What holds for an id alone holds all the same.
    assert_eq!(served.versions(&ask("held")).await, ["1.1.0"]);
}

#[tokio::test]
async fn nobody_is_asked_where_no_rule_is_about_owners() {
    let lookup = Fake::new(Told::status(500)).await;
    let lookup_url = Some(format!("{}/{{id}}", lookup.url));
    let served = Served::with(with(OwnerSettings { lookup_url, ..Default::default() }), small()).await;
    assert_eq!(served.versions(&ask("a")).await, PLAIN);
    assert!(lookup.asked().is_empty());
}

#[tokio::test]
async fn a_changed_file_is_taken_over_and_a_broken_one_is_not() {
    let dir = Dir::new("owners-change");
    let file = dir.file("owners.toml", RULES);
    let settings = with(OwnerSettings { file: Some(file.clone()), ..Default::default() });
    let served = Served::with(settings, small()).await;
    assert_eq!(served.versions(&ask("mine")).await, HOTFIX);
    dir.file("owners.toml", "[[override]]\nhold = \"perhaps\"\n");
    let error = served.handle.reload(served.handle.settings()).await.unwrap_err();
    assert!(error.to_string().contains("owners.toml") && error.hint().contains("owners.toml"));
    assert_eq!(served.versions(&ask("mine")).await, HOTFIX);
    dir.file("owners.toml", "[[override]]\nremove-releases = [\"1.2.0\"]\n");
    // By itself, since the file is looked at now and then.
    while served.versions(&ask("mine")).await != ["1.1.0"] {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(served.metric("reloads_total").await >= 1);
    assert!(served.metric("reload_failures_total").await >= 1);
}
