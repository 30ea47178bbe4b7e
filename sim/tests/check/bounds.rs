//! How long a user's runs may take before they are called stuck: never too short.

use retrial::time::Nanos;
use retrial_sim::check::{Check, FaultKind, Request, Response, World};
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

fn holds(name: &str, text: &str, input: serde_json::Value) {
    let check = Check::new(name).workflow_file("w.toml", text).service("rows.test", rows);
    held(check.input(input).nodes(1).faults([]).runs(1..=1).seeds(1));
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

/// Nobody said that it ends.
#[test]
fn what_is_never_ensured_may_be_tried_for_ever() {
    let text = r#"
        workflow = "w"
        [actions.ask]
        http = "POST http://elsewhere.test/ask"
        [actions.put]
        http = "POST http://rows.test/rows"
        [[steps]]
        id = "ask"
        action = "ask"
        ensures = { type = "exists", field = "state.result.never" }
        work_config = { max_retries = -1, backoff = 20000, retryable_errors = ["POSTCONDITION_FAILED", "5xx", "4xx"] }
        [[steps]]
        id = "put"
        action = "put"
    "#;
    holds("ensures", text, json!({}));
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
