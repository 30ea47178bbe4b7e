//! The five test scenarios of Capability 5 (C9). What the document asks to verify stands beside each.

use insta::assert_snapshot;
use retrial::run::{Event, Outcome, Recorded};
use retrial::time::Nanos;
use retrial_sim::unstable::evidence::ArrivalEnd;
use retrial_sim::unstable::scenario::Reply;
use serde_json::json;

use crate::documents::stage::{Played, after, check_waits, play, status};

/// One node, `a`, with the document's policy and this in place of `…`.
fn alone(execution: &str) -> String {
    format!(
        r#"workflow = "one_node"

[actions.llm]
http = "POST http://api.test/llm"
kind = "llm_call"

[[steps]]
id = "a"
action = "llm"
execution = {execution}
"#
    )
}

const THREE: &str = r#"{ timeout_ms = 30000, retry_policy = { max_attempts = 3, backoff = "exponential", initial_delay_ms = 1000, max_delay_ms = 10000, retryable_errors = ["503", "429", "TIMEOUT", "NETWORK_ERROR"] } }"#;

/// Node `a` with two ways on, as the document draws them: `b` on success, `c` on an error.
fn routed(execution: &str) -> String {
    alone(execution)
        + r#"
[actions.next]
http = "POST http://api.test/next"

[actions.notify]
http = "POST http://api.test/notify"

[[steps]]
id = "b"
action = "next"

[[steps]]
id = "c"
action = "notify"
args = { error = "${_last_error}" }

[[transitions]]
from = "a"
to = "b"
priority = 1
condition = { type = "not", condition = { type = "exists", field = "state._last_error" } }

[[transitions]]
from = "a"
to = "c"
priority = 2
condition = { type = "exists", field = "state._last_error" }
"#
}

/// The error's handler succeeds.
const NOTIFY: (&str, &[Reply]) = ("notify", &[]);

const TWO: &str =
    r#"{ retry_policy = { max_attempts = 2, backoff = "linear", initial_delay_ms = 1000 } }"#;

