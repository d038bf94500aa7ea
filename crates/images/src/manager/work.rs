//! Fetching and sending: this disk first, then disks of this node, then peers, then the origin.

use std::sync::Arc;
use std::time::Duration;

use logic::images::{DiskId, Format, Held, ImageId, ImageName, NodeName, Seal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use trust::digest::Digest;

use super::entry::Entry;
use super::error::{Failed, Refusal, in_words};
use super::peers::{self, Caller};
use super::registry::blocking;
use crate::dial::Dialler;
use crate::file::{DiskDir, FileError, ImageFile};
use crate::listen::Visitor;
use crate::origin::Origin;
use crate::pull::{self, PullError, pull};
use crate::settings::{ManagerSettings, OriginSettings};
use crate::throttle::Throttle;
use crate::transfer::{self, Bandwidth, Dial, Limits, Peer, Receive, ReceiveError, Refused, Sends};

/// For what is being written when a fetch is stopped.
const GRACE: Duration = Duration::from_secs(5);
/// Between two looks for chunks that are on this node already, while a list grows.
const LOOK: Duration = Duration::from_millis(250);

pub struct Work {
    dial: Arc<dyn Dial>,
    node: NodeName,
    origin: OriginSettings,
    limits: Limits,
    sends: Arc<Sends>,
    incoming: Arc<Throttle>,
}

/// What is to be fetched.
#[derive(Debug)]
pub struct Order {
    pub format: Option<Format>,
    pub seal: Option<Seal>,
    pub checksum: Option<Digest>,
    /// None: from peers only.
    pub origin: Option<Origin>,
}

/// Why fetching ended before the image was here.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("cancelled")]
    Cancelled,
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Pull(PullError),
    #[error(transparent)]
    Receive(ReceiveError),
    #[error("the site's other copies are not what was asked for: {given} was given, they are {got}")]
    Checksum { given: Digest, got: String },
    #[error("an internal task ended")]
    Task,
}

impl From<PullError> for FetchError {
    fn from(error: PullError) -> Self {
        match error {
            PullError::Cancelled | PullError::File(FileError::Cancelled) => Self::Cancelled,
            error => Self::Pull(error),
        }
    }
}

impl From<ReceiveError> for FetchError {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::Cancelled | ReceiveError::File(FileError::Cancelled) => Self::Cancelled,
            error => Self::Receive(error),
        }
    }
}

impl FetchError {
    /// Whether it would end the same again: what comes is not what was asked for.
    fn is_lasting(&self) -> bool {
        match self {
            Self::Checksum { .. } => true,
            Self::Pull(error) => error.is_lasting(),
            _ => false,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::File(error) => error.hint(),
            Self::Pull(error) => error.hint(),
            Self::Receive(error) => error.hint(),
            Self::Checksum { .. } => {
                Some("remove the image, and create it again with the right checksum".into())
            }
            Self::Cancelled | Self::Task => None,
        }
    }
}

/// A checksum that was checked for its looks already.
pub fn digest(text: Option<String>) -> Result<Option<Digest>, Refusal> {
    let parse = |text: String| Digest::parse(&text).map_err(|error| Refusal::Argument(error.to_string()));
    text.map(parse).transpose()
}

impl Work {
    pub fn new(
        disk: &DiskDir,
        dialler: Dialler,
        node: NodeName,
        settings: &ManagerSettings,
        origin: OriginSettings,
    ) -> Arc<Self> {
        let limits = Limits::new(settings);
        let dial = Arc::new(Caller { dialler, disk: disk.id().clone() });
        // What comes from origins, uploads and peers is one bandwidth.
        let incoming = Arc::new(Throttle::of(Arc::clone(&limits.incoming)));
        let sends = Sends::new(limits.clone());
        Arc::new(Self { dial, node, origin, limits, sends, incoming })
    }

    /// Where an image may come from; refused before anything begins.
    pub fn origin(&self, url: &str, name: &ImageName) -> Result<Origin, Refusal> {
        Origin::parse(url, name, &self.origin)
            .map_err(|error| Refusal::Argument(in_words(&error, error.hint())))
    }

    /// What everything that is sent passes through.
    pub fn outgoing(&self) -> Arc<Bandwidth> {
        Arc::clone(&self.limits.outgoing)
    }

    pub fn stall(&self) -> Duration {
        self.origin.stall_timeout.get()
    }

