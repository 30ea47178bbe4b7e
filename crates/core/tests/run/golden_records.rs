//! Stored bytes of released formats stay readable: one file an event, one a snapshot and
//! one a dead letter, under
//! `tests/golden/FORMAT/`. Each file is the stored bytes themselves: the format's byte, then the value.
//!
//! A file is never changed. A new format gets its own folder, and this test then reads both. To
//! add the record of a new event, add it to `records` and run with `GOLDEN=write`, which writes
//! what is missing and touches nothing else.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod whole;

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;

use retrial_core::failure::{ErrorContext, Failure, RetryKind};
use retrial_core::guard::{Alert, Breaker, ErrorBudget, FailureRate, GuardRules, HeldBy, Pace};
use retrial_core::policy::{
    AtDeadline, Backoff, Budget, Counting, DelayList, Dialect, GiveUp, Jitter, Matcher, Origin,
    Policy, PolicyParts, Rule,
};
use retrial_core::policy::{Functions, Limit, Multiplier, Shape, Share};
use retrial_core::run::{
    Cost, DecodeError, Digest, Event, Input, Letter, Outcome, Recorded, RetryOf, RouteCause, RunId,
    RunState, TaskId, TaskTime, Token, decode, decode_letter, decode_snapshot, encode,
    encode_letter, encode_snapshot,
};
use retrial_core::time::{Nanos, Timestamp};
use retrial_core::workflow::{
    self, Action, Endpoint, HeaderText, Quorum, Rollback, Step, StepIx, Target, Template,
};
use retrial_core::workflow::{Transition, Webhook, Workflow};
use serde_json::{Map, Value, json};

const AT: Timestamp = Timestamp::from_nanos(1_700_000_000_123_456_789);
const STEP: StepIx = StepIx(1);
const TASK: TaskId = TaskId { step: STEP, item: 2 };

fn failure() -> Failure {
    Failure::http(503, "busy: \"later\"")
        .with_retry_after(Nanos::from_secs(7))
        .with_stack_trace("at line 1")
}

fn error() -> ErrorContext {
    ErrorContext::new(&failure(), true, "each", "each", 3, AT)
}

fn spent(working_ms: u64) -> TaskTime {
    let ms = Nanos::from_millis;
    TaskTime { working: ms(working_ms), failing: ms(3_000), waiting: Nanos::new(7_250_000_001) }
}

