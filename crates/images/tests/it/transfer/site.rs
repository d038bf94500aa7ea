//! Managers in one process, with streams between them that can be made to misbehave.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use images::file::ImageFile;
use images::settings::ManagerSettings;
use images::transfer::{
    Dial, DialError, Dialled, Limits, Peer, Receive, ReceiveError, Sends, adopt, receive,
};
use logic::images::{DiskId, ImageId, ImageName};
use logic::period::Period;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::Place;

/// What is wrong with the streams from one manager to others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// Each breaks after so many bytes.
    Breaks(u64),
    /// After so many bytes nothing comes any more.
    Freezes(u64),
    /// One bit is flipped there, in each.
    Flips(u64),
    /// Nobody answers.
    Absent,
    /// What comes makes no sense.
    Garbage,
}

pub struct Manager {
    pub place: Place,
    pub file: Arc<ImageFile>,
    pub sends: Arc<Sends>,
    pub limits: Limits,
    pub trouble: Mutex<Option<Trouble>>,
    /// Bytes that were sent from here.
    pub sent: Arc<AtomicU64>,
    /// Connections that were made to here.
    pub dialled: AtomicUsize,
}

pub struct Site {
    pub managers: Vec<Arc<Manager>>,
}

pub fn settings() -> ManagerSettings {
    ManagerSettings { peer_timeout: Period::seconds(1), ..ManagerSettings::default() }
}

impl Site {
    pub fn of(count: usize) -> Arc<Self> {
        let manager = |_| {
            let place = Place::new();
            let (file, limits) = (place.open(), Limits::new(&settings()));
            let sends = Sends::new(limits.clone());
            let (trouble, sent, dialled) = (Mutex::new(None), Arc::default(), AtomicUsize::new(0));
            Arc::new(Manager { place, file, sends, limits, trouble, sent, dialled })
        };
        Arc::new(Self { managers: (0..count).map(manager).collect() })
    }

    pub fn peers(&self) -> Vec<Peer> {
        let peer = |(at, manager): (usize, &Arc<Manager>)| Peer {
            disk: manager.place.disk.id().clone(),
            address: format!("manager-{at}"),
        };
        self.managers.iter().enumerate().map(peer).collect()
    }

    pub fn is_in_trouble(&self, at: usize, trouble: Trouble) {
        *self.managers[at].trouble.lock().unwrap() = Some(trouble);
    }

    pub fn dialler(self: &Arc<Self>, at: usize) -> Arc<dyn Dial> {
        Arc::new(Dialler { site: Arc::clone(self), from: self.managers[at].place.disk.id().clone() })
    }

    /// Manager `at` receives from these.
    pub fn receives(self: &Arc<Self>, at: usize, from: Vec<Peer>) -> Receiving {
        self.receives_as(at, from, true)
    }

    pub fn receives_as(self: &Arc<Self>, at: usize, from: Vec<Peer>, follow: bool) -> Receiving {
        let manager = Arc::clone(&self.managers[at]);
        let (peers, told) = watch::channel(from);
        let (sources, _) = watch::channel(Vec::new());
        let what = Receive { peers: told, dial: self.dialler(at), follow, sources, elsewhere: None };
        let cancelled = CancellationToken::new();
        let cancel = cancelled.clone();
        let task =
            tokio::spawn(async move { receive(&manager.file, what, &manager.limits, cancelled).await });
        Receiving { peers, cancel, task }
    }

    pub async fn adopts(self: &Arc<Self>, at: usize) {
        let manager = &self.managers[at];
        adopt(&manager.file, &self.peers(), &self.dialler(at), &manager.limits).await.unwrap();
    }
}

pub struct Receiving {
    pub peers: watch::Sender<Vec<Peer>>,
    pub cancel: CancellationToken,
    pub task: JoinHandle<Result<(), ReceiveError>>,
}

impl Receiving {
    pub async fn ends(self) -> Result<(), ReceiveError> {
        self.task.await.unwrap()
    }
}

struct Dialler {
    site: Arc<Site>,
    from: DiskId,
}

impl Dial for Dialler {
    fn dial<'a>(
        &'a self,
        peer: &'a Peer,
        _: &'a ImageName,
        _: &'a ImageId,
    ) -> Pin<Box<dyn Future<Output = Result<Dialled, DialError>> + Send + 'a>> {
        Box::pin(async move {
            let known: HashMap<_, _> = self.site.managers.iter().map(|m| (m.place.disk.id(), m)).collect();
            let manager = known[&peer.disk];
            manager.dialled.fetch_add(1, Ordering::Relaxed);
            let trouble = *manager.trouble.lock().unwrap();
            if trouble == Some(Trouble::Absent) {
                return Err(DialError { refused: false, why: "nobody is there".into() });
            }
            let ticket = manager
                .sends
                .ticket(&manager.file, &self.from)
                .map_err(|refused| DialError { refused: true, why: refused.to_string() })?;
            let (ours, theirs) = tokio::io::duplex(256 << 10);
            let (sends, receiver) = (Arc::clone(&manager.sends), self.from.clone());
            tokio::spawn(async move { sends.serve(theirs, &receiver).await });
            let stream = Wire { inner: ours, trouble, read: 0, sent: Arc::clone(&manager.sent) };
            Ok(Dialled { ticket, stream: Box::new(stream) })
        })
    }
}

/// The receiver's end of a stream, with its trouble.
struct Wire {
    inner: DuplexStream,
    trouble: Option<Trouble>,
    read: u64,
    sent: Arc<AtomicU64>,
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.trouble {
            Some(Trouble::Breaks(after)) if self.read >= after => return Poll::Ready(Ok(())),
            Some(Trouble::Freezes(after)) if self.read >= after => return Poll::Pending,
            _ => {}
        }
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        let (start, new) = (self.read, buf.filled().len() - before);
        self.read += new as u64;
        self.sent.fetch_add(new as u64, Ordering::Relaxed);
        let bytes = &mut buf.filled_mut()[before..];
        match self.trouble {
            Some(Trouble::Flips(at)) if (start..self.read).contains(&at) => {
                bytes[usize::try_from(at - start).unwrap()] ^= 4;
            }
            Some(Trouble::Garbage) => bytes.fill(0xa5),
            _ => {}
        }
        polled
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
