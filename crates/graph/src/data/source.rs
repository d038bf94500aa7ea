//! Where graph data is, and whether it changed since it was last read.

use std::path::PathBuf;
use std::sync::Arc;

use logic::graph::{GraphData, Notes};

use super::directory;
use super::files::{self, LayoutError};
use super::git::{self, GitError, GitUrl};
use super::image::{self, ImageDataError};
use super::tree::Tree;
use crate::settings::{Limits, Settings};

#[derive(Debug, thiserror::Error)]
pub enum DataError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    #[error("more than {0} files of graph data: none of it is used")]
    TooManyFiles(usize),
    #[error("graph data is larger than {limit} bytes, with {path}: none of it is used")]
    TooLarge { path: String, limit: u64 },
    #[error("graph data can't be used")]
    Layout(#[source] LayoutError),
    #[error("graph data from git")]
    Git(#[source] GitError),
    #[error("graph data from an image")]
    Image(#[source] Box<ImageDataError>),
    #[error("keys were given, and only an image can be signed: {0} would be used unsigned")]
    Unsigned(String),
    #[error("the service stops")]
    Stopped,
}

impl From<ImageDataError> for DataError {
    fn from(error: ImageDataError) -> Self {
        Self::Image(Box::new(error))
    }
}

impl DataError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Read { .. } => "see that the directory is there and may be read",
            Self::TooManyFiles(_) => "raise limits.graph-data-files, or see what the files are",
            Self::TooLarge { .. } => "raise limits.graph-data-bytes, or see what the files are",
            Self::Layout(_) => "run `holdfast graph check DIR` on it",
            Self::Git(_) => "run `git ls-remote URL` on this machine, as the same user",
            Self::Image(error) => error.hint(),
            Self::Unsigned(_) => "publish graph data as an image (image:REF), or leave out the keys",
            Self::Stopped => "start it again",
        }
    }
}

/// One place that graph data comes from, and what it held when it was last read.
#[derive(Debug)]
pub struct DataSource {
    place: Place,
    limits: Limits,
    /// What the last good answer was made from.
    revision: Option<String>,
}

#[derive(Debug)]
enum Place {
    Directory(PathBuf),
    Git(git::Repository),
    Image(Box<image::DataImage>),
}

impl DataSource {
    /// From `DIR`, `git+URL[#BRANCH]` or `image:REF`; None where no graph data is configured. Nothing is fetched yet.
    pub fn open(settings: &Settings) -> Result<Option<Self>, DataError> {
        let Some(address) = &settings.graph_data else { return Ok(None) };
        let wants_signature =
            !settings.graph_data_keys.is_empty() || settings.graph_data_signatures.is_some();
        if wants_signature && !address.starts_with("image:") {
            return Err(DataError::Unsigned(address.clone()));
        }
        let place = if let Some(url) = address.strip_prefix("git+") {
            let url = GitUrl::parse(url).map_err(DataError::Git)?;
            // git changes its directory, and must still find it.
            let path = &settings.cache_dir;
            let cache =
                std::path::absolute(path).map_err(|source| DataError::Read { path: path.clone(), source })?;
            Place::Git(git::Repository::new(url, cache.join("graph-data.git")))
        } else if let Some(reference) = address.strip_prefix("image:") {
            Place::Image(Box::new(image::DataImage::open(reference, settings)?))
        } else {
            Place::Directory(PathBuf::from(address))
        };
        Ok(Some(Self { place, limits: settings.limits.clone(), revision: None }))
    }

    /// What is there now; None if it is what the last good answer was made from. After an error, that answer still
    /// holds.
    pub async fn load(&mut self) -> Result<Option<(GraphData, Notes)>, DataError> {
        let limits = self.limits.clone();
        let last = self.revision.as_deref();
        let found = match &mut self.place {
            Place::Directory(path) => {
                let path = path.clone();
                let tree = blocking(move || directory::read(&path, &limits)).await?;
                Some((revision_of(&tree), tree))
            }
            Place::Git(repository) => repository.read(last, &limits).await?,
            Place::Image(image) => image.read(last, &limits).await?,
        };
        let Some((revision, tree)) = found else { return Ok(None) };
        if self.revision.as_deref() == Some(revision.as_str()) {
            return Ok(None);
        }
        let tree = Arc::new(tree);
        let read = blocking(move || files::read(&tree).map_err(DataError::Layout)).await?;
        tracing::info!(revision, notes = read.1.len(), "graph data was read");
        self.revision = Some(revision);
        Ok(Some(read))
    }

    /// The commit, the image's digest, or a digest of all files, of the last good answer.
    pub fn revision(&self) -> Option<&str> {
        self.revision.as_deref()
    }
}

fn revision_of(tree: &Tree) -> String {
    blake3::Hash::from_bytes(tree.fingerprint()).to_hex().to_string()
}

/// Files are read and taken apart beside the threads that answer clients.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, DataError> + Send + 'static,
) -> Result<T, DataError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(DataError::Stopped))
}
