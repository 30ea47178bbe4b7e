//! Promise 7: isolation. The record of a task follows from its own attempts: a recorded answer was
//! given to that very attempt, and shows nothing of a sibling.

use std::collections::BTreeSet;

use retrial::failure::Failure;
use retrial::net::Url;
use retrial::run::Event;
use retrial::time::Nanos;

use super::attempt_records::AttemptRecords;
use super::graph::{Truth, ensured};
use super::history::{Entry, TaskHistory, endpoint_of, input_of, tasks};
use super::{ENSURES, Promise, Report, answers, classes, costs, functions};
use crate::evidence::{Arrival, Evidence, ObservedEvent};
use crate::fault::FaultKind;

/// A recorded answer was not given to that attempt.
pub const FAILURE_NOT_ITS_OWN: &str = "failure_not_its_own";
/// A recorded success was not answered to that attempt.
pub const SUCCESS_NOT_ITS_OWN: &str = "success_not_its_own";
/// A transport failure, a timeout or a lost lease that nothing could have caused.
pub const FAILURE_FROM_NOWHERE: &str = "failure_from_nowhere";
/// Receipt token and idempotency key differ or are missing.
pub const RECEIPT_MISMATCH: &str = "receipt_mismatch";
/// The arguments changed between attempts of one task.
pub const BODY_CHANGED: &str = "body_changed";
/// The attempt arrived at another action's endpoint.
pub const WRONG_ENDPOINT: &str = "wrong_endpoint";
/// `X-Retry-Timeout-Ms` is not the attempt's time.
pub const WRONG_TIMEOUT_HEADER: &str = "wrong_timeout_header";

/// An outcome was reported before its own endpoint had answered.
pub const OUTCOME_BEFORE_ANSWER: &str = "outcome_before_answer";

/// Judges promise 7.
#[must_use]
pub fn judge(evidence: &Evidence) -> Report {
    let mut report = Report::new(Promise::Isolation);
    let ledger = AttemptRecords::of(evidence);
    for arrival in &evidence.ledger {
        let right = arrival.receipt_token.is_some()
            && arrival.receipt_token == arrival.idempotency_key
            && arrival.retry_attempt.is_some();
        report.check(right, None, RECEIPT_MISMATCH, || {
            let (token, key) = (&arrival.receipt_token, &arrival.idempotency_key);
            format!("{} got receipt token {token:?}, idempotency key {key:?}", arrival.path)
        });
    }
    for run in &evidence.runs {
        for task in tasks(run) {
            judge_task(&mut report, evidence, &ledger, &task);
            // The answers of a user's service name what they will.
            if is_http(&task) && !evidence.own.is_own {
                costs::judge(&mut report, &ledger, &task);
            }
        }
    }
    functions::judge(&mut report, evidence, &ledger);
    report
}

fn judge_task(
    report: &mut Report,
    evidence: &Evidence,
    ledger: &AttemptRecords<'_>,
    task: &TaskHistory<'_>,
) {
    let of = |attempt: u32| ledger.arrivals(task.run.id, task.task, attempt);
    let mut bodies = BTreeSet::new();
    for entry in &task.entries {
        match entry.event {
            Event::AttemptStarted { attempt, timeout, .. } => {
                for arrival in of(*attempt) {
                    bodies.insert(&arrival.body);
                    let limit = timeout.map(|t| t.as_millis()..=t.as_millis_ceil().max(1));
                    let right = match (&limit, arrival.retry_timeout_ms) {
                        (None, None) => true,
                        (Some(limit), Some(ms)) => limit.contains(&ms),
                        _ => false,
                    };
                    report.check(right, task.run.id, WRONG_TIMEOUT_HEADER, || {
                        format!("{:?} ms for {}", arrival.retry_timeout_ms, entry.show())
                    });
                    endpoint(report, task, arrival, entry);
                }
            }
            Event::AttemptFailed { attempt, failure, .. } => {
                failed(report, evidence, task, entry, failure, of(*attempt));
            }
            Event::TaskSucceeded { attempt, .. } if is_http(task) => {
                let right = of(*attempt).iter().any(|a| gives_what_it_must(task, a) != Truth::No);
                report.check(right, task.run.id, SUCCESS_NOT_ITS_OWN, || {
                    format!("{} but its endpoint gave {}", entry.show(), given(of(*attempt)))
                });
                answered(report, evidence, task, entry, of(*attempt));
            }
            _ => {}
        }
    }
    report.check(bodies.len() <= 1, task.run.id, BODY_CHANGED, || {
        format!("task {} was sent {} different bodies", task.task, bodies.len())
    });
}

/// An outcome is reported only after the attempt's own endpoint has answered: the outcome of
/// another attempt would come too soon.
fn answered(
    report: &mut Report,
    evidence: &Evidence,
    task: &TaskHistory<'_>,
    entry: &Entry<'_>,
    arrivals: &[&Arrival],
) {
    let of_entry = |t: &&ObservedEvent| t.run == task.run.id && t.number.0 == entry.number;
    let Some(observed) = evidence.observed.iter().filter(of_entry).map(|t| t.at).min() else {
        return;
    };
    let by = observed.after(evidence.clock.slack);
    let right = arrivals.iter().any(|a| a.answered_at.is_some_and(|at| at <= by));
    report.check(right || arrivals.is_empty(), task.run.id, OUTCOME_BEFORE_ANSWER, || {
        format!(
            "reported at {} without an answer: {}",
            Nanos::new(observed.as_nanos()),
            entry.show()
        )
    });
}

fn is_http(task: &TaskHistory<'_>) -> bool {
    url(task).is_some()
}

