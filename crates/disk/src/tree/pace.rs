//! Which way of copying a fragmented file is the faster one, by what was measured of both so far. Pure: the
//! file and the clock are `content`'s.
//!
//! Neither way has a price that could be known beforehand. Sharing was seen to cost from 10 µs to 55 µs per
//! extent, by kernel, and disks differ a hundredfold.

use std::time::Duration;

/// What is shared between two looks at the clock; a multiple of any block size.
pub(crate) const PIECE: u64 = 8 << 20;
/// What is written to learn how fast that is.
const TRIAL: u64 = 32 << 20;
/// The flush at the end can take as long as all else of a trial. Where writing seems not much slower than sharing, this
/// much tells; a slow disk is spared it.
const SECOND_TRIAL: u64 = 2 * TRIAL;
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
        let nanos = self.took.as_nanos().saturating_mul(bytes.into()) / u128::from(self.bytes.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Share the next piece, then ask again.
    Share,
    /// Write so many bytes through to the disk, then ask again.
    TryWriting(u64),
    /// Write all that is left.
    Write,
}

/// How to go on with `left` bytes of a file of which `sharing` is known, where `writing` is known or not.
pub(crate) fn choose(left: u64, sharing: Pace, writing: Option<Pace>) -> Way {
    let by_sharing = sharing.foretell(left);
    if by_sharing <= SOON {
        return Way::Share;
    }
    let next = match writing {
        Some(writing) if writing.foretell(left) < by_sharing => return Way::Write,
        Some(writing) if writing.bytes >= SECOND_TRIAL => return Way::Share,
        Some(writing) if writing.foretell(left) / 2 >= by_sharing => return Way::Share,
        Some(_) => SECOND_TRIAL,
        None => TRIAL,
    };
    // What little would be left after the trial can't make up for it.
    if left < 2 * next { Way::Share } else { Way::TryWriting(next) }
}

#[cfg(test)]
mod tests {
    use super::{Duration, PIECE, Pace, SECOND_TRIAL, TRIAL, Way, choose};

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
        assert_eq!(choose(GIB, pace(PIECE, 8), None), Way::TryWriting(TRIAL));
        assert_eq!(choose(2 * TRIAL, pace(PIECE, 80), None), Way::TryWriting(TRIAL));
        assert_eq!(choose(2 * TRIAL - 1, pace(PIECE, 80), None), Way::Share);
    }

    #[test]
    fn the_faster_way_is_taken_and_sharing_where_both_are_the_same() {
        assert_eq!(choose(GIB, pace(PIECE, 8), Some(pace(TRIAL, 31))), Way::Write);
        assert_eq!(choose(GIB, pace(PIECE, 8), Some(pace(SECOND_TRIAL, 63))), Way::Write);
        assert_eq!(choose(GIB, pace(PIECE, 8), Some(pace(SECOND_TRIAL, 64))), Way::Share);
    }

    #[test]
    fn writing_that_seems_a_little_slower_is_tried_again_with_more() {
        assert_eq!(choose(GIB, pace(PIECE, 8), Some(pace(TRIAL, 32))), Way::TryWriting(SECOND_TRIAL));
        assert_eq!(choose(GIB, pace(PIECE, 8), Some(pace(TRIAL, 63))), Way::TryWriting(SECOND_TRIAL));
        assert_eq!(choose(GIB, pace(PIECE, 8), Some(pace(TRIAL, 64))), Way::Share);
        assert_eq!(choose(2 * SECOND_TRIAL - 1, pace(PIECE, 80), Some(pace(TRIAL, 320))), Way::Share);
    }

    #[test]
    fn no_pace_is_beyond_reckoning() {
        let slow = Pace { bytes: 1, took: Duration::from_secs(u64::MAX) };
        assert_eq!(choose(u64::MAX, slow, None), Way::TryWriting(TRIAL));
        assert_eq!(choose(u64::MAX, slow, Some(slow)), Way::TryWriting(SECOND_TRIAL));
    }
}
