//! Cosign-style signatures by the real `openssl`, keyrings that must agree, and what must not pass.

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use testkit::gpg::Gpg;
use testkit::registry::Scratch;
use testkit::releases::{ATOMIC, COSIGN, CosignKey, claims};
use trust::container_signature::ContainerSignatureError;
use trust::cosign::{CosignError, PublicKey, verify};
use trust::digest::Digest;
use trust::keyring::{Keyring, Keyrings, Signature};

fn digest() -> Digest {
    Digest::sha256(b"a manifest")
}

fn signed(key: &CosignKey, payload: &[u8]) -> String {
    STANDARD.encode(key.sign(payload))
}

#[test]
fn what_a_trusted_key_signed_counts_whatever_its_algorithm_and_in_both_forms_of_the_document() {
    let scratch = Scratch::new("cosign");
    for algorithm in ["p256", "ed25519", "rsa2048", "rsa4096"] {
        let key = CosignKey::new(&scratch.0, algorithm);
        let keys = PublicKey::read_all(&key.public()).unwrap();
        for kind in [COSIGN, ATOMIC] {
            let payload = claims(digest().as_str(), kind);
            let found = verify(&payload, &signed(&key, &payload), &keys, &[digest()]).unwrap();
            assert_eq!((found.claims.digest, found.key.as_str()), (digest(), keys[0].id()), "{algorithm}");
        }
    }
}

#[test]
fn a_stranger_another_digest_another_document_and_other_bytes_are_refused() {
    let scratch = Scratch::new("cosign");
    let (key, stranger) = (CosignKey::new(&scratch.0, "p256"), CosignKey::new(&scratch.0, "p256"));
    let keys = PublicKey::read_all(&key.public()).unwrap();
    let payload = claims(digest().as_str(), COSIGN);
    let judge = |payload: &[u8], signature: &str| verify(payload, signature, &keys, &[digest()]);

    assert!(matches!(judge(&payload, &signed(&stranger, &payload)), Err(CosignError::Foreign)));
    let other = claims(Digest::sha256(b"another").as_str(), COSIGN);
    let refused = judge(&other, &signed(&key, &other));
    assert!(matches!(
        refused,
        Err(CosignError::Claims { source: ContainerSignatureError::OtherDigest { .. }, .. })
    ));
    for kind in ["cosign attestation", ""] {
        let document = claims(digest().as_str(), kind);
        let refused = judge(&document, &signed(&key, &document));
        assert!(matches!(refused, Err(CosignError::Claims { source: ContainerSignatureError::Type(_), .. })));
    }
    let right = signed(&key, &payload);
    assert!(judge(&payload, &right).is_ok());
    let signature = STANDARD.decode(&right).unwrap();
    for at in 0..signature.len() {
        let mut changed = signature.clone();
        changed[at] ^= 1;
        assert!(judge(&payload, &STANDARD.encode(&changed)).is_err(), "{at}");
        assert!(judge(&payload, &STANDARD.encode(&signature[..at])).is_err(), "{at}");
    }
    for at in 0..payload.len() {
        let mut changed = payload.clone();
        changed[at] ^= 1;
        assert!(matches!(judge(&changed, &right), Err(CosignError::Foreign)), "{at}");
    }
    for nonsense in ["", "?", "AAAA", &"A".repeat(5000)] {
        assert!(judge(&payload, nonsense).is_err());
    }
    assert!(matches!(judge(&vec![b' '; 2 << 20], &right), Err(CosignError::TooLarge(_))));
    assert!(matches!(verify(&payload, &right, &[], &[digest()]), Err(CosignError::Foreign)));
    assert!(verify(&payload, &right, &keys, &[]).is_err());
}

#[test]
fn of_an_image_for_several_platforms_the_list_or_the_image_may_be_signed() {
    let scratch = Scratch::new("cosign");
    let key = CosignKey::new(&scratch.0, "ed25519");
    let keys = PublicKey::read_all(&key.public()).unwrap();
    let image = Digest::sha256(b"for one platform");
    let payload = claims(image.as_str(), COSIGN);
    assert!(verify(&payload, &signed(&key, &payload), &keys, &[digest(), image]).is_ok());
}

