//! Random numbers from data, never from the system.

/// `SplitMix64`, the generator of Steele, Lea and Flood (OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The stream of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        finish(self.0)
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

const fn finish(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number that depends on every bit of `a` and `b` and shows neither.
#[must_use]
pub const fn mix(a: u64, b: u64) -> u64 {
    finish(finish(a.wrapping_add(GOLDEN)) ^ b.wrapping_add(GOLDEN))
}