    pub fn pull_options(&self, checksum: Option<Digest>, elsewhere: watch::Receiver<Held>) -> pull::Options {
        let (throttle, settings) = (Arc::clone(&self.incoming), self.origin.clone());
        pull::Options { checksum, elsewhere, throttle, settings }
    }

    /// Sends of an image under way.
    pub fn sending(&self, id: &ImageId) -> u32 {
        self.sends.sending(id)
    }

    pub fn ticket(&self, entry: &Entry, receiver: &DiskId) -> Result<bytes::Bytes, Refusal> {
        match self.sends.ticket(&entry.file, receiver) {
            Ok(ticket) => Ok(ticket.to_vec().into()),
            Err(Refused::Busy) => Err(Refusal::Receivers(entry.name.clone())),
            Err(Refused::Paused) => Err(Refusal::Offered(entry.name.clone())),
        }
    }

    /// On offer to another manager, or not any more.
    pub fn pause(&self, id: &ImageId, paused: bool) {
        self.sends.pause(id, paused);
    }

    pub fn stop_sending(&self, id: &ImageId) {
        self.sends.stop(id);
    }

    pub fn stop(&self) {
        self.sends.stop_all();
    }

    /// Sends chunks on a connection until it ends.
    pub async fn serve(&self, visitor: Visitor, receiver: &DiskId) {
        let Visitor { stream, from, place, .. } = visitor;
        if let Err(error) = self.sends.serve(stream, receiver).await {
            tracing::debug!(%from, receiver = %receiver, cause = %in_words(&error, None), "a link ended");
        }
        drop(place);
    }
}

/// Until the image is here. Why it is not, in words for people; being stopped is no failure.
pub async fn fetch(
    work: Arc<Work>,
    entry: Arc<Entry>,
    order: Order,
    cancel: CancellationToken,
) -> Result<(), Failed> {
    match until_here(&work, &entry, order, &cancel).await {
        Ok(()) | Err(FetchError::Cancelled) => Ok(()),
        Err(error) => Err(Failed { why: in_words(&error, error.hint()), lasting: error.is_lasting() }),
    }
}

async fn on_file<T: Send + 'static>(
    entry: &Entry,
    work: impl FnOnce(&ImageFile) -> Result<T, FileError> + Send + 'static,
) -> Result<T, FetchError> {
    let file = Arc::clone(&entry.file);
    match blocking(move || work(&file)).await {
        Ok(Err(FileError::Cancelled)) => Err(FetchError::Cancelled),
        Ok(done) => Ok(done?),
        Err(_) => Err(FetchError::Task),
    }
}

async fn until_here(
    work: &Arc<Work>,
    entry: &Arc<Entry>,
    order: Order,
    cancel: &CancellationToken,
) -> Result<(), FetchError> {
    let Order { format, seal, checksum, origin } = order;
    entry.file.expect_format(format);
    let stopped = cancel.clone();
    // What was touched is read first: most of it is good.
    on_file(entry, move |file| file.verify(&mut |_| !stopped.is_cancelled())).await?;
    if let Some(seal) = seal {
        on_file(entry, move |file| expect(file, &seal)).await?;
    }
    let told = Arc::new(watch::Sender::new(peers::known(&entry.peers.borrow())));
    let here = async {
        // Who has what is asked first: what is on this node already need not come over the network.
        let known = told.borrow().clone();
        tokio::select! {
            adopted = transfer::adopt(&entry.file, &known, &work.dial, &work.limits) => adopted?,
            () = cancel.cancelled() => return Err(FetchError::Cancelled),
        }
        take_from_this_node(work, entry).await?;
        match origin {
            Some(origin) => from_origin(work, entry, &origin, checksum, &told, cancel).await,
            None => {
                from_peers(work, entry, &told, cancel).await?;
                let given = as_given(entry, checksum);
                if given.is_err() {
                    on_file(entry, ImageFile::discard).await?;
                }
                given
            }
        }
    };
    tokio::select! {
        here = here => here,
        () = peers::follow(entry.peers.subscribe(), Arc::clone(&told)) => Err(FetchError::Task),
        taken = keep_taking(work, entry) => taken,
        // Whoever writes comes to its end by itself, or is cut off: what was not recorded does not count.
        () = async { cancel.cancelled().await; tokio::time::sleep(GRACE).await } => Err(FetchError::Cancelled),
    }
}

