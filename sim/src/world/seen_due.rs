//! The tasks that wait, by what the store was told and answered, and the claims that pass one over.

use std::collections::BTreeMap;

use retrial::run::{RunId, TaskId};
use retrial::store::{Claim, Claimed, QueueChange};
use retrial::time::Timestamp;
use retrial::workflow::Need;

use crate::evidence::Slip;

/// A task of a run.
pub(super) type Place = (RunId, TaskId);

/// All tasks of which it is known since when they are due, and that they wait.
#[derive(Debug, Default)]
pub(super) struct SeenDue {
    waiting: BTreeMap<Place, (Timestamp, Need)>,
    /// How often the creation of each run was sent.
    sent: BTreeMap<RunId, u32>,
}

impl SeenDue {
    /// Nothing is known any more of what waits.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
    }

    pub(super) fn forget_run(&mut self, run: RunId) {
        self.waiting.retain(|(of, _), _| *of != run);
    }

    pub(super) fn forget_task(&mut self, place: Place) {
        self.waiting.remove(&place);
    }

    /// The creation of this run is sent.
    pub(super) fn sends(&mut self, run: RunId) {
        *self.sent.entry(run).or_default() += 1;
    }

    /// Whether it was sent once. One that was sent again may be answered as if it were new when its
    /// tasks have long ended.
    pub(super) fn is_sent_once(&self, run: RunId) -> bool {
        self.sent.get(&run) == Some(&1)
    }

    /// A change of the queue has landed. Where another request was under way, the task may have been
    /// claimed since.
    pub(super) fn changed(
        &mut self,
        run: RunId,
        change: &QueueChange,
        at: Timestamp,
        is_alone: bool,
    ) {
        let place = (run, change.task());
        self.waiting.remove(&place);
        if let (QueueChange::Due { after, need, .. }, true) = (change, is_alone) {
            self.waiting.insert(place, (at.after(*after), need.clone()));
        }
    }

    /// The tasks that this answer should have had or not had before others (X6: runs take turns, each
    /// with its earliest task first). `since` says when a task is due, given when it was to be; none
    /// if it can't be claimed.
    pub(super) fn passed_over(
        &self,
        claim: &Claim,
        answer: &Claimed,
        since: impl Fn(Place, Timestamp) -> Option<Timestamp>,
    ) -> Vec<(Place, Option<Slip>)> {
        let takes = |need: &Need| claim.able.can(need) && !claim.full.contains(&need.action);
        let due = self.waiting.iter().filter(|(_, (_, need))| takes(need));
        let due = due.filter_map(|(place, (due, _))| Some((*place, since(*place, *due)?)));
        let due: BTreeMap<Place, Timestamp> =
            due.filter(|(_, since)| *since <= answer.at).collect();
        let mut told: BTreeMap<RunId, Vec<TaskId>> = BTreeMap::new();
        answer.tasks.iter().for_each(|task| told.entry(task.run).or_default().push(task.task));
        let has_room = answer.tasks.len() < claim.limit;
        let twice = told.values().any(|tasks| tasks.len() > 1);
        let judge = |(run, task): Place, since: Timestamp| {
            let of_run = told.get(&run).map_or(&[][..], Vec::as_slice);
            let later = |other: &TaskId| due.get(&(run, *other)).is_some_and(|at| since < *at);
            if of_run.contains(&task) {
                None
            } else if has_room {
                Some(Slip::DueUnclaimed)
            } else if of_run.is_empty() && twice {
                Some(Slip::OutOfTurn)
            } else if of_run.iter().any(later) {
                Some(Slip::NotTheEarliest)
            } else {
                None
            }
        };
        due.iter().map(|(place, since)| (*place, judge(*place, *since))).collect()
    }
}