/// Test 1: 3 attempts executed; backoff delays applied; final success propagated; no error in
/// context; node completed normally.
#[test]
fn c9_automatic_retry_success() {
    let busy = || status(503, "busy");
    let played = play(&alone(THREE), &[("llm", &[busy(), busy()])]);
    assert_snapshot!(played.events(), @r"
    run_created
    step_entered a
    attempt_started a attempt 1
    attempt_failed a attempt 1: 503, will retry
    retry_scheduled a attempt 2 in 1s: failure 503
    attempt_started a attempt 2, a retry after 1s
    attempt_failed a attempt 2: 503, will retry
    retry_scheduled a attempt 3 in 2s: failure 503
    attempt_started a attempt 3, a retry after 2s
    task_succeeded a after 3
    step_succeeded a
    run_ended completed
    ");
    check_waits(&played.waits("a"), &[1_000, 2_000]);
    assert_eq!(played.arrivals("llm").len(), 3);
    let state = played.state();
    let node = &state.steps()[0];
    assert_eq!((&node.error, &node.last_error), (&None, &None));
    assert_eq!(state.outcome(), Some(&Outcome::Completed));
    assert_eq!(played.run().results.len(), 1, "the success's result, and no other");
}

/// Test 2: all 3 attempts executed; the error is returned; `_last_error` populated; the event of the
/// node's failure emitted.
#[test]
fn c9_retry_exhaustion() {
    let busy = || status(503, "overloaded");
    let played = play(&alone(THREE), &[("llm", &[busy(), busy(), busy()])]);
    assert_snapshot!(played.events(), @r"
    run_created
    step_entered a
    attempt_started a attempt 1
    attempt_failed a attempt 1: 503, will retry
    retry_scheduled a attempt 2 in 1s: failure 503
    attempt_started a attempt 2, a retry after 1s
    attempt_failed a attempt 2: 503, will retry
    retry_scheduled a attempt 3 in 2s: failure 503
    attempt_started a attempt 3, a retry after 2s
    attempt_failed a attempt 3: 503, will not retry
    task_failed a after 3: 503, all attempts are used up
    step_failed a: 503
    run_ended failed: a 503
    ");
    check_waits(&played.waits("a"), &[1_000, 2_000]);
    assert_eq!(played.arrivals("llm").len(), 3, "and no fourth");
    let mut error = serde_json::to_value(played.error()).unwrap();
    let timestamp = error.as_object_mut().unwrap().remove("timestamp").unwrap();
    let failed = played.run().events.iter().find(|r| r.event.name() == "step_failed").unwrap();
    assert_eq!(timestamp, failed.at.to_string());
    let expected = json!({
        "code": "503",
        "message": "HTTP 503 Service Unavailable: overloaded",
        "retryable": true,
        "node_id": "a",
        "action_id": "llm",
        "attempt": 3,
    });
    assert_eq!(error, expected);
}

/// Test 3: the error is detected after the retries; transition 2 matches; node C executes; the
/// error's context is there for it to handle.
#[test]
fn c9_failure_routing() {
    let busy = || status(503, "overloaded");
    let played = play(&routed(TWO), &[("llm", &[busy(), busy()]), NOTIFY]);
    assert_snapshot!(played.events(), @r"
    run_created
    step_entered a
    attempt_started a attempt 1
    attempt_failed a attempt 1: 503, will retry
    retry_scheduled a attempt 2 in 1s: failure 503
    attempt_started a attempt 2, a retry after 1s
    attempt_failed a attempt 2: 503, will not retry
    task_failed a after 2: 503, all attempts are used up
    step_failed a: 503
    routed a to c: Failure
    step_unreachable b
    step_entered c
    attempt_started c attempt 1
    task_succeeded c after 1
    step_succeeded c
    run_ended completed
    ");
    check_waits(&played.waits("a"), &[1_000]);
    assert!(played.arrivals("next").is_empty(), "the success's path is not taken");
    let seen = &played.arguments("notify")["error"];
    assert_eq!(seen["code"], "503");
    assert_eq!((&seen["node_id"], &seen["attempt"]), (&json!("a"), &json!(2)));
    // The handler's success clears its branch's error (C7); the failed node keeps its own.
    let state = played.state();
    assert!(state.steps()[2].last_error.is_none());
    assert_eq!(state.steps()[0].error.as_ref().map(|e| e.code.as_str()), Some("503"));
}

/// Test 3, the other way: without an error transition 1 matches, and node C is passed by.
#[test]
fn c9_success_takes_the_transition_without_an_error() {
    let played = play(&routed(TWO), &[("llm", &[status(503, "busy")]), ("next", &[])]);
    assert_snapshot!(played.events(), @r"
    run_created
    step_entered a
    attempt_started a attempt 1
    attempt_failed a attempt 1: 503, will retry
    retry_scheduled a attempt 2 in 1s: failure 503
    attempt_started a attempt 2, a retry after 1s
    task_succeeded a after 2
    step_succeeded a
    routed a to b: Success
    step_entered b
    step_skipped c
    attempt_started b attempt 1
    task_succeeded b after 1
    step_succeeded b
    run_ended completed
    ");
    assert!(played.arrivals("notify").is_empty());
    assert_eq!(played.arrivals("next").len(), 1);
}

/// Test 4: the request is aborted at 5 s of its 10; the error is a timeout; the error's context
/// includes the code TIMEOUT.
#[test]
fn c9_timeout_enforcement() {
    let slow = after(10_000, Reply::SuccessTrue);
    let played = play(&alone("{ timeout_ms = 5000 }"), &[("llm", &[slow])]);
    assert_snapshot!(played.events(), @r"
    run_created
    step_entered a
    attempt_started a attempt 1
    attempt_failed a attempt 1: TIMEOUT, will not retry
    task_failed a after 1: TIMEOUT, no rule retries this failure
    step_failed a: TIMEOUT
    run_ended failed: a TIMEOUT
    ");
    aborted_after_five_seconds(played.arrivals("llm")[0]);
    check_waits(&took(&played), &[5_000]);
    let error = played.error();
    assert_eq!((error.code.as_str(), error.attempt, error.retryable), ("TIMEOUT", 1, true));
}

fn aborted_after_five_seconds(arrival: &retrial_sim::unstable::evidence::Arrival) {
    assert_eq!(arrival.end, ArrivalEnd::CallerGone, "the caller hung up");
    assert_eq!(arrival.answered_at, None);
    assert_eq!(arrival.retry_timeout_ms, Some(5_000));
}

/// How long each attempt that failed took.
fn took(played: &Played) -> Vec<Nanos> {
    let took = |recorded: &Recorded| match recorded.event {
        Event::AttemptFailed { took, .. } => Some(took),
        _ => None,
    };
    played.run().events.iter().filter_map(took).collect()
}

/// Test 4: a retry follows if configured.
#[test]
fn c9_a_timeout_is_retried_where_configured() {
    let slow = after(10_000, Reply::SuccessTrue);
    let execution = r#"{ timeout_ms = 5000, retry_policy = { max_attempts = 2, initial_delay_ms = 1000, backoff = "linear", retryable_errors = ["TIMEOUT"] } }"#;
    let played = play(&alone(execution), &[("llm", &[slow])]);
    assert_snapshot!(played.events(), @r"
    run_created
    step_entered a
    attempt_started a attempt 1
    attempt_failed a attempt 1: TIMEOUT, will retry
    retry_scheduled a attempt 2 in 1s: timeout TIMEOUT
    attempt_started a attempt 2, a retry after 1s
    task_succeeded a after 2
    step_succeeded a
    run_ended completed
    ");
    check_waits(&played.waits("a"), &[1_000]);
    let arrivals = played.arrivals("llm");
    aborted_after_five_seconds(arrivals[0]);
    let apart = arrivals[1].at.since(arrivals[0].at);
    let six = Nanos::from_secs(6);
    assert!((six..=six.saturating_add(Nanos::from_millis(200))).contains(&apart), "{apart}");
}

/// Test 5: no retry attempted; immediate failure; the error's context shows that it is not
/// retryable; the workflow can route to the error's handler.
#[test]
fn c9_non_retryable_error() {
    let wrong = status(400, r#"{"error": "prompt: field required"}"#);
    let played = play(&alone(THREE), &[("llm", std::slice::from_ref(&wrong))]);
    assert_snapshot!(played.events(), @r"
    run_created
    step_entered a
    attempt_started a attempt 1
    attempt_failed a attempt 1: 400, will not retry
    task_failed a after 1: 400, no rule retries this failure
    step_failed a: 400
    run_ended failed: a 400
    ");
    assert_eq!(played.arrivals("llm").len(), 1);
    let error = played.error();
    assert_eq!((error.code.as_str(), error.retryable, error.attempt), ("400", false, 1));

    let played = play(&routed(THREE), &[("llm", &[wrong]), NOTIFY]);
    assert_snapshot!(played.events(), @r"
    run_created
    step_entered a
    attempt_started a attempt 1
    attempt_failed a attempt 1: 400, will not retry
    task_failed a after 1: 400, no rule retries this failure
    step_failed a: 400
    routed a to c: Failure
    step_unreachable b
    step_entered c
    attempt_started c attempt 1
    task_succeeded c after 1
    step_succeeded c
    run_ended completed
    ");
    let seen = &played.arguments("notify")["error"];
    assert_eq!((&seen["code"], &seen["retryable"]), (&json!("400"), &json!(false)));
}
