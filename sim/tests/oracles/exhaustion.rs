use retrial::failure::{Failure, NetworkFault};
use retrial::policy::{Counting, GiveUp, Limit, Matcher, Rule};
use retrial::run::{Event, Outcome, TaskTime};
use retrial::time::Nanos;
use retrial::workflow::Target;
use retrial_sim::fault::FaultKind;
use retrial_sim::unstable::evidence::FunctionEvent;
use retrial_sim::unstable::incarnation::Lifespan;
use retrial_sim::unstable::oracle::cancellation::NOT_CALLED_OFF;
use retrial_sim::unstable::oracle::exhaustion::{
    ATTEMPT_GAP, ATTEMPTS_MISCOUNTED, ENDED_AT_REST, EVENT_AFTER_RUN_END, EVENT_AFTER_TASK_END,
    GAVE_UP_EARLY, RETRIED_TOO_OFTEN, STARTED_AT_REST, WILL_RETRY_CONTRADICTED, WRONG_ERROR,
    WRONG_REASON, WRONG_RETRIES_LEFT, judge,
};
use retrial_sim::unstable::scenario::Reply;

use crate::functions::did;
use crate::kit::{
    Script, at, exhausted, fanned, found, healthy, ms, policy, recovered, server_error, status,
    step, task, workflow,
};

#[test]
fn w10_exhaustion_after_exactly_the_allowed_attempts_passes() {
    healthy(&judge(&exhausted().world));
    healthy(&judge(&recovered().world));
    healthy(&judge(&fanned().world));
}

#[test]
fn w8_giving_up_one_attempt_early_is_found() {
    let mut script = Script::new(workflow(vec![step("a", policy(3))]));
    let it = task(0, 0);
    script.enter(0, 1).start(it, 1, status(503)).retry(it, 1, &server_error());
    script.start(it, 2, status(503)).give_up(it, 2, &server_error(), GiveUp::Exhausted);
    let error = script.context(it, 2, &server_error());
    script.step_failed(0, error.clone()).end(Outcome::Failed { error });
    found(&judge(&script.world), GAVE_UP_EARLY);
}

#[test]
fn w8_retrying_once_too_often_is_found() {
    let mut script = Script::new(workflow(vec![step("a", policy(1))]));
    let it = task(0, 0);
    script.enter(0, 1).start(it, 1, status(503)).retry(it, 1, &server_error());
    found(&judge(&script.world), RETRIED_TOO_OFTEN);
}

#[test]
fn a2_retrying_a_permanent_failure_is_found() {
    let mut parts = policy(3);
    parts.rules[0].matcher = retrial::policy::Matcher::retryable();
    let mut script = Script::new(workflow(vec![step("a", parts)]));
    let it = task(0, 0);
    script.enter(0, 1).start(it, 1, status(404)).retry(it, 1, &Failure::http(404, "gone"));
    found(&judge(&script.world), RETRIED_TOO_OFTEN);
}

#[test]
fn a_reason_that_does_not_hold_is_found() {
    let script = exhausted().alter(|r| {
        if let Event::TaskFailed { reason, .. } = &mut r.event {
            *reason = GiveUp::NotRetryable;
        }
    });
    found(&judge(&script.world), WRONG_REASON);
}

#[test]
fn r11_timeouts_have_a_budget_of_their_own() {
    let mut parts = policy(9);
    parts.timeout_retries = Some(1);
    parts.attempt_timeout = Some(ms(10));
    let timeout = Failure::timeout(ms(10));
    let mut script = Script::new(workflow(vec![step("a", parts)]));
    let it = task(0, 0);
    script.enter(0, 1).start(it, 1, Reply::Hang).retry(it, 1, &timeout);
    script.start(it, 2, status(503)).retry(it, 2, &server_error());
    script.start(it, 3, Reply::Hang);
    let so_far = script.world.clone();
    script.give_up(it, 3, &timeout, GiveUp::TimeoutBudget);
    let error = script.context(it, 3, &timeout);
    script.step_failed(0, error.clone()).end(Outcome::Failed { error });
    healthy(&judge(&script.world));
    script.world = so_far;
    script.retry(it, 3, &timeout);
    found(&judge(&script.world), RETRIED_TOO_OFTEN);
}

