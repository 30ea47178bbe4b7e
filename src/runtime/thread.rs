//! The clock of a thread that may block. Beside [`TokioRuntime`](super::TokioRuntime) the only file of
//! the library that reads the system's clocks and random numbers; nothing that is simulated uses it.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is what the seam hides"
)]

use std::hash::BuildHasher;
use std::time::{Duration, Instant};

use crate::time::{Mono, Nanos};

/// The clock of a thread that may block.
#[derive(Debug)]
pub(crate) struct ThreadClock(Instant);

impl ThreadClock {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(&self) -> Mono {
        Mono::from_nanos(Nanos::from(self.0.elapsed()).get())
    }

    pub(crate) fn sleep(&self, length: Nanos) {
        std::thread::sleep(Duration::from_nanos(length.get()));
    }

    /// `SipHash` of nothing under keys that the system draws.
    pub(crate) fn random(&self) -> u64 {
        std::collections::hash_map::RandomState::new().hash_one(())
    }
}
