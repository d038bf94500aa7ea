//! Signatures by the real `gpg`, and what must not pass for one.

use std::time::{Duration, SystemTime};

use testkit::gpg::Gpg;
use trust::container_signature::{self, ContainerSignatureError};
use trust::digest::Digest;
use trust::openpgp::{Keyring, OpenPgpError};

const TEXT: &[u8] = b"one line\r\nand another\n";

fn now() -> SystemTime {
    SystemTime::now()
}

#[test]
fn messages_and_detached_signatures_by_a_trusted_key_are_accepted_whatever_the_algorithm() {
    let gpg = Gpg::new();
    for algorithm in ["ed25519", "rsa2048", "nistp256"] {
        let fingerprint = gpg.key(algorithm, algorithm, "never");
        for armored in [true, false] {
            let armor: &[&str] = if armored { &["--armor"] } else { &[] };
            let with = |rest: &[&'static str]| [armor, &["--local-user", algorithm], rest].concat();
            let keys = Keyring::read(&gpg.run(&[armor, &["--export", algorithm]].concat(), b"")).unwrap();
            assert!(keys.fingerprints().eq([fingerprint.as_str()]));
            for form in [&["--sign"][..], &["--sign", "--compress-algo", "none"], &["--textmode", "--sign"]] {
                let found = keys.verify_message(&gpg.run(&with(form), TEXT), now()).unwrap();
                assert_eq!(found.fingerprint, fingerprint);
                assert!(found.content == TEXT || form.contains(&"--textmode"), "{form:?}");
            }
            let detached = gpg.run(&with(&["--detach-sign"]), TEXT);
            let found = keys.verify_detached(TEXT, &detached, now()).unwrap();
            assert_eq!((found.fingerprint, found.content.as_slice()), (fingerprint.clone(), TEXT));
            let other = keys.verify_detached(b"another text", &detached, now());
            assert!(matches!(other, Err(OpenPgpError::Wrong { .. })), "{other:?}");
        }
    }
}

#[test]
fn a_subkey_signs_for_its_primary_key_until_it_is_revoked() {
    let gpg = Gpg::new();
    gpg.run(&["--quick-generate-key", "main", "ed25519", "cert", "never"], b"");
    let fingerprint = gpg.fingerprint("main");
    gpg.run(&["--quick-add-key", &fingerprint, "ed25519", "sign", "never"], b"");
    let message = gpg.sign("main", TEXT);
    let keys = Keyring::read(&gpg.export("main")).unwrap();
    let found = keys.verify_message(&message, now()).unwrap();
    assert_eq!(found.fingerprint, fingerprint);
    assert_ne!(found.signer, fingerprint);
    let revoke = ["--command-fd", "0", "--no-batch", "--edit-key", &fingerprint];
    gpg.run(&revoke, b"key 1\nrevkey\ny\n0\n\ny\nsave\n");
    let keys = Keyring::read(&gpg.export("main")).unwrap();
    let refused = keys.verify_message(&message, now()).unwrap_err();
    assert!(refused.to_string().ends_with("which is revoked"), "{refused}");
}

#[test]
fn a_key_that_has_expired_or_was_revoked_is_refused_and_so_is_one_from_the_future() {
    let gpg = Gpg::new();
    gpg.key("short", "ed25519", "2d");
    let message = gpg.sign("short", TEXT);
    let keys = Keyring::read(&gpg.export("short")).unwrap();
    assert!(keys.verify_message(&message, now()).is_ok());
    let day = Duration::from_secs(24 * 3600);
    for (time, why) in [(now() + 3 * day, "has expired"), (now() - day, "was made in the future")] {
        let refused = keys.verify_message(&message, time).unwrap_err().to_string();
        assert!(refused.ends_with(why), "{refused}");
    }
    let fingerprint = gpg.key("gone", "rsa2048", "never");
    let message = gpg.sign("gone", TEXT);
    let revoke = ["--command-fd", "0", "--no-batch", "--edit-key", &fingerprint];
    gpg.run(&revoke, b"revkey\ny\n0\n\ny\nsave\n");
    let keys = Keyring::read(&gpg.export("gone")).unwrap();
    let refused = keys.verify_message(&message, now()).unwrap_err().to_string();
    assert!(refused.ends_with("which is revoked"), "{refused}");
}

#[test]
fn a_signature_that_has_expired_is_refused() {
    let gpg = Gpg::new();
    gpg.key("signer", "ed25519", "never");
    let message = gpg.run(&["--default-sig-expire", "1d", "--local-user", "signer", "--sign"], TEXT);
    let keys = Keyring::read(&gpg.export("signer")).unwrap();
    assert!(keys.verify_message(&message, now()).is_ok());
    let refused = keys.verify_message(&message, now() + Duration::from_secs(2 * 24 * 3600)).unwrap_err();
    assert!(matches!(refused, OpenPgpError::NotInForce { why: "has expired", .. }), "{refused}");
}

#[test]
fn a_foreign_key_a_weak_hash_and_a_short_key_are_refused_and_one_good_signature_of_two_is_enough() {
    let gpg = Gpg::new();
    gpg.key("trusted", "ed25519", "never");
    gpg.key("stranger", "ed25519", "never");
    let keys = Keyring::read(&gpg.export("trusted")).unwrap();
    let foreign = keys.verify_message(&gpg.sign("stranger", TEXT), now()).unwrap_err();
    assert!(matches!(foreign, OpenPgpError::Foreign { .. }), "{foreign}");
    let both = gpg.run(&["--local-user", "stranger", "--local-user", "trusted", "--sign"], TEXT);
    assert!(keys.verify_message(&both, now()).is_ok());
    gpg.key("short", "rsa1024", "never");
    let short = Keyring::read(&gpg.export("short")).unwrap();
    let refused = short.verify_message(&gpg.sign("short", TEXT), now()).unwrap_err();
    assert!(refused.to_string().contains("not accepted"), "{refused}");
    gpg.key("rsa", "rsa2048", "never");
    let rsa = Keyring::read(&gpg.export("rsa")).unwrap();
    let arguments = ["--digest-algo", "SHA1", "--allow-weak-digest-algos", "--local-user", "rsa", "--sign"];
    let refused = rsa.verify_message(&gpg.run(&arguments, TEXT), now()).unwrap_err();
    assert!(matches!(refused, OpenPgpError::NotInForce { .. }), "{refused}");
}

#[test]
fn an_encryption_key_an_unsigned_message_and_a_clear_text_are_not_signatures() {
    let gpg = Gpg::new();
    gpg.key("signer", "ed25519", "never");
    let keys = Keyring::read(&gpg.export("signer")).unwrap();
    let unsigned = gpg.run(&["--store"], TEXT);
    assert!(matches!(keys.verify_message(&unsigned, now()), Err(OpenPgpError::Unsigned)));
    for bytes in [TEXT, b"", b"\xff\xff\xff\xff", &gpg.export("signer"), &gpg.run(&["--clear-sign"], TEXT)] {
        assert!(keys.verify_message(bytes, now()).is_err());
        assert!(keys.verify_detached(TEXT, bytes, now()).is_err());
    }
    assert!(Keyring::read(&unsigned).is_err());
    assert!(Keyring::read(b"").is_err());
}

#[test]
fn a_message_that_was_changed_or_cut_anywhere_is_refused_and_nothing_panics() {
    let gpg = Gpg::new();
    gpg.key("signer", "ed25519", "never");
    let key = gpg.run(&["--export", "signer"], b"");
    let keys = Keyring::read(&key).unwrap();
    let message = gpg.run(&["--local-user", "signer", "--compress-algo", "none", "--sign"], TEXT);
    for at in 0..message.len() {
        for bit in 0..8 {
            let mut changed = message.clone();
            changed[at] ^= 1 << bit;
            // What is not covered by a signature (how long packets say they are, hints about the issuer) may
            // change; what is read never does.
            if let Ok(found) = keys.verify_message(&changed, now()) {
                assert_eq!(found.content, TEXT, "byte {at} bit {bit}");
            }
        }
        assert!(keys.verify_message(&message[..at], now()).is_err(), "cut at {at}");
    }
    for at in 0..key.len() {
        let mut changed = key.clone();
        changed[at] ^= 0x55;
        if let Ok(keys) = Keyring::read(&changed) {
            let _ = keys.verify_message(&message, now());
        }
        let _ = Keyring::read(&key[..at]);
    }
}

#[test]
fn a_message_in_a_bomb_is_refused() {
    let gpg = Gpg::new();
    gpg.key("signer", "ed25519", "never");
    let keys = Keyring::read(&gpg.export("signer")).unwrap();
    let bomb = gpg.run(&["--local-user", "signer", "--sign", "--compress-algo", "zlib"], &vec![0; 64 << 20]);
    assert!(bomb.len() < 1 << 20);
    assert!(matches!(keys.verify_message(&bomb, now()), Err(OpenPgpError::TooLarge(_))));
}

#[test]
fn a_container_signature_is_for_one_digest() {
    let gpg = Gpg::new();
    let fingerprint = gpg.key("signer", "rsa3072", "never");
    let keys = Keyring::read(&gpg.export("signer")).unwrap();
    let digest = Digest::sha256(b"a manifest");
    let document = format!(
        r#"{{"critical":{{"identity":{{"docker-reference":"registry.example/data"}},"image":{{"docker-manifest-digest":"{digest}"}},"type":"atomic container signature"}},"optional":null}}"#
    );
    let signature = gpg.sign("signer", document.as_bytes());
    let signed = container_signature::verify(&signature, &keys, &digest, now()).unwrap();
    assert_eq!(
        (signed.fingerprint, signed.claims.reference.as_str()),
        (fingerprint, "registry.example/data")
    );
    let other = container_signature::verify(&signature, &keys, &Digest::sha256(b"another"), now());
    assert!(matches!(other, Err(ContainerSignatureError::OtherDigest { .. })));
    let plain = container_signature::verify(document.as_bytes(), &keys, &digest, now());
    assert!(matches!(plain, Err(ContainerSignatureError::OpenPgp(_))));
}
