//! Which way of copying a fragmented file is the faster one, by what was measured of both so far. Pure: the
//! file and the clock are `content`'s.
//!
//! Neither way has a price that could be known beforehand. Sharing was seen to cost from 10 µs to 55 µs per
//! extent, by kernel, and disks differ a hundredfold.

use std::time::Duration;

/// What is shared between two looks at the clock; a multiple of any block size.
pub(crate) const PIECE: u64 = 8 << 20;
/// What is written to learn how fast that is: enough that the final flush does not decide it.
pub(crate) const TRIAL: u64 = 32 << 20;
/// Sharing that ends this soon is not worth a trial, and takes no room.
const SOON: Duration = Duration::from_millis(100);

/// So many bytes took so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Pace {
    pub bytes: u64,
    pub took: Duration,
}

impl Pace {
    pub fn add(&mut self, bytes: u64, took: Duration) {
        self.bytes += bytes;
        self.took += took;
    }

    /// How long `bytes` will take; no time at all while nothing is known.
    fn foretell(self, bytes: u64) -> Duration {
        let nanos = self.took.as_nanos() * u128::from(bytes) / u128::from(self.bytes.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Share the next piece, then ask again.
    Share,
    /// Write a trial's worth through to the disk, then ask again.
    TryWriting,
    /// Write all that is left.
    Write,
}

/// How to go on with `left` bytes of a file of which `sharing` is known, where `writing` is known or not.
pub(crate) fn choose(left: u64, sharing: Pace, writing: Option<Pace>) -> Way {
    let by_sharing = sharing.foretell(left);
    match writing {
        _ if by_sharing <= SOON => Way::Share,
        Some(writing) if writing.foretell(left) < by_sharing => Way::Write,
        Some(_) => Way::Share,
        // What little would be left after the trial can't make up for it.
        None if left < 2 * TRIAL => Way::Share,
        None => Way::TryWriting,
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, PIECE, Pace, TRIAL, Way, choose};

    const GIB: u64 = 1 << 30;

    fn pace(bytes: u64, millis: u64) -> Pace {
        Pace { bytes, took: Duration::from_millis(millis) }
    }

    #[test]
    fn the_first_piece_is_shared_to_learn_how_fast_that_is() {
        assert_eq!(choose(GIB, Pace::default(), None), Way::Share);
        assert_eq!(choose(GIB, Pace::default(), Some(pace(TRIAL, 1))), Way::Share);
    }

    #[test]
    fn sharing_that_is_soon_done_is_never_given_up() {
        assert_eq!(choose(GIB, pace(GIB, 100), Some(pace(GIB, 1))), Way::Share);
        assert_eq!(choose(PIECE, pace(PIECE, 50), None), Way::Share);
    }

    #[test]
    fn writing_is_tried_before_it_is_chosen_and_only_where_enough_is_left() {
        assert_eq!(choose(GIB, pace(PIECE, 8), None), Way::TryWriting);
        assert_eq!(choose(2 * TRIAL, pace(PIECE, 80), None), Way::TryWriting);
        assert_eq!(choose(2 * TRIAL - 1, pace(PIECE, 80), None), Way::Share);
    }

    #[test]
    fn the_faster_way_is_taken_and_sharing_where_both_are_the_same() {
        assert_eq!(choose(GIB, pace(PIECE, 8), Some(pace(PIECE, 7))), Way::Write);
        assert_eq!(choose(GIB, pace(PIECE, 8), Some(pace(PIECE, 8))), Way::Share);
        assert_eq!(choose(GIB, pace(PIECE, 8), Some(pace(TRIAL, 300))), Way::Share);
    }

    #[test]
    fn no_pace_is_beyond_reckoning() {
        let slow = Pace { bytes: 1, took: Duration::from_secs(u64::MAX) };
        assert_eq!(choose(u64::MAX, slow, None), Way::TryWriting);
        assert_eq!(choose(u64::MAX, slow, Some(slow)), Way::Share);
    }
}
