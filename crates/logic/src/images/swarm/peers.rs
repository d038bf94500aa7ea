//! Whom a receiver may call next: everybody once, those that gave trouble later, and later each time.

use std::collections::{BTreeMap, BTreeSet};

use super::{LinkId, Moment, PeerId, Random, Rules};

/// Why a link is no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Parting {
    /// It could not be opened, or it broke.
    Broken,
    /// The peer is busy, or does not have the image (yet).
    Refused,
    /// It had nothing to give for long, and another peer may have.
    Useless,
    /// Far slower than the others.
    Slow,
    /// It sent nothing for too long.
    Frozen,
    /// It sent what does not match its hash, or broke the rules of the protocol.
    Bad,
    /// The peer is no longer among those that may be asked.
    Gone,
    /// The image began again.
    Restarted,
}

impl Parting {
    pub fn words(self) -> &'static str {
        match self {
            Self::Broken => "the link broke",
            Self::Refused => "the peer refused",
            Self::Useless => "it has had nothing to give",
            Self::Slow => "it is far slower than the others",
            Self::Frozen => "it sends nothing",
            Self::Bad => "it sent something bad",
            Self::Gone => "it is no longer a peer",
            Self::Restarted => "the image began again",
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Peer {
    link: Option<LinkId>,
    not_before: Moment,
    /// The same, where nobody else has anything to give.
    in_need: Moment,
    troubles: u32,
    /// Never forgiven.
    bad: u32,
}

impl Peer {
    fn from(&self, in_need: bool) -> Moment {
        if in_need { self.not_before.min(self.in_need) } else { self.not_before }
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Peers(BTreeMap<PeerId, Peer>);

impl Peers {
    /// These, and no others. Returns the links of those that are gone.
    pub fn set(&mut self, peers: &[PeerId]) -> Vec<LinkId> {
        let now: BTreeSet<PeerId> = peers.iter().copied().collect();
        let mut gone = Vec::new();
        self.0.retain(|id, peer| {
            let stays = now.contains(id);
            if !stays {
                gone.extend(peer.link);
            }
            stays
        });
        for id in now {
            self.0.entry(id).or_default();
        }
        gone
    }

    /// One that has no link and may be called now; `in_need`, where nobody else has anything to give.
    pub fn pick(&self, random: &mut Random, now: Moment, in_need: bool) -> Option<PeerId> {
        let free = || self.0.iter().filter(|(_, peer)| peer.link.is_none() && peer.from(in_need) <= now);
        let count = free().count();
        free().nth(random.below(count)).map(|(id, _)| *id)
    }

    pub fn linked(&mut self, id: PeerId, link: LinkId) {
        if let Some(peer) = self.0.get_mut(&id) {
            peer.link = Some(link);
        }
    }

    /// It has been of use: what went wrong before is forgiven.
    pub fn praise(&mut self, id: PeerId) {
        if let Some(peer) = self.0.get_mut(&id) {
            peer.troubles = 0;
        }
    }

    pub fn parted(&mut self, id: PeerId, why: Parting, rules: &Rules, random: &mut Random, now: Moment) {
        let Some(peer) = self.0.get_mut(&id) else { return };
        peer.link = None;
        if why == Parting::Restarted {
            return;
        }
        peer.troubles = peer.troubles.saturating_add(1);
        peer.bad = peer.bad.saturating_add(u32::from(why == Parting::Bad));
        let times = if why == Parting::Bad { peer.bad } else { peer.troubles };
        let doubled = 1 << (times - 1).min(8);
        let pause = match why {
            Parting::Broken | Parting::Refused | Parting::Gone | Parting::Restarted => {
                (rules.retry.0 * doubled).min(rules.retry.1)
            }
            Parting::Useless => rules.useless,
            Parting::Slow | Parting::Frozen => rules.avoid * doubled,
            Parting::Bad => rules.avoid_bad * doubled,
        };
        // Not everybody comes back at the same moment.
        let percent = u32::try_from(75 + random.below(50)).unwrap_or(100);
        peer.not_before = now + pause * percent / 100;
        peer.in_need = now + (rules.in_need * doubled).min(rules.retry.1) * percent / 100;
    }

    /// When the next one that has no link may be called.
    pub fn next(&self, in_need: bool) -> Option<Moment> {
        self.0.values().filter(|peer| peer.link.is_none()).map(|peer| peer.from(in_need)).min()
    }
}
