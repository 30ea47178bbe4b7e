//! What does waiting cost? The due queue beside its peers, with 100,000 items pending.
//!
//! `DelayQueue` keeps its own clock: moving that clock is part of its firing; the others get the time as
//! an argument. It and nexus-timer's wheel round to milliseconds. Each waits for the same distances.
//!
//! ```sh
//! PENDING=1000000 cargo bench --bench due_queue
//! ```
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::hint::black_box;
use std::sync::LazyLock;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, criterion_group, criterion_main};
use nexus_timer::{TimerHandle, Wheel};
use retrial::schedule::{DueQueue, Key};
use retrial::time::Timestamp;
use tokio_util::time::{DelayQueue, delay_queue};

/// How many items are pending.
#[expect(clippy::disallowed_methods, reason = "a bench is told by the environment")]
static PENDING: LazyLock<u64> =
    LazyLock::new(|| std::env::var("PENDING").map_or(100_000, |n| n.parse().unwrap()));
/// Items are due within a minute, as retries are.
const SPAN: u64 = 60_000_000_000;
/// How many operations a sample makes.
const STEPS: u64 = 10_000;

/// The n-th distance, the same for every peer. The mixing is `SplitMix64`'s.
fn distance(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    1 + (z ^ (z >> 31)) % SPAN
}

/// One way to wait.
trait Peer: Default {
    type Key;
    const NAME: &str;
    const CANCELS: bool = true;
    fn insert(&mut self, due: u64, item: u64) -> Self::Key;

    /// Inserts what will not be cancelled.
    fn insert_for_good(&mut self, due: u64, item: u64) {
        self.insert(due, item);
    }

    fn cancel(&mut self, key: Self::Key);
    /// Takes out the first item, letting time go on until it is due, and gives its due time.
    fn fire(&mut self) -> u64;
}

#[derive(Default)]
struct Ours(DueQueue<u64>);

impl Peer for Ours {
    type Key = Key;
    const NAME: &str = "DueQueue";

    fn insert(&mut self, due: u64, item: u64) -> Key {
        self.0.insert(Timestamp::from_nanos(due), item)
    }

    fn cancel(&mut self, key: Key) {
        black_box(self.0.cancel(key));
    }

    fn fire(&mut self) -> u64 {
        let due = self.0.next_due().unwrap();
        black_box(self.0.pop(due)).unwrap().0.as_nanos()
    }
}

#[derive(Default)]
struct Tree(BTreeMap<(u64, u64), u64>);

impl Peer for Tree {
    type Key = (u64, u64);
    const NAME: &str = "BTreeMap";

    fn insert(&mut self, due: u64, item: u64) -> (u64, u64) {
        self.0.insert((due, item), item);
        (due, item)
    }

    fn cancel(&mut self, key: (u64, u64)) {
        black_box(self.0.remove(&key));
    }

    fn fire(&mut self) -> u64 {
        black_box(self.0.pop_first()).unwrap().0.0
    }
}

#[derive(Default)]
struct Heap(BinaryHeap<Reverse<(u64, u64)>>);

impl Peer for Heap {
    type Key = ();
    const NAME: &str = "BinaryHeap";
    const CANCELS: bool = false;

    fn insert(&mut self, due: u64, item: u64) {
        self.0.push(Reverse((due, item)));
    }

    fn cancel(&mut self, (): ()) {}

    fn fire(&mut self) -> u64 {
        black_box(self.0.pop()).unwrap().0.0
    }
}

/// The deadline that it tells may be too early: where nothing fires then, it is asked a tick later.
struct Nexus {
    wheel: Wheel<u64>,
    start: Instant,
    now: Instant,
    fired: Vec<u64>,
}

impl Default for Nexus {
    #[expect(clippy::disallowed_methods, reason = "the wheel counts from some instant")]
    fn default() -> Self {
        let start = Instant::now();
        Self { wheel: Wheel::unbounded(4_096, start), start, now: start, fired: Vec::new() }
    }
}

impl Peer for Nexus {
    type Key = TimerHandle<u64>;
    const NAME: &str = "nexus-timer";

    fn insert(&mut self, due: u64, item: u64) -> TimerHandle<u64> {
        self.wheel.schedule(self.start + Duration::from_nanos(due), item)
    }

    fn insert_for_good(&mut self, due: u64, item: u64) {
        self.wheel.schedule_forget(self.start + Duration::from_nanos(due), item);
    }

    fn cancel(&mut self, key: TimerHandle<u64>) {
        black_box(self.wheel.cancel(key));
    }

