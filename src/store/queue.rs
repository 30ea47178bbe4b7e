//! The queue in memory, shared by the memory and redb stores: what is due, reserved and leased.

use std::collections::{BTreeMap, BTreeSet};

use super::seam::{
    Claim, Claimed, ClaimedTask, Expired, ExpiredTask, Fence, Holding, QueueChange, QueueRow,
    QueueState, RunPhase,
};
use crate::run::{RunId, TaskId, Token};
use crate::schedule::{DueQueue, Key};
use crate::time::{Nanos, Timestamp};
use crate::workflow::StepIx;

/// Every queue row, and when something next happens to the rows of active runs.
#[derive(Debug, Default)]
pub(super) struct Queue {
    runs: BTreeMap<RunId, Rows>,
    index: Index,
    given: BTreeMap<u64, Given>,
    minted: u32,
}

/// The rows of one run. While it is at rest (deactivated or ended) none of them is indexed.
#[derive(Debug, Default)]
struct Rows {
    at_rest: bool,
    rows: BTreeMap<TaskId, Row>,
}

#[derive(Debug)]
struct Row {
    attempt: u32,
    state: State,
}

#[derive(Debug)]
enum State {
    Waiting { at: Timestamp, key: Option<Key>, reserved: Option<Reservation> },
    Leased { token: Token, until: Timestamp, deadline: Option<Timestamp> },
}

#[derive(Clone, Copy, Debug)]
struct Reservation {
    token: Token,
    until: Timestamp,
}

/// Waiting rows by when they are due, a reserved one at the end of its reservation; leased rows by
/// when their lease ends.
#[derive(Debug, Default)]
struct Index {
    due: DueQueue<(RunId, TaskId)>,
    ends: BTreeSet<(Timestamp, RunId, TaskId)>,
}

/// The last claim of one writer, answered again when it is asked again.
#[derive(Debug)]
struct Given {
    counter: u64,
    until: Timestamp,
    answer: Claimed,
}

impl Queue {
    /// How many rows a run has.
    pub(super) fn count(&self, run: RunId) -> u64 {
        self.runs.get(&run).map_or(0, |r| r.rows.len() as u64)
    }

    /// A run's rows, by task.
    pub(super) fn rows(&self, run: RunId) -> Vec<QueueRow> {
        let rows = self.runs.get(&run).into_iter().flat_map(|r| &r.rows);
        rows.map(|(&task, row)| row.shown(task)).collect()
    }

    /// Takes a run's stored rows in, as a store does when it opens.
    #[cfg(feature = "redb")]
    pub(super) fn restore(&mut self, run: RunId, phase: RunPhase, rows: Vec<QueueRow>) {
        let kept = self.runs.entry(run).or_default();
        kept.at_rest = !phase.is_active();
        for row in rows {
            kept.put(&mut self.index, run, row);
        }
    }

    /// Changes a run's rows and gives what became of each changed task's row, in order.
    pub(super) fn apply(
        &mut self,
        run: RunId,
        phase: RunPhase,
        changes: &[QueueChange],
        now: Timestamp,
    ) -> Vec<(TaskId, Option<QueueRow>)> {
        let rows = self.runs.entry(run).or_default();
        rows.rest(&mut self.index, run, !phase.is_active());
        let changed = changes.iter().map(|c| rows.change(&mut self.index, run, *c, now)).collect();
        if rows.rows.is_empty() {
            self.runs.remove(&run);
        }
        changed
    }

    /// Reserves what is due, earliest first. A claim that is older than its writer's last gets
    /// nothing: nobody waits for its answer.
    pub(super) fn claim(&mut self, claim: &Claim, now: Timestamp) -> Claimed {
        match self.given.get(&claim.id.writer) {
            Some(given) if given.counter == claim.id.counter => return given.answer.clone(),
            Some(given) if given.counter > claim.id.counter => return self.claimed(now, vec![]),
            _ => {}
        }
        let until = now.after(claim.lasts);
        let due = std::iter::from_fn(|| self.index.due.pop(now)).take(claim.limit);
        let due: Vec<_> = due.map(|(_, place)| place).collect();
        let tasks = due.into_iter().filter_map(|place| self.reserve(place, claim, now)).collect();
        let answer = self.claimed(now, tasks);
        self.given.retain(|_, given| given.until > now);
        let given = Given { counter: claim.id.counter, until, answer: answer.clone() };
        self.given.insert(claim.id.writer, given);
        answer
    }