/// With a count of its own a rule's second failure is retried although the task has made as many
/// attempts as the rule allows.
#[test]
fn x4_a_rule_is_exhausted_by_its_own_count() {
    let mut parts = policy(2);
    parts.rules[0].matcher = Matcher::named(["ServerError"]);
    let timeouts = Rule { matcher: Matcher::named(["TIMEOUT"]), ..parts.rules[0].clone() };
    parts.rules.push(timeouts);
    let timeout = || Failure::timed_out("slow");
    let it = task(0, 0);
    let play = |counting: Counting| {
        let mut parts = parts.clone();
        parts.counting = counting;
        let mut script = Script::new(workflow(vec![step("a", parts)]));
        script.enter(0, 1).start(it, 1, status(503)).retry(it, 1, &server_error());
        script.start(it, 2, Reply::Hang).retry(it, 2, &timeout());
        script.start(it, 3, status(503));
        script
    };
    let own = || play(Counting::PerRule { total: Limit::Unlimited });
    let mut script = own();
    script.give_up(it, 3, &server_error(), GiveUp::Exhausted);
    let error = script.context(it, 3, &server_error());
    script.step_failed(0, error.clone()).end(Outcome::Failed { error });
    let wrong = judge(&script.world);
    let reasons: Vec<&str> = wrong.findings.iter().map(|f| f.reason).collect();
    // The kit counts retries left from one limit.
    assert!(
        !reasons.contains(&RETRIED_TOO_OFTEN) && !reasons.contains(&GAVE_UP_EARLY),
        "{wrong:?}"
    );
    let mut script = own();
    script.retry(it, 3, &server_error());
    found(&judge(&script.world), RETRIED_TOO_OFTEN);
    found(&judge(&play(Counting::Shared).world), RETRIED_TOO_OFTEN);
    let mut script = play(Counting::PerRule { total: Limit::retries(2) });
    script.retry(it, 3, &timeout());
    found(&judge(&script.world), RETRIED_TOO_OFTEN);
}

#[test]
fn decision_7_a_wait_that_is_too_long_ends_the_task() {
    let mut script = Script::new(workflow(vec![step("a", policy(3))]));
    let it = task(0, 0);
    let failure = Failure::http(429, "").with_retry_after(Nanos::from_secs(7_200));
    script.enter(0, 1).start(it, 1, status(429)).give_up(it, 1, &failure, GiveUp::RetryAfter);
    let error = script.context(it, 1, &failure);
    script.step_failed(0, error.clone()).end(Outcome::Failed { error });
    healthy(&judge(&script.world));
}

#[test]
fn decision_8_work_that_comes_due_after_the_total_timeout_fails() {
    let mut parts = policy(3);
    parts.total_timeout = Some(ms(500));
    let fail = |pass: u64| {
        let mut script = Script::new(workflow(vec![step("a", parts.clone())]));
        let it = task(0, 0);
        script.enter(0, 1).start(it, 1, status(503)).retry(it, 1, &server_error()).pass(pass);
        let error = script.context(it, 1, &server_error());
        let reason = GiveUp::TotalTimeout;
        script.event(Event::TaskFailed {
            task: it,
            attempts: 1,
            reason,
            error: error.clone(),
            spent: TaskTime::default(),
        });
        script.step_failed(0, error.clone()).end(Outcome::Failed { error });
        script
    };
    healthy(&judge(&fail(400).world));
    found(&judge(&fail(399).world), GAVE_UP_EARLY);
}

#[test]
fn decision_13_a_failure_and_its_consequence_are_one() {
    let script = exhausted().without(|e| matches!(e, Event::TaskFailed { .. }));
    found(&judge(&script.world), WILL_RETRY_CONTRADICTED);
    let script = recovered().alter(|r| {
        if let Event::AttemptFailed { will_retry, .. } = &mut r.event {
            *will_retry = false;
        }
    });
    found(&judge(&script.world), WILL_RETRY_CONTRADICTED);
}

