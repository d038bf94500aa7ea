//! How much of a long test runs: one point in eight in `make test`, every point in `make prove`.
//!
//! The sample is stratified: of every eight neighbouring points one is tried, and the seed says which. The scripts take
//! the hash of the source tree as the seed, so that one change always draws the same sample and successive changes draw
//! different ones: after eight changes about two thirds of all points were tried, after 24 changes 96 %.
//!
//! - `HOLDFAST_SAMPLE=N` tries one point in N; 1 tries all of them. Default: 8.
//! - `HOLDFAST_SEED=TEXT` is the seed. To repeat a failure, repeat the seed that its message names.

use std::fmt;
use std::ops::Range;

use sha2::{Digest, Sha256};

const ONE_IN: usize = 8;

/// The points of one test that are tried in this run.
#[derive(Debug, Clone)]
pub struct Sample {
    /// One point in this many of all variants.
    asked: usize,
    /// One point in this many of the variant that was drawn.
    one_in: usize,
    seed: String,
    name: String,
}

impl Sample {
    /// `name` distinguishes this test's draw from those of other tests with the same seed.
    pub fn of(name: impl Into<String>) -> Self {
        let one_in = std::env::var("HOLDFAST_SAMPLE").ok().map_or(ONE_IN, |text| {
            text.parse().ok().filter(|number| *number > 0).expect("HOLDFAST_SAMPLE is a number from 1")
        });
        let seed = std::env::var("HOLDFAST_SEED").unwrap_or_default();
        Self { asked: one_in, one_in, seed, name: name.into() }
    }

    /// A sample with its seed given, for tests of the sample itself.
    pub fn with(one_in: usize, seed: &str, name: &str) -> Self {
        Self { asked: one_in, one_in, seed: seed.to_owned(), name: name.to_owned() }
    }

    /// True in `make prove`: nothing may be left out, and what only a whole run can show is asserted.
    pub fn is_whole(&self) -> bool {
        self.asked == 1
    }

    /// Whether this point is tried.
    pub fn takes(&self, point: usize) -> bool {
        point % self.one_in == self.draw("point", point / self.one_in, self.one_in)
    }

    /// The points of a range that are tried.
    pub fn points(&self, all: impl IntoIterator<Item = usize>) -> impl Iterator<Item = usize> {
        all.into_iter().filter(|point| self.takes(*point))
    }

    /// The points of a range that are tried, and always its first and its last point. They are the ones where the two
    /// possible outcomes differ for certain, so a test may assert that both occurred.
    pub fn with_ends(&self, all: Range<usize>) -> impl Iterator<Item = usize> {
        let (first, last) = (all.start, all.end.saturating_sub(1));
        all.filter(move |point| *point == first || *point == last || self.takes(*point))
    }

    /// Like `with_ends(0..expected)`, and then every point after that, without an end. For commands whose number of
    /// points differs from run to run: the caller stops at the first point that the command does not reach.
    pub fn until_end(&self, expected: usize) -> impl Iterator<Item = usize> {
        self.with_ends(0..expected).chain(expected..)
    }

    /// The sample of one part of the test, such as one of several commands. Its draws differ from those of other parts.
    pub fn stratum(&self, part: &str) -> Self {
        Self { name: format!("{}: {part}", self.name), ..self.clone() }
    }

    /// One of several variants, and for each of them the sample that makes it about one point in N over all variants:
    /// with four file systems, every second point of the one that is drawn. In a whole run: all variants, whole.
    pub fn rotate<'a, T>(&self, variants: &'a [T]) -> Vec<(&'a T, Self)> {
        if self.is_whole() {
            return variants.iter().map(|variant| (variant, self.clone())).collect();
        }
        let drawn = self.draw("variant", 0, variants.len());
        let one_in = ((self.one_in + variants.len() / 2) / variants.len()).max(1);
        vec![(&variants[drawn], Self { one_in, ..self.clone() })]
    }

    /// A number below `below` that depends on seed, name and place, and on nothing else.
    fn draw(&self, what: &str, place: usize, below: usize) -> usize {
        let mut hash = Sha256::new();
        for part in [self.seed.as_str(), &self.name, what, &place.to_string()] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let bytes = hash.finalize();
        let number = u64::from_le_bytes(bytes[..8].try_into().expect("a hash has 32 bytes"));
        usize::try_from(number % below.max(1) as u64).expect("less than a usize")
    }
}

/// Shown with a failure: what repeats this draw.
impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HOLDFAST_SAMPLE={} HOLDFAST_SEED={}", self.asked, self.seed)
    }
}

/// The bound of a walk: `full` in `make prove`, `small` in `make test`.
pub fn full_or<T>(full: T, small: T) -> T {
    if Sample::of("").is_whole() { full } else { small }
}
