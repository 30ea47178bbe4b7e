//! The workflow file in TOML and JSON: every key, both syntaxes, defaults (H7, A7, A8), conditions
//! (C6), references, graphs that make no sense.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use retrial_core::dialect::{Document, Environment, Format, parse_workflow};
use retrial_core::policy::{ActionKind, Dialect, Origin};
use retrial_core::time::Nanos;
use retrial_core::workflow::{Condition, HeaderText, Quorum, Target};

const TOML: &str = r#"
workflow = "orders"

[input]
order = 7
ratio = 0.5
list = [1, 2]

[actions.fetch]
http = "POST http://127.0.0.1:8080/fetch?x=1"
headers = { Authorization = "env:FETCH_TOKEN", X-Tenant = "acme" }
kind = "llm_call"
idempotent = true
inner_attempts = 3

[actions.local]
kind = "agent_call"

[defaults]
work_config = { max_retries = 1, backoff = 100 }
[defaults.llm_call]
retry_config = { max_attempts = 4 }

[[steps]]
id = "load"
action = "fetch"
args = { id = "${input.order}", when = 2024-01-02T03:04:05Z }

[[steps]]
id = "each"
action = "fetch"
after = ["load"]
for_each = "${steps.load.result.items}"
args = { item = "${item}", index = "${index}" }
fail_fast = true
success = { at_least = 2 }
ensures = { type = "not", condition = { type = "eq", field = "state.result", value = 0 } }
retry = "[NetworkError -> retry: 5, backoff: 2m] [timeout: 2m]"

[[steps]]
id = "store"
action = "plain"
after = "each"
goal = true
requires = { type = "exists", field = "state.steps.each.result" }
work_config = { max_retries = -1, backoff = 50, max_backoff = 1000, backoff_type = "exponential" }

[[steps]]
id = "handler"
action = "local"
execution = { timeout_ms = 500, retry_policy = { max_attempts = 2 } }

[[steps]]
id = "other"
action = "plain"

[[steps]]
id = "all"
action = "plain"
after = ["handler", "other"]
join = "any"
args = { errors = "${_errors}" }

[[transitions]]
from = "store"
to = "handler"
priority = -1
on_error = ["TIMEOUT"]

[[transitions]]
from = "store"
to = "other"
condition = { type = "and", conditions = [
  { type = "exists", field = { type = "field", path = "state._last_error" } },
  { type = "not", condition = { type = "in", field = "state._last_error.code", values = ["404", "410"] } },
  { type = "or", conditions = [ { type = "eq", field = "state.input.order", value = 7 } ] },
] }

[simulate]
endpoints = { fetch = ["503", "ok"] }
"#;

const JSON: &str = r#"{
  "workflow": "orders",
  "input": {"order": 7, "ratio": 0.5, "list": [1, 2]},
  "actions": {
    "fetch": {
      "http": "POST http://127.0.0.1:8080/fetch?x=1",
      "headers": {"Authorization": "env:FETCH_TOKEN", "X-Tenant": "acme"},
      "kind": "llm_call", "idempotent": true, "inner_attempts": 3
    },
    "local": {"kind": "agent_call"}
  },
  "defaults": {
    "work_config": {"max_retries": 1, "backoff": 100},
    "llm_call": {"retry_config": {"max_attempts": 4}}
  },
  "steps": [
    {"id": "load", "action": "fetch",
     "args": {"id": "${input.order}", "when": "2024-01-02T03:04:05Z"}},
    {"id": "each", "action": "fetch", "after": ["load"],
     "for_each": "${steps.load.result.items}",
     "args": {"item": "${item}", "index": "${index}"}, "fail_fast": true,
     "success": {"at_least": 2}, "ensures": {"type": "not", "condition":
       {"type": "eq", "field": "state.result", "value": 0}},
     "retry": "[NetworkError -> retry: 5, backoff: 2m] [timeout: 2m]"},
    {"id": "store", "action": "plain", "after": "each", "goal": true,
     "requires": {"type": "exists", "field": "state.steps.each.result"},
     "work_config": {"max_retries": -1, "backoff": 50, "max_backoff": 1000, "backoff_type": "exponential"}},
    {"id": "handler", "action": "local",
     "execution": {"timeout_ms": 500, "retry_policy": {"max_attempts": 2}}},
    {"id": "other", "action": "plain"},
    {"id": "all", "action": "plain", "after": ["handler", "other"], "join": "any",
     "args": {"errors": "${_errors}"}}
  ],
  "transitions": [
    {"from": "store", "to": "handler", "priority": -1, "on_error": ["TIMEOUT"]},
    {"from": "store", "to": "other", "condition": {"type": "and", "conditions": [
      {"type": "exists", "field": {"type": "field", "path": "state._last_error"}},
      {"type": "not", "condition":
        {"type": "in", "field": "state._last_error.code", "values": ["404", "410"]}},
      {"type": "or", "conditions": [{"type": "eq", "field": "state.input.order", "value": 7}]}
    ]}}
  ],
  "simulate": {"endpoints": {"fetch": ["503", "ok"]}}
}"#;

