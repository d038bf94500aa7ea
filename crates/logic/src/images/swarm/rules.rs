//! The numbers that the swarm goes by, each in one place. The simulation is where they were found.

use std::time::Duration;

/// Since some beginning that is the same for all that is told to one receiver or sender.
pub type Moment = Duration;

#[derive(Debug, Clone)]
pub struct Rules {
    /// Links that a receiver keeps. Fewer mix worse; more only cost memory and announcements.
    pub links: usize,
    /// Links that are being opened at once.
    pub dialling: usize,
    /// Pieces of which the sender may pick one, for each request.
    pub candidates: usize,
    /// Requests under way on one link: at least, and at most however fast it is.
    pub requests: (usize, usize),
    /// Requests under way should last this long at the link's rate.
    pub ahead: Duration,
    /// Links that a sender serves at once.
    pub served: usize,
    /// Links that a receiver lets serve it at once, while most of its peers still receive themselves. As many as a sender
    /// serves: then everybody's link is used, each way, and nobody waits for somebody who has too much already.
    pub enough: usize,
    /// A turn ends after so many pieces or so long, if another link waits.
    pub turn_pieces: u32,
    pub turn_time: Duration,
    /// A link that was asked and sends nothing for this long is closed: its peer is frozen or gone.
    pub frozen: Duration,
    /// A piece that takes this many times as long as pieces usually do, and at least `late_after`, is late.
    pub late: u32,
    pub late_after: Duration,
    /// How long a link is watched for each of its rates.
    pub sample: Duration,
    /// A link with less than this part of the usual rate is slow.
    pub slow: u32,
    /// A link that has had nothing to give for this long makes room for another peer.
    pub useless: Duration,
    /// A peer that parted in peace, or could not be reached, is tried again after this, then twice as long, and so on.
    pub retry: (Duration, Duration),
    /// A peer that was slow or frozen is left alone for this long, and longer each time.
    pub avoid: Duration,
    /// A peer that sent a bad chunk is left alone for this long, and longer each time.
    pub avoid_bad: Duration,
    /// Where nobody else has anything to give, even that one is asked again after this, then twice as long, and so on: who
    /// hears that it sent something bad looks at its own copy.
    pub in_need: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            links: 12,
            dialling: 8,
            candidates: 6,
            requests: (2, 6),
            ahead: Duration::from_millis(50),
            served: 3,
            enough: 3,
            turn_pieces: 8,
            turn_time: Duration::from_secs(2),
            frozen: Duration::from_secs(10),
            late: 4,
            late_after: Duration::from_millis(100),
            sample: Duration::from_millis(500),
            slow: 10,
            useless: Duration::from_secs(10),
            retry: (Duration::from_millis(250), Duration::from_secs(10)),
            avoid: Duration::from_secs(15),
            avoid_bad: Duration::from_secs(60),
            in_need: Duration::from_secs(1),
        }
    }
}
