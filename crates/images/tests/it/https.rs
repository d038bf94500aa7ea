//! Pulls over HTTPS, from an origin whose certificate is signed by an authority of its own.

use std::sync::Arc;

use crate::support::{Image, Place};
use images::identity::{Authority, Clients, Role, server_config};
use images::origin::Origin as Source;
use images::pull::{Options, PullError, pull};
use images::settings::OriginSettings;
use images::throttle::Throttle;
use logic::images::Held;
use testkit::origin::Origin;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// Stands before an origin, and speaks TLS. Where it listens.
async fn with_tls(origin: &Origin, authority: &Authority) -> String {
    let identity = authority.identity(&Role::Controller, &["127.0.0.1".to_owned()]).unwrap();
    let config = server_config(&identity, Clients::Anybody, &[b"http/1.1"]).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, target) = (listener.local_addr().unwrap().to_string(), origin.address);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut from) = acceptor.accept(stream).await else { return };
                let Ok(mut to) = TcpStream::connect(target).await else { return };
                let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
            });
        }
    });
    address
}

#[tokio::test]
async fn an_origin_with_a_certificate_of_its_own_is_trusted_if_the_configuration_says_so() {
    let image = Image::of(3 << 20);
    let (place, origin) = (Place::new(), Origin::start(image.content.clone()));
    let authority = Authority::open(&place.outside().join("authority")).unwrap();
    let address = with_tls(&origin, &authority).await;
    let ca_file = place.outside().join("ca.pem");
    std::fs::write(&ca_file, authority.pem()).unwrap();
    let file = place.open();
    let pulled = async |ca_file| {
        let settings = OriginSettings {
            allow_private_hosts: vec![address.clone()],
            tries: 1,
            ca_file,
            ..OriginSettings::default()
        };
        let source = Source::parse(&format!("https://{address}/image"), &place.name, &settings).unwrap();
        let (_, elsewhere) = tokio::sync::watch::channel(Held::default());
        let throttle = Arc::new(Throttle::new(0));
        let options = Options { checksum: None, elsewhere, throttle, settings };
        pull(&file, &source, &options, &CancellationToken::new()).await
    };
    let refused = pulled(None).await;
    assert!(matches!(refused, Err(PullError::GaveUp { .. })), "{refused:?}");
    assert_eq!(origin.sent(), 0);
    pulled(Some(ca_file)).await.unwrap();
    assert!(std::fs::read(file.path()).unwrap() == image.content);
}
