//! The part of promise 5 about outputs: JSON lines are the store's history, each line whole, in
//! order and exact, and counters count the events that observers got.

use std::collections::{BTreeMap, BTreeSet};

use retrial::failure::Class;
use retrial::run::{Event, RunId};
use serde_json::Value;

use super::Report;
use super::history::{Entry, attempt_of, entries};
use crate::evidence::{Evidence, JSON_LINES, METRICS, Output, RunEvidence};
use crate::scenario::{ENDPOINTS, STORE};

/// A line is no JSON object, or was cut.
pub const LINE_BROKEN: &str = "line_broken";
/// A line shows an event that the store does not have, or has otherwise.
pub const LINE_WRONG: &str = "line_wrong";
/// A run's lines are out of order, or one is missing between others.
pub const LINE_OUT_OF_ORDER: &str = "line_out_of_order";
/// A durable event is in no line, although no engine died.
pub const LINE_MISSING: &str = "line_missing";
/// A counter differs from the number of observed events.
pub const WRONG_COUNT: &str = "wrong_count";

/// Judges every output that can be held against the history.
pub(super) fn judge(report: &mut Report, evidence: &Evidence) {
    let of_nodes = |output: &&Output| output.source.starts_with(JSON_LINES);
    let outputs: Vec<&Output> = evidence.outputs.iter().filter(of_nodes).collect();
    let mut observed = BTreeSet::new();
    for output in &outputs {
        observed.extend(lines(report, evidence, output));
    }
    if !outputs.is_empty() {
        missing(report, evidence, &observed);
    }
    for output in evidence.outputs.iter().filter(|output| output.source == METRICS) {
        counts(report, evidence, &output.text);
    }
}

/// One incarnation's lines; gives the events that they tell.
fn lines(report: &mut Report, evidence: &Evidence, output: &Output) -> Vec<(RunId, u64)> {
    let source = output.source.as_str();
    let alone = engines(evidence) <= 1;
    let whole = output.text.is_empty() || output.text.ends_with('\n');
    report.check(whole, None, LINE_BROKEN, || format!("{source}: the last line is cut"));
    let mut last: BTreeMap<RunId, u64> = BTreeMap::new();
    let mut observed = Vec::new();
    for (place, line) in (1..).zip(output.text.lines()) {
        let read: Option<Value> = serde_json::from_str(line).ok();
        let read = read.as_ref().and_then(|line| Some((id(line)?, line["number"].as_u64()?, line)));
        report.check(read.is_some(), None, LINE_BROKEN, || format!("{source}, line {place}"));
        let Some((run, number, line)) = read else { continue };
        let before = last.insert(run, number);
        // A node that is alone writes all of a run; beside others it leaves gaps to them.
        let follows = before.is_none_or(|n| if alone { number == n + 1 } else { number > n });
        report.check(follows, run, LINE_OUT_OF_ORDER, || {
            format!("{source}, line {place}: #{number} after {before:?}")
        });
        observed.push((run, number));
        let kept = evidence.runs.iter().find(|r| r.id == run);
        if let Some(kept) = kept.filter(|r| !r.damaged && number >= r.first.0) {
            let right = entry(kept, number).is_some_and(|entry| matches(line, &entry));
            report.check(right, run, LINE_WRONG, || {
                format!("{source}, line {place}: not event #{number} of the store")
            });
        }
    }
    observed
}

/// How many nodes run an engine.
pub(super) fn engines(evidence: &Evidence) -> usize {
    let names = evidence.lifespans.iter().map(|incarnation| incarnation.node.as_str());
    names.filter(|name| ![STORE, ENDPOINTS].contains(name)).collect::<BTreeSet<_>>().len()
}

fn id(line: &Value) -> Option<RunId> {
    line["run"].as_str()?.parse().ok()
}

fn entry(run: &RunEvidence, number: u64) -> Option<Entry<'_>> {
    let place = usize::try_from(number.checked_sub(run.first.0)?).ok()?;
    entries(run).nth(place)
}

