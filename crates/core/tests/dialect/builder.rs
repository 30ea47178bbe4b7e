//! A workflow from the builder is the workflow of a file that says the same.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use retrial_core::dialect::{Environment, Format, parse_workflow};
use retrial_core::policy::Policy;
use retrial_core::time::Nanos;
use retrial_core::workflow::{Quorum, Rollback, Workflow, WorkflowError, WorkflowParts};
use serde_json::json;

const FILE: &str = r#"
workflow = "order"
rollback = "on_failure"
search = ["customer", "order.id"]
input = { items = ["lamp"] }

[[steps]]
id = "charge"
action = "charge_card"
args = { item = "${item}" }
for_each = "${input.items}"
success = "any"
fail_fast = true
retry = "[retry: 3, backoff: 5s]"

[[steps]]
id = "refund"
action = "refund"
compensates = "charge"
retry = "[retry: 0]"

[[steps]]
id = "ship"
action = "ship"
after = ["charge"]
join = "any"
goal = true
heartbeat_timeout = "30s"
requires = { type = "exists", field = "state.input.items" }
ensures = { type = "exists", field = "state.result" }
retry = "[retry: 0]"

[[steps]]
id = "tell"
action = "tell_support"
retry = "[retry: 0]"

[[transitions]]
from = "ship"
to = "tell"
on_error = ["CardDeclined"]
priority = 2
condition = { type = "exists", field = "state.input.items" }
"#;

fn built() -> Result<Workflow, Box<dyn std::error::Error>> {
    let exists = |field| serde_json::from_value(json!({ "type": "exists", "field": field }));
    let none: Policy = "[retry: 0]".parse()?;
    Ok(Workflow::builder("order")
        .rollback(Rollback::OnFailure)
        .search(["order.id", "customer"])
        .input(json!({ "items": ["lamp"] }))
        .step("charge", "charge_card")
        .args(json!({ "item": "${item}" }))
        .for_each("${input.items}")
        .success(Quorum::Any)
        .fail_fast()
        .retry("[retry: 3, backoff: 5s]".parse()?)
        .step("refund", "refund")
        .compensates("charge")
        .retry(none.clone())
        .step("ship", "ship")
        .after(["charge"])
        .join(Quorum::Any)
        .goal()
        .heartbeat_timeout(Nanos::from_secs(30))
        .requires(exists("state.input.items")?)
        .ensures(exists("state.result")?)
        .retry(none.clone())
        .step("tell", "tell_support")
        .retry(none)
        .transition("ship", "tell")
        .on_error(["CardDeclined"])
        .priority(2)
        .when(exists("state.input.items")?)
        .build()?)
}

#[test]
fn a_builder_says_what_a_file_says() {
    let read = parse_workflow("w.toml", FILE, Format::Toml, &Environment::default()).unwrap();
    let mut declared: WorkflowParts = read.workflow.into();
    // A file declares the functions that it names.
    declared.actions.clear();
    assert_eq!(built().unwrap(), Workflow::try_from(declared).unwrap());
}

#[test]
fn what_is_wrong_with_a_builder_names_the_step() {
    let start = || Workflow::builder("w").step("a", "x");
    let said = |wrong: Result<Workflow, WorkflowError>| wrong.unwrap_err().to_string();
    let all = [
        said(Workflow::builder("w").input(json!(7)).step("a", "x").build()),
        said(start().args(json!({ "id": "${inptu.id}" })).for_each("${").build()),
        said(start().for_each("${input.rows").build()),
        said(start().step("b", "x").after(["c"]).build()),
        said(start().step("b", "x").compensates("c").build()),
        said(start().transition("a", "c").build()),
        said(start().step("a", "x").build()),
    ];
    insta::assert_snapshot!(all.join("\n"), @"
    the input is no object; give it as json!({ .. })
    `args` of step `a`: `inptu.id` has an unknown root; use input, steps.ID, item, index, _last_error or _errors
    `for_each` of step `a`: `${input.rows` has a `${` without a `}`
    `c` in `after` of step `b` names a step that does not exist
    `c` in `compensates` of step `b` names a step that does not exist
    `c` in the transition from `a` to `c` names a step that does not exist
    step id `a` is used twice; give each step its own id
    ");
}

#[test]
fn a_policy_is_read_from_a_text() {
    let policy: Policy = "[retry: 3, backoff: 5s]".parse().unwrap();
    assert_eq!(policy.limit().count(), Some(4));
    let read: Result<Policy, _> = FILE.parse();
    insta::assert_snapshot!(read.unwrap_err(), @"policy:1:1: this is a whole workflow, not one policy (give the policy of one step)");
    insta::assert_snapshot!("[retry: x]".parse::<Policy>().unwrap_err(), @"policy:1:9: `retry` must be a whole number, found `x` (use 0 to 4294967294)");
}
