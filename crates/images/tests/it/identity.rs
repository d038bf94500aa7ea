//! Who is let in, and who is not.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use images::dial::Dialler;
use images::identity::{
    ALPN_CHUNKS, ALPN_GRPC, Authority, Clients, Error, Fingerprint, Identity, LIFE, Pinned, Request, Role,
    client_config, server_config,
};
use images::listen::{self, Visitor};
use logic::images::DiskId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("holdfast-identity-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn disk(number: u8) -> DiskId {
    DiskId::parse(&format!("1b4e28ba-2fa1-41d2-883f-0016d3cca4{number:02x}")).unwrap()
}

fn manager(authority: &Authority, number: u8) -> Identity {
    authority.identity(&Role::Manager(disk(number)), &[]).unwrap()
}

fn dialler(identity: Identity) -> Dialler {
    Dialler::new(watch::channel(Arc::new(identity)).1)
}

struct Door {
    address: String,
    visitors: mpsc::UnboundedReceiver<Visitor>,
    cancel: CancellationToken,
}

impl Drop for Door {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

async fn door(identity: &Identity, connections: usize) -> Door {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let config = server_config(identity, Clients::Members, &[ALPN_GRPC, ALPN_CHUNKS]).unwrap();
    let (sender, visitors) = mpsc::unbounded_channel();
    let cancel = CancellationToken::new();
    let tls = watch::channel(Arc::new(config)).1;
    tokio::spawn(listen::accept(listener, tls, connections, cancel.clone(), move |visitor: Visitor| {
        let sender = sender.clone();
        async move { drop(sender.send(visitor)) }
    }));
    Door { address, visitors, cancel }
}

/// Whether a byte comes back: in TLS 1.3 a client learns only then that it was let in.
async fn echo(door: &mut Door, mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin) -> bool {
    if stream.write_all(b"x").await.is_err() {
        return false;
    }
    let mut byte = [0];
    tokio::select! {
        visitor = door.visitors.recv() => {
            let mut visitor = visitor.unwrap();
            visitor.stream.write_all(b"y").await.unwrap();
            visitor.stream.flush().await.unwrap();
            stream.read_exact(&mut byte).await.is_ok()
        }
        read = stream.read_exact(&mut byte) => read.is_ok(),
    }
}

#[test]
fn an_authority_is_made_once_and_found_again_and_nobody_else_reads_its_key() {
    let scratch = Scratch::new();
    let dir = scratch.0.join("site");
    let first = Authority::open(&dir).unwrap();
    let again = Authority::open(&dir).unwrap();
    assert_eq!(first.fingerprint(), again.fingerprint());
    assert_eq!(first.fingerprint().to_string().parse::<Fingerprint>().unwrap(), first.fingerprint());
    let mode = |name: &str| dir.join(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("authority.key"), 0o600);
    assert_eq!(dir.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    std::fs::set_permissions(dir.join("authority.key"), std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(Authority::open(&dir), Err(Error::Exposed { .. })));
}

#[test]
fn an_authority_that_was_interrupted_is_made_anew_and_one_without_its_key_is_an_error() {
    let scratch = Scratch::new();
    let first = Authority::open(&scratch.0).unwrap().fingerprint();
    std::fs::remove_file(scratch.0.join("authority.pem")).unwrap();
    assert_ne!(Authority::open(&scratch.0).unwrap().fingerprint(), first);
    std::fs::remove_file(scratch.0.join("authority.key")).unwrap();
    let error = Authority::open(&scratch.0).unwrap_err();
    assert!(matches!(error, Error::Half { .. }), "{error}");
    assert!(error.hint().contains("backup"));
}

#[test]
fn an_identity_is_kept_whole_and_renewed_before_it_ends() {
    let scratch = Scratch::new();
    let authority = Authority::open(&scratch.0).unwrap();
    let dir = scratch.0.join("manager");
    assert!(Identity::load(&dir).unwrap().is_none());
    manager(&authority, 1).save(&dir).unwrap();
    let identity = Identity::load(&dir).unwrap().unwrap();
    assert_eq!(identity.role(), &Role::Manager(disk(1)));
    assert_eq!(identity.fingerprint(), authority.fingerprint());
    let left = identity.ends().duration_since(SystemTime::now()).unwrap();
    assert!(left <= LIFE && left > LIFE - std::time::Duration::from_secs(3600));
    assert!(identity.renew_at() < identity.ends());
    std::fs::write(dir.join("identity.pem"), "not PEM").unwrap();
    assert!(matches!(Identity::load(&dir), Err(Error::Damaged { .. })));
}

#[test]
fn a_certificate_says_what_the_site_chose_and_is_good_for_its_own_key_only() {
    let scratch = Scratch::new();
    let authority = Authority::open(&scratch.0).unwrap();
    let (mine, other) = (Request::new().unwrap(), Request::new().unwrap());
    let certificate = authority.issue(mine.pem(), &Role::Manager(disk(7)), &[]).unwrap();
    assert!(matches!(other.granted(&certificate, authority.pem()), Err(Error::OtherKey)));
    assert_eq!(mine.granted(&certificate, authority.pem()).unwrap().role(), &Role::Manager(disk(7)));
    for bad in ["", "x", &"-----BEGIN CERTIFICATE REQUEST-----\n".repeat(1000)] {
        assert!(matches!(authority.issue(bad, &Role::Controller, &[]), Err(Error::Request { .. })));
    }
}

#[test]
fn a_certificate_of_another_site_is_not_taken_for_ours() {
    let scratch = Scratch::new();
    let ours = Authority::open(&scratch.0.join("ours")).unwrap();
    let theirs = Authority::open(&scratch.0.join("theirs")).unwrap();
    let request = Request::new().unwrap();
    let certificate = theirs.issue(request.pem(), &Role::Controller, &[]).unwrap();
    assert!(matches!(request.granted(&certificate, ours.pem()), Err(Error::Certificate { .. })));
}

#[tokio::test]
async fn members_reach_each_other_by_role_and_both_kinds_share_a_port() {
    let scratch = Scratch::new();
    let authority = Authority::open(&scratch.0).unwrap();
    let mut door = door(&manager(&authority, 1), 4).await;
    let dialler = dialler(manager(&authority, 2));
    let address = door.address.clone();
    let mut stream = dialler.chunks(&disk(1), &address).await.unwrap();
    stream.write_all(b"x").await.unwrap();
    let visitor = door.visitors.recv().await.unwrap();
    assert!(visitor.wants_chunks);
    assert_eq!(visitor.role, Role::Manager(disk(2)));
    assert_eq!(
        visitor.stream.get_ref().1.negotiated_cipher_suite().unwrap().suite(),
        rustls::CipherSuite::TLS13_AES_128_GCM_SHA256
    );
    let mut calls = dialler.calls(&disk(1), &address).unwrap();
    tokio::spawn(async move { drop(calls.version_get(wire::images::VersionGetRequest {}).await) });
    assert!(!door.visitors.recv().await.unwrap().wants_chunks);
}

#[tokio::test]
async fn a_disk_that_was_exchanged_is_not_talked_to() {
    let scratch = Scratch::new();
    let authority = Authority::open(&scratch.0).unwrap();
    let door = door(&manager(&authority, 1), 4).await;
    let error = dialler(manager(&authority, 2)).chunks(&disk(3), &door.address).await.unwrap_err();
    assert!(matches!(error, images::dial::Error::Handshake { .. }), "{error}");
    assert!(error.hint().contains("exchanged"));
}

#[tokio::test]
async fn a_stranger_with_the_right_role_is_let_in_by_nobody_and_lets_in_nobody() {
    let scratch = Scratch::new();
    let ours = Authority::open(&scratch.0.join("ours")).unwrap();
    let theirs = Authority::open(&scratch.0.join("theirs")).unwrap();
    let mut ours_door = door(&manager(&ours, 1), 4).await;
    let stranger = dialler(manager(&theirs, 2));
    assert!(stranger.chunks(&disk(1), &ours_door.address).await.is_err());
    let theirs_door = door(&manager(&theirs, 1), 4).await;
    assert!(dialler(manager(&ours, 2)).chunks(&disk(1), &theirs_door.address).await.is_err());
    assert!(ours_door.visitors.try_recv().is_err());
}

#[tokio::test]
async fn who_trusts_the_server_is_refused_by_it_with_a_strangers_certificate_or_none() {
    let scratch = Scratch::new();
    let ours = Authority::open(&scratch.0.join("ours")).unwrap();
    let theirs = Authority::open(&scratch.0.join("theirs")).unwrap();
    let mut door = door(&manager(&ours, 1), 4).await;
    let config = |authority: &Authority| {
        client_config(&manager(authority, 2), &Role::Manager(disk(1)), &[ALPN_CHUNKS]).unwrap()
    };
    // They find nothing wrong with the server's certificate: it is the server that finds something wrong with theirs.
    let with = |certificate: &rustls::ClientConfig| {
        let mut trusting = config(&ours);
        trusting.client_auth_cert_resolver = Arc::clone(&certificate.client_auth_cert_resolver);
        trusting
    };
    let without = Pinned(ours.fingerprint()).client_config(&[ALPN_CHUNKS]).unwrap();
    for (who, config, let_in) in [
        ("a member", with(&config(&ours)), true),
        ("a stranger", with(&config(&theirs)), false),
        ("nobody", with(&without), false),
    ] {
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let tcp = TcpStream::connect(&door.address).await.unwrap();
        let stream = connector.connect("x.invalid".try_into().unwrap(), tcp).await;
        let stream = stream.unwrap_or_else(|error| panic!("{who} does not trust the server: {error}"));
        assert_eq!(echo(&mut door, stream).await, let_in, "{who}");
    }
    assert!(door.visitors.try_recv().is_err());
}

#[tokio::test]
async fn who_pins_the_site_talks_to_its_controller_and_to_no_manager() {
    let scratch = Scratch::new();
    let authority = Authority::open(&scratch.0.join("ours")).unwrap();
    let theirs = Authority::open(&scratch.0.join("theirs")).unwrap();
    let connect = async |identity: Identity, pin: Fingerprint| {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let config = server_config(&identity, Clients::Anybody, &[b"http/1.1"]).unwrap();
        let accepted = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            assert!(listen::begins_as_tls(&stream).await.unwrap());
            tokio_rustls::TlsAcceptor::from(Arc::new(config)).accept(stream).await.is_ok()
        });
        let config = Pinned(pin).client_config(&[b"http/1.1"]).unwrap();
        let tcp = TcpStream::connect(address).await.unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let connected = connector.connect("x.invalid".try_into().unwrap(), tcp).await.is_ok();
        assert_eq!(accepted.await.unwrap(), connected);
        connected
    };
    let pin = authority.fingerprint();
    assert!(connect(authority.identity(&Role::Controller, &["localhost".into()]).unwrap(), pin).await);
    assert!(!connect(manager(&authority, 1), pin).await);
    assert!(!connect(theirs.identity(&Role::Controller, &[]).unwrap(), pin).await);
}

#[tokio::test]
async fn many_who_want_chunks_do_not_keep_a_controller_out() {
    let scratch = Scratch::new();
    let authority = Authority::open(&scratch.0).unwrap();
    let mut door = door(&manager(&authority, 1), 2).await;
    let peer = dialler(manager(&authority, 2));
    let mut kept = Vec::new();
    for _ in 0..2 {
        let stream = peer.chunks(&disk(1), &door.address).await.unwrap();
        kept.push((stream, door.visitors.recv().await.unwrap()));
    }
    let address = door.address.clone();
    let third = peer.chunks(&disk(1), &address).await.unwrap();
    assert!(!echo(&mut door, third).await, "a third one was let in");
    let controller = dialler(authority.identity(&Role::Controller, &[]).unwrap());
    let mut calls = controller.calls(&disk(1), &address).unwrap();
    tokio::spawn(async move { drop(calls.version_get(wire::images::VersionGetRequest {}).await) });
    assert_eq!(door.visitors.recv().await.unwrap().role, Role::Controller);
    // A place that is left is free again.
    drop(kept.pop());
    let next = peer.chunks(&disk(1), &address).await.unwrap();
    assert!(echo(&mut door, next).await);
}
