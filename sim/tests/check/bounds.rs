//! How long a user's runs may take before they are called stuck: never too short.

use retrial::failure::Failure;
use retrial::time::Nanos;
use retrial_sim::check::{Check, FaultKind, Gap, Request, Response, World};
use serde_json::json;

use super::kit::held;

/// A service that gives a list of rows, and takes its time for each.
fn rows(
    world: &World,
) -> impl Fn(Request) -> std::pin::Pin<Box<dyn Future<Output = Response> + Send>> + use<> {
    let world = world.clone();
    move |request| {
        let world = world.clone();
        Box::pin(async move {
            if request.path == "/rows" {
                let rows: Vec<u32> = (0..30).collect();
                return Response::json(&json!({ "rows": rows }));
            }
            world.sleep(Nanos::from_secs(50)).await;
            Response::json(&json!({ "done": true }))
        })
    }
}

/// One run in one world without faults, on one node.
fn calm(check: Check) -> Check {
    check.nodes(1).faults([]).runs(1..=1).seeds(1)
}

fn holds(name: &str, text: &str, input: serde_json::Value) {
    let check = Check::new(name)
        .allow([Gap::NoRunSucceeded])
        .workflow_file("w.toml", text)
        .service("rows.test", rows);
    held(calm(check.input(input)));
}

/// One after another, 50 s each.
const GUARDED: &str = r#"
    workflow = "w"
    [actions.list]
    http = "POST http://rows.test/rows"
    [actions.put]
    http = "POST http://rows.test/put"
    concurrency = 1
    [[steps]]
    id = "list"
    action = "list"
    retry = "[retry: 0] [max_retry_after: 1s]"
    [[steps]]
    id = "put"
    action = "put"
    after = ["list"]
    for_each = ROWS
    retry = "[retry: 0] [max_retry_after: 1s]"
"#;

#[test]
fn many_tasks_that_take_turns() {
    let many: Vec<u32> = (0..30).collect();
    let written = serde_json::to_string(&many).unwrap();
    holds("written", &GUARDED.replace("ROWS", &written), json!({}));
    holds("given", &GUARDED.replace("ROWS", "\"${steps.list.result.rows}\""), json!({}));
    let input = json!({ "order": { "rows": many } });
    holds("asked", &GUARDED.replace("ROWS", "\"${input.order.rows}\""), input);
}

/// A user who knows of longer lists says so.
#[test]
fn a_list_that_is_longer_than_most() {
    let text = GUARDED.replace("ROWS", "\"${steps.list.result.rows}\"");
    let many = |_: &World| {
        |request: Request| async move {
            match request.path.as_str() {
                "/rows" => Response::json(&json!({ "rows": (0..60).collect::<Vec<u32>>() })),
                _ => Response::json(&json!({ "done": true })),
            }
        }
    };
    let text = text.replace("concurrency = 1", "rate = { calls = 1, per = \"50s\" }");
    let check = || {
        let check = Check::new("long").workflow_file("w.toml", &text).service("rows.test", many);
        calm(check.longest_attempt(Nanos::from_secs(1)).tries(0))
    };
    held(check().longest_list(60));
    let mistaken = check().longest_list(3).outcome().unwrap_err().to_string();
    assert!(mistaken.contains("termination (stuck)"), "{mistaken}");
}

/// Runs that deliver alerts may take turns too.
#[test]
fn alerts_that_are_told_one_by_one() {
    let text = r#"
        workflow = "w"
        [actions.ask]
        http = "POST http://down.test/ask"
        error_budget = { target = 0.5, window = "1s", min_calls = 1, alerts = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0], webhook = "tell" }
        [actions.tell]
        http = "POST http://rows.test/rows"
        rate = { calls = 1, per = "5m" }
        [defaults]
        retry = "[retry: 0] [max_retry_after: 1s]"
        [[steps]]
        id = "ask"
        action = "ask"
    "#;
    let check = Check::new("alerts").workflow_file("w.toml", text).service("rows.test", rows);
    let check = check.service("down.test", |_| |_| std::future::ready(Response::status(503)));
    held(calm(check));
}

/// No number that a policy may say is too large to be reckoned with.
#[test]
fn as_many_attempts_as_there_can_be() {
    let text = r#"
        workflow = "w"
        [actions.ask]
        http = "POST http://rows.test/rows"
        error_budget = { target = 0.5, window = "1s", min_calls = 1, webhook = "tell" }
        [actions.tell]
        http = "POST http://rows.test/rows"
        [defaults]
        retry = "[retry: 4294967294, backoff: 1s]"
        [[steps]]
        id = "one"
        action = "ask"
        [[steps]]
        id = "other"
        action = "ask"
    "#;
    holds("attempts", text, json!({}));
}

/// A total timeout ends what has no other limit, one after another where tasks take turns.
#[test]
fn what_a_total_timeout_ends() {
    for guard in ["", "concurrency = 1"] {
        let text = r#"
            workflow = "w"
            [actions.never]
            GUARD
            [[steps]]
            id = "never"
            action = "never"
            for_each = [1, 2, 3]
            work_config = { max_retries = -1, backoff = 60000, attempt_timeout = 10, total_timeout = 3600 }
        "#;
        let never = || std::future::ready(Err::<(), _>(Failure::new("NO", "no").retryable()));
        let check = Check::new("total")
            .allow([Gap::NoRunSucceeded])
            .workflow_file("w.toml", &text.replace("GUARD", guard));
        let check = check.function("never", never).longest_attempt(Nanos::from_secs(1));
        let passed = held(calm(check));
        let shown = format!("{passed:?}");
        assert!(shown.contains("verdicts: {Held: 1}"), "{shown}");
    }
}

/// Nobody said that it ends.
#[test]
fn what_is_never_ensured_may_be_tried_for_ever() {
    let text = r#"
        workflow = "w"
        [input]
        sure = true
        [simulate.endpoints.ask]
        then = "echo"
        [actions.ask]
        http = "METHOD http://elsewhere.test/ask"
        [actions.put]
        http = "POST http://rows.test/rows"
        [[steps]]
        id = "ask"
        action = "ask"
        args = { id = 1 }
        ensures = ENSURES
        work_config = { max_retries = -1, backoff = 20000, retryable_errors = ["POSTCONDITION_FAILED", "5xx", "4xx"] }
        [[steps]]
        id = "put"
        action = "put"
    "#;
    let exists = |path: &str| format!(r#"{{ type = "exists", field = "state.{path}" }}"#);
    for (method, ensures) in [
        ("POST", exists("result.never")),
        // Others are asked for than the workflow says.
        ("POST", exists("input.sure")),
        // Of these nobody gets a body.
        ("HEAD", exists("result.success")),
        ("POST", format!(r#"{{ type = "not", condition = {} }}"#, exists("result.args.id"))),
    ] {
        let text = text.replace("METHOD", method).replace("ENSURES", &ensures);
        holds("ensures", &text, json!({ "sure": null }));
    }
}

#[test]
fn endpoints_that_stay_broken() {
    let text = r#"
        workflow = "w"
        [simulate]
        endpoints_heal = false
        runs = 2
        [actions.put]
        http = "POST http://rows.test/rows"
        [[steps]]
        id = "put"
        action = "put"
        retry = "[retry: 5, backoff: 1s]"
    "#;
    let check = Check::new("broken").workflow_file("w.toml", text).service("rows.test", rows);
    held(check.faults([FaultKind::EndpointHang]).seeds(30));
}
