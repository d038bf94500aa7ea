//! Every situation in which a host can be found, as each of the programs reports it.

use host::{Error, Listing, parse_bootc, parse_file, parse_ostree, parse_rpm_ostree};
use logic::host::{DeploymentId, Host};

const D1: &str = "7557158ae19acae6e45dc6ec5352f5ee3bd689e8ef1434717f7cf9c33cda6f37";
const D2: &str = "45ac60b6627caeb4cf1bb905fdb4df702d7db3afc48fc13ebf3014f1e71033c5";
const D3: &str = "9d879c8d84c9983a9ec9d963e70d87597ec2c7f75e0193a14e8f2b3c357bee85";
const D4: &str = "e140a9dbec8708ec5ecc72056401bcd1e8b44726703d5d2c43373dda42e04848";
const V1: &str = "208618071c5d4627fd32bfceac285f4959232b09d50b2e513248e6c44b0d3aa93d7ffbf8850365981760e809d8d57de62ec9b3602d1dca7e17814f87c3f095c1";
const V2: &str = "44e9befbb0dba4d6950b7094ff6e904de3b0d47ecc7244527d2f8be7d32fa82e8802f71263a934edd8fa6c6d75ee047ad0b5b3f50bc5ffcc4fcf06c4615e6401";
const V3: &str = "9eccce3ff4406c84a8c167933f3308610c712a0ff1d551079063659e733b7393d3e0bfd11ff75b300364f66a312901f632854237b43a70b8deb4564ae369b4a7";
const H1: &str = "8b0a40661994f0dd6a86c2c844bfc507afd35c2bfd746899f7310da834800b56";
const H2: &str = "8cbff08772ab6df8ca0fc8666328fc8adec3719378381ef1c3ccf8be99ba1fd3";

