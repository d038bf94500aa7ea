//! OpenPGP: whether bytes were signed by a key that is trusted.
//!
//! What is signed is taken apart packet by packet and only in the plain forms (one literal, signatures before or after
//! it, perhaps compressed as a whole), because every other form is a way to have one text checked and another one read.

use std::io::{BufRead, BufReader, Read};

use pgp::armor::{BlockType, Dearmor};
use pgp::composed::{Deserializable, SignedPublicKey};
use pgp::packet::{Packet, PacketParser, Signature, SignatureType};

use crate::keys::{Certificate, SKEW, Unfit, strong};

/// When the verdict is asked for: keys and signatures expire.
pub type Time = std::time::SystemTime;

#[derive(Debug, thiserror::Error)]
pub enum OpenPgpError {
    #[error("not an OpenPGP public key")]
    Key(#[source] pgp::errors::Error),
    #[error("there is no OpenPGP public key in it")]
    NoKey,
    #[error("more than {0} keys")]
    TooManyKeys(usize),
    #[error("not an OpenPGP signature")]
    Malformed(#[source] pgp::errors::Error),
    #[error("not a signed message: {0}")]
    Form(&'static str),
    #[error("more than {0} bytes")]
    TooLarge(usize),
    #[error("it holds no signature")]
    Unsigned,
    #[error("not signed by a trusted key: {issuers}")]
    Foreign { issuers: String },
    #[error("the signature does not fit what is signed, by key {fingerprint}")]
    Wrong { fingerprint: String },
    #[error("signed by key {fingerprint}, which {why}")]
    Unfit { fingerprint: String, why: Unfit },
    #[error("the signature by key {fingerprint} {why}")]
    NotInForce { fingerprint: String, why: &'static str },
}

/// Signed content, once it was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Of the certificate's primary key, in upper-case hexadecimal digits.
    pub fingerprint: String,
    /// Of the key that signed: the same, or one of its subkeys.
    pub signer: String,
    pub content: Vec<u8>,
}

/// Nothing that is signed here is larger: claims about images, lists of digests.
const MESSAGE_LIMIT: usize = 4 << 20;
const KEY_LIMIT: usize = 256;
const KEY_FILE_LIMIT: usize = 4 << 20;
/// Each is tried with each key.
const SIGNATURE_LIMIT: usize = 16;

/// The keys that are trusted.
#[derive(Default)]
pub struct Keyring {
    certificates: Vec<Certificate>,
}

impl std::fmt::Debug for Keyring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.fingerprints()).finish()
    }
}

impl Keyring {
    /// All keys in `bytes`, armored or binary.
    pub fn read(bytes: &[u8]) -> Result<Self, OpenPgpError> {
        let mut keyring = Self::default();
        keyring.add(bytes)?;
        Ok(keyring)
    }

    pub fn add(&mut self, bytes: &[u8]) -> Result<(), OpenPgpError> {
        if bytes.len() > KEY_FILE_LIMIT {
            return Err(OpenPgpError::TooLarge(KEY_FILE_LIMIT));
        }
        let before = self.certificates.len();
        let binary = dearmored(bytes, KEY_FILE_LIMIT).map_err(OpenPgpError::Key)?;
        let keys = SignedPublicKey::from_bytes_many(binary.as_slice()).map_err(OpenPgpError::Key)?;
        for key in keys {
            if self.certificates.len() >= KEY_LIMIT {
                return Err(OpenPgpError::TooManyKeys(KEY_LIMIT));
            }
            self.certificates.push(Certificate { key: key.map_err(OpenPgpError::Key)? });
        }
        if self.certificates.len() > before { Ok(()) } else { Err(OpenPgpError::NoKey) }
    }

    pub fn is_empty(&self) -> bool {
        self.certificates.is_empty()
    }

    pub fn fingerprints(&self) -> impl Iterator<Item = String> {
        self.certificates.iter().map(Certificate::fingerprint)
    }

    /// A message that carries its own signature (`gpg --sign`), armored or binary.
    pub fn verify_message(&self, bytes: &[u8], now: Time) -> Result<Verified, OpenPgpError> {
        if bytes.len() > MESSAGE_LIMIT {
            return Err(OpenPgpError::TooLarge(MESSAGE_LIMIT));
        }
        let binary = dearmored(bytes, MESSAGE_LIMIT).map_err(OpenPgpError::Malformed)?;
        let (content, signatures) = take_apart(binary.as_slice(), true)?;
        let content = content.ok_or(OpenPgpError::Form("it holds no text"))?;
        let (fingerprint, signer) = self.verify(&signatures, &content, now)?;
        Ok(Verified { fingerprint, signer, content })
    }

    /// A signature beside what it signs (`gpg --detach-sign`), armored or binary.
    pub fn verify_detached(
        &self,
        content: &[u8],
        signature: &[u8],
        now: Time,
    ) -> Result<Verified, OpenPgpError> {
        if signature.len() > MESSAGE_LIMIT {
            return Err(OpenPgpError::TooLarge(MESSAGE_LIMIT));
        }
        let binary = dearmored(signature, MESSAGE_LIMIT).map_err(OpenPgpError::Malformed)?;
        let (None, signatures) = take_apart(binary.as_slice(), false)? else {
            return Err(OpenPgpError::Form("it holds a text of its own"));
        };
        let (fingerprint, signer) = self.verify(&signatures, content, now)?;
        Ok(Verified { fingerprint, signer, content: content.to_vec() })
    }

