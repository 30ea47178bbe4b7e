//! How long a store keeps runs: archiving and pruning. And what a store does with dead letters.

use serde::{Deserialize, Serialize};

use super::letters::{
    AskLetters, Discarded, LetterHead, LetterRow, LetterStatus, Letters, StoredLetter,
};
use super::records::Records;
use super::requests::{Record, Requests};
use super::seam::{Created, QueueChange, StoreError};
use crate::run::{LetterId, RunId};
use crate::time::{Nanos, Timestamp};

/// The answer to [`Store::archive`](super::Store::archive).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Archived {
    /// It is archived.
    Done {
        /// When it was first archived, store time.
        since: Timestamp,
    },
    /// It has work left: only a run that has ended or is deactivated can be archived.
    Active,
    /// There is no such run.
    Unknown,
}

/// Removes all records of old runs: events, snapshot, results, queue rows, letters, submission key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prune {
    /// Looks at the runs after this one.
    pub after: Option<RunId>,
    /// The most runs looked at.
    pub limit: usize,
    /// Removes a run that ended at least this long ago.
    pub older_than: Nanos,
    /// Whether to remove archived runs only.
    pub archived_only: bool,
    /// Whether to remove a run whose dead letters still wait.
    pub with_letters: bool,
}

/// The answer to [`Prune`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pruned {
    /// Store time.
    pub at: Timestamp,
    /// The runs that this call removed.
    pub runs: Vec<RunId>,
    /// The next call continues after this run; `None` when all runs were looked at.
    pub next: Option<RunId>,
}

impl<S: Records> Requests<'_, S> {
    /// Stores the letters of one commit.
    pub(super) fn put_letters(
        &mut self,
        run: RunId,
        record: &mut Record,
        rows: &[LetterRow],
    ) -> Result<(), StoreError> {
        record.letters += rows.len() as u64;
        record.waiting += rows.len() as u64;
        record.code = rows.last().map(|row| row.code.as_str().into()).or(record.code.take());
        rows.iter().try_for_each(|row| {
            let head = LetterHead {
                id: LetterId { run, task: row.task },
                workflow: record.workflow.to_string(),
                action: row.action.clone(),
                code: row.code.clone(),
                message: row.message.clone(),
                at: self.now,
                redrives: record.redrives,
                status: LetterStatus::Waiting,
            };
            self.records.put_letter(&StoredLetter { head, body: row.body.clone() }, true)
        })
    }

    /// Marks a letter as redriven by `run`; returns the answer to the creation if that is impossible.
    pub(super) fn redrive(
        &mut self,
        id: LetterId,
        run: RunId,
    ) -> Result<Option<Created>, StoreError> {
        let Some(letter) = self.letter(id)? else {
            return Ok(Some(Created::UnknownLetter));
        };
        match letter.head.status {
            LetterStatus::Waiting => {
                self.decide(letter, LetterStatus::Redriven { run })?;
                Ok(None)
            }
            LetterStatus::Redriven { run } => Ok(Some(Created::AlreadyRedriven { run })),
            LetterStatus::Discarded { .. } => Ok(Some(Created::LetterDiscarded)),
        }
    }

    /// Discards a waiting letter.
    pub(super) fn discard(&mut self, id: LetterId, reason: &str) -> Result<Discarded, StoreError> {
        let Some(letter) = self.letter(id)? else { return Ok(Discarded::Unknown) };
        match letter.head.status {
            LetterStatus::Waiting => {
                self.decide(letter, LetterStatus::Discarded { reason: reason.to_owned() })?;
                Ok(Discarded::Done)
            }
            LetterStatus::Redriven { run } => Ok(Discarded::Redriven { run }),
            LetterStatus::Discarded { .. } => Ok(Discarded::Done),
        }
    }

    fn decide(&mut self, letter: StoredLetter, status: LetterStatus) -> Result<(), StoreError> {
        let run = letter.head.id.run;
        let mut record = self.existing(run)?;
        record.waiting = record.waiting.saturating_sub(1);
        let StoredLetter { head, body } = letter;
        self.records
            .put_letter(&StoredLetter { head: LetterHead { status, ..head }, body }, false)?;
        self.put_record(run, record)
    }

    /// One dead letter. A letter that its run counts and that is missing is damage.
    pub(super) fn letter(&self, id: LetterId) -> Result<Option<StoredLetter>, StoreError> {
        let (run, found) = (id.run, self.records.letter(id)?);
        if found.is_some() {
            return Ok(found);
        }
        let Some(record) = self.records.record(run)? else { return Ok(None) };
        let kept = self.records.tasks_with_letters(run)?;
        if kept.len() as u64 != record.letters || kept.contains(&id.task) {
            let what = format!("run {run}: its dead letters are not all there");
            return Err(StoreError::Broken(what));
        }
        Ok(None)
    }

    /// A page of dead letters.
    pub(super) fn letters(&self, ask: &AskLetters) -> Result<Letters, StoreError> {
        let (letters, damaged) = self.records.letters(ask.after, ask.limit, &ask.filter)?;
        Ok(Letters { at: self.now, letters, damaged })
    }

    /// Marks a run that is not active as archived.
    pub(super) fn archive(&mut self, run: RunId) -> Result<Archived, StoreError> {
        let Some(mut record) = self.records.record(run)? else { return Ok(Archived::Unknown) };
        if record.phase.is_active() {
            return Ok(Archived::Active);
        }
        if let Some(since) = record.archived {
            return Ok(Archived::Done { since });
        }
        record.archived = Some(self.now);
        self.put_record(run, record)?;
        Ok(Archived::Done { since: self.now })
    }

    /// Removes runs that ended long ago. A damaged run stays: a person must look at it.
    pub(super) fn prune(&mut self, prune: &Prune) -> Result<Pruned, StoreError> {
        let page = self.records.page(prune.after, prune.limit)?;
        let next = page.records.last().map(|(run, _)| *run);
        let mut runs = Vec::new();
        for (run, record) in page.records {
            let old = record.ended.is_some_and(|end| self.now.since(end) >= prune.older_than);
            let kept = prune.archived_only && record.archived.is_none()
                || !prune.with_letters && record.waiting > 0;
            if old && !kept {
                self.remove(run, record)?;
                runs.push(run);
            }
        }
        Ok(Pruned { at: self.now, runs, next })
    }

    fn remove(&mut self, run: RunId, mut record: Record) -> Result<(), StoreError> {
        let rows = self.queue.rows(run);
        let gone: Vec<_> = rows.iter().map(|row| QueueChange::Remove { task: row.task }).collect();
        self.change_queue(run, &mut record, &gone)?;
        if let Some(index) = &mut self.run_index {
            index.remove(run, &record);
        }
        self.records.remove_run(run, &record)
    }
}
