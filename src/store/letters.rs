//! The seam's types for dead letters: the record of a task that failed and has no retries left.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::run::{LetterId, RunId, TaskId};
use crate::time::Timestamp;

/// A new dead letter, in the commit of the failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterRow {
    /// The task.
    pub task: TaskId,
    /// Its action, for lists.
    pub action: String,
    /// Its error's code, for lists.
    pub code: String,
    /// The beginning of its error's message, for lists.
    #[serde(default)]
    pub message: String,
    /// The letter, encoded.
    pub body: Bytes,
}

impl LetterRow {
    /// The longest message, in characters.
    pub const MAX_MESSAGE: usize = 200;
}

/// The status of a dead letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LetterStatus {
    /// It waits for a decision.
    Waiting,
    /// A separate run tries it again.
    Redriven {
        /// That run.
        run: RunId,
    },
    /// It is not tried again.
    Discarded {
        /// The reason given, sanitised.
        reason: String,
    },
}

/// A dead letter in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterHead {
    /// The letter.
    pub id: LetterId,
    /// Its workflow's name.
    pub workflow: String,
    /// Its action.
    pub action: String,
    /// Its error's code.
    pub code: String,
    /// The beginning of its error's message, sanitised.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When the task failed, store time.
    pub at: Timestamp,
    /// The letter that its run redrives: the same task's earlier failure.
    pub redrives: Option<LetterId>,
    /// Its status.
    pub status: LetterStatus,
}

/// A dead letter with its body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredLetter {
    /// The part that lists show.
    pub head: LetterHead,
    /// The letter, encoded.
    pub body: Bytes,
}

/// Which letters to return: those that match every field that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterFilter {
    /// Of this workflow.
    pub workflow: Option<String>,
    /// Of this action.
    pub action: Option<String>,
    /// With this error code.
    pub code: Option<String>,
    /// Only letters that wait.
    pub waiting: bool,
    /// Of tasks that failed at this time or later, store time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Of tasks that failed before this time, store time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl LetterFilter {
    /// Whether the letter matches.
    #[must_use]
    pub fn wants(&self, head: &LetterHead) -> bool {
        let fits = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|w| w == is);
        fits(&self.workflow, &head.workflow)
            && fits(&self.action, &head.action)
            && fits(&self.code, &head.code)
            && self.since.is_none_or(|since| head.at >= since)
            && self.until.is_none_or(|until| head.at < until)
            && (!self.waiting || head.status == LetterStatus::Waiting)
    }
}

/// Asks for a page of letters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskLetters {
    /// Starts after this letter.
    pub after: Option<LetterId>,
    /// The most letters to return.
    pub limit: usize,
    /// Which letters.
    pub filter: LetterFilter,
}

/// A page of dead letters. A page without letters is the last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Letters {
    /// Store time.
    pub at: Timestamp,
    /// The letters, by id.
    pub letters: Vec<LetterHead>,
    /// Damaged letters in this range. They are not in `letters` and do not count towards the limit.
    pub damaged: Vec<LetterId>,
}

/// The answer to [`Store::discard`](super::Store::discard).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Discarded {
    /// It is discarded, now or before. The first reason stays.
    Done,
    /// It was redriven before and stays redriven.
    Redriven {
        /// The run that redrives it.
        run: RunId,
    },
    /// There is no such letter.
    Unknown,
}
