//! The queue in memory, which all stores decide on: what is due, reserved and leased.

use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};

use super::due_index::{DueIndex, Place};
use super::seam::{
    Claim, Claimed, ClaimedTask, Expired, ExpiredTask, Fence, Holding, LeasedTask, QueueChange,
    QueueRow, QueueState, RunPhase,
};
use crate::run::{RunId, TaskId, Token};
use crate::time::Timestamp;
use crate::workflow::Need;

#[cfg(feature = "redb")]
mod restored;
mod row;
#[cfg(feature = "postgres")]
mod row_transfer;
mod task_rows;

use row::{Lease, Reservation, Row, State, Waiting};
use task_rows::TaskRows;

#[cfg(feature = "redb")]
pub(super) use restored::Restored;
#[cfg(feature = "postgres")]
pub(super) use row_transfer::FullRow;

/// Every queue row, and an index of what happens next to the rows of active runs.
#[derive(Debug, Default)]
pub(super) struct Queue {
    runs: BTreeMap<RunId, Rows>,
    index: DueIndex,
    given: BTreeMap<u64, Given>,
    minted: u32,
}

/// The rows of one run. While the run is at rest (deactivated or ended) none of them is indexed.
#[derive(Debug, Default)]
struct Rows {
    at_rest: bool,
    rows: TaskRows,
    /// How many more rows the run has that were not loaded.
    not_loaded: u64,
}

/// The last claim of one writer. The same claim gets the same answer again.
#[derive(Debug)]
struct Given {
    counter: u64,
    until: Timestamp,
    answer: Claimed,
}

impl Queue {
    /// How many rows a run has.
    pub(super) fn count(&self, run: RunId) -> u64 {
        self.runs.get(&run).map_or(0, |r| r.rows.len() as u64 + r.not_loaded)
    }

    /// A run's rows, by task.
    pub(super) fn rows(&self, run: RunId) -> Vec<QueueRow> {
        let rows = self.runs.get(&run).into_iter().flat_map(|r| r.rows.iter());
        rows.map(|(task, row)| row.to_queue_row(task)).collect()
    }

    /// Changes a run's rows. Returns each changed task's row, in order; `None` for a removed one.
    pub(super) fn apply(
        &mut self,
        run: RunId,
        phase: RunPhase,
        changes: &[QueueChange],
        now: Timestamp,
    ) -> Vec<(TaskId, Option<QueueRow>)> {
        let rows = self.runs.entry(run).or_default();
        rows.set_at_rest(&mut self.index, run, !phase.is_active());
        let changed = changes.iter().map(|c| rows.change(&mut self.index, run, c, now)).collect();
        if rows.rows.len() == 0 && rows.not_loaded == 0 {
            self.runs.remove(&run);
        }
        changed
    }

    /// Reserves what is due. The runs take turns, each with its earliest task first. A claim that is
    /// older than its writer's last gets nothing: nobody waits for its answer.
    pub(super) fn claim(&mut self, claim: &Claim, now: Timestamp) -> Claimed {
        match self.given.get(&claim.id.writer) {
            Some(given) if given.counter == claim.id.counter => return given.answer.clone(),
            Some(given) if given.counter > claim.id.counter => {
                return self.claimed(now, claim, vec![]);
            }
            _ => {}
        }
        let until = now.after(claim.lasts);
        let due = self.index.take(claim, now);
        let tasks = due.into_iter().filter_map(|place| self.reserve(place, claim, now)).collect();
        let answer = self.claimed(now, claim, tasks);
        self.given.retain(|_, given| given.until > now);
        let given = Given { counter: claim.id.counter, until, answer: answer.clone() };
        self.given.insert(claim.id.writer, given);
        answer
    }

    fn claimed(&mut self, at: Timestamp, claim: &Claim, tasks: Vec<ClaimedTask>) -> Claimed {
        let next_due = self.index.next_due(claim, at);
        Claimed { at, tasks, next_due, unable: self.index.unable(&claim.able) }
    }

    fn reserve(&mut self, place: Place, claim: &Claim, now: Timestamp) -> Option<ClaimedTask> {
        let (run, task) = place;
        let minted = self.mint(task, claim, now);
        let row = self.runs.get_mut(&run)?.rows.get_mut(&task)?;
        let Row { attempt, state: State::Waiting(waiting), rare } = row else { return None };
        self.index.hold_queue.remove(rare.take_held());
        let until = now.after(claim.lasts);
        rare.reserve(Reservation { token: minted, until });
        waiting.ticket = Some(self.index.add_waiting(place, until, &waiting.need));
        let need = Need::clone(&waiting.need);
        let (attempt, progress) = (*attempt, rare.progress().cloned());
        Some(ClaimedTask { run, task, attempt, need, token: minted, progress })
    }

