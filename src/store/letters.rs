//! The seam's words for dead letters: what a task that failed for good leaves behind (C18).

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::run::{LetterId, RunId, TaskId};
use crate::time::Timestamp;

/// A dead letter on its way into the store, in the commit of the failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterRow {
    /// The task.
    pub task: TaskId,
    /// Its action, for lists.
    pub action: String,
    /// Its error's code, for lists.
    pub code: String,
    /// The letter, encoded.
    pub body: Bytes,
}

/// What became of a dead letter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LetterStatus {
    /// It waits for somebody to decide.
    Waiting,
    /// A run of its own tries it again.
    Redriven {
        /// That run.
        run: RunId,
    },
    /// Nobody wants it tried again.
    Discarded {
        /// In the words of whoever decided, sanitised.
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
    /// When the task failed for good, store time.
    pub at: Timestamp,
    /// The letter that its run redrives: the same task's failure before this one.
    pub redrives: Option<LetterId>,
    /// What became of it.
    pub status: LetterStatus,
}

/// A dead letter whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredLetter {
    /// What lists show of it.
    pub head: LetterHead,
    /// The letter, encoded.
    pub body: Bytes,
}

/// Which letters are wanted: of each field that is given, only those.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LetterFilter {
    /// Of this workflow.
    pub workflow: Option<String>,
    /// Of this action.
    pub action: Option<String>,
    /// With this error code.
    pub code: Option<String>,
    /// Only those that wait.
    pub waiting: bool,
}

impl LetterFilter {
    /// Whether the letter is wanted.
    #[must_use]
    pub fn wants(&self, head: &LetterHead) -> bool {
        let fits = |wanted: &Option<String>, is: &str| wanted.as_ref().is_none_or(|w| w == is);
        fits(&self.workflow, &head.workflow)
            && fits(&self.action, &head.action)
            && fits(&self.code, &head.code)
            && (!self.waiting || head.status == LetterStatus::Waiting)
    }
}

/// Asks for a page of letters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskLetters {
    /// From the one after this.
    pub after: Option<LetterId>,
    /// The most letters wanted.
    pub limit: usize,
    /// Which.
    pub filter: LetterFilter,
}

/// A page of dead letters. One without letters is the last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Letters {
    /// Store time.
    pub at: Timestamp,
    /// The letters, by id.
    pub letters: Vec<LetterHead>,
    /// Letters among them that are damaged (spec decision 19): not in `letters`, nor counted.
    pub damaged: Vec<LetterId>,
}

/// The answer to a discarding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Discarded {
    /// It is discarded, now or before; the first reason stays.
    Done,
    /// It was redriven before, and stays so.
    Redriven {
        /// The run that redrives it.
        run: RunId,
    },
    /// There is no such letter.
    Unknown,
}
