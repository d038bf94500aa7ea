//! Cutting a stream into chunks by content: the same bytes are cut the same, however they arrive.

use std::ops::Range;

use fastcdc::v2020::FastCDC;
use logic::images::ChunkList;

const SHORTEST: usize = ChunkList::SHORTEST_CHUNK as usize;
/// From here on an end is found every 16 KiB, so that chunks are [`ChunkList::AVERAGE_CHUNK`] long: as soon as a chunk may end.
const EASY: usize = SHORTEST;
const LONGEST: usize = ChunkList::LONGEST_CHUNK as usize;

/// The chunks at the beginning of `buffer`, which begins where one does. What is left behind the last of them belongs to a
/// chunk whose end is not in sight; with `last`, nothing follows, and nothing is left.
pub fn cut(buffer: &[u8], last: bool) -> Vec<Range<usize>> {
    let mut chunks = Vec::with_capacity(buffer.len() / SHORTEST + 1);
    for chunk in FastCDC::new(buffer, SHORTEST, EASY, LONGEST) {
        let range = chunk.offset..chunk.offset + chunk.length;
        // Where the buffer ends a chunk seems to end too, unless it can't be longer anyway.
        if range.end == buffer.len() && !last && chunk.length < LONGEST {
            break;
        }
        chunks.push(range);
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(length: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut step = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        (0..length).map(|_| u8::try_from(step() & 0xff).unwrap()).collect()
    }

    fn lengths(content: &[u8], step: usize) -> Vec<usize> {
        let (mut start, mut end, mut found) = (0, 0, vec![]);
        while end < content.len() {
            end = (end + step).min(content.len());
            let chunks = cut(&content[start..end], end == content.len());
            found.extend(chunks.iter().map(ExactSizeIterator::len));
            start += chunks.last().map_or(0, |chunk| chunk.end);
        }
        assert_eq!(start, content.len());
        found
    }

    #[test]
    fn the_same_bytes_are_cut_the_same_however_they_arrive() {
        for content in [noise(3_000_001), vec![0; 1_500_000], noise(10), vec![]] {
            let whole: Vec<_> = cut(&content, true).iter().map(ExactSizeIterator::len).collect();
            for step in [1_048_576, 300_001, 70_000, 16_385] {
                assert_eq!(lengths(&content, step), whole, "step {step}");
            }
            let within = |length: &usize| (1..=LONGEST).contains(length);
            assert!(whole.iter().all(within));
        }
    }

    #[test]
    fn chunks_behind_an_insertion_are_cut_as_before() {
        let content = noise(4_000_000);
        let mut other = content.clone();
        other.splice(1_000_000..1_000_000, *b"something new");
        let whole = |content: &[u8]| -> Vec<Vec<u8>> {
            cut(content, true).into_iter().map(|range| content[range].to_vec()).collect()
        };
        let (before, after) = (whole(&content), whole(&other));
        let new = after.iter().filter(|chunk| !before.contains(chunk)).count();
        assert!(new <= 3, "{new} of {} chunks differ", after.len());
    }
}
