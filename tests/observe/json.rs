//! H9 and H16: a notice as one JSON object with all retry metadata; spec decision 20: no payload.

use insta::assert_snapshot;
use retrial::observe::json::{masked, object};
use retrial::policy::GiveUp;
use retrial::run::{Event, Outcome, RouteCause};
use serde_json::{Value, json};

use crate::fixtures::*;

fn shown(event: Event) -> String {
    let mut text = String::new();
    each(run(1), &[(0, event)], |notice| {
        text = serde_json::to_string_pretty(&object(notice)).unwrap();
    });
    text
}

/// Only what is not common to all.
fn about(event: Event) -> Value {
    let mut value: Value = serde_json::from_str(&shown(event)).unwrap();
    for common in ["schema", "run", "workflow", "number", "at", "event"] {
        assert!(value.as_object_mut().unwrap().remove(common).is_some(), "{common} is missing");
    }
    value
}

#[test]
fn h9_a_retry_carries_all_its_metadata() {
    assert_snapshot!(shown(started(task(FETCH), 2, Some(3))), @r#"
    {
      "action": "do_fetch_data",
      "at": "2023-11-14T22:13:20Z",
      "attempt": 2,
      "event": "attempt_started",
      "is_retry": true,
      "number": 0,
      "original_error": "503: busy",
      "retries_left": 1,
      "retry_attempt": 1,
      "retry_delay": 2.5,
      "run": "00000001-0000-4000-8000-000000000001",
      "schema": 1,
      "step": "fetch_data",
      "timeout_ms": 30000,
      "workflow": "etl"
    }
    "#);
    assert_snapshot!(about(failed(item(EACH, 3), 1, slow(), true)), @r#"{"action":"do_each","attempt":1,"error":{"code":"TIMEOUT","kind":"timeout","message":"Connection timeout","retryable":true,"type":"TimeoutError"},"is_retry":false,"item":3,"retry_attempt":0,"step":"each","took":0.5,"will_retry":true}"#);
    assert_snapshot!(about(scheduled(task(FETCH), 2, 2_500)), @r#"{"action":"do_fetch_data","attempt":2,"backoff":2.5,"is_retry":true,"next_attempt":2,"reason":"TIMEOUT","retry_attempt":1,"retry_delay":2.5,"retry_kind":"timeout","step":"fetch_data"}"#);
}

#[test]
fn h9_the_end_carries_the_total_attempts() {
    assert_snapshot!(about(succeeded(task(FETCH), 3)), @r#"{"action":"do_fetch_data","attempt":3,"is_retry":true,"result":"***","retry_attempt":2,"spent":{"failing":1.0,"total":5.25,"waiting":4.0,"working":0.25},"step":"fetch_data","total_attempts":3}"#);
    assert_snapshot!(about(gave_up(task(FETCH), 3, GiveUp::Exhausted, &slow())), @r#"{"action":"do_fetch_data","attempt":3,"error":{"action_id":"do_fetch_data","attempt":3,"code":"TIMEOUT","message":"Connection timeout","node_id":"fetch_data","retryable":true,"timestamp":"1970-01-01T00:00:00Z"},"is_retry":true,"reason":"exhausted","reason_text":"all attempts are used up","retry_attempt":2,"spent":{"failing":1.5,"total":5.5,"waiting":4.0,"working":0.0},"step":"fetch_data","total_attempts":3}"#);
}

#[test]
fn h9_a_first_attempt_is_no_retry() {
    let first = about(started(task(FETCH), 1, Some(3)));
    assert_eq!(first["retry_attempt"], 0);
    assert_eq!(first["is_retry"], false);
    assert!(first.get("retry_delay").is_none() && first.get("original_error").is_none());
}

#[test]
fn decision_20_payloads_tokens_and_digests_are_not_shown() {
    let input = json!({ "key": "s3cret", "list": [{ "pin": 1234 }, true, null] });
    let text = shown(created(input.clone()));
    assert!(!text.contains("s3cret") && !text.contains("1234"), "{text}");
    assert_eq!(masked(&input), json!({ "key": "***", "list": [{ "pin": "***" }, "***", null] }));
    let start = shown(started(task(FETCH), 1, None));
    assert!(!start.contains("token") && !start.contains("00000000-0000-4001"), "{start}");
    assert!(!shown(succeeded(task(FETCH), 1)).contains("digest"));
}

#[test]
fn every_event_has_an_object() {
    let error = || context(&slow(), 3);
    let step = FETCH;
    for event in [
        Event::RunActivated,
        Event::RunDeactivated,
        Event::StepEntered { step, tasks: 2 },
        Event::StepSucceeded { step },
        Event::StepFailed { step, error: error() },
        Event::StepUnreachable { step },
        Event::StepSkipped { step },
        Event::TaskCancelled { task: task(step) },
        routed(FETCH, ONCE, RouteCause::Failure),
        Event::CancelRequested { reason: "enough".into() },
        ended(Outcome::Completed),
        ended(Outcome::Failed { error: error() }),
        ended(Outcome::Cancelled { reason: "enough".into() }),
    ] {
        let name = event.name();
        let value: Value = serde_json::from_str(&shown(event)).unwrap();
        assert_eq!(value["event"], name);
    }
}
