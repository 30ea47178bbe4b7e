//! The second half of promise 3: Decision 18, A11, A13, C6, C11.

use retrial::failure::{ErrorCode, ErrorContext, Failure};
use retrial::policy::GiveUp;
use retrial::run::{Event, Outcome, RouteCause};
use retrial::workflow::{Condition, Quorum, StepIx, Transition, WorkflowParts};
use retrial_sim::unstable::oracle::exhaustion::judge;
use retrial_sim::unstable::oracle::routing::{
    CANCELLED_WITHOUT_CAUSE, COMPLETED_TOO_SOON, ENTERED_WRONGLY, FAILURE_MISROUTED,
    HANDLER_RECURSED, STEP_ENDED_WRONGLY, STEP_NOT_ENDED, SUCCESS_MISROUTED, WRONG_FAN_OUT,
    WRONG_OUTCOME,
};
use retrial_sim::unstable::scenario::Reply;
use serde_json::{Value, json};

use crate::kit::{
    Script, exhausted, fanned, found, healthy, policy, recovered, status, step, task, workflow,
};

fn edge(from: u16, to: u16, priority: i64, condition: Value) -> Transition {
    let condition: Option<Condition> = serde_json::from_value(condition).unwrap();
    Transition { from: StepIx(from), to: StepIx(to), priority, on_error: None, condition }
}

fn has_error() -> Value {
    json!({"type": "exists", "field": "state._last_error"})
}

/// Test 3 of Capability 5: `a` leads to `b` when it succeeds and to the handler `c` when not.
fn handled() -> WorkflowParts {
    let mut parts = workflow(["a", "b", "c"].map(|id| step(id, policy(1))).into());
    parts.transitions = vec![
        edge(0, 1, 1, json!({"type": "not", "condition": has_error()})),
        edge(0, 2, 2, has_error()),
    ];
    parts
}

pub(crate) fn broken() -> Failure {
    Failure::http(500, "broken")
}

impl Script {
    pub(crate) fn fail_step(&mut self, at: u16) -> ErrorContext {
        self.fail_step_after(at, &[])
    }

    /// The step fails after `meanwhile` has befallen others.
    fn fail_step_after(&mut self, at: u16, meanwhile: &[Event]) -> ErrorContext {
        let it = task(at, 0);
        self.enter(at, 1).start(it, 1, status(500));
        for event in meanwhile {
            self.event(event.clone());
        }
        self.give_up(it, 1, &broken(), GiveUp::Exhausted);
        let error = self.context(it, 1, &broken());
        self.step_failed(at, error.clone());
        error
    }

    pub(crate) fn pass_step(&mut self, at: u16) -> &mut Self {
        self.enter(at, 1).start(task(at, 0), 1, Reply::SuccessTrue).succeed(task(at, 0), 1);
        self.step_succeeded(at)
    }

    pub(crate) fn route(&mut self, from: u16, to: u16, cause: RouteCause) -> &mut Self {
        self.event(Event::Routed { from: StepIx(from), to: StepIx(to), cause })
    }

    pub(crate) fn skip(&mut self, at: u16) -> &mut Self {
        self.event(Event::StepSkipped { step: StepIx(at) })
    }
}

/// `a` fails and the handler succeeds.
fn caught() -> Script {
    let mut script = Script::new(handled());
    script.fail_step(0);
    script.route(0, 2, RouteCause::Failure).skip(1).pass_step(2).end(Outcome::Completed);
    script
}

#[test]
fn c6_both_ways_of_a_handler_pass() {
    healthy(&judge(&caught().world));
    let mut script = Script::new(handled());
    script.pass_step(0).route(0, 1, RouteCause::Success).skip(2).pass_step(1);
    script.end(Outcome::Completed);
    healthy(&judge(&script.world));
}

#[test]
fn decision_18_a_failure_on_the_wrong_edge_is_found() {
    let script = caught().alter(|r| {
        if let Event::Routed { to, .. } = &mut r.event {
            *to = StepIx(1);
        }
    });
    found(&judge(&script.world), FAILURE_MISROUTED);
    let script = caught().without(|e| matches!(e, Event::Routed { .. }));
    found(&judge(&script.world), FAILURE_MISROUTED);
}

/// `a` is at work when its handler is closed by `closing`; then it fails, and is led nowhere.
fn closed_early(parts: WorkflowParts, closing: &[Event]) -> Script {
    let mut script = Script::new(parts);
    script.fail_step_after(0, closing);
    script
}

#[test]
fn decision_18_a_handler_closed_while_its_source_works_is_found() {
    let step = StepIx(2);
    for closing in [
        Event::StepUnreachable { step },
        Event::StepSkipped { step },
        Event::StepEntered { step, tasks: 1 },
    ] {
        found(&judge(&closed_early(handled(), &[closing]).world), FAILURE_MISROUTED);
    }
}

