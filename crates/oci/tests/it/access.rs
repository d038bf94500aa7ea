//! How a registry lets people in: passwords, tokens, authorities of its own; and what is said where it does not.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use oci::{Access, FetchError, ImageReference, ImageSource, Limits, chain};
use testkit::flaky_proxy::{Asked, Fault, FlakyProxy};
use testkit::image::{Form, Image, Layout, Packing};
use testkit::registry::{Options, PASSWORD, Registry, Scratch, USER, certificates, docker_config};

const REPOSITORY: &str = "private/releases";

fn push_one(registry: &Registry, scratch: &Scratch) {
    let mut layout = Layout::create(&scratch.join("layout"));
    layout.tag(&layout.image(&Image::release("1.0.0", &[], "amd64", Form::Oci, Packing::Gzip)), "a");
    registry.push(&layout, "a", REPOSITORY, "a", Form::Oci);
}

fn reference(registry: &Registry, scheme: &str) -> ImageReference {
    ImageReference::parse(&format!("{scheme}://{}/{REPOSITORY}:a", registry.host())).unwrap()
}

/// Without a file, those of whoever runs the tests would be used.
fn with(scratch: &Scratch, credentials: Option<&Path>) -> Access {
    let none = scratch.join("none.json");
    fs::write(&none, "{}").unwrap();
    Access { credentials: Some(credentials.map_or(none, Path::to_owned)), ..Access::default() }
}

async fn open(reference: ImageReference, access: Access) -> Result<ImageSource, FetchError> {
    reference.open(&access, &Limits { retries: 0, ..Limits::default() }).await
}

async fn let_in(source: &ImageSource) {
    let image = source.image(&source.digest().await.unwrap()).await.unwrap();
    assert_eq!(image.layers.len(), 2);
}

