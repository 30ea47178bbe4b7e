//! All that is wrong with a text is told at once, also in one table.

use retrial_core::dialect::{Environment, parse_policy};

use super::bad_input::{refused, with};

/// A reader ends at the first mistake; all of a table's are told nevertheless.
#[test]
fn every_mistake_of_a_table_is_told_at_once() {
    let workflow = with(
        r#"
[actions.x]
http = "POST http://localhost"
kind = "tol_call"
idempotent = 1
concurency = 2
[[steps]]
id = "c d"
actoin = "x"
fail_fast = "yes"
goal = 3
[steps.work_config]
max_retries = -2
backoff = "1 parsec"
backoff_type = "linar"
backoff_step = "1s"
max_backof = 3
[[transitions]]
from = "a"
too = "b"
priority = "high"
"#,
    );
    insta::assert_snapshot!(workflow, @r#"
    w.toml:11:8: actions.x.kind: `tol_call` is not known here (did you mean `tool_call`?)
    w.toml:12:14: actions.x.idempotent: expected true or false, found the number 1
    w.toml:13:1: actions.x.concurency: unknown key `concurency` (did you mean `concurrency`?)
    w.toml:15:6: steps.2.id: "c d" is not an id (use up to 100 letters, digits, `_` and `-`)
    w.toml:16:1: steps.2.actoin: unknown key `actoin` (did you mean `action`?)
    w.toml:20:15: steps.2.work_config.max_retries: `-2` is not a number of retries (use 0 for none, a number for at most that many, or -1 for unlimited)
    w.toml:21:11: steps.2.work_config.backoff: `1 parsec` has an unknown unit (use ms, s, m, h or d, such as 30s)
    w.toml:22:16: steps.2.work_config.backoff_type: `linar` is not known here (did you mean `linear`?)
    w.toml:24:1: steps.2.work_config.max_backof: unknown key `max_backof` (did you mean `max_backoff`?)
    w.toml:27:1: transitions.0.too: unknown key `too` (did you mean `to`?)
    w.toml:28:12: transitions.0.priority: expected a whole number, found the text "high"
    "#);
    let policy = |text: &str| {
        parse_policy("p", text, None, &Environment::default()).unwrap_err().to_string()
    };
    insta::assert_snapshot!(
        policy(r#"{"retry_config": {"max_attempts": 0, "max_delya": 3, "jitter": "loud", "enabled": "no"}}"#),
        @r#"
    p:1:35: retry_config.max_attempts: `0` is out of range (use 1 to 4294967295)
    p:1:38: retry_config.max_delya: unknown key `max_delya` (did you mean `max_delay`?)
    p:1:64: retry_config.jitter: `loud` is not known here (use none, proportional, full, equal, decorrelated)
    p:1:83: retry_config.enabled: expected true or false, found the text "no"
    "#
    );
    insta::assert_snapshot!(policy("max_retries = \"x\"\nbackoff = \"y\"\nbackof = 1"), @r#"
    p:1:15: max_retries: expected a whole number, found the text "x"
    p:2:11: backoff: `y` is not a number (use a number with a unit, such as 30s)
    p:3:1: backof: unknown key `backof` (did you mean `backoff`?)
    "#);
    // What is missing may be misspelt.
    insta::assert_snapshot!(refused("workflwo = \"w\"\n[[step]]\nid = \"a\"\n[inputs]\n"), @"
    w.toml:1:1: workflwo: unknown key `workflwo` (did you mean `workflow`?)
    w.toml:2:3: step: unknown key `step` (did you mean `steps`?)
    w.toml:4:2: inputs: unknown key `inputs` (did you mean `input`?)
    ");
}

/// So that a text of mistakes takes no more time than another.
#[test]
fn only_so_many_mistakes_are_told() {
    let keys: String = (0..500).map(|n| format!("key{n} = 1\n")).collect();
    let told = with(&format!("[[steps]]\n{keys}"));
    assert_eq!(told.lines().count(), 101);
    assert!(told.ends_with("(correct these first)"), "{told}");
}

/// The mistakes in the items of a list are each told.
#[test]
fn every_mistake_of_a_list_is_told() {
    let told = with(
        "[[transitions]]\nfrom = \"a\"\nto = \"b\"\ncondition = { type = \"and\", conditions = [{ type = \"exist\" }, { type = \"exists\", feld = \"state.input.x\" }, { type = \"odd\" }] }\n",
    );
    let fields: Vec<&str> = told.lines().filter_map(|line| line.split(": ").nth(1)).collect();
    assert_eq!(
        fields,
        [
            "transitions.0.condition.conditions.0.type",
            "transitions.0.condition.conditions.1.feld",
            "transitions.0.condition.conditions.2.type"
        ]
    );
}

/// What is missing may come of a mistake that was told already. After twenty such no more is read.
#[test]
fn mistakes_that_may_come_of_others_are_passed_over() {
    let told = |missing: usize| {
        let missing = "{ type = \"not\" }, ".repeat(missing);
        with(&format!(
            "[[transitions]]\nfrom = \"a\"\nto = \"b\"\ncondition = {{ type = \"and\", conditions = [{missing}{{ type = \"odd\" }}] }}\n"
        ))
    };
    let first = "transitions.0.condition.conditions.0.condition: `condition` is missing";
    for (missing, lines) in [(1, 2), (20, 2), (21, 1)] {
        let told = told(missing);
        assert!(told.contains(first), "{told}");
        assert_eq!(told.lines().count(), lines, "{told}");
    }
}

/// Only what is missing may be the key that is misspelt.
#[test]
fn a_misspelt_key_hides_no_other_mistake() {
    let told = refused("workflwo = 'w'\nrollback = 5\nsteps = [{ id = 'a', action = 'x' }]\n");
    assert_eq!(told.lines().count(), 2, "{told}");
    assert!(told.contains("w.toml:2:12: rollback: expected a text"), "{told}");
}