#[test]
fn a_key_file_is_all_understood_or_refused_and_nothing_panics() {
    let scratch = Scratch::new("cosign");
    let (first, second) = (CosignKey::new(&scratch.0, "p256"), CosignKey::new(&scratch.0, "rsa2048"));
    let both = [b"of the vendor:\r\n".to_vec(), first.public(), second.public()].concat();
    assert_eq!(PublicKey::read_all(&both).unwrap().len(), 2);
    let weak = [CosignKey::new(&scratch.0, "p384"), CosignKey::new(&scratch.0, "rsa1024")];
    for key in weak {
        assert!(matches!(PublicKey::read_all(&key.public()), Err(CosignError::Algorithm)));
    }
    let private = std::fs::read(first.private_file()).unwrap();
    assert!(matches!(PublicKey::read_all(&private), Err(CosignError::Pem(_))));
    for key in [first, second] {
        let pem = String::from_utf8(key.public()).unwrap();
        let inner: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        let der = STANDARD.decode(inner).unwrap();
        let file = |der: &[u8]| {
            let inner = STANDARD.encode(der);
            format!("-----BEGIN PUBLIC KEY-----\n{inner}\n-----END PUBLIC KEY-----\n").into_bytes()
        };
        assert!(PublicKey::read_all(&file(&der)).is_ok());
        for at in 0..der.len() {
            assert!(PublicKey::read_all(&file(&der[..at])).is_err(), "cut at {at}");
            let mut changed = der.clone();
            changed[at] ^= 0x81;
            if let Ok(keys) = PublicKey::read_all(&file(&changed)) {
                assert!(verify(b"{}", &STANDARD.encode([0; 64]), &keys, &[digest()]).is_err());
            }
        }
        assert!(PublicKey::read_all(&file(&[&der[..], b"x"].concat())).is_err());
    }
    for nonsense in [
        &b""[..],
        b"\xff",
        b"-----BEGIN PUBLIC KEY-----\n",
        b"-----BEGIN PUBLIC KEY-----\n?\n-----END PUBLIC KEY-----",
    ] {
        assert!(PublicKey::read_all(nonsense).is_err());
    }
}

#[test]
fn every_keyring_must_have_its_own_signature_and_says_who_or_why_not() {
    let scratch = Scratch::new("keyrings");
    let gpg = Gpg::new();
    let fingerprint = gpg.key("vendor", "ed25519", "never");
    gpg.key("stranger", "ed25519", "never");
    let site = CosignKey::new(&scratch.0, "p256");
    let payload = claims(digest().as_str(), COSIGN);
    let by_vendor = Signature::OpenPgp(gpg.sign("vendor", &claims(digest().as_str(), ATOMIC)));
    let by_stranger = Signature::OpenPgp(gpg.sign("stranger", &claims(digest().as_str(), ATOMIC)));
    let by_site = Signature::Cosign { signature: signed(&site, &payload), payload };
    let ring = |name: &str, files: &[&[u8]]| {
        let mut ring = Keyring::new(name);
        files.iter().for_each(|file| ring.add(file).unwrap());
        ring
    };
    let (vendor_key, site_key) = (gpg.export("vendor"), site.public());
    let judge = |rings: Vec<Keyring>, signatures: &[&Signature]| {
        let signatures: Vec<Signature> = signatures.iter().map(|one| (*one).clone()).collect();
        Keyrings(rings).judge(&[digest()], &signatures, SystemTime::now())
    };
    let two = || vec![ring("vendor.asc", &[&vendor_key]), ring("site.pub", &[&site_key])];

    let site_id = two()[1].ids().next().unwrap();
    let agreed = judge(two(), &[&by_stranger, &by_site, &by_vendor]);
    assert_eq!(agreed.agreed().unwrap(), [fingerprint.clone(), site_id.clone()]);

    let silent = judge(two(), &[&by_vendor]);
    assert_eq!(silent.agreed(), None);
    let text = silent.to_string();
    assert!(text.contains(&format!("keyring vendor.asc: signed by {fingerprint}")), "{text}");
    assert!(
        text.contains("keyring site.pub: its one signature does not count: an OpenPGP signature, and no"),
        "{text}"
    );

    let text = judge(two(), &[]).to_string();
    assert!(
        text.contains("keyring vendor.asc: there is no signature of it. keyring site.pub: there"),
        "{text}"
    );
    let text = judge(two(), &[&by_stranger, &by_site]).to_string();
    assert!(
        text.contains("none of its 2 signatures counts") && text.contains("not signed by a trusted key"),
        "{text}"
    );

    // In one keyring, one of its keys is enough.
    let one = judge(vec![ring("all", &[&vendor_key, &site_key])], &[&by_site]);
    assert_eq!(one.agreed().unwrap(), [site_id]);
    // Nobody to agree is not agreement.
    assert_eq!(judge(vec![], &[&by_site]).agreed(), None);
    assert_eq!(judge(vec![Keyring::new("empty")], &[&by_site]).agreed(), None);
    assert!(Keyring::new("x").add(b"nonsense").is_err());
}