    /// One good signature is enough; where there is none, the reason that says most.
    fn verify(
        &self,
        signatures: &[Signature],
        content: &[u8],
        now: Time,
    ) -> Result<(String, String), OpenPgpError> {
        let mut reason = None;
        for signature in signatures {
            match self.verify_one(signature, content, now) {
                Ok(by) => return Ok(by),
                Err(error) => match &reason {
                    None | Some(OpenPgpError::Foreign { .. }) => reason = Some(error),
                    Some(_) => {}
                },
            }
        }
        Err(reason.unwrap_or(OpenPgpError::Unsigned))
    }

    fn verify_one(
        &self,
        signature: &Signature,
        content: &[u8],
        now: Time,
    ) -> Result<(String, String), OpenPgpError> {
        let mut wrong = None;
        for certificate in &self.certificates {
            for (key, fit) in certificate.keys(now) {
                let named = signature.issuer_fingerprint().contains(&&key.fingerprint())
                    || signature.issuer_key_id().contains(&&key.legacy_key_id());
                if !named {
                    continue;
                }
                let fingerprint = certificate.fingerprint();
                if key.check(signature, content).is_err() {
                    wrong = Some(fingerprint);
                    continue;
                }
                if let Err(why) = fit {
                    return Err(OpenPgpError::Unfit { fingerprint, why });
                }
                let created: Time = key.created_at().into();
                return match in_force(signature, created, now) {
                    Ok(()) => Ok((fingerprint, format!("{:X}", key.fingerprint()))),
                    Err(why) => Err(OpenPgpError::NotInForce { fingerprint, why }),
                };
            }
        }
        match wrong {
            Some(fingerprint) => Err(OpenPgpError::Wrong { fingerprint }),
            None => Err(OpenPgpError::Foreign { issuers: issuers(signature) }),
        }
    }
}

fn in_force(signature: &Signature, key_created: Time, now: Time) -> Result<(), &'static str> {
    if !matches!(signature.typ(), Some(SignatureType::Binary | SignatureType::Text)) {
        return Err("is not one of a document");
    }
    if !strong(signature) {
        return Err("is made with a hash that is not accepted");
    }
    let Some(created) = signature.created().map(Time::from) else {
        return Err("does not say when it was made");
    };
    if created > now + SKEW {
        return Err("was made in the future");
    }
    if created + SKEW < key_created {
        return Err("is older than the key");
    }
    let lifetime = signature.signature_expiration_time().map_or(0, |time| time.as_secs());
    if lifetime != 0 && created + std::time::Duration::from_secs(lifetime.into()) <= now {
        return Err("has expired");
    }
    Ok(())
}

fn issuers(signature: &Signature) -> String {
    let fingerprints = signature.issuer_fingerprint().into_iter().map(|one| format!("{one:X}"));
    let mut names: Vec<String> = fingerprints.take(4).collect();
    if names.is_empty() {
        names = signature.issuer_key_id().into_iter().take(4).map(|one| one.to_string()).collect();
    }
    if names.is_empty() { "it names no key".to_owned() } else { format!("it names {}", names.join(", ")) }
}

/// Binary as it is; armored without its armor.
fn dearmored(bytes: &[u8], limit: usize) -> Result<Vec<u8>, pgp::errors::Error> {
    // The first byte of every binary packet has its highest bit set; no letter of an armor has.
    if bytes.first().is_some_and(|first| first & 0x80 != 0) {
        return Ok(bytes.to_vec());
    }
    let mut dearmor = Dearmor::new(bytes);
    dearmor.read_header()?;
    match dearmor.typ {
        Some(BlockType::PublicKey | BlockType::Message | BlockType::Signature | BlockType::File) => {}
        _ => return Err(std::io::Error::other("not a block of keys, a message or a signature").into()),
    }
    let mut binary = Vec::new();
    BufReader::new(dearmor).take(limit as u64).read_to_end(&mut binary)?;
    Ok(binary)
}

/// The one literal text, if there is one, and all signatures.
fn take_apart(
    binary: impl BufRead,
    may_unpack: bool,
) -> Result<(Option<Vec<u8>>, Vec<Signature>), OpenPgpError> {
    let mut content = None;
    let mut signatures = vec![];
    let mut one_pass = false;
    for packet in PacketParser::new(binary) {
        match packet.map_err(OpenPgpError::Malformed)? {
            Packet::Marker(_) | Packet::Padding(_) => {}
            Packet::OnePassSignature(_) if content.is_none() && signatures.is_empty() => one_pass = true,
            Packet::Signature(_) if content.is_some() && !one_pass => {
                return Err(OpenPgpError::Form("a signature follows that was not announced"));
            }
            Packet::Signature(signature) => {
                if signatures.len() >= SIGNATURE_LIMIT {
                    return Err(OpenPgpError::Form("too many signatures"));
                }
                signatures.push(signature);
            }
            Packet::LiteralData(literal) if content.is_none() => {
                content = Some(literal.data().to_vec());
            }
            Packet::CompressedData(packed)
                if may_unpack && content.is_none() && signatures.is_empty() && !one_pass =>
            {
                let mut unpacked = Vec::new();
                let reader = packed.decompress().map_err(OpenPgpError::Malformed)?;
                let read = reader.take(MESSAGE_LIMIT as u64 + 1).read_to_end(&mut unpacked);
                read.map_err(|error| OpenPgpError::Malformed(error.into()))?;
                if unpacked.len() > MESSAGE_LIMIT {
                    return Err(OpenPgpError::TooLarge(MESSAGE_LIMIT));
                }
                // Whatever follows beside the compressed packet is not part of what it holds.
                return take_apart(unpacked.as_slice(), false);
            }
            _ => return Err(OpenPgpError::Form("it is put together in another way than those")),
        }
    }
    Ok((content, signatures))
}