fn parse(text: &str, format: Format) -> Document {
    let parsed = parse_workflow("flow.toml", text, format, &Environment::default());
    parsed.unwrap_or_else(|errors| panic!("{errors:#?}"))
}

#[test]
fn both_syntaxes_say_the_same() {
    let (toml, json) = (parse(TOML, Format::Toml), parse(JSON, Format::Json));
    assert_eq!(toml.workflow, json.workflow);
    assert_eq!(toml.simulate, json.simulate);
}

#[test]
fn every_key_arrives() {
    let document = parse(TOML, Format::Toml);
    let workflow = &document.workflow;
    assert_eq!(workflow.name(), "orders");
    assert_eq!(workflow.input()["ratio"], serde_json::json!(0.5));
    assert_eq!(document.simulate.unwrap()["endpoints"]["fetch"][0], "503");

    let action = &workflow.actions()["fetch"];
    assert_eq!((action.kind, action.idempotent), (ActionKind::LlmCall, Some(true)));
    assert_eq!(action.inner_attempts, Some(3));
    let Target::Http(endpoint) = &action.target else { panic!("not HTTP") };
    assert_eq!(endpoint.method, "POST");
    assert_eq!(endpoint.url, "http://127.0.0.1:8080/fetch?x=1");
    let headers: Vec<_> = endpoint.headers.iter().collect();
    let token = HeaderText::Env("FETCH_TOKEN".into());
    let tenant = HeaderText::Literal("acme".into());
    assert_eq!(headers, [(&"authorization".into(), &token), (&"x-tenant".into(), &tenant)]);
    assert_eq!(workflow.actions()["local"].target, Target::Registered);

    let each = &workflow.steps()[1];
    assert_eq!((each.after.len(), each.goal, each.fail_fast), (1, false, true));
    assert!(each.for_each.is_some());
    assert_eq!(each.success.of(9), 2);
    assert!(each.ensures.is_some() && each.requires.is_none());
    assert!(workflow.steps()[2].requires.is_some());
    assert_eq!((workflow.steps()[5].join, each.join), (Quorum::Any, Quorum::All));
    assert!(workflow.steps()[2].goal);
    let edge = &workflow.transitions()[0];
    assert_eq!((edge.priority, edge.on_error.as_ref().unwrap().len()), (-1, 1));
    let condition = workflow.transitions()[1].condition.as_ref().unwrap();
    assert!(condition.asks_for_error() && matches!(condition, Condition::And { .. }));
}

