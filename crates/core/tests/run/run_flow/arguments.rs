//! How large the arguments of a task may become: 256 KiB of JSON, as results (issue 16, point 1).

use retrial_core::run::Letter;
use retrial_core::workflow::MAX_VALUE;
use serde_json::Map;

use super::*;

fn object(value: Value) -> Map<String, Value> {
    value.as_object().expect("an object").clone()
}

/// What a task was given: its arguments, or the code that it failed with before any attempt.
fn given(world: &mut World, task: TaskId) -> Result<Value, String> {
    while world.state.prepare(task).is_none() {
        if let Some(TaskPhase::Failed { error }) = world.state.task(task).map(|t| &t.phase) {
            assert_eq!(error.attempt, 0, "the action was invoked");
            return Err(error.code.to_string());
        }
        assert!(world.step_next(), "the task is stuck:\n{}", history(world));
    }
    Ok(world.state.prepare(task).expect("in progress").args)
}

/// 4.8 GB, were they written.
#[test]
fn x13_arguments_that_would_fill_the_memory_fail_the_task_before_its_first_attempt() {
    let text = "${input.x}".repeat(24_000);
    let list = vec!["${input.x}"; 24_000];
    let fields: Map<String, Value> =
        (0..24_000).map(|n| (format!("k{n}"), json!("${input}"))).collect();
    for args in [json!(text), json!(list), json!(fields), json!({"a": {"b": [text]}})] {
        let flow = Flow::new().step("a", doubling(3)).args(args).step("h", once());
        let flow = flow.on_error(("a", "h"), 0, &["ARGUMENTS_TOO_LARGE"]);
        let input = object(json!({"x": "x".repeat(200_000)}));
        let mut world = World::with_input(flow.build(), 7, input);
        assert!(world.run(10), "the run goes on and on");
        insta::allow_duplicates! { insta::assert_snapshot!(history(&world), @"
        0s created
        0s entered a x1
        0s gave up a after 0: NotRetryable ARGUMENTS_TOO_LARGE
        0s step failed a ARGUMENTS_TOO_LARGE
        0s routed a -> h on failure
        0s entered h x1
        0s started h #1 left=0
        1s succeeded h #1
        1s step succeeded h
        1s ended completed
        "); }
        let failed = world.log.iter().find_map(|r| Letter::left_by(&world.state, &r.event));
        let (at, letter) = failed.expect("the failed task leaves a letter");
        assert_eq!((at, letter.payload), (task(0, 0), None));
        assert!(letter.error.message.contains("256 KiB"), "{}", letter.error.message);
    }
}

/// Each way to fill something in, exactly as large as it may be, and one byte larger. The padding
/// stands beside it, so that the size of what is filled in decides.
#[test]
fn x13_the_size_is_that_of_the_json_that_is_sent() {
    let hard = "a\"\\\n\t\u{8}\u{c}\u{1}\u{7f}é\u{1F600}/";
    let input = json!({
        "text": hard, "n": -1.5e300, "list": [hard, [1, null], {hard: true}], "none": null,
        "items": ["p", hard],
    });
    for template in [
        json!(hard),
        json!([[], {}, [1, "x"], {hard: hard}]),
        json!("${input}"),
        json!("${input.text}"),
        json!("a ${input.text} b ${input.n} ${input.list} ${input.none} ${input.not} \" ${input}"),
        json!({hard: ["${input.list}", "${input.not}", {"a": "${input.n}${input.n}"}]}),
        json!("${steps.f}"),
        json!("${steps.f.result} and ${steps.f.errors} and ${steps.f}"),
        json!(["${steps.f.result.0}", "${steps.f.failed}", "${steps.f.errors.0.error.code}"]),
        json!(["${steps.b}", "${steps.b.result}", "x${steps.b}", "${_errors}", "x${_last_error}"]),
        json!(["${item}", "${index}", "x${item}${index}"]),
    ] {
        let flow = |pad: usize| {
            let flow = Flow::new().step("f", once()).for_each(json!([1, 2])).success(json!("any"));
            let flow = flow.step("b", once()).step("j", once()).after(&["f", "b"]);
            let flow = flow.join(json!("any")).for_each(json!("${input.items}"));
            let args = json!({"pad": "x".repeat(pad), "t": template});
            let workflow = flow.args(args).build();
            let mut world = World::with_input(workflow, 7, object(input.clone()));
            world.script("f", 0, [gives(json!({"big": hard}))]);
            world.script("f", 1, [status(500)]);
            world.script("b", 0, [status(502)]);
            given(&mut world, task(2, 1))
        };
        let size = flow(0).expect("small arguments").to_string().len();
        let most = flow(MAX_VALUE - size).expect("arguments as large as they may be");
        assert_eq!(most.to_string().len(), MAX_VALUE, "{template}");
        let refused = flow(MAX_VALUE - size + 1).expect_err("larger arguments");
        assert_eq!(refused, "ARGUMENTS_TOO_LARGE", "{template}");
    }
}

/// Only what is filled in counts: an item at a time, not the list that it is from.
#[test]
fn x13_a_large_list_is_fanned_out_over_item_by_item() {
    let flow = || Flow::new().step("f", once()).for_each(json!("${input.items}"));
    let item = |bytes: usize| json!("x".repeat(bytes - 2));
    let items = [item(MAX_VALUE), item(MAX_VALUE + 1), item(MAX_VALUE)];
    let input = object(json!({"items": items, "all": [items]}));
    let mut world = World::with_input(flow().args(json!("${item}")).build(), 7, input.clone());
    assert_eq!(given(&mut world, task(0, 0)), Ok(items[0].clone()));
    assert_eq!(given(&mut world, task(0, 1)), Err("ARGUMENTS_TOO_LARGE".to_owned()));
    // It may be looked at after the attempt as well.
    let mut world = World::with_input(flow().args(json!({})).build(), 7, input.clone());
    assert_eq!(given(&mut world, task(0, 1)), Err("ARGUMENTS_TOO_LARGE".to_owned()));
    // An item that is written in the workflow and filled in.
    let written = json!([1, "${input.all}", ["${input.items.0}"]]);
    let flow = Flow::new().step("f", once()).for_each(written).args(json!("${index}"));
    let mut world = World::with_input(flow.build(), 7, input);
    assert_eq!(given(&mut world, task(0, 0)), Ok(json!(0)));
    assert_eq!(given(&mut world, task(0, 1)), Err("ARGUMENTS_TOO_LARGE".to_owned()));
    assert_eq!(given(&mut world, task(0, 2)), Err("ARGUMENTS_TOO_LARGE".to_owned()));
}

/// A compensation that can't be invoked fails like any other; the rollback goes on.
#[test]
fn x13_a_compensation_with_too_large_arguments_fails() {
    let flow = Flow::new().step("a", once()).step("b", once()).after(&["a"]).step("ua", once());
    let flow = flow.compensates("a").args(json!("${result}".repeat(40_000)));
    let scripts = [("a", 0, vec![gives(json!("long enough"))]), ("b", 0, vec![status(500)])];
    let world = plays(flow.rollback("on_failure").build(), scripts);
    let text = history(&world);
    assert!(text.contains("gave up ua after 0: NotRetryable ARGUMENTS_TOO_LARGE"), "{text}");
    assert!(text.contains("rolled back complete=false"), "{text}");
}
