//! One link of a receiver: frames become events for the one who decides, data goes straight into the file.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use logic::images::swarm::{AskId, LinkId, Parting};
use logic::images::{Held, Piece, Seal};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::frame::{Ask, Known, LARGEST_DATA, Tell};
use super::io::{Frames, ReadError, blocking, write};
use super::limits::Limits;
use super::peer::{Dial, Dialled, Peer};
use crate::file::{FileError, ImageFile, Put, Validators};

/// Data that is being verified and written while more is read.
const PUTS: usize = 2;
/// Connecting, with all that belongs to it.
const DIAL: Duration = Duration::from_secs(15);

/// What a link tells the one who decides.
#[derive(Debug)]
pub enum Event {
    Opened {
        link: LinkId,
        held: Held,
    },
    Has {
        link: LinkId,
        pieces: Vec<Piece>,
    },
    Lost {
        link: LinkId,
        pieces: Vec<Piece>,
    },
    Turn {
        link: LinkId,
        turn: u32,
        served: bool,
    },
    Sending {
        link: LinkId,
        ask: AskId,
        piece: Piece,
    },
    Sent {
        link: LinkId,
        piece: Piece,
    },
    Parted {
        link: LinkId,
        why: Parting,
        cause: String,
    },
    /// The list that was taken from it does not add up to what the image must be.
    Liar {
        link: LinkId,
    },
    /// Nothing to do with the peer: this disk has trouble.
    Failed(FileError),
}

/// What a link is told to say; after the last it ends.
#[derive(Debug)]
pub enum Say {
    This(Ask),
    Last(Ask),
}

/// What all links of one receiver share.
pub struct Context {
    pub file: Arc<ImageFile>,
    pub dial: Arc<dyn Dial>,
    pub limits: Limits,
    /// Whether the list and the seal are taken from peers. Who pulls makes them.
    pub follow: bool,
    pub events: mpsc::Sender<Event>,
}

pub struct Handle {
    pub say: mpsc::Sender<Say>,
    pub bytes: Arc<AtomicU64>,
    pub cancelled: CancellationToken,
    /// The turn that requests belong to.
    pub turn: u32,
}

/// Why a link is over.
enum End {
    Parted(Parting, String),
    Failed(FileError),
    Lied,
    /// Nobody listens any more.
    Cancelled,
}

impl From<std::io::Error> for End {
    fn from(error: std::io::Error) -> Self {
        Self::Parted(Parting::Broken, error.to_string())
    }
}

impl From<ReadError> for End {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io(error) => error.into(),
            ReadError::Frame(error) => Self::Parted(Parting::Bad, error.to_string()),
        }
    }
}

impl From<FileError> for End {
    fn from(error: FileError) -> Self {
        match error {
            FileError::NotWhole { .. } => Self::Parted(Parting::Bad, error.to_string()),
            // Its list is of another beginning: one of us is about to notice.
            FileError::Generation { .. } => Self::Parted(Parting::Refused, error.to_string()),
            error if error.is_contradiction() => Self::Parted(Parting::Bad, error.to_string()),
            error => Self::Failed(error),
        }
    }
}

/// Opens a link, in a task of its own.
pub fn open(context: &Arc<Context>, link: LinkId, peer: Peer) -> Handle {
    let (say, said) = mpsc::channel(64);
    let handle =
        Handle { say: say.clone(), bytes: Arc::default(), cancelled: CancellationToken::new(), turn: 0 };
    let (context, bytes, cancelled) =
        (Arc::clone(context), Arc::clone(&handle.bytes), handle.cancelled.clone());
    tokio::spawn(async move {
        let running = async {
            let ended = run(&context, link, &peer, (say, said), &bytes).await;
            let event = match ended {
                End::Parted(why, cause) => Event::Parted { link, why, cause },
                End::Failed(error) => Event::Failed(error),
                End::Lied => Event::Liar { link },
                End::Cancelled => return,
            };
            let _ = context.events.send(event).await;
        };
        tokio::select! {
            () = cancelled.cancelled() => {}
            () = running => {}
        }
    });
    handle
}

