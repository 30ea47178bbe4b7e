//! What is due when, pure: a queue of items in the exact order of (due time, insertion).
//!
//! Decides the order in which waiting things come due. Must never know what the items are, and
//! reads no clock: time is an argument. To add another order, add another queue; this one promises
//! its order to every store.
//!
//! Items lie in `slots`. Entries of 16 bytes name them: entries due after a horizon lie in
//! a `wheel` of append-only buckets, which is read in sequence. When the entries before
//! the horizon are used up, the wheel gives out its next few, sorted, and moves the horizon past
//! them. What is inserted before the horizon goes to a small heap. Cancelling empties a slot and
//! leaves its entry behind. When too many entries lie in the heap, or have no item, all are placed
//! anew.

mod slots;
mod wheel;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::time::Timestamp;
use slots::{Name, Slots};
use wheel::{Entry, Wheel};

/// Fewer entries than this, without an item or in the heap, are not worth placing all anew.
const FEW: usize = 64;

/// Names a queued item until it is popped or cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(Name);

/// Items by due time. Among items due at the same instant the first inserted comes first.
#[derive(Debug)]
pub struct DueQueue<T> {
    /// The latest time that it was asked about.
    now: u64,
    slots: Slots<T>,
    wheel: Wheel,
    /// What the wheel gave out, in order.
    passed: VecDeque<Entry>,
    /// What was inserted before the horizon. Of one instant it comes after `passed`.
    late: BinaryHeap<Reverse<Late>>,
    /// Counts what went to `late`.
    lates: u64,
    /// Entries without an item.
    dead: usize,
}

/// Ordered by due time, then insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Late {
    due: u64,
    number: u64,
    name: Name,
}

impl<T> Default for DueQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> DueQueue<T> {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Self {
        Self {
            now: 0,
            slots: Slots::new(),
            wheel: Wheel::new(),
            passed: VecDeque::new(),
            late: BinaryHeap::new(),
            lates: 0,
            dead: 0,
        }
    }

    /// How many items wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Queues `item`. A due time in the past is fine.
    pub fn insert(&mut self, due: Timestamp, item: T) -> Key {
        let (due, name) = (due.as_nanos(), self.slots.add(item));
        if due > self.wheel.horizon() {
            self.wheel.add(Entry { due, name });
            return Key(name);
        }
        self.late.push(Reverse(Late { due, number: self.lates, name }));
        self.lates += 1;
        if self.late.len() > self.len() / 16 + FEW {
            self.place_anew();
        }
        Key(name)
    }

    /// Takes an item out, unless it was popped or cancelled before.
    pub fn cancel(&mut self, key: Key) -> Option<T> {
        let item = self.slots.take(key.0)?;
        self.dead += 1;
        if self.dead > self.len() + FEW {
            self.place_anew();
        }
        Some(item)
    }

    /// Takes out the first item due at or before `now`.
    pub fn pop(&mut self, now: Timestamp) -> Option<(Timestamp, T)> {
        self.now = self.now.max(now.as_nanos());
        let first = self.first().filter(|first| first.due <= now.as_nanos())?;
        if self.is_late(first) {
            self.late.pop();
        } else {
            self.passed.pop_front();
        }
        Some((Timestamp::from_nanos(first.due), self.slots.take(first.name)?))
    }

    /// When the first item is due.
    pub fn next_due(&mut self) -> Option<Timestamp> {
        self.first().map(|first| Timestamp::from_nanos(first.due))
    }

    /// The entry of the first item, which is then at the front of `passed` or `late`.
    fn first(&mut self) -> Option<Entry> {
        loop {
            let late = self.late.peek().map(|Reverse(late)| *late);
            let passed = self.passed.front().copied();
            let first = match (passed, late) {
                (Some(entry), None) => entry,
                (Some(entry), Some(late)) if entry.due <= late.due => entry,
                (_, Some(Late { due, name, .. })) => Entry { due, name },
                (None, None) if self.wheel.advance(&mut self.passed) => {
                    self.drop_dead();
                    continue;
                }
                (None, None) => return None,
            };
            if self.slots.has(first.name) {
                return Some(first);
            }
            invariant!(self.dead > 0, "each entry without an item is counted");
            self.dead -= 1;
            if self.is_late(first) {
                self.late.pop();
            } else {
                self.passed.pop_front();
            }
        }
    }

    /// Drops what the wheel gave out without an item. Looking at all of their slots together costs much
    /// less than at one after the other when it comes due: a processor waits for all at once.
    fn drop_dead(&mut self) {
        let before = self.passed.len();
        self.passed.retain(|entry| self.slots.has(entry.name));
        let dead = before - self.passed.len();
        invariant!(dead <= self.dead, "each entry without an item is counted");
        self.dead -= dead;
    }

    /// Whether `first` is at the front of `late`, not of `passed`.
    fn is_late(&self, first: Entry) -> bool {
        self.passed.front().is_none_or(|entry| entry.name != first.name)
    }

