//! What a manager refuses, and what keeps it from starting.

use std::path::PathBuf;

use logic::images::{DiskId, ImageId, ImageName};
use tonic::{Code, Status};

use crate::file::FileError;
use crate::identity;
use crate::volume::{Damaged, VolumeError};

/// Why a call was refused. The class decides its gRPC code.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error(transparent)]
    Message(#[from] wire::BadMessage),
    #[error("{0}")]
    Argument(String),
    #[error("{role} may not call {call}")]
    Role { role: String, call: &'static str },
    #[error("there is no image {0} on this disk")]
    Unknown(ImageName),
    #[error("the image {name} on this disk is {here}, not {asked}")]
    OtherImage { name: ImageName, here: ImageId, asked: ImageId },
    #[error("{0} is downloaded")]
    Downloaded(ImageName),
    #[error("{name} is being {doing} already")]
    Busy { name: ImageName, doing: &'static str },
    #[error("{0} is being handed over to another manager of this disk")]
    Offered(ImageName),
    #[error("{0} is not downloaded")]
    NotDownloaded(ImageName),
    #[error("no images are offered: the offer has ended, or there was none")]
    NoOffer,
    #[error("more than {limit} images")]
    TooMany { limit: usize },
    #[error("too many receivers of {0} are waiting: ask somebody else")]
    Receivers(ImageName),
    #[error("this manager speaks version {0} of the API, which does not have that")]
    Version(u32),
    #[error("the manager stops")]
    Stopping,
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{0}")]
    Data(String),
    #[error("the volume {volume} stands on {image}: remove it first")]
    InUse { image: ImageName, volume: ImageName },
    #[error("nobody can tell what stands on which image")]
    MayBeInUse(#[source] Damaged),
    #[error("the disk is not what it was")]
    NoDisk(#[source] FileError),
    #[error("{name} is {size} bytes long")]
    Beyond { name: ImageName, size: u64 },
    #[error(transparent)]
    Volume(#[from] VolumeError),
    #[error("an internal task ended")]
    Task,
}

impl Refusal {
    fn code(&self) -> Code {
        match self {
            Self::Message(_) | Self::Argument(_) => Code::InvalidArgument,
            Self::Role { .. } => Code::PermissionDenied,
            Self::Unknown(_) => Code::NotFound,
            Self::OtherImage { .. }
            | Self::NotDownloaded(_)
            | Self::NoOffer
            | Self::InUse { .. }
            | Self::MayBeInUse(_)
            | Self::NoDisk(_) => Code::FailedPrecondition,
            Self::Beyond { .. } => Code::OutOfRange,
            Self::Downloaded(_) | Self::Busy { .. } => Code::AlreadyExists,
            Self::Offered(_) | Self::Stopping => Code::Unavailable,
            Self::TooMany { .. } | Self::Receivers(_) => Code::ResourceExhausted,
            Self::Version(_) => Code::Unimplemented,
            Self::Volume(error) => of_volume(error),
            Self::File(error) if error.is_out_of_space() => Code::ResourceExhausted,
            Self::File(error) if error.is_wrong_disk() => Code::FailedPrecondition,
            Self::File(FileError::Busy { .. } | FileError::ChangedByOther { .. }) => Code::Unavailable,
            Self::File(error) if error.is_contradiction() => Code::FailedPrecondition,
            Self::Data(_) => Code::DataLoss,
            Self::File(_) | Self::Task => Code::Internal,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::OtherImage { name, .. } => Some(format!("delete {name} from this disk first")),
            Self::File(error) | Self::NoDisk(error) => error.hint(),
            Self::MayBeInUse(damaged) => Some(format!(
                "remove the volume: holdfast volume rm {}; one that the site does not know, by its directory",
                damaged.name
            )),
            _ => None,
        }
    }
}

fn of_volume(error: &VolumeError) -> Code {
    match error {
        VolumeError::Missing { .. } => Code::NotFound,
        VolumeError::Exists { .. } | VolumeError::OnAnother { .. } => Code::AlreadyExists,
        VolumeError::Busy { .. } | VolumeError::InUse { .. } | VolumeError::Changed { .. } => {
            Code::FailedPrecondition
        }
        VolumeError::TooSmall { .. }
        | VolumeError::NoOverlay { .. }
        | VolumeError::Header { .. }
        | VolumeError::ExternalData { .. }
        | VolumeError::Encrypted { .. } => Code::InvalidArgument,
        VolumeError::Record(_) => Code::DataLoss,
        VolumeError::NoQemu { .. }
        | VolumeError::Qemu { .. }
        | VolumeError::File { .. }
        | VolumeError::Disk(_) => Code::Internal,
    }
}

/// Why something that was begun ended without the image being here, as people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    pub why: String,
    /// Trying again would end the same.
    pub lasting: bool,
}

/// No reason that is shown to people is longer.
const REASON: usize = 1000;

impl Failed {
    pub fn limited(self) -> Self {
        Self { why: self.why.chars().take(REASON).collect(), ..self }
    }
}

impl From<String> for Failed {
    fn from(why: String) -> Self {
        Self { why, lasting: false }
    }
}

/// With all causes, and the way out: the caller shows it to people as it is.
pub fn in_words(error: &(dyn std::error::Error + 'static), hint: Option<String>) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    match hint {
        Some(hint) => format!("{text} ({hint})"),
        None => text,
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let hint = refusal.hint();
        Self::new(refusal.code(), in_words(&refusal, hint))
    }
}

/// Why a manager can't run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the disk can't be used")]
    Disk(#[from] FileError),
    #[error("the volumes of the disk can't be used")]
    Volumes(#[from] VolumeError),
    #[error("the certificate of {} is for {role}, and this disk is {disk}", path.display())]
    OtherDisk { path: PathBuf, role: String, disk: DiskId },
    #[error("there is no identity in {}", path.display())]
    NoIdentity { path: PathBuf },
    #[error(transparent)]
    Identity(#[from] identity::Error),
    #[error("can't listen on {address}")]
    Listen { address: std::net::SocketAddr, source: std::io::Error },
    #[error("can't reach the site at {url}")]
    Site { url: String, source: reqwest::Error },
    #[error("the site refused: {message}")]
    Refused { message: String, hint: String },
    #[error("the site answered something that can't be understood")]
    Answer { source: reqwest::Error },
    #[error("{0:?} can't be used as the address of a site: expected https://HOST:PORT")]
    Url(String),
    #[error(transparent)]
    Token(#[from] identity::BadToken),
    #[error("can't start threads")]
    Threads(std::io::Error),
    #[error(transparent)]
    Node(#[from] logic::images::BadName),
    #[error("the node has no name")]
    NoNode,
}

impl Error {
    /// The way out.
    pub fn hint(&self) -> String {
        match self {
            Self::Disk(error) => error.hint().unwrap_or_default(),
            Self::Volumes(_) => "see that the disk is writable".to_owned(),
            Self::OtherDisk { path, .. } => {
                format!("mount the right disk, or give this one another --identity than {}", path.display())
            }
            Self::NoIdentity { .. } => {
                "join a site: --join https://HOST:PORT --token TOKEN (holdfast image token create --join)"
                    .to_owned()
            }
            Self::Identity(error) => error.hint(),
            Self::Listen { .. } => "give another --listen, or stop what listens there".to_owned(),
            Self::Site { .. } => {
                "see that `holdfast image serve` runs there, and that its port can be reached".to_owned()
            }
            Self::Refused { hint, .. } => hint.clone(),
            Self::Answer { .. } => "see that it is the address of `holdfast image serve`".to_owned(),
            Self::Url(_) => "the site says its address in its log when it starts".to_owned(),
            Self::Token(error) => error.hint(),
            Self::Threads(_) => "see the limits on processes and memory".to_owned(),
            Self::Node(_) | Self::NoNode => "give --node NAME".to_owned(),
        }
    }

    /// Whether the same may work later, with nothing changed.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Site { .. } | Self::Answer { .. })
    }
}
