//! What a program printed, bounded: all of it up to a limit, or its beginning and its end. Pure.

use std::collections::VecDeque;

use super::run::Overflow;

pub(crate) struct Capture {
    limit: usize,
    overflow: Overflow,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl Capture {
    pub(crate) fn new(limit: usize, overflow: Overflow) -> Self {
        Self { limit, overflow, head: Vec::new(), tail: VecDeque::new(), left_out: 0 }
    }

    /// False: that was more than is allowed, and the program has to go.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> bool {
        let head_limit = match self.overflow {
            Overflow::Stop => self.limit,
            Overflow::Trim => self.limit / 2,
        };
        let fits = bytes.len().min(head_limit - self.head.len());
        let (head, rest) = bytes.split_at(fits);
        self.head.extend_from_slice(head);
        if rest.is_empty() {
            return true;
        }
        if self.overflow == Overflow::Stop {
            self.left_out += rest.len() as u64;
            return false;
        }
        self.tail.extend(rest);
        let excess = self.tail.len().saturating_sub(self.limit - head_limit);
        self.tail.drain(..excess);
        self.left_out += excess as u64;
        true
    }

    pub(crate) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Head and tail, with a line between them where something is missing.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        let mut bytes = self.head;
        if self.left_out > 0 && self.overflow == Overflow::Trim {
            bytes.extend_from_slice(format!("\n[{} bytes left out]\n", self.left_out).as_bytes());
        }
        bytes.extend(self.tail);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(limit: usize, overflow: Overflow, pieces: &[&str]) -> (Vec<bool>, String) {
        let mut capture = Capture::new(limit, overflow);
        let fine = pieces.iter().map(|piece| capture.take(piece.as_bytes())).collect();
        (fine, String::from_utf8(capture.into_bytes()).unwrap())
    }

    #[test]
    fn output_up_to_the_limit_is_kept_whole_in_both_modes() {
        for overflow in [Overflow::Stop, Overflow::Trim] {
            assert_eq!(fed(8, overflow, &["abc", "", "defgh"]), (vec![true; 3], "abcdefgh".into()));
        }
    }

    #[test]
    fn one_byte_more_stops_or_loses_its_middle() {
        assert_eq!(fed(8, Overflow::Stop, &["abcdefghi"]), (vec![false], "abcdefgh".into()));
        let (fine, text) = fed(8, Overflow::Trim, &["abcd", "efghi", "jklm"]);
        assert_eq!((fine, text.as_str()), (vec![true; 3], "abcd\n[5 bytes left out]\njklm"));
    }

    #[test]
    fn a_limit_of_nothing_keeps_nothing() {
        assert_eq!(fed(0, Overflow::Stop, &[""]).0, [true]);
        assert_eq!(fed(0, Overflow::Stop, &["x"]).0, [false]);
        assert_eq!(fed(0, Overflow::Trim, &["x"]).1, "\n[1 bytes left out]\n");
    }
}
