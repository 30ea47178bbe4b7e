use retrial::failure::Failure;
use retrial::run::{Cost, Event};
use retrial::workflow::Target;
use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::evidence::{ArrivalEnd, FunctionEvent, FunctionRecord};
use retrial_sim::unstable::oracle::classes::WRONG_CLASS;
use retrial_sim::unstable::oracle::functions::{
    CHECKED_AGAIN, COST_MISCOUNTED, HEARTBEAT_NOT_HEARD, MISSED_TOO_LATE, NEVER_BEGAN,
    NO_HEARTBEAT_ASKED, NOT_REGISTERED_THERE, PROGRESS_FROM_NOWHERE, PROGRESS_LOST, RAN_TOO_LONG,
    SILENT_TOO_LONG,
};
use retrial_sim::unstable::oracle::isolation::judge;
use retrial_sim::unstable::scenario::Reply;

use crate::kit::{
    Script, at, found, healthy, ms, policy, server_error, status, step, task, workflow,
};

/// A run of one function that must give a heartbeat each second.
fn function() -> Script {
    let mut parts = workflow(vec![step("a", policy(9))]);
    let action = parts.actions.get_mut("do_a").unwrap();
    action.target = Target::Registered;
    action.heartbeat_timeout = Some(ms(1_000));
    let mut script = Script::new(parts);
    script.enter(0, 1);
    script
}

pub(crate) fn did(script: &mut Script, attempt: u32, all: &[FunctionEvent]) {
    let (run, at) = (script.run().id, at(script.now));
    let work = |did: &FunctionEvent| FunctionRecord {
        at,
        run,
        task: task(0, 0),
        attempt,
        did: did.clone(),
    };
    script.world.function_records.extend(all.iter().map(work));
}

fn costs(script: &mut Script, attempt: u32, millionths: u64) {
    let cost = Cost::from_millionths(millionths);
    script.event(Event::CostReported { task: task(0, 0), attempt, cost });
}

/// A first attempt that reports progress 3 and a cost of 7 and fails, and a second one that does
/// `second`.
fn retried(cost: u64, second: &[FunctionEvent]) -> Script {
    let mut script = function();
    let it = task(0, 0);
    script.start(it, 1, status(503));
    did(
        &mut script,
        1,
        &[
            FunctionEvent::Checked,
            FunctionEvent::Began(None),
            FunctionEvent::TaskTime(5),
            FunctionEvent::Beat(3),
            FunctionEvent::TaskTime(2),
        ],
    );
    costs(&mut script, 1, cost);
    script.retry(it, 1, &server_error()).start(it, 2, Reply::SuccessTrue);
    did(&mut script, 2, second);
    script.succeed(it, 2);
    script
}

#[test]
fn x1_h10_h17_what_a_function_says_is_recorded() {
    let report = judge(&retried(7, &[FunctionEvent::Began(Some(3))]).world);
    healthy(&report);
    for feature in ["function", "precondition once", "cost", "heartbeat"] {
        assert!(report.features[feature] > 0, "{feature}");
    }
}

#[test]
fn h17_a_cost_that_is_miscounted_or_missing_is_found() {
    found(&judge(&retried(6, &[FunctionEvent::Began(Some(3))]).world), COST_MISCOUNTED);
    let script = retried(7, &[FunctionEvent::Began(Some(3))]);
    let script = script.without(|e| matches!(e, Event::CostReported { .. }));
    found(&judge(&script.world), COST_MISCOUNTED);
}

#[test]
fn x1_progress_that_does_not_reach_the_next_attempt_is_found() {
    found(&judge(&retried(7, &[FunctionEvent::Began(None)]).world), PROGRESS_LOST);
    found(&judge(&retried(7, &[FunctionEvent::Began(Some(2))]).world), PROGRESS_LOST);
    found(&judge(&retried(7, &[FunctionEvent::Began(Some(4))]).world), PROGRESS_FROM_NOWHERE);
}

#[test]
fn h10_a_precondition_that_is_looked_at_again_is_found() {
    found(
        &judge(&retried(7, &[FunctionEvent::Checked, FunctionEvent::Began(Some(3))]).world),
        CHECKED_AGAIN,
    );
}

#[test]
fn x1_a_success_of_an_attempt_that_never_began_is_found() {
    found(&judge(&retried(7, &[]).world), NEVER_BEGAN);
}

#[test]
fn x12_an_attempt_where_its_function_is_not_is_found() {
    let mut script = retried(7, &[FunctionEvent::Began(Some(3))]);
    script.world.missing_functions.insert("do_a".to_owned());
    let report = judge(&script.world);
    healthy(&report);
    assert_eq!(report.features["function elsewhere"], 2);
    let mut script = function();
    script.start(task(0, 0), 1, status(503));
    let nowhere = Failure::new("UNKNOWN_ACTION", "no action `do_a` is registered on this node");
    script.retry(task(0, 0), 1, &nowhere);
    found(&judge(&script.world), NOT_REGISTERED_THERE);
}

