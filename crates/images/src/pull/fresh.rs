//! Blocks of a stream that were just cut, for those who hash the whole: what they keep up with they need not read again.
//!
//! The stream waits for whoever keeps up, so that the slowest hash is not left alone with most of the image at its end. It
//! never waits for one that is behind, such as after an interruption: that one reads the file.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Blocks that are kept.
const MOST: usize = 8;

#[derive(Debug)]
pub(super) struct Fresh {
    ring: Mutex<Ring>,
    moved: Condvar,
}

#[derive(Debug)]
struct Ring {
    blocks: VecDeque<Block>,
    /// The chunk that each hash needs next; none once it has ended.
    next: Vec<Option<usize>>,
}

#[derive(Debug, Clone)]
pub(super) struct Block {
    pub generation: u64,
    /// The chunk that it begins with.
    pub first: usize,
    pub chunks: usize,
    /// Of those chunks, in bytes; what follows belongs to the next block.
    pub length: usize,
    pub bytes: Arc<Vec<u8>>,
}

impl Ring {
    /// Every hash is past the oldest block.
    fn has_been_taken(&self) -> bool {
        let past = |block: &Block| self.next.iter().flatten().all(|next| *next > block.first);
        self.blocks.front().is_some_and(past)
    }
}

/// What there is for a hash.
pub(super) enum Look {
    Block(Block),
    /// Nothing yet; before this chunk there never will be.
    Before(usize),
}

impl Fresh {
    pub(super) fn new(hashes: usize) -> Arc<Self> {
        let ring = Ring { blocks: VecDeque::new(), next: vec![Some(0); hashes] };
        Arc::new(Self { ring: Mutex::new(ring), moved: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands on a block that begins with `length` bytes of whole chunks. Gives a buffer back that nobody needs any more, or
    /// an empty one.
    pub(super) fn offer(&self, block: Block) -> Vec<u8> {
        let mut ring = self.lock();
        ring.blocks.retain(|other| other.generation == block.generation);
        let mut spare = Vec::new();
        loop {
            while ring.has_been_taken() {
                let taken = ring.blocks.pop_front().and_then(|block| Arc::try_unwrap(block.bytes).ok());
                spare = taken.unwrap_or(spare);
            }
            let Some(oldest) = ring.blocks.front().filter(|_| ring.blocks.len() >= MOST) else { break };
            if ring.next.iter().flatten().any(|next| *next == oldest.first) {
                ring = self.moved.wait(ring).unwrap_or_else(PoisonError::into_inner);
            } else {
                ring.blocks.pop_front();
            }
        }
        ring.blocks.push_back(block);
        spare.clear();
        spare
    }

    /// For the hash with this number, which needs chunk `next`.
    pub(super) fn look(&self, hash: usize, generation: u64, next: usize) -> Look {
        let mut ring = self.lock();
        if let Some(at) = ring.next.get_mut(hash) {
            *at = Some(next);
        }
        self.moved.notify_all();
        let mut blocks = ring.blocks.iter().filter(|block| block.generation == generation);
        match blocks.find(|block| block.first >= next) {
            Some(block) if block.first == next => Look::Block(block.clone()),
            Some(block) => Look::Before(block.first),
            None => Look::Before(usize::MAX),
        }
    }

    /// Nobody waits for this hash any more.
    pub(super) fn end(&self, hash: usize) {
        if let Some(at) = self.lock().next.get_mut(hash) {
            *at = None;
        }
        self.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(number: usize) -> Block {
        Block { generation: 1, first: number * 4, chunks: 4, length: 2, bytes: Arc::new(vec![1, 2, 3]) }
    }

    #[test]
    fn whoever_keeps_up_gets_every_block_and_buffers_come_back() {
        let fresh = Fresh::new(1);
        for number in 0..3 * MOST {
            let spare = fresh.offer(block(number));
            assert_eq!(spare.capacity() > 0, number > 0);
            assert!(matches!(fresh.look(0, 1, number * 4), Look::Block(it) if it.first == number * 4));
            assert!(matches!(fresh.look(0, 1, number * 4 + 4), Look::Before(usize::MAX)));
        }
    }

    #[test]
    fn nobody_waits_for_one_that_is_behind_or_has_ended() {
        let fresh = Fresh::new(2);
        fresh.end(1);
        // It needs what came before the first block, from the file.
        assert!(matches!(fresh.look(0, 1, 0), Look::Before(usize::MAX)));
        (1..3 * MOST).for_each(|number| drop(fresh.offer(block(number))));
        let oldest = 2 * MOST * 4;
        assert!(matches!(fresh.look(0, 1, 7), Look::Before(first) if first == oldest));
        // What was of another generation is gone.
        drop(fresh.offer(Block { generation: 2, ..block(0) }));
        assert!(matches!(fresh.look(0, 1, oldest), Look::Before(usize::MAX)));
        assert!(matches!(fresh.look(0, 2, 0), Look::Block(_)));
    }
}
