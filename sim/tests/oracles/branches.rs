//! Partial success, joins, errors of several branches, and what steps require and ensure (C18, H10).

use bytes::Bytes;
use retrial::failure::Failure;
use retrial::policy::GiveUp;
use retrial::run::{Event, Outcome};
use retrial::workflow::{Quorum, StepIx, WorkflowParts};
use retrial_sim::unstable::oracle::branches::ERRORS_MISGATHERED;
use retrial_sim::unstable::oracle::exhaustion::judge;
use retrial_sim::unstable::oracle::isolation;
use retrial_sim::unstable::oracle::routing::{
    CANCELLED_WITHOUT_CAUSE, ENTERED_WRONGLY, REQUIREMENT_MISJUDGED, STEP_ENDED_WRONGLY,
    WRONG_OUTCOME,
};
use retrial_sim::unstable::scenario::Reply;
use serde_json::{Value, json};

use crate::kit::{Script, found, healthy, policy, status, step, task, workflow};
use crate::routing::broken;

/// Two siblings of which the first fails.
fn fan(success: Quorum, fail_fast: bool) -> Script {
    let mut fan = step("a", policy(1));
    fan.for_each = Some(json!([1, 2]).try_into().unwrap());
    (fan.success, fan.fail_fast) = (success, fail_fast);
    let mut script = Script::new(workflow(vec![fan]));
    script.enter(0, 2).start(task(0, 0), 1, status(500));
    script.give_up(task(0, 0), 1, &broken(), GiveUp::Exhausted);
    script
}

#[test]
fn c18_enough_is_what_the_step_says() {
    let ends = |success| {
        let mut script = fan(success, false);
        script.start(task(0, 1), 1, Reply::SuccessTrue).succeed(task(0, 1), 1);
        script.step_succeeded(0).end(Outcome::Completed);
        judge(&script.world)
    };
    healthy(&ends(Quorum::Any));
    found(&ends(Quorum::All), STEP_ENDED_WRONGLY);
    let fails = |success| {
        let mut script = fan(success, false);
        script.start(task(0, 1), 1, Reply::SuccessTrue).succeed(task(0, 1), 1);
        let error = script.context(task(0, 0), 1, &broken());
        script.step_failed(0, error.clone()).end(Outcome::Failed { error });
        judge(&script.world)
    };
    healthy(&fails(Quorum::All));
    found(&fails(Quorum::Any), STEP_ENDED_WRONGLY);
}

#[test]
fn c18_siblings_are_called_off_only_once_the_step_is_decided() {
    let ends = |success| {
        let mut script = fan(success, true);
        script.start(task(0, 1), 1, Reply::Hang);
        script.event(Event::TaskCancelled { task: task(0, 1) });
        let error = script.context(task(0, 0), 1, &broken());
        script.step_failed(0, error.clone()).end(Outcome::Failed { error });
        judge(&script.world)
    };
    healthy(&ends(Quorum::All));
    found(&ends(Quorum::Any), CANCELLED_WITHOUT_CAUSE);
}

/// `a`, `b` and a join of them that is sent all errors.
fn joined(join: Quorum) -> WorkflowParts {
    let mut parts = workflow(["a", "b", "j"].map(|id| step(id, policy(1))).into());
    parts.steps[2].after = vec![StepIx(0), StepIx(1)];
    parts.steps[2].join = join;
    parts.steps[2].args = json!({"errors": "${_errors}"}).try_into().unwrap();
    parts
}

/// `a` fails, `b` does not, and the join is sent what `errors` makes of the record.
fn gathered(join: Quorum, errors: impl Fn(Value) -> Value) -> Script {
    let mut script = Script::new(joined(join));
    let error = script.fail_step(0);
    script.pass_step(1).pass_step(2).end(Outcome::Completed);
    let sent = json!({"errors": errors(serde_json::to_value(error).unwrap())}).to_string();
    script.world.ledger.last_mut().unwrap().body = Bytes::from(sent);
    script
}

