//! When attempts start and arrive, by the store's clock and in true time.

use retrial::failure::Failure;
use retrial::run::Event;
use retrial_sim::unstable::oracle::Report;
use retrial_sim::unstable::oracle::sequence::{ARRIVED_EARLY, STARTED_EARLY, judge};
use retrial_sim::unstable::scenario::Reply;

use crate::kit::{
    Script, at, found, healthy, ms, policy, recovered, server_error, status, step, store, task,
    workflow,
};

#[test]
fn an_attempt_before_its_time_is_found_by_either_clock() {
    let script = recovered().alter(|r| {
        if matches!(r.event, Event::AttemptStarted { attempt: 3, .. }) {
            r.at = store(250);
        }
    });
    found(&judge(&script.world), STARTED_EARLY);
    let mut script = recovered();
    script.world.ledger[2].at = at(250);
    found(&judge(&script.world), ARRIVED_EARLY);
    // A drift of ten in a hundred explains 50 ms of 300.
    script.world.clock.drift_ppm = 250_000;
    healthy(&judge(&script.world));
    script.world.clock.drift_ppm = 0;
    script.world.clock.jumps.push(at(200));
    healthy(&judge(&script.world));
}

/// A node that had heard a later time of the store, which the store has lost since, takes the retry for due.
#[test]
fn a_retry_comes_early_where_the_store_has_lost_time() {
    let early = |jump: u64, later: u64| {
        let mut script = recovered().alter(|r| {
            if matches!(r.event, Event::AttemptStarted { attempt: 3, .. }) {
                r.at = store(later);
            }
        });
        script.world.ledger[2].at = at(250);
        script.world.clock.jumps.push(at(jump));
        judge(&script.world)
    };
    let is_early = |report: &Report| report.findings.iter().any(|f| f.reason == ARRIVED_EARLY);
    assert!(!is_early(&early(50, 9_000)));
    // The store was not opened again, or the nodes agree about its time.
    assert!(is_early(&early(400, 9_000)));
    assert!(is_early(&early(50, 300)));
}

/// A paused node sends the request of an attempt that another node has given up. The next attempt
/// does not wait for it.
#[test]
fn a_request_that_comes_after_its_attempt_was_given_up_moves_no_retry() {
    for failure in [
        Failure::timeout(ms(50)),
        Failure::heartbeat_missed(ms(50)),
        Failure::lease_lost(),
        server_error(),
    ] {
        let reply = if failure == server_error() { status(503) } else { Reply::Hang };
        let mut script = Script::new(workflow(vec![step("a", policy(2))]));
        script.start(task(0, 0), 1, reply).retry(task(0, 0), 1, &failure);
        script.start(task(0, 0), 2, Reply::SuccessTrue);
        healthy(&judge(&script.world));
        let late = &mut script.world.ledger[0];
        late.at = at(90);
        late.answered_at = late.answered_at.map(|_| at(90));
        match failure == server_error() {
            true => found(&judge(&script.world), ARRIVED_EARLY),
            false => healthy(&judge(&script.world)),
        }
        // An attempt that arrived before it was given up is waited for.
        script.world.asked.values_mut().for_each(|asked| *asked = (*asked).max(at(91)));
        found(&judge(&script.world), ARRIVED_EARLY);
    }
}
