//! The manager of one disk: a process that fetches images, keeps them whole, and sends them to its peers.
//!
//! It does what it is told and nothing else: which images a disk should have, who pulls and who is asked for what is
//! decided by the site's controllers, again and again. What it knows is on its disk; a restart takes that up.
//!
//! ```text
//! service   calls in, answers out: who may call what, words for people
//! registry  the images of the disk, by name; one change at a time
//! entry     one image: its file, what is being done with it, how it is
//! work      fetching: this disk, disks of this node, peers, origin
//! handover  offering images to the next manager of this disk, and letting go
//! tend      looking at files now and then; scrub: reading all of them, more seldom
//! stream    bytes of an image out, for exports
//! volumes   overlays on images of this disk
//! run       all of it together; join: becoming and staying a member of the site
//! ```

mod admin;
mod entry;
mod error;
mod handover;
mod join;
mod peers;
mod rate;
mod registry;
mod run;
mod scrub;
mod service;
mod stream;
mod tend;
mod upload;
mod volumes;
mod work;

pub use error::Error;
pub use join::Join;
pub use run::{Api, IDENTITIES, Options, run};