    /// Drops the entries without an item, and places the others around the time that was last asked
    /// about: the horizon may be far ahead of it, because little was due then.
    fn place_anew(&mut self) {
        let passed = Vec::from(std::mem::take(&mut self.passed));
        let late = std::mem::take(&mut self.late).into_sorted_vec();
        let late =
            late.into_iter().rev().map(|Reverse(Late { due, name, .. })| Entry { due, name });
        // Of one instant, what `passed` holds was inserted before what `late` holds.
        let early = [passed, late.collect()];
        let later = self.wheel.restart(self.now);
        let mut due = Vec::new();
        for entry in early.into_iter().chain(later).flatten() {
            if !self.slots.has(entry.name) {
                continue;
            }
            if entry.due > self.now {
                self.wheel.add(entry);
            } else {
                due.push(entry);
            }
        }
        due.sort_by_key(|entry| entry.due);
        self.passed = due.into();
        self.dead = 0;
        invariant_eq!(self.entries().count(), self.len(), "each item that waits has one entry");
    }

    /// The entries, those without an item among them.
    fn entries(&self) -> impl Iterator<Item = Entry> {
        let late = self
            .late
            .iter()
            .map(|Reverse(Late { due, name, .. })| Entry { due: *due, name: *name });
        self.wheel.entries().chain(&self.passed).copied().chain(late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is kept of cancelled items is never more than of those that wait, and a few.
    #[test]
    fn cancelled_items_are_swept_out() {
        let mut queue = DueQueue::new();
        let waiting: Vec<Key> =
            (0..100).map(|n| queue.insert(Timestamp::from_nanos(1_000 + n), n)).collect();
        let mut most = 0;
        for n in 0..1_000 {
            let key = queue.insert(Timestamp::from_nanos(1_000_000 + n), n);
            queue.cancel(key);
            let kept = queue.entries().count();
            assert!(kept <= 2 * queue.len() + FEW + 1, "{kept} kept");
            most = most.max(kept);
        }
        // Nor are they swept out one by one, which would cost as much each time.
        assert!(most >= 2 * queue.len() + FEW, "{most} kept at most");
        assert!(waiting.into_iter().all(|key| queue.cancel(key).is_some()));
        assert!(queue.is_empty());
    }

    /// What is kept of cancelled items is counted right, wherever it lies when it is met, so it is
    /// swept out when it should be and no sooner.
    #[test]
    fn what_is_kept_is_counted() {
        let mut queue = DueQueue::new();
        let (mut keys, mut chance) = (Vec::new(), 7_u64);
        for step in 0..5_000 {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step);
            let now = Timestamp::from_nanos(step * 50);
            match chance >> 62 {
                0 => drop(queue.pop(now)),
                1 if !keys.is_empty() => {
                    let at = (chance >> 32) as usize % keys.len();
                    queue.cancel(keys.swap_remove(at));
                }
                _ => {
                    let due = now.after(crate::time::Nanos::new(chance >> 48));
                    keys.push(queue.insert(due, step));
                }
            }
            let dead = queue.entries().filter(|entry| !queue.slots.has(entry.name)).count();
            assert_eq!(queue.dead, dead, "after step {step}");
        }
        assert!(queue.len() > FEW, "it never held many");
    }

    /// What is overdue when it is inserted is not placed anew each time.
    #[test]
    fn the_heap_empties_when_all_are_placed_anew() {
        let mut queue = DueQueue::new();
        let now = Timestamp::from_nanos(1_000_000);
        queue.insert(now, 0);
        assert_eq!(queue.pop(now), Some((now, 0)));
        let (mut most, mut emptied) = (0, 0);
        for n in (0..10_000).rev() {
            queue.insert(Timestamp::from_nanos(n), n);
            emptied += usize::from(queue.late.len() < most);
            most = queue.late.len();
        }
        assert!((1..200).contains(&emptied), "{emptied} times");
        let popped = std::iter::from_fn(|| queue.pop(now));
        assert!(popped.map(|(_, n)| n).eq(0..10_000));
    }

    /// An item of next year moves the horizon there. The many that come after it and before next year
    /// lie in the wheel all the same.
    #[test]
    fn a_far_horizon_comes_back() {
        const YEAR: u64 = 365 * 24 * 3_600 * 1_000_000_000;
        let mut queue = DueQueue::new();
        queue.insert(Timestamp::from_nanos(YEAR), 0);
        for n in 1..=10_000 {
            assert!(queue.next_due().is_some());
            queue.insert(Timestamp::from_nanos(n * 1_000_000), n);
            assert!(queue.late.len() <= queue.len() / 16 + FEW, "{} in the heap", queue.late.len());
        }
        let popped = std::iter::from_fn(|| queue.pop(Timestamp::from_nanos(YEAR)));
        assert!(popped.map(|(_, n)| n).eq((1..=10_000).chain([0])));
    }
}