/// One record of each event, some with and without what is optional; the name is the file's.
fn records() -> Vec<(&'static str, Event)> {
    let token = Token::from_random(1, 2);
    let alert = Alert { threshold: 500_000, burnt: 1_333_333, failures: 4, calls: 30 };
    let told_by = RunId::from_random(3, 4);
    let retry = RetryOf { delay: Nanos::from_secs(7), original_error: "503: busy".into() };
    let started = |timeout, retries_left, retry| Event::AttemptStarted {
        task: TASK,
        attempt: 2,
        token,
        timeout,
        retries_left,
        retry,
    };
    let input = json!({"name": "world", "x": 0.30000000000000004, "big": u64::MAX, "no": null});
    let Value::Object(input) = input else { return Vec::new() };
    let cancelled = Outcome::Cancelled { reason: "enough".into() };
    vec![
        ("run_created", Event::RunCreated { seed: u64::MAX, workflow: whole::workflow(), input }),
        ("run_activated", Event::RunActivated),
        ("run_deactivated", Event::RunDeactivated),
        ("step_entered", Event::StepEntered { step: STEP, tasks: 3 }),
        ("attempt_started", started(Some(Nanos::from_secs(10)), Some(1), Some(retry))),
        ("attempt_started-bare", started(None, None, None)),
        ("task_held", Event::TaskHeld { task: TASK, attempt: 2, by: HeldBy::Breaker, until: AT }),
        ("task_quarantined", Event::TaskQuarantined { task: TASK, attempt: 2, lost: 3 }),
        (
            "task_released",
            Event::TaskReleased { task: TASK, attempt: 2, reason: "the image is mended".into() },
        ),
        (
            "attempt_failed",
            Event::AttemptFailed {
                task: TASK,
                attempt: 2,
                failure: failure(),
                will_retry: true,
                took: Nanos::from_millis(1_500),
            },
        ),
        (
            "attempt_failed-bare",
            Event::AttemptFailed {
                task: TASK,
                attempt: 2,
                failure: Failure::new("E42", ""),
                will_retry: false,
                took: Nanos::ZERO,
            },
        ),
        (
            "retry_scheduled",
            Event::RetryScheduled {
                task: TASK,
                attempt: 3,
                delay: Nanos::from_secs(7),
                backoff: Nanos::new(250_000_001),
                kind: RetryKind::LeaseLost,
                code: failure().code().clone(),
                rule: Some(4),
            },
        ),
        (
            "cost_reported",
            Event::CostReported { task: TASK, attempt: 3, cost: Cost::from_millionths(1_250_000) },
        ),
        (
            "error_budget_burnt",
            Event::ErrorBudgetBurnt { task: TASK, attempt: 3, alert, webhook: Some(told_by) },
        ),
        (
            "error_budget_burnt-bare",
            Event::ErrorBudgetBurnt { task: TASK, attempt: 3, alert, webhook: None },
        ),
        (
            "task_succeeded",
            Event::TaskSucceeded {
                task: TASK,
                attempt: 3,
                digest: Digest::of(b"null"),
                spent: spent(1_250),
            },
        ),
        (
            "task_failed",
            Event::TaskFailed {
                task: TASK,
                attempts: 3,
                reason: GiveUp::Exhausted,
                error: error(),
                spent: spent(0),
            },
        ),
        ("task_cancelled", Event::TaskCancelled { task: TASK }),
        ("step_succeeded", Event::StepSucceeded { step: STEP }),
        ("step_failed", Event::StepFailed { step: STEP, error: error() }),
        ("step_unreachable", Event::StepUnreachable { step: STEP }),
        ("step_skipped", Event::StepSkipped { step: STEP }),
        ("routed", Event::Routed { from: STEP, to: StepIx(2), cause: RouteCause::Failure }),
        ("routed-success", Event::Routed { from: STEP, to: StepIx(3), cause: RouteCause::Success }),
        ("run_paused", Event::RunPaused { reason: "wait for Ann".into() }),
        ("run_resumed", Event::RunResumed),
        (
            "fail_requested",
            Event::FailRequested { step: STEP, item: Some(2), reason: "no use".into() },
        ),
        ("cancel_requested", Event::CancelRequested { reason: "enough".into() }),
        (
            "rollback_started",
            Event::RollbackStarted { outcome: Outcome::Failed { error: error() } },
        ),
        ("rollback_started-cancelled", Event::RollbackStarted { outcome: cancelled.clone() }),
        (
            "compensation_started",
            Event::CompensationStarted { task: TaskId { step: StepIx(4), item: 2 } },
        ),
        ("rollback_ended", Event::RollbackEnded { complete: true }),
        ("run_ended", Event::RunEnded { outcome: Outcome::Completed }),
        ("run_ended-failed", Event::RunEnded { outcome: Outcome::Failed { error: error() } }),
        ("run_ended-cancelled", Event::RunEnded { outcome: cancelled }),
    ]
}

/// A state with every phase of step and task that one run can have at once.
fn state() -> RunState {
    let functions = Functions::default();
    let (id, input) = (RunId::from_random(3, 4), Map::new());
    let (mut state, _) = RunState::create(id, 7, whole::workflow(), input, AT).unwrap();
    let mut feed = |input: Input| state.handle(&input, AT, &functions).unwrap();
    let token = |task: TaskId, attempt: u32| {
        Token::from_random(u64::from(task.step.0), u64::from(task.item) * 10 + u64::from(attempt))
    };
    let at = |step, item| TaskId { step: StepIx(step), item };
    let start = |task, attempt| Input::Claimed {
        task,
        attempt,
        token: token(task, attempt),
        default_timeout: None,
    };
    let fail = |task, attempt, failure| Input::Failed {
        task,
        token: token(task, attempt),
        failure,
        denied: false,
    };
    let succeed = |task, attempt, result: Value| Input::Succeeded {
        task,
        token: token(task, attempt),
        result: Arc::new(result),
    };
    feed(start(at(0, 0), 1));
    feed(succeed(at(0, 0), 1, json!([1, 2, 3])));
    feed(start(at(1, 0), 1));
    feed(fail(at(1, 0), 1, failure()));
    feed(start(at(1, 1), 1));
    feed(succeed(at(1, 1), 1, json!("done")));
    feed(start(at(1, 2), 1));
    state
}

