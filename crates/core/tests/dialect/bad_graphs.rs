//! Graphs that make no sense get an error that names file, line and field.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use retrial_core::dialect::{Environment, Format, parse_actions, parse_workflow};
use retrial_core::workflow::Workflow;

/// What is wrong with a step `c` of which `rest` is said, behind two that make sense.
fn refused(rest: &str) -> String {
    let step = |id: &str| format!("[[steps]]\nid = \"{id}\"\naction = \"x\"\n");
    let text = format!("workflow = \"w\"\n{}{}{}{rest}", step("a"), step("b"), step("c"));
    let parsed = parse_workflow("w.toml", &text, Format::Toml, &Environment::default());
    parsed.err().map(|errors| errors.to_string()).unwrap_or_default()
}

fn listed(texts: &[&str]) -> String {
    texts.iter().map(|t| format!("{t}\n  {}", refused(t))).collect::<Vec<_>>().join("\n")
}

#[test]
fn c18_h10_partial_success_and_conditions_of_steps() {
    let all = [
        "success = \"any\"",
        "for_each = [1]\nsuccess = \"most\"",
        "for_each = [1]\nsuccess = 2",
        "for_each = [1]\nsuccess = { at_least = 0 }",
        "for_each = [1]\nsuccess = { atleast = 1 }",
        "join = \"any\"",
        "after = [\"a\", \"b\"]\njoin = { at_least = 3 }",
        "requires = { type = \"exists\", field = \"state.result\" }",
        "requires = { type = \"exists\", field = \"state.steps.a.result\" }",
        "requires = { type = \"exists\", field = \"state.item\" }",
        "ensures = { type = \"exists\", field = \"state.steps.aa.result\" }",
        "ensures = { type = \"exists\", field = \"state.index\" }",
        "ensures = true",
        "args = { n = \"${result.x}\" }",
        "compensates = \"aa\"",
        "compensates = \"c\"",
        "compensates = \"a\"\nafter = \"b\"",
        "compensates = \"a\"\nrequires = { type = \"exists\", field = \"state.input.x\" }",
        "compensates = \"a\"\nargs = { n = \"${item}\" }",
        "compensates = \"a\"\nargs = { n = \"${steps.b.result}\" }",
        "compensates = \"a\"\n[[steps]]\nid = \"d\"\naction = \"x\"\ncompensates = \"a\"",
        "compensates = \"a\"\n[[steps]]\nid = \"d\"\naction = \"x\"\ncompensates = \"c\"",
        "compensates = \"a\"\n[[transitions]]\nfrom = \"c\"\nto = \"b\"",
    ];
    insta::assert_snapshot!(listed(&all), @r#"
    success = "any"
      w.toml:11:11: steps.2.success: step `c` has one task, so `success` has no effect (add `for_each` or leave it out)
    for_each = [1]
    success = "most"
      w.toml:12:11: steps.2.success: `most` is not known here (use all, any)
    for_each = [1]
    success = 2
      w.toml:12:11: steps.2.success: expected how many must succeed (write "all", "any" or { at_least = 2 })
    for_each = [1]
    success = { at_least = 0 }
      w.toml:12:24: steps.2.success.at_least: `0` is out of range (use 1 to 4294967295)
    for_each = [1]
    success = { atleast = 1 }
      w.toml:12:13: steps.2.success.atleast: unknown key `atleast` (did you mean `at_least`?)
    join = "any"
      w.toml:11:8: steps.2.join: step `c` waits for 1 of 0 steps (add steps to `after` or require fewer)
    after = ["a", "b"]
    join = { at_least = 3 }
      w.toml:12:8: steps.2.join: step `c` waits for 3 of 2 steps (add steps to `after` or require fewer)
    requires = { type = "exists", field = "state.result" }
      w.toml:11:39: steps.2.requires.field: only `ensures` looks at the result of an attempt (use state.steps.ID.result)
    requires = { type = "exists", field = "state.steps.a.result" }
      w.toml:11:39: steps.2.requires.field: step `c`: `steps.a.result` reads a step that may not have ended before it (add that step to `after` or add a transition from it)
    requires = { type = "exists", field = "state.item" }
      w.toml:11:39: steps.2.requires.field: there is no single item here (use state.input, state.steps.ID or state._last_error)
    ensures = { type = "exists", field = "state.steps.aa.result" }
      w.toml:11:38: steps.2.ensures.field: there is no step `aa` (did you mean `a`?)
    ensures = { type = "exists", field = "state.index" }
      w.toml:11:38: steps.2.ensures.field: there is no single item here (use state.input, state.steps.ID or state._last_error)
    ensures = true
      w.toml:11:11: steps.2.ensures: expected a table, found true
    args = { n = "${result.x}" }
      w.toml:11:14: steps.2.args.n: `result.x` exists only in `ensures` and in a compensation (use ${steps.ID.result})
    compensates = "aa"
      w.toml:11:15: steps.2.compensates: there is no step `aa` (did you mean `a`?)
    compensates = "c"
      w.toml:11:15: steps.2.compensates: step `c` compensates `c`, which is a compensation itself (name a step of the ordinary flow)
    compensates = "a"
    after = "b"
      w.toml:11:15: steps.2.compensates: step `c` compensates another and runs only in a rollback, so it can't have `after` (remove that)
    compensates = "a"
    requires = { type = "exists", field = "state.input.x" }
      w.toml:11:15: steps.2.compensates: step `c` compensates another and runs only in a rollback, so it can't have `requires` (remove that)
    compensates = "a"
    args = { n = "${item}" }
      w.toml:12:14: steps.2.args.n: `item` exists only where the step that is undone fans out (use ${result})
    compensates = "a"
    args = { n = "${steps.b.result}" }
      w.toml:12:14: steps.2.args.n: step `c`: `steps.b.result` reads a step that may not have ended before it (add that step to `after` or add a transition from it)
    compensates = "a"
    [[steps]]
    id = "d"
    action = "x"
    compensates = "a"
      w.toml:15:15: steps.3.compensates: step `d` compensates `a`, which another step already compensates (merge the two)
    compensates = "a"
    [[steps]]
    id = "d"
    action = "x"
    compensates = "c"
      w.toml:15:15: steps.3.compensates: step `d` compensates `c`, which is a compensation itself (name a step of the ordinary flow)
    compensates = "a"
    [[transitions]]
    from = "c"
    to = "b"
      w.toml:11:15: steps.2.compensates: step `c` compensates another and runs only in a rollback, so it can't have a transition (remove that)
    "#);
}

#[test]
fn c18_when_a_run_rolls_back() {
    let text = |when: &str| {
        format!("workflow = \"w\"\nrollback = {when}\n[[steps]]\nid = \"a\"\naction = \"x\"")
    };
    let parse =
        |when: &str| parse_workflow("w.toml", &text(when), Format::Toml, &Environment::default());
    for (when, expected) in [
        ("\"never\"", (false, false)),
        ("\"on_failure\"", (true, false)),
        ("\"on_cancel\"", (false, true)),
        ("\"always\"", (true, true)),
    ] {
        let rollback = parse(when).unwrap().workflow.rollback();
        assert_eq!((rollback.on_failure(), rollback.on_cancel()), expected, "{when}");
    }
    let wrong = |when: &str| parse(when).err().unwrap()[0].to_string();
    insta::assert_snapshot!(wrong("\"on_error\""), @"w.toml:2:12: rollback: `on_error` is not known here (use never, on_failure, on_cancel, always)");
    insta::assert_snapshot!(wrong("true"), @"w.toml:2:12: rollback: expected a text, found true (use never, on_failure, on_cancel, always)");
}

#[test]
fn x20_which_fields_runs_are_found_by() {
    let parse = |search: &str| {
        let text =
            format!("workflow = \"w\"\nsearch = {search}\n[[steps]]\nid = \"a\"\naction = \"x\"");
        parse_workflow("w.toml", &text, Format::Toml, &Environment::default())
    };
    let input = serde_json::json!({ "customer": "ada", "order": { "id": 7 }, "other": 1 });
    let workflow = parse(r#"["customer", "order.id", "absent"]"#).unwrap().workflow;
    let found = workflow.search().values(&input).into_iter().collect::<Vec<_>>();
    let expected = [("customer", "ada"), ("order.id", "7")];
    assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    // Runs that were stored have it with their definition.
    let stored = serde_json::to_string(&workflow).unwrap();
    assert_eq!(serde_json::from_str::<Workflow>(&stored).unwrap(), workflow);
    let wrong = |search: &str| parse(search).err().unwrap()[0].to_string();
    insta::assert_snapshot!(wrong(r#"["customer", "order..id"]"#), @r#"w.toml:2:23: search.1: "order..id" names no field of the input (write names joined by dots, such as `order.id`)"#);
    insta::assert_snapshot!(wrong("\"customer\""), @r#"w.toml:2:10: search: expected a list, found the text "customer""#);
    insta::assert_snapshot!(wrong("[1]"), @r#"w.toml:2:11: search.0: expected a text, found the number 1 (write "1")"#);
    let nine = (0..9).map(|n| format!("f{n}")).collect::<Vec<_>>();
    insta::assert_snapshot!(wrong(&serde_json::to_string(&nine).unwrap()), @"w.toml:2:10: search: 9 searchable fields are more than the 8 allowed (leave some out)");
    let actions = parse_actions("a.toml", "search = [\"customer\"]", Format::Toml).unwrap();
    assert_eq!(actions.search.values(&input).len(), 1);
}

/// Every example of the page about workflow files is one.
#[test]
fn the_examples_of_the_page_are_workflows() {
    let page = include_str!("../../../../docs/workflows.md");
    let mut examples = 0;
    for block in page.split("```toml\n").skip(1) {
        let example = block.split("```").next().unwrap_or_default();
        if !example.contains("[[steps]]") {
            continue;
        }
        examples += 1;
        let (head, rest) = example.split_at(example.find("[[").unwrap_or(0));
        let head = if head.contains("workflow") { head } else { "workflow = \"w\"\n" };
        // A part of a workflow stands beside the steps that it names.
        let names = ["ask_a", "ask_b", "ask_c"].into_iter().filter(|n| rest.contains(n));
        let others: String =
            names.map(|n| format!("[[steps]]\nid = \"{n}\"\naction = \"{n}\"\n")).collect();
        let text = format!("{head}{others}{rest}");
        let parsed = parse_workflow("page.toml", &text, Format::Toml, &Environment::default());
        assert!(parsed.is_ok(), "{:#?}\n{text}", parsed.err());
    }
    assert_eq!(examples, 4);
}
