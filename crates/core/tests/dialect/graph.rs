//! What a graph may refer to, how a circle is told, and what a node must have for a step.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::Write as _;

use retrial_core::dialect::{Environment, Format, parse_workflow};
use retrial_core::policy::{Origin, Policy};
use retrial_core::run::{Event, nesting};
use retrial_core::workflow::{
    Able, Action, Condition, Endpoint, Need, Nesting, Step, StepIx, Target, Transition, Via,
    Webhook, Workflow, WorkflowParts,
};
use serde_json::json;

use crate::bad_input::{refused, with};

/// Steps `s0` and so on, each after the one before, with `last` said of the last.
fn chain(count: usize, last: &str) -> String {
    let step = |n: usize| {
        let after = if n == 0 { String::new() } else { format!("after = 's{}'\n", n - 1) };
        format!("[[steps]]\nid = 's{n}'\naction = 'a'\n{after}")
    };
    let steps: String = (0..count).map(step).collect();
    refused(&format!("workflow = 'w'\n{steps}{last}"))
}

#[test]
fn a_step_may_read_any_step_that_ends_before_it() {
    // More than one word of the set that is kept for each.
    for at in [0, 1, 63, 64, 127, 148] {
        let args = format!("args = {{ x = '${{steps.s{at}.result}}' }}\n");
        assert_eq!(chain(150, &args), "", "{at}");
    }
    let itself = chain(150, "args = { x = '${steps.s149.result}' }\n");
    assert!(itself.contains("may not have ended before it"), "{itself}");
}

/// Places in what can not be read are told where they stand: in lists and in tables.
#[test]
fn a_reference_is_told_where_it_stands() {
    let wrong = |args: &str| with(&format!("[[steps]]\nid = 'c'\naction = 'x'\nargs = {args}\n"));
    let why = "reads a step that may not have ended before it";
    for (args, place) in [
        ("{ k = '${steps.a.result}' }", "w.toml:11:14: steps.2.args.k"),
        ("{ k = [1, '${steps.a.result}'] }", "w.toml:11:18: steps.2.args.k.1"),
        ("{ k = { m = '${steps.a.result}' } }", "w.toml:11:20: steps.2.args.k.m"),
    ] {
        let error = wrong(args);
        assert!(error.starts_with(place) && error.contains(why), "{args}: {error}");
    }
    let error = wrong("{ k = ['${item}'] }");
    assert!(error.starts_with("w.toml:11:15: steps.2.args.k.0"), "{error}");
    let error = wrong("{ k = '${steps}' }");
    assert!(error.contains("`steps` has an unknown root"), "{error}");
}

/// The argument at fault, or the action where no argument stands in the text.
#[test]
fn an_argument_that_can_not_be_sent_is_told_where_it_stands() {
    let wrong = |url: &str, args: &str| {
        refused(&format!(
            "workflow = 'w'\n[actions.a]\nhttp = 'GET http://h/{url}'\n[[steps]]\nid = 's'\naction = 'a'\nargs = {args}\n"
        ))
    };
    let error = wrong("${args.x.y}", "{ z = 1, x = { y = {} } }");
    assert!(error.starts_with("w.toml:7:21: steps.0.args.x:"), "{error}");
    let error = wrong("", "{ z = 1, x = { y = 1 } }");
    assert!(error.starts_with("w.toml:7:21: steps.0.args.x:"), "{error}");
    let error = wrong("${args.x.y}", "{ z = 1, x = 'plain' }");
    assert!(error.starts_with("w.toml:7:21: steps.0.args.x:"), "{error}");
    assert_eq!(wrong("${args.x.y}", "{ z = 1, x = '${input.x}' }"), "");
    let error = wrong("${args.gone}", "{ z = 1 }");
    assert!(error.starts_with("w.toml:6:10: steps.0.action:"), "{error}");
}

/// Only the steps of the circle are named, though others come before it and behind it.
#[test]
fn a_circle_is_told_by_its_own_steps() {
    let steps = "[[steps]]\nid = 'c'\naction = 'x'\nafter = ['a', 'e']\n\
        [[steps]]\nid = 'd'\naction = 'x'\nafter = ['b', 'c']\n\
        [[steps]]\nid = 'e'\naction = 'x'\nafter = ['a', 'd']\n\
        [[steps]]\nid = 'f'\naction = 'x'\nafter = ['e']\n";
    let error = with(steps);
    assert!(error.contains("steps c -> d -> e -> c form a cycle"), "{error}");
}

