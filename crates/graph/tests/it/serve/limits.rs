//! Clients that are slow, many, large or in the way.

use std::time::Duration;

use graph::settings::Settings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::serve::fake::{Fake, Told};
use crate::serve::support::{Served, client, settings, small, small_document};

const ASK: &str = "/v1/graph?channel=stable&version=1.0.0&arch=amd64&id=x";

async fn connect(served: &Served) -> TcpStream {
    TcpStream::connect(served.url.strip_prefix("http://").unwrap()).await.unwrap()
}

fn impatient() -> Settings {
    let mut settings = settings();
    settings.limits.idle = Duration::from_millis(300).into();
    settings
}

#[tokio::test]
async fn a_client_that_sends_a_byte_now_and_then_is_sent_away() {
    let served = Served::with(impatient(), small()).await;
    let (mut reader, mut writer) = connect(&served).await.into_split();
    let trickle = tokio::spawn(async move {
        writer.write_all(b"GET /v1/graph HTTP/1.1\r\nHost: x\r\nX-Slow: ").await.unwrap();
        while writer.write_all(b"a").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let mut answer = Vec::new();
    let _ = reader.read_to_end(&mut answer).await;
    trickle.await.unwrap();
    assert_eq!(served.metric("connections_idle_closed_total").await, 1);
}

#[tokio::test]
async fn a_connection_without_requests_is_closed() {
    let served = Served::with(impatient(), small()).await;
    let mut stream = connect(&served).await;
    let mut nothing = Vec::new();
    let _ = stream.read_to_end(&mut nothing).await;
    assert!(nothing.is_empty());
    assert_eq!(served.metric("connections_idle_closed_total").await, 1);
}

#[tokio::test]
async fn a_request_that_is_too_large_is_refused() {
    let served = Served::small().await;
    let mut stream = connect(&served).await;
    let request = format!("GET {ASK} HTTP/1.1\r\nHost: x\r\nX-Large: {}\r\n\r\n", "a".repeat(64 << 10));
    let _ = stream.write_all(request.as_bytes()).await;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 431");
    let (status, kind, _) = served.error(&format!("{ASK}&x={}", "a".repeat(9000))).await;
    assert_eq!((status, kind.as_str()), (400, "invalid_params"));
}

#[tokio::test]
async fn beyond_the_limit_of_connections_clients_wait_and_probes_do_not() {
    let mut settings = settings();
    settings.limits.connections = 2;
    settings.admin = Some(([127, 0, 0, 1], 0).into());
    let served = Served::with(settings, small()).await;
    let held = [connect(&served).await, connect(&served).await];
    while served.metric("connections").await < 2 + 1 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let url = format!("{}{ASK}", served.url);
    let waiting = tokio::spawn(client().get(&url).send());
    let livez = format!("{}/livez", served.admin.as_ref().unwrap());
    assert_eq!(client().get(livez).send().await.unwrap().status(), 200);
    assert!(!waiting.is_finished());
    drop(held);
    assert_eq!(waiting.await.unwrap().unwrap().status(), 200);
}

#[tokio::test]
async fn what_was_asked_before_the_stop_is_answered() {
    let upstream = Fake::new(Told::ok(small_document().to_string()).after(Duration::from_millis(500))).await;
    let chained = Settings { upstream: Some(upstream.url.clone()), ..settings() };
    let mut served = Served::with(chained, small()).await;
    let url = format!("{}{ASK}", served.url);
    let asking = tokio::spawn(client().get(&url).send());
    while upstream.asked().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut idle = connect(&served).await;
    served.begin_stop();
    assert_eq!(asking.await.unwrap().unwrap().status(), 200);
    let mut nothing = Vec::new();
    let _ = idle.read_to_end(&mut nothing).await;
    served.stop().await;
    assert!(client().get(&url).send().await.is_err());
}

#[tokio::test]
async fn a_stop_does_not_wait_for_ever() {
    let upstream = Fake::new(Told::ok("{}").after(Duration::from_secs(600))).await;
    let mut settings = Settings { upstream: Some(upstream.url.clone()), ..settings() };
    settings.limits.drain = Duration::from_millis(100).into();
    settings.limits.upstream_timeout = Duration::from_secs(600).into();
    let served = Served::with(settings, small()).await;
    let asking = tokio::spawn(client().get(format!("{}{ASK}", served.url)).send());
    while upstream.asked().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    served.stop().await;
    assert!(asking.await.unwrap().is_err());
}
