//! Which chunks, or pieces, somebody has: one bit each.

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    bits: Vec<u64>,
    count: usize,
}

impl Held {
    pub fn all(length: usize) -> Self {
        let mut held = Self::default();
        for index in 0..length {
            held.insert(index);
        }
        held
    }

    pub fn contains(&self, index: usize) -> bool {
        self.bits.get(index / 64).is_some_and(|word| word & (1 << (index % 64)) != 0)
    }

    /// Whether it was not there before.
    pub fn insert(&mut self, index: usize) -> bool {
        let word = index / 64;
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        let bit = 1 << (index % 64);
        let new = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        self.count += usize::from(new);
        new
    }

    /// Whether it was there before.
    pub fn remove(&mut self, index: usize) -> bool {
        let there = self.contains(index);
        if there {
            self.bits[index / 64] &= !(1 << (index % 64));
            self.count -= 1;
        }
        there
    }

    pub fn contains_all(&self, mut range: std::ops::Range<usize>) -> bool {
        range.all(|index| self.contains(index))
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.bits.len() * 64).filter(|index| self.contains(*index))
    }

    /// The first one that is missing: everything before it is there.
    pub fn prefix(&self) -> usize {
        let full = self.bits.iter().take_while(|word| **word == u64::MAX).count();
        full * 64 + self.bits.get(full).map_or(0, |word| word.trailing_ones() as usize)
    }

    pub fn words(&self) -> &[u64] {
        &self.bits
    }

    pub fn from_words(bits: Vec<u64>) -> Self {
        let count = bits.iter().map(|word| word.count_ones() as usize).sum();
        Self { bits, count }
    }
}

impl FromIterator<usize> for Held {
    fn from_iter<I: IntoIterator<Item = usize>>(indexes: I) -> Self {
        let mut held = Self::default();
        for index in indexes {
            held.insert(index);
        }
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_ends_at_the_first_gap() {
        let mut held = Held::all(130);
        assert_eq!((held.prefix(), held.count()), (130, 130));
        assert!(held.remove(70));
        assert!(!held.remove(70));
        assert_eq!((held.prefix(), held.count()), (70, 129));
        assert!(held.contains_all(0..70));
        assert!(!held.contains_all(69..71));
        assert_eq!(Held::from_words(held.words().to_vec()), held);
        assert_eq!(held.iter().collect::<Held>().count(), 129);
    }
}