/// The formats of events. Snapshots and letters still have the first.
const FORMATS: [u8; 2] = [1, 2];

fn folder(format: u8) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{format}"))
}

/// The golden bytes named `name`; written first where the run asks for it and they are missing.
fn golden(format: u8, name: &str, today: &[u8]) -> Vec<u8> {
    let path = folder(format).join(name);
    let is_written = today.first() == Some(&format);
    if is_written && !path.exists() && std::env::var_os("GOLDEN").is_some_and(|v| v == "write") {
        std::fs::create_dir_all(folder(format)).expect("the folder can be made");
        std::fs::write(&path, today).expect("the record can be written");
    }
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn golden_events_stay_readable() {
    for (name, event) in records() {
        let recorded = Recorded { at: AT, event };
        let today = encode(&recorded);
        for format in FORMATS {
            let bytes = golden(format, &format!("{name}.record"), &today);
            assert_eq!(bytes.first(), Some(&format), "{name}");
            let read = decode(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(read, recorded, "{name} reads as something else");
            if today.first() == Some(&format) {
                assert_eq!(bytes, today, "{name} is written in another way");
            }
        }
    }
}

#[test]
fn golden_snapshots_stay_readable() {
    let state = state();
    let today = encode_snapshot(&state);
    let bytes = golden(1, "snapshot.record", &today);
    let read = decode_snapshot(&bytes).expect("it can be read");
    assert_eq!(encode_snapshot(&read), bytes, "it is written in another way");
    assert_eq!(bytes, today, "the same inputs lead to another state");
}

#[test]
fn golden_letters_stay_readable() {
    let letter = Letter {
        step: "charge".into(),
        action: "pay".into(),
        attempts: 3,
        reason: GiveUp::Exhausted,
        error: error(),
        first: Some(failure()),
        last: Some(failure()),
        payload: Some(json!({ "card": "4111" })),
    };
    let today = encode_letter(&letter);
    let bytes = golden(1, "letter.record", &today);
    assert_eq!(decode_letter(&bytes).expect("it can be read"), letter);
    assert_eq!(bytes, today, "letters are written in another form today");
}

#[test]
fn every_event_has_a_golden_record_and_every_record_an_event() {
    let records = records();
    let names: BTreeSet<&str> = records.iter().map(|(_, e)| e.name()).collect();
    assert_eq!(names.len(), 28, "an event has no golden record: {names:?}");
    for format in FORMATS {
        let events = records.iter().map(|(name, _)| format!("{name}.record"));
        let rest = ["snapshot.record", "letter.record"].map(str::to_owned);
        let known: BTreeSet<String> = match format {
            1 => events.chain(rest).collect(),
            _ => events.collect(),
        };
        let files = std::fs::read_dir(folder(format)).expect("the folder is there");
        let files = files.map(|f| f.expect("it can be listed").file_name().into_string());
        assert_eq!(files.map(|f| f.expect("a plain name")).collect::<BTreeSet<_>>(), known);
    }
}

#[test]
fn damaged_and_newer_records_are_told_apart() {
    // Decision 19: a typed error, never a wrong value or a panic.
    let today = encode(&Recorded { at: AT, event: Event::RunActivated });
    assert_eq!(decode(&[]), Err(DecodeError::Empty));
    let mut newer = today.to_vec();
    newer[0] = 3;
    assert_eq!(decode(&newer), Err(DecodeError::Newer { found: 3 }));
    newer[0] = 0;
    assert!(matches!(decode(&newer), Err(DecodeError::Damaged(_))));
    let created = golden(2, "run_created.record", &[]);
    for bytes in [&today[..], &created] {
        for cut in 1..bytes.len() {
            assert!(matches!(decode(&bytes[..cut]), Err(DecodeError::Damaged(_))));
        }
        let longer = [bytes, b"0"].concat();
        assert!(matches!(decode(&longer), Err(DecodeError::Damaged(_))));
    }
    // A snapshot whose steps are not its workflow's would let later code look past its end.
    let text = String::from_utf8(encode_snapshot(&state()).to_vec()).expect("JSON is text");
    let (head, _) = text.split_once("\"steps\":[{\"phase\"").expect("the steps of the state");
    let short = format!("{head}\"steps\":[]}}");
    assert!(matches!(decode_snapshot(short.as_bytes()), Err(DecodeError::Damaged(_))));
}
