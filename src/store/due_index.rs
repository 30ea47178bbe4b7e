//! What happens next to queue rows, in memory: which rows become due when, which are due, and when
//! leases end.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::ops::Bound::{self, Excluded, Unbounded};
use std::sync::Arc;

use super::hold_queue::HoldQueue;
use super::interner::Interner;
use super::seam::{Claim, Claimed};
use crate::run::{RunId, TaskId};
use crate::schedule::{DueQueue, Key};
use crate::time::{Nanos, Timestamp};
use crate::workflow::{Able, Need};

/// The key of a row.
pub(super) type Place = (RunId, TaskId);

/// The rows of running runs.
#[derive(Debug, Default)]
pub(super) struct DueIndex {
    later: DueQueue<Waiter>,
    /// By need, so that a claim does not look at rows that the claimer can't run.
    due: BTreeMap<Arc<Need>, Due>,
    /// Of each need one is kept, for all rows that have it.
    needs: Interner<Need>,
    /// The run whose row was claimed last.
    last: Option<RunId>,
    /// Rows that guards hold back.
    pub(super) hold_queue: HoldQueue,
    /// Leased rows by the end of their lease.
    lease_ends: BTreeSet<(Timestamp, RunId, TaskId)>,
    /// Counts the rows that began to wait.
    waited: u64,
}

/// Due rows with the same need.
#[derive(Debug, Default)]
struct Due {
    rows: BTreeMap<Turn, Place>,
    /// A run without rows is absent.
    runs: BTreeMap<RunId, BTreeSet<Turn>>,
}

/// The order in which a run's due rows are claimed: by due time, then by who waited first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    due: Timestamp,
    number: NonZeroU64,
}

#[derive(Debug)]
struct Waiter {
    place: Place,
    number: NonZeroU64,
    need: Arc<Need>,
}

/// The place of a waiting row in the index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    key: Key,
    turn: Turn,
}

impl DueIndex {
    /// The need that all rows share which have it.
    pub(super) fn shared(&mut self, need: &Need) -> Arc<Need> {
        self.needs.get(need, || Arc::new(need.clone()))
    }

    /// Adds a row that waits until `due`.
    pub(super) fn add_waiting(&mut self, place: Place, due: Timestamp, need: &Arc<Need>) -> Ticket {
        self.waited += 1;
        self.add_waiting_at(place, due, self.waited, need)
    }

    /// Adds a row that waits until `due` and has this number among the rows due then.
    pub(super) fn add_waiting_at(
        &mut self,
        place: Place,
        due: Timestamp,
        number: u64,
        need: &Arc<Need>,
    ) -> Ticket {
        // Numbers are counted from 1.
        let number = NonZeroU64::new(number).unwrap_or(NonZeroU64::MIN);
        let key = self.later.insert(due, Waiter { place, number, need: Arc::clone(need) });
        Ticket { key, turn: Turn { due, number } }
    }

    /// Counts the rows that begin to wait from `first`.
    #[cfg(feature = "postgres")]
    pub(super) fn count_from(&mut self, first: u64) {
        self.waited = first;
    }

    /// Removes a row that waits.
    pub(super) fn remove_waiting(&mut self, ticket: Ticket, need: &Need) {
        if self.later.cancel(ticket.key).is_some() {
            return;
        }
        if let Some(due) = self.due.get_mut(need) {
            due.remove(ticket.turn);
            if due.rows.is_empty() {
                self.due.remove(need);
            }
        }
    }

