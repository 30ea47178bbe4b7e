//! Chance that can be given again.

use retrial::runtime::{Runtime as _, TokioRuntime};

/// Numbers that follow from one.
#[derive(Clone, Debug)]
pub(crate) struct Seed(u64);

impl Seed {
    /// From `RETRIAL_FAULTS_SEED`, else drawn. Says which it is.
    pub(crate) fn drawn() -> Self {
        let given = std::env::var("RETRIAL_FAULTS_SEED").ok();
        let given = given.map(|text| text.parse().expect("RETRIAL_FAULTS_SEED is a number"));
        let seed = given.unwrap_or_else(|| TokioRuntime::current().random());
        println!("drawn by RETRIAL_FAULTS_SEED={seed}");
        Self(seed)
    }

    /// From a number.
    pub(crate) fn of(number: u64) -> Self {
        Self(number)
    }

    /// The next number.
    pub(crate) fn draw(&mut self) -> u64 {
        // The constants are SplitMix64's (Steele, Lea, Flood 2014).
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed ^ (mixed >> 29)
    }

    /// The next number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.draw() % limit
    }
}