    fn claimed(&mut self, at: Timestamp, tasks: Vec<ClaimedTask>) -> Claimed {
        Claimed { at, tasks, next_due: self.index.due.next_due() }
    }

    fn reserve(
        &mut self,
        (run, task): (RunId, TaskId),
        claim: &Claim,
        now: Timestamp,
    ) -> Option<ClaimedTask> {
        let token = self.mint(task, claim, now);
        let row = self.runs.get_mut(&run)?.rows.get_mut(&task)?;
        let State::Waiting { key, reserved, .. } = &mut row.state else { return None };
        let until = now.after(claim.lasts);
        *reserved = Some(Reservation { token, until });
        *key = Some(self.index.due.insert(until, (run, task)));
        Some(ClaimedTask { run, task, attempt: row.attempt, token })
    }

    /// A token for `task`. The count starts again when a store is opened again, so the claim's name
    /// and time go in beside it.
    fn mint(&mut self, task: TaskId, claim: &Claim, now: Timestamp) -> Token {
        self.minted = self.minted.wrapping_add(1);
        let high = task.chance(claim.chance ^ claim.id.counter, self.minted);
        let low = task.chance(!claim.chance ^ claim.id.writer, self.minted);
        Token::from_random(task.chance(high, 0) ^ now.as_nanos(), low)
    }

    /// Whether a fence holds. A reservation holds until its end; a lease until another commit
    /// replaces it, so that its holder and a sweeper can't both win.
    pub(super) fn stands(&self, run: RunId, fence: &Fence, now: Timestamp) -> bool {
        let (Fence::Held { task, token } | Fence::Lapsed { task, token }) = fence;
        let Some(row) = self.runs.get(&run).and_then(|r| r.rows.get(task)) else { return false };
        match (&row.state, fence) {
            (State::Waiting { reserved: Some(r), .. }, Fence::Held { .. }) => {
                r.token == *token && now < r.until
            }
            (State::Leased { token: held, .. }, Fence::Held { .. }) => held == token,
            (State::Leased { token: held, until, deadline }, Fence::Lapsed { .. }) => {
                held == token && end(*until, *deadline) <= now
            }
            (State::Waiting { .. }, _) => false,
        }
    }

    /// Extends a lease whose token is good and whose attempt still has time; gives its row.
    pub(super) fn renew(&mut self, held: &Holding, now: Timestamp) -> Option<QueueRow> {
        let rows = self.runs.get_mut(&held.run)?;
        let row = rows.rows.get_mut(&held.task)?;
        let State::Leased { token, until, deadline } = &mut row.state else { return None };
        if *token != held.token || deadline.is_some_and(|d| d <= now) {
            return None;
        }
        let before = end(*until, *deadline);
        *until = (*until).max(now.after(held.lasts)).min(deadline.unwrap_or(LAST));
        if self.index.ends.remove(&(before, held.run, held.task)) {
            self.index.ends.insert((end(*until, *deadline), held.run, held.task));
        }
        Some(row.shown(held.task))
    }

    /// Leases of running runs whose end has come, earliest first.
    pub(super) fn expired(&self, limit: usize, now: Timestamp) -> Expired {
        let over = self.index.ends.iter().take_while(|(end, ..)| *end <= now).take(limit);
        let tasks = over.filter_map(|&(_, run, task)| self.lapsed(run, task)).collect();
        let later = first_place(now.after(Nanos::new(1)))..;
        let next = self.index.ends.range(later).next().map(|(end, ..)| *end);
        Expired { at: now, tasks, next }
    }

