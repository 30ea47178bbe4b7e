//! Bad input of every kind: code 2, an error that names file, line and field, and nothing made.

use super::endpoint::Endpoint;
use super::workspace::{Workspace, done, one_step};

fn refused(workspace: &Workspace, args: &[&str], says: &[&str]) {
    let done = workspace.run(args);
    assert_eq!((done.code, done.out.as_str()), (Some(2), ""), "{args:?}: {done:?}");
    says.iter().for_each(|text| assert!(done.err.contains(text), "`{text}`:\n{}", done.err));
    assert!(!workspace.path(".retrial").exists(), "a store was made for {args:?}");
}

/// `text` as `w.toml` is refused in words that hold each of `says`.
fn toml(text: &str, says: &[&str]) {
    let workspace = Workspace::new();
    workspace.write("w.toml", text);
    refused(&workspace, &["run", "w.toml"], says);
}

fn policy(text: &str, says: &[&str]) {
    toml(&one_step("http://localhost/x", text), says);
}

#[test]
fn a_workflow_file_is_refused_with_place_and_field() {
    toml("workflow = \"w", &["w.toml:1:"]);
    toml("[[steps]]\nid = \"a\"", &["w.toml:1:1", "`workflow` is missing"]);
    policy("acton = 1", &["w.toml:7:1", "steps.0.acton", "unknown key", "did you mean `action`"]);
    policy("after = [\"b\"]", &["w.toml:7:10", "steps.0.after.0", "no step `b`"]);
    policy("after = [\"fetch\"]", &["w.toml:7:", "steps.0.after", "fetch"]);
    policy("[[steps]]\nid = \"fetch\"\naction = \"get\"", &["w.toml:8:", "steps.1.id", "fetch"]);
    policy("retry = \"[retry: 1]\"\nwork_config = {}", &["w.toml:8:", "work_config"]);
    let cycle = "after = [\"b\"]\n[[steps]]\nid = \"b\"\naction = \"get\"\nafter = [\"fetch\"]";
    policy(cycle, &["w.toml:7:9", "steps.0.after", "cycle"]);
    policy("args = { x = \"${steps.nope.result}\" }", &["w.toml:7:", "steps.0.args", "nope"]);
}

#[test]
fn a_policy_is_refused_with_place_and_field() {
    let negative = "work_config = { max_retries = 1, backoff = -5 }";
    policy(negative, &["w.toml:7:44", "steps.0.work_config.backoff", "negative"]);
    policy(
        "work_config = { max_retries = -2 }",
        &["w.toml:7:31", "max_retries", "-1 for unlimited"],
    );
    let huge = "work_config = { max_retries = 99999999999999999999 }";
    policy(huge, &["w.toml:7:31", "steps.0.work_config.max_retries"]);
    policy("retry = \"[retry: 3, backoff: 9999999999999h]\"", &["w.toml:7:", "too large"]);
    policy("retry = \"[retry: 3, backof: 1]\"", &["w.toml:7:", "steps.0.retry", "backof"]);
    policy("retry = \"[retry: 3\"", &["w.toml:7:", "steps.0.retry"]);
    policy("retry_config = { max_attempts = 0 }", &["w.toml:7:", "max_attempts"]);
    policy("execution = { retry_policy = {} }", &["w.toml:7:", "max_attempts"]);
    let tight = "work_config = { max_retries = -1, backoff = 0 }";
    policy(tight, &["w.toml:7:", "work_config"]);
}

#[test]
fn an_action_that_can_not_be_invoked_is_refused() {
    toml(
        "workflow = \"w\"\n[[steps]]\nid = \"a\"\naction = \"get\"",
        &["w.toml:4:10", "steps.0.action", "no HTTP endpoint", "[actions.get]"],
    );
    toml(&one_step("ftp://h/x", ""), &["w.toml:3:", "actions.get.http"]);
    let unset = one_step("http://h/x", "")
        .replace("[[steps]]", "headers = { x-a = \"env:SURELY_NOT_SET\" }\n[[steps]]");
    toml(&unset, &["w.toml:4:", "actions.get.headers.x-a", "SURELY_NOT_SET", "not set"]);
}