#[test]
fn decision_18_a_failure_is_not_led_where_it_would_vanish() {
    let needing = |join: Quorum| {
        let mut parts = handled();
        parts.steps.extend(["d", "e"].map(|id| step(id, policy(1))));
        parts.steps[2].after = vec![StepIx(3), StepIx(4)];
        parts.steps[2].join = join;
        parts
    };
    // The handler needs `d` too, which requires what does not hold.
    let error = Script::new(needing(Quorum::All)).context(task(3, 0), 0, &broken());
    let error = ErrorContext { code: ErrorCode::new("PRECONDITION_FAILED"), ..error };
    let lost =
        [Event::StepFailed { step: StepIx(3), error }, Event::StepUnreachable { step: StepIx(2) }];
    let misrouted = |join, closing: &[Event]| {
        let report = judge(&closed_early(needing(join), closing).world);
        report.findings.iter().any(|f| f.reason == FAILURE_MISROUTED)
    };
    assert!(!misrouted(Quorum::All, &lost));
    // It can do without one of the two, or was ruled out before it had to be.
    assert!(misrouted(Quorum::Any, &lost));
    assert!(misrouted(Quorum::All, &[lost[1].clone(), lost[0].clone()]));
}

#[test]
fn c6_a_step_that_others_may_still_lead_to_is_not_entered() {
    let mut parts = workflow(["a", "b", "c"].map(|id| step(id, policy(1))).into());
    parts.transitions = vec![edge(0, 2, 1, Value::Null), edge(1, 2, 1, Value::Null)];
    let mut script = Script::new(parts.clone());
    script.pass_step(0).route(0, 2, RouteCause::Success);
    script.pass_step(1).route(1, 2, RouteCause::Success).pass_step(2).end(Outcome::Completed);
    healthy(&judge(&script.world));
    let mut script = Script::new(parts);
    script.pass_step(0).route(0, 2, RouteCause::Success).pass_step(2);
    script.pass_step(1).route(1, 2, RouteCause::Success).end(Outcome::Completed);
    found(&judge(&script.world), ENTERED_WRONGLY);
}

#[test]
fn decision_18_the_lowest_priority_that_holds_is_taken() {
    let mut parts = handled();
    let code = json!({"type": "eq", "field": "state._last_error.code", "value": "500"});
    parts.transitions.push(edge(0, 1, 1, code));
    let mut script = Script::new(parts.clone());
    script.fail_step(0);
    script.route(0, 2, RouteCause::Failure).skip(1).pass_step(2).end(Outcome::Completed);
    found(&judge(&script.world), FAILURE_MISROUTED);
    let mut script = Script::new(parts);
    script.fail_step(0);
    script.route(0, 1, RouteCause::Failure).skip(2).pass_step(1).end(Outcome::Completed);
    healthy(&judge(&script.world));
}

#[test]
fn w10_an_exception_edge_matches_along_the_lineage() {
    let mut parts = handled();
    parts.transitions[1].condition = None;
    parts.transitions[1].on_error = Some(["ServerError".to_owned()].into());
    let mut script = Script::new(parts.clone());
    script.fail_step(0);
    script.route(0, 2, RouteCause::Failure).skip(1).pass_step(2).end(Outcome::Completed);
    healthy(&judge(&script.world));
    parts.transitions[1].on_error = Some(["ClientError".to_owned()].into());
    let mut script = Script::new(parts);
    script.fail_step(0);
    script.route(0, 2, RouteCause::Failure).skip(1).pass_step(2).end(Outcome::Completed);
    found(&judge(&script.world), FAILURE_MISROUTED);
}

#[test]
fn c6_a_success_on_the_error_path_is_found() {
    let mut script = Script::new(handled());
    script.pass_step(0).route(0, 2, RouteCause::Success).skip(1).pass_step(2);
    script.end(Outcome::Completed);
    found(&judge(&script.world), SUCCESS_MISROUTED);
}

#[test]
fn c11_a_handler_that_fails_ends_the_run() {
    let mut parts = handled();
    parts.transitions.push(edge(2, 1, 1, has_error()));
    let mut script = Script::new(parts);
    script.fail_step(0);
    script.route(0, 2, RouteCause::Failure);
    let error = script.fail_step(2);
    let so_far = script.world.clone();
    script.skip(1).end(Outcome::Failed { error });
    healthy(&judge(&script.world));
    script.world = so_far;
    script.route(2, 1, RouteCause::Failure).pass_step(1).end(Outcome::Completed);
    let report = judge(&script.world);
    found(&report, HANDLER_RECURSED);
    found(&report, WRONG_OUTCOME);
}

