//! Pulls from origins that stall, lie, change, break off and come back; each image is right in the end, or not at all.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Image, Place, noise};
use futures_util::stream;
use images::file::{FileError, ImageFile, Validators};
use images::origin::{Body, Origin as Source, OriginError};
use images::pull::{Options, PullError, pull, take_in};
use images::settings::OriginSettings;
use images::throttle::Throttle;
use logic::images::{Format, Held};
use testkit::origin::{Fault, Origin};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use trust::digest::{Digest, Hasher};

fn settings(origin: &Origin) -> OriginSettings {
    OriginSettings {
        allow_private_hosts: vec![origin.host()],
        stall_timeout: Duration::from_millis(300).into(),
        tries: 3,
        ..OriginSettings::default()
    }
}

fn options(settings: OriginSettings, checksum: Option<Digest>) -> Options {
    let (_, elsewhere) = watch::channel(Held::default());
    Options { checksum, elsewhere, throttle: Arc::new(Throttle::new(0)), settings }
}

fn sha512(content: &[u8]) -> Digest {
    let mut hasher = Hasher::sha512();
    hasher.update(content);
    hasher.finish()
}

struct Site {
    place: Place,
    origin: Origin,
    image: Image,
}

impl Site {
    fn new(length: usize) -> Self {
        let image = Image::of(length);
        Self { place: Place::new(), origin: Origin::start(image.content.clone()), image }
    }

    async fn pull_with(&self, file: &Arc<ImageFile>, options: &Options) -> Result<(), PullError> {
        let source = Source::parse(&self.origin.url(), &self.place.name, &options.settings)?;
        pull(file, &source, options, &CancellationToken::new()).await
    }

    async fn pull(&self, checksum: Option<Digest>) -> (Arc<ImageFile>, Result<(), PullError>) {
        let file = self.place.open();
        let pulled = self.pull_with(&file, &options(settings(&self.origin), checksum)).await;
        (file, pulled)
    }

    fn is_whole(&self, file: &ImageFile) {
        assert!(file.filled_now().downloaded);
        assert_eq!(file.seal(), Some(Seal512(self.image.seal(), file).seal()));
        assert!(fs::read(file.path()).unwrap() == self.image.content);
    }
}

/// The expected seal, with the SHA-512 where the file has one.
struct Seal512<'a>(logic::images::Seal, &'a ImageFile);

