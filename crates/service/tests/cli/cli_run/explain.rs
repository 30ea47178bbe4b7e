//! `retrial explain`.

use serde_json::Value;

use super::workspace::{Workspace, one_step};

fn says(args: &[&str]) -> String {
    let workspace = Workspace::new();
    let done = workspace.run(&[&["explain"], args].concat());
    assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{done:?}");
    done.out
}

#[test]
fn a_policy_in_words() {
    insta::assert_snapshot!(says(&["[(A, B) -> retry: 2, backoff: 1m] [timeout: 90]"]), @r#"
    A policy in the dialect ir.
    Each attempt may take 1m30s. A Retry-After of up to 1h is obeyed.

    Rule 1 is for failures whose code, type or ancestor is A or B.
    At most 3 executions: the first attempt and 2 retries. Waits 1m, then twice as long each time, without a cap, without jitter.
      retry  earliest  latest  earliest sum  latest sum
          1        1m      1m            1m          1m
          2        2m      2m            3m          3m
    "#);
}

#[test]
fn x2_a_preset_by_its_name() {
    let out = says(&["google-sre"]);
    assert!(out.starts_with("The preset google-sre.\nSource: Site Reliability"), "{out}");
    assert_eq!(says(&["google-sre", "--dialect", "preset"]), out);
}

#[test]
fn a_policy_as_json() {
    let text =
        r#"{"max_retries": -1, "backoff": 1000, "max_backoff": 5000, "backoff_type": "linear"}"#;
    let json: Value = serde_json::from_str(&says(&[text, "--json", "--attempts", "4"])).unwrap();
    assert_eq!(json["dialect"], "work_config");
    assert_eq!(json["rules"][0]["max_attempts"], Value::Null);
    let delays = json["rules"][0]["delays_ms"].as_array().unwrap();
    let delays: Vec<_> = delays.iter().map(|d| (d["min"].as_u64(), d["max"].as_u64())).collect();
    let ms = |n| (Some(n), Some(n));
    assert_eq!(delays, [ms(1_000), ms(2_000), ms(3_000)]);
}

#[test]
fn a_file_and_its_dialect() {
    let workspace = Workspace::with_step("http://h/x", "retry_config = { max_attempts = 2 }");
    let done = workspace.run(&["explain", "w.toml"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.out.contains("Step fetch: a policy in the dialect retry_config"), "{}", done.out);
    workspace.write("p.toml", "max_attempts = 2\n");
    let done = workspace.run(&["explain", "p.toml", "--dialect", "retry_config", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&done.out).unwrap()["dialect"], "retry_config");
}

#[test]
fn what_can_not_be_explained_is_2() {
    let workspace = Workspace::new();
    workspace.write("w.toml", one_step("http://h/x", "retry = \"[retry: x]\""));
    for (args, says) in [
        (["explain", "no.toml"].as_slice(), ["`no.toml` can't be read", "No such file"]),
        (&["explain", "no/policy"], ["`no/policy` can't be read", "No such file"]),
        (&["explain", "w.toml"], ["w.toml:7:", "steps.0.retry"]),
        (&["explain", "[retry: x]"], ["TEXT:1:9", "whole number"]),
        (&["explain", "nope"], ["TEXT:1:", "There is no file with that name"]),
        (&["explain", "[retry: 1]", "--attempts", "0"], ["--attempts", "0"]),
        (&["explain", "[retry: 1]", "--dialect", "builder"], ["--dialect", "retry_config"]),
        (&["explain", "x: [retry: 1]", "--dialect", "work_config"], ["TEXT:1:", "TOML"]),
    ] {
        let done = workspace.run(args);
        assert_eq!((done.code, done.out.as_str()), (Some(2), ""), "{args:?}: {done:?}");
        says.iter().for_each(|s| assert!(done.err.contains(s), "`{s}`:\n{}", done.err));
    }
}

// The caret stands under what is wrong.
#[test]
fn a_diagnostic_points() {
    let workspace = Workspace::new();
    workspace
        .write("w.toml", one_step("http://h/x", "work_config = { max_retries = 1, backoff = -5 }"));
    insta::assert_snapshot!(workspace.run(&["explain", "w.toml"]).err, @r#"
     x `-5` may not be negative
      ,-[w.toml:7:44]
    7 | work_config = { max_retries = 1, backoff = -5 }
      :                                            ^|
      :                                             `-- steps.0.work_config.backoff
      `----
     help: use zero or more
    "#);
}
