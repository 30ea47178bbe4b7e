//! A run as lines of text, from the JSON that an inspection gives.

use retrial::run::Cost;
use serde_json::Value;

use super::output::{clean, field, json_line, list, text};

/// A run's graph with phases, its last error, and why each retry happened.
pub(super) fn run(run: &Value) -> Vec<String> {
    let name = |name: &str| field(run, name);
    let mut lines = vec![format!("Run {} of {}: {}", name("run"), name("workflow"), name("phase"))];
    let mut said = vec![format!("Created {}", name("created"))];
    said.extend(text(run, "ended").map(|at| format!("ended {at}")));
    said.extend(text(run, "archived").map(|at| format!("archived {at}")));
    lines.push(said.join(", "));
    lines.extend(text(run, "paused").map(|reason| format!("Retries are paused: {reason}")));
    let error = &run["_last_error"];
    lines.extend(error.is_object().then(|| format!("_last_error: {}", last_error(error))));
    lines.extend(cost(run).map(|cost| format!("Cost: {cost}")));
    let steps = list(run, "steps");
    let width = steps.iter().map(|step| field(step, "step").chars().count()).max().unwrap_or(0);
    for step in steps {
        let undoes = text(step, "compensates").map(|of| format!("  compensates {of}"));
        let edges = names(step, "after", "after") + &names(step, "transitions_to", "->");
        let edges = undoes.unwrap_or_default() + &edges;
        let (name, phase) = (field(step, "step"), field(step, "phase").replace('_', " "));
        lines.push(format!("  {name:width$}  {phase}{edges}"));
        lines.extend(list(step, "tasks").iter().flat_map(task));
    }
    lines.extend(text(run, "redrives").map(|id| format!("It redrives letter {id}.")));
    let letters: Vec<_> =
        list(run, "letters").iter().filter_map(Value::as_str).map(clean).collect();
    if !letters.is_empty() {
        lines.push(format!("Dead letters: {}", letters.join(", ")));
    }
    lines.extend(run.get("input").map(|input| format!("Input: {}", json_line(input))));
    lines.extend(list(run, "results").iter().map(|of| result(of, steps)));
    lines
}

/// What a task gave, as it is stored.
fn result(of: &Value, steps: &[Value]) -> String {
    let (name, item) = (field(of, "step"), number(&of["item"]));
    let step = steps.iter().find(|step| field(step, "step") == name);
    let task =
        step.and_then(|step| list(step, "tasks").iter().find(|task| number(&task["item"]) == item));
    let name = task.map_or(name, |task| field(task, "task"));
    format!("Result of {name}: {}", json_line(&of["result"]))
}

/// The steps before it, or the steps that it may lead to.
fn names(step: &Value, of: &str, word: &str) -> String {
    let all: Vec<_> = list(step, of).iter().filter_map(Value::as_str).map(clean).collect();
    match all.is_empty() {
        true => String::new(),
        false => format!("  {word} {}", all.join(", ")),
    }
}

fn task(task: &Value) -> Vec<String> {
    let (name, phase) = (field(task, "task"), field(task, "phase"));
    let made = counted(&task["attempts"], "attempt", "attempts");
    let cost = cost(task).map(|cost| format!(", cost {cost}")).unwrap_or_default();
    let mut lines = vec![format!("    {name}: {phase}, {made}{cost}")];
    if task["phase"] == "quarantined" {
        let lost = counted(&task["lost_attempts"], "attempt", "attempts");
        let what = "`retrial release` lets it go on, `retrial fail` gives it up";
        lines.push(format!("      {lost} in a row lost their node: {what}"));
    }
    if let (Some(gone), Some(_)) = (task["compacted"].as_u64(), task["first_error"].as_object()) {
        let first = failure(&task["first_error"]);
        let gone = format!("attempts 1 to {gone} are compacted");
        lines.push(format!("      {gone}; the first failed with {first}"));
    }
    lines.extend(list(task, "history").iter().flat_map(attempt));
    lines.extend(text(task, "gave_up").map(|reason| format!("      given up: {reason}")));
    lines
}

fn attempt(attempt: &Value) -> Vec<String> {
    let (number, started) = (number(&attempt["attempt"]), field(attempt, "started"));
    let took = attempt["took"].as_f64().map(|took| format!(" in {took:.1}s")).unwrap_or_default();
    let error = &attempt["error"];
    let what = match (error.is_object(), attempt["ended"].is_string()) {
        (true, _) => format!("failed{took}: {}", failure(error)),
        (false, true) => format!("succeeded{took}"),
        (false, false) => "has not ended".to_owned(),
    };
    let mut lines = vec![format!("      attempt {number} at {started} {what}")];
    let retry = &attempt["retry"];
    if let Some(delay) = retry["delay"].as_f64() {
        let kind = match retry["kind"].as_str() {
            Some("lease_lost") => "lost lease".to_owned(),
            _ => field(retry, "kind"),
        };
        let code = field(error, "code");
        lines.push(format!("        ↻ retried after {delay:.1}s, because of {kind}: {code}"));
    }
    lines
}

/// `503 ServerError (retryable): busy`.
pub(super) fn failure(error: &Value) -> String {
    let kind = text(error, "type").map(|kind| format!(" {kind}")).unwrap_or_default();
    format!("{}{kind} ({}): {}", field(error, "code"), class(error), field(error, "message"))
}

/// The error with which a branch or a run ended.
pub(super) fn last_error(error: &Value) -> String {
    let (code, step, message) =
        (field(error, "code"), field(error, "node_id"), field(error, "message"));
    let attempt = number(&error["attempt"]);
    format!("{code} ({}) at {step}, attempt {attempt}: {message}", class(error))
}

/// `1 attempt`, `2 attempts`.
pub(super) fn counted(n: &Value, one: &str, many: &str) -> String {
    format!("{} {}", number(n), if number(n) == 1 { one } else { many })
}

fn class(error: &Value) -> &'static str {
    if error["retryable"] == true { "retryable" } else { "permanent" }
}

fn cost(of: &Value) -> Option<Cost> {
    of["cost_millionths"].as_u64().map(Cost::from_millionths)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}
