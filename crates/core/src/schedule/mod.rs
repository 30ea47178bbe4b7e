//! What is due when, pure: a queue of items in the exact order of (due time, insertion).
//!
//! Decides the order in which waiting things come due. Must never know what the items are, and
//! reads no clock: time is an argument. To add another order, add another queue; this one promises
//! its order to every store.
//!
//! A wheel of append-only buckets, 64 to a level, each level 64 times coarser than the one below.
//! An entry sits at the level of the highest digit in which its due time differs from the horizon,
//! so moving the horizon touches only buckets that it passes or enters, each read in sequence. What
//! the horizon has passed lies in a heap, which holds the exact order. Cancelling empties the item's
//! slot and leaves its entry behind; entries without an item are skipped, and swept out when they
//! outnumber the others.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::time::Timestamp;

const DIGIT: u32 = 6;
const BUCKETS: usize = 1 << DIGIT;
const LEVELS: usize = u64::BITS.div_ceil(DIGIT) as usize;
/// Fewer dead entries than this are not worth a sweep.
const FEW: usize = 64;

/// Names a queued item until it is popped or cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    slot: u32,
    sequence: u64,
}

/// Items by due time. Among items due at the same instant the first inserted comes first.
#[derive(Debug)]
pub struct DueQueue<T> {
    /// Entries due by here are in `passed`, later ones in the wheel.
    horizon: u64,
    passed: BinaryHeap<Reverse<Entry>>,
    wheel: Vec<Level>,
    /// An emptied bucket's memory, for the next one.
    spare: Vec<Entry>,
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    sequence: u64,
    dead: usize,
    /// The earliest due time in the wheel, while it is known.
    soonest: Known,
}

/// Ordered by due time, then sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    due: u64,
    sequence: u64,
    slot: u32,
}

/// The sequence number is the slot's generation: an entry or key with another one is stale.
#[derive(Debug)]
struct Slot<T> {
    sequence: u64,
    due: u64,
    item: Option<T>,
}

