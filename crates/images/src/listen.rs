//! Accepting connections: one port for control and for chunks, told apart by what the handshake names.
//!
//! Everything is limited: handshakes at once, their time, and connections of each kind, so that many who want chunks
//! can't keep a controller out. What is served on a connection is not decided here.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::identity::{ALPN_CHUNKS, Role, role_of};
use crate::transfer::frame::LARGEST_DATA;

const HANDSHAKE: Duration = Duration::from_secs(10);
/// Handshakes at once; more wait in the kernel's queue.
const HANDSHAKES: usize = 64;
/// After a connection could not be accepted, such as for want of file descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);
/// Connections of controllers: each keeps one, and one more while it reconnects.
const CONTROLLERS: usize = 16;
/// About half a frame of data: left to itself, rustls hands 64 KiB at a time to the kernel, and wakes the other side for each.
const SENT_AT_ONCE: usize = LARGEST_DATA / 2 + (64 << 10);
/// Bytes that wait in the kernel for a slow link, at most. Left to itself, it takes megabytes: then what is sent next was chosen
/// long before, when others did not have it yet, and the news that would have said so wait behind it.
const UNSENT: u32 = 128 << 10;
/// What a TLS connection begins with, and no other protocol that is spoken here.
const TLS_HANDSHAKE: u8 = 0x16;

/// Somebody who was let in. The place is free again when it is dropped.
#[derive(Debug)]
pub struct Visitor {
    pub stream: TlsStream<TcpStream>,
    pub role: Role,
    pub from: SocketAddr,
    pub wants_chunks: bool,
    pub place: OwnedSemaphorePermit,
}

#[derive(Debug)]
struct Places {
    controllers: Arc<Semaphore>,
    calls: Arc<Semaphore>,
    chunks: Arc<Semaphore>,
}

/// Accepts until it is cancelled; `welcome` is called in a task of each connection.
pub async fn accept<F>(
    listener: TcpListener,
    tls: watch::Receiver<Arc<ServerConfig>>,
    connections: usize,
    cancelled: CancellationToken,
    welcome: impl Fn(Visitor) -> F + Clone + Send + Sync + 'static,
) where
    F: Future<Output = ()> + Send,
{
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES));
    let places = Arc::new(Places {
        controllers: Arc::new(Semaphore::new(CONTROLLERS)),
        calls: Arc::new(Semaphore::new(connections.max(1))),
        chunks: Arc::new(Semaphore::new(connections.max(1))),
    });
    loop {
        // Never closed, so this always comes.
        let Ok(permit) = Arc::clone(&handshakes).acquire_owned().await else { return };
        let accepted = tokio::select! {
            () = cancelled.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(cause = %error, "a connection can't be accepted");
                tokio::time::sleep(ACCEPT_AGAIN).await;
                continue;
            }
        };
        let (acceptor, places) = (TlsAcceptor::from(Arc::clone(&tls.borrow())), Arc::clone(&places));
        let (welcome, cancelled) = (welcome.clone(), cancelled.clone());
        tokio::spawn(async move {
            let visitor = tokio::select! {
                () = cancelled.cancelled() => return,
                visitor = handshake(stream, from, acceptor, &places) => visitor,
            };
            drop(permit);
            if let Some(visitor) = visitor {
                welcome(visitor).await;
            }
        });
    }
}

async fn handshake(
    stream: TcpStream,
    from: SocketAddr,
    acceptor: TlsAcceptor,
    places: &Places,
) -> Option<Visitor> {
    // Requests are small and waited for.
    let _ = stream.set_nodelay(true);
    let mut stream = match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::info!(%from, cause = %error, "a connection was refused");
            return None;
        }
        Err(_) => {
            tracing::info!(%from, "a connection was refused: its handshake took too long");
            return None;
        }
    };
    let session = stream.get_mut().1;
    let role = role_of(session.peer_certificates())?;
    let wants_chunks = session.alpn_protocol() == Some(ALPN_CHUNKS);
    let kind = match (&role, wants_chunks) {
        (_, true) => &places.chunks,
        (Role::Controller, false) => &places.controllers,
        (Role::Manager(_), false) => &places.calls,
    };
    if wants_chunks {
        session.set_buffer_limit(Some(SENT_AT_ONCE));
        // A kernel that can't: news are later, and that is all.
        let _ = SockRef::from(stream.get_ref().0).set_tcp_notsent_lowat(UNSENT);
    }
    let Ok(place) = Arc::clone(kind).try_acquire_owned() else {
        // Closing is answer enough: whoever wants chunks has others to ask.
        tracing::info!(%from, %role, "a connection was refused: there are too many");
        return None;
    };
    Some(Visitor { stream, role, from, wants_chunks, place })
}

/// Whether a connection begins as TLS does. For ports that speak plain HTTP as well.
pub async fn begins_as_tls(stream: &TcpStream) -> std::io::Result<bool> {
    let mut first = [0];
    let read = tokio::time::timeout(HANDSHAKE, stream.peek(&mut first)).await;
    let read = read.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))?;
    Ok(read == 1 && first[0] == TLS_HANDSHAKE)
}
