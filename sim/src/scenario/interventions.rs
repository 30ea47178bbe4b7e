//! Commands of users for runs and failed work, as plain data.

use retrial::time::{Mono, Nanos};
use serde::{Deserialize, Serialize};

/// Everything that users do beside submitting, cancelling and deactivating.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interventions {
    /// The runs whose retries are paused for a while.
    #[serde(default)]
    pub pauses: Vec<Pause>,
    /// The waiting tasks that are failed by hand.
    #[serde(default)]
    pub by_hand: Vec<ManualFailure>,
    /// The commands for waiting dead letters.
    #[serde(default, rename = "mends")]
    pub letter_rounds: Vec<LetterRound>,
    /// The looks of a user who releases what is held in quarantine, before everything heals. After
    /// that somebody looks all the time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub releases: Vec<ReleaseRound>,
    /// The users who wait for a run or read its events. Nobody waits for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub followers: Vec<Follower>,
    /// The archiving and pruning when all runs have ended.
    #[serde(default, rename = "keeping")]
    pub cleanup: Option<Cleanup>,
}

impl Interventions {
    /// How many of these are waited for.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.pauses.len() + self.by_hand.len() + self.letter_rounds.len() + self.releases.len()
    }
}

/// A run whose retries are paused, and resumed before everything heals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// When it is paused.
    pub from: Mono,
    /// When it is resumed.
    pub until: Mono,
    /// The node that is asked first, from 0.
    pub node: u32,
    /// The run, by its submission's place.
    pub submission: usize,
}

/// The waiting tasks of one step of a run are failed, or one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManualFailure {
    /// When.
    pub at: Mono,
    /// The node that is asked first, from 0.
    pub node: u32,
    /// The run, by its submission's place.
    pub submission: usize,
    /// The step, by its place, counted round and round.
    pub step: usize,
    /// Only this item of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
}

/// A user releases every task that is held in quarantine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseRound {
    /// When.
    pub at: Mono,
    /// The node that is asked first, from 0.
    pub node: u32,
}

/// A user waits for a run, or reads its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Follower {
    /// From when on.
    pub at: Mono,
    /// The node that is asked first, from 0.
    pub node: u32,
    /// The run, by its submission's place.
    pub submission: usize,
    /// The first event to read, from 0; absent: only the run's outcome is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// How long the reader rests after each event.
    #[serde(default)]
    pub rest: Nanos,
}

/// A user handles every dead letter that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LetterRound {
    /// When.
    pub at: Mono,
    /// The node that is asked first, from 0.
    pub node: u32,
    /// The command for each of them.
    pub act: LetterAct,
}

/// A command for a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LetterAct {
    /// Redrives it.
    Redrive,
    /// Redrives it at two nodes at once.
    RedriveTwice,
    /// Discards it.
    Discard,
    /// Discards it at one node and redrives it at another, at once.
    Both,
}

/// The archiving and pruning when all runs have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cleanup {
    /// Of so many runs, by their ids, one is archived first; 0 for none.
    pub archive_every: usize,
    /// Whether only archived runs are pruned.
    pub archived_only: bool,
    /// Whether letters that wait do not keep their runs.
    pub with_letters: bool,
}
