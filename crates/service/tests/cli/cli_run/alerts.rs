//! `retrial run` shows alerts of error budgets, and calls webhooks before it ends (C18).

use super::endpoint::{Answer, Endpoint};
use super::output::plain;
use super::workspace::Workspace;

fn orders(url: &str) -> String {
    format!(
        r#"
workflow = "orders"

[actions.charge]
http = "POST {url}/charge"
error_budget = {{ target = 0.75, min_calls = 3, alerts = [1.0], webhook = "notify" }}

[actions.notify]
http = "POST {url}/notify"

[[steps]]
id = "pay"
action = "charge"
for_each = [1, 2, 3]
retry = "[retry: 0]"
"#
    )
}

#[test]
fn c18_an_alert_is_printed_and_told_to_its_webhook_before_the_process_ends() {
    let endpoint = Endpoint::new(|seen| match (seen.path.as_str(), seen.nth) {
        ("/charge", _) => Answer::Status(503, r#"{"error":"busy"}"#),
        // The webhook itself is retried.
        (_, 1) => Answer::Status(503, r#"{"error":"busy"}"#),
        _ => Answer::Status(200, r#"{"success":true}"#),
    });
    let workspace = Workspace::new();
    workspace.write("w.toml", orders(&endpoint.url("")));
    let done = workspace.run(&["run", "w.toml", "--concurrency", "1"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    let webhooks: Vec<_> = endpoint.seen().into_iter().filter(|s| s.path == "/notify").collect();
    assert_eq!(webhooks.len(), 2);
    let body: serde_json::Value = serde_json::from_str(&webhooks[1].body).unwrap();
    assert_eq!((&body["action"], &body["burnt"]), (&"charge".into(), &4.into()));
    let lines: Vec<String> = plain(&done)
        .lines()
        .filter(|line| line.contains("BURNT") || line.contains("Alert"))
        .map(|line| match line.split_once(" run ") {
            Some((told, _)) => format!("{told} run ID."),
            None => line.to_owned(),
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    ⚠ charge [ERROR BUDGET 100% BURNT] - 3 of 3 calls failed, 400% of the budget
    Alert delivered by run ID.
    ");
    // It is a run like any other.
    let listed = workspace.run(&["list", "--store", ".retrial/orders.redb"]);
    assert!(listed.out.contains("charge alert"), "{}", listed.out);
}
