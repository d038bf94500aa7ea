//! What people and joining managers show instead of a certificate: `hft_ID_SECRET_FINGERPRINT`.
//!
//! The fingerprint is that of the site's authority: whoever has a token knows whom to show it to.

use std::fmt;
use std::str::FromStr;

use super::Fingerprint;

#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// Names it in lists and logs.
    pub id: String,
    pub secret: String,
    pub fingerprint: Fingerprint,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("that is not a token: expected hft_ID_SECRET_FINGERPRINT")]
pub struct BadToken;

impl BadToken {
    /// The way out.
    pub fn hint(&self) -> String {
        "copy the whole line that `holdfast image token create` printed, or the file admin.token beside the site's state"
            .to_owned()
    }
}

const PREFIX: &str = "hft";
/// What is shorter was cut off when it was copied, or made up: it could be guessed.
const LEAST_SECRET: usize = 32;

impl Token {
    /// A new one, of random digits.
    pub fn new(fingerprint: Fingerprint) -> Self {
        let digits = || uuid::Uuid::new_v4().simple().to_string();
        Self { id: digits()[..10].to_owned(), secret: digits() + &digits(), fingerprint }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}_{}_{}_{}", self.id, self.secret, self.fingerprint)
    }
}

impl fmt::Debug for Token {
    /// Never the secret: this ends up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.id)
    }
}

impl FromStr for Token {
    type Err = BadToken;

    fn from_str(text: &str) -> Result<Self, BadToken> {
        let parts: Vec<&str> = text.trim().splitn(5, '_').collect();
        let [PREFIX, id, secret, fingerprint] = parts[..] else { return Err(BadToken) };
        let plain = |part: &str, least| {
            (least..=64).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        if !plain(id, 1) || !plain(secret, LEAST_SECRET) {
            return Err(BadToken);
        }
        let fingerprint = fingerprint.parse().map_err(|_| BadToken)?;
        Ok(Self { id: id.to_owned(), secret: secret.to_owned(), fingerprint })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_it_is_written_and_never_told_to_a_log() {
        let fingerprint: Fingerprint = "ab".repeat(32).parse().expect("a fingerprint");
        let token = Token::new(fingerprint);
        assert_eq!(token.to_string().parse(), Ok(token.clone()));
        assert!(!format!("{token:?}").contains(&token.secret));
        assert_ne!(Token::new(fingerprint).secret, token.secret);
        let secret = &token.secret;
        for bad in [
            "",
            "hft",
            "hft_a_b",
            "hft_a_b_c",
            &format!("x_a_{secret}_{fingerprint}"),
            &format!("hft__{secret}_{fingerprint}"),
            &format!("hft_a_{}_{fingerprint}", &secret[..31]),
        ] {
            assert_eq!(bad.parse::<Token>(), Err(BadToken), "{bad:?}");
        }
    }
}