async fn denied(reference: ImageReference, access: Access) -> String {
    match open(reference, access).await {
        Ok(source) => chain(&source.digest().await.unwrap_err()),
        Err(error) => chain(&error),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_and_a_password_are_taken_from_config_json() {
    let scratch = Scratch::new("access");
    let registry = Registry::with(Options { basic_auth: true, ..Options::default() });
    push_one(&registry, &scratch);
    let (right, wrong) = (scratch.join("config.json"), scratch.join("wrong.json"));
    docker_config(&right, &registry.host(), USER, PASSWORD);
    docker_config(&wrong, &registry.host(), USER, "looking-glass");

    let_in(&open(reference(&registry, "http"), with(&scratch, Some(&right))).await.unwrap()).await;

    let text = denied(reference(&registry, "http"), with(&scratch, Some(&wrong))).await;
    assert!(text.contains("does not let us in: the credentials are refused"), "{text}");
    assert!(!text.contains("looking-glass"), "{text}");
    let text = denied(reference(&registry, "http"), with(&scratch, None)).await;
    assert!(text.contains("asks for a user and a password"), "{text}");
    let text =
        denied(reference(&registry, "http"), with(&scratch, Some(&scratch.join("missing.json")))).await;
    assert!(text.contains("missing.json"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_with_an_authority_of_its_own_is_trusted_when_told_to() {
    let scratch = Scratch::new("access");
    certificates(&scratch.0);
    let tls = Some((scratch.join("server.pem"), scratch.join("server.key")));
    let registry = Registry::with(Options { tls, ..Options::default() });
    push_one(&registry, &scratch);

    let trusting = |file: &str| Access { ca_file: Some(scratch.join(file)), ..with(&scratch, None) };
    let_in(&open(reference(&registry, "https"), trusting("ca.pem")).await.unwrap()).await;

    let text = denied(reference(&registry, "https"), with(&scratch, None)).await;
    assert!(text.contains("certificate"), "{text}");
    let text = denied(reference(&registry, "https"), trusting("server.key")).await;
    assert!(text.contains("server.key") && text.contains("no certificate"), "{text}");
}

/// Signs what the registry is to believe, with the key beside the certificate that it trusts.
fn token(directory: &Path, scope: &str) -> String {
    let certificate = fs::read_to_string(directory.join("ca.pem")).unwrap();
    let der: String = certificate.lines().filter(|line| !line.starts_with("-----")).collect();
    let head = format!(r#"{{"typ":"JWT","alg":"RS256","x5c":["{der}"]}}"#);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let mut parts = scope.splitn(3, ':');
    let (kind, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let actions: Vec<_> = parts.next().unwrap_or_default().split(',').map(|a| format!("\"{a}\"")).collect();
    let claims = format!(
        r#"{{"iss":"test","sub":"alice","aud":"test","exp":{},"nbf":{},"iat":{now},"jti":"x",
            "access":[{{"type":"{kind}","name":"{name}","actions":[{}]}}]}}"#,
        now + 300,
        now - 10,
        actions.join(",")
    );
    let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(head), URL_SAFE_NO_PAD.encode(claims));
    let mut signer = Command::new("openssl")
        .args(["dgst", "-sha256", "-sign", "ca.key"])
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut signer.stdin.take().unwrap(), signed.as_bytes()).unwrap();
    let signature = signer.wait_with_output().unwrap().stdout;
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn scope_of(asked: &Asked) -> String {
    let query = asked.path.split_once('?').map(|(_, query)| query).unwrap_or_default();
    let scope = query.split('&').find_map(|pair| pair.strip_prefix("scope=")).unwrap_or_default();
    scope.replace("%3A", ":").replace("%2F", "/").replace("%2C", ",")
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_exchanged_for_a_token_once() {
    let scratch = Scratch::new("access");
    certificates(&scratch.0);
    let directory = scratch.0.clone();
    let basic = format!("Basic {}", STANDARD.encode(format!("{USER}:{PASSWORD}")));
    let server = FlakyProxy::alone(move |asked| match asked.header("authorization") {
        Some(header) if header == basic => {
            let body = format!(r#"{{"token":"{}"}}"#, token(&directory, &scope_of(asked)));
            Fault::Answer(200, vec![("content-type".into(), "application/json".into())], body.into_bytes())
        }
        _ => Fault::status(401),
    });
    let tokens = Some((format!("http://{}/token", server.address), scratch.join("ca.pem")));
    let registry = Registry::with(Options { tokens, ..Options::default() });
    push_one(&registry, &scratch);
    let (right, wrong) = (scratch.join("config.json"), scratch.join("wrong.json"));
    docker_config(&right, &registry.host(), USER, PASSWORD);
    docker_config(&wrong, &registry.host(), USER, "looking-glass");
    server.take_log();

    let source = open(reference(&registry, "http"), with(&scratch, Some(&right))).await.unwrap();
    for _ in 0..2 {
        let_in(&source).await;
    }
    let log = server.take_log();
    assert_eq!(log.len(), 1, "{log:?}");
    assert_eq!(scope_of(&log[0]), format!("repository:{REPOSITORY}:pull"));

    let text = denied(reference(&registry, "http"), with(&scratch, Some(&wrong))).await;
    assert!(text.contains("the credentials are refused"), "{text}");
    let text = denied(reference(&registry, "http"), with(&scratch, None)).await;
    assert!(text.contains("no token without credentials"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_is_used_where_one_is_given() {
    let (registry, scratch) = (Registry::start(), Scratch::new("access"));
    push_one(&registry, &scratch);
    // To a proxy, the whole address is sent: enough to tell that it was asked.
    let proxy = FlakyProxy::alone(|_| Fault::status(404));
    let through = Access { proxy: Some(format!("http://{}", proxy.address)), ..with(&scratch, None) };
    let text = denied(reference(&registry, "http"), through).await;
    assert!(text.contains("404"), "{text}");
    let log = proxy.take_log();
    assert!(log[0].path.starts_with(&format!("http://{}/v2/", registry.host())), "{log:?}");
}