#[test]
fn a_task_that_fails_twice_is_found() {
    let script = exhausted().twice(|e| matches!(e, Event::TaskFailed { .. }));
    found(&judge(&script.world), EVENT_AFTER_TASK_END);
}

#[test]
fn an_attempt_after_success_is_found() {
    let mut script = recovered();
    script.run_mut().events.truncate(10);
    script.start(task(0, 0), 4, status(503));
    found(&judge(&script.world), EVENT_AFTER_TASK_END);
}

#[test]
fn a_gap_in_the_attempts_is_found() {
    let script = recovered().alter(|r| {
        if let Event::AttemptStarted { attempt, .. } = &mut r.event {
            *attempt += u32::from(*attempt == 2);
        }
    });
    found(&judge(&script.world), ATTEMPT_GAP);
}

#[test]
fn a_wrong_count_of_attempts_is_found() {
    let script = exhausted().alter(|r| {
        if let Event::TaskFailed { attempts, .. } = &mut r.event {
            *attempts = 2;
        }
    });
    found(&judge(&script.world), ATTEMPTS_MISCOUNTED);
}

#[test]
fn w15_a_wrong_count_of_retries_left_is_found() {
    let script = recovered().alter(|r| {
        if let Event::AttemptStarted { retries_left, .. } = &mut r.event {
            *retries_left = Some(0);
        }
    });
    found(&judge(&script.world), WRONG_RETRIES_LEFT);
}

#[test]
fn c5_a_record_of_another_failure_is_found() {
    let script = exhausted().alter(|r| {
        if let Event::TaskFailed { error, .. } | Event::StepFailed { error, .. } = &mut r.event {
            error.attempt = 1;
        }
    });
    found(&judge(&script.world), WRONG_ERROR);
}

#[test]
fn nothing_follows_the_end_of_a_run() {
    let mut script = recovered();
    script.event(Event::RunActivated);
    found(&judge(&script.world), EVENT_AFTER_RUN_END);
}

#[test]
fn a12_a_start_in_a_deactivated_run_is_found() {
    let mut script = Script::new(workflow(vec![step("a", policy(1))]));
    script.enter(0, 1).event(Event::RunDeactivated).event(Event::RunActivated);
    script.start(task(0, 0), 1, status(503)).retry(task(0, 0), 1, &server_error());
    let findings = judge(&script.world).findings;
    assert!(findings.iter().all(|f| f.reason != STARTED_AT_REST), "{findings:?}");
    script.event(Event::RunDeactivated).start(task(0, 0), 2, status(200));
    found(&judge(&script.world), STARTED_AT_REST);
}

#[test]
fn a12_a_lease_that_is_ended_in_a_deactivated_run_is_found() {
    let failed = |failure: &Failure, born: u64| {
        let mut script = Script::new(workflow(vec![step("a", policy(3))]));
        script.enter(0, 1).start(task(0, 0), 1, status(503)).pass(1_000);
        script.event(Event::RunDeactivated).pass(1_000).retry(task(0, 0), 1, failure);
        let first = script.world.lifespans[0].clone();
        let next = Lifespan { incarnation: 1, born: at(born), ..first };
        script.world.lifespans.push(next);
        judge(&script.world)
    };
    found(&failed(&Failure::lease_lost(), 1_500), ENDED_AT_REST);
    healthy(&failed(&server_error(), 1_500));
    // It may have seen the lease end while the run was active.
    healthy(&failed(&Failure::lease_lost(), 500));
}

#[test]
fn h12_an_attempt_that_goes_on_after_its_runs_end_is_found() {
    let mut script = Script::new(workflow(vec![step("a", policy(3))]));
    script.enter(0, 1).start(task(0, 0), 1, Reply::SuccessTrue).pass(100);
    let reason = "enough".to_owned();
    script.event(Event::CancelRequested { reason: reason.clone() });
    script.end(Outcome::Cancelled { reason });
    script.world.ledger[0].answered_at = Some(at(600));
    healthy(&judge(&script.world));
    script.world.ledger[0].answered_at = Some(at(601));
    found(&judge(&script.world), NOT_CALLED_OFF);
    // Its endpoint may not have heard that the caller was gone.
    script.strike(FaultKind::Stall);
    healthy(&judge(&script.world));
}

