//! Signatures of container images in the form that signature stores hold: a JSON document, signed inline with OpenPGP,
//! that says which manifest digest goes by which reference.
//!
//! Only what is under `critical` counts, and all of it must be understood: a claim that is not known here may be one
//! that takes the others back.

use serde::Deserialize;

use crate::digest::Digest;
use crate::openpgp::{Keyring, OpenPgpError, Time};

/// What a valid signature claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// Of the image's manifest, or of its index.
    pub digest: Digest,
    /// The name that the signer gave to the image.
    pub reference: String,
}

/// A signature that was verified, and by whose key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    pub claims: Claims,
    /// Of the key that is trusted; its subkey may have signed.
    pub fingerprint: String,
}

#[derive(Debug, thiserror::Error)]
pub enum ContainerSignatureError {
    #[error("the OpenPGP signature")]
    OpenPgp(#[source] OpenPgpError),
    #[error("what is signed is not a container signature")]
    Malformed(#[source] serde_json::Error),
    #[error("what is signed is of the type {0:?}, which is not that of a container signature")]
    Type(String),
    #[error("the digest in it")]
    Digest(#[source] crate::digest::BadDigest),
    #[error("it is for another image: {found}")]
    OtherDigest { found: Digest },
}

/// The one type of document that is a container signature.
pub const TYPE: &str = "atomic container signature";

#[derive(Deserialize)]
struct Document {
    critical: Critical,
    /// Who made it, and when: nothing here depends on it.
    #[serde(default, rename = "optional")]
    _optional: serde::de::IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Critical {
    #[serde(rename = "type")]
    kind: String,
    image: Image,
    identity: Identity,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Image {
    #[serde(rename = "docker-manifest-digest")]
    digest: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Identity {
    #[serde(rename = "docker-reference")]
    reference: String,
}

/// The claims of a document whose signature was verified already.
pub fn claims(document: &[u8]) -> Result<Claims, ContainerSignatureError> {
    claims_of(document, &[TYPE])
}

pub(crate) fn claims_of(document: &[u8], types: &[&str]) -> Result<Claims, ContainerSignatureError> {
    let Document { critical, .. } =
        serde_json::from_slice(document).map_err(ContainerSignatureError::Malformed)?;
    if !types.contains(&critical.kind.as_str()) {
        return Err(ContainerSignatureError::Type(critical.kind.chars().take(80).collect()));
    }
    let digest = Digest::parse(&critical.image.digest).map_err(ContainerSignatureError::Digest)?;
    Ok(Claims { digest, reference: critical.identity.reference })
}

/// Whether `signature` says, by one of `keys`, that the image with this digest is the one that is meant.
pub fn verify(
    signature: &[u8],
    keys: &Keyring,
    digest: &Digest,
    now: Time,
) -> Result<Signed, ContainerSignatureError> {
    verify_any(signature, keys, std::slice::from_ref(digest), now)
}

/// As [`verify`], for any of several digests that stand for the same image.
pub fn verify_any(
    signature: &[u8],
    keys: &Keyring,
    digests: &[Digest],
    now: Time,
) -> Result<Signed, ContainerSignatureError> {
    let message = keys.verify_message(signature, now).map_err(ContainerSignatureError::OpenPgp)?;
    let claims = claims(&message.content)?;
    if !digests.contains(&claims.digest) {
        return Err(ContainerSignatureError::OtherDigest { found: claims.digest });
    }
    Ok(Signed { claims, fingerprint: message.fingerprint })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(change: impl Fn(String) -> String) -> Result<Claims, ContainerSignatureError> {
        let hex = "0a".repeat(32);
        let text = format!(
            r#"{{"critical":{{"type":"atomic container signature","image":{{"docker-manifest-digest":"sha256:{hex}"}},
                "identity":{{"docker-reference":"registry.example/graph-data:1"}}}},"optional":{{"creator":"x"}}}}"#
        );
        claims(change(text).as_bytes())
    }

    #[test]
    fn claims_are_read_with_or_without_what_is_optional() {
        let found = document(|text| text).unwrap();
        assert_eq!(found.reference, "registry.example/graph-data:1");
        assert_eq!(found.digest.parts().1, "0a".repeat(32));
        assert!(document(|text| text.replace(r#","optional":{"creator":"x"}"#, "")).is_ok());
    }

    #[test]
    fn claims_that_are_not_understood_are_refused() {
        use ContainerSignatureError as E;
        let kind = |text: String| text.replace("atomic container", "other");
        assert!(matches!(document(kind), Err(E::Type(_))));
        let extra = |text: String| text.replace(r#"{"type""#, r#"{"unless":"friday","type""#);
        assert!(matches!(document(extra), Err(E::Malformed(_))));
        let digest = |text: String| text.replace("sha256:", "sha1:");
        assert!(matches!(document(digest), Err(E::Digest(_))));
        for broken in ["", "{}", "null", "[]", r#"{"critical":{}}"#, "\u{0}"] {
            assert!(matches!(claims(broken.as_bytes()), Err(E::Malformed(_))), "{broken:?}");
        }
    }
}
