//! What is asked again and again: all images of a manager, and all images of a site.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use images::client::Client;
use images::settings::Settings;
use images::site::{Options, Service};
use logic::images::{ImageName, Source};
use tokio_util::sync::CancellationToken;
use wire::images::{ImageRef, ListRequest, PullRequest};
use wire::rest::{Create, CreateSpec};

use crate::fixture::{Site, content};
use crate::table::{Row, Wanted, median};

const IMAGES: usize = 1000;
const ROUNDS: usize = 51;
const BAR: Duration = Duration::from_millis(10);

const MANAGER: &str = "`List` of a manager with 1,000 images";
const SITE: &str = "all images of a site with 1,000 over its API";

pub async fn rows(wanted: &Wanted) -> Vec<Row> {
    let mut rows = vec![];
    if wanted.has(MANAGER) {
        rows.push(manager().await);
    }
    if wanted.has(SITE) {
        rows.push(site().await);
    }
    rows
}

fn row(what: &str, mut took: Vec<Duration>, detail: &str) -> Row {
    let took = median(&mut took);
    Row {
        what: what.to_owned(),
        measured: format!("{:.1} ms", took.as_secs_f64() * 1000.0),
        bar: format!("≤ {} ms", BAR.as_millis()),
        detail: detail.to_owned(),
        holds: took <= BAR,
    }
    .said()
}

async fn manager() -> Row {
    let site = Site::new(content(63, 1000));
    let mut manager = site.manager("many");
    for number in 0..IMAGES {
        let image = ImageRef {
            name: format!("image-{number}"),
            uuid: format!("00000000-0000-4000-8000-{number:012x}"),
        };
        let request = PullRequest { image: Some(image), url: site.origin.url(), ..PullRequest::default() };
        manager.calls.pull(request).await.unwrap();
    }
    let mut took = vec![];
    let mut whole = 0;
    while whole < IMAGES {
        let list = manager.calls.list(ListRequest {}).await.unwrap().into_inner();
        whole = list.images.iter().filter(|image| image.state == "downloaded").count();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        let list = manager.calls.list(ListRequest {}).await.unwrap().into_inner();
        took.push(begin.elapsed());
        assert_eq!(list.images.len(), IMAGES);
    }
    row(MANAGER, took, "over TLS, until it is read")
}

async fn site() -> Row {
    let dir = std::env::temp_dir().join(format!("holdfast-bench-site-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let settings = Settings {
        listen: ([127, 0, 0, 1], 0).into(),
        state: dir.join("state/state.redb"),
        node: Some("here".to_owned()),
        ..Settings::default()
    };
    let program = std::path::PathBuf::from(crate::fixture::HOLDFAST);
    let options = Options { settings, program, version: "0".to_owned(), manager_arguments: vec![] };
    let service = Service::bind(options).await.unwrap();
    let address = service.address().unwrap();
    let stop = CancellationToken::new();
    let running = tokio::spawn(service.run(stop.clone()));
    let token = std::fs::read_to_string(dir.join("state/admin.token")).unwrap();
    let client = Client::new(&format!("https://{address}"), token.parse().unwrap()).unwrap();
    for number in 0..IMAGES {
        let name = ImageName::parse(&format!("image-{number}")).unwrap();
        let source = Source::Url { url: format!("https://example.com/{number}") };
        // Wanted nowhere yet: the site has no disks.
        let spec = CreateSpec { source, format: None, checksum: None, disks: Some(BTreeSet::new()) };
        client.create(&Create::of(name, spec), "1").await.unwrap();
    }
    let mut took = vec![];
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        let list = client.images().await.unwrap();
        took.push(begin.elapsed());
        assert_eq!(list.len(), IMAGES);
    }
    stop.cancel();
    running.await.unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    row(SITE, took, "over TLS, until it is read and understood")
}
