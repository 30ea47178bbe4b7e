use retrial::failure::Failure;
use retrial::run::Event;
use retrial::time::Nanos;
use retrial_sim::unstable::evidence::Bound;
use retrial_sim::unstable::oracle::termination::{
    LATE, STUCK, TOO_MANY_ATTEMPTS, UNBOUNDED_HISTORY, judge,
};

use crate::kit::{
    Script, at, exhausted, found, healthy, ms, policy, recovered, status, step, task, workflow,
};

#[test]
fn ended_runs_pass() {
    healthy(&judge(&recovered().world));
    healthy(&judge(&exhausted().world));
}

#[test]
fn a_run_without_an_end_is_stuck() {
    let script = recovered().without(|e| matches!(e, Event::RunEnded { .. }));
    let report = judge(&script.world);
    found(&report, STUCK);
    assert!(report.findings[0].is_stuck());
}

#[test]
fn a_run_that_ends_after_the_bound_is_late() {
    let mut script = recovered();
    script.world.phases.healed_at = at(0);
    script.world.phases.bound = Bound::Within(ms(299));
    found(&judge(&script.world), LATE);
    script.world.phases.bound = Bound::Within(ms(300));
    healthy(&judge(&script.world));
}

#[test]
fn what_policy_leaves_unbounded_is_not_stuck() {
    let mut script = recovered().without(|e| matches!(e, Event::RunEnded { .. }));
    script.world.phases.bound = Bound::UnboundedByPolicy;
    healthy(&judge(&script.world));
}

#[test]
fn what_nobody_acknowledged_or_what_is_left_alone_need_not_end() {
    let mut script = recovered().without(|e| matches!(e, Event::RunEnded { .. }));
    script.run_mut().acknowledged = false;
    healthy(&judge(&script.world));
    script.run_mut().is_webhook = true;
    found(&judge(&script.world), STUCK);
    script.run_mut().is_webhook = false;
    script.run_mut().acknowledged = true;
    script.event(Event::RunDeactivated);
    found(&judge(&script.world), STUCK);
    script.run_mut().left_alone = true;
    healthy(&judge(&script.world));
    script.event(Event::RunActivated);
    found(&judge(&script.world), STUCK);
}

#[test]
fn one_attempt_more_than_allowed_is_too_many() {
    // W8: `retry: 2` is three attempts.
    let mut script = recovered();
    script.start(task(0, 0), 4, status(503));
    found(&judge(&script.world), TOO_MANY_ATTEMPTS);
}

#[test]
fn an_attempt_started_twice_counts_twice() {
    let script = recovered().twice(|e| matches!(e, Event::AttemptStarted { attempt: 3, .. }));
    found(&judge(&script.world), TOO_MANY_ATTEMPTS);
}

#[test]
fn unlimited_retries_must_not_keep_every_event() {
    let mut script = Script::new(workflow(vec![step("a", policy(0))]));
    let it = task(0, 0);
    for attempt in 1..=300 {
        script.start(it, attempt, status(503));
        let failure = Failure::http(503, "busy");
        script.event(Event::AttemptFailed {
            task: it,
            attempt,
            failure,
            will_retry: true,
            took: Nanos::ZERO,
        });
    }
    script.run_mut().acknowledged = false;
    healthy(&judge(&script.world));
    for attempt in 301..=400 {
        script.start(it, attempt, status(503));
        let failure = Failure::http(503, "busy");
        script.event(Event::AttemptFailed {
            task: it,
            attempt,
            failure,
            will_retry: true,
            took: Nanos::ZERO,
        });
    }
    found(&judge(&script.world), UNBOUNDED_HISTORY);
}