async fn run(
    context: &Arc<Context>,
    link: LinkId,
    peer: &Peer,
    (say, said): (mpsc::Sender<Say>, mpsc::Receiver<Say>),
    bytes: &AtomicU64,
) -> End {
    let file = &context.file;
    let dialling = context.dial.dial(peer, file.name(), file.id());
    let Dialled { ticket, stream } = match tokio::time::timeout(DIAL, dialling).await {
        Ok(Ok(dialled)) => dialled,
        Ok(Err(error)) => {
            let why = if error.refused { Parting::Refused } else { Parting::Broken };
            return End::Parted(why, error.to_string());
        }
        Err(_) => return End::Parted(Parting::Frozen, "no connection in time".into()),
    };
    let (reading, mut writing) = tokio::io::split(stream);
    let generation = file.filled_now().generation;
    let known = match file.with(|list, _, _| Known::of(generation, list)) {
        Ok(known) => known,
        Err(error) => return error.into(),
    };
    let hello = Ask::Hello { ticket, known };
    let mut out = Vec::new();
    hello.write(&mut out);
    if let Err(error) = write(&mut writing, &out, context.limits.silence).await {
        return error.into();
    }
    let listener = Listener {
        context,
        link,
        frames: Frames::new(reading),
        bytes,
        say,
        puts: VecDeque::new(),
        spare: vec![],
        generation: 0,
        about: (None, Validators::default()),
    };
    tokio::select! {
        end = listener.listen() => end,
        end = speak(writing, said, context.limits.silence) => end,
    }
}

/// Says what it is told to; when there is nothing to say, that it is still there.
async fn speak(mut stream: impl AsyncWrite + Unpin, mut said: mpsc::Receiver<Say>, silence: Duration) -> End {
    let mut out = Vec::new();
    let mut want = Ask::Want { wants: false, served_by: 0 };
    loop {
        let first = match tokio::time::timeout(silence, said.recv()).await {
            Ok(Some(say)) => say,
            Ok(None) => return End::Cancelled,
            Err(_) => Say::This(want.clone()),
        };
        let mut next = Some(first);
        while let Some(say) = next {
            let (Say::This(ask) | Say::Last(ask)) = &say;
            ask.write(&mut out);
            if let Ask::Want { .. } = ask {
                want = ask.clone();
            }
            if let Say::Last(_) = say {
                let _ = write(&mut stream, &out, Duration::from_secs(1)).await;
                return End::Parted(Parting::Bad, "it sent a chunk that does not match its hash".into());
            }
            next = said.try_recv().ok();
        }
        if let Err(error) = write(&mut stream, &out, silence).await {
            return error.into();
        }
        out.clear();
    }
}

/// What was read and not told yet, in order.
enum Pending {
    Put(JoinHandle<(Vec<u8>, Result<Put, FileError>)>),
    Sent(Piece),
}

struct Listener<'a, R> {
    context: &'a Arc<Context>,
    link: LinkId,
    frames: Frames<R>,
    bytes: &'a AtomicU64,
    say: mpsc::Sender<Say>,
    puts: VecDeque<Pending>,
    spare: Vec<Vec<u8>>,
    /// What it tells belongs to this one.
    generation: u64,
    about: (Option<u64>, Validators),
}

