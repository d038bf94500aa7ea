//! Numbers that look random and are the same for the same seed: ties are broken by them, so that not everybody asks for
//! the same. Not for secrets.

#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// SplitMix64.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of `0..below`; zero if there is none.
    pub fn below(&mut self, below: usize) -> usize {
        if below == 0 { 0 } else { usize::try_from(self.number() % below as u64).unwrap_or(0) }
    }
}
