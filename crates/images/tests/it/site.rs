//! The API of a site, asked as people and managers ask it. What managers do with it is tested with real ones elsewhere.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use images::identity::{Authority, Pinned, Request, Role, Token, client_config};
use images::settings::Settings;
use images::site::{Error, Options, Service};
use logic::images::DiskId;
use reqwest::{Client, Method, StatusCode};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

struct Site {
    dir: PathBuf,
    address: SocketAddr,
    token: Token,
    stop: CancellationToken,
    running: Option<tokio::task::JoinHandle<()>>,
    client: Client,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop.cancel();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn scratch() -> PathBuf {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("holdfast-site-{}-{number}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn options(dir: &std::path::Path, disks: Vec<PathBuf>) -> Options {
    let settings = Settings {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        state: dir.join("state/state.redb"),
        disks,
        node: Some("here".to_owned()),
        ..Settings::default()
    };
    // Managers that end at once: these tests have none.
    Options {
        settings,
        program: PathBuf::from("/bin/false"),
        version: "1.2.3".to_owned(),
        manager_arguments: Vec::new(),
    }
}

impl Site {
    async fn start() -> Self {
        let dir = scratch();
        Self::at(dir, Vec::new()).await
    }

    async fn at(dir: PathBuf, disks: Vec<PathBuf>) -> Self {
        let service = Service::bind(options(&dir, disks)).await.unwrap();
        let address = service.address().unwrap();
        let stop = CancellationToken::new();
        let running = Some(tokio::spawn(service.run(stop.clone())));
        let token = std::fs::read_to_string(dir.join("state/admin.token")).unwrap();
        let token: Token = token.parse().unwrap();
        let tls = Pinned(token.fingerprint).client_config(&[b"h2", b"http/1.1"]).unwrap();
        let client = Client::builder().tls_backend_preconfigured(tls).no_proxy().build().unwrap();
        Self { dir, address, token, stop, running, client }
    }

    async fn ask(&self, method: Method, path: &str, token: &str, body: Option<Value>) -> (StatusCode, Value) {
        let mut request = self.client.request(method, format!("http://{}{path}", self.address));
        if !token.is_empty() {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.unwrap();
        (answer.status(), answer.json().await.unwrap_or(Value::Null))
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.ask(Method::GET, path, &self.token.to_string(), None).await
    }

    async fn post(&self, path: &str, body: Value) -> (StatusCode, Value) {
        self.ask(Method::POST, path, &self.token.to_string(), Some(body)).await
    }

    async fn token(&self, role: &str) -> String {
        let (status, made) = self.post("/v1/tokens", json!({"role": role})).await;
        assert_eq!(status, StatusCode::CREATED, "{made}");
        made["token"].as_str().unwrap().to_owned()
    }

    async fn stop(&mut self) {
        self.stop.cancel();
        self.running.take().unwrap().await.unwrap();
    }
}

fn image(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"source": {"url": {"url": "https://example.com/x"}}, "disks": []}})
}

fn refused(answer: &(StatusCode, Value), code: u16, reason: &str) {
    let (status, body) = answer;
    assert_eq!(status.as_u16(), code, "{body}");
    assert_eq!((&body["kind"], &body["code"]), (&json!("Status"), &json!(code)), "{body}");
    assert_eq!(body["reason"], reason, "{body}");
    assert!(body["message"].as_str().is_some_and(|text| !text.is_empty()));
}

#[tokio::test]
async fn nobody_gets_in_without_a_token_and_is_told_why() {
    let site = Site::start().await;
    for path in ["/v1/images", "/v1/disks", "/v1/managers", "/v1/volumes", "/v1/tokens", "/v1/nonsense"] {
        refused(&site.ask(Method::GET, path, "", None).await, 401, "Unauthorized");
    }
    let other = Token::new("ab".repeat(32).parse().unwrap()).to_string();
    let unknown = Token::new(site.token.fingerprint).to_string();
    for (token, says) in
        [("nonsense", "not a token"), (other.as_str(), "another site"), (&unknown, "not known")]
    {
        let answer = site.ask(Method::GET, "/v1/images", token, None).await;
        refused(&answer, 401, "Unauthorized");
        assert!(answer.1["message"].as_str().unwrap().contains(says), "{}", answer.1);
        assert!(answer.1["hint"].is_string());
    }
    for path in ["/v1/openapi", "/v1/version"] {
        assert_eq!(site.ask(Method::GET, path, "", None).await.0, StatusCode::OK);
    }
    refused(&site.get("/v1/nonsense").await, 404, "NotFound");
    refused(
        &site.ask(Method::PATCH, "/v1/images", &site.token.to_string(), None).await,
        405,
        "MethodNotAllowed",
    );
}