/// A first attempt that fails of `failure` after its request did or did not arrive, of an action
/// that is not idempotent, retried or given up.
fn harmful(failure: &Failure, arrives: bool, retried: bool) -> Script {
    let mut parts = workflow(vec![step("a", policy(3))]);
    parts.actions.values_mut().for_each(|a| a.idempotent = Some(false));
    let mut script = Script::new(parts);
    let it = task(0, 0);
    script.enter(0, 1).start(it, 1, Reply::Hang);
    if !arrives {
        script.world.ledger.clear();
    }
    if retried {
        script.retry(it, 1, failure);
        return script;
    }
    script.give_up(it, 1, failure, GiveUp::OutcomeUnknown);
    let error = script.context(it, 1, failure);
    script.step_failed(0, error.clone()).end(Outcome::Failed { error });
    script
}

#[test]
fn h17_a_retry_after_an_unknown_outcome_is_found() {
    let cut = Failure::network(NetworkFault::Cut, "cut");
    let refused = Failure::network(NetworkFault::Refused, "refused");
    let timeout = Failure::timed_out("slow");
    for failure in [&cut, &timeout, &Failure::lease_lost()] {
        let good = judge(&harmful(failure, true, false).world);
        assert_eq!(good.features.get("unknown outcome"), Some(&1));
        healthy(&good);
        found(&judge(&harmful(failure, true, true).world), RETRIED_TOO_OFTEN);
    }
    // What never arrived may be tried again, and what was refused must be.
    healthy(&judge(&harmful(&cut, false, true).world));
    healthy(&judge(&harmful(&refused, false, true).world));
    found(&judge(&harmful(&refused, false, false).world), GAVE_UP_EARLY);
    found(&judge(&harmful(&server_error(), true, false).world), GAVE_UP_EARLY);
}

/// The same of a user's own function, which may have failed so itself, and said that it knows or
/// does not know what it did.
fn own_harmful(failure: &Failure, itself: Option<bool>, retried: bool) -> Script {
    let mut parts = workflow(vec![step("a", policy(3))]);
    let action = parts.actions.get_mut("do_a").unwrap();
    (action.target, action.idempotent) = (Target::Registered, Some(false));
    let mut script = Script::new(parts);
    script.world.own.is_own = true;
    let it = task(0, 0);
    script.enter(0, 1).start(it, 1, Reply::Hang);
    script.world.ledger.clear();
    let code = failure.code().clone();
    let last = itself
        .map_or(FunctionEvent::Began(None), |unknown| FunctionEvent::Failed { code, unknown });
    did(&mut script, 1, &[last]);
    if retried {
        script.retry(it, 1, failure);
    } else {
        script.give_up(it, 1, failure, GiveUp::OutcomeUnknown);
    }
    script
}

#[test]
fn h17_whether_an_outcome_is_unknown_is_for_whoever_failed_to_say() {
    for failure in [Failure::timed_out("slow"), Failure::lease_lost()] {
        let forgotten: Failure = Failure::new(failure.code().as_str(), "known").retryable();
        // The outcome of an attempt that did not end is unknown, whatever the mark.
        for failure in [&failure, &forgotten] {
            let report = judge(&own_harmful(failure, None, false).world);
            assert!(report.findings.iter().all(|f| f.reason != GAVE_UP_EARLY), "{report:?}");
            found(&judge(&own_harmful(failure, None, true).world), RETRIED_TOO_OFTEN);
        }
        // A function that says that it has done nothing may be called again, and must be.
        healthy(&judge(&own_harmful(&forgotten, Some(false), true).world));
        found(&judge(&own_harmful(&forgotten, Some(false), false).world), GAVE_UP_EARLY);
        // What it says counts, not what is recorded of it.
        found(&judge(&own_harmful(&forgotten, Some(true), true).world), RETRIED_TOO_OFTEN);
    }
    let network = Failure::network(NetworkFault::Cut, "cut");
    healthy(&judge(&own_harmful(&network, Some(false), true).world));
}