    /// Removes and returns the rows that are due and that `claim` takes, up to its limit. The runs take
    /// turns in the order of their ids, each with its earliest first, so that a thousand rows of one
    /// run do not starve another run's row.
    pub(super) fn take(&mut self, claim: &Claim, now: Timestamp) -> Vec<Place> {
        self.move_due(now);
        let lists = self.due.iter_mut().filter(|(need, _)| claim.takes(need));
        let mut lists: Vec<&mut Due> = lists.map(|(_, due)| due).collect();
        let mut taken = Vec::new();
        while taken.len() < claim.limit {
            let after = self.last.map_or(Unbounded, Excluded);
            let next = first_of(&lists, (after, Unbounded));
            let Some((run, turn, n)) = next.or_else(|| first_of(&lists, (Unbounded, Unbounded)))
            else {
                break;
            };
            self.last = Some(run);
            taken.extend(lists[n].remove(turn));
        }
        self.due.retain(|_, due| !due.rows.is_empty());
        taken
    }

    fn move_due(&mut self, now: Timestamp) {
        while let Some((due, waiter)) = self.later.pop(now) {
            let Waiter { place, number, need } = waiter;
            let (turn, list) = (Turn { due, number }, self.due.entry(need).or_default());
            list.rows.insert(turn, place);
            list.runs.entry(place.0).or_default().insert(turn);
        }
    }

    /// When the next row is due. Rows that are due and that `claim` does not take do not count.
    pub(super) fn next_due(&mut self, claim: &Claim, now: Timestamp) -> Option<Timestamp> {
        self.move_due(now);
        let mine = self.due.iter().filter(|(need, _)| claim.takes(need));
        let due = mine.filter_map(|(_, due)| due.rows.keys().next()).map(|turn| turn.due).min();
        due.or_else(|| self.later.next_due())
    }

    /// The needs of due rows that `able` does not allow, each with its earliest due time.
    pub(super) fn unable(&self, able: &Able) -> Vec<(Need, Timestamp)> {
        let others = self.due.iter().filter(|(need, _)| !able.can(need));
        let since =
            others.filter_map(|(need, due)| Some((Need::clone(need), due.rows.keys().next()?.due)));
        since.take(Claimed::MOST_UNABLE).collect()
    }

    /// Adds a row whose lease ends at `end`.
    pub(super) fn add_lease(&mut self, (run, task): Place, end: Timestamp) {
        self.lease_ends.insert((end, run, task));
    }

    /// Removes a row whose lease ends at `end`. Returns whether it was there.
    pub(super) fn remove_lease(&mut self, (run, task): Place, end: Timestamp) -> bool {
        self.lease_ends.remove(&(end, run, task))
    }

    /// The rows whose lease has ended, earliest first.
    pub(super) fn ended_leases(&self, now: Timestamp) -> impl Iterator<Item = Place> {
        let over = self.lease_ends.iter().take_while(move |(end, ..)| *end <= now);
        over.map(|&(_, run, task)| (run, task))
    }

    /// When the next lease ends that has not ended.
    pub(super) fn next_lease_end(&self, now: Timestamp) -> Option<Timestamp> {
        let later = (now.after(Nanos::new(1)), RunId::from_bytes([0; 16]), TaskId::FIRST)..;
        self.lease_ends.range(later).next().map(|(end, ..)| *end)
    }
}

#[cfg(feature = "postgres")]
impl Ticket {
    /// When its row is due, and its number among those due then.
    pub(super) fn turn(self) -> (Timestamp, u64) {
        (self.turn.due, self.turn.number.get())
    }
}

impl Due {
    fn remove(&mut self, turn: Turn) -> Option<Place> {
        let place = self.rows.remove(&turn)?;
        if let Some(turns) = self.runs.get_mut(&place.0) {
            turns.remove(&turn);
            if turns.is_empty() {
                self.runs.remove(&place.0);
            }
        }
        Some(place)
    }
}

/// The first run within `bounds` that has due rows, its earliest, and which list that is in.
fn first_of(
    lists: &[&mut Due],
    bounds: (Bound<RunId>, Bound<RunId>),
) -> Option<(RunId, Turn, usize)> {
    let firsts = lists.iter().enumerate().filter_map(|(n, due)| {
        let (run, turns) = due.runs.range(bounds).next()?;
        Some((*run, *turns.first()?, n))
    });
    firsts.min()
}