async fn from_origin(
    work: &Arc<Work>,
    entry: &Arc<Entry>,
    origin: &Origin,
    checksum: Option<Digest>,
    told: &watch::Sender<Vec<Peer>>,
    cancel: &CancellationToken,
) -> Result<(), FetchError> {
    let (elsewhere, others_have) = watch::channel(Held::default());
    let sources = watch::Sender::new(vec![]);
    let beside = cancel.child_token();
    let receive = Receive {
        peers: told.subscribe(),
        dial: Arc::clone(&work.dial),
        follow: false,
        sources: sources.clone(),
        elsewhere: Some(elsewhere),
    };
    let receiving = async {
        match transfer::receive(&entry.file, receive, &work.limits, beside.clone()).await {
            // It is the pull that comes to an end.
            Ok(()) | Err(ReceiveError::Cancelled) => std::future::pending().await,
            Err(error) => error,
        }
    };
    let options = work.pull_options(checksum, others_have);
    let pulled = tokio::select! {
        pulled = pull(&entry.file, origin, &options, cancel) => pulled.map_err(FetchError::from),
        error = receiving => Err(error.into()),
        () = show_sources(entry, sources.subscribe(), Some(origin.shown())) => Err(FetchError::Task),
    };
    beside.cancel();
    pulled
}

async fn from_peers(
    work: &Arc<Work>,
    entry: &Arc<Entry>,
    told: &watch::Sender<Vec<Peer>>,
    cancel: &CancellationToken,
) -> Result<(), FetchError> {
    let sources = watch::Sender::new(vec![]);
    let receive = Receive {
        peers: told.subscribe(),
        dial: Arc::clone(&work.dial),
        follow: true,
        sources: sources.clone(),
        elsewhere: None,
    };
    tokio::select! {
        received = transfer::receive(&entry.file, receive, &work.limits, cancel.clone()) => Ok(received?),
        () = show_sources(entry, sources.subscribe(), None) => Err(FetchError::Task),
    }
}

/// For people: where bytes come from now.
async fn show_sources(entry: &Entry, mut peers: watch::Receiver<Vec<String>>, origin: Option<String>) {
    loop {
        let now: Vec<String> = origin.iter().cloned().chain(peers.borrow_and_update().clone()).collect();
        entry.come_from(now);
        if peers.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// What other images of this disk hold, and what this image has on other disks of this node.
async fn take_from_this_node(work: &Work, entry: &Entry) -> Result<(), FetchError> {
    let peers = entry.peers.borrow().clone();
    let siblings = peers::siblings(&peers, &work.node, &entry.name, &entry.id);
    let reused = on_file(entry, move |file| {
        let mut reused = file.fill_from_this_disk()?;
        for dir in siblings {
            // A disk that can't be read is no reason to fail: its bytes come over the network.
            match file.copy_from(&dir) {
                Ok(more) => reused += more,
                Err(error) if error.is_out_of_space() => return Err(error),
                Err(error) => tracing::debug!(dir = %dir.display(), cause = %error, "not taken from there"),
            }
        }
        Ok(reused)
    })
    .await?;
    if reused.bytes > 0 {
        tracing::info!(image = %entry.name, bytes = reused.bytes, shared = reused.shared, "taken from this node");
    }
    Ok(())
}

/// As the list grows, and as siblings do. Ends with an error only.
async fn keep_taking(work: &Work, entry: &Entry) -> Result<(), FetchError> {
    let mut filled = entry.file.filled();
    let mut listed = 0;
    loop {
        let now = filled.borrow_and_update().listed;
        if now != listed {
            listed = now;
            take_from_this_node(work, entry).await?;
        }
        tokio::time::sleep(LOOK).await;
        if filled.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

/// What the site knows the image to be. What is here and can't be part of that goes.
fn expect(file: &ImageFile, seal: &Seal) -> Result<(), FileError> {
    match file.set_seal(seal.clone()) {
        Err(error) if error.is_contradiction() => {
            tracing::warn!(image = %file.name(), cause = %error, "what was here is of another image: it is fetched again");
            file.discard()?;
            file.set_seal(seal.clone())
        }
        done => done,
    }
}

/// Whether what came from peers is what was asked for. They vouch for each other by the seal; the given checksum is held
/// against that.
fn as_given(entry: &Entry, checksum: Option<Digest>) -> Result<(), FetchError> {
    let (Some(given), Some(seal)) = (checksum, entry.file.seal()) else { return Ok(()) };
    let said = if given.parts().0 == "sha512" { seal.sha512 } else { Some(seal.sha256) };
    match said {
        Some(got) if got != given.as_str() => Err(FetchError::Checksum { given, got }),
        _ => Ok(()),
    }
}
