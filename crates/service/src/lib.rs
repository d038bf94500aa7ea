//! What every service of the product does alike: being stopped by signals, telling systemd how it is, showing metrics as
//! text, and an admin port. Nothing here knows what a service is for.

pub mod admin;
mod notify;
mod signals;
mod text;

pub use notify::{notify, reloading};
pub use signals::terminated;
pub use text::{Counter, Page};
