//! The history kept in memory.

use std::sync::Arc;

use retrial::observe::History;
use retrial::run::Version;

use crate::fixtures::*;

#[test]
fn keeps_each_runs_newest_events_in_order() {
    let history = Arc::new(History::new(3));
    let events = failing(task(FETCH), Some(3), &[2_000, 4_000]);
    tell(&Arc::clone(&history), run(1), &events);
    tell(&(Arc::clone(&history), ()), run(2), &events[..1]);

    let mut runs = [run(1), run(2)];
    runs.sort();
    assert_eq!(history.runs(), runs);
    let kept = history.of(run(1));
    let numbers: Vec<_> = kept.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [Version(5), Version(6), Version(7)]);
    assert!(kept.iter().zip(&events[5..]).all(|((_, kept), (_, told))| kept.event == *told));
    assert_eq!((history.dropped(run(1)), history.dropped(run(2))), (5, 0));
    assert!(history.of(run(3)).is_empty());
}
