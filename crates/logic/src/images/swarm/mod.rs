//! How an image spreads from disk to disk: which piece a receiver asks whom for next, and whom a sender serves.
//!
//! Both sides are values that are told what happened and asked what to do; time comes in as a [`Moment`]. The same code
//! runs in managers, over TLS, and in the simulation, with a thousand of them in one process.
//!
//! A receiver keeps a few links to peers. Each peer tells what it has, and whether it serves the link now: at most a few at
//! once, in short turns, the hungriest first. On a link that is served the receiver asks for one of a few pieces that fewest
//! of its peers have; the sender picks the one that it has given least. What is late is asked for once more elsewhere;
//! a peer that is frozen, slow, or sent something bad is left alone for a while.

mod asks;
mod link;
mod peers;
mod random;
mod receiver;
mod rules;
mod turns;

#[cfg(test)]
mod tests;

pub use link::{AskId, LinkId, PeerId};
pub use peers::Parting;
pub use random::Random;
pub use receiver::{Action, Receiver};
pub use rules::{Moment, Rules};
pub use turns::{Turn, Turns};