#[test]
fn edges_to_nowhere_are_refused() {
    let none: Policy = "[retry: 0]".parse().unwrap();
    let step = |id: &str| Step::new(id, "x", none.clone());
    let built = |after: Vec<StepIx>, edges: &[[u16; 2]]| {
        let edge = |[from, to]: &[u16; 2]| Transition {
            from: StepIx(*from),
            to: StepIx(*to),
            priority: 0,
            on_error: None,
            condition: None,
        };
        let parts = WorkflowParts {
            name: "w".into(),
            steps: vec![step("a"), Step { after, ..step("b") }],
            transitions: edges.iter().map(edge).collect(),
            ..WorkflowParts::default()
        };
        Workflow::try_from(parts).err().map(|e| e.to_string()).unwrap_or_default()
    };
    assert_eq!(built(vec![StepIx(0)], &[[0, 1]]), "");
    assert!(built(vec![StepIx(2)], &[]).contains("`after` of step `b`"));
    for edge in [[0, 2], [2, 1]] {
        assert!(built(vec![], &[[0, 1], edge]).contains("transition 2"), "{edge:?}");
    }
}

#[test]
fn a_field_is_a_text_or_a_table_of_its_type() {
    let read = |field: serde_json::Value| {
        serde_json::from_value::<Condition>(json!({ "type": "exists", "field": field }))
    };
    let short = read(json!("state.input.x")).unwrap();
    assert_eq!(read(json!({ "type": "field", "path": "state.input.x" })).unwrap(), short);
    assert!(read(json!({ "type": "value", "path": "state.input.x" })).is_err());
}

/// `true` is every failure, one name is a list of one.
#[test]
fn an_exception_edge_takes_a_name_a_list_or_all() {
    let read = |on_error: &str| {
        let text = format!(
            "workflow = 'w'\nsteps = [{{ id = 'a', action = 'x' }}, {{ id = 'b', action = 'x' }}]\n\
             transitions = [{{ from = 'a', to = 'b', on_error = {on_error} }}]\n"
        );
        let read = parse_workflow("w", &text, Format::Toml, &Environment::default());
        read.map(|d| d.workflow.transitions()[0].on_error.clone().unwrap())
    };
    assert!(read("true").unwrap().is_empty());
    assert_eq!(read("'A'"), read("['A']"));
    assert_eq!(read("['A', 'B']").unwrap().len(), 2);
    let error = read("false").unwrap_err().to_string();
    assert!(error.contains("expected a list, found false"), "{error}");
}

/// A condition over one item of a fan-out is one of `ensures` alone.
#[test]
fn a_condition_reads_the_item_only_where_there_is_one() {
    let of = |key: &str, field: &str| {
        with(&format!(
            "[[steps]]\nid = 'c'\naction = 'x'\nfor_each = [1]\n{key} = {{ type = 'exists', field = '{field}' }}\n"
        ))
    };
    for field in ["state.item", "state.index", "state.result"] {
        assert_eq!(of("ensures", field), "", "{field}");
    }
    for field in ["state.item", "state.index"] {
        assert!(of("requires", field).contains("there is no single item here"), "{field}");
    }
}

#[test]
fn a_node_is_told_the_first_step_that_it_can_not_run() {
    let text = "workflow = 'w'\n[actions.web]\nhttp = 'POST http://h/'\n\
        [[steps]]\nid = 'first'\naction = 'web'\n[[steps]]\nid = 'second'\naction = 'own'\n";
    let read = parse_workflow("w", text, Format::Toml, &Environment::default()).unwrap();
    let workflow = read.workflow;
    let only = |http: bool, functions: &[&str]| Able::Only {
        http,
        functions: functions.iter().map(|name| (*name).into()).collect(),
    };
    for (able, first) in [
        (Able::Anything, None),
        (only(true, &["own"]), None),
        (only(true, &["web"]), Some(StepIx(1))),
        (only(false, &["own"]), Some(StepIx(0))),
        (only(false, &[]), Some(StepIx(0))),
    ] {
        assert_eq!(workflow.beyond(&able), first, "{able:?}");
    }
    let needs = [0, 1].map(|at| workflow.need(StepIx(at)).unwrap());
    let via = |action: &str, via| Need { action: action.into(), via };
    assert_eq!(needs, [via("web", Via::Http), via("own", Via::Function)]);
    assert_eq!(needs.map(|need| need.to_string()), ["HTTP action `web`", "action `own`"]);
}

#[test]
fn nesting_is_counted_however_the_bytes_come() {
    let text = r#"{"a": ["[[[", "\"[", {"b": [[]]}], "c": {}}"#;
    assert_eq!(Nesting::of(text.as_bytes()), 5);
    let mut nesting = Nesting::default();
    for byte in text.as_bytes() {
        nesting.write_all(&[*byte]).unwrap();
    }
    assert_eq!(nesting.deepest(), 5);
}

