//! The tasks of a simulated node are polled in the order of their priorities.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test panics")]

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

use madsim::runtime::Handle;
use retrial::runtime::Runtime as _;
use retrial::time::Nanos;
use retrial_sim::unstable::incarnation::Incarnation;
use retrial_sim::unstable::records::Records;
use retrial_sim::unstable::runtime::{
    DiskLatency, PollCounter, Priorities, RuntimePlan, SimRuntime, run_seed,
};

const TASKS: usize = 4;
/// How often each is polled.
const POLLS: usize = 5;

fn runtime(priorities: Option<Priorities>) -> SimRuntime {
    let node = Handle::current().create_node().name("node").build();
    let plan = RuntimePlan { priorities, ..RuntimePlan::default() };
    let (polls, latency) = (PollCounter::default(), DiskLatency::default());
    let records = Records::new(false, 10_000);
    SimRuntime::new(&Incarnation::new("node", 0), node, &plan, &polls, &latency, &records)
}

fn run<T: Send + 'static>(
    priorities: Option<Priorities>,
    world: impl AsyncFnOnce(SimRuntime) -> T + Send + 'static,
) -> T {
    let limit = Nanos::from_secs(60);
    run_seed(1, limit, move || async move { world(runtime(priorities)).await }).unwrap()
}

async fn settle() {
    madsim::time::sleep(std::time::Duration::from_secs(1)).await;
}

/// Which task was polled, poll by poll, where each asks for the next poll at once.
fn polled(priorities: Option<Priorities>) -> Vec<usize> {
    run(priorities, async |runtime: SimRuntime| {
        let polled = Arc::new(Mutex::new(Vec::new()));
        for task in 0..TASKS {
            let (polled, mut left) = (Arc::clone(&polled), POLLS);
            let work = poll_fn(move |context| {
                polled.lock().unwrap().push(task);
                left -= 1;
                context.waker().wake_by_ref();
                if left == 0 { Poll::Ready(()) } else { Poll::Pending }
            });
            runtime.spawn(work).detach();
        }
        settle().await;
        polled.lock().unwrap().clone()
    })
}

fn drawn_from(chance: u64) -> Priorities {
    Priorities { chance, changes: vec![], anew: false }
}

/// The tasks in the order of their first polls.
fn order(polled: &[usize]) -> Vec<usize> {
    let mut order: Vec<usize> = Vec::new();
    polled.iter().for_each(|task| {
        if !order.contains(task) {
            order.push(*task);
        }
    });
    order
}

#[test]
fn a_task_goes_on_until_it_waits() {
    for chance in 0..20 {
        let polled = polled(Some(drawn_from(chance)));
        let blocks = order(&polled).into_iter().flat_map(|task| [task; POLLS]);
        assert_eq!(polled, blocks.collect::<Vec<_>>(), "{chance}");
    }
    let without = polled(None);
    assert_eq!(without.len(), TASKS * POLLS);
    assert_ne!(without, order(&without).into_iter().flat_map(|t| [t; POLLS]).collect::<Vec<_>>());
}

#[test]
fn the_plan_decides_on_the_order() {
    let orders = (0..20).map(|chance| order(&polled(Some(drawn_from(chance)))));
    let different: BTreeSet<_> = orders.collect();
    assert!(different.len() > 5, "{different:?}");
    assert_eq!(polled(Some(drawn_from(7))), polled(Some(drawn_from(7))));
}

#[test]
fn the_task_that_is_polled_at_a_change_becomes_the_last() {
    let [first, second, third, fourth] = order(&polled(Some(drawn_from(3))))[..] else { panic!() };
    // The first one at its second poll, then the second one at its first: that one is now the last.
    let polled = polled(Some(Priorities { chance: 3, changes: vec![2, 3], anew: false }));
    let expected = [[first, first, second].as_slice(), &[third; POLLS], &[fourth; POLLS]].concat();
    let expected = [expected.as_slice(), &[first; POLLS - 2], &[second; POLLS - 1]].concat();
    assert_eq!(polled, expected);
}

#[test]
fn priorities_drawn_for_each_poll_let_any_task_go_on() {
    let anew = |chance| Priorities { anew: true, ..drawn_from(chance) };
    let all: BTreeSet<Vec<usize>> = (0..20).map(|chance| polled(Some(anew(chance)))).collect();
    assert_eq!(all.len(), 20, "each plan has an order of its own");
    let in_blocks = |polled: &&Vec<usize>| {
        let blocks = order(polled).into_iter().flat_map(|task| [task; POLLS]);
        **polled == blocks.collect::<Vec<_>>()
    };
    assert!(all.iter().filter(in_blocks).count() < 3, "tasks go on until they wait: {all:?}");
    let first: BTreeSet<usize> = all.iter().map(|polled| polled[0]).collect();
    assert_eq!(first, (0..TASKS).collect());
    assert_eq!(polled(Some(anew(7))), polled(Some(anew(7))));
}

#[test]
fn nobody_waits_for_a_task_that_has_ended() {
    let polls = run(Some(drawn_from(1)), async |runtime: SimRuntime| {
        let wakers: Arc<Mutex<Vec<Waker>>> = Arc::default();
        for ends in [true, false].into_iter().cycle().take(8) {
            let kept = Arc::clone(&wakers);
            let work = poll_fn(move |context| {
                kept.lock().unwrap().push(context.waker().clone());
                if ends { Poll::Ready(()) } else { Poll::Pending }
            });
            let task = runtime.spawn(work);
            // Half of those that wait are aborted.
            if ends || wakers.lock().unwrap().len().is_multiple_of(2) {
                task.detach();
            } else {
                drop(task);
            }
        }
        settle().await;
        wakers.lock().unwrap().iter().for_each(Waker::wake_by_ref);
        let polls = Arc::new(Mutex::new(0));
        for _ in 0..TASKS {
            let polls = Arc::clone(&polls);
            runtime.spawn(async move { *polls.lock().unwrap() += 1 }).detach();
        }
        settle().await;
        *polls.lock().unwrap()
    });
    assert_eq!(polls, TASKS);
}
