//! A rolled back run as `retrial run` prints it (C18).

use super::endpoint::{Answer, Endpoint};
use super::output::plain;
use super::workspace::Workspace;

/// An order whose shipping fails, with compensations for what was done before.
fn order(url: &str) -> String {
    let action = |name: &str| format!("[actions.{name}]\nhttp = \"POST {url}/{name}\"\n");
    let actions: String = ["charge", "reserve", "ship", "refund", "release"].map(action).concat();
    format!(
        r#"
workflow = "order"
rollback = "on_failure"

{actions}
[[steps]]
id = "charge"
action = "charge"

[[steps]]
id = "reserve"
action = "reserve"
after = ["charge"]
for_each = ["left", "right"]

[[steps]]
id = "ship"
action = "ship"
after = ["reserve"]

[[steps]]
id = "refund"
compensates = "charge"
action = "refund"
args = {{ charge = "${{result.id}}", why = "${{_last_error.code}}" }}
retry = "[retry: 1, backoff: 100ms]"

[[steps]]
id = "release"
compensates = "reserve"
action = "release"
args = {{ item = "${{item}}" }}
"#
    )
}

#[test]
fn c18_a_rollback_is_printed_as_it_goes_and_the_run_ends_failed() {
    let endpoint = Endpoint::new(|seen| match (seen.path.as_str(), seen.nth) {
        ("/ship", _) => Answer::Status(409, r#"{"error":"sold out"}"#),
        ("/refund", 1) => Answer::Status(503, r#"{"error":"busy"}"#),
        _ => Answer::Status(200, r#"{"success":true,"id":"c7"}"#),
    });
    let workspace = Workspace::new();
    workspace.write("w.toml", order(&endpoint.url("")));
    let done = workspace.run(&["run", "w.toml", "--concurrency", "1"]);
    assert_eq!(done.code, Some(1));
    insta::assert_snapshot!(plain(&done), @"
    Run ID of order, kept in .retrial/order.redb.
    🔧 charge [STARTED]
    ✔ charge [COMPLETED] (#s)
    🔧 reserve [FANNED OUT into 2 tasks]
    🔧 reserve[0] [STARTED]
    ✔ reserve[0] [COMPLETED] (#s) · 1 of 2
    🔧 reserve[1] [STARTED]
    ✔ reserve[1] [COMPLETED] (#s) · 2 of 2
    🔧 ship [STARTED]
    ✖ ship [FAILED] (#s) - HTTP 409 Conflict: sold out
    ↺ order [ROLLING BACK] - ship: 409: HTTP 409 Conflict: sold out
    ↺ release[1] undoes reserve[1]
    🔧 release[1] [STARTED]
    ✔ release[1] [COMPLETED] (#s)
    ↺ release[0] undoes reserve[0]
    🔧 release[0] [STARTED]
    ✔ release[0] [COMPLETED] (#s)
    ↺ refund undoes charge
    🔧 refund [STARTED]
    ✔ refund [COMPLETED after 2 attempts] (#s total)
      ↻ Recovered after 1 retry
    ✔ order [ROLLED BACK]
    ✖ order [RUN FAILED] (#s total) - ship: 409: HTTP 409 Conflict: sold out
    📊 RETRY STATISTICS
    ├─ Total events with retries: 1
    ├─ Succeeded after retry: 1 (100%)
    ├─ Failed after all retries: 0 (0%)
    ├─ Total retry attempts: 1
    └─ Avg retries per event: 1.0
    ⏱ TIME OF TASKS
    ├─ Working: #s
    ├─ In attempts that failed: #s
    └─ Waiting to retry: #s
    ");
    let seen = endpoint.seen();
    let bodies: Vec<String> = seen.iter().map(|s| format!("{} {}", s.path, s.body)).collect();
    insta::assert_snapshot!(bodies.join("\n"), @r#"
    /charge {}
    /reserve {}
    /reserve {}
    /ship {}
    /release {"item":"right"}
    /release {"item":"left"}
    /refund {"charge":"c7","why":"409"}
    /refund {"charge":"c7","why":"409"}
    "#);
}

#[test]
fn c18_a_compensation_that_nothing_needs_is_not_shown_as_waiting() {
    let endpoint = Endpoint::new(|_| Answer::Status(200, r#"{"success":true,"id":"c7"}"#));
    let workspace = Workspace::new();
    workspace.write("w.toml", order(&endpoint.url("")));
    workspace.well(&["run", "w.toml"]);
    let run = workspace.newest();
    let shown = workspace.well(&["inspect", &run]);
    assert!(shown.contains("  refund   not needed  compensates charge\n"), "{shown}");
    let json = workspace.json(&["inspect", &run]);
    let phases = json["steps"].as_array().unwrap().iter().map(|step| step["phase"].as_str());
    let done = ["succeeded", "succeeded", "succeeded", "not_needed", "not_needed"];
    assert_eq!(phases.collect::<Vec<_>>(), done.map(Some));
}