#[test]
fn c18_a_join_does_with_enough() {
    healthy(&judge(&gathered(Quorum::Any, |e| json!([e])).world));
    found(&judge(&gathered(Quorum::All, |e| json!([e])).world), ENTERED_WRONGLY);
    // It waits for the others all the same.
    let mut script = Script::new(joined(Quorum::Any));
    script.pass_step(1).pass_step(2);
    found(&judge(&script.world), ENTERED_WRONGLY);
}

#[test]
fn c18_a_join_is_sent_every_error_that_is_not_cleared() {
    for wrong in [json!(null), json!([])] {
        let script = gathered(Quorum::Any, |_| wrong.clone());
        found(&judge(&script.world), ERRORS_MISGATHERED);
    }
    found(&judge(&gathered(Quorum::Any, |e| json!([e, e])).world), ERRORS_MISGATHERED);
}

#[test]
fn c18_a_failure_that_a_join_takes_in_ends_no_run() {
    let mut script = Script::new(joined(Quorum::Any));
    let error = script.fail_step(0);
    script.pass_step(1).pass_step(2);
    script.world.ledger.last_mut().unwrap().body =
        Bytes::from(json!({"errors": [error]}).to_string());
    script.end(Outcome::Failed { error });
    found(&judge(&script.world), WRONG_OUTCOME);
    // One that it can not do without ends it.
    let mut script = Script::new(joined(Quorum::Any));
    script.fail_step(0);
    let error = script.fail_step(1);
    script.event(Event::StepUnreachable { step: StepIx(2) });
    let so_far = script.world.clone();
    script.end(Outcome::Failed { error });
    healthy(&judge(&script.world));
    script.world = so_far;
    script.end(Outcome::Completed);
    found(&judge(&script.world), WRONG_OUTCOME);
}

#[test]
fn h10_a_requirement_is_judged_as_it_is() {
    let world = |field: &str, entered: bool| {
        let mut parts = workflow(vec![step("a", policy(1))]);
        let requires = json!({"type": "exists", "field": field});
        parts.steps[0].requires = serde_json::from_value(requires).unwrap();
        let mut script = Script::new(parts);
        if entered {
            script.pass_step(0).end(Outcome::Completed);
        } else {
            let failure = Failure::new("PRECONDITION_FAILED", "no");
            let error = script.context(task(0, 0), 0, &failure);
            script.step_failed(0, error.clone()).end(Outcome::Failed { error });
        }
        script.world
    };
    healthy(&judge(&world("state.input.items", true)));
    healthy(&judge(&world("state.input.none", false)));
    found(&judge(&world("state.input.none", true)), REQUIREMENT_MISJUDGED);
    found(&judge(&world("state.input.items", false)), REQUIREMENT_MISJUDGED);
}

#[test]
fn h10_a_result_that_breaks_what_is_ensured_is_no_success() {
    let world = |reply: Reply, succeeds: bool| {
        let mut parts = workflow(vec![step("a", policy(1))]);
        let ensures = json!({"type": "exists", "field": "state.result.id"});
        parts.steps[0].ensures = serde_json::from_value(ensures).unwrap();
        let mut script = Script::new(parts);
        script.enter(0, 1).start(task(0, 0), 1, reply);
        if succeeds {
            script.succeed(task(0, 0), 1).step_succeeded(0).end(Outcome::Completed);
        } else {
            let failure = Failure::new("POSTCONDITION_FAILED", "no").retryable();
            script.give_up(task(0, 0), 1, &failure, GiveUp::Exhausted);
            let error = script.context(task(0, 0), 1, &failure);
            script.step_failed(0, error.clone()).end(Outcome::Failed { error });
        }
        script.world
    };
    let good = || Reply::Ok(json!({"id": 7}));
    healthy(&isolation::judge(&world(good(), true)));
    healthy(&isolation::judge(&world(Reply::SuccessTrue, false)));
    found(&isolation::judge(&world(Reply::SuccessTrue, true)), isolation::SUCCESS_NOT_ITS_OWN);
    found(&isolation::judge(&world(good(), false)), isolation::FAILURE_NOT_ITS_OWN);
}
