//! What ends a transfer before its time, each with the way out.

use std::io;

use super::frame::BadFrame;
use crate::file::FileError;

/// Why a receiver is not taken on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("as many receivers as are allowed have links already")]
    Busy,
    #[error("the image is being handed over to another manager of this disk")]
    Paused,
}

impl Refused {
    pub fn hint(self) -> &'static str {
        match self {
            Self::Busy => "ask another peer, or raise `connections`",
            Self::Paused => "ask again in a moment",
        }
    }
}

/// Why a link of a sender ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    #[error("the ticket is not known: it was used, is too old, or is another receiver's")]
    Ticket,
    #[error("the link broke")]
    Io(#[from] io::Error),
    #[error("the receiver sends what can't be understood")]
    Frame(#[from] BadFrame),
    #[error("the receiver was silent for too long")]
    Silent,
    #[error("the image began again")]
    Restarted,
    #[error("sending was stopped")]
    Stopped,
    #[error(transparent)]
    File(#[from] FileError),
}

/// Why an image could not be received. Trouble with single peers is none of it: they are left alone, and others asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    #[error("cancelled")]
    Cancelled,
    #[error("the peers do not agree what the image is: what was received does not add up to its seal")]
    Disagree(#[source] FileError),
    #[error("a step of receiving broke off")]
    Broken(#[source] io::Error),
    #[error(transparent)]
    File(#[from] FileError),
}

impl ReceiveError {
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Cancelled | Self::Broken(_) => None,
            Self::Disagree(_) => Some(
                "all of it is fetched again; if that does not help, remove the image and create it again"
                    .into(),
            ),
            Self::File(error) => error.hint(),
        }
    }
}