#[test]
fn json_is_refused_with_place_and_field() {
    let workspace = Workspace::new();
    workspace.write("w.json", "{\n  \"workflow\": \"w\",\n  \"stepz\": []\n}\n");
    refused(&workspace, &["run", "w.json"], &["w.json:3:3", "stepz", "did you mean `steps`"]);
    workspace.write("w.json", "{\n  \"workflow\": \"w\",\n}\n");
    refused(&workspace, &["run", "w.json"], &["w.json:3:1"]);
}

#[test]
fn ir_text_is_refused_with_place() {
    let workspace = Workspace::new();
    workspace.write("w.ir", "a = @get()\nb = @put(a=a) [retry: x]\n");
    refused(&workspace, &["run", "w.ir"], &["w.ir:2:", "whole number"]);
    workspace.write("w.ir", "a = @get()\n");
    refused(&workspace, &["run", "w.ir"], &["w.ir:1:", "`get`", "--actions"]);
    workspace.write("a.toml", "[actions.get]\nhttp = \"POST nowhere\"\n");
    refused(
        &workspace,
        &["run", "w.ir", "--actions", "a.toml"],
        &["a.toml:2:", "actions.get.http"],
    );
    refused(&workspace, &["run", "w.ir", "--actions", "no.toml"], &["`no.toml` can't be read"]);
    workspace.write("w.toml", one_step("http://h/x", ""));
    refused(&workspace, &["run", "w.toml", "--actions", "a.toml"], &["--actions is for IR text"]);
}

#[test]
fn what_surrounds_the_file_is_refused() {
    let workspace = Workspace::with_step("http://localhost/x", "");
    refused(&workspace, &["run", "no.toml"], &["`no.toml` can't be read", "No such file"]);
    refused(&workspace, &["run", "."], &["`.` can't be read"]);
    workspace.write("latin.toml", [0xe4, 0xf6]);
    refused(&workspace, &["run", "latin.toml"], &["`latin.toml` can't be read", "UTF-8"]);
    refused(&workspace, &["run", "w.toml", "--input", "{\"a\": }"], &["--input:1:7"]);
    refused(&workspace, &["run", "w.toml", "--input", "[1]"], &["--input:1:1", "a list"]);
    for (name, value, says) in [
        ("RETRY_BACKOFF", "-1", "environment:1:15"),
        ("RETRY_MAX_RETRIES", "many", "RETRY_MAX_RETRIES"),
        ("RETRIAL_LOG", "a=b=c", "RETRIAL_LOG"),
    ] {
        let mut command = workspace.command(&["run", "w.toml"]);
        command.env(name, value);
        let done = done(command);
        assert_eq!(done.code, Some(2), "{done:?}");
        assert!(done.err.contains(says), "{}", done.err);
    }
}

// A bad file beside a good store changes nothing in the store.
#[test]
fn a_store_outlives_bad_input() {
    let endpoint = Endpoint::failing(1);
    let workspace = Workspace::with_step(
        &endpoint.url("/x"),
        "work_config = { max_retries = 1, backoff = 2000 }",
    );
    let mut first = workspace.start(&["run", "w.toml"]);
    first.until("Retrying");
    first.kill();
    let before = std::fs::read(workspace.path(".retrial/w.redb")).unwrap();
    let good = std::fs::read_to_string(workspace.path("w.toml")).unwrap();
    workspace.write("w.toml", good.replace("action =", "acton ="));
    assert_eq!(workspace.run(&["run", "w.toml"]).code, Some(2));
    assert!(std::fs::read(workspace.path(".retrial/w.redb")).unwrap() == before);
    workspace.write("w.toml", good);
    assert!(workspace.run(&["run", "w.toml"]).first_line().starts_with("Resuming run "));
}