    /// A token for `task`. The count starts again when a store is reopened, so the token also depends
    /// on the claim's id and on the time.
    fn mint(&mut self, task: TaskId, claim: &Claim, now: Timestamp) -> Token {
        self.minted = self.minted.wrapping_add(1);
        let high = task.chance(claim.chance ^ claim.id.counter, self.minted);
        let low = task.chance(!claim.chance ^ claim.id.writer, self.minted);
        Token::from_random(task.chance(high, 0) ^ now.as_nanos(), low)
    }

    /// Whether a fence holds. A reservation holds until its end. A lease holds until another commit
    /// replaces it, so its holder and a sweeper can't both win.
    pub(super) fn fence_holds(&self, run: RunId, fence: &Fence, now: Timestamp) -> bool {
        let (Fence::Held { task, token } | Fence::Lapsed { task, token }) = fence;
        let Some(row) = self.runs.get(&run).and_then(|r| r.rows.get(task)) else { return false };
        match (&row.state, fence) {
            (State::Waiting(_), Fence::Held { .. }) => {
                row.rare.reserved().is_some_and(|r| r.token == *token && now < r.until)
            }
            (State::Leased(lease), Fence::Held { .. }) => lease.token == *token,
            (State::Leased(lease), Fence::Lapsed { .. }) => {
                lease.token == *token && lease.until <= now
            }
            (State::Waiting(_), Fence::Lapsed { .. }) => false,
        }
    }

    /// Ends the reservation of a task that the guard of `action` holds back: it is due again at
    /// `until`, or when the guard lets it through. This is not durable: a task whose hold is lost
    /// asks the guard again, which uses up nothing.
    pub(super) fn hold(&mut self, place: Place, action: &str, until: Timestamp) {
        let Some(rows) = self.runs.get_mut(&place.0).filter(|rows| !rows.at_rest) else { return };
        let Some(row) = rows.rows.get_mut(&place.1) else { return };
        let Row { state: State::Waiting(Waiting { need, ticket, .. }), rare, .. } = row else {
            return;
        };
        ticket.take().into_iter().for_each(|ticket| self.index.remove_waiting(ticket, need));
        self.index.hold_queue.remove(rare.take_held());
        rare.end_reservation();
        *ticket = Some(self.index.add_waiting(place, until, need));
        rare.hold(self.index.hold_queue.push(action, place));
    }

    /// How many tasks the guard of `action` holds back.
    pub(super) fn held(&self, action: &str) -> u64 {
        self.index.hold_queue.count(action)
    }

    /// Makes the first `most` tasks that the guard of `action` holds back due now.
    pub(super) fn let_through(&mut self, action: &str, most: usize, now: Timestamp) {
        for place in self.index.hold_queue.first(action, most) {
            let row = self.runs.get_mut(&place.0).and_then(|rows| rows.rows.get_mut(&place.1));
            let Some(Row { state: State::Waiting(Waiting { need, ticket, .. }), rare, .. }) = row
            else {
                continue;
            };
            ticket.take().into_iter().for_each(|ticket| self.index.remove_waiting(ticket, need));
            self.index.hold_queue.remove(rare.take_held());
            *ticket = Some(self.index.add_waiting(place, now, need));
        }
    }

    /// Whether the attempt under `token` may still be in progress: it holds the lease, and the lease
    /// has not passed if its run is at rest, since no sweep ends the leases of such a run.
    pub(super) fn may_run(&self, run: RunId, task: TaskId, token: Token, now: Timestamp) -> bool {
        let Some(rows) = self.runs.get(&run) else { return false };
        rows.rows.get(&task).is_some_and(|row| match &row.state {
            State::Leased(lease) => lease.token == token && (!rows.at_rest || now < lease.until),
            State::Waiting(_) => false,
        })
    }

    /// Extends a lease if its token is valid and its attempt has time left. Returns its row.
    pub(super) fn renew(&mut self, held: &Holding, now: Timestamp) -> Option<QueueRow> {
        let rows = self.runs.get_mut(&held.run)?;
        let row = rows.rows.get_mut(&held.task)?;
        let State::Leased(lease) = &mut row.state else { return None };
        let passed = |end: Option<Timestamp>| end.is_some_and(|end| end <= now);
        if lease.token != held.token || passed(lease.deadline) || passed(lease.beat_by) {
            return None;
        }
        let before = lease.until;
        if let Some(beat) = &held.heartbeat {
            lease.beat_by = lease.beat_by.map(|by| by.max(now.after(beat.within)));
            row.rare.note_progress(beat.progress.as_ref());
        }
        lease.until = lease.end(before.max(now.after(held.lasts)));
        let (place, until) = ((held.run, held.task), lease.until);
        if self.index.remove_lease(place, before) {
            self.index.add_lease(place, until);
        }
        Some(row.to_queue_row(held.task))
    }