impl Seal512<'_> {
    fn seal(self) -> logic::images::Seal {
        logic::images::Seal { sha512: self.1.seal().and_then(|seal| seal.sha512), ..self.0 }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_pulled_in_one_request_and_is_what_its_checksums_say() {
    let site = Site::new(9_000_000);
    for checksum in [None, Some(Digest::sha256(&site.image.content)), Some(sha512(&site.image.content))] {
        let (file, pulled) = site.pull(checksum).await;
        pulled.unwrap();
        site.is_whole(&file);
        assert_eq!(file.with(|list, _, _| list.chunks().to_vec()).unwrap(), site.image.chunks);
        file.discard().unwrap();
    }
    assert_eq!(site.origin.asked().len(), 3);
    assert_eq!(site.origin.sent(), 3 * site.image.size());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_image_and_one_without_a_length_are_pulled_too() {
    let site = Site::new(0);
    let (file, pulled) = site.pull(None).await;
    pulled.unwrap();
    site.is_whole(&file);
    let site = Site::new(3_000_000);
    site.origin.set(|served| served.length = false);
    let (file, pulled) = site.pull(None).await;
    pulled.unwrap();
    site.is_whole(&file);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_checksum_is_told_with_both_values_and_no_byte_is_kept() {
    let site = Site::new(2_000_000);
    let wrong = Digest::sha256(b"another");
    let (file, pulled) = site.pull(Some(wrong.clone())).await;
    let error = pulled.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains(wrong.as_str()) && text.contains(Digest::sha256(&site.image.content).as_str()),
        "{text}"
    );
    assert!(!error.is_passing() && error.hint().is_some());
    assert_eq!((file.real_size(), file.filled_now().listed), (0, 0));
    assert!(!file.path().exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_origin_that_stalls_or_breaks_off_is_asked_for_the_rest_only() {
    let site = Site::new(9_000_000);
    site.origin.plan([
        Fault::StallAfter(3_000_000),
        Fault::CutAfter(2_000_000),
        Fault::Status(503, vec![("retry-after", "0".into())]),
    ]);
    let (file, pulled) = site.pull(None).await;
    pulled.unwrap();
    site.is_whole(&file);
    let asked = site.origin.asked();
    assert_eq!(asked.len(), 4);
    assert!(asked[1..].iter().all(|asked| asked.if_range.as_deref() == Some("\"first\"")));
    // What was on its way to a chunk's end comes again.
    assert!(site.origin.sent() < site.image.size() + 2 * (256 << 10), "{}", site.origin.sent());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_origin_that_gives_nothing_is_given_up_and_what_came_is_kept_for_the_next_time() {
    let site = Site::new(4_000_000);
    site.origin.plan([
        Fault::CutAfter(2_000_000),
        Fault::Status(500, vec![]),
        Fault::CutAfter(0),
        Fault::StallAfter(0),
    ]);
    let (file, pulled) = site.pull(None).await;
    let error = pulled.unwrap_err();
    assert!(matches!(error, PullError::GaveUp { tries: 3, .. }) && error.is_passing(), "{error:?}");
    let before = file.filled_now().bytes;
    assert!(before > 1_000_000);
    // As after kill -9: another process, which has the file only.
    let file = site.place.reopen(file);
    assert_eq!(file.filled_now().bytes, before);
    site.pull_with(&file, &options(settings(&site.origin), None)).await.unwrap();
    site.is_whole(&file);
    assert_eq!(site.origin.asked().last().unwrap().range, Some(format!("bytes={before}-")));
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_not_tried_again() {
    let site = Site::new(1000);
    for status in [404, 403, 410] {
        site.origin.plan([Fault::Status(status, vec![])]);
        let (_, pulled) = site.pull(None).await;
        assert!(
            matches!(pulled, Err(PullError::Origin(OriginError::Status { status: got, .. })) if got == status)
        );
    }
    assert_eq!(site.origin.asked().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_origin_that_changes_between_two_requests_is_fetched_anew_and_never_mixed() {
    for etags in [true, false] {
        let mut site = Site::new(6_000_000);
        let next = noise(5_000_000, 77);
        if !etags {
            site.origin.set(|served| served.etag = None);
        }
        site.origin.plan([Fault::CutAfter(3_000_000)]);
        let file = site.place.open();
        let mut filled = file.filled();
        let changing = {
            let (origin, next) = (site.origin.clone(), next.clone());
            async move {
                filled.wait_for(|filled| filled.listed > 0).await.unwrap();
                origin.replace(next);
            }
        };
        let options = options(settings(&site.origin), None);
        let (pulled, ()) = tokio::join!(site.pull_with(&file, &options), changing);
        pulled.unwrap();
        assert_eq!(file.filled_now().generation, 1);
        site.image = Image::new(next);
        site.is_whole(&file);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_origin_that_became_shorter_than_what_came_is_fetched_anew() {
    let site = Site::new(6_000_000);
    site.origin.plan([Fault::StallAfter(4_000_000)]);
    let shorter = Image::seeded(1_500_000, 2);
    let pulling = site.pull(None);
    let replacing = async {
        while site.origin.sent() < 4_000_000 {
            tokio::task::yield_now().await;
        }
        // Its ETag does not tell: what is asked for next lies behind its end (416).
        site.origin.set(|served| served.content = Arc::new(shorter.content.clone()));
    };
    let ((file, pulled), ()) = tokio::join!(pulling, replacing);
    pulled.unwrap();
    assert!(fs::read(file.path()).unwrap() == shorter.content);
    let asked = site.origin.asked();
    assert!(asked[1].range.is_some() && asked.last().unwrap().range.is_none(), "{asked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_origin_without_ranges_or_validators_is_read_again_and_what_is_here_is_compared() {
    for (ranges, etag) in [(false, true), (true, false), (false, false)] {
        let site = Site::new(5_000_000);
        site.origin.set(|served| {
            served.ranges = ranges;
            served.etag = served.etag.take().filter(|_| etag);
        });
        site.origin.plan([Fault::CutAfter(3_000_000)]);
        let (file, pulled) = site.pull(None).await;
        pulled.unwrap();
        site.is_whole(&file);
        assert_eq!(file.filled_now().generation, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_checksum_parts_are_asked_for_even_without_validators_and_a_mixture_is_found_out() {
    let mut site = Site::new(5_000_000);
    site.origin.set(|served| served.etag = Some("W/\"weak\"".into()));
    site.origin.plan([Fault::CutAfter(2_000_000)]);
    let (file, pulled) = site.pull(Some(Digest::sha256(&site.image.content))).await;
    pulled.unwrap();
    site.is_whole(&file);
    assert!(site.origin.asked()[1].range.is_some() && site.origin.asked()[1].if_range.is_none());
    // The second half is another image's, of the same length; then all of that one.
    file.discard().unwrap();
    let next = noise(5_000_000, 5);
    site.origin.plan([Fault::CutAfter(2_000_000)]);
    let mut filled = file.filled();
    let changing = async {
        filled.wait_for(|filled| filled.listed > 0).await.unwrap();
        site.origin.replace(next.clone());
    };
    let options = options(settings(&site.origin), Some(Digest::sha256(&next)));
    let (pulled, ()) = tokio::join!(site.pull_with(&file, &options), changing);
    pulled.unwrap();
    site.image = Image::new(next);
    site.is_whole(&file);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_page_with_status_200_is_not_an_image() {
    let site = Site::new(1_000_000);
    // Called what it is.
    site.origin.set(|served| served.content_type = "text/html; charset=utf-8");
    site.origin.plan([Fault::Page]);
    let (_, pulled) = site.pull(None).await;
    assert!(matches!(pulled, Err(PullError::Origin(OriginError::Page { .. }))), "{pulled:?}");
    // Called something else: the checksum tells, and the words show why.
    site.origin.set(|served| served.content_type = "application/octet-stream");
    site.origin.plan([Fault::Page]);
    let (file, pulled) = site.pull(Some(Digest::sha256(&site.image.content))).await;
    let error = pulled.unwrap_err();
    assert!(error.to_string().contains("DOCTYPE") && error.hint().unwrap().contains("browser"), "{error}");
    // Without a checksum, the format does.
    file.expect_format(Some(Format::Qcow2));
    site.origin.plan([Fault::Page]);
    let pulled = site.pull_with(&file, &options(settings(&site.origin), None)).await;
    assert!(matches!(pulled, Err(PullError::File(FileError::Format(_)))), "{pulled:?}");
    assert!(!file.filled_now().downloaded);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_length_that_lies_is_found_out_by_the_checksum_or_by_the_next_answer() {
    let site = Site::new(3_000_000);
    let checksum = Digest::sha256(&site.image.content);
    for length in [1_000_000, 4_000_000] {
        site.origin.plan([Fault::Length(length)]);
        let (file, pulled) = site.pull(Some(checksum.clone())).await;
        assert!(matches!(pulled, Err(PullError::Checksum { .. })), "{pulled:?}");
        assert_eq!(file.real_size(), 0);
    }
    // The first answer promises more than the file has, and breaks off; the second one says the truth.
    site.origin.set(|served| served.etag = None);
    site.origin.plan([Fault::Length(1 << 50)]);
    let (_, pulled) = site.pull(None).await;
    assert!(matches!(pulled, Err(PullError::Origin(OriginError::TooLarge { .. }))), "{pulled:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn redirections_are_followed_within_their_number_and_each_is_checked() {
    let site = Site::new(100_000);
    let to = |location: &str| Fault::Status(302, vec![("location", location.to_owned())]);
    site.origin.plan([to("/elsewhere"), to("there?x=1")]);
    let (file, pulled) = site.pull(None).await;
    pulled.unwrap();
    site.is_whole(&file);
    assert_eq!(site.origin.asked()[2].path, "/there?x=1");
    file.discard().unwrap();
    site.origin.plan(std::iter::repeat_n(to("/again"), 9));
    let (_, pulled) = site.pull(None).await;
    assert!(matches!(pulled, Err(PullError::Origin(OriginError::Redirects { limit: 5, .. }))), "{pulled:?}");
    let site = Site::new(100_000);
    for location in [
        "http://169.254.169.254/latest/meta-data",
        "http://localhost:1/x",
        "http://[::1]/",
        "http://127.0.0.2/",
    ] {
        site.origin.plan([to(location)]);
        let (_, pulled) = site.pull(None).await;
        assert!(
            matches!(pulled, Err(PullError::Origin(OriginError::Local { .. }))),
            "{location}: {pulled:?}"
        );
    }
    for location in ["file:///etc/passwd", "gopher://x/"] {
        site.origin.plan([to(location)]);
        let (_, pulled) = site.pull(None).await;
        assert!(matches!(pulled, Err(PullError::Origin(_))), "{location}: {pulled:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_configuration_does_not_allow_is_not_asked() {
    let site = Site::new(1000);
    let strict = OriginSettings::default();
    for (url, why) in [
        (site.origin.url(), "an address of this machine"),
        (format!("http://localhost:{}/", site.origin.address.port()), "an address of this machine"),
        ("ftp://example.com/x".to_owned(), "ftp: are not allowed"),
        ("file:///etc/passwd".to_owned(), "in none of the directories"),
    ] {
        let error = match Source::parse(&url, &site.place.name, &strict) {
            Err(error) => PullError::from(error),
            Ok(source) => {
                let cancel = CancellationToken::new();
                pull(&site.place.open(), &source, &options(strict.clone(), None), &cancel).await.unwrap_err()
            }
        };
        assert!(error.to_string().contains(why) && error.hint().is_some(), "{url}: {error}");
    }
    assert!(site.origin.asked().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_or_a_stick_is_an_origin_and_nothing_outside_its_directory_is() {
    let site = Site::new(3_000_000);
    let stick = site.place.outside();
    fs::write(stick.join("debian-12.5.img"), &site.image.content).unwrap();
    fs::write(stick.parent().unwrap().join("secret"), b"x").unwrap();
    std::os::unix::fs::symlink("../secret", stick.join("way-out")).unwrap();
    let settings = OriginSettings { directories: vec![stick.clone()], ..OriginSettings::default() };
    let fetch = async |file: &Arc<ImageFile>, path: String| {
        let source = Source::parse(&format!("file://{path}"), &site.place.name, &settings)?;
        pull(file, &source, &options(settings.clone(), None), &CancellationToken::new()).await
    };
    let file = site.place.open();
    for path in
        [stick.join("way-out"), stick.join("../secret"), stick.join("../nothing"), "/etc/passwd".into()]
    {
        let refused = fetch(&file, path.display().to_string()).await;
        assert!(matches!(refused, Err(PullError::Origin(OriginError::Directory { .. }))), "{refused:?}");
    }
    fetch(&file, stick.join("debian-12.5.img").display().to_string()).await.unwrap();
    site.is_whole(&file);
    file.discard().unwrap();
    fetch(&file, stick.display().to_string()).await.unwrap();
    site.is_whole(&file);
    fs::remove_file(stick.join("debian-12.5.img")).unwrap();
    let file = site.place.other(1);
    let missing = fetch(&file, stick.display().to_string()).await.unwrap_err();
    assert!(missing.to_string().contains("holds no image debian-12.5"), "{missing}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_qcow2_with_a_backing_file_is_refused_however_it_comes() {
    let mut content = noise(300_000, 3);
    content[..512].fill(0);
    content[..4].copy_from_slice(b"QFI\xfb");
    content[4..8].copy_from_slice(&3_u32.to_be_bytes());
    content[8..16].copy_from_slice(&512_u64.to_be_bytes());
    content[16..20].copy_from_slice(&11_u32.to_be_bytes());
    content[512..523].copy_from_slice(b"/etc/shadow");
    let site =
        Site { place: Place::new(), origin: Origin::start(content.clone()), image: Image::new(content) };
    let (file, pulled) = site.pull(None).await;
    let error = pulled.unwrap_err();
    assert!(
        oci::chain(&error).contains("/etc/shadow") && error.hint().unwrap().contains("qemu-img"),
        "{error:?}"
    );
    assert!(!file.filled_now().downloaded && !file.path().exists());
    assert_eq!(file.real_size(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_of_a_registry_is_pulled_with_a_token_that_only_the_registry_sees() {
    let site = Site::new(1_000_000);
    let registry = Origin::start(vec![]);
    let digest = Digest::sha256(&site.image.content);
    let settings = OriginSettings {
        allow_private_hosts: vec![site.origin.host(), registry.host()],
        ..settings(&site.origin)
    };
    let fetch = async |url: &str, checksum| {
        let source = Source::parse(url, &site.place.name, &settings)?;
        let file = site.place.open();
        pull(&file, &source, &options(settings.clone(), checksum), &CancellationToken::new()).await?;
        Ok::<_, PullError>(file)
    };
    let challenge = format!("Bearer realm=\"http://{}/token\",service=\"x\"", registry.host());
    registry.plan([
        Fault::Status(401, vec![("www-authenticate", challenge)]),
        Fault::Text("{\"token\":\"hush\"}".into()),
        Fault::Status(307, vec![("location", site.origin.url())]),
    ]);
    let url = format!("oci+http://{}/images/debian@{digest}", registry.host());
    let file = fetch(&url, None).await.unwrap();
    site.is_whole(&file);
    let asked = registry.asked();
    assert_eq!(asked[0].path, format!("/v2/images/debian/blobs/{digest}"));
    assert_eq!(asked[2].authorization.as_deref(), Some("Bearer hush"));
    assert_eq!(site.origin.asked()[0].authorization, None);
    file.discard().unwrap();
    drop(file);
    // A token address on this machine is not asked either.
    let inside = "Bearer realm=\"http://127.0.0.9/token\"".to_owned();
    registry.plan([Fault::Status(401, vec![("www-authenticate", inside)])]);
    let refused = fetch(&url, None).await;
    assert!(matches!(refused, Err(PullError::Origin(OriginError::Local { .. }))), "{refused:?}");
    // The digest in the address is the checksum.
    registry.plan([Fault::Text("not the blob".into())]);
    assert!(matches!(fetch(&url, None).await, Err(PullError::Checksum { .. })));
    let other = fetch(&url, Some(Digest::sha256(b""))).await;
    assert!(matches!(other, Err(PullError::TwoChecksums { .. })));
    for bad in
        ["oci://registry/images/debian:latest", "oci://registry@sha256:00", "oci://u:p@registry/x@sha256:0"]
    {
        assert!(
            matches!(fetch(bad, None).await, Err(PullError::Origin(OriginError::Address { .. }))),
            "{bad}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_peers_have_is_not_asked_of_the_origin_and_what_nobody_has_is_by_range() {
    let site = Site::new(8_000_000);
    let file = site.place.open();
    let etag = Validators { etag: Some("\"first\"".into()), last_modified: None };
    // The list of the puller before, taken over from a peer that has pieces 1 and 3.
    let listed = 70.min(site.image.chunks.len() - 10);
    file.extend(0, 0, &site.image.chunks[..listed], Some(site.image.size()), &etag).unwrap();
    let peer: Held = [1, 3].into_iter().collect();
    let (have, elsewhere) = watch::channel(peer);
    let options = Options { elsewhere, ..options(settings(&site.origin), None) };
    let receiving = async {
        // Only when the origin gave its part, the peer gives its own.
        let from_peer = site.image.list.span(16..32).end - site.image.list.span(16..32).start
            + (site.image.list.span(48..64).end - site.image.list.span(48..64).start);
        let mut filled = file.filled();
        filled.wait_for(|filled| filled.bytes == site.image.size() - from_peer).await.unwrap();
        let sent = site.origin.sent();
        assert_eq!(sent, site.image.size() - from_peer);
        for range in [16..32, 48..64] {
            file.put(range.start, site.image.bytes(range)).unwrap();
        }
        drop(have);
    };
    let (pulled, ()) = tokio::join!(site.pull_with(&file, &options), receiving);
    pulled.unwrap();
    site.is_whole(&file);
}

#[tokio::test(flavor = "multi_thread")]
async fn if_the_peers_go_away_the_origin_is_asked_after_all() {
    let site = Site::new(3_000_000);
    let file = site.place.open();
    file.extend(0, 0, &site.image.chunks, Some(site.image.size()), &Validators::default()).unwrap();
    let (have, elsewhere) = watch::channel(Held::all(10));
    let options = Options { elsewhere, ..options(settings(&site.origin), None) };
    let leaving = async {
        have.send(Held::default()).unwrap();
        have
    };
    let (pulled, _have) = tokio::join!(site.pull_with(&file, &options), leaving);
    pulled.unwrap();
    site.is_whole(&file);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_site_that_knows_the_image_is_not_given_another_one() {
    let site = Site::new(3_000_000);
    let file = site.place.open();
    file.set_seal(site.image.seal()).unwrap();
    let other = noise(3_000_000, 8);
    site.origin.replace(other);
    let pulled = site.pull_with(&file, &options(settings(&site.origin), None)).await;
    assert!(matches!(pulled, Err(PullError::OtherImage)), "{pulled:?}");
    assert!(!file.filled_now().downloaded);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bit_that_flips_on_this_disk_is_not_blamed_on_the_origin() {
    use std::os::unix::fs::FileExt;
    let site = Site::new(5_000_000);
    site.origin.plan([
        Fault::CutAfter(4_000_000),
        Fault::CutAfter(0),
        Fault::CutAfter(0),
        Fault::CutAfter(0),
    ]);
    let checksum = Some(Digest::sha256(&site.image.content));
    let (file, pulled) = site.pull(checksum.clone()).await;
    pulled.unwrap_err();
    file.release().unwrap();
    let raw = fs::OpenOptions::new().write(true).open(file.dir().join("backing.tmp")).unwrap();
    raw.write_all_at(&[!site.image.content[100]], 100).unwrap();
    let file = site.place.reopen(file);
    site.pull_with(&file, &options(settings(&site.origin), checksum)).await.unwrap();
    site.is_whole(&file);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_whole_image_that_was_touched_only_the_bad_chunks_are_pulled_again() {
    use std::os::unix::fs::FileExt;
    let site = Site::new(5_000_000);
    let (file, pulled) = site.pull(None).await;
    pulled.unwrap();
    let before = site.origin.sent();
    fs::OpenOptions::new().write(true).open(file.path()).unwrap().write_all_at(b"!", 1_000_000).unwrap();
    let file = site.place.reopen(file);
    assert!(file.filled_now().checking);
    site.pull_with(&file, &options(settings(&site.origin), None)).await.unwrap();
    site.is_whole(&file);
    assert!(site.origin.sent() - before <= 128 << 10, "{}", site.origin.sent() - before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_is_taken_in_whole_or_not_at_all() {
    let site = Site::new(3_000_000);
    let upload = async |content: &[u8], total: Option<u64>, checksum: Option<Digest>| {
        let file = site.place.open();
        let pieces: Vec<_> =
            content.chunks(70_000).map(|piece| Ok(bytes::Bytes::copy_from_slice(piece))).collect();
        let body = Body::stream(stream::iter(pieces), "the upload".into(), Duration::from_secs(5));
        let options = options(OriginSettings::default(), checksum);
        let taken = take_in(&file, body, total, &options, &CancellationToken::new()).await;
        (file, taken)
    };
    let size = site.image.size();
    let (_, short) = upload(&site.image.content[..1_000_000], Some(size), None).await;
    assert!(matches!(short, Err(PullError::Short { received: 1_000_000, .. })), "{short:?}");
    let (_, long) = upload(&site.image.content, Some(size - 1), None).await;
    assert!(matches!(long, Err(PullError::Long { .. })), "{long:?}");
    let (file, wrong) = upload(&site.image.content, Some(size), Some(sha512(b""))).await;
    assert!(matches!(wrong, Err(PullError::Checksum { .. })) && file.real_size() == 0, "{wrong:?}");
    drop(file);
    let (file, taken) = upload(&site.image.content, None, Some(sha512(&site.image.content))).await;
    taken.unwrap();
    site.is_whole(&file);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_pull_keeps_what_it_has() {
    let site = Site::new(9_000_000);
    site.origin.plan([Fault::StallAfter(5_000_000)]);
    let file = site.place.open();
    let patient = OriginSettings { stall_timeout: Duration::from_secs(60).into(), ..settings(&site.origin) };
    let options = options(patient, None);
    let source = Source::parse(&site.origin.url(), &site.place.name, &options.settings).unwrap();
    let cancel = CancellationToken::new();
    let stopping = async {
        file.filled().wait_for(|filled| filled.bytes > 1_000_000).await.unwrap();
        cancel.cancel();
    };
    let (pulled, ()) = tokio::join!(pull(&file, &source, &options, &cancel), stopping);
    assert!(matches!(pulled, Err(PullError::Cancelled)));
    assert!(site.place.reopen(file).filled_now().bytes > 1_000_000);
}
