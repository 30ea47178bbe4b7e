use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Notice, Observer};
use crate::run::{Recorded, RunId, Version};

/// Keeps the newest events of each run in memory, for tests.
#[derive(Debug)]
pub struct History {
    most: usize,
    runs: Mutex<BTreeMap<RunId, Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    events: VecDeque<(Version, Recorded)>,
    dropped: u64,
}

impl History {
    /// Keeps at most `most` events of each run.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { most, runs: Mutex::default() }
    }

    /// The runs with events, by id.
    #[must_use]
    pub fn runs(&self) -> Vec<RunId> {
        self.lock().keys().copied().collect()
    }

    /// The kept events of `run` with their numbers, in the order received.
    #[must_use]
    pub fn of(&self, run: RunId) -> Vec<(Version, Recorded)> {
        self.lock().get(&run).map_or_else(Vec::new, |kept| kept.events.iter().cloned().collect())
    }

    /// How many older events of `run` were dropped.
    #[must_use]
    pub fn dropped(&self, run: RunId) -> u64 {
        self.lock().get(&run).map_or(0, |kept| kept.dropped)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<RunId, Kept>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for History {
    fn tell(&self, notice: &Notice<'_>) {
        let mut runs = self.lock();
        let kept = runs.entry(notice.run).or_default();
        let recorded = Recorded { at: notice.at, event: notice.event.clone() };
        kept.events.push_back((notice.number, recorded));
        if kept.events.len() > self.most {
            kept.events.pop_front();
            kept.dropped += 1;
        }
    }
}
