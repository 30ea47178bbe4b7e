//! C14, Decision 20, promise 8: secrets of many shapes are planted wherever text comes in, and then
//! looked for in everything that goes out.
//!
//! A new output gets a line in [`outputs`]; a new way in gets a plant in `stage`; a new shape a row
//! in `shapes`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod shapes;
mod spans;
mod stage;

use std::fmt::Write as _;

use retrial::dialect::{Environment, parse_policy};
use retrial::explain::explain_all;
use retrial::policy::Functions;
use stage::{Played, Stage};

/// A store's file, in the stage's folder.
const KEPT: &str = "kept.redb";
/// What commands over a store log. Some have nothing to log.
const LOG: &str = "the log of a command over a store";

/// Something that goes out, and what it says.
struct Output {
    name: &'static str,
    text: String,
}

/// Every output of a run in this process, then of the same run through the binary.
fn outputs(stage: &Stage, played: &Played) -> Vec<Output> {
    let mut all = vec![
        output("printer, elsewhere than on a terminal", played.printed.piped.text()),
        output("printer, on a terminal", played.printed.terminal.text()),
        output("printer, detailed", played.printed.detailed.text()),
        output("JSON lines", played.printed.lines.text()),
        output("stream of notices, as JSON", played.streamed.clone()),
        output("statistics", played.statistics.clone()),
        output("metrics", played.metrics.clone()),
        output("spans and log, at the finest level", played.traced.clone()),
        output("errors in the store", played.stored_errors.clone()),
        output("errors in the final state", played.state_errors.clone()),
        output("outcome", format!("{:?}", played.outcome)),
        output("explain", explained(&stage.workflow)),
    ];
    for (name, args) in [
        ("retrial run", &["run", "w.toml", "--new"][..]),
        ("retrial run --output detailed", &["run", "w.toml", "--new", "--output", "detailed"]),
        ("retrial run --events -", &["run", "w.toml", "--new", "--events", "-"]),
        ("retrial explain", &["explain", "w.toml"]),
        ("retrial explain --json", &["explain", "w.toml", "--json"]),
        ("retrial lint", &["lint", "w.toml"]),
    ] {
        let done = stage.command(args);
        all.push(output(name, done.out));
        all.push(output(name, done.err));
    }
    all.extend(over_a_store(stage));
    all
}

/// What the commands that look into a store say of a run that is kept there.
fn over_a_store(stage: &Stage) -> Vec<Output> {
    stage.command(&["run", "w.toml", "--store", KEPT]);
    let listed = stage.command(&["list", "--store", KEPT, "--json"]).out;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let run = listed["runs"][0]["run"].as_str().unwrap();
    let letter = &format!("{run}/1/0")[..];
    let mut all = Vec::new();
    for (name, args) in [
        ("retrial list", &["list"][..]),
        ("retrial inspect", &["inspect", run]),
        ("retrial inspect --json", &["inspect", run, "--json"]),
        ("retrial dlq list", &["dlq", "list"]),
        ("retrial dlq list --json", &["dlq", "list", "--json"]),
        ("retrial dlq show", &["dlq", "show", letter]),
        ("retrial dlq show --json", &["dlq", "show", letter, "--json"]),
    ] {
        let done = stage.command(&[args, &["--store", KEPT]].concat());
        assert_eq!(done.code, Some(0), "{name}: {done:?}");
        all.push(output(name, done.out));
        all.push(output(LOG, done.err));
    }
    all
}

fn output(name: &'static str, text: String) -> Output {
    Output { name, text }
}

fn explained(workflow: &str) -> String {
    let environment = Environment::default();
    let policies = parse_policy("w.toml", workflow, None, &environment).unwrap();
    let explained = explain_all(&policies, None, &Functions::default());
    format!("{explained}\n{:#}", explained.to_json())
}

/// The ways in which an output may spell a text: as it is, in JSON, percent-encoded.
fn forms(needle: &str) -> Vec<String> {
    let json = serde_json::Value::from(needle).to_string();
    let mut encoded = String::new();
    for byte in needle.bytes() {
        match byte {
            b if b.is_ascii_alphanumeric() || b"-._~".contains(&b) => encoded.push(char::from(b)),
            b => write!(encoded, "%{b:02X}").unwrap(),
        }
    }
    vec![needle.to_owned(), json[1..json.len() - 1].to_owned(), encoded]
}

fn check(outputs: &[Output], needles: &[String]) {
    let mut shown = Vec::new();
    for Output { name, text } in outputs {
        for needle in needles {
            let found = forms(needle).into_iter().find_map(|form| text.find(&form));
            if let Some(at) = found {
                let line = text[..at].lines().last().unwrap_or_default().len();
                let around: String = text[at - line..].chars().take(line + 120).collect();
                shown.push(format!("{name} shows {needle}: {around}"));
            }
        }
    }
    assert!(shown.is_empty(), "{}", shown.join("\n"));
}

#[tokio::test]
async fn c14_decision_20_no_output_shows_a_secret() {
    let stage = Stage::new();
    let played = stage.play().await;
    let outputs = outputs(&stage, &played);
    check(&outputs, &stage.needles());
    // What was looked through said something: an output that is empty proves nothing.
    let silent = [
        "retrial lint",
        LOG,
        "retrial run --events -",
        "retrial run",
        "retrial run --output detailed",
    ];
    for Output { name, text } in &outputs {
        let may_be_empty = name.starts_with("retrial explain") || silent.contains(name);
        assert!(may_be_empty || !text.is_empty(), "{name} says nothing");
    }
    // And the secrets did come in.
    stage.came_in();
    assert!(played.traced.contains("http.request.method"), "{}", played.traced);
    assert!(played.stored_errors.contains("***"), "{}", played.stored_errors);
}

/// Inputs and results are stored as they are, because sending a task again needs them (Decision 20):
/// the store is no output.
#[tokio::test]
async fn decision_20_payloads_are_stored_as_they_are() {
    let stage = Stage::new();
    let played = stage.play().await;
    assert!(played.stored.contains(stage::IN_INPUT) && played.stored.contains(stage::IN_RESULT));
}

#[test]
fn a_shown_secret_is_found_in_every_spelling() {
    let found = |text: &str| {
        let outputs = [output("o", text.to_owned())];
        let needles = ["a/b \"c".to_owned()];
        std::panic::catch_unwind(|| check(&outputs, &needles)).is_err()
    };
    assert!(found("x a/b \"c y") && found(r#"{"m":"a/b \"c"}"#) && found("?q=a%2Fb%20%22c"));
    assert!(!found("a/b"));
}