#[derive(Debug)]
struct Level {
    /// One bit a bucket that is not empty.
    occupied: u64,
    buckets: Vec<Vec<Entry>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    No,
    Yes(Option<u64>),
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
        let level = || Level { occupied: 0, buckets: vec![Vec::new(); BUCKETS] };
        Self {
            horizon: 0,
            passed: BinaryHeap::new(),
            wheel: std::iter::repeat_with(level).take(LEVELS).collect(),
            spare: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            sequence: 0,
            dead: 0,
            soonest: Known::Yes(None),
        }
    }

    /// How many items wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Queues `item`. A due time in the past is fine.
    pub fn insert(&mut self, due: Timestamp, item: T) -> Key {
        let due = due.as_nanos();
        let sequence = self.sequence;
        self.sequence += 1;
        let filled = Slot { sequence, due, item: Some(item) };
        let slot = if let Some(slot) = self.free.pop() {
            invariant!(self.slots[slot as usize].item.is_none(), "a free slot holds no item");
            self.slots[slot as usize] = filled;
            slot
        } else {
            self.slots.push(filled);
            (self.slots.len() - 1) as u32
        };
        self.place(Entry { due, sequence, slot });
        Key { slot, sequence }
    }

    /// Takes an item out, unless it was popped or cancelled before.
    pub fn cancel(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get(key.slot as usize)?;
        if slot.sequence != key.sequence {
            return None;
        }
        if self.soonest == Known::Yes(Some(slot.due)) {
            self.soonest = Known::No;
        }
        let item = self.vacate(key.slot)?;
        self.dead += 1;
        if self.dead > self.len() + FEW {
            self.sweep();
        }
        invariant!(self.dead <= self.len() + FEW, "dead entries are swept out in time");
        Some(item)
    }

    /// Takes out the first item due at or before `now`.
    pub fn pop(&mut self, now: Timestamp) -> Option<(Timestamp, T)> {
        self.advance(now.as_nanos());
        invariant!(self.horizon >= now.as_nanos(), "whatever is due lies in `passed`");
        let first = self.first_passed()?;
        if first.due > now.as_nanos() {
            return None;
        }
        self.passed.pop();
        Some((Timestamp::from_nanos(first.due), self.vacate(first.slot)?))
    }

    /// When the first item is due.
    pub fn next_due(&mut self) -> Option<Timestamp> {
        let due = match self.first_passed() {
            Some(first) => Some(first.due),
            None => self.first_in_wheel(),
        };
        due.map(Timestamp::from_nanos)
    }

    fn is_live(&self, entry: &Entry) -> bool {
        let slot = &self.slots[entry.slot as usize];
        slot.sequence == entry.sequence && slot.item.is_some()
    }

    fn vacate(&mut self, slot: u32) -> Option<T> {
        let item = self.slots[slot as usize].item.take()?;
        self.free.push(slot);
        invariant!(self.free.len() <= self.slots.len(), "no slot is free twice");
        Some(item)
    }

    fn place(&mut self, entry: Entry) {
        invariant!(self.is_live(&entry), "only what waits is placed");
        if entry.due <= self.horizon {
            self.passed.push(Reverse(entry));
            return;
        }
        let (level, bucket) = (level(entry.due ^ self.horizon), digit(entry.due, self.horizon));
        self.wheel[level].occupied |= 1 << bucket;
        self.wheel[level].buckets[bucket].push(entry);
        if let Known::Yes(soonest) = &mut self.soonest {
            *soonest = Some(soonest.map_or(entry.due, |s| s.min(entry.due)));
        }
    }

    /// Moves the horizon to `now`. Every bucket below the highest digit that changes is passed, and
    /// so are those before the new digit at its level; the new digit's own bucket is entered.
    fn advance(&mut self, now: u64) {
        if now <= self.horizon {
            return;
        }
        let top = level(now ^ self.horizon);
        let reached = mask_to(digit(now, self.horizon));
        self.horizon = now;
        if !matches!(self.soonest, Known::Yes(s) if s.is_none_or(|s| s > now)) {
            self.soonest = Known::No;
        }
        for level in 0..=top {
            let touched = if level == top { reached } else { u64::MAX };
            let mut occupied = self.wheel[level].occupied & touched;
            self.wheel[level].occupied &= !touched;
            while occupied != 0 {
                self.empty_out(level, occupied.trailing_zeros() as usize);
                occupied &= occupied - 1;
            }
        }
        invariant!(
            !matches!(self.soonest, Known::Yes(Some(due)) if due <= now),
            "what the horizon has passed is not in the wheel"
        );
    }

    fn empty_out(&mut self, level: usize, bucket: usize) {
        let spare = std::mem::take(&mut self.spare);
        let mut entries = std::mem::replace(&mut self.wheel[level].buckets[bucket], spare);
        invariant!(!entries.is_empty(), "a level knows which of its buckets hold entries");
        for entry in entries.drain(..) {
            if self.is_live(&entry) {
                self.place(entry);
            } else {
                self.dead -= 1;
            }
        }
        self.spare = entries;
    }

    fn first_passed(&mut self) -> Option<Entry> {
        while let Some(&Reverse(first)) = self.passed.peek() {
            if self.is_live(&first) {
                return Some(first);
            }
            self.passed.pop();
            invariant!(self.dead > 0, "each entry without an item is counted");
            self.dead -= 1;
        }
        None
    }

    fn first_in_wheel(&mut self) -> Option<u64> {
        if let Known::Yes(soonest) = self.soonest {
            return soonest;
        }
        let soonest = self.wheel.iter().find_map(|level| {
            let mut occupied = level.occupied;
            while occupied != 0 {
                let bucket = &level.buckets[occupied.trailing_zeros() as usize];
                let first = bucket.iter().filter(|e| self.is_live(e)).map(|e| e.due).min();
                if first.is_some() {
                    return first;
                }
                occupied &= occupied - 1;
            }
            None
        });
        invariant!(soonest.is_none_or(|due| due > self.horizon), "the wheel holds what is later");
        self.soonest = Known::Yes(soonest);
        soonest
    }

    /// How many entries there are, dead ones included.
    fn entries(&self) -> usize {
        let buckets = self.wheel.iter().flat_map(|level| &level.buckets);
        self.passed.len() + buckets.map(Vec::len).sum::<usize>()
    }

    /// Drops every entry whose item is gone.
    fn sweep(&mut self) {
        let mut wheel = std::mem::take(&mut self.wheel);
        for level in &mut wheel {
            for (n, bucket) in level.buckets.iter_mut().enumerate() {
                bucket.retain(|entry| self.is_live(entry));
                if bucket.is_empty() {
                    level.occupied &= !(1 << n);
                }
            }
        }
        self.wheel = wheel;
        let mut passed = std::mem::take(&mut self.passed);
        passed.retain(|Reverse(entry)| self.is_live(entry));
        self.passed = passed;
        self.dead = 0;
        invariant_eq!(self.entries(), self.len(), "each item that waits has one entry");
    }
}

