//! The commands of users for runs and dead letters, and the answers.

use retrial::run::{Letter, LetterId, RunId};
use retrial::store::{LetterFilter, LetterHead, Prune, RunFilter, RunHead, Tally};
use retrial::time::Timestamp;

use super::Followed;

/// The commands of users, and the dead letters in the store.
#[derive(Clone, Debug, Default)]
pub struct InterventionEvidence {
    /// The dead letters; the second part is missing where it can't be read.
    pub letters: Vec<(LetterHead, Option<Letter>)>,
    /// Every answer to a redriving.
    pub redriven: Vec<(LetterId, RedriveAnswer)>,
    /// Letters that were discarded with success.
    pub discarded: Vec<LetterId>,
    /// What was to be failed by hand.
    pub by_hand: Vec<ByHand>,
    /// What users were told who wait for a run or read its events.
    pub followed: Vec<Followed>,
    /// What was listed when all had ended, or why nothing was; `None` where nobody asked.
    pub listed: Option<Result<Listing, String>>,
    /// The runs that were pruned at the end.
    pub pruned: Option<Pruning>,
    /// The same after the pruning, by a store that had been opened again.
    pub reopened: Option<Result<Listing, String>>,
}

/// A user wanted what waits of a step to fail.
#[derive(Clone, Debug)]
pub struct ByHand {
    /// The run.
    pub run: RunId,
    /// The step's name.
    pub step: String,
    /// Only this item of it.
    pub item: Option<u32>,
    /// Whether something was failed, as a node says.
    pub is_done: bool,
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

/// The rows of some lists, read page by page.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The most rows of a page.
    pub limit: usize,
    /// Every run, by id.
    pub heads: Vec<RunHead>,
    /// Runs, and which were asked for.
    pub runs: Vec<(RunFilter, Vec<RunHead>)>,
    /// Dead letters, and which were asked for.
    pub letters: Vec<(LetterFilter, Vec<LetterHead>)>,
    /// How many there are.
    pub tally: Tally,
    /// How many rows were said to be damaged.
    pub damaged: usize,
}
