//! Several keyrings that must all agree: one of the vendor, say, and one of the site. Whoever has one key of each ring may sign.
//!
//! Pure: bytes of keys and of signatures in, a verdict for each ring out.

use std::collections::BTreeSet;
use std::fmt;

use crate::container_signature;
use crate::cosign::{self, CosignError, PublicKey};
use crate::digest::Digest;
use crate::openpgp::{self, OpenPgpError, Time};

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("neither OpenPGP keys nor public keys in PEM")]
    OpenPgp(#[source] OpenPgpError),
    #[error("a public key in PEM")]
    Pem(#[source] CosignError),
    #[error("more than {0} keys in one keyring")]
    TooMany(usize),
}

/// More than anybody trusts; each signature is tried with each key.
const KEY_LIMIT: usize = 256;
/// Reasons that are told of one keyring.
const REASONS: usize = 4;

/// Keys of which one is enough.
#[derive(Debug, Default)]
pub struct Keyring {
    /// Where it is from, for people.
    pub name: String,
    openpgp: openpgp::Keyring,
    cosign: Vec<PublicKey>,
}

impl Keyring {
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Takes in the keys of one file: OpenPGP, armored or binary, or public keys in PEM.
    pub fn add(&mut self, file: &[u8]) -> Result<(), KeyError> {
        if cosign::is_pem(file) {
            self.cosign.extend(PublicKey::read_all(file).map_err(KeyError::Pem)?);
        } else {
            self.openpgp.add(file).map_err(KeyError::OpenPgp)?;
        }
        if self.len() > KEY_LIMIT { Err(KeyError::TooMany(KEY_LIMIT)) } else { Ok(()) }
    }

    pub fn len(&self) -> usize {
        self.cosign.len() + self.openpgp.fingerprints().count()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fingerprints of OpenPGP keys and digests of the others.
    pub fn ids(&self) -> impl Iterator<Item = String> {
        self.openpgp.fingerprints().chain(self.cosign.iter().map(|key| key.id().to_owned()))
    }

    fn judge(&self, digests: &[Digest], signatures: &[Signature], now: Time) -> Result<String, Silence> {
        let mut reasons = BTreeSet::new();
        for signature in signatures {
            match self.signer(signature, digests, now) {
                Ok(signer) => return Ok(signer),
                Err(reason) => reasons.insert(reason),
            };
        }
        Err(Silence { signatures: signatures.len(), reasons: reasons.into_iter().take(REASONS).collect() })
    }

    fn signer(&self, signature: &Signature, digests: &[Digest], now: Time) -> Result<String, String> {
        match signature {
            Signature::OpenPgp(_) if self.openpgp.is_empty() => {
                Err("an OpenPGP signature, and no OpenPGP key in the keyring".to_owned())
            }
            Signature::OpenPgp(bytes) => container_signature::verify_any(bytes, &self.openpgp, digests, now)
                .map(|signed| signed.fingerprint)
                .map_err(|error| in_one_line(&error)),
            Signature::Cosign { .. } if self.cosign.is_empty() => {
                Err("a cosign-style signature, and no key in PEM in the keyring".to_owned())
            }
            Signature::Cosign { payload, signature } => {
                cosign::verify(payload, signature, &self.cosign, digests)
                    .map(|signed| signed.key)
                    .map_err(|error| in_one_line(&error))
            }
        }
    }
}

fn in_one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

/// One signature as it was found, unchecked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signature {
    /// A message with its own signature.
    OpenPgp(Vec<u8>),
    /// A payload, and its signature in base64.
    Cosign { payload: Vec<u8>, signature: String },
}

/// Why a keyring says nothing for an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Silence {
    /// How many were looked at.
    pub signatures: usize,
    /// Each once.
    pub reasons: Vec<String>,
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.signatures {
            0 => f.write_str("there is no signature of it"),
            1 => write!(f, "its one signature does not count: {}", self.reasons.join("; ")),
            count => write!(f, "none of its {count} signatures counts: {}", self.reasons.join("; ")),
        }
    }
}

/// What each keyring says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict(pub Vec<(String, Result<String, Silence>)>);

impl Verdict {
    /// Who signed, one for each keyring; None unless there is at least one keyring, and every one of them agrees.
    pub fn agreed(&self) -> Option<Vec<String>> {
        let signers: Option<Vec<String>> = self.0.iter().map(|(_, said)| said.clone().ok()).collect();
        signers.filter(|signers| !signers.is_empty())
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("there is no keyring");
        }
        for (position, (name, said)) in self.0.iter().enumerate() {
            f.write_str(if position == 0 { "" } else { ". " })?;
            match said {
                Ok(signer) => write!(f, "keyring {name}: signed by {signer}")?,
                Err(silence) => write!(f, "keyring {name}: {silence}")?,
            }
        }
        Ok(())
    }
}

/// Keyrings that must all agree.
#[derive(Debug, Default)]
pub struct Keyrings(pub Vec<Keyring>);

impl Keyrings {
    /// Every keyring needs one valid signature by one of its keys, for one of the digests, which all stand for the same image.
    pub fn judge(&self, digests: &[Digest], signatures: &[Signature], now: Time) -> Verdict {
        let judge = |ring: &Keyring| (ring.name.clone(), ring.judge(digests, signatures, now));
        Verdict(self.0.iter().map(judge).collect())
    }
}
