//! The commands of users for runs and dead letters, and the answers.

use retrial::run::{Letter, LetterId, RunId};
use retrial::store::{LetterHead, Prune, RunHead};
use retrial::time::Timestamp;

/// The commands of users, and the dead letters in the store.
#[derive(Clone, Debug, Default)]
pub struct InterventionEvidence {
    /// The dead letters; the second part is missing where it can't be read.
    pub letters: Vec<(LetterHead, Option<Letter>)>,
    /// Every answer to a redriving.
    pub redriven: Vec<(LetterId, RedriveAnswer)>,
    /// Letters that were discarded with success.
    pub discarded: Vec<LetterId>,
    /// Steps that were failed by hand, where that was answered well.
    pub by_hand: u64,
    /// The runs that were pruned at the end.
    pub pruned: Option<Pruning>,
}

/// The answer to a redriving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedriveAnswer {
    /// This run redrives it.
    By(RunId),
    /// This run was first.
    Before(RunId),
    /// It was discarded.
    Discarded,
    /// Anything else.
    Refused,
}

/// A pruning, and the store before and after it.
#[derive(Clone, Debug)]
pub struct Pruning {
    /// The command.
    pub asked: Prune,
    /// Store time of the answer that listed the runs before.
    pub at: Timestamp,
    /// Store time of the answer that listed the runs after.
    pub until: Timestamp,
    /// The runs before.
    pub before: Vec<RunHead>,
    /// The runs that were said to be removed.
    pub gone: Vec<RunId>,
    /// The runs after.
    pub after: Vec<RunHead>,
    /// The letters after.
    pub letters: Vec<LetterId>,
    /// Runs of `gone` that can still be loaded.
    pub readable: Vec<RunId>,
}
