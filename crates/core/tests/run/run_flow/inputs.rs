//! What inputs lead to, and when they lead to nothing.

use retrial_core::guard::HeldBy;
use retrial_core::run::Cost;
use run_support::world::START;

use super::*;

fn at(seconds: u64) -> retrial_core::time::Timestamp {
    START.after(Nanos::from_secs(seconds))
}

/// Of an attempt that is held back it is said once, however often the guard is asked, and again of
/// the next attempt; nothing is said of attempts that do not wait.
#[test]
fn x6_that_an_attempt_is_held_back_is_said_once() {
    let flow = Flow::new().step("a", doubling(3)).build();
    let mut world = set(flow, [("a", 0, vec![status(503)])]);
    let it = task(0, 0);
    let hold = |world: &mut World, attempt| {
        let by = HeldBy::Breaker;
        world.handle(&Input::Held { task: it, attempt, by, until: at(9) }).len()
    };
    assert_eq!([2, 1, 1].map(|attempt| hold(&mut world, attempt)), [0, 1, 0]);
    assert_eq!(world.state.task(it).and_then(|t| t.held), Some(HeldBy::Breaker));
    assert!(world.step_next(), "it is claimed all the same once the guard allows it");
    assert_eq!([1, 2].map(|attempt| hold(&mut world, attempt)), [0, 0], "it is in progress");
    assert!(world.step_next(), "it fails");
    assert_eq!(world.state.task(it).and_then(|t| t.held), None);
    assert_eq!([1, 2, 2].map(|attempt| hold(&mut world, attempt)), [0, 1, 0]);
    let nowhere = Input::Held { task: task(0, 1), attempt: 1, by: HeldBy::Rate, until: at(9) };
    assert!(world.handle(&nowhere).is_empty());
}

/// A node's clock may be behind the store's, which says that the task is due.
#[test]
fn r5_what_the_store_gives_out_is_due_whatever_the_node_believes() {
    let flow = Flow::new().step("a", doubling(3)).build();
    let mut world = set(flow, [("a", 0, vec![status(503)])]);
    world.step_next();
    world.step_next();
    let due = at(2);
    assert_eq!((world.now, world.state.task(task(0, 0)).map(|t| t.due)), (at(1), Some(due)));
    let token = token_of(task(0, 0), 2);
    let claimed = world.handle(&Input::Claimed {
        task: task(0, 0),
        attempt: 2,
        token,
        default_timeout: None,
    });
    assert_eq!(claimed.iter().map(|r| r.at).collect::<Vec<_>>(), [due]);
}

#[test]
fn h17_a_run_is_paused_once_and_resumed_once() {
    let mut world = set(Flow::new().step("a", once()).build(), []);
    let mut names = |input: Input| -> Vec<&str> {
        world.handle(&input).iter().map(|r| r.event.name()).collect()
    };
    let pause = |reason: &str| Input::Pause { reason: reason.to_owned() };
    assert!(names(Input::Resume).is_empty());
    assert_eq!(names(pause("first")), ["run_paused"]);
    assert!(names(pause("second")).is_empty());
    assert_eq!(names(Input::Resume), ["run_resumed"]);
    assert!(names(Input::Resume).is_empty());
    assert_eq!(names(Input::Deactivate), ["run_deactivated"]);
    assert!(names(Input::Deactivate).is_empty());
}

/// A pause holds back retries, not first attempts, and lists the tasks that it keeps waiting.
#[test]
fn h17_what_a_pause_holds_back() {
    let flow = Flow::new().step("f", doubling(3)).for_each(json!([1, 2, 3, 4]));
    let mut world = set(flow.build(), [("f", 0, vec![status(503)]), ("f", 2, vec![status(503)])]);
    let held = |world: &World| -> Vec<TaskId> {
        world.state.waiting_retries().map(|(id, _)| id).collect()
    };
    assert_eq!(held(&world), [], "first attempts wait for nothing");
    world.run_to(0);
    assert_eq!((held(&world), world.state.paused()), (vec![], None));
    world.run_to(1);
    assert_eq!(held(&world), [task(0, 0), task(0, 2)]);
    assert_eq!([1, 2].map(|attempt| world.state.holds_back(attempt)), [false, false]);
    world.handle(&Input::Pause { reason: "look".into() });
    assert_eq!(world.state.paused(), Some("look"));
    assert_eq!([1, 2].map(|attempt| world.state.holds_back(attempt)), [false, true]);
    assert_eq!(held(&world), [task(0, 0), task(0, 2)]);
}

/// Of the step that is meant the one item that is meant, or all that wait; no other step.
#[test]
fn h17_what_is_failed_by_hand_is_what_was_meant() {
    let flow = Flow::new().step("f", once()).for_each(json!([1, 2, 3])).step("g", once());
    let mut world = set(flow.build(), []);
    let mut fail = |step: u16, item| -> Vec<TaskId> {
        let input = Input::Fail { step: StepIx(step), item, reason: "enough".into() };
        let failed = world.handle(&input).into_iter().filter_map(|r| match r.event {
            Event::TaskFailed { task, .. } => Some(task),
            _ => None,
        });
        failed.collect()
    };
    assert_eq!(fail(0, Some(1)), [task(0, 1)]);
    assert_eq!(fail(0, Some(1)), []);
    assert_eq!(fail(0, Some(7)), []);
    assert_eq!(fail(0, None), [task(0, 0), task(0, 2)]);
    assert_eq!(fail(1, None), [], "the run has ended");
}

