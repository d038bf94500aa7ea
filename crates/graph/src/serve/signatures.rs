//! Signatures of releases, beside the graph: files of one directory, by digest and number.

use std::path::{Path, PathBuf};

use hyper::StatusCode;
use tokio::io::AsyncReadExt;

use super::reply::{self, Reply};

/// No signature is larger.
const BYTES: u64 = 1 << 20;

/// `sha256=<64 hex digits>/signature-<number>`, and nothing else: no other name ever reaches the file system.
fn place(rest: &str) -> Option<PathBuf> {
    let (digest, signature) = rest.split_once('/')?;
    let hex = digest.strip_prefix("sha256=")?;
    let number = signature.strip_prefix("signature-")?;
    let lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let fits = hex.len() == 64
        && hex.bytes().all(lower_hex)
        && (1..=4).contains(&number.len())
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && !number.starts_with('0');
    fits.then(|| Path::new(digest).join(signature))
}

pub async fn serve(dir: Option<&Path>, path: &str, rest: &str) -> Reply {
    let (Some(dir), Some(place)) = (dir, place(rest)) else { return reply::not_found(path) };
    match read(&dir.join(place)).await {
        Ok(Some(body)) => {
            let mut reply = reply::with_type(StatusCode::OK, "application/octet-stream", body);
            let forever = hyper::header::HeaderValue::from_static("max-age=86400");
            reply.headers_mut().insert(hyper::header::CACHE_CONTROL, forever);
            reply
        }
        Ok(None) => reply::not_found(path),
        Err(error) => {
            tracing::warn!(path, cause = %error, "a signature can't be read");
            reply::failure(StatusCode::INTERNAL_SERVER_ERROR, "io", "the signature can't be read")
        }
    }
}

async fn read(file: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let file = match tokio::fs::File::open(file).await {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !file.metadata().await?.is_file() {
        return Ok(None);
    }
    let mut body = Vec::new();
    file.take(BYTES + 1).read_to_end(&mut body).await?;
    if body.len() as u64 > BYTES {
        return Err(std::io::Error::other(format!("larger than {BYTES} bytes")));
    }
    Ok(Some(body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digests_and_numbers_are_looked_for() {
        let digest = format!("sha256={}", "0a".repeat(32));
        let fits = |rest: &str| place(rest).is_some();
        assert!(fits(&format!("{digest}/signature-1")) && fits(&format!("{digest}/signature-12")));
        for rest in [
            "".to_owned(),
            digest.clone(),
            format!("{digest}/"),
            format!("{digest}/signature-"),
            format!("{digest}/signature-0"),
            format!("{digest}/signature-01"),
            format!("{digest}/signature-12345"),
            format!("{digest}/signature-1/.."),
            format!("{digest}/../signature-1"),
            format!("{digest}/signature-1%2f"),
            format!("sha256={}/signature-1", "0A".repeat(32)),
            format!("sha256={}/signature-1", "0a".repeat(31)),
            "sha256=../../etc/passwd".to_owned(),
            "../signature-1".to_owned(),
        ] {
            assert!(!fits(&rest), "{rest}");
        }
    }
}