fn url<'e>(task: &TaskHistory<'e>) -> Option<&'e str> {
    endpoint_of(&task.run.workflow, task.task.step).map(|endpoint| endpoint.url.as_str())
}

fn endpoint(report: &mut Report, task: &TaskHistory<'_>, arrival: &Arrival, entry: &Entry<'_>) {
    let Some(url) = url(task) else { return };
    // What an argument fills in is known to the endpoint alone.
    let right = match url.split_once("${") {
        Some((before, _)) => arrival.path.starts_with(&path_of(before)),
        None => path_of(url).ends_with(&arrival.path),
    };
    report.check(right, task.run.id, WRONG_ENDPOINT, || {
        format!("{} arrived at {}", entry.show(), arrival.path)
    });
}

/// A URL's path, which is what arrives; without its query, and `/` where it has none.
fn path_of(url: &str) -> String {
    let url = url.parse::<Url>().ok();
    url.and_then(|url| Some(url.target().split('?').next()?.to_owned())).unwrap_or_default()
}

/// Whether the arrival was answered with a success, and with what its step ensures.
fn gives_what_it_must(task: &TaskHistory<'_>, arrival: &Arrival) -> Truth {
    if says_how_to_read(task) {
        return Truth::Unknown;
    }
    if !answers::succeeds(arrival.reply.last()) {
        return Truth::No;
    }
    let Some(ensures) = &task.step.ensures else { return Truth::Yes };
    input_of(task.run).map_or(Truth::Unknown, |input| {
        ensured(ensures, input, &answers::body_of(arrival.reply.last(), &arrival.body))
    })
}

/// Whether the action says how its answers are read: then an answer may be a success or a failure
/// whatever its type says.
fn says_how_to_read(task: &TaskHistory<'_>) -> bool {
    endpoint_of(&task.run.workflow, task.task.step).is_some_and(|e| e.answer.is_some())
}

fn given(arrivals: &[&Arrival]) -> String {
    let names: Vec<_> = arrivals.iter().map(|a| a.reply.last().name()).collect();
    format!("{names:?}")
}

fn failed(
    report: &mut Report,
    evidence: &Evidence,
    task: &TaskHistory<'_>,
    entry: &Entry<'_>,
    failure: &Failure,
    arrivals: &[&Arrival],
) {
    if !is_http(task) {
        return;
    }
    let code = failure.code();
    let policy = &task.step.policy;
    let (right, reason) = match code.as_str() {
        "NETWORK_ERROR" => {
            let own = arrivals.iter().any(|a| answers::breaks(a.reply.last()));
            (own || evidence.struck(NETWORK), FAILURE_FROM_NOWHERE)
        }
        "TIMEOUT" => {
            let limits =
                [policy.attempt_timeout(), policy.total_timeout(), evidence.attempt_timeout];
            (limits.iter().any(Option::is_some), FAILURE_FROM_NOWHERE)
        }
        "POSTCONDITION_FAILED" => {
            report.met(ENSURES);
            let falls_short = |a: &Arrival| {
                let succeeds = says_how_to_read(task) || answers::succeeds(a.reply.last());
                succeeds && gives_what_it_must(task, a) != Truth::Yes
            };
            (arrivals.iter().any(|a| falls_short(a)), FAILURE_NOT_ITS_OWN)
        }
        // A request that a user asks for and that can't be made never arrives.
        "BAD_REQUEST" if evidence.own.is_own => (arrivals.is_empty(), FAILURE_FROM_NOWHERE),
        "LEASE_LOST" => (evidence.struck(LEASE), FAILURE_FROM_NOWHERE),
        _ => {
            answered(report, evidence, task, entry, arrivals);
            let own = says_how_to_read(task)
                || arrivals.iter().any(|a| answers::gives(a.reply.last(), code));
            (own, FAILURE_NOT_ITS_OWN)
        }
    };
    // An exception may be called as a failure of the engine's own is.
    let right = right || answers::exception(arrivals, code).is_some();
    report.check(right, task.run.id, reason, || {
        format!("`{code}` at {} but its endpoint gave {}", entry.show(), given(arrivals))
    });
    classes::judge(report, task.run.id, entry, failure, arrivals);
}

/// The faults that can break an exchange from outside.
const NETWORK: &[FaultKind] = &[
    FaultKind::Crash,
    FaultKind::Poison,
    FaultKind::Pause,
    FaultKind::SlowNode,
    FaultKind::Refuse,
    FaultKind::ConnectHang,
    FaultKind::Reset,
    FaultKind::Stall,
    FaultKind::Cut,
    FaultKind::Delay,
    FaultKind::Partition,
    FaultKind::OneWay,
    FaultKind::Loss,
    FaultKind::EndpointHang,
    FaultKind::SlowStream,
];

/// The faults that can keep a node from renewing its lease.
pub(super) const LEASE: &[FaultKind] = &[
    FaultKind::Crash,
    FaultKind::Poison,
    FaultKind::Pause,
    FaultKind::SlowNode,
    FaultKind::Shutdown,
    FaultKind::Refuse,
    FaultKind::ConnectHang,
    FaultKind::Reset,
    FaultKind::Stall,
    FaultKind::Cut,
    FaultKind::Delay,
    FaultKind::Partition,
    FaultKind::OneWay,
    FaultKind::Loss,
    FaultKind::TornWrite,
    FaultKind::LostWrite,
    FaultKind::Eio,
    FaultKind::DiskFull,
    FaultKind::SlowSync,
    FaultKind::Skew,
    FaultKind::Jump,
    FaultKind::Drift,
    FaultKind::StoreRequestLost,
    FaultKind::StoreAnswerLost,
];
