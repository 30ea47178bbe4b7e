//! Lists of runs, dead letters, archiving and pruning.

use retrial::run::{LetterId, RunId, Version};
use retrial::store::{
    Archived, AskLetters, Discarded, Heads, LetterHead, LetterStatus, Letters, Prune, Pruned,
    RunCursor, RunHead, StoredLetter, Stranded,
};

use super::{Naive, awake};

impl Naive {
    pub(super) fn heads(&self, after: Option<RunId>, limit: usize) -> Heads {
        let runs = self.runs.iter().filter(|(id, _)| after.is_none_or(|after| **id > after));
        let heads = runs.take(limit).map(|(&id, run)| RunHead {
            run: id,
            workflow: run.workflow.clone(),
            digest: run.digest,
            phase: run.phase,
            active: awake(run.phase),
            version: Version(run.events.len() as u64),
            created: run.created,
            ended: run.ended,
            archived: run.archived,
            redrives: run.redrives,
            tasks: self.rows.iter().filter(|row| row.run == id).count() as u64,
            letters: self.waiting(id) as u64,
            key: self.keys.iter().find(|(_, run)| **run == id).map(|(key, _)| key.clone()),
            code: run.code.clone(),
            fields: run.fields.clone(),
        });
        Heads { at: self.now, runs: heads.collect(), damaged: vec![] }
    }

    pub(super) fn stranded(&self, after: Option<RunCursor>, limit: usize) -> Stranded {
        let at = |head: &RunHead| RunCursor { created: head.created, run: head.run };
        let mut runs = self.heads(None, usize::MAX).runs;
        runs.retain(|head| head.active && head.tasks == 0 && Some(at(head)) > after);
        runs.sort_by_key(at);
        let more = runs.len() > limit;
        runs.truncate(limit);
        Stranded { next: runs.last().map(at).filter(|_| more), runs }
    }

    pub(super) fn waiting(&self, run: RunId) -> usize {
        let waits = |l: &&StoredLetter| l.head.status == LetterStatus::Waiting;
        self.letters.values().filter(|l| l.head.id.run == run).filter(waits).count()
    }

    pub(super) fn letters(&self, ask: &AskLetters) -> Letters {
        let heads = self.letters.values().map(|letter| letter.head.clone());
        let later = heads.filter(|head| ask.after.is_none_or(|after| head.id > after));
        let waiting =
            |head: &LetterHead| !ask.filter.waiting || head.status == LetterStatus::Waiting;
        let coded = |head: &LetterHead| ask.filter.code.as_ref().is_none_or(|c| *c == head.code);
        let (since, until) = (ask.filter.since, ask.filter.until);
        let timed = |head: &LetterHead| {
            since.is_none_or(|since| head.at >= since) && until.is_none_or(|until| head.at < until)
        };
        let wanted = later.filter(|head| waiting(head) && coded(head) && timed(head));
        let letters = wanted.take(ask.limit).collect();
        Letters { at: self.now, letters, damaged: vec![] }
    }

    pub(super) fn discard(&mut self, id: LetterId, reason: &str) -> Discarded {
        let Some(letter) = self.letters.get_mut(&id) else { return Discarded::Unknown };
        match letter.head.status {
            LetterStatus::Redriven { run } => return Discarded::Redriven { run },
            LetterStatus::Discarded { .. } => {}
            LetterStatus::Waiting => {
                letter.head.status = LetterStatus::Discarded { reason: reason.to_owned() };
            }
        }
        Discarded::Done
    }

    pub(super) fn archive(&mut self, run: RunId) -> Archived {
        let now = self.now;
        match self.runs.get_mut(&run) {
            None => Archived::Unknown,
            Some(run) if awake(run.phase) => Archived::Active,
            Some(run) => Archived::Done { since: *run.archived.get_or_insert(now) },
        }
    }

    pub(super) fn prune(&mut self, prune: &Prune) -> Pruned {
        let later =
            self.runs.keys().copied().filter(|id| prune.after.is_none_or(|after| *id > after));
        let seen: Vec<_> = later.take(prune.limit).collect();
        let goes = |id: &RunId| {
            let run = &self.runs[id];
            run.ended.is_some_and(|end| self.now.since(end) >= prune.older_than)
                && (!prune.archived_only || run.archived.is_some())
                && (prune.with_letters || self.waiting(*id) == 0)
        };
        let gone: Vec<_> = seen.iter().copied().filter(goes).collect();
        self.remove(&gone);
        Pruned { at: self.now, runs: gone, next: seen.last().copied() }
    }

    pub(super) fn remove(&mut self, gone: &[RunId]) {
        for id in gone {
            self.runs.remove(id);
            self.keys.retain(|_, run| run != id);
            self.letters.retain(|letter, _| letter.run != *id);
            self.rows.retain(|row| row.run != *id);
        }
    }
}
