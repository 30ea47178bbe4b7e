//! When something next happens to queue rows, in memory: what waits for its time, what is due and
//! waits for whoever can run it, what is leased.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::seam::Claimed;
use crate::run::{RunId, TaskId};
use crate::schedule::{DueQueue, Key};
use crate::time::{Nanos, Timestamp};
use crate::workflow::{Able, Need};

/// A row's name.
pub(super) type Place = (RunId, TaskId);

/// The rows of running runs.
#[derive(Debug, Default)]
pub(super) struct Index {
    later: DueQueue<Waiter>,
    /// By what they need, so that what nobody here can run costs a claim nothing.
    due: BTreeMap<Need, BTreeMap<Turn, Place>>,
    /// Leased rows by when their lease ends.
    ends: BTreeSet<(Timestamp, RunId, TaskId)>,
    /// How many rows have begun to wait.
    waited: u64,
}

/// The order in which due rows are given out: by due time, then by who waited first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    due: Timestamp,
    number: u64,
}

#[derive(Debug)]
struct Waiter {
    place: Place,
    number: u64,
    need: Need,
}

/// Finds a waiting row again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    key: Key,
    turn: Turn,
}

impl Index {
    /// Takes in a row that waits until `due`.
    pub(super) fn wait(&mut self, place: Place, due: Timestamp, need: &Need) -> Ticket {
        self.waited += 1;
        let number = self.waited;
        let key = self.later.insert(due, Waiter { place, number, need: need.clone() });
        Ticket { key, turn: Turn { due, number } }
    }

    /// Takes out a row that waits.
    pub(super) fn wait_no_more(&mut self, ticket: Ticket, need: &Need) {
        if self.later.cancel(ticket.key).is_some() {
            return;
        }
        if let Some(list) = self.due.get_mut(need) {
            list.remove(&ticket.turn);
            if list.is_empty() {
                self.due.remove(need);
            }
        }
    }

    /// Takes out up to `limit` rows that are due and that `able` allows, earliest first.
    pub(super) fn take(&mut self, able: &Able, limit: usize, now: Timestamp) -> Vec<Place> {
        self.come_due(now);
        let lists = self.due.iter_mut().filter(|(need, _)| able.can(need));
        let mut lists: Vec<_> = lists.map(|(_, list)| list).collect();
        let first = |list: &BTreeMap<Turn, Place>| list.keys().next().copied();
        let heads = lists.iter().enumerate().filter_map(|(n, list)| Some((first(list)?, n)));
        let mut heads: BinaryHeap<_> = heads.map(Reverse).collect();
        let mut taken = Vec::new();
        while taken.len() < limit
            && let Some(Reverse((_, n))) = heads.pop()
        {
            taken.extend(lists[n].pop_first().map(|(_, place)| place));
            heads.extend(first(lists[n]).map(|turn| Reverse((turn, n))));
        }
        self.due.retain(|_, list| !list.is_empty());
        taken
    }

    fn come_due(&mut self, now: Timestamp) {
        while let Some((due, waiter)) = self.later.pop(now) {
            let Waiter { place, number, need } = waiter;
            self.due.entry(need).or_default().insert(Turn { due, number }, place);
        }
    }

    /// When the next row is due, but for those that are due already and `able` does not allow.
    pub(super) fn next_due(&mut self, able: &Able, now: Timestamp) -> Option<Timestamp> {
        self.come_due(now);
        let mine = self.due.iter().filter(|(need, _)| able.can(need));
        let due = mine.filter_map(|(_, list)| list.keys().next()).map(|turn| turn.due).min();
        due.or_else(|| self.later.next_due())
    }

    /// What is due that `able` does not allow, and since when.
    pub(super) fn unable(&self, able: &Able) -> Vec<(Need, Timestamp)> {
        let others = self.due.iter().filter(|(need, _)| !able.can(need));
        let since = others.filter_map(|(need, list)| Some((need.clone(), list.keys().next()?.due)));
        since.take(Claimed::MOST_UNABLE).collect()
    }

    /// Takes in a row whose lease ends at `end`.
    pub(super) fn lease(&mut self, (run, task): Place, end: Timestamp) {
        self.ends.insert((end, run, task));
    }

    /// Takes out a row whose lease ends at `end`. Whether it was there.
    pub(super) fn lease_no_more(&mut self, (run, task): Place, end: Timestamp) -> bool {
        self.ends.remove(&(end, run, task))
    }

    /// The rows whose lease has ended, earliest first.
    pub(super) fn ended(&self, now: Timestamp) -> impl Iterator<Item = Place> {
        let over = self.ends.iter().take_while(move |(end, ..)| *end <= now);
        over.map(|&(_, run, task)| (run, task))
    }

    /// When the next lease ends that has not.
    pub(super) fn next_end(&self, now: Timestamp) -> Option<Timestamp> {
        let later = (now.after(Nanos::new(1)), RunId::from_bytes([0; 16]), TaskId::FIRST)..;
        self.ends.range(later).next().map(|(end, ..)| *end)
    }
}
