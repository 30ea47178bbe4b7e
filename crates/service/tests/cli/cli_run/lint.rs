//! `retrial lint`.

use super::workspace::Workspace;

/// A workflow with something of every kind that may not be meant.
const DOUBTFUL: &str = r#"workflow = "doubtful"

[actions.call]
http = "POST http://h/x"
inner_attempts = 4

[[steps]]
id = "shadowed"
action = "call"
retry = "[retry: 5, backoff: 1s] [ValueError -> retry: 2, backoff: 1s]"

[[steps]]
id = "endless"
action = "call"
work_config = { max_retries = -1, backoff = 100, backoff_type = "exponential" }

[[steps]]
id = "crowd"
action = "call"
for_each = "${input.items}"
execution = { timeout_ms = 9000, total_timeout = 5, retry_policy = { max_attempts = 2, backoff = "linear", retryable_errors = [] } }

[[steps]]
id = "fine"
action = "call"
preset = "none"
"#;

#[test]
fn x7_each_finding_has_its_place_its_reason_and_what_to_do() {
    let workspace = Workspace::new();
    workspace.write("w.toml", DOUBTFUL);
    let done = workspace.run(&["lint", "w.toml"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    insta::assert_snapshot!(done.out, @r#"
    w.toml:10:9: steps.0.retry: rule 2: it never governs: rule 1 matches the same failures with as many attempts or more (give it more attempts than the other, or leave it out)
    w.toml:10:9: steps.0.retry: each of 6 attempts makes up to 4 of its own: 24 calls in all (let one layer retry)
    w.toml:15:15: steps.1.work_config: rule 1: it retries without limit and its delay grows without a cap (set a cap)
    w.toml:15:15: steps.1.work_config: each of unlimited attempts makes up to 4 of its own (let one layer retry)
    w.toml:21:13: steps.2.execution: rule 1: its list of errors is empty, so it matches nothing (name an error, or leave the list out)
    w.toml:21:13: steps.2.execution: rule 1: tasks of the fan-out that fail together also retry together: there is no jitter (add jitter, such as full)
    w.toml:21:13: steps.2.execution: the attempt timeout of 9s is not below the total timeout of 5s: the first attempt may take it all (shorten the attempt timeout or lengthen the total one)
    w.toml:21:13: steps.2.execution: each of 2 attempts makes up to 4 of its own: 8 calls in all (let one layer retry)
    "#);
    // The same in `explain`.
    let explained = workspace.run(&["explain", "w.toml"]);
    assert_eq!(explained.out.matches("Warning: ").count(), done.out.lines().count());
}

#[test]
fn x7_the_exit_code_says_whether_there_was_anything() {
    let workspace = Workspace::with_step("http://h/x", "preset = \"google-sre\"");
    let done = workspace.run(&["lint", "w.toml"]);
    assert_eq!((done.code, done.out.as_str()), (Some(0), ""), "{done:?}");
    let done = workspace.run(&["lint", "[retry: 0, backoff: 5]"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.out.contains("rule 1: it has a delay but allows no retry"), "{}", done.out);
    assert_eq!(workspace.run(&["lint", "[retry: x]"]).code, Some(2));
    assert_eq!(workspace.run(&["lint", "nowhere.toml"]).code, Some(2));
}

#[test]
fn x7_an_ir_program_and_its_actions() {
    let workspace = Workspace::new();
    workspace.write("p.ir", "@call() [retry: 2, backoff: 1]\n");
    workspace.write("a.toml", "[actions.call]\nhttp = \"POST http://h/x\"\ninner_attempts = 3\n");
    assert_eq!(workspace.run(&["lint", "p.ir"]).code, Some(0));
    let done = workspace.run(&["lint", "p.ir", "--actions", "a.toml"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.out.starts_with("p.ir:1:1: call: each of 3 attempts makes up to 3"), "{done:?}");
}

#[test]
fn x15_policies_without_an_attempt_timeout_are_counted() {
    let workspace = Workspace::new();
    workspace.write("w.toml", DOUBTFUL);
    let note =
        "Note: 3 of 4 policies set no attempt timeout; the node's holds, 5m unless configured.\n";
    assert_eq!(workspace.run(&["lint", "w.toml"]).err, note);
    let done = workspace.run(&["lint", "[retry: 2, backoff: 1] [timeout: 5]"]);
    assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{done:?}");
    let told = workspace.run(&["explain", "[retry: 2, backoff: 1]"]).out;
    let says = "An attempt may take as long as its node allows, 5m unless configured.";
    assert!(told.contains(says), "{told}");
}
