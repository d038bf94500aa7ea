//! Data migrations: a registry of them, and the runner that takes data along a path of them.
//!
//! A migration is a Rust type that a program registers, or an executable that a release ships. Both obey one contract
//! ([`Migration`]) and look the same in a plan. Which of them must run is decided in `logic::migrate`.
//!
//! Architecture invariants: the input is never touched, neither values nor stores; what failed leaves nothing behind
//! that anybody could take for a result; nothing here decides what is kept: whoever asked persists what came out.
//! Nothing is asynchronous, nothing prints.

mod answer;
mod contract;
mod discover;
mod document;
mod error;
mod executable;
mod in_place;
mod options;
mod registry;
mod run;
mod stores;

pub use answer::{AnswerError, parse_answer};
pub use contract::{Failure, Input, Migration, Output, Work};
pub use discover::{BadName, Named};
pub use document::{Document, DocumentError};
pub use error::{Error, RegistryError, Told};
pub use executable::ExecutableError;
pub use in_place::InPlace;
pub use logic::migrate::{Applied, Change, KeyChange, Known, Path, Refusal, Target};
pub use options::{Limits, Options};
pub use program::Protections;
pub use registry::Registry;
pub use run::{Data, Migrated, Step};
pub use stores::{NewStore, StoreError};