/// A step whose action is no endpoint is fine for a program that registers functions.
#[test]
fn steps_without_an_endpoint_are_listed() {
    let listed: Vec<String> =
        parse(TOML, Format::Toml).registered.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(listed.join("\n"), @r#"
    flow.toml:42:10: steps.2.action: action `plain` has no HTTP endpoint, and no function of that name is registered (declare it: [actions.plain] http = "POST http://...")
    flow.toml:50:10: steps.3.action: action `local` has no HTTP endpoint, and no function of that name is registered (declare it: [actions.local] http = "POST http://...")
    flow.toml:55:10: steps.4.action: action `plain` has no HTTP endpoint, and no function of that name is registered (declare it: [actions.plain] http = "POST http://...")
    flow.toml:59:10: steps.5.action: action `plain` has no HTTP endpoint, and no function of that name is registered (declare it: [actions.plain] http = "POST http://...")
    "#);
}

#[test]
fn h7_the_most_specific_policy_wins_whole() {
    let workflow = parse(TOML, Format::Toml).workflow;
    let shown: Vec<_> = workflow
        .steps()
        .iter()
        .map(|s| (s.id.as_str(), s.origin, s.policy.dialect(), s.policy.limit().count()))
        .collect();
    assert_eq!(
        shown,
        [
            ("load", Origin::Kind, Dialect::RetryConfig, Some(4)),
            ("each", Origin::Task, Dialect::Ir, Some(6)),
            ("store", Origin::Task, Dialect::WorkConfig, None),
            ("handler", Origin::Task, Dialect::Execution, Some(2)),
            ("other", Origin::Global, Dialect::WorkConfig, Some(2)),
            ("all", Origin::Global, Dialect::WorkConfig, Some(2)),
        ]
    );
}

/// A7 against H7 and H8: the file's global default beats the environment's, which beats built-in.
#[test]
fn a7_the_environment_is_the_global_level() {
    let environment =
        Environment::read(|name| (name == "RETRY_MAX_RETRIES").then(|| "8".to_owned())).unwrap();
    let check = |defaults: &str, environment: &Environment, expected: (Origin, u32)| {
        let text = format!("workflow = 'w'\n{defaults}\n[[steps]]\nid = 'a'\naction = 'a'");
        let document = parse_workflow("w.toml", &text, Format::Toml, environment).unwrap();
        let step = &document.workflow.steps()[0];
        assert_eq!((step.origin, step.policy.limit().count()), (expected.0, Some(expected.1)));
    };
    let file = "[defaults.execution.retry_policy]\nmax_attempts = 2";
    check(file, &environment, (Origin::Global, 2));
    check("", &environment, (Origin::Global, 9));
    check("", &Environment::default(), (Origin::BuiltIn, 3));
}

// X1: a workflow's text gives steps and actions their limits; the step's own wins.
#[test]
fn x1_a_file_says_how_long_a_heartbeat_may_take() {
    let text = r#"
workflow = "w"
[actions.long]
heartbeat_timeout = "30s"
[[steps]]
id = "a"
action = "long"
[[steps]]
id = "b"
action = "long"
heartbeat_timeout = 2.5
[[steps]]
id = "c"
action = "short"
"#;
    let environment = Environment::default();
    let read = parse_workflow("w.toml", text, Format::Toml, &environment);
    let workflow = read.unwrap().workflow;
    let limits: Vec<_> = workflow.places().map(|at| workflow.heartbeat_timeout(at)).collect();
    assert_eq!(limits, [Some(Nanos::from_secs(30)), Some(Nanos::from_millis(2_500)), None]);
}

// X1: an HTTP action can't give heartbeats, and a limit of zero leaves no time for one.
#[test]
fn x1_a_heartbeat_that_nobody_can_give_is_refused() {
    let http = "workflow = \"w\"\n[actions.x]\nhttp = \"POST http://h/\"\n";
    let bare = "workflow = \"w\"\n";
    let step = "[[steps]]\nid = \"a\"\naction = \"x\"\n";
    let all = [
        format!("{http}heartbeat_timeout = 5\n{step}"),
        format!("{http}{step}heartbeat_timeout = \"5s\"\n"),
        format!("{bare}{step}heartbeat_timeout = 0\n"),
    ];
    let said = |text: &String| {
        let read = parse_workflow("w.toml", text, Format::Toml, &Environment::default());
        read.unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let said = all.iter().map(said).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(said, @r"
    w.toml:4:21: actions.x.heartbeat_timeout: an HTTP action can't send heartbeats (leave it out, or bound the attempt with attempt_timeout)
    w.toml:7:21: steps.0.heartbeat_timeout: an HTTP action can't send heartbeats (leave it out, or bound the attempt with attempt_timeout)
    w.toml:5:21: steps.0.heartbeat_timeout: a timeout of zero lets no attempt run (leave it out for no timeout)
    ");
}