    fn lapsed(&self, run: RunId, task: TaskId) -> Option<ExpiredTask> {
        let row = self.runs.get(&run)?.rows.get(&task)?;
        let State::Leased { token, until, deadline } = row.state else { return None };
        let timed_out = deadline.is_some_and(|d| d <= until);
        Some(ExpiredTask { run, task, attempt: row.attempt, token, timed_out })
    }
}

const LAST: Timestamp = Timestamp::from_nanos(u64::MAX);

/// When a lease ends: `timeout_at`, the earlier of lease end and deadline (spec decision 12).
fn end(until: Timestamp, deadline: Option<Timestamp>) -> Timestamp {
    until.min(deadline.unwrap_or(LAST))
}

fn first_place(at: Timestamp) -> (Timestamp, RunId, TaskId) {
    (at, RunId::from_bytes([0; 16]), TaskId { step: StepIx(0), item: 0 })
}

impl Rows {
    fn rest(&mut self, index: &mut Index, run: RunId, at_rest: bool) {
        if self.at_rest == at_rest {
            return;
        }
        self.at_rest = at_rest;
        for (&task, row) in &mut self.rows {
            if at_rest {
                index.drop(run, task, row);
            } else {
                index.add(run, task, row);
            }
        }
    }

    fn change(
        &mut self,
        index: &mut Index,
        run: RunId,
        change: QueueChange,
        now: Timestamp,
    ) -> (TaskId, Option<QueueRow>) {
        let row = match change {
            QueueChange::Due { task, attempt, after } => {
                QueueRow { task, attempt, state: QueueState::Due { at: now.after(after) } }
            }
            QueueChange::Lease { task, attempt, token, lasts, timeout } => {
                let deadline = timeout.map(|t| now.after(t));
                let until = end(now.after(lasts), deadline);
                QueueRow { task, attempt, state: QueueState::Leased { token, until, deadline } }
            }
            QueueChange::Remove { task } => {
                self.remove(index, run, task);
                return (task, None);
            }
        };
        self.put(index, run, row);
        (row.task, Some(row))
    }

    fn put(&mut self, index: &mut Index, run: RunId, row: QueueRow) {
        self.remove(index, run, row.task);
        let state = match row.state {
            QueueState::Due { at } => State::Waiting { at, key: None, reserved: None },
            QueueState::Leased { token, until, deadline } => {
                State::Leased { token, until, deadline }
            }
        };
        let mut kept = Row { attempt: row.attempt, state };
        if !self.at_rest {
            index.add(run, row.task, &mut kept);
        }
        self.rows.insert(row.task, kept);
    }

    fn remove(&mut self, index: &mut Index, run: RunId, task: TaskId) {
        if let Some(mut row) = self.rows.remove(&task) {
            index.drop(run, task, &mut row);
        }
    }
}

impl Row {
    fn shown(&self, task: TaskId) -> QueueRow {
        let state = match self.state {
            State::Waiting { at, .. } => QueueState::Due { at },
            State::Leased { token, until, deadline } => {
                QueueState::Leased { token, until, deadline }
            }
        };
        QueueRow { task, attempt: self.attempt, state }
    }
}

impl Index {
    fn add(&mut self, run: RunId, task: TaskId, row: &mut Row) {
        match &mut row.state {
            State::Waiting { at, key, reserved } => {
                let due = reserved.map_or(*at, |r| r.until);
                *key = Some(self.due.insert(due, (run, task)));
            }
            State::Leased { until, deadline, .. } => {
                self.ends.insert((end(*until, *deadline), run, task));
            }
        }
    }

    /// Takes the row out of the index; one that is not in it stays so.
    fn drop(&mut self, run: RunId, task: TaskId, row: &mut Row) {
        match &mut row.state {
            State::Waiting { key, .. } => {
                key.take().and_then(|key| self.due.cancel(key));
            }
            State::Leased { until, deadline, .. } => {
                self.ends.remove(&(end(*until, *deadline), run, task));
            }
        }
    }
}