    fn fire(&mut self) -> u64 {
        loop {
            self.now = self.now.max(self.wheel.next_deadline().unwrap());
            self.fired.clear();
            if self.wheel.poll_and_rebalance_with_limit(self.now, 1, &mut self.fired) > 0 {
                black_box(&self.fired);
                return (self.now - self.start).as_nanos() as u64;
            }
            self.now += Duration::from_millis(1);
        }
    }
}

/// Fires through the runtime's paused clock, which is moved to each due time.
struct Delay {
    queue: DelayQueue<u64>,
    now: u64,
    runtime: tokio::runtime::Runtime,
}

impl Default for Delay {
    fn default() -> Self {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        Self { queue: DelayQueue::new(), now: 0, runtime }
    }
}

impl Peer for Delay {
    type Key = delay_queue::Key;
    const NAME: &str = "DelayQueue";

    fn insert(&mut self, due: u64, item: u64) -> delay_queue::Key {
        let _inside = self.runtime.enter();
        self.queue.insert(item, Duration::from_nanos(due.saturating_sub(self.now)))
    }

    fn cancel(&mut self, key: delay_queue::Key) {
        black_box(self.queue.try_remove(&key));
    }

    #[expect(clippy::disallowed_methods, reason = "the queue waits by this clock")]
    fn fire(&mut self) -> u64 {
        let mut context = Context::from_waker(Waker::noop());
        loop {
            let _inside = self.runtime.enter();
            if let Poll::Ready(Some(fired)) = self.queue.poll_expired(&mut context) {
                black_box(fired);
                return self.now;
            }
            let next = self.queue.peek().map(|key| self.queue.deadline(&key));
            let wait = next.unwrap().saturating_duration_since(tokio::time::Instant::now());
            let wait = wait.max(Duration::from_millis(1));
            self.now += wait.as_nanos() as u64;
            self.runtime.block_on(tokio::time::advance(wait));
        }
    }
}

/// A peer with all items, and the keys of as many as there are steps.
fn filled<P: Peer>(keyed: bool) -> (P, Vec<P::Key>) {
    let (mut peer, mut keys) = (P::default(), Vec::new());
    for n in 0..*PENDING {
        match keyed && n % (*PENDING / STEPS).max(1) == 0 {
            true => keys.push(peer.insert(distance(n), n)),
            false => peer.insert_for_good(distance(n), n),
        }
    }
    (peer, keys)
}

fn insert<P: Peer>(group: &mut BenchmarkGroup<'_, WallTime>) {
    group.bench_function(P::NAME, |b| {
        b.iter_batched_ref(
            || filled::<P>(false),
            |(peer, _)| (0..STEPS).for_each(|n| peer.insert_for_good(distance(!n), n)),
            BatchSize::PerIteration,
        );
    });
}

fn fire_and_insert<P: Peer>(group: &mut BenchmarkGroup<'_, WallTime>) {
    group.bench_function(P::NAME, |b| {
        b.iter_batched_ref(
            || filled::<P>(false),
            |(peer, _)| {
                for n in 0..STEPS {
                    let now = peer.fire();
                    peer.insert_for_good(now + distance(!n), *PENDING + n);
                }
            },
            BatchSize::PerIteration,
        );
    });
}

fn cancel<P: Peer>(group: &mut BenchmarkGroup<'_, WallTime>) {
    if !P::CANCELS {
        return;
    }
    group.bench_function(P::NAME, |b| {
        b.iter_batched_ref(
            || filled::<P>(true),
            |(peer, keys)| keys.drain(..).for_each(|key| peer.cancel(key)),
            BatchSize::PerIteration,
        );
    });
}

fn compare(c: &mut Criterion) {
    macro_rules! peers {
        ($name:literal, $run:ident) => {
            let mut group = c.benchmark_group(concat!("due_queue/", $name));
            group.throughput(criterion::Throughput::Elements(STEPS)).sample_size(10);
            group.warm_up_time(Duration::from_millis(200));
            group.measurement_time(Duration::from_millis(500));
            $run::<Ours>(&mut group);
            $run::<Delay>(&mut group);
            $run::<Nexus>(&mut group);
            $run::<Tree>(&mut group);
            $run::<Heap>(&mut group);
            group.finish();
        };
    }
    peers!("insert", insert);
    peers!("fire_and_insert", fire_and_insert);
    peers!("cancel", cancel);
}

criterion_group!(benches, compare);
criterion_main!(benches);
