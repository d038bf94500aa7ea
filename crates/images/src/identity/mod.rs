//! Who is who in a site: its certificate authority, the certificates of managers and controllers, and TLS with them.
//!
//! What somebody may do is the [`Role`] in its certificate, as an address of the scheme `holdfast:`. Names and addresses
//! of machines count for nothing: they change, and whoever dials knows which disk it wants. Nothing here listens or dials.

mod authority;
mod error;
mod keep;
mod role;
mod tls;
mod token;

pub use authority::{Authority, Fingerprint, LIFE};
pub use error::{Error, Result};
pub use keep::{Identity, Request};
pub use role::{BadRole, Role};
pub use tls::{ALPN_CHUNKS, ALPN_GRPC, Clients, Pinned, client_config, role_of, server_config};
pub use token::{BadToken, Token};
