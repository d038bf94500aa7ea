//! Chunks from disk to disk: one link for each receiver and sender of an image, over any stream of bytes.
//!
//! ```text
//! receive ── link ══ frames ══ serve ── share ── sends
//!    │        │                  │        │
//!  logic: Receiver            ImageFile  logic: Turns
//! ```
//!
//! Who is asked for what, and who is served, is decided in `logic::images::swarm`; here it is carried out. Nothing that
//! comes over a link is trusted: frames are limited, chunks are verified by the file that they are put into, and the end of
//! a connection never means that anything is complete. Who may connect is not decided here.

mod adopt;
mod board;
mod error;
pub mod frame;
mod io;
mod limits;
mod link;
mod peer;
mod receive;
mod sends;
mod serve;
mod share;

pub use adopt::adopt;
pub use error::{ReceiveError, Refused, SendError};
pub use limits::{Bandwidth, Limits};
pub use peer::{Dial, DialError, Dialled, Dialling, Peer, Stream};
pub use receive::{Receive, receive};
pub use sends::{Sends, Ticket};
