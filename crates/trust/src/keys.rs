//! Which keys of a certificate may sign, and why the others may not.
//!
//! A certificate is a bag of signatures of which anybody may have added some: only those count that its primary key
//! made, and of several statements about one key the newest. A revocation counts for ever, whatever its reason: who
//! wants to go on trusting signatures from before it can hand out a new certificate.

use std::fmt;
use std::time::{Duration, SystemTime};

use pgp::composed::{SignedPublicKey, SignedPublicSubKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Signature, SignatureType};
use pgp::types::{KeyDetails, PublicParams, Tag, VerifyingKey};

/// Why a key may not sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    Revoked,
    Expired,
    /// Its creation lies in the future.
    NotYet,
    /// Nothing valid says what it may be used for.
    Unbound,
    /// It is for other things: encryption, certification.
    NotForSigning,
    /// Of an algorithm or a size that is not accepted.
    Weak,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Revoked => "is revoked",
            Self::Expired => "has expired",
            Self::NotYet => "was made in the future",
            Self::Unbound => "has no valid self-signature",
            Self::NotForSigning => "is not for signing",
            Self::Weak => "is of an algorithm or a size that is not accepted",
        })
    }
}

/// RSA keys must have at least so many bits.
const RSA_BITS: usize = 2048;

/// Hashes for which nobody knows how to find two documents with one signature.
pub(crate) fn strong(signature: &Signature) -> bool {
    use HashAlgorithm::{Sha3_256, Sha3_512, Sha224, Sha256, Sha384, Sha512};
    matches!(signature.hash_alg(), Some(Sha224 | Sha256 | Sha384 | Sha512 | Sha3_256 | Sha3_512))
}

/// What may be asked of a certificate.
pub(crate) struct Certificate {
    pub key: SignedPublicKey,
}

impl Certificate {
    pub fn fingerprint(&self) -> String {
        format!("{:X}", self.key.fingerprint())
    }

    /// The primary key and the subkeys, each with why it may not sign, if it may not.
    pub fn keys(&self, now: SystemTime) -> Vec<(&dyn SigningKey, Result<(), Unfit>)> {
        let primary = self.primary(now);
        let mut keys: Vec<(&dyn SigningKey, _)> = vec![(
            &self.key.primary_key,
            primary.and_then(
                |flags| if flags.is_none_or(|sign| sign) { Ok(()) } else { Err(Unfit::NotForSigning) },
            ),
        )];
        for subkey in &self.key.public_subkeys {
            // What is wrong with the primary key is wrong with all that depends on it.
            let fit = primary.and_then(|_| self.subkey(subkey, now));
            keys.push((&subkey.key, fit));
        }
        keys
    }

    /// Whether the primary key is in force; and if its self-signature says so, whether it may sign.
    fn primary(&self, now: SystemTime) -> Result<Option<bool>, Unfit> {
        let key = &self.key.primary_key;
        if self.key.details.revocation_signatures.iter().any(|revocation| revocation.verify_key(key).is_ok())
        {
            return Err(Unfit::Revoked);
        }
        let mut statements: Vec<&Signature> = vec![];
        for direct in &self.key.details.direct_signatures {
            let about_key = direct.typ() == Some(SignatureType::Key);
            if about_key && strong(direct) && direct.verify_key(key).is_ok() {
                statements.push(direct);
            }
        }
        for user in &self.key.details.users {
            let mut own: Vec<&Signature> = user.signatures.iter().collect();
            own.retain(|one| one.verify_certification(key, Tag::UserId, &user.id).is_ok());
            // A name that was taken back says nothing any more.
            if own.iter().any(|one| one.typ() == Some(SignatureType::CertRevocation)) {
                continue;
            }
            statements.extend(own.into_iter().filter(|one| strong(one)));
        }
        let newest = newest(&statements).ok_or(Unfit::Unbound)?;
        in_force(key, newest, now)?;
        let flags = newest.key_flags();
        let said = flags.sign() || flags.certify() || flags.encrypt_comms() || flags.encrypt_storage();
        Ok(said.then(|| flags.sign()))
    }

    fn subkey(&self, subkey: &SignedPublicSubKey, now: SystemTime) -> Result<(), Unfit> {
        let primary = &self.key.primary_key;
        let made = |one: &&Signature| one.verify_subkey_binding(primary, &subkey.key).is_ok();
        let own: Vec<&Signature> = subkey.signatures.iter().filter(made).collect();
        if own.iter().any(|one| one.typ() == Some(SignatureType::SubkeyRevocation)) {
            return Err(Unfit::Revoked);
        }
        let bindings: Vec<&Signature> = own.into_iter().filter(|one| strong(one)).collect();
        let newest = newest(&bindings).ok_or(Unfit::Unbound)?;
        in_force(&subkey.key, newest, now)?;
        if !newest.key_flags().sign() {
            return Err(Unfit::NotForSigning);
        }
        // The subkey must agree to belong here; otherwise somebody else's key could be claimed, signatures and all.
        let agreed = newest.embedded_signature().is_some_and(|back| {
            strong(back) && back.verify_primary_key_binding(&subkey.key, primary).is_ok()
        });
        if agreed { Ok(()) } else { Err(Unfit::Unbound) }
    }
}

fn newest<'a>(statements: &[&'a Signature]) -> Option<&'a Signature> {
    statements.iter().copied().max_by_key(|one| one.created().map_or(0, |time| time.as_secs()))
}

fn in_force(key: &dyn SigningKey, statement: &Signature, now: SystemTime) -> Result<(), Unfit> {
    let created: SystemTime = key.created_at().into();
    if created > now + SKEW {
        return Err(Unfit::NotYet);
    }
    let lifetime = statement.key_expiration_time().map_or(0, |time| time.as_secs());
    let over =
        |start: SystemTime, seconds: u32| seconds != 0 && start + Duration::from_secs(seconds.into()) <= now;
    let said = statement.created().map_or(created, Into::into);
    let kept = statement.signature_expiration_time().map_or(0, |time| time.as_secs());
    if over(created, lifetime) || over(said, kept) {
        return Err(Unfit::Expired);
    }
    let fits = match key.public_params() {
        PublicParams::RSA(_) => rsa_bits(key) >= RSA_BITS,
        PublicParams::EdDSALegacy(_) | PublicParams::Ed25519(_) | PublicParams::Ed448(_) => true,
        PublicParams::ECDSA(_) => true,
        _ => false,
    };
    if fits { Ok(()) } else { Err(Unfit::Weak) }
}

/// Clocks differ by so much without anybody noticing.
pub(crate) const SKEW: Duration = Duration::from_secs(600);

fn rsa_bits(key: &dyn SigningKey) -> usize {
    use pgp::ser::Serialize as _;
    let PublicParams::RSA(parameters) = key.public_params() else { return 0 };
    // An integer starts with its length in bits; the modulus comes first.
    let bytes = parameters.to_bytes().unwrap_or_default();
    bytes.first_chunk::<2>().map_or(0, |length| u16::from_be_bytes(*length).into())
}

/// A primary key or a subkey.
pub(crate) trait SigningKey: KeyDetails {
    fn check(&self, signature: &Signature, data: &[u8]) -> pgp::errors::Result<()>;
}

impl<K: VerifyingKey> SigningKey for K {
    fn check(&self, signature: &Signature, data: &[u8]) -> pgp::errors::Result<()> {
        signature.verify(self, data)
    }
}
