//! What every service of the product does alike: being stopped by signals, telling systemd how it is, showing metrics as
//! text, an admin port, children that do not outlive it, and being small. Nothing here knows what a service is for.

pub mod admin;
mod children;
mod memory;
mod notify;
mod signals;
mod text;

pub use children::end_with_us;
pub use memory::forget_the_start;
pub use notify::{notify, reloading};
pub use signals::terminated;
pub use text::{Counter, Page};
