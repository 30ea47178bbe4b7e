//! The due queue beside its naive twin, a `BTreeMap` by (due, sequence).

use std::collections::BTreeMap;

use proptest::prelude::*;
use retrial_core::schedule::{DueQueue, Key};
use retrial_core::time::Timestamp;

#[derive(Clone, Copy, Debug)]
enum Op {
    /// Due so far from now, which may be in the past.
    Insert(i64),
    /// So many at once, all due then: more than are kept apart before all are placed anew.
    Burst(usize, i64),
    /// The n-th key ever given.
    Cancel(usize),
    /// Time goes on, then everything due is popped.
    Pop(u64),
    /// Time goes on, then at most one item is popped.
    PopOne(u64),
    Peek,
}

fn distance() -> impl Strategy<Value = u64> {
    // Every magnitude alike, so that every level of the wheel is used and carried over.
    (0_u32..63, any::<u64>()).prop_map(|(bits, n)| n & ((1 << bits) - 1))
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => distance().prop_map(|d| Op::Insert(d as i64)),
        1 => (0_i64..5_000).prop_map(|d| Op::Insert(-d)),
        2 => (0_i64..3).prop_map(Op::Insert),
        1 => (50_usize..150, -2_i64..3).prop_map(|(many, by)| Op::Burst(many, by)),
        4 => any::<usize>().prop_map(Op::Cancel),
        2 => distance().prop_map(|d| Op::Pop(d >> 20)),
        4 => distance().prop_map(|d| Op::PopOne(d >> 10)),
        2 => Just(Op::Peek),
    ]
}

#[derive(Default)]
struct Twins {
    now: u64,
    queue: DueQueue<u64>,
    naive: BTreeMap<(u64, u64), u64>,
    keys: Vec<(Key, (u64, u64))>,
}

impl Twins {
    fn run(&mut self, op: Op) -> Result<(), TestCaseError> {
        match op {
            Op::Insert(by) => self.insert(self.now.saturating_add_signed(by)),
            Op::Burst(many, by) => {
                (0..many).for_each(|_| self.insert(self.now.saturating_add_signed(by)));
            }
            Op::Cancel(n) => {
                if let Some(&(key, twin)) = self.keys.get(n % self.keys.len().max(1)) {
                    prop_assert_eq!(self.queue.cancel(key), self.naive.remove(&twin));
                }
            }
            Op::Pop(by) => {
                self.now = self.now.saturating_add(by);
                while self.pop()? {}
            }
            Op::PopOne(by) => {
                self.now = self.now.saturating_add(by);
                self.pop()?;
            }
            Op::Peek => {
                let expected = self.naive.keys().next().map(|&(due, _)| due);
                prop_assert_eq!(self.queue.next_due().map(Timestamp::as_nanos), expected);
            }
        }
        prop_assert_eq!(self.queue.len(), self.naive.len());
        Ok(())
    }

    fn insert(&mut self, due: u64) {
        let sequence = self.keys.len() as u64;
        let key = self.queue.insert(Timestamp::from_nanos(due), sequence);
        self.naive.insert((due, sequence), sequence);
        self.keys.push((key, (due, sequence)));
    }

    fn pop(&mut self) -> Result<bool, TestCaseError> {
        let first = self.naive.first_key_value().filter(|((due, _), _)| *due <= self.now);
        let expected = first.map(|(&(due, _), &item)| (due, item));
        self.naive.retain(|&(_, sequence), _| expected.is_none_or(|(_, item)| item != sequence));
        let popped = self.queue.pop(Timestamp::from_nanos(self.now));
        prop_assert_eq!(popped.map(|(due, item)| (due.as_nanos(), item)), expected);
        Ok(expected.is_some())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn the_queue_answers_as_its_naive_twin(ops in prop::collection::vec(op(), 1..200)) {
        let mut twins = Twins::default();
        for op in ops {
            twins.run(op)?;
        }
        twins.run(Op::Peek)?;
        twins.run(Op::Pop(u64::MAX))?;
    }
}

#[test]
fn items_due_at_once_come_in_the_order_of_insertion() {
    let mut queue = DueQueue::new();
    let due = Timestamp::from_nanos(1_000_000);
    for n in 0..300 {
        queue.insert(due, n);
    }
    let popped: Vec<_> = std::iter::from_fn(|| queue.pop(due)).map(|(_, n)| n).collect();
    assert_eq!(popped, (0..300).collect::<Vec<_>>());
}

#[test]
fn it_is_empty_while_nothing_waits() {
    let mut queue = DueQueue::new();
    assert!(queue.is_empty());
    let key = queue.insert(Timestamp::from_nanos(5), "a");
    assert!(!queue.is_empty());
    queue.cancel(key);
    assert!(queue.is_empty());
}

#[test]
fn nothing_comes_before_its_time() {
    let mut queue = DueQueue::new();
    queue.insert(Timestamp::from_nanos(100), ());
    assert_eq!(queue.pop(Timestamp::from_nanos(99)), None);
    assert_eq!(queue.next_due(), Some(Timestamp::from_nanos(100)));
    assert_eq!(queue.pop(Timestamp::from_nanos(100)), Some((Timestamp::from_nanos(100), ())));
    assert!(queue.is_empty());
}

#[test]
fn cancelled_items_leave_no_growing_debt() {
    let mut queue = DueQueue::new();
    for n in 0..100_000_u64 {
        let key = queue.insert(Timestamp::from_nanos(n + (1 << 50)), [n; 4]);
        assert_eq!(queue.cancel(key), Some([n; 4]));
        assert_eq!(queue.cancel(key), None);
    }
    assert!(queue.is_empty());
    assert_eq!(queue.next_due(), None);
}
