//! The complete examples of checks: what each finds, and that its cure holds.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "its `main` is for whoever runs it")]
#[path = "../../../examples/start/own_check.rs"]
mod own_check;
#[allow(dead_code, reason = "its `main` is for whoever runs it")]
#[path = "../../../examples/simulated/payment_check.rs"]
mod payment_check;
#[allow(dead_code, reason = "its `main` is for whoever runs it")]
#[path = "../../../examples/simulated/storm_check.rs"]
mod storm_check;

use retrial_sim::check::Failed;

/// Who found it, why, and how many faults and runs it takes.
fn found(failed: &Failed) -> (&str, &str, usize, usize) {
    let (first, size) = (failed.found.first().unwrap(), failed.shrinking.unwrap().to);
    (&first.oracle, &first.reason, size.faults, size.operations)
}

fn lines_with<'f>(failed: &'f Failed, text: &'f str) -> usize {
    failed.history.iter().filter(|line| line.contains(text)).count()
}

/// It holds where some attempts fail.
#[test]
fn the_first_check_of_ones_own() {
    let held = own_check::check("[retry: 5, backoff: 200ms] [timeout: 5s]".parse().unwrap());
    let passed = held.outcome().unwrap();
    assert_eq!(passed.report.seeds, 100);
    assert!(passed.report.attempts > passed.report.runs, "{passed}");
}

#[test]
fn the_double_charge_is_found_and_cured() {
    let failed = payment_check::careless().unwrap_err();
    assert_eq!(found(&failed), ("invariant", "no double charge", 1, 1), "{failed}");
    assert_eq!(lines_with(&failed, "own        charged "), 2, "{failed}");
    assert!(failed.to_string().contains("shrunk to 1 fault and 1 run of "), "{failed}");
    let passed = payment_check::fixed().unwrap();
    assert_eq!(passed.report.seeds, 100);
}

#[test]
fn the_storm_is_found_and_bounded() {
    let failed = storm_check::stormy().unwrap().unwrap_err();
    assert_eq!(found(&failed), ("invariant", "no retry storm", 1, 1), "{failed}");
    assert_eq!(lines_with(&failed, "FAULT outage begins"), 1, "{failed}");
    assert!(lines_with(&failed, "catalog.test answers 503") > 60, "{failed}");
    let passed = storm_check::calm().unwrap();
    assert!(passed.struck["outage"] > 0, "{passed}");
}
