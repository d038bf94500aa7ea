//! TLS, with an authority of the test's own.

use std::path::Path;
use std::process::{Command, Stdio};

use graph::current::Current;
use graph::serve::{Error, Service};
use graph::settings::{Settings, TlsSettings};
use reqwest::{Certificate, Client, Version};

use crate::serve::support::{Dir, Served, client, settings, small};

const ASK: &str = "/v1/graph?channel=stable&version=1.0.0&arch=amd64&id=x";

fn openssl(dir: &Path, arguments: &str) {
    let output = Command::new("openssl").current_dir(dir).args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// An authority, and a certificate of it for `localhost`.
fn certificates(dir: &Dir) -> TlsSettings {
    let new_key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2";
    let dir = &dir.0;
    openssl(dir, &format!("req -x509 {new_key} -keyout ca.key -out ca.pem -subj /CN=ca"));
    openssl(
        dir,
        &format!(
            "req -x509 {new_key} -keyout key.pem -out certificate.pem -subj /CN=localhost -CA ca.pem -CAkey ca.key \
             -addext subjectAltName=DNS:localhost -addext basicConstraints=critical,CA:FALSE"
        ),
    );
    TlsSettings { certificates: dir.join("certificate.pem"), key: dir.join("key.pem") }
}

fn trusting(dir: &Dir) -> Client {
    client();
    Client::builder().no_proxy().tls_certs_only([authority(dir)]).build().unwrap()
}

fn authority(dir: &Dir) -> Certificate {
    Certificate::from_pem(&std::fs::read(dir.0.join("ca.pem")).unwrap()).unwrap()
}

#[tokio::test]
async fn clients_are_served_over_tls_and_http2() {
    let dir = Dir::new("tls");
    let tls = Some(certificates(&dir));
    let served = Served::with(Settings { tls, ..settings() }, small()).await;
    let response = trusting(&dir).get(format!("{}{ASK}", served.url)).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.json::<serde_json::Value>().await.unwrap()["version"], 1);
    let plain = client().get(format!("{}{ASK}", served.url.replace("https", "http"))).send().await;
    assert!(plain.is_err());
    // Both are offered, and the client's wish counts.
    let address = served.url.strip_prefix("https://").unwrap().to_owned();
    for protocol in ["h2", "http/1.1"] {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-alpn", protocol, "-connect", &address]).stdin(Stdio::null());
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains(&format!("ALPN protocol: {protocol}")), "{said}");
    }
    let h2 = Client::builder().no_proxy().http2_prior_knowledge().tls_certs_only([authority(&dir)]);
    let h2 = h2.build().unwrap().get(format!("{}{ASK}", served.url));
    let response = h2.send().await.unwrap();
    assert_eq!((response.version(), response.status().as_u16()), (Version::HTTP_2, 200));
    let head = Client::builder().no_proxy().http2_prior_knowledge().tls_certs_only([authority(&dir)]);
    let head = head.build().unwrap().head(format!("{}{ASK}", served.url)).send().await.unwrap();
    assert!(head.headers().contains_key("content-length"));
}

#[tokio::test]
async fn a_new_certificate_is_taken_over_and_a_broken_one_is_not() {
    let dir = Dir::new("tls-reload");
    let tls = Some(certificates(&dir));
    let served = Served::with(Settings { tls, ..settings() }, small()).await;
    let url = format!("{}{ASK}", served.url);
    let old = trusting(&dir);
    assert_eq!(old.get(&url).send().await.unwrap().status(), 200);
    dir.file("certificate.pem", "not one");
    let error = served.handle.reload(served.handle.settings()).await.unwrap_err();
    assert!(matches!(error, Error::Pem { .. }));
    assert_eq!(trusting(&dir).get(&url).send().await.unwrap().status(), 200);
    certificates(&dir);
    served.handle.reload(served.handle.settings()).await.unwrap();
    assert_eq!(trusting(&dir).get(&url).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn beyond_this_machine_plain_http_must_be_asked_for() {
    let everywhere = Settings { listen: ([0, 0, 0, 0], 0).into(), ..Settings::default() };
    let error = Service::bind(everywhere.clone(), Current::default()).await.err().unwrap();
    assert!(matches!(error, Error::PlainBeyondLoopback { .. }));
    assert!(error.hint().contains("plain-http = true"));
    assert!(Service::bind(Settings { plain_http: true, ..everywhere }, Current::default()).await.is_ok());
}