#[test]
fn x1_silence_for_longer_than_allowed_is_found() {
    let silent = |millis: u64| {
        let mut script = function();
        script.start(task(0, 0), 1, Reply::SuccessTrue);
        did(&mut script, 1, &[FunctionEvent::Began(None)]);
        script.pass(millis);
        script.world.ledger[0].answered_at = Some(at(millis));
        script.succeed(task(0, 0), 1);
        judge(&script.world)
    };
    healthy(&silent(900));
    found(&silent(2_500), SILENT_TOO_LONG);
}

#[test]
fn x1_a_missed_heartbeat_where_none_is_asked_for_is_found() {
    let missed = |asked: bool| {
        let mut parts = workflow(vec![step("a", policy(9))]);
        let action = parts.actions.get_mut("do_a").unwrap();
        action.target = Target::Registered;
        action.heartbeat_timeout = asked.then(|| ms(1_000));
        let mut script = Script::new(parts);
        script.enter(0, 1).start(task(0, 0), 1, Reply::Hang);
        did(&mut script, 1, &[FunctionEvent::Began(None)]);
        script.pass(1_000).retry(task(0, 0), 1, &Failure::heartbeat_missed(ms(1_000)));
        judge(&script.world)
    };
    healthy(&missed(true));
    found(&missed(false), NO_HEARTBEAT_ASKED);
}

#[test]
fn x1_a_heartbeat_that_is_not_heard_is_found() {
    let missed = |beats: &[u64], struck: bool| {
        let mut script = function();
        script.start(task(0, 0), 1, Reply::Hang);
        did(&mut script, 1, &[FunctionEvent::Began(None)]);
        for (done, at) in (1..).zip(beats) {
            script.now = *at;
            did(&mut script, 1, &[FunctionEvent::Beat(done)]);
        }
        script.now = 2_000;
        script.retry(task(0, 0), 1, &Failure::heartbeat_missed(ms(1_000)));
        if struck {
            script.strike(FaultKind::Partition);
        }
        judge(&script.world)
    };
    healthy(&missed(&[500, 1_000], false));
    found(&missed(&[500, 1_500], false), HEARTBEAT_NOT_HEARD);
    healthy(&missed(&[500, 1_500], true));
}

#[test]
fn x1_an_attempt_that_goes_on_after_it_missed_a_heartbeat_is_found() {
    let gone = |after: u64, struck: Option<FaultKind>| {
        let mut script = function();
        script.start(task(0, 0), 1, Reply::Hang);
        did(&mut script, 1, &[FunctionEvent::Began(None)]);
        script.now = 500;
        did(&mut script, 1, &[FunctionEvent::Beat(1)]);
        let call = script.world.ledger.last_mut().unwrap();
        (call.end, call.ended_at) = (ArrivalEnd::CallerGone, Some(at(500 + after)));
        script.now = 9_000;
        script.retry(task(0, 0), 1, &Failure::lease_lost());
        if let Some(kind) = struck {
            script.strike(kind);
        }
        judge(&script.world)
    };
    healthy(&gone(300, None));
    healthy(&gone(1_700, None));
    found(&gone(1_900, None), MISSED_TOO_LATE);
    for deaf in [FaultKind::Partition, FaultKind::Pause, FaultKind::Crash] {
        healthy(&gone(1_900, Some(deaf)));
    }
}

#[test]
fn h10_a_failure_that_the_engine_makes_of_another_class_is_found() {
    let failed = |failure: Failure| {
        let mut script = function();
        script.start(task(0, 0), 1, Reply::SuccessTrue);
        did(&mut script, 1, &[FunctionEvent::Began(None)]);
        script.retry(task(0, 0), 1, &failure);
        judge(&script.world)
    };
    healthy(&failed(Failure::new("POSTCONDITION_FAILED", "no").retryable()));
    found(&failed(Failure::new("POSTCONDITION_FAILED", "no")), WRONG_CLASS);
    found(&failed(Failure::new("TIMEOUT", "no").with_lineage(["TimeoutError"])), WRONG_CLASS);
}

#[test]
fn c4_an_attempt_that_runs_past_its_timeout_is_found() {
    let beating = |millis: u64| {
        let mut script = function();
        script.start(task(0, 0), 1, Reply::SuccessTrue);
        for recorded in &mut script.run_mut().events {
            if let Event::AttemptStarted { timeout, .. } = &mut recorded.event {
                *timeout = Some(ms(3_000));
            }
        }
        for done in 0..=millis / 500 {
            script.now = done * 500;
            let did_it =
                if done == 0 { FunctionEvent::Began(None) } else { FunctionEvent::Beat(done) };
            did(&mut script, 1, &[did_it]);
        }
        judge(&script.world)
    };
    let is_found = |millis| beating(millis).findings.iter().any(|b| b.reason == RAN_TOO_LONG);
    assert!(!is_found(3_000));
    assert!(is_found(4_000));
}