    /// Leases of active runs that have ended, earliest first.
    pub(super) fn expired(&self, limit: usize, now: Timestamp) -> Expired {
        let over = self.index.ended_leases(now).take(limit);
        let tasks = over.filter_map(|(run, task)| self.lapsed(run, task)).collect();
        Expired { at: now, tasks, next: self.index.next_lease_end(now) }
    }

    /// The leased tasks of active runs by run and task, from the one after `after`.
    pub(super) fn leases(&self, after: Option<Place>, limit: usize) -> Vec<LeasedTask> {
        let from = after.map_or(Unbounded, |(run, _)| Included(run));
        let active = self.runs.range((from, Unbounded)).filter(|(_, rows)| !rows.at_rest);
        let leases = active.flat_map(|(&run, rows)| {
            rows.rows.iter().filter_map(move |(task, row)| match &row.state {
                State::Leased(lease) => Some(LeasedTask { run, task, token: lease.token }),
                State::Waiting(_) => None,
            })
        });
        let later = |lease: &LeasedTask| after.is_none_or(|after| (lease.run, lease.task) > after);
        leases.filter(later).take(limit).collect()
    }

    fn lapsed(&self, run: RunId, task: TaskId) -> Option<ExpiredTask> {
        let row = self.runs.get(&run)?.rows.get(&task)?;
        let State::Leased(lease) = &row.state else { return None };
        let (token, lapse) = (lease.token, lease.lapse());
        Some(ExpiredTask { run, task, attempt: row.attempt, token, lapse })
    }
}

impl Rows {
    fn set_at_rest(&mut self, index: &mut DueIndex, run: RunId, at_rest: bool) {
        if self.at_rest == at_rest {
            return;
        }
        self.at_rest = at_rest;
        for (task, row) in self.rows.iter_mut() {
            if at_rest {
                index.remove_row(run, task, row);
            } else {
                index.add_row(run, task, row);
            }
        }
    }

    fn change(
        &mut self,
        index: &mut DueIndex,
        run: RunId,
        change: &QueueChange,
        now: Timestamp,
    ) -> (TaskId, Option<QueueRow>) {
        let task = change.task();
        let before = self.remove(index, run, task);
        let mut rare = before.map(|row| row.rare).unwrap_or_default();
        let (attempt, state) = match change {
            QueueChange::Due { attempt, after, need, progress: come, .. } => {
                rare.note_progress(come.as_ref());
                (*attempt, QueueState::Due { at: now.after(*after), need: need.clone() })
            }
            QueueChange::Lease { attempt, token, lasts, timeout, heartbeat, .. } => {
                let [deadline, beat_by] = [timeout, heartbeat].map(|t| t.map(|t| now.after(t)));
                let mut lease = Lease { token: *token, until: now, deadline, beat_by };
                lease.until = lease.end(now.after(*lasts));
                (*attempt, lease.to_state())
            }
            QueueChange::Remove { .. } => return (task, None),
        };
        let row = QueueRow { task, attempt, state, progress: rare.into_progress() };
        self.put(index, run, row.clone());
        (task, Some(row))
    }

    fn put(&mut self, index: &mut DueIndex, run: RunId, row: QueueRow) {
        let task = row.task;
        let mut kept = Row::of(row, |need| index.shared(need));
        if !self.at_rest {
            index.add_row(run, task, &mut kept);
        }
        self.rows.insert(task, kept);
    }

    fn remove(&mut self, index: &mut DueIndex, run: RunId, task: TaskId) -> Option<Row> {
        let mut row = self.rows.remove(&task)?;
        index.remove_row(run, task, &mut row);
        Some(row)
    }
}

impl DueIndex {
    fn add_row(&mut self, run: RunId, task: TaskId, row: &mut Row) {
        let reserved = row.rare.reserved();
        match &mut row.state {
            State::Waiting(Waiting { at, need, ticket }) => {
                let due = reserved.map_or(*at, |r| r.until);
                *ticket = Some(self.add_waiting((run, task), due, need));
            }
            State::Leased(lease) => self.add_lease((run, task), lease.until),
        }
    }

    /// Takes the row out of the index; one that is not in it stays so.
    fn remove_row(&mut self, run: RunId, task: TaskId, row: &mut Row) {
        match &mut row.state {
            State::Waiting(Waiting { need, ticket, .. }) => {
                self.hold_queue.remove(row.rare.take_held());
                if let Some(ticket) = ticket.take() {
                    self.remove_waiting(ticket, need);
                }
            }
            State::Leased(lease) => {
                self.remove_lease((run, task), lease.until);
            }
        }
    }
}
