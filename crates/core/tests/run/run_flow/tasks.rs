//! One task: retries, limits, timeouts, leases.

use insta::assert_snapshot;

use super::*;

#[test]
fn w8_h9_success_at_once() {
    // W8: attempts start at 1. H9: completed with the total of attempts.
    assert_snapshot!(history(&one(doubling(3), [ok()])), @"
    0s created
    0s entered a x1
    0s started a #1 left=2
    1s succeeded a #1
    1s step succeeded a
    1s ended completed
    ");
}

#[test]
fn w9_r8_h9_retry_then_success() {
    // W8, W9, R1, R8, C2, H9, A15, W15: attempts 1 to 3, delays 1 s and 2 s, the flow of events.
    assert_snapshot!(history(&one(doubling(3), [status(503), status(503), ok()])), @r#"
    0s created
    0s entered a x1
    0s started a #1 left=2
    1s failed a #1 503 will_retry=true
    1s retrying a #2 in 1s backoff=1s failure 503
    2s started a #2 left=1 after 1s of "503: from the endpoint"
    3s failed a #2 503 will_retry=true
    3s retrying a #3 in 2s backoff=2s failure 503
    5s started a #3 left=0 after 2s of "503: from the endpoint"
    6s succeeded a #3
    6s step succeeded a
    6s ended completed
    "#);
}

#[test]
fn w10_r9_c5_exhaustion() {
    // W10, R9, H9: exactly three attempts, then one final failure; without edges the run fails.
    let world = one(doubling(3), [status(503), status(503), status(503), ok()]);
    assert_snapshot!(history(&world), @r#"
    0s created
    0s entered a x1
    0s started a #1 left=2
    1s failed a #1 503 will_retry=true
    1s retrying a #2 in 1s backoff=1s failure 503
    2s started a #2 left=1 after 1s of "503: from the endpoint"
    3s failed a #2 503 will_retry=true
    3s retrying a #3 in 2s backoff=2s failure 503
    5s started a #3 left=0 after 2s of "503: from the endpoint"
    6s failed a #3 503 will_retry=false
    6s gave up a after 3: Exhausted 503
    6s step failed a 503
    6s ended failed 503 of a
    "#);
    // C5: the record of the final failure.
    let error = world.state.steps()[0].error.clone().expect("an error");
    let json = serde_json::to_value(&error).expect("it can be written");
    assert_eq!(
        json,
        json!({
            "code": "503", "message": "from the endpoint", "retryable": true, "node_id": "a",
            "action_id": "a", "timestamp": "2001-09-09T01:46:46Z", "attempt": 3,
        })
    );
}

#[test]
fn r12_a2_a_permanent_failure_is_not_retried() {
    // R12, A2, C9 (scenario 5): no rule matches, so it propagates at once.
    assert_snapshot!(history(&one(transient(3), [status(400), ok()])), @"
    0s created
    0s entered a x1
    0s started a #1 left=2
    1s failed a #1 400 will_retry=false
    1s gave up a after 1: NotRetryable 400
    1s step failed a 400
    1s ended failed 400 of a
    ");
}

#[test]
fn r4_r10_r11_an_attempt_timeout_is_retried_and_counted_apart() {
    // R4, R10, R11, C4: kind `timeout`; the budget for timeouts ends the task before its limit.
    let policy = change(10, |p| {
        p.attempt_timeout = Some(Nanos::from_secs(5));
        p.timeout_retries = Some(1);
    });
    assert_snapshot!(history(&one(policy, [hangs(), status(500), hangs(), ok()])), @r#"
     0s created
     0s entered a x1
     0s started a #1 left=9 timeout=5s
     5s failed a #1 TIMEOUT will_retry=true
     5s retrying a #2 in 1s backoff=1s timeout TIMEOUT
     6s started a #2 left=8 timeout=5s after 1s of "TIMEOUT: timed out after 5s"
     7s failed a #2 500 will_retry=true
     7s retrying a #3 in 2s backoff=2s failure 500
     9s started a #3 left=7 timeout=5s after 2s of "500: from the endpoint"
    14s failed a #3 TIMEOUT will_retry=false
    14s gave up a after 3: TimeoutBudget TIMEOUT
    14s step failed a TIMEOUT
    14s ended failed TIMEOUT of a
    "#);
}

#[test]
fn h5_the_total_timeout_gives_up_before_a_delay_that_crosses_it() {
    // H5, Decision 8: after 1 + 1 + 1 + 2 + 1 s the next delay of 4 s would end at 10 s.
    let policy = change(10, |p| p.total_timeout = Some(Nanos::from_secs(10)));
    let shots = [status(500), status(500), status(500), ok()];
    assert_snapshot!(history(&one(policy, shots)), @r#"
    0s created
    0s entered a x1
    0s started a #1 left=9 timeout=10s
    1s failed a #1 500 will_retry=true
    1s retrying a #2 in 1s backoff=1s failure 500
    2s started a #2 left=8 timeout=8s after 1s of "500: from the endpoint"
    3s failed a #2 500 will_retry=true
    3s retrying a #3 in 2s backoff=2s failure 500
    5s started a #3 left=7 timeout=5s after 2s of "500: from the endpoint"
    6s failed a #3 500 will_retry=false
    6s gave up a after 3: TotalTimeout 500
    6s step failed a 500
    6s ended failed 500 of a
    "#);
}

#[test]
fn h13_decision_8_the_total_timeout_cuts_an_attempt() {
    // H5, H13, Decision 8: the second attempt has 10 - 2 s, not its own 20 s.
    let policy = change(10, |p| {
        p.attempt_timeout = Some(Nanos::from_secs(20));
        p.total_timeout = Some(Nanos::from_secs(10));
    });
    assert_snapshot!(history(&one(policy, [status(500), hangs(), ok()])), @r#"
     0s created
     0s entered a x1
     0s started a #1 left=9 timeout=10s
     1s failed a #1 500 will_retry=true
     1s retrying a #2 in 1s backoff=1s failure 500
     2s started a #2 left=8 timeout=8s after 1s of "500: from the endpoint"
    10s failed a #2 TIMEOUT will_retry=false
    10s gave up a after 2: TotalTimeout TIMEOUT
    10s step failed a TIMEOUT
    10s ended failed TIMEOUT of a
    "#);
}

#[test]
fn decision_8_an_attempt_claimed_at_the_total_timeout_does_not_start() {
    // Decision 8: no attempt starts at or after it, however late the claim. The error is the last
    // failure, as when the verdict gives up.
    let policy = change(10, |p| p.total_timeout = Some(Nanos::from_secs(10)));
    let mut world = set(Flow::new().step("a", policy).build(), [("a", 0, vec![status(503)])]);
    world.run_to(1);
    world.paused = true;
    world.run_to(10);
    world.paused = false;
    world.run(10);
    assert_snapshot!(history(&world), @"
     0s created
     0s entered a x1
     0s started a #1 left=9 timeout=10s
     1s failed a #1 503 will_retry=true
     1s retrying a #2 in 1s backoff=1s failure 503
    10s gave up a after 1: TotalTimeout 503
    10s step failed a 503
    10s ended failed 503 of a
    ");
}

#[test]
fn c12_decision_7_retry_after_raises_the_delay_also_above_the_cap() {
    // C12, Decision 7: raised to 20 s, the backoff recorded beside it; 500 ms does not lower it.
    let policy = change(10, |p| p.rules[0].backoff.cap = Some(Nanos::from_secs(3)));
    let asks = |wait| fails(Failure::http(429, "slow down").with_retry_after(wait));
    let shots = [asks(Nanos::from_secs(20)), asks(Nanos::from_millis(500)), ok()];
    assert_snapshot!(history(&one(policy, shots)), @r#"
     0s created
     0s entered a x1
     0s started a #1 left=9
     1s failed a #1 429 will_retry=true
     1s retrying a #2 in 20s backoff=1s failure 429
    21s started a #2 left=8 after 20s of "429: slow down"
    22s failed a #2 429 will_retry=true
    22s retrying a #3 in 2s backoff=2s failure 429
    24s started a #3 left=7 after 2s of "429: slow down"
    25s succeeded a #3
    25s step succeeded a
    25s ended completed
    "#);
}

#[test]
fn c12_decision_7_retry_after_beyond_what_is_obeyed_fails_now() {
    // Decision 7: over an hour, and past the total timeout.
    let asks = |secs| [fails(Failure::http(503, "later").with_retry_after(Nanos::from_secs(secs)))];
    let hour = one(doubling(3), asks(3_601));
    assert_snapshot!(history(&hour), @"
    0s created
    0s entered a x1
    0s started a #1 left=2
    1s failed a #1 503 will_retry=false
    1s gave up a after 1: RetryAfter 503
    1s step failed a 503
    1s ended failed 503 of a
    ");
    let said = hour.log.iter().find_map(|record| match &record.event {
        Event::TaskFailed { error, .. } => Some(error.message.clone()),
        _ => None,
    });
    assert!(said.is_some_and(|said| said.ends_with(": 1h1s is more than max_retry_after, 1h)")));
    let total = change(3, |p| p.total_timeout = Some(Nanos::from_secs(60)));
    assert_snapshot!(history(&one(total, asks(59))), @"
    0s created
    0s entered a x1
    0s started a #1 left=2 timeout=1m
    1s failed a #1 503 will_retry=false
    1s gave up a after 1: TotalTimeout 503
    1s step failed a 503
    1s ended failed 503 of a
    ");
    // Saturates instead of wrapping.
    let huge = change(3, |p| p.max_retry_after = Nanos::MAX);
    let world = set(Flow::new().step("a", huge).build(), [("a", 0, asks(u64::MAX).into())]);
    let mut world = world;
    world.run_to(1);
    let due = world.next().expect("a retry in the far future");
    assert_eq!(due.0.as_nanos(), u64::MAX);
}

#[test]
fn r10_decision_12_a_lost_lease_uses_up_the_attempt() {
    // R10, Decision 12: `LEASE_LOST`; no rule names it, so the largest limit and its backoff apply.
    let policy = change(2, |p| {
        p.rules[0].matcher = retrial_core::policy::Matcher::named(["NetworkError"]);
    });
    let network = || fails(Failure::network(NetworkFault::Reset, "reset by peer"));
    assert_snapshot!(history(&one(policy.clone(), [lost(), network(), ok()])), @r#"
     0s created
     0s entered a x1
     0s started a #1 left=1
    30s failed a #1 LEASE_LOST will_retry=true
    30s retrying a #2 in 1s backoff=1s lost lease LEASE_LOST
    31s started a #2 left=0 after 1s of "LEASE_LOST: the lease ended before an outcome was recorded"
    32s failed a #2 NETWORK_ERROR will_retry=false
    32s gave up a after 2: Exhausted NETWORK_ERROR
    32s step failed a NETWORK_ERROR
    32s ended failed NETWORK_ERROR of a
    "#);
    assert_snapshot!(history(&one(policy, [network(), lost(), ok()])), @r#"
     0s created
     0s entered a x1
     0s started a #1 left=1
     1s failed a #1 NETWORK_ERROR will_retry=true
     1s retrying a #2 in 1s backoff=1s failure NETWORK_ERROR
     2s started a #2 left=0 after 1s of "NETWORK_ERROR: reset by peer"
    32s failed a #2 LEASE_LOST will_retry=false
    32s gave up a after 2: Exhausted LEASE_LOST
    32s step failed a LEASE_LOST
    32s ended failed LEASE_LOST of a
    "#);
}

#[test]
fn decision_12_a_lost_lease_without_retries_fails() {
    // Decision 12: the policy's largest limit is one attempt.
    assert_snapshot!(history(&one(once(), [lost(), ok()])), @"
     0s created
     0s entered a x1
     0s started a #1 left=0
    30s failed a #1 LEASE_LOST will_retry=false
    30s gave up a after 1: NotRetryable LEASE_LOST
    30s step failed a LEASE_LOST
    30s ended failed LEASE_LOST of a
    ");
}

#[test]
fn r7_decision_16_a_stale_token_changes_nothing() {
    // R7, Decision 16: an outcome under an old token, before, during and after the attempt.
    let mut world = set(
        Flow::new().step("a", doubling(3)).build(),
        [("a", 0, vec![lost(), ok().taking(Nanos::from_secs(10))])],
    );
    let (first, second) = (token_of(task(0, 0), 1), token_of(task(0, 0), 2));
    let stale = |world: &mut World, token: Token| {
        let before = world.state.clone();
        let result = std::sync::Arc::new(Value::Null);
        let task = task(0, 0);
        let expired =
            |lapse| Input::Expired { task, token, lapse, denied: false, quarantine_after: None };
        for input in [
            Input::Succeeded { task, token, result },
            Input::Failed { task, token, failure: Failure::http(500, "late"), denied: false },
            expired(Lapse::Lease),
            expired(Lapse::Deadline),
            expired(Lapse::Heartbeat),
        ] {
            assert!(world.handle(&input).is_empty());
        }
        assert_eq!(before, world.state);
    };
    stale(&mut world, first);
    world.run_to(5);
    stale(&mut world, second);
    world.run_to(30);
    stale(&mut world, first);
    world.run_to(35);
    stale(&mut world, first);
    world.run_to(60);
    stale(&mut world, second);
    assert_snapshot!(history(&world), @r#"
     0s created
     0s entered a x1
     0s started a #1 left=2
    30s failed a #1 LEASE_LOST will_retry=true
    30s retrying a #2 in 1s backoff=1s lost lease LEASE_LOST
    31s started a #2 left=1 after 1s of "LEASE_LOST: the lease ended before an outcome was recorded"
    41s succeeded a #2
    41s step succeeded a
    41s ended completed
    "#);
}

#[test]
fn r7_a_claim_starts_only_the_attempt_the_task_is_at() {
    // W8, R7: a repeated, early or wrong reservation starts nothing.
    let mut world = set(Flow::new().step("a", doubling(3)).build(), [("a", 0, vec![status(500)])]);
    let claim = |at: TaskId, attempt| Input::Claimed {
        task: at,
        attempt,
        token: token_of(at, 9),
        default_timeout: None,
    };
    for wrong in
        [claim(task(0, 0), 0), claim(task(0, 0), 2), claim(task(0, 1), 1), claim(task(1, 0), 1)]
    {
        assert!(world.handle(&wrong).is_empty());
    }
    assert_eq!(world.handle(&claim(task(0, 0), 1)).len(), 1);
    assert!(world.handle(&claim(task(0, 0), 1)).is_empty());
}

#[test]
fn a14_the_receipt_is_the_same_for_every_attempt_and_no_other_task() {
    // A14.
    let world = one(doubling(2), [status(500), ok()]);
    let run = world.state.id();
    assert_eq!(task(0, 0).receipt(run), task(0, 0).receipt(run));
    assert_ne!(task(0, 0).receipt(run), task(0, 1).receipt(run));
    assert_ne!(task(0, 0).receipt(run), task(1, 0).receipt(run));
}

#[test]
fn decision_9_jitter_is_a_function_of_seed_task_and_attempt() {
    // Decision 9: known values, so that no version of the program changes a stored run's chance.
    let draws = [(7, 0, 0, 1), (7, 0, 0, 2), (7, 0, 1, 1), (7, 1, 0, 1), (8, 0, 0, 1)]
        .map(|(seed, step, item, attempt)| task(step, item).chance(seed, attempt));
    assert_snapshot!(format!("{draws:x?}"), @"[f69e37ef143706e0, 4aeaac5ea9069464, ca4470043a5e3686, 1cf02b137aa852ec, 99444c7c99dc5608]");
}

#[test]
fn w15_h13_each_attempt_is_told_what_it_may_use() {
    // W15: the real timeout, the retries left, the attempt; H13: the lesser of both timeouts.
    let policy = change(3, |p| {
        p.attempt_timeout = Some(Nanos::from_secs(8));
        p.total_timeout = Some(Nanos::from_secs(9));
    });
    let mut world = set(Flow::new().step("a", policy).build(), [("a", 0, vec![status(500)])]);
    assert!(world.state.prepare(task(0, 0)).is_none());
    world.run_until(world.now);
    let first = world.state.prepare(task(0, 0)).expect("in progress");
    assert_eq!((first.attempt, first.retries_left), (1, Some(2)));
    assert_eq!(first.timeout, Some(Nanos::from_secs(8)));
    world.run_to(2);
    let second = world.state.prepare(task(0, 0)).expect("in progress");
    assert_eq!((second.attempt, second.retries_left), (2, Some(1)));
    assert_eq!(second.timeout, Some(Nanos::from_secs(7)));
}

#[test]
fn decision_10_nothing_is_retried_faster_than_ten_milliseconds_without_end() {
    // Decision 10, A6: unlimited, full jitter.
    let policy = change(1, |p| {
        p.rules[0].limit = retrial_core::policy::Limit::Unlimited;
        p.rules[0].backoff = retrial_core::policy::Backoff::exponential(Nanos::new(1))
            .with_cap(Nanos::from_millis(1))
            .with_jitter(retrial_core::policy::Jitter::Full);
    });
    let world = one(policy, (0..50).map(|_| status(500)));
    let delays = world.log.iter().filter_map(|r| match r.event {
        Event::RetryScheduled { delay, .. } => Some(delay),
        _ => None,
    });
    assert_eq!(delays.collect::<Vec<_>>(), vec![Nanos::from_millis(10); 50]);
    assert_eq!(world.state.task(task(0, 0)).map(|t| t.attempt), Some(51));
}
