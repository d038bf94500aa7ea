//! Bytes of images between the site and files of this machine.

use std::io::Write;
use std::path::Path;

use logic::images::{BackingImage, ImageName};
use sha2::{Digest, Sha256};
use tokio::io::AsyncReadExt;

use super::connect::Client;
use super::error::Error;

/// Read and sent at a time.
const PART: usize = 1 << 20;

/// How many bytes went by: called often.
pub type Advance = Box<dyn Fn(u64) + Send + Sync>;

#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error(transparent)]
    Site(#[from] Error),
    #[error("can't read {0}")]
    Read(String, #[source] std::io::Error),
    #[error("can't write")]
    Write(#[source] std::io::Error),
    #[error("what came is {got}, and the image is {expected}")]
    Other { expected: String, got: String },
}

impl CopyError {
    /// The way out.
    pub fn hint(&self) -> String {
        match self {
            Self::Site(error) => error.hint(),
            Self::Read(..) => "give the path of a file that can be read".to_owned(),
            Self::Write(_) => "see whether the disk is full".to_owned(),
            Self::Other { .. } => "try again; nothing of what came may be used".to_owned(),
        }
    }

    pub fn exit(&self) -> logic::exit::Exit {
        use logic::exit::Exit;
        match self {
            Self::Site(error) => error.exit(),
            Self::Read(..) => Exit::NotFound,
            Self::Write(_) => Exit::Unexpected,
            Self::Other { .. } => Exit::TryAgain,
        }
    }
}

impl Client {
    /// Sends a file as the content of an image that waits for it.
    pub async fn upload_file(
        &self,
        name: &ImageName,
        path: &Path,
        advance: Advance,
    ) -> Result<BackingImage, CopyError> {
        let (size, body) = file(path, advance).await?;
        Ok(self.upload(name, size, body).await?)
    }

    /// Writes the content of an image, and fails if it is not what its seal says.
    pub async fn export(
        &self,
        image: &BackingImage,
        name: &ImageName,
        into: &mut (dyn Write + Send),
        advance: Advance,
    ) -> Result<u64, CopyError> {
        let mut content = self.content(name).await?;
        let (mut hasher, mut written) = (Sha256::new(), 0);
        while let Some(part) = content.next().await? {
            hasher.update(&part);
            into.write_all(&part).map_err(CopyError::Write)?;
            written += part.len() as u64;
            advance(part.len() as u64);
        }
        into.flush().map_err(CopyError::Write)?;
        let digits: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        let got = format!("sha256:{digits}");
        match &image.status.seal {
            Some(seal) if seal.sha256 != got => Err(CopyError::Other { expected: seal.sha256.clone(), got }),
            _ => Ok(written),
        }
    }
}

/// A file as the body of a request, and its length.
pub(super) async fn file(path: &Path, advance: Advance) -> Result<(u64, reqwest::Body), CopyError> {
    let failed = |error| CopyError::Read(path.display().to_string(), error);
    let file = tokio::fs::File::open(path).await.map_err(failed)?;
    let metadata = file.metadata().await.map_err(failed)?;
    if !metadata.is_file() {
        return Err(failed(std::io::Error::from(std::io::ErrorKind::InvalidInput)));
    }
    let parts = futures_util::stream::unfold((file, advance), |(mut file, advance)| async move {
        let mut part = vec![0; PART];
        match file.read(&mut part).await {
            Ok(0) => None,
            Ok(read) => {
                part.truncate(read);
                advance(read as u64);
                Some((Ok(part), (file, advance)))
            }
            Err(error) => Some((Err(error), (file, advance))),
        }
    });
    Ok((metadata.len(), reqwest::Body::wrap_stream(parts)))
}
