//! Peers of an image: how they are dialled, and which of them are on this node.

use std::path::PathBuf;
use std::sync::Arc;

use logic::images::{DiskId, ImageId, ImageName, NodeName};
use tokio::sync::watch;
use tonic::{Code, Status};
use wire::images::{self as api, ImageRef, SendRequest};

use crate::dial::Dialler;
use crate::transfer::{Dial, DialError, Dialled, Dialling, Peer};

/// Asks for a ticket, and shows it on a connection for chunks.
#[derive(Debug)]
pub struct Caller {
    pub dialler: Dialler,
    /// Our own.
    pub disk: DiskId,
}

impl Caller {
    async fn call(&self, peer: &Peer, name: &ImageName, id: &ImageId) -> Result<Dialled, DialError> {
        let failed = |why: String| DialError { refused: false, why };
        let mut calls =
            self.dialler.calls(&peer.disk, &peer.address).map_err(|error| failed(error.to_string()))?;
        let request = SendRequest { image: Some(ImageRef::new(name, id)), receiver: self.disk.to_string() };
        let answer = calls.send(request).await.map_err(|status| DialError {
            refused: answered(&status),
            why: format!("{}: {}", peer.address, status.message()),
        })?;
        let ticket = answer.into_inner().ticket;
        let ticket =
            ticket[..].try_into().map_err(|_| failed(format!("a ticket of {} bytes", ticket.len())))?;
        let stream = self.dialler.chunks(&peer.disk, &peer.address).await;
        let stream = stream.map_err(|error| failed(super::error::in_words(&error, None)))?;
        Ok(Dialled { ticket, stream: Box::new(stream) })
    }
}

/// Whether it was the peer who refused, and not something on the way.
fn answered(status: &Status) -> bool {
    match status.code() {
        Code::Unknown | Code::Internal | Code::Cancelled | Code::DeadlineExceeded => false,
        Code::Unavailable => std::error::Error::source(status).is_none(),
        _ => true,
    }
}

impl Dial for Caller {
    fn dial<'a>(&'a self, peer: &'a Peer, name: &'a ImageName, id: &'a ImageId) -> Dialling<'a> {
        Box::pin(self.call(peer, name, id))
    }
}

/// As the transfer wants them. What can't be a peer was refused before.
pub fn known(peers: &[api::Peer]) -> Vec<Peer> {
    let peer = |peer: &api::Peer| {
        Some(Peer { disk: DiskId::parse(&peer.disk).ok()?, address: peer.address.clone() })
    };
    peers.iter().filter_map(peer).collect()
}

/// Keeps what the transfer knows of peers true, for as long as somebody listens.
pub async fn follow(mut peers: watch::Receiver<Vec<api::Peer>>, told: Arc<watch::Sender<Vec<Peer>>>) {
    loop {
        told.send_replace(known(&peers.borrow_and_update()));
        if peers.changed().await.is_err() {
            return;
        }
    }
}

/// The directories of this image on other disks of this node.
pub fn siblings(peers: &[api::Peer], node: &NodeName, name: &ImageName, id: &ImageId) -> Vec<PathBuf> {
    let of_this_node = peers.iter().filter(|peer| peer.node == node.as_str() && peer.path.starts_with('/'));
    of_this_node
        .map(|peer| PathBuf::from(&peer.path).join("backing-images").join(format!("{name}-{id}")))
        .collect()
}