/// The place of the highest digit that is not zero. `difference` is not zero.
fn level(difference: u64) -> usize {
    (difference.ilog2() / DIGIT) as usize
}

/// `due`'s digit at the highest place where it differs from `horizon`.
fn digit(due: u64, horizon: u64) -> usize {
    let shift = level(due ^ horizon) as u32 * DIGIT;
    (due >> shift) as usize % BUCKETS
}

/// The bits from 0 to `last`.
fn mask_to(last: usize) -> u64 {
    u64::MAX >> (BUCKETS - 1 - last)
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
            assert!(queue.entries() <= 2 * queue.len() + FEW + 1, "{} kept", queue.entries());
            most = most.max(queue.entries());
            check_places(&queue);
        }
        // Nor are they swept out one by one, which would cost as much each time.
        assert!(most >= 2 * queue.len() + FEW, "{most} kept at most");
        assert!(waiting.into_iter().all(|key| queue.cancel(key).is_some()));
        assert!(queue.is_empty());
    }

    /// Each entry of the wheel lies at the highest digit in which it differs from the horizon, and a
    /// level knows which of its buckets hold any: else the order still holds, but not the cost.
    fn check_places(queue: &DueQueue<u64>) {
        let digits = |at: u64, from: usize| at.checked_shr(from as u32 * DIGIT).unwrap_or(0);
        for (place, level) in queue.wheel.iter().enumerate() {
            for (n, bucket) in level.buckets.iter().enumerate() {
                assert_eq!(level.occupied >> n & 1 == 1, !bucket.is_empty(), "{place}, {n}");
                for entry in bucket {
                    assert_eq!(digits(entry.due, place) % 64, n as u64);
                    assert!(entry.due > queue.horizon);
                    let above = place + 1;
                    assert_eq!(digits(entry.due, above), digits(queue.horizon, above));
                    assert_ne!(digits(entry.due, place), digits(queue.horizon, place));
                }
            }
        }
    }

    /// What is kept of cancelled items is counted right, wherever it lies when it is met, so it is
    /// swept out when it should be and no sooner.
    #[test]
    fn what_is_kept_is_counted_and_lies_where_it_should() {
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
            let buckets = queue.wheel.iter().flat_map(|level| &level.buckets).flatten();
            let entries = buckets.chain(queue.passed.iter().map(|Reverse(entry)| entry));
            let dead = entries.filter(|entry| !queue.is_live(entry)).count();
            assert_eq!(queue.dead, dead, "after step {step}");
            check_places(&queue);
        }
        assert!(queue.len() > FEW, "it never held many");
    }
}
