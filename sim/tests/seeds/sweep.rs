//! A small sweep within the test's own process: the whole engine runs under faults of many kinds
//! in 48 drawn worlds, every oracle judges, and every promise holds. D1, D2, D3.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test panics")]

use std::collections::BTreeMap;

use retrial_sim::unstable::oracle::Promise;
use retrial_sim::unstable::report::{SeedReport, SweepReport, Verdict};
use retrial_sim::unstable::source::Source;
use retrial_sim::unstable::world::run_seed;

const SEEDS: u64 = 48;

fn swept() -> Vec<SeedReport> {
    (0..SEEDS).map(|seed| run_seed(&Source::Drawn, seed, false).0).collect()
}

fn broken(reports: &[SeedReport]) -> Vec<String> {
    let failed = reports.iter().filter(|r| r.verdict != Verdict::Held);
    failed.map(|r| format!("seed {}: {:?} {:#?}", r.seed, r.verdict, r.breaches)).collect()
}

#[test]
fn d1_d3_every_promise_holds_in_worlds_that_really_go_wrong() {
    let reports = swept();
    assert_eq!(broken(&reports), Vec::<String>::new());
    let sum = SweepReport::of(reports);
    assert_eq!(sum.verdicts, BTreeMap::from([(Verdict::Held, SEEDS)]));
    // Nothing above means anything unless much happened.
    assert_eq!(sum.untested(), Vec::<String>::new());
    let struck: Vec<_> = sum.struck.iter().filter(|(_, n)| **n > 0).collect();
    assert!(struck.len() >= 15, "only {struck:?} struck");
    assert!(sum.runs >= SEEDS && sum.attempts > sum.runs, "{sum:?}");
    for kind in ["failure", "timeout", "lost lease"] {
        assert!(sum.retries.get(kind).is_some_and(|n| *n > 0), "{kind}: {:?}", sum.retries);
    }
}

/// A sweep adds up the results of its seeds: the oracles' counts stand under the promises' names.
#[test]
fn a_seed_says_how_often_each_promise_was_judged() {
    let (report, history) = run_seed(&Source::Drawn, 0, false);
    let judged: Vec<&str> = report.judged.keys().map(String::as_str).collect();
    let mut promises: Vec<String> = Promise::ALL.iter().map(Promise::to_string).collect();
    promises.sort();
    assert_eq!(judged, promises);
    assert!(report.simulated.as_millis() > 0 && history.lines().is_empty());
}
