//! What one would write in an afternoon: so many workers, each gets an object and puts it back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use testkit::kube::{ApiServer, widgets_path};
use tokio::task::JoinSet;

/// Gets and puts `widget-00000` and so on; the names are known, so that there is not even a list.
pub async fn get_and_put(server: &ApiServer, objects: usize, workers: usize) -> Duration {
    let ca = std::fs::read(server.ca()).expect("a certificate");
    let http = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([reqwest::Certificate::from_pem(&ca).expect("a certificate")])
        .http1_only()
        .build()
        .expect("a client");
    let (next, url) = (Arc::new(AtomicUsize::new(0)), format!("{}{}", server.url(), widgets_path("v1")));
    let begun = Instant::now();
    let mut working = JoinSet::new();
    for _ in 0..workers {
        let (next, url, http) = (Arc::clone(&next), url.clone(), http.clone());
        working.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= objects {
                    return;
                }
                let url = format!("{url}/widget-{number:05}");
                let got = http.get(&url).bearer_auth("admin-token").send().await.expect("an answer");
                let body = got.bytes().await.expect("an object");
                let put =
                    http.put(&url).bearer_auth("admin-token").header("content-type", "application/json");
                let put = put.body(body).send().await.expect("an answer");
                assert!(put.status().is_success(), "{}", put.status());
                put.bytes().await.expect("the whole answer");
            }
        });
    }
    while let Some(done) = working.join_next().await {
        done.expect("a worker");
    }
    begun.elapsed()
}
