//! An image from the bytes that a controller passes on: the header first, then data.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;
use tokio::sync::mpsc;
use tonic::Streaming;
use wire::images::upload_request::Part;
use wire::images::{ImageRef, UploadHeader, UploadRequest};

use super::entry::{Doing, Entry};
use super::error::{Failed, Refusal, in_words};
use super::registry::Registry;
use super::work::{Work, digest};
use crate::origin::{Body, OriginError};
use crate::pull::take_in;

/// Messages on their way at once.
const AHEAD: usize = 4;
/// For people.
const FROM: &str = "the upload";

/// Takes the image in, and returns when that ended: well, or with the entry failed.
pub async fn upload(
    work: &Arc<Work>,
    registry: &Arc<Registry>,
    mut parts: Streaming<UploadRequest>,
) -> Result<Arc<Entry>, Refusal> {
    let broken = |status: tonic::Status| Refusal::Data(format!("the upload broke off: {}", status.message()));
    let Some(UploadRequest { part: Some(Part::Header(header)) }) = parts.message().await.map_err(broken)?
    else {
        return Err(Refusal::Argument("the header of an image must come first".to_owned()));
    };
    let (name, id) = ImageRef::required(header.image.as_ref())?;
    let (sender, receiver) = mpsc::channel(AHEAD);
    let sized = header.size.is_some();
    let taking = take(Arc::clone(work), header, receiver)?;
    let entry = registry.begin(Doing::Uploading, &name, &id, taking).await?;
    pass_on(&mut parts, sized, sender).await;
    entry.until_idle().await;
    Ok(entry)
}

/// What goes to whoever takes the image in; none is its end. Nothing else is: whoever passes it on may be gone.
type Passed = Result<Option<Bytes>, OriginError>;

fn broke_off(why: &str) -> OriginError {
    OriginError::Nonsense { address: FROM.to_owned(), why: format!("it broke off{why}") }
}

async fn pass_on(parts: &mut Streaming<UploadRequest>, sized: bool, sender: mpsc::Sender<Passed>) {
    loop {
        let part = match parts.message().await {
            Ok(Some(UploadRequest { part: Some(Part::Data(data)) })) => {
                Ok(Some(data).filter(|data| !data.is_empty()))
            }
            Ok(Some(_)) => Err(OriginError::Nonsense {
                address: FROM.to_owned(),
                why: "something else than data came".to_owned(),
            }),
            // A call that was given up ends like this, too. Where the size is known, it tells whether that was all.
            Ok(None) if sized => Ok(None),
            Ok(None) => Err(broke_off("")),
            Err(status) => Err(broke_off(&format!(": {}", status.message()))),
        };
        let last = !matches!(part, Ok(Some(_)));
        // Whoever takes it in has ended: it knows why.
        if sender.send(part).await.is_err() || last {
            return;
        }
    }
}

/// The bytes up to the end. A channel that ends without one is an upload that broke off.
fn until_end(receiver: mpsc::Receiver<Passed>) -> impl Stream<Item = Result<Bytes, OriginError>> + Send {
    futures_util::stream::unfold(Some(receiver), |receiver| async move {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Some(Ok(Some(data))) => Some((Ok(data), Some(receiver))),
            Some(Ok(None)) => None,
            Some(Err(error)) => Some((Err(error), None)),
            None => Some((Err(broke_off("")), None)),
        }
    })
}

type Taking = std::pin::Pin<Box<dyn Future<Output = Result<(), Failed>> + Send>>;

fn take(
    work: Arc<Work>,
    header: UploadHeader,
    receiver: mpsc::Receiver<Passed>,
) -> Result<impl FnOnce(Arc<Entry>, tokio_util::sync::CancellationToken) -> Taking, Refusal> {
    let checksum = digest(header.checksum()?)?;
    let (format, total) = (header.format()?, header.size);
    Ok(move |entry: Arc<Entry>, cancel| -> Taking {
        Box::pin(async move {
            entry.file.expect_format(format);
            entry.come_from(vec![FROM.to_owned()]);
            let body = Body::stream(until_end(receiver), FROM.to_owned(), work.stall());
            let options = work.pull_options(checksum, tokio::sync::watch::channel(Default::default()).1);
            take_in(&entry.file, body, total, &options, &cancel)
                .await
                .map_err(|error| in_words(&error, error.hint()).into())
        })
    })
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;

    use super::*;

    /// What the one that takes it in gets, of what was passed on before the sender was gone.
    async fn got(passed: Vec<Passed>) -> (usize, bool) {
        let (sender, receiver) = mpsc::channel(AHEAD);
        for part in passed {
            sender.send(part).await.expect("somebody receives");
        }
        drop(sender);
        let parts: Vec<_> = until_end(receiver).collect().await;
        (parts.iter().filter(|part| part.is_ok()).count(), parts.iter().any(Result::is_err))
    }

    #[tokio::test(flavor = "current_thread")]
    async fn only_an_end_that_was_said_is_the_end_of_an_image() {
        let data = || Ok(Some(Bytes::from_static(b"data")));
        assert_eq!(got(vec![data(), data(), Ok(None)]).await, (2, false));
        assert_eq!(got(vec![data(), data()]).await, (2, true), "whoever passed it on is gone");
        assert_eq!(got(vec![]).await, (0, true));
        assert_eq!(got(vec![data(), Err(broke_off(""))]).await, (1, true));
    }
}