#[tokio::test]
async fn a_token_is_for_what_it_was_made_for_until_it_is_removed() {
    let site = Site::start().await;
    let (reader, join) = (site.token("reader").await, site.token("join").await);
    assert_eq!(site.ask(Method::GET, "/v1/images", &reader, None).await.0, StatusCode::OK);
    refused(&site.ask(Method::POST, "/v1/images", &reader, Some(image("a"))).await, 403, "Forbidden");
    refused(&site.ask(Method::GET, "/v1/tokens", &reader, None).await, 403, "Forbidden");
    refused(&site.ask(Method::GET, "/v1/images", &join, None).await, 403, "Forbidden");
    let (_, list) = site.get("/v1/tokens").await;
    assert_eq!(list["items"].as_array().unwrap().len(), 3);
    assert!(!list.to_string().contains("sha256"), "{list}");
    let id = reader.split('_').nth(1).unwrap();
    let all = site.token.to_string();
    assert_eq!(site.ask(Method::DELETE, &format!("/v1/tokens/{id}"), &all, None).await.0, StatusCode::OK);
    refused(&site.ask(Method::GET, "/v1/images", &reader, None).await, 401, "Unauthorized");
    refused(&site.post("/v1/tokens", json!({"role": "king"})).await, 400, "Invalid");
    refused(&site.post("/v1/tokens", json!({"role": "join", "ttlSeconds": 0})).await, 400, "Invalid");
}