/// A missed heartbeat names the limit that was missed; where the step has none, the lease is lost.
#[test]
fn a_missed_heartbeat_is_told_from_a_lost_lease() {
    let lapses = |limit: Option<Nanos>| {
        let mut parts =
            retrial_core::workflow::WorkflowParts { name: "test".into(), ..Default::default() };
        parts.steps.push(retrial_core::workflow::Step {
            heartbeat_timeout: limit,
            ..retrial_core::workflow::Step::new("a", "a", once())
        });
        let mut world = set(Workflow::try_from(parts).expect("a workflow"), []);
        world.step_next();
        let (task, token) = (task(0, 0), token_of(task(0, 0), 1));
        world.handle(&Input::Expired {
            task,
            token,
            lapse: Lapse::Heartbeat,
            denied: false,
            quarantine_after: None,
        });
        let failure = world.state.task(task).and_then(|t| t.failure.clone());
        failure.expect("it has failed").to_string()
    };
    let limit = Nanos::from_secs(5);
    assert_eq!(lapses(Some(limit)), Failure::heartbeat_missed(limit).to_string());
    assert_eq!(lapses(None), Failure::lease_lost().to_string());
}

/// Costs add up over attempts, tasks and steps, and a task that is not running has none.
#[test]
fn h17_what_attempts_cost_adds_up() {
    let flow = Flow::new().step("a", doubling(3)).step("b", once());
    let mut world = set(flow.build(), [("a", 0, vec![status(503)])]);
    let cost = |world: &mut World, step, attempt, millionths| {
        let (task, token) = (task(step, 0), token_of(task(step, 0), attempt));
        let cost = Cost::from_millionths(millionths);
        world.handle(&Input::Cost { task, token, cost }).len()
    };
    assert_eq!(cost(&mut world, 0, 1, 1), 0, "nothing is in progress");
    world.run_to(0);
    assert_eq!(cost(&mut world, 0, 1, 250_000), 1);
    assert_eq!(cost(&mut world, 0, 2, 1), 0, "that attempt is to come");
    assert_eq!(cost(&mut world, 1, 1, 1_000_000), 1);
    world.run_to(2);
    assert_eq!(cost(&mut world, 0, 2, 20), 1);
    let of = |step| world.state.task(task(step, 0)).map(|t| t.cost.to_string());
    assert_eq!((of(0).as_deref(), of(1).as_deref()), (Some("0.25002"), Some("1")));
    assert_eq!(world.state.cost(), Cost::from_millionths(1_250_020));
    assert_eq!(world.state.cost().millionths(), 1_250_020);
    assert!(Cost::ZERO.is_zero() && !Cost::from_millionths(1).is_zero());
    let most = Cost::from_millionths(u64::MAX);
    assert_eq!(most.plus(Cost::from_millionths(1)), most, "it stays at the most there can be");
}

/// How deep a value is, by looking at it.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Nesting is found in the bytes as it is in the value, wherever they are cut, and brackets in
/// texts are none.
#[test]
fn nesting_is_found_as_the_bytes_come() {
    let values = [
        json!(null),
        json!([]),
        json!({}),
        json!([[], [[1]], {"a": [{}]}]),
        json!({"a": {"b": {"c": 1}}, "d": []}),
        json!("[[[["),
        json!([r#"\"[{"#, {"]}": r#"""[\\"#}, [r"\"]]),
        json!({"[": [{"\"{": "\\"}, [["}"]]]}),
        json!([[1], [2], [3], [4]]),
        json!(["]}]", [[1]], "]}]", {"a": [[2]]}]),
    ];
    assert_eq!(
        retrial_core::workflow::Nesting::of(br"\[["),
        2,
        "what is no JSON is not taken for less"
    );
    for value in values {
        let text = value.to_string();
        let expected = depth(&value);
        assert_eq!(retrial_core::workflow::Nesting::of(text.as_bytes()), expected, "{text}");
        for cut in 0..=text.len() {
            let (head, tail) = text.as_bytes().split_at(cut);
            let mut nesting = retrial_core::workflow::Nesting::default();
            nesting.take(head);
            nesting.take(tail);
            assert_eq!(nesting.deepest(), expected, "{text} cut at {cut}");
        }
    }
}

/// What is due and nobody here can do, each action once, in the order of the tasks (X12).
#[test]
fn x12_what_a_run_waits_for() {
    use retrial_core::run::waits_for;
    use retrial_core::workflow::{Able, Need, Via};
    let flow = Flow::new().step("a", doubling(3)).step("b", once()).for_each(json!([1, 2]));
    let flow = flow.step("c", once()).step("later", once()).after(&["c"]);
    let mut world = set(flow.build(), [("a", 0, vec![status(503)]), ("c", 0, vec![hangs()])]);
    let need = |action: &str| Need { action: action.into(), via: Via::Function };
    let with = |names: &[&str]| Able::Only {
        functions: names.iter().map(|n| (*n).into()).collect(),
        http: false,
    };
    let (none, all) = (with(&[]), with(&["a", "b", "c", "later"]));
    let waits = |world: &World, able: &Able, seconds| waits_for(&world.state, able, at(seconds));
    assert_eq!(waits(&world, &none, 0), ["a", "b", "c"].map(need));
    assert_eq!(waits(&world, &with(&["b"]), 0), ["a", "c"].map(need));
    assert_eq!(waits(&world, &all, 0), []);
    world.run_to(0);
    assert_eq!(waits(&world, &none, 0), [], "all are at work");
    // The retry of `a` waits until it is due.
    world.run_to(1);
    assert_eq!(waits(&world, &none, 1), []);
    assert_eq!(waits(&world, &none, 2), [need("a")]);
    assert_eq!(waits(&world, &none, 9), [need("a")]);
    world.handle(&Input::Deactivate);
    assert_eq!(waits(&world, &none, 9), []);
}
