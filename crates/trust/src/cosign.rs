//! Signatures as cosign makes them with a key of one's own: a JSON document, the same as in an OpenPGP container signature but
//! for its type, and beside it a signature over its very bytes. No certificates, no logs: a key that is trusted, or nothing.
//!
//! A public key is a `PUBLIC KEY` block of PEM: ECDSA on P-256, Ed25519, or RSA of 2048 bits and more.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
};

use crate::container_signature::{Claims, ContainerSignatureError, TYPE, claims_of};
use crate::digest::Digest;

#[derive(Debug, thiserror::Error)]
pub enum CosignError {
    #[error("more than {0} bytes")]
    TooLarge(usize),
    #[error("not a public key in PEM: {0}")]
    Pem(&'static str),
    #[error("more than {0} keys")]
    TooManyKeys(usize),
    #[error(
        "the key is of an algorithm or a form that is not accepted: expected ECDSA on P-256, Ed25519, or RSA"
    )]
    Algorithm,
    #[error("the signature is not in base64")]
    Encoding(#[source] base64::DecodeError),
    #[error("not signed by a trusted key, or not for these bytes")]
    Foreign,
    #[error("what key {key} signed")]
    Claims { key: String, source: ContainerSignatureError },
}

/// A claim about an image is a few hundred bytes.
const PAYLOAD_LIMIT: usize = 1 << 20;
/// In base64; of the longest RSA key it is below this.
const SIGNATURE_LIMIT: usize = 4096;
const KEY_FILE_LIMIT: usize = 1 << 20;
const KEY_LIMIT: usize = 256;

/// The type of document that cosign writes; the other one is what signature stores hold.
pub const COSIGN_TYPE: &str = "cosign container image signature";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    P256,
    Ed25519,
    Rsa,
}

impl Kind {
    fn verifier(self) -> &'static dyn VerificationAlgorithm {
        match self {
            Self::P256 => &ECDSA_P256_SHA256_ASN1,
            Self::Ed25519 => &ED25519,
            Self::Rsa => &RSA_PKCS1_2048_8192_SHA256,
        }
    }
}

#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey {
    kind: Kind,
    /// As the verifier wants it: a point, or the two numbers of RSA.
    bits: Vec<u8>,
    id: Digest,
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.kind, self.id)
    }
}

const BEGIN: &str = "-----BEGIN PUBLIC KEY-----";
const END: &str = "-----END PUBLIC KEY-----";

/// Whether a file looks like public keys in PEM, and not like something else.
pub fn is_pem(bytes: &[u8]) -> bool {
    bytes.windows(BEGIN.len()).any(|window| window == BEGIN.as_bytes())
}

impl PublicKey {
    /// All keys of a file. Between blocks there may be text.
    pub fn read_all(bytes: &[u8]) -> Result<Vec<Self>, CosignError> {
        if bytes.len() > KEY_FILE_LIMIT {
            return Err(CosignError::TooLarge(KEY_FILE_LIMIT));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| CosignError::Pem("it is not text"))?;
        let mut keys = vec![];
        let mut lines = text.lines().map(str::trim);
        while let Some(line) = lines.next() {
            if line != BEGIN {
                continue;
            }
            if keys.len() >= KEY_LIMIT {
                return Err(CosignError::TooManyKeys(KEY_LIMIT));
            }
            let mut inner = String::new();
            loop {
                match lines.next() {
                    Some(END) => break,
                    Some(line) => inner.push_str(line),
                    None => return Err(CosignError::Pem("a block does not end")),
                }
            }
            let der = STANDARD.decode(inner).map_err(|_| CosignError::Pem("a block is not in base64"))?;
            keys.push(Self::of_der(&der)?);
        }
        if keys.is_empty() { Err(CosignError::Pem("there is none in it")) } else { Ok(keys) }
    }

    /// Of a `SubjectPublicKeyInfo`.
    fn of_der(der: &[u8]) -> Result<Self, CosignError> {
        let (algorithm, bits) = spki(der).ok_or(CosignError::Algorithm)?;
        let kind = match (algorithm, bits.len()) {
            // A point that is not compressed.
            (P256, 65) if bits[0] == 4 => Kind::P256,
            (ED25519_OID, 32) => Kind::Ed25519,
            (RSA, 256..=1040) => Kind::Rsa,
            _ => return Err(CosignError::Algorithm),
        };
        Ok(Self { kind, bits: bits.to_vec(), id: Digest::sha256(der) })
    }

    /// The digest of the key as such, without PEM: what people compare.
    pub fn id(&self) -> &str {
        self.id.as_str()
    }

    fn signed(&self, payload: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(self.kind.verifier(), &self.bits).verify(payload, signature).is_ok()
    }
}

// What stands for each algorithm: its identifier, and its parameters.
const P256: &[u8] = &[
    0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03,
    0x01, 0x07,
];
const ED25519_OID: &[u8] = &[0x06, 0x03, 0x2b, 0x65, 0x70];
const RSA: &[u8] = &[0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];

const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;

/// The algorithm and the bits of a key. Nothing may be left over, anywhere.
fn spki(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (inner, rest) = element(der, SEQUENCE)?;
    let (algorithm, after) = element(inner, SEQUENCE)?;
    let (bits, end) = element(after, BIT_STRING)?;
    let (unused, bits) = bits.split_first()?;
    (rest.is_empty() && end.is_empty() && *unused == 0).then_some((algorithm, bits))
}

/// What is in the element that `bytes` begins with, and what follows it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let rest = bytes.strip_prefix(&[tag])?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        short @ 0..=0x7f => (usize::from(*short), rest),
        // One or two bytes of length, and no more of them than it takes.
        0x81 => (usize::from(*rest.first().filter(|byte| **byte >= 0x80)?), &rest[1..]),
        0x82 => {
            let (bytes, rest) = rest.split_first_chunk::<2>().filter(|(bytes, _)| bytes[0] > 0)?;
            (usize::from(u16::from_be_bytes(*bytes)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

/// A signature that was verified, and by which key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CosignSigned {
    pub claims: Claims,
    /// [`PublicKey::id`].
    pub key: String,
}

/// Whether one of `keys` signed that the image of one of these digests is meant; they all stand for the same image.
pub fn verify(
    payload: &[u8],
    signature: &str,
    keys: &[PublicKey],
    digests: &[Digest],
) -> Result<CosignSigned, CosignError> {
    if payload.len() > PAYLOAD_LIMIT {
        return Err(CosignError::TooLarge(PAYLOAD_LIMIT));
    }
    if signature.len() > SIGNATURE_LIMIT {
        return Err(CosignError::TooLarge(SIGNATURE_LIMIT));
    }
    let signature = STANDARD.decode(signature.trim()).map_err(CosignError::Encoding)?;
    let key = keys.iter().find(|key| key.signed(payload, &signature)).ok_or(CosignError::Foreign)?;
    let refused = |source| CosignError::Claims { key: key.id().to_owned(), source };
    let claims = claims_of(payload, &[COSIGN_TYPE, TYPE]).map_err(refused)?;
    if !digests.contains(&claims.digest) {
        return Err(refused(ContainerSignatureError::OtherDigest { found: claims.digest }));
    }
    Ok(CosignSigned { claims, key: key.id().to_owned() })
}