#[tokio::test]
async fn an_image_is_created_once_gets_a_uuid_and_goes_when_it_is_removed() {
    let site = Site::start().await;
    let (status, made) = site.post("/v1/images", image("debian")).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    assert_eq!(
        (&made["apiVersion"], &made["kind"]),
        (&json!("holdfast.dev/v1alpha1"), &json!("BackingImage"))
    );
    refused(&site.post("/v1/images", image("debian")).await, 409, "AlreadyExists");
    let mut uuid = Value::Null;
    for _ in 0..200 {
        uuid = site.get("/v1/images/debian").await.1["status"]["uuid"].clone();
        if uuid.is_string() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(uuid.is_string());
    let (_, list) = site.get("/v1/images").await;
    assert_eq!(
        (&list["kind"], &list["items"][0]["kind"]),
        (&json!("BackingImageList"), &json!("BackingImage"))
    );
    assert_eq!(list["items"][0]["metadata"]["name"], "debian");
    let all = site.token.to_string();
    assert_eq!(site.ask(Method::DELETE, "/v1/images/debian", &all, None).await.0, StatusCode::ACCEPTED);
    for _ in 0..200 {
        if site.get("/v1/images/debian").await.0 == StatusCode::NOT_FOUND {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the image is still there");
}

#[tokio::test]
async fn what_can_not_be_meant_is_refused_with_what_is_wrong() {
    let site = Site::start().await;
    let with = |change: &dyn Fn(&mut Value)| {
        let mut body = image("a");
        change(&mut body);
        body
    };
    for body in [
        with(&|body| body["metadata"]["name"] = json!("../etc")),
        with(&|body| body["spec"]["checksum"] = json!("md5:00")),
        with(&|body| body["spec"]["source"]["url"]["url"] = json!("gopher://x")),
        with(&|body| body["spec"]["disks"] = json!(["nowhere"])),
        with(&|body| body["spec"]["colour"] = json!("blue")),
        json!({"metadata": {"name": "a"}}),
        json!([]),
    ] {
        refused(&site.post("/v1/images", body).await, 400, "Invalid");
    }
    let stranger = "11111111-2222-4333-8444-555555555555";
    let body = with(&|body| body["spec"]["disks"] = json!([stranger]));
    refused(&site.post("/v1/images", body).await, 404, "NotFound");
    refused(&site.post("/v1/images?copies=many", image("a")).await, 400, "Invalid");
    let large = with(&|body| body["spec"]["checksum"] = json!("x".repeat(2 << 20)));
    refused(&site.post("/v1/images", large).await, 413, "TooLarge");
    refused(&site.post("/v1/images/a/cleanup", json!({"disks": [stranger]})).await, 404, "NotFound");
    refused(&site.post("/v1/images/a/spread", json!({})).await, 404, "NotFound");
    refused(&site.get("/v1/images/a/content").await, 404, "NotFound");
    let volume = json!({"metadata": {"name": "v"}, "spec": {"backingImage": "a"}});
    refused(&site.post("/v1/volumes", volume).await, 404, "NotFound");
    let list = site.get("/v1/images").await.1;
    assert!(list["items"].as_array().unwrap().is_empty(), "{list}");
}

#[tokio::test]
async fn an_image_for_all_disks_is_for_those_that_are_away_too_and_without_any_it_is_refused() {
    let anywhere = |name: &str| {
        let mut body = image(name);
        body["spec"].as_object_mut().unwrap().remove("disks");
        body
    };
    let site = Site::start().await;
    for copies in ["", "?copies=all", "?copies=2"] {
        let answer = site.post(&format!("/v1/images{copies}"), anywhere("debian")).await;
        refused(&answer, 503, "Unavailable");
        assert!(answer.1["hint"].as_str().unwrap().contains("--disk"), "{}", answer.1);
    }
    assert_eq!(site.post("/v1/images?copies=0", anywhere("on-demand")).await.0, StatusCode::CREATED);

    // One that was a disk once, and is not there any more.
    let dir = scratch();
    let paths = vec![dir.join("here"), dir.join("away")];
    let mut site = Site::at(dir.clone(), paths.clone()).await;
    site.stop().await;
    std::fs::remove_file(paths[1].join("holdfast-disk.cfg")).unwrap();
    let site = Site::at(dir, paths).await;
    let ready = async || {
        let disks = site.get("/v1/disks").await.1;
        let disks = disks["items"].as_array().unwrap().clone();
        disks.iter().filter(|disk| disk["status"]["ready"] == true).count()
    };
    for _ in 0..200 {
        if ready().await == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(ready().await, 1);
    let disks = |made: &Value| made["spec"]["disks"].as_array().unwrap().len();
    let (_, made) = site.post("/v1/images?copies=all", anywhere("everywhere")).await;
    assert_eq!(disks(&made), 2, "{made}");
    let (_, made) = site.post("/v1/images", anywhere("once")).await;
    assert_eq!(disks(&made), 1, "{made}");
    let on = made["spec"]["disks"][0].as_str().unwrap();
    assert_eq!(site.get(&format!("/v1/disks/{on}")).await.1["status"]["ready"], true);
    let (_, spread) = site.post("/v1/images/once/spread", json!({"copies": "all"})).await;
    assert_eq!(disks(&spread), 2, "{spread}");
}

#[tokio::test]
async fn a_volume_is_made_on_the_image_that_was_meant_or_not_at_all() {
    let site = Site::at(scratch(), vec![scratch().join("disk")]).await;
    let (good, bad) = (format!("sha256:{}", "ab".repeat(32)), format!("sha256:{}", "cd".repeat(32)));
    let mut checked = image("checked");
    checked["spec"]["checksum"] = json!(good);
    for image in [checked, image("unchecked")] {
        assert_eq!(site.post("/v1/images", image).await.0, StatusCode::CREATED);
    }
    let make = async |name: &str, image: &str, query: &str| {
        let body = json!({"metadata": {"name": name}, "spec": {"backingImage": image}});
        site.post(&format!("/v1/volumes{query}"), body).await
    };
    let (same, other) = ("https://example.com/x", "https://example.com/y");
    for (image, query) in [
        ("checked", format!("?url={same}&checksum={bad}")),
        ("checked", format!("?url={other}")),
        ("unchecked", format!("?url={other}")),
        // Nobody knows yet what it is.
        ("unchecked", format!("?url={same}&checksum={good}")),
    ] {
        let answer = make("v", image, &query).await;
        refused(&answer, 409, "Refused");
        assert!(answer.1["hint"].is_string(), "{}", answer.1);
    }
    // What was asked for is told by the checksum, wherever it came from.
    for (volume, image, query) in [
        ("a", "checked", String::new()),
        ("b", "checked", format!("?url={other}&checksum={good}")),
        ("c", "unchecked", format!("?url={same}")),
    ] {
        let (status, made) = make(volume, image, &query).await;
        assert_eq!(status, StatusCode::CREATED, "{made}");
    }
}

#[tokio::test]
async fn a_watch_tells_what_is_there_and_then_what_happens() {
    let site = Site::start().await;
    site.post("/v1/images", image("first")).await;
    let url = format!("http://{}/v1/images?watch=true", site.address);
    let mut watch = site.client.get(url).bearer_auth(site.token.to_string()).send().await.unwrap();
    site.post("/v1/images", image("second")).await;
    let (mut text, mut seen) = (String::new(), Vec::new());
    while !seen.contains(&("ADDED".to_owned(), "second".to_owned())) {
        let piece = watch.chunk().await.unwrap().unwrap();
        text.push_str(std::str::from_utf8(&piece).unwrap());
        while let Some((line, rest)) = text.split_once('\n') {
            let event: Value = serde_json::from_str(line).unwrap();
            let name = event["object"]["metadata"]["name"].as_str().unwrap().to_owned();
            seen.push((event["type"].as_str().unwrap().to_owned(), name));
            text = rest.to_owned();
        }
    }
    assert_eq!(seen[0], ("ADDED".to_owned(), "first".to_owned()));
    refused(&site.get("/v1/images?watch=true&resourceVersion=999999").await, 410, "Expired");
}

#[tokio::test]
async fn a_manager_joins_with_a_token_and_registers_with_its_certificate_only() {
    let site = Site::start().await;
    let disk = "11111111-2222-4333-8444-555555555555";
    let request = Request::new().unwrap();
    let body = json!({"disk": disk, "node": "far", "request": request.pem()});
    let reader = site.token("reader").await;
    for token in ["", "hft_bad", &reader] {
        let (status, _) = site.ask(Method::POST, "/v1/join", token, Some(body.clone())).await;
        assert!(status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN, "{status}");
    }
    let bad = json!({"disk": disk, "node": "far", "request": "nonsense"});
    let join = site.token("join").await;
    refused(&site.ask(Method::POST, "/v1/join", &join, Some(bad)).await, 400, "Invalid");
    let (status, joined) = site.ask(Method::POST, "/v1/join", &join, Some(body)).await;
    assert_eq!(status, StatusCode::OK, "{joined}");
    let text = |name: &str| joined[name].as_str().unwrap().to_owned();
    let identity = request.granted(&text("certificate"), &text("authority")).unwrap();
    assert_eq!(*identity.role(), Role::Manager(DiskId::parse(disk).unwrap()));
    let register = |disk: &str, node: &str, api: u32| {
        json!({
            "disk": disk, "node": node, "path": "/d", "address": "127.0.0.1:1", "apiVersion": api, "apiMinVersion": api,
            "program": {"path": "/usr/bin/holdfast", "version": "1.2.3"},
        })
    };
    refused(&site.post("/v1/register", register(disk, "far", 2)).await, 403, "Forbidden");
    let as_member = |identity: &images::identity::Identity| {
        let tls = client_config(identity, &Role::Controller, &[b"h2", b"http/1.1"]).unwrap();
        Client::builder().tls_backend_preconfigured(tls).no_proxy().build().unwrap()
    };
    let member = as_member(&identity);
    let url = |path: &str| format!("https://{}{path}", site.address);
    let send = async |body: Value| {
        let answer = member.post(url("/v1/register")).json(&body).send().await.unwrap();
        (answer.status(), answer.json::<Value>().await.unwrap())
    };
    let (status, answer) = send(register(disk, "far", 2)).await;
    assert_eq!((status, &answer["wanted"]), (StatusCode::OK, &json!(true)), "{answer}");
    let (_, disks) = site.get("/v1/disks").await;
    assert_eq!(disks["items"][0]["spec"], json!({"node": "far", "path": "/d"}));
    let (_, managers) = site.get("/v1/managers").await;
    assert_eq!(managers["items"][0]["spec"]["program"]["version"], "1.2.3");
    let name = managers["items"][0]["metadata"]["name"].as_str().unwrap();
    assert_eq!(site.get(&format!("/v1/managers/{name}")).await.1["status"]["role"], "default");
    // Not under the name of the site's own machine, whose disks have managers of its own.
    let (status, said) = send(register(disk, "here", 2)).await;
    assert_eq!(status, StatusCode::CONFLICT, "{said}");
    assert!(said["hint"].as_str().unwrap().contains("--node"), "{said}");
    let namesake = json!({"disk": disk, "node": "here", "request": Request::new().unwrap().pem()});
    refused(&site.ask(Method::POST, "/v1/join", &join, Some(namesake)).await, 409, "Refused");
    // Not for another disk, not with an API that nobody here speaks, and nothing else at all.
    let other = "99999999-2222-4333-8444-555555555555";
    refused(&send(register(other, "far", 2)).await, 403, "Forbidden");
    refused(&send(register(disk, "far", 99)).await, 409, "Refused");
    let answer = member.get(url("/v1/images")).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    // Somebody who trusts the site, with a certificate of another one, does not get through the handshake.
    let strange = Authority::open(&site.dir.join("strange")).unwrap();
    let role = Role::Manager(DiskId::parse(disk).unwrap());
    let config = |identity: &images::identity::Identity| {
        client_config(identity, &Role::Controller, &[b"h2", b"http/1.1"]).unwrap()
    };
    let shown = config(&strange.identity(&role, &[]).unwrap()).client_auth_cert_resolver;
    let mut tls = config(&identity);
    tls.client_auth_cert_resolver = shown;
    let stranger = Client::builder().tls_backend_preconfigured(tls).no_proxy().build().unwrap();
    let answer = stranger.post(url("/v1/register")).json(&register(disk, "far", 2)).send().await;
    assert!(answer.is_err());
}

#[tokio::test]
async fn the_port_speaks_tls_as_well_and_clients_know_whom_they_talk_to() {
    let site = Site::start().await;
    let url = format!("https://{}/v1/images", site.address);
    let answer = site.client.get(&url).bearer_auth(site.token.to_string()).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let tls = Pinned("ab".repeat(32).parse().unwrap()).client_config(&[b"h2"]).unwrap();
    let other = Client::builder().tls_backend_preconfigured(tls).no_proxy().build().unwrap();
    assert!(other.get(&url).bearer_auth(site.token.to_string()).send().await.is_err());
}

#[tokio::test]
async fn one_service_at_a_time_has_a_state_and_the_next_one_goes_on_with_it() {
    let mut site = Site::start().await;
    site.post("/v1/images", image("debian")).await;
    let second = Service::bind(options(&site.dir, Vec::new())).await.err().unwrap();
    assert!(matches!(second, Error::Open(store::OpenError::InUse { .. })), "{second}");
    assert!(second.hint().contains("stop the other one"));
    site.stop().await;
    let again = Site::at(site.dir.clone(), Vec::new()).await;
    assert_eq!(again.token, site.token, "the token changed");
    assert_eq!(again.get("/v1/images/debian").await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_directory_becomes_a_disk_once_and_never_because_it_is_empty() {
    let dir = scratch();
    let path = dir.join("disk");
    let mut site = Site::at(dir.clone(), vec![path.clone()]).await;
    let (_, disks) = site.get("/v1/disks").await;
    let id = disks["items"][0]["metadata"]["name"].as_str().unwrap().to_owned();
    let file = path.join("holdfast-disk.cfg");
    assert!(std::fs::read_to_string(&file).unwrap().contains(&id));
    site.stop().await;
    std::fs::remove_file(&file).unwrap();
    let mut site = Site::at(dir.clone(), vec![path.clone()]).await;
    assert!(!file.exists(), "an empty mount point became a disk");
    let ready = async |site: &Site| site.get(&format!("/v1/disks/{id}")).await.1["status"]["ready"] == true;
    for _ in 0..200 {
        if !ready(&site).await {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!ready(&site).await);
    let answer = site.ask(Method::DELETE, &format!("/v1/disks/{id}"), &site.token.to_string(), None).await;
    refused(&answer, 409, "Refused");
    site.stop().await;
    // The same disk twice is a mistake.
    let twice = vec![path.clone(), path.join("../disk")];
    std::fs::write(&file, format!("{{\"diskUUID\":\"{id}\"}}")).unwrap();
    let error = Service::bind(options(&dir, twice)).await.err().unwrap();
    assert!(matches!(error, Error::SameDisk { .. }), "{error}");
}

#[tokio::test]
async fn a_thousand_images_are_listed() {
    let site = Arc::new(Site::start().await);
    let mut creating = tokio::task::JoinSet::new();
    for number in 0..1000 {
        let site = Arc::clone(&site);
        creating.spawn(async move { site.post("/v1/images", image(&format!("image-{number}"))).await.0 });
        if creating.len() >= 64 {
            assert_eq!(creating.join_next().await.unwrap().unwrap(), StatusCode::CREATED);
        }
    }
    while let Some(made) = creating.join_next().await {
        assert_eq!(made.unwrap(), StatusCode::CREATED);
    }
    let begin = std::time::Instant::now();
    let (_, list) = site.get("/v1/images").await;
    println!("listed in {:?}", begin.elapsed());
    assert_eq!(list["items"].as_array().unwrap().len(), 1000);
}