impl<R: AsyncRead + Unpin> Listener<'_, R> {
    async fn listen(mut self) -> End {
        match self.frames().await {
            Ok(never) => match never {},
            Err(end) => end,
        }
    }

    async fn frames(&mut self) -> Result<std::convert::Infallible, End> {
        let mut greeted = false;
        loop {
            while let Some(Pending::Sent(piece)) = self.puts.front() {
                let event = Event::Sent { link: self.link, piece: *piece };
                self.puts.pop_front();
                self.tell(event).await?;
            }
            let full = self.puts.iter().filter(|pending| matches!(pending, Pending::Put(_))).count() >= PUTS;
            tokio::select! {
                biased;
                (buffer, put) = finished(&mut self.puts) => {
                    self.puts.pop_front();
                    self.spare.push(buffer);
                    self.judge(&put?).await?;
                    continue;
                }
                ready = tokio::time::timeout(self.context.limits.silence, self.frames.ready()), if !full => {
                    ready.map_err(|_| End::Parted(Parting::Frozen, "it says nothing".into()))??;
                }
            }
            let tell = self.frames.tell().await?;
            match tell {
                Tell::Hello { generation, .. } if !greeted => {
                    greeted = true;
                    self.meet(generation).await?;
                }
                _ if !greeted => return Err(End::Parted(Parting::Bad, "it does not greet".into())),
                Tell::Data { first, length } => self.data(first, length).await?,
                other => self.take(other).await?,
            }
        }
    }

    /// Whoever is ahead of us has begun again, and so do we.
    async fn meet(&mut self, theirs: u64) -> Result<(), End> {
        self.generation = theirs;
        let file = Arc::clone(&self.context.file);
        let filled = file.filled_now();
        let ours = filled.generation;
        let follows = self.context.follow && !filled.downloaded;
        if theirs == ours || (follows && filled.listed == 0) {
            return Ok(());
        }
        if theirs < ours || !follows {
            return Err(FileError::Generation { ours, theirs }.into());
        }
        match blocking(move || file.restart_at(theirs)).await? {
            // Another link was first.
            Err(FileError::Generation { ours, .. }) if ours == theirs => Ok(()),
            restarted => Ok(restarted?),
        }
    }

    async fn take(&mut self, tell: Tell) -> Result<(), End> {
        let link = self.link;
        match tell {
            Tell::Held { pieces } => self.tell(Event::Opened { link, held: pieces }).await,
            Tell::Has { pieces } => self.tell(Event::Has { link, pieces }).await,
            Tell::Lost { pieces } => self.tell(Event::Lost { link, pieces }).await,
            Tell::Turn { turn, served } => self.tell(Event::Turn { link, turn, served }).await,
            Tell::Sending { ask, piece } => self.tell(Event::Sending { link, ask, piece }).await,
            Tell::Sent { piece } => {
                self.puts.push_back(Pending::Sent(piece));
                Ok(())
            }
            Tell::Ping | Tell::Hello { .. } | Tell::Data { .. } => Ok(()),
            Tell::About { .. } | Tell::List { .. } | Tell::Seal { .. } if !self.context.follow => Ok(()),
            Tell::About { total, validators } => {
                self.about = (total, validators.clone());
                let file = Arc::clone(&self.context.file);
                // Otherwise it comes with the list, which begins the generation.
                if file.filled_now().generation == self.generation {
                    blocking(move || file.set_about(total, &validators)).await??;
                }
                Ok(())
            }
            Tell::List { at, chunks } => {
                let file = Arc::clone(&self.context.file);
                let (generation, (total, validators)) = (self.generation, self.about.clone());
                let extend = move || {
                    file.extend(generation, at as usize, &chunks, total, &validators)?;
                    // What this disk has already is not asked for.
                    file.fill_from_this_disk()?;
                    let full = |size, seal: &Seal| size == seal.size;
                    file.with(|list, _, seal| {
                        seal.is_some_and(|seal| full(list.size(), seal) && !list.adds_up_to(seal))
                    })
                };
                if blocking(extend).await?? { Err(End::Lied) } else { Ok(()) }
            }
            Tell::Seal { seal } => {
                let file = Arc::clone(&self.context.file);
                Ok(blocking(move || file.set_seal(seal)).await??)
            }
        }
    }

    /// Reads chunks, and has them verified and written while more is read.
    async fn data(&mut self, first: u32, length: usize) -> Result<(), End> {
        let Some(permit) = self.context.limits.receiving.wait(LARGEST_DATA).await else {
            return Err(End::Cancelled);
        };
        let mut buffer = self.spare.pop().unwrap_or_default();
        if buffer.len() < length {
            buffer.resize(LARGEST_DATA, 0);
        }
        let reading = self.frames.data(&mut buffer[..length], self.bytes);
        // A frozen link is hung up on sooner, by the one who decides; this is for one that trickles.
        let read = tokio::time::timeout(self.context.limits.silence * 6, reading).await;
        read.map_err(|_| End::Parted(Parting::Frozen, "its data does not come".into()))??;
        self.context.limits.incoming.take(length).await;
        let file = Arc::clone(&self.context.file);
        let put = tokio::task::spawn_blocking(move || {
            let put = file.put(first as usize, &buffer[..length]);
            drop(permit);
            (buffer, put)
        });
        self.puts.push_back(Pending::Put(put));
        Ok(())
    }

    async fn judge(&mut self, put: &Put) -> Result<(), End> {
        let Some(bad) = put.bad.first() else { return Ok(()) };
        let ours = self.context.file.filled_now().generation;
        if ours != self.generation {
            // We began again while it came: it is none of its fault.
            return Err(FileError::Generation { ours, theirs: self.generation }.into());
        }
        let chunk = u32::try_from(*bad).unwrap_or(u32::MAX);
        // It is told, so that it looks at its own copy; then nothing more is wanted of it.
        let _ = self.say.send(Say::Last(Ask::Bad { chunk })).await;
        std::future::pending().await
    }

    async fn tell(&mut self, event: Event) -> Result<(), End> {
        self.context.events.send(event).await.map_err(|_| End::Cancelled)
    }
}

/// The first of the pending, once it is done; never, if nothing is pending.
async fn finished(puts: &mut VecDeque<Pending>) -> (Vec<u8>, Result<Put, End>) {
    match puts.front_mut() {
        Some(Pending::Put(put)) => match put.await {
            Ok((buffer, put)) => (buffer, put.map_err(End::from)),
            Err(error) => (Vec::new(), Err(std::io::Error::other(error).into())),
        },
        _ => std::future::pending().await,
    }
}
