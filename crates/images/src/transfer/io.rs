//! Reading and writing frames on a stream.

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};

use super::frame::{self, Ask, BadFrame, Tell};

/// Small frames come many at a time; long ones go straight to where they belong.
const BUFFER: usize = 16 << 10;
/// Data is counted as it comes, so that a slow link is told from a frozen one.
const PART: usize = 64 << 10;

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Frame(#[from] BadFrame),
}

pub struct Frames<R> {
    stream: BufReader<R>,
    frame: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    pub fn new(stream: R) -> Self {
        Self { stream: BufReader::with_capacity(BUFFER, stream), frame: Vec::new() }
    }

    /// Waits until something comes; nothing is lost if the wait is given up. The end of the stream is an error: nothing here
    /// ends by it.
    pub async fn ready(&mut self) -> io::Result<()> {
        if self.stream.fill_buf().await?.is_empty() { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    pub async fn ask(&mut self) -> Result<Ask, ReadError> {
        let (kind, length) = self.header().await?;
        self.body(frame::to_read(kind, length)?).await?;
        Ok(Ask::read(kind, &self.frame)?)
    }

    pub async fn tell(&mut self) -> Result<Tell, ReadError> {
        let (kind, length) = self.header().await?;
        self.body(frame::to_read(kind, length)?).await?;
        match frame::data_head(kind, length, &self.frame) {
            Some(data) => Ok(data),
            None => Ok(Tell::read(kind, &self.frame)?),
        }
    }

    /// The bytes that follow a head of data.
    pub async fn data(&mut self, into: &mut [u8], counter: &AtomicU64) -> io::Result<()> {
        for part in into.chunks_mut(PART) {
            self.stream.read_exact(part).await?;
            counter.fetch_add(part.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn header(&mut self) -> io::Result<(u8, usize)> {
        let mut header = [0; frame::HEADER];
        self.stream.read_exact(&mut header).await?;
        let [a, b, c, d, kind] = header;
        Ok((kind, u32::from_le_bytes([a, b, c, d]) as usize))
    }

    async fn body(&mut self, length: usize) -> io::Result<()> {
        self.frame.resize(length, 0);
        self.stream.read_exact(&mut self.frame).await?;
        Ok(())
    }
}

/// Writes all, and hands it to the network; whoever does not take it for this long is gone.
pub async fn write<W: AsyncWrite + Unpin>(stream: &mut W, bytes: &[u8], within: Duration) -> io::Result<()> {
    let writing = async {
        stream.write_all(bytes).await?;
        stream.flush().await
    };
    tokio::time::timeout(within, writing).await.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
}

/// Runs what blocks where it may. A panic in it is an error here, not the end of the manager.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)
}
