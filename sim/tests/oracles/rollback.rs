//! Compensation and rollback (C18).

use bytes::Bytes;
use retrial::failure::{ErrorContext, Failure};
use retrial::policy::GiveUp;
use retrial::run::{Event, Outcome};
use retrial::workflow::{Rollback, StepIx, WorkflowParts};
use retrial_sim::unstable::oracle::exhaustion::judge;
use retrial_sim::unstable::oracle::rollback::{
    COMPLETENESS_MISTOLD, OUT_OF_PLACE, OUTCOME_CHANGED, ROLLBACK_MISSING, ROLLBACK_UNASKED,
    UNDONE_TOGETHER, UNDONE_WRONGLY, WRONG_RESULT_UNDONE,
};
use retrial_sim::unstable::scenario::Reply;
use serde_json::json;

use crate::kit::{Script, at, found, healthy, policy, step, task, workflow};
use crate::routing::broken;

/// `a`, `b`, and `c`, which fails; steps 3 and 4 undo the first two.
fn saga(rollback: Rollback) -> WorkflowParts {
    let mut parts = workflow(["a", "b", "c", "ua", "ub"].map(|id| step(id, policy(1))).into());
    parts.steps[3].compensates = Some(StepIx(0));
    parts.steps[4].compensates = Some(StepIx(1));
    parts.steps[4].args = json!({"undone": "${result}"}).try_into().unwrap();
    parts.rollback = rollback;
    parts
}

/// The run up to its rollback, and how it is to end.
fn failing(rollback: Rollback) -> (Script, Outcome) {
    let mut script = Script::new(saga(rollback));
    script.pass_step(0).pass_step(1);
    let error: ErrorContext = script.fail_step(2);
    (script, Outcome::Failed { error })
}

impl Script {
    fn roll_back(&mut self, outcome: &Outcome) -> &mut Self {
        self.event(Event::RollbackStarted { outcome: outcome.clone() })
    }

    fn begin_undo(&mut self, at: u16) -> &mut Self {
        self.event(Event::CompensationStarted { task: task(at, 0) });
        self.start(task(at, 0), 1, Reply::SuccessTrue);
        let sent = json!({"undone": {"ok": true}}).to_string();
        self.world.ledger.last_mut().unwrap().body = Bytes::from(sent);
        self
    }

    fn undo(&mut self, at: u16) -> &mut Self {
        self.begin_undo(at).succeed(task(at, 0), 1).step_succeeded(at)
    }

    fn rolled_back(&mut self, complete: bool, outcome: Outcome) -> &mut Self {
        self.event(Event::RollbackEnded { complete }).end(outcome)
    }
}

fn whole() -> Script {
    let (mut script, outcome) = failing(Rollback::OnFailure);
    script.roll_back(&outcome).undo(4).undo(3).rolled_back(true, outcome);
    script
}

#[test]
fn c18_a_rollback_backwards_over_what_succeeded_passes() {
    healthy(&judge(&whole().world));
    let (mut script, outcome) = failing(Rollback::Never);
    script.end(outcome);
    healthy(&judge(&script.world));
}

#[test]
fn c18_a_rollback_that_is_missing_or_unasked_is_found() {
    let (mut script, outcome) = failing(Rollback::Always);
    script.end(outcome);
    found(&judge(&script.world), ROLLBACK_MISSING);
    let (mut script, outcome) = failing(Rollback::OnCancel);
    script.roll_back(&outcome).undo(4).undo(3).rolled_back(true, outcome);
    found(&judge(&script.world), ROLLBACK_UNASKED);
    // One that was asked for is none of these.
    let mut script = Script::new(saga(Rollback::Never));
    script.pass_step(0);
    script.run_mut().rollbacks.push(at(0));
    let outcome = Outcome::Cancelled { reason: "no more".to_owned() };
    script.event(Event::CancelRequested { reason: "no more".to_owned() });
    script.roll_back(&outcome).undo(3).rolled_back(true, outcome);
    healthy(&judge(&script.world));
}

