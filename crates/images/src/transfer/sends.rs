//! All that a manager sends: who may connect for what, and what is under way.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use logic::images::{DiskId, ImageId};
use tokio_util::sync::CancellationToken;

use super::error::{Refused, SendError};
use super::frame::{Ask, BadFrame};
use super::io::{Frames, ReadError};
use super::limits::Limits;
use super::peer::Stream;
use super::serve;
use super::share::Share;
use crate::file::ImageFile;

/// A ticket is good for this long, once.
const VALID: Duration = Duration::from_secs(30);
/// Tickets that are out at once.
const MOST_TICKETS: usize = 1024;

/// Opens one link, for one receiver of one image.
pub type Ticket = [u8; 32];

#[derive(Debug)]
pub struct Sends {
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    shares: HashMap<ImageId, Arc<Share>>,
    tickets: HashMap<Ticket, Promise>,
    /// Images that are on offer to another manager: nothing is sent of them.
    paused: Vec<ImageId>,
}

#[derive(Debug)]
struct Promise {
    file: Arc<ImageFile>,
    receiver: DiskId,
    made: Instant,
}

impl Sends {
    pub fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, state: Mutex::default() })
    }

    /// Takes a receiver on. Whether it is one of the site's managers was seen to before.
    pub fn ticket(&self, file: &Arc<ImageFile>, receiver: &DiskId) -> Result<Ticket, Refused> {
        let mut state = self.lock();
        state.tickets.retain(|_, promise| promise.made.elapsed() < VALID);
        if state.paused.contains(file.id()) {
            return Err(Refused::Paused);
        }
        let links = state.shares.get(file.id()).map_or(0, |share| share.links_now());
        let promised = state.tickets.values().filter(|promise| promise.file.id() == file.id()).count();
        if links + promised >= self.limits.links || state.tickets.len() >= MOST_TICKETS {
            return Err(Refused::Busy);
        }
        let ticket = new_ticket();
        let promise = Promise { file: Arc::clone(file), receiver: receiver.clone(), made: Instant::now() };
        state.tickets.insert(ticket, promise);
        Ok(ticket)
    }

    /// Serves one link until it ends. `receiver` is whose certificate it has.
    pub async fn serve(&self, stream: impl Stream, receiver: &DiskId) -> Result<(), SendError> {
        let (reading, writing) = tokio::io::split(stream);
        let mut frames = Frames::new(reading);
        let hello = tokio::time::timeout(self.limits.silence, frames.ask());
        let hello = match hello.await.map_err(|_| SendError::Silent)? {
            Ok(hello) => hello,
            Err(ReadError::Io(error)) => return Err(error.into()),
            Err(ReadError::Frame(error)) => return Err(error.into()),
        };
        let Ask::Hello { ticket, known } = hello else {
            return Err(BadFrame::Sense("it does not begin with a ticket").into());
        };
        let share = self.redeem(&ticket, receiver)?;
        let Some(link) = share.join(self.limits.links) else { return Err(SendError::Stopped) };
        let id = link.id;
        let served = tokio::select! {
            () = share.cancelled.cancelled() => Err(SendError::Stopped),
            served = serve::serve(&share, &link, frames, writing, &self.limits, known) => served,
        };
        let mut state = self.lock();
        if share.leave(id)
            && state.shares.get(share.file.id()).is_some_and(|other| Arc::ptr_eq(other, &share))
        {
            state.shares.remove(share.file.id());
        }
        served
    }

    /// Links of an image that something is sent on now.
    pub fn sending(&self, image: &ImageId) -> u32 {
        let sending = self.lock().shares.get(image).map_or(0, |share| share.sending());
        u32::try_from(sending).unwrap_or(u32::MAX)
    }

    /// While an image is paused, nothing of it is sent, and nobody new is taken on. Links stay, and wait.
    pub fn pause(&self, image: &ImageId, paused: bool) {
        let mut state = self.lock();
        state.paused.retain(|other| other != image);
        if paused {
            state.paused.push(image.clone());
        }
        if let Some(share) = state.shares.get(image) {
            share.pause(paused);
        }
    }

    /// Ends all links of an image, and forgets its tickets: it is removed, or another manager's now.
    pub fn stop(&self, image: &ImageId) {
        let mut state = self.lock();
        state.tickets.retain(|_, promise| promise.file.id() != image);
        state.paused.retain(|other| other != image);
        if let Some(share) = state.shares.remove(image) {
            share.cancelled.cancel();
        }
    }

    pub fn stop_all(&self) {
        let mut state = self.lock();
        state.tickets.clear();
        for (_, share) in state.shares.drain() {
            share.cancelled.cancel();
        }
    }

    fn redeem(&self, ticket: &Ticket, receiver: &DiskId) -> Result<Arc<Share>, SendError> {
        let mut state = self.lock();
        let good = |promise: &Promise| promise.receiver == *receiver && promise.made.elapsed() < VALID;
        if !state.tickets.get(ticket).is_some_and(good) {
            return Err(SendError::Ticket);
        }
        let Some(promise) = state.tickets.remove(ticket) else { return Err(SendError::Ticket) };
        let id = promise.file.id().clone();
        let share = state.shares.get(&id).filter(|share| {
            // A share of a file that was closed, or began again, is on its way out.
            Arc::ptr_eq(&share.file, &promise.file) && !share.cancelled.is_cancelled()
        });
        if let Some(share) = share {
            return Ok(Arc::clone(share));
        }
        let share = Share::new(&promise.file, &self.limits, CancellationToken::new())?;
        share.pause(state.paused.contains(&id));
        state.shares.insert(id, Arc::clone(&share));
        Ok(share)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// 244 bits that nobody can guess.
fn new_ticket() -> Ticket {
    let mut ticket = [0; 32];
    ticket[..16].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
    ticket[16..].copy_from_slice(uuid::Uuid::new_v4().as_bytes());
    ticket
}