/// Whether a line says what the event says, as far as the documents name it.
fn matches(line: &Value, entry: &Entry<'_>) -> bool {
    let seconds = |length: retrial::time::Nanos| std::time::Duration::from(length).as_secs_f64();
    let about = match entry.event {
        Event::AttemptFailed { failure, will_retry, .. } => {
            let error = &line["error"];
            line["will_retry"] == *will_retry
                && error["code"] == failure.code().as_str()
                && error["kind"] == kind(failure.code().as_str())
                && error["retryable"] == (failure.class() == Class::Retryable)
        }
        Event::RetryScheduled { attempt, delay, code, .. } => {
            line["next_attempt"] == *attempt
                && line["retry_delay"] == seconds(*delay)
                && line["reason"] == code.as_str()
                && line["retry_kind"] == kind(code.as_str())
        }
        Event::TaskSucceeded { attempt, .. } => line["total_attempts"] == *attempt,
        Event::TaskFailed { attempts, .. } => line["total_attempts"] == *attempts,
        _ => true,
    };
    let number = attempt_of(entry.event);
    let attempt = number.map_or(Value::Null, Value::from);
    // An alert names the attempt that raised it, and no more.
    let number = number.filter(|_| !matches!(entry.event, Event::ErrorBudgetBurnt { .. }));
    let retries = number.map_or(Value::Null, |n| n.saturating_sub(1).into());
    let is_retry = number.map_or(Value::Null, |n| (n > 1).into());
    line["event"] == entry.event.name()
        && line["at"] == entry.at.to_string()
        && line["attempt"] == attempt
        && line["retry_attempt"] == retries
        && line["is_retry"] == is_retry
        && about
}

/// What a failure is to whoever counts timeouts and lost nodes (R10). A missed heartbeat is a timeout
/// too.
fn kind(code: &str) -> &'static str {
    match code {
        "TIMEOUT" | "HEARTBEAT_TIMEOUT" => "timeout",
        "LEASE_LOST" => "lease_lost",
        _ => "failure",
    }
}

/// Without a crash every event has a line: the node that wrote it reports it.
fn missing(report: &mut Report, evidence: &Evidence, observed: &BTreeSet<(RunId, u64)>) {
    if evidence
        .lifespans
        .iter()
        .any(|incarnation| incarnation.died.is_some() && incarnation.node != STORE)
    {
        return;
    }
    for run in evidence.runs.iter().filter(|run| !run.damaged) {
        for entry in entries(run) {
            let there = observed.contains(&(run.id, entry.number));
            report.check(there, run.id, LINE_MISSING, || format!("no line of {}", entry.show()));
        }
    }
}

/// Counters add up to the events that observers got.
fn counts(report: &mut Report, evidence: &Evidence, text: &str) {
    let sum = |name: &str, label: &str| -> u64 {
        let lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
        let lines = lines.filter(|line| line.contains(label));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    };
    let observed = |wanted: fn(&Event) -> bool| {
        evidence.observed.iter().filter(|observed| wanted(&observed.recorded.event)).count() as u64
    };
    let timed_out = |event: &Event| matches!(event, Event::AttemptFailed { failure, .. } if kind(failure.code().as_str()) == "timeout");
    for (name, label, expected) in [
        (
            "retrial_attempts_total",
            "outcome=failure",
            observed(|e| matches!(e, Event::AttemptFailed { .. })),
        ),
        (
            "retrial_attempts_total",
            "outcome=success",
            observed(|e| matches!(e, Event::TaskSucceeded { .. })),
        ),
        ("retrial_retries_total", "", observed(|e| matches!(e, Event::RetryScheduled { .. }))),
        ("retrial_timeouts_total", "", observed(timed_out)),
        (
            "retrial_tasks_total",
            "outcome=failed",
            observed(|e| matches!(e, Event::TaskFailed { .. })),
        ),
        ("retrial_runs_total", "", observed(|e| matches!(e, Event::RunEnded { .. }))),
    ] {
        let counted = sum(name, label);
        report.check(counted == expected, None, WRONG_COUNT, || {
            format!("{name} {label} is {counted}; observers got {expected}")
        });
    }
}