#[test]
fn c18_undoing_forwards_twice_or_what_did_not_succeed_is_found() {
    let (mut script, outcome) = failing(Rollback::OnFailure);
    script.roll_back(&outcome).undo(3).undo(4).rolled_back(true, outcome);
    found(&judge(&script.world), UNDONE_WRONGLY);
    let begins = |e: &Event| matches!(e, Event::CompensationStarted { .. });
    found(&judge(&whole().twice(begins).world), UNDONE_WRONGLY);
    let mut script = Script::new(saga(Rollback::OnFailure));
    script.pass_step(0);
    let error = script.fail_step(1);
    let outcome = Outcome::Failed { error };
    script.roll_back(&outcome).undo(4).undo(3).rolled_back(true, outcome);
    found(&judge(&script.world), UNDONE_WRONGLY);
}

#[test]
fn c18_compensations_side_by_side_are_found() {
    let (mut script, outcome) = failing(Rollback::OnFailure);
    script.roll_back(&outcome).begin_undo(4).begin_undo(3);
    script.succeed(task(4, 0), 1).succeed(task(3, 0), 1).rolled_back(true, outcome);
    found(&judge(&script.world), UNDONE_TOGETHER);
}

#[test]
fn c18_an_incomplete_rollback_says_so() {
    let ends = |complete: bool| {
        let (mut script, outcome) = failing(Rollback::OnFailure);
        script.roll_back(&outcome);
        script.event(Event::CompensationStarted { task: task(4, 0) });
        script.start(task(4, 0), 1, crate::kit::status(500));
        script.world.ledger.last_mut().unwrap().body =
            Bytes::from(json!({"undone": {"ok": true}}).to_string());
        script.give_up(task(4, 0), 1, &broken(), GiveUp::Exhausted);
        let error = script.context(task(4, 0), 1, &broken());
        script.step_failed(4, error).undo(3).rolled_back(complete, outcome);
        judge(&script.world)
    };
    healthy(&ends(false));
    found(&ends(true), COMPLETENESS_MISTOLD);
    // Nor may anything be left.
    let (mut script, outcome) = failing(Rollback::OnFailure);
    script.roll_back(&outcome).undo(4).rolled_back(true, outcome);
    found(&judge(&script.world), COMPLETENESS_MISTOLD);
}

#[test]
fn c18_a_rollback_changes_no_outcome_and_ends_before_the_run() {
    let (mut script, outcome) = failing(Rollback::OnFailure);
    let other = script.context(task(4, 0), 1, &Failure::http(404, "gone"));
    script.roll_back(&outcome).undo(4).undo(3);
    script.rolled_back(true, Outcome::Failed { error: other });
    found(&judge(&script.world), OUTCOME_CHANGED);
    let unsaid = whole().without(|e| matches!(e, Event::RollbackEnded { .. }));
    found(&judge(&unsaid.world), OUTCOME_CHANGED);
}

#[test]
fn c18_the_ordinary_flow_stops_where_the_rollback_begins() {
    let (mut script, outcome) = failing(Rollback::OnFailure);
    script.roll_back(&outcome).undo(4);
    script.event(Event::StepSkipped { step: StepIx(2) });
    found(&judge(&script.world), OUT_OF_PLACE);
    let mut script = Script::new(saga(Rollback::OnFailure));
    script.start(task(3, 0), 1, Reply::SuccessTrue);
    found(&judge(&script.world), OUT_OF_PLACE);
}

#[test]
fn c18_a_compensation_that_was_sent_another_result_is_found() {
    let mut script = whole();
    let sent = script.world.ledger.iter_mut().find(|a| a.path == "/ub").unwrap();
    sent.body = Bytes::from_static(b"{\"undone\": {\"ok\": false}}");
    found(&judge(&script.world), WRONG_RESULT_UNDONE);
}

#[test]
fn c18_a_rollback_that_is_cancelled_stops_and_says_so() {
    let (mut script, outcome) = failing(Rollback::OnFailure);
    script.roll_back(&outcome).begin_undo(4);
    script.event(Event::CancelRequested { reason: "leave it".to_owned() });
    script.rolled_back(false, outcome);
    healthy(&judge(&script.world));
}
