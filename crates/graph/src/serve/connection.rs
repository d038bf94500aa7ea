//! One connection, from its handshake to its end. What ends it: the client, the service's stop, or that nothing was
//! answered on it for too long, which covers clients that send slowly, that read slowly, and that are gone.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::routes::{self, Door};
use super::site::Site;
use super::tls;

/// hyper refuses to work with less.
const SMALLEST_BUFFER: usize = 8 << 10;
/// Requests at once on one HTTP/2 connection.
const STREAMS: u32 = 100;
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How far the service is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Serving,
    /// What was asked is answered, and nothing more.
    Draining,
    Closed,
}

pub async fn serve(site: Arc<Site>, door: Door, stream: TcpStream, phase: watch::Receiver<Phase>) {
    // Answers are written whole; waiting for more to send would only add to their time.
    let _ = stream.set_nodelay(true);
    let live = site.live.load_full();
    let idle = live.settings.limits.idle.get().max(Duration::from_millis(10));
    let buffer = live.settings.limits.request_bytes.max(SMALLEST_BUFFER);
    let acceptor = live.tls.clone().filter(|_| door != Door::Admin);
    drop(live);
    let Some(acceptor) = acceptor else {
        return http1(site, door, stream, phase, idle, buffer).await;
    };
    let stream = match tokio::time::timeout(HANDSHAKE.min(idle), acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            site.metrics.handshake_failures.add();
            tracing::debug!(cause = %error, "handshake failed");
            return;
        }
        Err(_) => return site.metrics.handshake_failures.add(),
    };
    if stream.get_ref().1.alpn_protocol() == Some(tls::HTTP2) {
        http2(site, door, stream, phase, idle, buffer).await;
    } else {
        http1(site, door, stream, phase, idle, buffer).await;
    }
}

async fn http1<S: AsyncRead + AsyncWrite + Unpin + 'static>(
    site: Arc<Site>,
    door: Door,
    stream: S,
    phase: watch::Receiver<Phase>,
    idle: Duration,
    buffer: usize,
) {
    let progress = Progress::default();
    let io = TokioIo::new(Watched { stream, progress: progress.clone() });
    let answering = Arc::clone(&site);
    let service = service_fn(move |request| routes::answer(&answering, door, request));
    // No timers of hyper's: it would set one per request, where one per connection does.
    let connection =
        http1::Builder::new().max_buf_size(buffer).header_read_timeout(None).serve_connection(io, service);
    drive(site, connection, progress, phase, idle).await;
}

async fn http2<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    site: Arc<Site>,
    door: Door,
    stream: S,
    phase: watch::Receiver<Phase>,
    idle: Duration,
    buffer: usize,
) {
    let progress = Progress::default();
    let io = TokioIo::new(Watched { stream, progress: progress.clone() });
    let answering = Arc::clone(&site);
    let service = service_fn(move |request| routes::answer(&answering, door, request));
    let connection = http2::Builder::new(TokioExecutor::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(buffer).unwrap_or(u32::MAX))
        .serve_connection(io, service);
    drive(site, connection, progress, phase, idle).await;
}

async fn drive<C: GracefulConnection>(
    site: Arc<Site>,
    connection: C,
    progress: Progress,
    phase: watch::Receiver<Phase>,
    idle: Duration,
) {
    let mut connection = pin!(connection);
    // A set of futures looks only at those that woke it, and the connection wakes for every request.
    let mut ends: FuturesUnordered<Pin<Box<dyn Future<Output = End> + Send>>> = FuturesUnordered::new();
    ends.push(Box::pin(reached(phase.clone(), Phase::Draining)));
    ends.push(Box::pin(reached(phase, Phase::Closed)));
    ends.push(Box::pin(idles(progress, idle)));
    loop {
        tokio::select! {
            biased;
            _ = connection.as_mut() => return,
            Some(end) = ends.next() => match end {
                End::Phase(Phase::Draining) => connection.as_mut().graceful_shutdown(),
                End::Phase(_) => return,
                End::Idle => return site.metrics.connections_idle_closed.add(),
            }
        }
    }
}

/// Why a connection ends that its client would keep.
enum End {
    Phase(Phase),
    Idle,
}

async fn reached(mut phase: watch::Receiver<Phase>, wanted: Phase) -> End {
    match phase.wait_for(|phase| *phase >= wanted).await {
        Ok(_) => End::Phase(wanted),
        // Whoever would say more is gone.
        Err(_) => End::Phase(Phase::Closed),
    }
}

/// Done when nothing was written for as long as may be.
async fn idles(progress: Progress, idle: Duration) -> End {
    let mut look = tokio::time::interval(idle / 2);
    look.reset();
    let (mut seen, mut unmoved) = (progress.get(), 0);
    while unmoved < 2 {
        look.tick().await;
        let now = progress.get();
        unmoved = if now == seen { unmoved + 1 } else { 0 };
        seen = now;
    }
    End::Idle
}

/// Counts what was written. Reading does not count: a client that sends a byte now and then gets nowhere.
#[derive(Debug, Clone, Default)]
struct Progress(Arc<AtomicU64>);

impl Progress {
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

struct Watched<S> {
    stream: S,
    progress: Progress,
}

impl<S> Watched<S> {
    fn count(&self, written: Poll<std::io::Result<usize>>) -> Poll<std::io::Result<usize>> {
        if matches!(written, Poll::Ready(Ok(_))) {
            // Nobody else writes to it.
            self.progress.0.store(self.progress.get().wrapping_add(1), Ordering::Relaxed);
        }
        written
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
