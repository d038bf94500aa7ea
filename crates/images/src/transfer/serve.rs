//! One link of a sender: what it says of the image, and the pieces that it sends while it is its turn.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use logic::images::{ChunkList, Piece};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinHandle;

use super::error::SendError;
use super::frame::{Ask, BadFrame, CHUNKS, Candidate, Known, LARGEST_DATA, PIECES, Tell};
use super::io::{Frames, ReadError, blocking, write};
use super::limits::Limits;
use super::share::{Link, Share};
use crate::file::{FileError, ImageFile};

/// Requests that may wait on one link: more than a receiver ever makes.
const MOST_ASKS: usize = 32;
/// A piece that was begun is finished after the turn is over, unless it takes longer than this.
const CUT_AFTER: Duration = Duration::from_secs(1);
/// For what a receiver said before it went.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Bytes of the list that are sent before anything else is.
const LIST_AT_ONCE: usize = CHUNKS;

pub async fn serve(
    share: &Arc<Share>,
    link: &Arc<Link>,
    frames: Frames<impl AsyncRead + Unpin>,
    stream: impl AsyncWrite + Unpin,
    limits: &Limits,
    known: Known,
) -> Result<(), SendError> {
    let mut listening = std::pin::pin!(listen(share, link, frames, limits));
    tokio::select! {
        listened = &mut listening => listened,
        spoken = Speaker::new(share, link, stream, limits).speak(known) => {
            // Whoever got a bad chunk says so, and goes: its last words may still be on their way.
            let _ = tokio::time::timeout(LAST_WORDS, listening).await;
            spoken
        }
    }
}

/// Takes what the receiver says.
async fn listen(
    share: &Arc<Share>,
    link: &Arc<Link>,
    mut frames: Frames<impl AsyncRead + Unpin>,
    limits: &Limits,
) -> Result<(), SendError> {
    loop {
        // It says something at least that often.
        let silence = tokio::time::timeout(limits.silence * 3, frames.ready()).await;
        silence.map_err(|_| SendError::Silent)??;
        let ask = match frames.ask().await {
            Ok(ask) => ask,
            Err(ReadError::Io(error)) => return Err(error.into()),
            Err(ReadError::Frame(error)) => return Err(error.into()),
        };
        match ask {
            Ask::Hello { .. } => return Err(BadFrame::Sense("a second ticket").into()),
            Ask::Want { wants, served_by } => share.wants(link.id, wants, served_by),
            Ask::One { turn, ask, of } => {
                let mut state = link.lock();
                // Of an earlier turn: the receiver knows by now that it is over.
                if state.served && state.turn == turn {
                    if state.asks.len() == MOST_ASKS {
                        return Err(BadFrame::Sense("too many requests").into());
                    }
                    state.asks.push_back((ask, of));
                    drop(state);
                    link.woken.notify_one();
                }
            }
            Ask::Cancel { piece } => {
                let mut state = link.lock();
                for (_, candidates) in &mut state.asks {
                    candidates.retain(|candidate| candidate.piece != piece);
                }
                state.asks.retain(|(_, candidates)| !candidates.is_empty());
                if state.cancelled.len() < MOST_ASKS {
                    state.cancelled.push(piece);
                }
            }
            Ask::Bad { chunk } => {
                let file = Arc::clone(&share.file);
                let bad = blocking(move || file.suspect(chunk as usize)).await??;
                tracing::warn!(image = %share.file.name(), chunk, bad, "a receiver got a bad chunk from here");
            }
        }
    }
}

/// A piece that is being sent.
struct Sending {
    piece: Piece,
    runs: VecDeque<Range<usize>>,
    /// The next run.
    reading: Option<Reading>,
    permit: Option<OwnedSemaphorePermit>,
}

type Buffer = Vec<u8>;

enum Reading {
    /// The kernel had it in memory.
    Done(Buffer),
    Going(JoinHandle<Result<Buffer, FileError>>),
}

struct Speaker<'a, W> {
    share: &'a Arc<Share>,
    link: &'a Arc<Link>,
    stream: W,
    limits: &'a Limits,
    out: Vec<u8>,
    spare: Vec<Buffer>,
    sending: Option<Sending>,
    /// What the receiver was told: news, chunks of the list, the turn.
    news: usize,
    listed: usize,
    turn: (u32, bool),
    about: bool,
    sealed: bool,
    spoken: Instant,
}

impl<'a, W: AsyncWrite + Unpin> Speaker<'a, W> {
    fn new(share: &'a Arc<Share>, link: &'a Arc<Link>, stream: W, limits: &'a Limits) -> Self {
        Self {
            share,
            link,
            stream,
            limits,
            out: Vec::new(),
            spare: Vec::new(),
            sending: None,
            news: 0,
            listed: 0,
            turn: (0, false),
            about: false,
            sealed: false,
            spoken: Instant::now(),
        }
    }