fn fixture(name: &str) -> String {
    let path = format!("{}/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The whole answer in one line: boot order, and after each name what it is. Checksums become d1…d4.
fn shown(host: &Host) -> String {
    let mut parts = Vec::new();
    for id in &host.deployments {
        let mut part = id.to_string();
        let mut mark = |is: bool, mark: &str| {
            if is {
                part.push_str(mark);
            }
        };
        mark(*id == host.booted, "*");
        mark(host.rollback.as_ref() == Some(id), " rollback");
        mark(host.staged.as_ref() == Some(id), " staged");
        mark(host.pinned.contains(id), " pinned");
        parts.push(part);
    }
    let mut text = parts.join(", ");
    for (long, short) in [(D1, "d1"), (D2, "d2"), (D3, "d3"), (D4, "d4"), (V1, "d1"), (V2, "d2"), (V3, "d3")]
    {
        text = text.replace(long, short);
    }
    text.replace(H1, "h1").replace(H2, "h2")
}

fn decided(listing: Result<Listing, Error>, given: Option<&str>) -> String {
    let given = given.map(|id| DeploymentId::new(id).unwrap());
    match listing.and_then(|listing| listing.into_host("it", given.as_ref())) {
        Ok(host) => shown(&host),
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn rpm_ostree_tells_every_situation_apart() {
    for (name, expected) in [
        ("one", "rhel-d1.0*"),
        ("two", "rhel-d2.0*, rhel-d1.0 rollback"),
        ("staged", "rhel-d3.0 staged, rhel-d2.0*, rhel-d1.0 rollback"),
        ("pinned-third", "rhel-d3.0*, rhel-d2.0 rollback, rhel-d1.0 pinned"),
        // What would be booted next stands first; there is nothing behind the booted one to roll back to.
        ("rollback-queued", "rhel-d1.0, rhel-d2.0*"),
        ("rolled-back", "rhel-d1.0*, rhel-d2.0 rollback"),
        ("redeployed", "rhel-d2.10*, rhel-d2.1 rollback, rhel-d1.0"),
        ("other-os", "rhel-d3.0*, rescue-d2.0 pinned, rhel-d1.0 rollback"),
        ("container", "default-d2.0*, default-d1.0 rollback"),
        ("nothing-booted", "error: it does not say which deployment is booted"),
        ("none", "error: it lists no deployments"),
    ] {
        let listing = parse_rpm_ostree(&fixture(&format!("rpm-ostree/{name}.json")));
        assert_eq!(decided(listing, None), expected, "{name}");
    }
}

#[test]
fn bootc_is_understood_in_both_layouts_and_on_both_backends() {
    for (name, expected) in [
        ("v1-one", "default-d1.0*"),
        ("v1-two", "default-d2.0*, default-d1.0 rollback"),
        ("v1-staged", "default-d3.0 staged, default-d2.0*, default-d1.0 rollback"),
        (
            "v1-others-pinned",
            "default-d4.0* pinned, default-d3.0 rollback, default-d2.0 pinned, default-d1.0 pinned",
        ),
        ("v1-rollback-queued", "default-d1.0 rollback, default-d2.0*"),
        ("v1-redeployed", "default-d2.1*, default-d2.0 rollback"),
        ("v1-not-an-image", "rhel-d1.0*"),
        ("v1alpha1", "edge-d3.0 staged, edge-d2.0*, edge-d1.0 rollback"),
        ("composefs", "composefs-d3 staged, composefs-d2*, composefs-d1 rollback"),
        ("composefs-same-staged", "composefs-d1 rollback staged, composefs-d2*"),
        ("not-bootc", "error: it lists no deployments"),
    ] {
        let listing = parse_bootc(&fixture(&format!("bootc/{name}.json")), Some("edge"));
        assert_eq!(decided(listing, None), expected, "{name}");
    }
}

#[test]
fn the_old_bootc_layout_is_refused_rather_than_given_a_guessed_name() {
    let error = parse_bootc(&fixture("bootc/v1alpha1.json"), None).unwrap_err();
    assert!(error.to_string().contains("does not name the stateroot"), "{error}");
}

#[test]
fn ostree_admin_status_is_read_line_by_line() {
    for (name, expected) in [
        ("one", "rhel-d1.0*"),
        ("rollback", "rhel-d2.0*, rhel-d1.0 rollback"),
        ("pending", "rhel-d3.0, rhel-d2.0*, rhel-d1.0 rollback"),
        ("staged", "rhel-d3.0 staged, rhel-d2.0*, rhel-d1.0 rollback"),
        ("staged-soft-reboot", "rhel-d3.0 staged, rhel-d2.0*"),
        ("pinned-third", "rhel-d3.0*, rhel-d2.0 rollback, rhel-d1.0 pinned"),
        ("rollback-queued", "rhel-d1.0, rhel-d2.0*"),
        ("signed-unlocked", "fedora-iot-d2.1*, fedora-iot-d2.0 rollback"),
        ("debian-2022.7-unbooted", "error: it does not say which deployment is booted"),
        ("none", "error: it lists no deployments"),
    ] {
        assert_eq!(decided(parse_ostree(&fixture(&format!("ostree/{name}.txt"))), None), expected, "{name}");
    }
}

#[test]
fn what_is_booted_can_be_given_from_outside_and_decides_the_rollback() {
    let text = fixture("ostree/debian-2022.7-unbooted.txt");
    for (given, expected) in [
        (format!("holdfast-{H2}.1"), "holdfast-h2.1*, holdfast-h2.0 rollback pinned, holdfast-h1.0"),
        (format!("holdfast-{H2}.0"), "holdfast-h2.1, holdfast-h2.0* pinned, holdfast-h1.0 rollback"),
        (format!("holdfast-{H1}.0"), "holdfast-h2.1, holdfast-h2.0 pinned, holdfast-h1.0*"),
        // Never by prefix.
        (format!("holdfast-{H2}.10"), "error: it does not list holdfast-h2.10, which is said to be booted"),
    ] {
        let told = decided(parse_ostree(&text), Some(&given)).replace(H2, "h2");
        assert_eq!(told, expected);
    }
}

#[test]
fn an_empty_list_with_a_given_boot_is_an_unknown_list() {
    let given = DeploymentId::new("rhel-d2").unwrap();
    let host = parse_ostree("No deployments.\n").unwrap().into_host("it", Some(&given)).unwrap();
    assert_eq!((host.booted, host.deployments), (given, vec![]));
}

#[test]
fn malformed_answers_say_what_is_wrong_and_where() {
    let staged = fixture("rpm-ostree/staged.json");
    let cut = &staged[..1000];
    let two_booted = staged.replace("\"booted\" : false", "\"booted\" : true");
    let slash = staged.replace("\"id\" : \"rhel-", "\"id\" : \"../rhel-");
    for (text, part) in [
        ("", "EOF"),
        ("error: not booted", "expected value at line 1"),
        (cut, "EOF while parsing"),
        ("{}", "missing field `deployments`"),
        (r#"{"deployments":null}"#, "invalid type: null"),
        (r#"{"deployments":[{"booted":true}]}"#, "a deployment has no id"),
        (r#"{"deployments":[{"id":7}]}"#, "invalid type: integer `7`"),
        (&two_booted, "more than one deployment as booted"),
        (&slash, "names a deployment that can't be one"),
    ] {
        let error = parse_rpm_ostree(text).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        assert!(error.to_string().len() < 400, "{error}");
        assert!(error.hint().contains("--deployments FILE"));
    }

    for (text, part) in [
        ("null", "invalid type: null"),
        (r#"{"apiVersion":"v1","kind":"Pod","status":{}}"#, "it is a Pod of v1"),
        (
            r#"{"apiVersion":"org.containers.bootc/v1","kind":"BootcHost","status":{"booted":{"pinned":false}}}"#,
            "neither ostree nor composefs",
        ),
        (
            r#"{"apiVersion":"org.containers.bootc/v1","kind":"BootcHost","status":{"booted":{"composefs":{"verity":"a/b"}}}}"#,
            "can't be one",
        ),
    ] {
        let error = parse_bootc(text, None).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }

    for (text, part) in [
        ("", "no deployment in it"),
        ("State: idle\n", "neither a deployment nor a detail"),
        ("    Version: 9\n", "before any deployment"),
        ("* rhel\n", "no name"),
        ("* rhel 1234.0\n", "checksum and serial"),
        (&format!("* rhel {D1}\n"), "checksum and serial"),
        (&format!("* rhel {D1}.x\n"), "checksum and serial"),
        (&format!("* rhel {D1}.0\n* rhel {D2}.0\n"), "more than one deployment as booted"),
    ] {
        let error = parse_ostree(text).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn a_file_is_lenient_on_unknown_fields_and_strict_on_shape() {
    let ok = |text: &str| parse_file("f.json", text).map(|host| shown(&host)).map_err(|e| e.to_string());
    assert_eq!(
        ok(r#"{"booted":"rhel-d2","rollback":"rhel-d1","deployments":["rhel-d2","rhel-d1"]}"#),
        Ok("rhel-d2*, rhel-d1 rollback".into())
    );
    assert_eq!(
        ok(r#"{"booted":"a","pinned":["c"],"staged":"b","deployments":["b","a","c","c"],"future":{"x":1}}"#),
        Ok("b staged, a*, c pinned".into())
    );
    assert_eq!(parse_file("f", r#"{"booted":"a"}"#).unwrap().deployments, []);
    for (text, part) in [
        (r#"{"deployments":["a"]}"#, "missing field `booted`"),
        (r#"{"booted":["a"]}"#, "invalid type: sequence"),
        (r#"{"booted":"a","deployments":"a"}"#, "invalid type: string"),
        (r#"{"booted":"a","deployments":["b"]}"#, "does not list a"),
        (r#"{"booted":"../a"}"#, "can't be one"),
        (r#"{"booted":""}"#, "can't be one"),
        (r#"["a"]"#, "expected"),
        (r#"{"booted":"a"} x"#, "trailing characters"),
    ] {
        let error = ok(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
}
