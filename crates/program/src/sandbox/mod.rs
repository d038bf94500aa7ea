//! A program that is not trusted: it sees little, changes only what it is given, and talks to nobody.
//!
//! Three processes. The *keeper* is the child that `run` watches; its only work is to end with the next one. The *init*
//! is the first process of a new process namespace: whatever happens, everything in there ends when it does. It builds
//! the file system that the program sees, and counts what the program uses. The *program* gives up its rights and is
//! then replaced by what was to be run.
//!
//! Architecture invariant: between fork and exec nothing allocates, locks or can panic. Everything is prepared before
//! ([`prepare`](prepare::Prepared)); after it there are system calls only. What the three have to say, they write on the
//! [`board`].

mod board;
mod describe;
mod enter;
mod filter;
mod init;
mod kernel;
mod landlock;
mod layout;
mod prepare;
mod program;

pub(crate) use board::{Board, Exceeded, Report, Stage};
pub use describe::{Protections, Sandbox};
pub(crate) use kernel::before_exec;
pub(crate) use prepare::Prepared;
