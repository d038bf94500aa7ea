//! What somebody is in a site, as its certificate says it.

use std::fmt;

use logic::images::DiskId;
use rustls::pki_types::CertificateDer;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Role {
    /// Decides what managers do, and serves the API for people.
    Controller,
    /// Looks after the images of this disk.
    Manager(DiskId),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRole {
    #[error("the certificate names no role of a site")]
    None,
    #[error("the certificate names more than one role")]
    Several,
    #[error("{0:?} is not a role: expected holdfast:controller or holdfast:manager: and a disk's uuid")]
    Unknown(String),
}

const CONTROLLER: &str = "holdfast:controller";
const MANAGER: &str = "holdfast:manager:";

impl Role {
    pub fn parse(text: &str) -> Result<Self, BadRole> {
        let unknown = || BadRole::Unknown(text.chars().take(100).collect());
        if text == CONTROLLER {
            return Ok(Self::Controller);
        }
        let disk = text.strip_prefix(MANAGER).ok_or_else(unknown)?;
        DiskId::parse(disk).map(Self::Manager).map_err(|_| unknown())
    }

    /// Of a certificate whose signature was checked before.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Result<Self, BadRole> {
        let certificate = webpki::EndEntityCert::try_from(certificate).map_err(|_| BadRole::None)?;
        let mut roles = certificate.valid_uri_names();
        match (roles.next(), roles.next()) {
            (None, _) => Err(BadRole::None),
            (Some(role), None) => Self::parse(role),
            (Some(_), Some(_)) => Err(BadRole::Several),
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Controller => f.write_str(CONTROLLER),
            Self::Manager(disk) => write!(f, "{MANAGER}{disk}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_read_as_it_is_written() {
        let disk = DiskId::parse("1b4e28ba-2fa1-41d2-883f-0016d3cca427").expect("a uuid");
        for role in [Role::Controller, Role::Manager(disk)] {
            assert_eq!(Role::parse(&role.to_string()), Ok(role));
        }
        for bad in
            ["", "holdfast:", "holdfast:admin", "holdfast:manager:", "holdfast:manager:x", "x:controller"]
        {
            assert!(matches!(Role::parse(bad), Err(BadRole::Unknown(_))), "{bad:?}");
        }
    }
}