    async fn speak(mut self, known: Known) -> Result<(), SendError> {
        let mut changes = self.share.changes();
        self.greet(known).await?;
        loop {
            self.gather()?;
            self.flush().await?;
            if self.sending.is_none() {
                self.begin();
            }
            if self.sending.is_some() {
                self.send_run().await?;
                continue;
            }
            if self.has_more_list() {
                continue;
            }
            let quiet = self.limits.silence / 4;
            tokio::select! {
                () = self.link.woken.notified() => {}
                changed = changes.changed() => changed.map_err(|_| SendError::Stopped)?,
                () = tokio::time::sleep(quiet.saturating_sub(self.spoken.elapsed())) => Tell::Ping.write(&mut self.out),
            }
        }
    }

    /// What the image is so far: the list comes before what is held of it.
    async fn greet(&mut self, known: Known) -> Result<(), SendError> {
        let share = Arc::clone(self.share);
        blocking(move || share.look()).await??;
        let (generation, listed, held) = {
            let news = self.share.news();
            self.news = news.pieces.len();
            (news.board.generation, news.board.listed, news.board.held.clone())
        };
        self.listed = self.share.file.with(|list, _, _| known.in_common(generation, list))?.min(listed);
        Tell::Hello { generation, listed: u32::try_from(listed).unwrap_or(u32::MAX) }.write(&mut self.out);
        self.about()?;
        while self.listed < listed {
            self.list()?;
            self.flush().await?;
        }
        Tell::Held { pieces: held }.write(&mut self.out);
        self.flush().await
    }

    /// Everything that is new and short.
    fn gather(&mut self) -> Result<(), SendError> {
        let state = self.link.lock();
        let turn = (state.turn, state.served);
        drop(state);
        if turn != self.turn {
            self.turn = turn;
            Tell::Turn { turn: turn.0, served: turn.1 }.write(&mut self.out);
        }
        self.about()?;
        self.list()?;
        let share = Arc::clone(self.share);
        let news = share.news();
        let mut new = &news.pieces[self.news.min(news.pieces.len())..];
        self.news = news.pieces.len();
        while let Some((_, there)) = new.first() {
            let run = new.iter().take(PIECES).take_while(|(_, other)| other == there).count();
            let pieces = new[..run].iter().map(|(piece, _)| *piece).collect();
            let tell = if *there { Tell::Has { pieces } } else { Tell::Lost { pieces } };
            tell.write(&mut self.out);
            new = &new[run..];
        }
        if let (false, Some(seal)) = (self.sealed || self.listed < news.board.listed, &news.board.seal) {
            Tell::Seal { seal: seal.clone() }.write(&mut self.out);
            self.sealed = true;
        }
        Ok(())
    }

    fn about(&mut self) -> Result<(), SendError> {
        let news = self.share.news();
        if !self.about && (news.board.total.is_some() || !news.board.validators.is_empty()) {
            let (total, validators) = (news.board.total, news.board.validators.clone());
            Tell::About { total, validators }.write(&mut self.out);
            self.about = true;
        }
        Ok(())
    }

    /// More of the list, if there is.
    fn list(&mut self) -> Result<(), SendError> {
        let (generation, listed) = {
            let news = self.share.news();
            (news.board.generation, news.board.listed)
        };
        if self.listed >= listed {
            return Ok(());
        }
        let end = listed.min(self.listed + LIST_AT_ONCE);
        let chunks =
            self.share.file.with(|list, _, _| list.chunks().get(self.listed..end).map(<[_]>::to_vec))?;
        // Gone already: all began again.
        let chunks = chunks.filter(|_| self.share.file.filled_now().generation == generation);
        let chunks = chunks.ok_or(SendError::Restarted)?;
        Tell::List { at: u32::try_from(self.listed).unwrap_or(u32::MAX), chunks }.write(&mut self.out);
        self.listed = end;
        Ok(())
    }

    fn has_more_list(&self) -> bool {
        self.listed < self.share.news().board.listed
    }

    async fn flush(&mut self) -> Result<(), SendError> {
        if !self.out.is_empty() {
            write(&mut self.stream, &self.out, self.limits.silence * 3).await?;
            self.out.clear();
            self.spoken = Instant::now();
        }
        Ok(())
    }

