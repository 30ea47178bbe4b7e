//! Policies beyond the documents, in a run.

use insta::assert_snapshot;
use retrial_core::policy::{
    ActionKind, AtDeadline, Backoff, Counting, GiveUp, Limit, Matcher, Rule,
};
use retrial_core::run::{RunState, decode_snapshot, encode_snapshot};
use retrial_core::workflow::{Action, Target, WorkflowParts};

use super::*;

/// Each rule's count lives in the task's state, by rule and not by attempt, and replay gives it.
#[test]
fn x4_counts_per_rule_come_from_events() {
    let policy = change(3, |p| {
        p.rules[0].matcher = Matcher::named(["ServerError"]);
        let timeouts = Rule {
            matcher: Matcher::named(["TimeoutError"]),
            limit: Limit::retries(1),
            backoff: Backoff::exponential(Nanos::from_secs(5)),
        };
        p.rules.push(timeouts);
        p.counting = Counting::PerRule { total: Limit::Unlimited };
    });
    let slow = || fails(Failure::timed_out("slow"));
    let world = one(policy, [status(503), slow(), status(503), slow()]);
    assert_snapshot!(history(&world), @r#"
     0s created
     0s entered a x1
     0s started a #1 left=3
     1s failed a #1 503 will_retry=true
     1s retrying a #2 in 1s backoff=1s failure 503 rule=0
     2s started a #2 left=2 after 1s of "503: from the endpoint"
     3s failed a #2 TIMEOUT will_retry=true
     3s retrying a #3 in 5s backoff=5s timeout TIMEOUT rule=1
     8s started a #3 left=1 after 5s of "TIMEOUT: slow"
     9s failed a #3 503 will_retry=true
     9s retrying a #4 in 2s backoff=2s failure 503 rule=0
    11s started a #4 left=0 after 2s of "503: from the endpoint"
    12s failed a #4 TIMEOUT will_retry=false
    12s gave up a after 4: Exhausted TIMEOUT
    12s step failed a TIMEOUT
    12s ended failed TIMEOUT of a
    "#);
    let last = world.log.iter().rposition(|r| matches!(r.event, Event::RetryScheduled { .. }));
    let replayed = RunState::replay(world.state.id(), &world.log[..=last.expect("a retry")]);
    let replayed = replayed.expect("it can be replayed");
    assert_eq!(replayed.task(task(0, 0)).map(|t| t.by_rule.as_slice()), Some([2, 1].as_slice()));
    let stored = decode_snapshot(&encode_snapshot(&replayed)).expect("it can be read");
    assert_eq!(stored, replayed);
}

/// The delay is cut short, the backoff that it was cut from stays on record.
#[test]
fn x5_a_truncated_delay_stands_in_the_event() {
    let policy = change(9, |p| {
        p.total_timeout = Some(Nanos::from_secs(10));
        p.at_deadline = AtDeadline::Truncate { reserve: Nanos::from_secs(2) };
    });
    let world = one(policy, [status(503), status(503), status(503), status(503)]);
    assert_snapshot!(history(&world), @r#"
    0s created
    0s entered a x1
    0s started a #1 left=8 timeout=10s
    1s failed a #1 503 will_retry=true
    1s retrying a #2 in 1s backoff=1s failure 503
    2s started a #2 left=7 timeout=8s after 1s of "503: from the endpoint"
    3s failed a #2 503 will_retry=true
    3s retrying a #3 in 2s backoff=2s failure 503
    5s started a #3 left=6 timeout=5s after 2s of "503: from the endpoint"
    6s failed a #3 503 will_retry=true
    6s retrying a #4 in 2s backoff=4s failure 503
    8s started a #4 left=5 timeout=2s after 2s of "503: from the endpoint"
    9s failed a #4 503 will_retry=false
    9s gave up a after 4: TotalTimeout 503
    9s step failed a 503
    9s ended failed 503 of a
    "#);
}

/// One step whose action says that running it twice does harm.
fn harmful(policy: Policy, shots: Vec<Shot>) -> World {
    let action = Action {
        kind: ActionKind::ToolCall,
        target: Target::Registered,
        idempotent: Some(false),
        inner_attempts: None,
        webhook: None,
        heartbeat_timeout: None,
        guard: Default::default(),
    };
    let mut parts = WorkflowParts::from(Flow::new().step("a", policy).build());
    parts.actions.insert("a".into(), action);
    plays(Workflow::try_from(parts).expect("it makes sense"), [("a", 0, shots)])
}

fn cut() -> Shot {
    fails(Failure::network(NetworkFault::Cut, "cut off").with_unknown_outcome())
}

fn reason(world: &World) -> Option<GiveUp> {
    world.log.iter().find_map(|r| match r.event {
        Event::TaskFailed { reason, .. } => Some(reason),
        _ => None,
    })
}

/// A lost lease, an attempt that ran out of time, an answer that was cut: nobody knows whether the
/// work was done, so what must not be done twice is not tried again.
#[test]
fn h17_what_is_not_idempotent_is_not_retried_after_an_unknown_outcome() {
    let timed = || change(3, |p| p.attempt_timeout = Some(Nanos::from_secs(2)));
    for shot in [lost(), cut(), ok().taking(Nanos::from_secs(9))] {
        let world = harmful(timed(), vec![shot, ok()]);
        assert_eq!(reason(&world), Some(GiveUp::OutcomeUnknown), "{}", history(&world));
    }
    // What is known not to have been done is retried as ever.
    let refused = fails(Failure::network(NetworkFault::Refused, "refused"));
    let world = harmful(timed(), vec![refused, status(503), ok()]);
    assert_eq!(reason(&world), None, "{}", history(&world));
    // So is everything where nobody said anything, or the policy says so.
    let undeclared = one(timed(), [lost(), cut(), ok()]);
    assert_eq!(reason(&undeclared), None);
    let anyway = change(3, |p| p.retry_unknown_outcome = true);
    assert_eq!(reason(&harmful(anyway, vec![lost(), cut(), ok()])), None);
    // Without a rule for it the reason stays R12's.
    let other = change(3, |p| p.rules[0].matcher = Matcher::named(["503"]));
    assert_eq!(reason(&harmful(other, vec![cut()])), Some(GiveUp::NotRetryable));
}
