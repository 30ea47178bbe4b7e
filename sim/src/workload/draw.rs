//! The generator behind every drawn scenario: `SplitMix64` (Steele, Lea, Flood 2014). It is not a
//! library's, so that a seed means the same on every machine and in every version of every library.

use retrial::time::{Mono, Nanos};

/// A stream of chance that a seed and a topic determine.
#[derive(Clone, Debug)]
pub struct Draw(u64);

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Draw {
    /// The stream of `seed` for `topic`. Topics have streams of their own, so that drawing one more
    /// thing about one does not change the others.
    #[must_use]
    pub fn new(seed: u64, topic: &str) -> Self {
        let start = topic.bytes().fold(mix(seed.wrapping_add(GOLDEN)), |at, byte| {
            mix((at ^ u64::from(byte)).wrapping_add(GOLDEN))
        });
        Self(start)
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// From 0 to `n - 1`; 0 for an `n` of 0.
    pub fn below(&mut self, n: u64) -> u64 {
        u64::try_from((u128::from(self.bits()) * u128::from(n)) >> 64).unwrap_or(0)
    }

    /// From `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below((high - low).saturating_add(1))
    }

    /// The same for small numbers.
    pub fn small(&mut self, low: u32, high: u32) -> u32 {
        u32::try_from(self.between(u64::from(low), u64::from(high))).unwrap_or(high)
    }

    /// True `percent` times in a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of them.
    pub fn pick<T, const N: usize>(&mut self, among: [T; N]) -> T {
        let at = self.index(N);
        let mut among = Vec::from(among);
        among.swap_remove(at)
    }

    /// An index into a list of `len`.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// Some of them, at least one.
    pub fn some<T: Copy, const N: usize>(&mut self, among: [T; N]) -> Vec<T> {
        let sure = self.index(N);
        let mut kept = Vec::new();
        for (at, one) in among.into_iter().enumerate() {
            if self.chance(30) || at == sure {
                kept.push(one);
            }
        }
        kept
    }

    /// A length of time between two counts of milliseconds.
    pub fn millis(&mut self, low: u64, high: u64) -> Nanos {
        Nanos::from_millis(self.between(low, high))
    }

    /// An instant before `end`, in whole microseconds.
    pub fn instant(&mut self, end: Mono) -> Mono {
        Mono::from_nanos(self.below(end.as_nanos() / 1_000) * 1_000)
    }
}
