//! Tokens of people, and of managers that join. Only the hash of a secret is stored.

use std::os::unix::fs::PermissionsExt;

use logic::images::Object;
use sha2::{Digest, Sha256};

use super::error::{Error, Result};
use super::kinds::{Grant, TokenObject, TokenSpec};
use super::state::{Shared, now};
use crate::identity::Token;

const ADMIN_FILE: &str = "admin.token";
const MOST_BYTES: u64 = 4096;

pub(super) fn hash(secret: &str) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(secret.as_bytes()) {
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

pub(super) async fn create(
    shared: &Shared,
    role: Grant,
    description: String,
    expires: Option<u64>,
) -> store::Result<(Token, TokenObject)> {
    let token = Token::new(shared.authority.fingerprint());
    let spec = TokenSpec { role, description, sha256: hash(&token.secret), expires };
    let object = shared.tokens.create(&Object::new(token.id.clone(), spec)).await?;
    Ok((token, object))
}

/// Why a token is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    NotAToken,
    OtherSite,
    Unknown,
    Expired,
}

pub(super) async fn check(shared: &Shared, text: &str) -> std::result::Result<Grant, Refused> {
    let token: Token = text.parse().map_err(|_| Refused::NotAToken)?;
    if token.fingerprint != shared.authority.fingerprint() {
        return Err(Refused::OtherSite);
    }
    let object = shared.tokens.get(&token.id).await.ok().flatten().ok_or(Refused::Unknown)?;
    // Hashes are compared, so that the time it takes says nothing about the secret.
    if object.spec.sha256 != hash(&token.secret) || object.is_deleted() {
        return Err(Refused::Unknown);
    }
    match object.spec.expires {
        Some(end) if end <= now() => Err(Refused::Expired),
        _ => Ok(object.spec.role),
    }
}

/// The first token, for whoever may read the site's directory. Made anew if the file was lost or the token removed.
pub(super) async fn ensure_admin(shared: &Shared) -> Result<()> {
    let path = shared.directory.join(ADMIN_FILE);
    let keep = |source| Error::Keep { path: path.clone(), source };
    if let Some(bytes) = disk::durable::read_limited(&path, MOST_BYTES).map_err(keep)? {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if check(shared, text.trim()).await == Ok(Grant::Admin) {
            return Ok(());
        }
    }
    let description = "made by the site at its start".to_owned();
    let (token, _) = create(shared, Grant::Admin, description, None).await?;
    disk::durable::write_durably_with(&path, |file| {
        use std::io::Write;
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
        file.write_all(format!("{token}\n").as_bytes())
    })
    .map_err(keep)?;
    tracing::info!(path = %path.display(), "a token for administrators was made");
    Ok(())
}