#[test]
fn decision_18_an_unrouted_failure_without_goals_fails_the_run() {
    let script = exhausted().alter(|r| {
        if let Event::RunEnded { outcome } = &mut r.event {
            *outcome = Outcome::Completed;
        }
    });
    found(&judge(&script.world), WRONG_OUTCOME);
}

/// `a`, then the goal `b`; `c` beside it.
fn aiming() -> WorkflowParts {
    let mut parts = workflow(["a", "b", "c"].map(|id| step(id, policy(1))).into());
    parts.steps[1].after = vec![StepIx(0)];
    parts.steps[1].goal = true;
    parts
}

#[test]
fn a13_a_side_step_may_fail_where_the_goal_is_reached() {
    let mut script = Script::new(aiming());
    script.fail_step(2);
    script.pass_step(0).pass_step(1);
    let so_far = script.world.clone();
    script.end(Outcome::Completed);
    healthy(&judge(&script.world));
    script.world = so_far;
    let error = script.context(task(2, 0), 1, &broken());
    script.end(Outcome::Failed { error });
    found(&judge(&script.world), WRONG_OUTCOME);
}

#[test]
fn a13_a_goal_that_became_unreachable_fails_the_run() {
    let mut script = Script::new(aiming());
    script.pass_step(2);
    let error = script.fail_step(0);
    script.event(Event::StepUnreachable { step: StepIx(1) });
    let so_far = script.world.clone();
    script.end(Outcome::Failed { error });
    healthy(&judge(&script.world));
    script.world = so_far;
    script.end(Outcome::Completed);
    found(&judge(&script.world), WRONG_OUTCOME);
}

#[test]
fn a13_a_dependent_of_a_failed_step_is_never_entered() {
    let mut script = Script::new(aiming());
    script.fail_step(0);
    script.pass_step(1);
    found(&judge(&script.world), ENTERED_WRONGLY);
}

#[test]
fn a_step_entered_twice_is_found() {
    let script = recovered().twice(|e| matches!(e, Event::StepEntered { .. }));
    found(&judge(&script.world), ENTERED_WRONGLY);
}

#[test]
fn a_run_that_completes_over_an_open_step_is_found() {
    let mut script = Script::new(workflow(["a", "b"].map(|id| step(id, policy(1))).into()));
    script.pass_step(0).end(Outcome::Completed);
    found(&judge(&script.world), COMPLETED_TOO_SOON);
}

#[test]
fn a11_a_step_succeeds_only_when_all_its_tasks_have() {
    let last = |e: &Event| matches!(e, Event::TaskSucceeded { task: t, .. } if *t == task(0, 2));
    found(&judge(&fanned().without(last).world), STEP_ENDED_WRONGLY);
    let open =
        fanned().without(|e| matches!(e, Event::StepSucceeded { .. } | Event::RunEnded { .. }));
    found(&judge(&open.world), STEP_NOT_ENDED);
}

#[test]
fn a_fan_out_has_one_task_an_item() {
    let script = fanned().alter(|r| {
        if let Event::StepEntered { tasks, .. } = &mut r.event {
            *tasks = 2;
        }
    });
    found(&judge(&script.world), WRONG_FAN_OUT);
}

/// Two siblings, of which the first fails while the second is cancelled.
fn called_off(fail_fast: bool) -> Script {
    let mut fan = step("a", policy(1));
    fan.for_each = Some(json!([1, 2]).try_into().unwrap());
    fan.fail_fast = fail_fast;
    let mut script = Script::new(workflow(vec![fan]));
    script.enter(0, 2).start(task(0, 0), 1, status(500)).start(task(0, 1), 1, Reply::Hang);
    script.give_up(task(0, 0), 1, &broken(), GiveUp::Exhausted);
    script.event(Event::TaskCancelled { task: task(0, 1) });
    let error = script.context(task(0, 0), 1, &broken());
    script.step_failed(0, error.clone()).end(Outcome::Failed { error });
    script
}

#[test]
fn a11_siblings_run_to_their_own_end_unless_fail_fast() {
    healthy(&judge(&called_off(true).world));
    found(&judge(&called_off(false).world), CANCELLED_WITHOUT_CAUSE);
}

#[test]
fn h12_a_cancelled_run_ends_cancelled() {
    let end = |outcome: Outcome| {
        let mut script = Script::new(workflow(vec![step("a", policy(1))]));
        script.enter(0, 1).start(task(0, 0), 1, Reply::Hang);
        script.event(Event::CancelRequested { reason: "no more".to_owned() });
        script.event(Event::TaskCancelled { task: task(0, 0) }).end(outcome);
        script.world
    };
    healthy(&judge(&end(Outcome::Cancelled { reason: "no more".to_owned() })));
    found(&judge(&end(Outcome::Completed)), WRONG_OUTCOME);
}
