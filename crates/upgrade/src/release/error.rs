//! Why a release cannot be used.

use std::path::PathBuf;

use logic::exit::Exit;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{} is no release: there is no release.json in it", path.display())]
    NoManifest { path: PathBuf },
    #[error("{} cannot be understood: {why}", path.display())]
    Manifest { path: PathBuf, why: String },
    #[error("the release says nothing about the backend {backend}")]
    OtherBackend { backend: &'static str },
    #[error("{{{word}}} in {text:?} stands for nothing")]
    UnknownWord { word: String, text: String },
    #[error("there is no program {program:?} that the release could be started with")]
    NoProgram { program: String },
    #[error("there is no {file:?} in the release, which its machine needs")]
    NoFile { file: String },
    #[error("the release cannot be read")]
    Disk(#[from] disk::Error),
}

impl Error {
    pub fn exit(&self) -> Exit {
        match self {
            Self::NoManifest { .. } => Exit::NotFound,
            Self::Manifest { .. }
            | Self::OtherBackend { .. }
            | Self::UnknownWord { .. }
            | Self::NoProgram { .. }
            | Self::NoFile { .. } => Exit::Refused,
            Self::Disk(_) => Exit::Unexpected,
        }
    }

    pub fn hint(&self) -> String {
        match self {
            Self::NoManifest { .. } => "a release has release.json at its root; docs/guides/upgrade.md shows one".to_owned(),
            Self::Manifest { .. } | Self::OtherBackend { .. } => {
                "docs/guides/upgrade.md shows what belongs into release.json".to_owned()
            }
            Self::UnknownWord { .. } => {
                "known are {release}, {data}, {run} and {config.KEY}; `holdfast appliance configure` sets keys".to_owned()
            }
            Self::NoProgram { .. } => {
                "put it into the release, executable, or install it; a relative path is one of the release".to_owned()
            }
            Self::NoFile { .. } => "paths in vm are relative to the release; put it there".to_owned(),
            Self::Disk(_) => "see that the release is there and readable".to_owned(),
        }
    }
}
