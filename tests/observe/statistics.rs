//! H15: retry statistics in the document's layout, with computed numbers.

use insta::assert_snapshot;
use retrial::observe::Statistics;
use retrial::policy::GiveUp;
use retrial::run::{Event, Outcome};

use crate::fixtures::*;

fn counted(events: &[(u64, Event)]) -> Statistics {
    let mut statistics = Statistics::default();
    each(run(1), events, |notice| statistics.take(notice));
    statistics
}

/// A task that ends well, or not, after this many retries.
fn ends(n: u32, retries: u32, well: bool) -> Vec<(u64, Event)> {
    let t = item(EACH, n);
    let mut events: Vec<_> =
        (1..=retries + 1).map(|attempt| (0, started(t, attempt, Some(9)))).collect();
    let last = retries + 1;
    let end = if well { succeeded(t, last) } else { gave_up(t, last, GiveUp::Exhausted, &slow()) };
    events.push((0, end));
    events
}

#[test]
fn h15_the_documents_example_to_the_letter() {
    let tasks =
        [(0, 1, true), (1, 2, true), (2, 3, true), (3, 2, true), (4, 4, false), (5, 0, true)];
    let events: Vec<_> =
        tasks.into_iter().flat_map(|(n, retries, well)| ends(n, retries, well)).collect();
    assert_snapshot!(counted(&events), @r"
    📊 RETRY STATISTICS
    ├─ Total events with retries: 5
    ├─ Succeeded after retry: 4 (80%)
    ├─ Failed after all retries: 1 (20%)
    ├─ Total retry attempts: 12
    └─ Avg retries per event: 2.4
    ");
}

#[test]
fn h15_nothing_to_divide_by() {
    assert_snapshot!(Statistics::default(), @r"
    📊 RETRY STATISTICS
    ├─ Total events with retries: 0
    ├─ Succeeded after retry: 0 (0%)
    ├─ Failed after all retries: 0 (0%)
    ├─ Total retry attempts: 0
    └─ Avg retries per event: 0.0
    ");
    assert_eq!(counted(&ends(0, 0, false)).with_retries(), 0);
}

#[test]
fn h15_shares_are_rounded_and_averages_too() {
    let tasks = [(0, 1, true), (1, 1, true), (2, 2, false)];
    let events: Vec<_> =
        tasks.into_iter().flat_map(|(n, retries, well)| ends(n, retries, well)).collect();
    let statistics = counted(&events);
    assert_eq!(statistics.average_tenths(), 13, "4 / 3");
    let text = statistics.to_string();
    assert!(text.contains("2 (67%)") && text.contains("1 (33%)"), "{text}");
}

#[test]
fn h15_tasks_called_off_or_going_have_their_own_lines() {
    let mut events = failing(item(EACH, 0), Some(3), &[1_000])[..4].to_vec();
    events.extend(failing(item(EACH, 1), Some(3), &[1_000]));
    events.push((9_000, Event::TaskCancelled { task: item(EACH, 1) }));
    assert_snapshot!(counted(&events), @r"
    📊 RETRY STATISTICS
    ├─ Total events with retries: 2
    ├─ Succeeded after retry: 0 (0%)
    ├─ Failed after all retries: 0 (0%)
    ├─ Cancelled after a retry: 1 (50%)
    ├─ Still going after a retry: 1 (50%)
    ├─ Total retry attempts: 2
    └─ Avg retries per event: 1.0
    ");
}

#[test]
fn a_runs_end_leaves_nothing_going() {
    let mut events = failing(task(FETCH), Some(3), &[1_000])[..4].to_vec();
    assert_eq!(counted(&events).unfinished(), 1);
    events.push((9_000, ended(Outcome::Completed)));
    let statistics = counted(&events);
    assert_eq!((statistics.unfinished(), statistics.cancelled(), statistics.retries()), (0, 1, 1));
}

/// A printer that came late counts the attempts it did not see.
#[test]
fn attempts_before_the_first_notice_are_counted() {
    let t = task(FETCH);
    assert_eq!(counted(&[(0, started(t, 3, Some(5))), (0, succeeded(t, 3))]).retries(), 2);
}

#[test]
fn c15_the_time_in_retries_stands_beside_the_time_working() {
    let tasks = [(0, 2, true), (1, 0, true), (2, 1, false)];
    let events: Vec<_> =
        tasks.into_iter().flat_map(|(n, retries, well)| ends(n, retries, well)).collect();
    // Successes of 0.25 s; failed attempts of 0.5 s, 2 and 0 and 2; delays of 2 s, 2 and 0 and 1.
    assert_snapshot!(counted(&events).times(), @r"
    ⏱ TIME OF TASKS
    ├─ Working: 0.5s
    ├─ In attempts that failed: 2.0s
    └─ Waiting to retry: 6.0s
    ");
}

#[test]
fn h15_the_statistics_of_parallel_runs_are_one() {
    let mut statistics = Statistics::default();
    let events = [ends(0, 2, true), ends(1, 1, false)];
    for turn in 0..events[0].len().max(events[1].len()) {
        for (n, events) in (1..).zip(&events) {
            let next = events.get(turn..=turn).unwrap_or_default();
            each(run(n), next, |notice| statistics.take(notice));
        }
    }
    assert_eq!((statistics.with_retries(), statistics.retries()), (2, 3));
    assert_eq!((statistics.succeeded(), statistics.failed()), (1, 1));
}