/// The deeper of a run's definition and its input: neither can be stored too deep.
#[test]
fn a_run_is_as_deep_as_its_definition_or_its_input() {
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let depth = |args: usize, input: usize| {
        let text = format!(
            r#"{{"workflow": "w", "steps": [{{"id": "s", "action": "a", "args": {{"x": {}}}}}]}}"#,
            nested(args)
        );
        let read = parse_workflow("w", &text, Format::Json, &Environment::default()).unwrap();
        let input =
            json!({ "x": serde_json::from_str::<serde_json::Value>(&nested(input)).unwrap() });
        let input = input.as_object().unwrap().clone();
        nesting(&Event::RunCreated { seed: 1, workflow: read.workflow.into(), input })
    };
    // A step's arguments stand in the definition, its list of steps, and the step.
    assert_eq!([depth(10, 2), depth(2, 20)], [14, 21]);
    assert_eq!(nesting(&Event::RunActivated), 0);
}

/// An alert is told in a run of one step, which can be told from the run that raised it.
#[test]
fn c18_a_webhook_is_called_in_a_workflow_of_its_own() {
    let policy: Policy = "[retry: 2, backoff: 1s]".parse().unwrap();
    let target = Target::Http(Endpoint::new("POST", "http://h/"));
    let action: Action = serde_json::from_value(json!({ "target": target })).unwrap();
    let webhook = Webhook::new("notify", action.clone(), policy.clone(), Origin::Kind);
    let workflow = webhook.workflow("pay").unwrap();
    assert_eq!(workflow.name(), "pay alert");
    assert_eq!(workflow.actions().get("notify"), Some(&action));
    let step = &workflow.steps()[0];
    assert_eq!((step.id.as_str(), step.action.as_str()), ("alert", "notify"));
    assert_eq!((&step.policy, step.origin), (&policy, Origin::Kind));
    assert_eq!(step.args.raw(), &json!("${input}"));
    // A stored one may hold another, and calls it as little.
    let mut stored = serde_json::to_value(&webhook).unwrap();
    stored["action"]["webhook"] = stored.clone();
    let stored: Webhook = serde_json::from_value(stored).unwrap();
    assert!(stored.action().webhook.is_some());
    assert_eq!(stored.workflow("pay"), Some(workflow));
}

/// What is left out is not stored.
#[test]
fn a_definition_without_a_rollback_is_stored_without_one() {
    let stored = |rollback: &str| {
        let text = format!(
            "workflow = 'w'\nrollback = '{rollback}'\nsteps = [{{ id = 's', action = 'a' }}]\n"
        );
        let read = parse_workflow("w", &text, Format::Toml, &Environment::default()).unwrap();
        serde_json::to_value(&read.workflow).unwrap()["rollback"].clone()
    };
    assert_eq!(stored("never"), json!(null));
    assert_eq!(stored("on_cancel"), json!("on_cancel"));
}

/// A service says there what it lacks: a host that is not allowed, a variable that is not set.
#[test]
fn x19_the_parts_of_an_endpoint_are_known_by_their_place() {
    let text = "workflow = 'w'\n[actions.own]\nkind = 'tool_call'\n[actions.web]\nheaders = { X-Key = 'env:K' }\nhttp = 'POST http://h/'\n[[steps]]\nid = 's'\naction = 'web'\n";
    let read = parse_workflow("w", text, Format::Toml, &Environment::default()).unwrap();
    let names: Vec<&str> = read.endpoints.keys().map(String::as_str).collect();
    assert_eq!(names, ["web"]);
    let of = &read.endpoints["web"];
    let at = |place: &retrial_core::dialect::Place| text[place.span()].to_owned();
    assert_eq!(at(&of.http), "'POST http://h/'");
    let headers: Vec<(&str, String)> =
        of.headers.iter().map(|(name, place)| (name.as_str(), at(place))).collect();
    assert_eq!(headers, [("x-key", "'env:K'".to_owned())]);
}

/// C6: null is a value that a condition can ask for.
#[test]
fn c6_a_condition_may_ask_for_null() {
    let text = r#"{"workflow": "w", "steps": [{"id": "s", "action": "a",
        "requires": {"type": "eq", "field": "state.input.x", "value": null}}]}"#;
    let read = parse_workflow("w", text, Format::Json, &Environment::default()).unwrap();
    let asked = serde_json::to_value(&read.workflow.steps()[0].requires).unwrap();
    assert_eq!(asked["value"], json!(null));
}

/// No arguments at all are none in a query.
#[test]
fn x19_a_request_without_arguments_has_no_query() {
    for method in ["GET", "DELETE"] {
        let filled = Endpoint::new(method, "http://h/").fill(&json!(null)).unwrap();
        assert_eq!((filled.url.as_str(), filled.body), ("http://h/", None));
    }
    let filled = Endpoint::new("POST", "http://h/").fill(&json!(null)).unwrap();
    assert_eq!(filled.body.as_deref(), Some("{}"));
}
