//! What a task that failed for good leaves behind, and the run that tries it again (C18).

use retrial_core::policy::Origin;
use retrial_core::run::{Letter, NotRedrivable};
use retrial_core::workflow::{Step, Template, WorkflowParts};
use serde_json::Map;

use super::*;

/// The letter of a run whose one step was invoked with `payload`.
fn letter(payload: Value) -> Letter {
    let flow = Flow::new().step("a", once()).args(json!("${input.payload}"));
    let input = Map::from_iter([("payload".to_owned(), payload)]);
    let mut world = World::with_input(flow.build(), 7, input);
    world.beyond = status(500);
    assert!(world.run(10));
    let left = |r: &retrial_core::run::Recorded| Letter::left_by(&world.state, &r.event);
    let letters: Vec<_> = world.log.iter().filter_map(left).collect();
    let [(at, letter)] = &letters[..] else { panic!("{letters:?}") };
    assert_eq!(*at, task(0, 0));
    letter.clone()
}

fn nested(depth: usize, deeper: impl Fn(Value) -> Value) -> Value {
    (0..depth).fold(json!(1), |value, _| deeper(value))
}

/// 256 KiB of JSON, 64 levels.
#[test]
fn c18_arguments_are_kept_up_to_their_bounds() {
    for payload in [json!(null), json!({"a": [1, {"b": 2}]})] {
        assert_eq!(letter(payload.clone()).payload, Some(payload));
    }
    let text = |bytes: usize| json!("x".repeat(bytes - 2));
    assert!(letter(text(256 * 1024)).payload.is_some());
    assert_eq!(letter(text(256 * 1024 + 1)).payload, None);
    let list = |value| json!([0, value]);
    let table = |value| json!({"a": 0, "b": value});
    assert!(letter(nested(64, list)).payload.is_some());
    assert_eq!(letter(nested(65, list)).payload, None);
    assert!(letter(nested(64, table)).payload.is_some());
    assert_eq!(letter(nested(65, table)).payload, None);
}

/// The step alone, with all that is its own and nothing of its place in the graph.
#[test]
fn c18_the_run_that_tries_a_task_again() {
    let ensures = json!({"type": "exists", "field": "state.result.id"});
    let own = |step: Step| Step {
        goal: true,
        fail_fast: true,
        ensures: Some(serde_json::from_value(ensures.clone()).expect("a condition")),
        heartbeat_timeout: Some(Nanos::from_secs(9)),
        origin: Origin::Kind,
        ..step
    };
    let act = |name: &str| {
        let action = json!({"kind": "agent_call", "target": "registered", "idempotent": false});
        (name.to_owned(), serde_json::from_value(action).expect("an action"))
    };
    let step = |id: &str| Step::new(id, "act", doubling(3));
    let charge = own(Step {
        after: vec![StepIx(0)],
        args: Template::try_from(json!("${input.card}")).expect("a template"),
        requires: Some(
            serde_json::from_value(json!({"type": "exists", "field": "state.input.card"}))
                .expect("a condition"),
        ),
        ..step("charge")
    });
    let parts = WorkflowParts {
        name: "shop".into(),
        input: Map::from_iter([("card".to_owned(), json!(1))]),
        actions: [act("act"), act("other")].into_iter().collect(),
        steps: vec![step("first"), charge],
        ..WorkflowParts::default()
    };
    let workflow = Workflow::try_from(parts).expect("a workflow");
    let kept = letter(json!({"card": "4111"}));
    let (again, input) = kept.redrive(&workflow, task(1, 0)).expect("it can be tried again");
    let expected = WorkflowParts {
        name: "shop".into(),
        actions: [act("act")].into_iter().collect(),
        steps: vec![own(Step {
            args: Template::try_from(json!("${input.payload}")).expect("a template"),
            ..step("charge")
        })],
        ..WorkflowParts::default()
    };
    assert_eq!(again, Workflow::try_from(expected).expect("a workflow"));
    assert_eq!(Value::Object(input), json!({"payload": {"card": "4111"}}));

    assert_eq!(kept.redrive(&workflow, task(2, 0)).map(|_| ()), Err(NotRedrivable::NoStep));
    let lost = Letter { payload: None, ..kept };
    assert_eq!(lost.redrive(&workflow, task(1, 0)).map(|_| ()), Err(NotRedrivable::NoPayload));
}
