//! The result of trying every state, in numbers and words.

use std::fmt;

use super::disk_trace::{DiskTrace, Effect};
use super::states::Surviving;

/// How many states there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// As many newest changes were tried in every subset.
    pub window: usize,
    /// The workload's steps.
    pub steps: usize,
    /// Its disk calls.
    pub ops: usize,
    /// The calls among them that change the disk.
    pub changes: usize,
    /// The calls among them that make changes durable.
    pub syncs: usize,
    /// The most changes that were not durable at once.
    pub deepest: usize,
    /// The states that a power failure may leave, over all calls.
    pub states: u64,
    /// Those among them with a torn write.
    pub torn: u64,
    /// Those that differ in bytes or in how far the workload had come.
    pub distinct: u64,
}

impl Counts {
    /// For a reader.
    #[must_use]
    pub fn words(&self) -> String {
        let Self { window, steps, ops, changes, syncs, deepest, states, torn, distinct } = self;
        let whole = states - torn;
        format!(
            "{steps} steps in {ops} disk calls: {changes} change the disk, {syncs} sync it; at most \
             {deepest} changes are not durable at once\n\
             {states} states that a power failure may leave (window {window}): {whole} of whole \
             writes, {torn} with a torn write\n\
             {distinct} distinct states\n"
        )
    }

    pub(super) fn of(trace: &DiskTrace, window: usize) -> Self {
        let count = |is: fn(&Effect) -> bool| trace.ops.iter().filter(|op| is(&op.effect)).count();
        Self {
            window,
            steps: trace.steps.len(),
            ops: trace.ops.len(),
            changes: count(|effect| matches!(effect, Effect::Change(_))),
            syncs: count(|effect| *effect == Effect::Sync),
            ..Self::default()
        }
    }

    /// Adds the states of one call, which leaves `deep` changes that are not durable.
    pub(super) fn add(&mut self, states: &[Surviving], deep: usize) {
        self.deepest = self.deepest.max(deep);
        self.states += states.len() as u64;
        self.torn +=
            states.iter().filter(|left| matches!(left, Surviving::Torn { .. })).count() as u64;
    }
}

/// A state in which something is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// The disk call during which the power failed, from 0; the number of calls means the end.
    pub op: usize,
    /// Which of the changes that were not durable are kept.
    pub left: Surviving,
    /// The finding.
    pub why: String,
}

/// One line for the reader.
impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "disk call {}, {}: {}", self.op, self.left, self.why)
    }
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many states there are. The distinct ones were judged, each once.
    pub counts: Counts,
    /// The findings, in the order of the calls.
    pub breaches: Vec<Breach>,
}

impl Report {
    /// The most breaches that are listed.
    const MOST_TOLD: usize = 20;

    /// Whether something was judged and all of it held.
    #[must_use]
    pub fn held(&self) -> bool {
        self.breaches.is_empty() && self.counts.distinct > 0
    }

    /// For a reader.
    #[must_use]
    pub fn words(&self) -> String {
        let mut text = self.counts.words();
        text += &format!(
            "each opened and judged: {} held, {} wrong\n",
            self.counts.distinct - self.breaches.len() as u64,
            self.breaches.len(),
        );
        for breach in self.breaches.iter().take(Self::MOST_TOLD) {
            text += &format!("{breach}\n");
        }
        if self.breaches.len() > Self::MOST_TOLD {
            text += &format!("and {} more\n", self.breaches.len() - Self::MOST_TOLD);
        }
        text
    }
}