    /// Begins with the next request, if there is one.
    fn begin(&mut self) {
        loop {
            let Some((ask, candidates)) = ({
                let mut state = self.link.lock();
                state.cancelled.clear();
                if state.served { state.asks.pop_front() } else { None }
            }) else {
                return;
            };
            let Some(candidate) = self.share.pick(&candidates) else {
                // None of them is here any more, and the receiver will hear of that; it must not wait until then.
                if let Some(Candidate { piece, .. }) = candidates.first() {
                    Tell::Sending { ask, piece: *piece }.write(&mut self.out);
                    Tell::Sent { piece: *piece }.write(&mut self.out);
                }
                continue;
            };
            let runs = self.share.file.with(|list, _, _| runs(list, candidate));
            let Ok(runs) = runs else { continue };
            Tell::Sending { ask, piece: candidate.piece }.write(&mut self.out);
            self.sending = Some(Sending { piece: candidate.piece, runs, reading: None, permit: None });
            return;
        }
    }

    /// One run of the piece; while it is on its way, the next is read.
    async fn send_run(&mut self) -> Result<(), SendError> {
        let Some(mut sending) = self.sending.take() else { return Ok(()) };
        if self.is_over(sending.piece) {
            sending.runs.clear();
        }
        if sending.reading.is_none() && !sending.runs.is_empty() {
            let permit = self.limits.sending.wait(LARGEST_DATA).await;
            self.read(&mut sending, permit);
        }
        let Some(reading) = sending.reading.take() else {
            Tell::Sent { piece: sending.piece }.write(&mut self.out);
            self.share.gave(self.link.id);
            return Ok(());
        };
        let permit = sending.permit.take();
        let read = match reading {
            Reading::Done(buffer) => Ok(buffer),
            Reading::Going(reading) => reading.await.map_err(std::io::Error::other)?,
        };
        let buffer = match read {
            Ok(buffer) => buffer,
            // It went bad, or away: the receiver asks somebody else.
            Err(FileError::NotHeld { .. }) => {
                sending.runs.clear();
                self.sending = Some(sending);
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(ahead) = self.limits.sending.now(LARGEST_DATA) {
            self.read(&mut sending, Some(ahead));
        }
        self.limits.outgoing.take(buffer.len()).await;
        self.flush().await?;
        write(&mut self.stream, &buffer, self.limits.silence * 3).await?;
        self.spoken = Instant::now();
        drop(permit);
        self.spare.push(buffer);
        self.sending = Some(sending);
        Ok(())
    }

    /// Whether the rest of a piece is not to be sent.
    fn is_over(&self, piece: Piece) -> bool {
        let state = self.link.lock();
        state.cancelled.contains(&piece) || (!state.served && state.waits_since.elapsed() > CUT_AFTER)
    }

    fn read(&mut self, sending: &mut Sending, permit: Option<OwnedSemaphorePermit>) {
        let Some(run) = sending.runs.pop_front() else { return };
        sending.permit = permit;
        let mut buffer = self.spare.pop().unwrap_or_default();
        // Mostly it was just written, or sent to somebody else: no other thread need be woken for that.
        if read(&self.share.file, run.clone(), &mut buffer, ImageFile::read_now).is_ok() {
            sending.reading = Some(Reading::Done(buffer));
            return;
        }
        let file = Arc::clone(&self.share.file);
        sending.reading = Some(Reading::Going(tokio::task::spawn_blocking(move || {
            read(&file, run, &mut buffer, ImageFile::read)?;
            Ok(buffer)
        })));
    }
}

/// A frame of data: its head, and the chunks.
fn read(
    file: &ImageFile,
    run: Range<usize>,
    buffer: &mut Buffer,
    reading: fn(&ImageFile, Range<usize>, &mut Buffer, usize) -> Result<(), FileError>,
) -> Result<(), FileError> {
    let length = file.with(|list, _, _| {
        let span = list.span(run.clone());
        usize::try_from(span.end - span.start).unwrap_or(usize::MAX)
    })?;
    let first = u32::try_from(run.start).unwrap_or(u32::MAX);
    let mut head = Vec::new();
    Tell::Data { first, length }.write(&mut head);
    buffer.resize(buffer.len().max(head.len()), 0);
    buffer[..head.len()].copy_from_slice(&head);
    reading(file, run, buffer, head.len())
}

/// The missing chunks of a piece, as runs of neighbours that fit into a frame each.
fn runs(list: &ChunkList, candidate: Candidate) -> VecDeque<Range<usize>> {
    let chunks = list.chunks_of(candidate.piece);
    let mut runs: VecDeque<Range<usize>> = VecDeque::new();
    let mut bytes = 0;
    for (bit, index) in chunks.enumerate() {
        if candidate.missing & (1 << bit) == 0 {
            continue;
        }
        let length = list.get(index).map_or(0, |chunk| chunk.length as usize);
        match runs.back_mut() {
            Some(run) if run.end == index && bytes + length <= LARGEST_DATA => {
                run.end += 1;
                bytes += length;
            }
            _ => {
                runs.push_back(index..index + 1);
                bytes = length;
            }
        }
    }
    runs
}
