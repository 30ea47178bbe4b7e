//! Promise 2: the right sequence. Each delay is what the policy says; no attempt starts before it
//! is due or after the total timeout (spec decisions 2 to 5, 7 to 9).

use retrial::failure::RetryKind;
use retrial::policy::{Dialect, Shape};
use retrial::run::{Event, Version};
use retrial::time::{Mono, Nanos};

use super::attempt_records::AttemptRecords;
use super::history::{Retry, TaskHistory, tasks};
use super::jitter::Drawn;
use super::{
    COUNT_PER_RULE, PRESET, Promise, Report, TRUNCATED, WRITTEN_DELAYS, free_places, policy_model,
    policy_reader, promptness, task_time,
};
use crate::evidence::Evidence;
use crate::scenario::{Reply, RetryAfter};

/// The backoff is outside what the rule gives.
pub const WRONG_BACKOFF: &str = "wrong_backoff";
/// It does not count against the rule that governs.
pub const WRONG_RULE: &str = "wrong_rule";
/// The delay is not the larger of backoff and `Retry-After`, nor that truncated at the deadline.
pub const WRONG_DELAY: &str = "wrong_delay";
/// A retry without a rule that allows it.
pub const NO_RULE: &str = "no_rule";
/// The retry's kind or code is not its failure's.
pub const WRONG_CAUSE: &str = "wrong_cause";
/// The retry was scheduled at or past the total timeout.
pub const RETRY_PAST_TOTAL: &str = "retry_past_total";
/// `Retry-After` was obeyed beyond the longest that is obeyed.
pub const RETRY_AFTER_TOO_LONG: &str = "retry_after_too_long";
/// `Retry-After` in whole seconds was read as something else.
pub const RETRY_AFTER_MISREAD: &str = "retry_after_misread";
/// An attempt started before it was due, by the store's clock.
pub const STARTED_EARLY: &str = "started_early";
/// An attempt arrived before it was due, in true time.
pub const ARRIVED_EARLY: &str = "arrived_early";
/// An attempt started at or after the total timeout.
pub const STARTED_AFTER_TOTAL: &str = "started_after_total";
/// An attempt was given another time than attempt and total timeout leave.
pub const WRONG_TIMEOUT: &str = "wrong_timeout";

/// Judges promise 2.
#[must_use]
pub fn judge(evidence: &Evidence) -> Report {
    let mut report = Report::new(Promise::Sequence);
    let ledger = AttemptRecords::of(evidence);
    let mut drawn = Drawn::default();
    policy_reader::judge(&mut report, evidence);
    let is_at_ease = promptness::is_at_ease(evidence);
    let is_quick = promptness::is_quick(evidence);
    for run in &evidence.runs {
        for task in tasks(run) {
            for retry in task.retries() {
                delay(&mut report, &task, &retry);
                due(&mut report, evidence, &task, &retry);
                arrival(&mut report, evidence, &ledger, &task, &retry);
                hint(&mut report, &ledger, &task, &retry);
                drawn.note(&mut report, run, &task, &retry);
            }
            starts(&mut report, evidence, &task);
            if is_at_ease {
                promptness::judge(&mut report, evidence, &task);
            }
            promptness::orphans(&mut report, evidence, &task, is_quick);
            task_time::judge(&mut report, &task);
        }
    }
    drawn.judge(&mut report);
    free_places::judge(&mut report, evidence);
    report
}

/// Whether backoff, delay, kind and code follow from the failure.
fn delay(report: &mut Report, task: &TaskHistory<'_>, retry: &Retry<'_>) {
    let (run, policy) = (task.run.id, &task.step.policy);
    let shown = || format!("{} after {}", retry.scheduled.show(), retry.failed.show());
    report.check(retry.governs.is_some(), run, NO_RULE, || {
        format!("no rule retries `{}`: {}", retry.failure.code(), shown())
    });
    let right = retry.governs.zip(retry.count);
    if let Some(right) = right.and_then(|((_, r), n)| policy_model::delays(r, n, retry.previous)) {
        report.check(right.holds(retry.backoff), run, WRONG_BACKOFF, || {
            let (low, high) = (right.low, right.high);
            format!("backoff {} ns, not {low} to {high}: {}", retry.backoff.get(), shown())
        });
    }
    let place = retry.governs.and_then(|(at, _)| u32::try_from(at).ok());
    let own = place.filter(|_| !policy.counting().is_shared());
    report.check(retry.rule == own, run, WRONG_RULE, || {
        format!("it counts against rule {:?}, not {own:?}: {}", retry.rule, shown())
    });
    let asked = retry.failure.retry_after().unwrap_or(Nanos::ZERO);
    let full = retry.backoff.max(asked);
    let right = retry.delay == full || truncated(task, retry, full);
    if policy.dialect() == Dialect::Preset {
        report.met(PRESET);
    }
    if own.is_some() {
        report.met(COUNT_PER_RULE);
    }
    if retry.delay < full {
        report.met(TRUNCATED);
    }
    let shape = retry.governs.map(|(_, r)| &r.backoff.shape);
    if matches!(shape, Some(Shape::List { .. } | Shape::Polynomial { .. })) {
        report.met(WRITTEN_DELAYS);
    }
    report.check(right, run, WRONG_DELAY, || {
        format!("delay {}, backoff {}, asked {asked}: {}", retry.delay, retry.backoff, shown())
    });
    let most = policy.max_retry_after().max(retry.backoff);
    report.check(retry.delay <= most, run, RETRY_AFTER_TOO_LONG, || {
        format!("delay {} is beyond {most}: {}", retry.delay, shown())
    });
    let kind = match retry.failure.code().as_str() {
        "TIMEOUT" | "HEARTBEAT_TIMEOUT" => RetryKind::Timeout,
        "LEASE_LOST" => RetryKind::LeaseLost,
        _ => RetryKind::Failure,
    };
    let same = retry.kind == kind && retry.code == retry.failure.code().as_str();
    report.check(same, run, WRONG_CAUSE, || {
        format!("kind {}, code {}: {}", retry.kind, retry.code, shown())
    });
    if let Some(end) = task.deadline() {
        let start = retry.scheduled.at.after(retry.delay);
        report.check(start < end, run, RETRY_PAST_TOTAL, || {
            format!("it would start at {start}, the total timeout ends at {end}: {}", shown())
        });
    }
}

/// Whether the delay was shortened from `full` as X5 says: it would have crossed the total timeout,
/// and the last attempt starts one attempt timeout (or the reserve) before it.
fn truncated(task: &TaskHistory<'_>, retry: &Retry<'_>, full: Nanos) -> bool {
    let Some(end) = task.deadline() else { return !task.whole };
    let now = retry.scheduled.at;
    let starts = now.after(retry.delay);
    now.after(full) >= end
        && policy_model::last_start(&task.step.policy, end) == Some(u128::from(starts.as_nanos()))
}

/// Whether the attempt started when it was due, by the store's clock.
fn due(report: &mut Report, evidence: &Evidence, task: &TaskHistory<'_>, retry: &Retry<'_>) {
    let Some(start) = task.start_of(retry.attempt) else { return };
    let from = task.start_of(retry.attempt - 1).map_or(retry.scheduled.at, |e| e.at);
    let tolerance = evidence.clock.tolerance(start.at.since(from));
    let due = retry.scheduled.at.after(retry.delay);
    report.check(start.at.after(tolerance) >= due, task.run.id, STARTED_EARLY, || {
        format!("{} was due at {due}: {}", start.show(), retry.scheduled.show())
    });
}

/// Whether the node that went on had heard a later time of the store than the one that scheduled the
/// retry. A store that was opened again may have lost that time, and each node counts from what it heard.
fn has_lost_time(
    evidence: &Evidence,
    task: &TaskHistory<'_>,
    retry: &Retry<'_>,
    by: Mono,
    waited: Nanos,
) -> bool {
    let Some(start) = task.start_of(retry.attempt) else { return false };
    let told = start.at.since(retry.scheduled.at);
    let was_opened_again = evidence.clock.leapt(Mono::from_nanos(0), by);
    was_opened_again && told > waited.saturating_add(retry.delay)
}

/// Whether the attempt arrived when it was due, in true time.
fn arrival(
    report: &mut Report,
    evidence: &Evidence,
    ledger: &AttemptRecords<'_>,
    task: &TaskHistory<'_>,
    retry: &Retry<'_>,
) {
    let before = ledger.arrivals(task.run.id, task.task, retry.attempt - 1).last();
    let next = ledger.arrivals(task.run.id, task.task, retry.attempt).first();
    let (Some(before), Some(next)) = (before, next) else { return };
    let answered = retry.failure.answered().then_some(before.answered_at).flatten();
    let failed = answered.unwrap_or(before.at);
    if evidence.clock.leapt(failed, next.at) || given_up_before(evidence, task, retry, before.at) {
        return;
    }
    let waited = next.at.since(failed);
    if has_lost_time(evidence, task, retry, next.at, waited) {
        return;
    }
    let enough = waited.saturating_add(evidence.clock.tolerance(retry.delay)) >= retry.delay;
    report.check(enough, task.run.id, ARRIVED_EARLY, || {
        let true_time = Nanos::new(next.at.as_nanos());
        format!("it arrived at {true_time}, {waited} after the failure: {}", retry.scheduled.show())
    });
}

/// The failures by which the engine gives an attempt up, whatever became of its request.
const GIVEN_UP: [&str; 3] = ["TIMEOUT", "HEARTBEAT_TIMEOUT", "LEASE_LOST"];

/// Whether a failure is one that only a whole answer gives.
trait Answered {
    fn answered(&self) -> bool;
}

impl Answered for retrial::failure::Failure {
    fn answered(&self) -> bool {
        let code = self.code().as_str();
        code != "NETWORK_ERROR" && !GIVEN_UP.contains(&code)
    }
}

/// Whether the attempt may have been given up before its request arrived: its node stood still, or
/// the network was slow. The retry does not wait for that. It may be given up long before the store
/// says so.
fn given_up_before(
    evidence: &Evidence,
    task: &TaskHistory<'_>,
    retry: &Retry<'_>,
    arrived: Mono,
) -> bool {
    if !GIVEN_UP.contains(&retry.failure.code().as_str()) {
        return false;
    }
    let asked = evidence.asked.get(&(task.run.id, Version(retry.scheduled.number)));
    asked.is_none_or(|asked| *asked < arrived)
}

/// Whether a `Retry-After` in whole seconds of a 429 or 503 is what the failure says.
fn hint(
    report: &mut Report,
    ledger: &AttemptRecords<'_>,
    task: &TaskHistory<'_>,
    retry: &Retry<'_>,
) {
    let answered = ledger.arrivals(task.run.id, task.task, retry.attempt - 1).last();
    let Some(Reply::Status { code: code @ (429 | 503), retry_after: Some(after), .. }) =
        answered.map(|a| a.reply.last())
    else {
        return;
    };
    if retry.failure.code().as_str() != code.to_string() {
        return;
    }
    let read = retry.failure.retry_after().filter(|d| !d.is_zero());
    let right = match after {
        RetryAfter::Seconds(s) => read == Some(Nanos::from_secs(*s)).filter(|d| !d.is_zero()),
        // Against the store's clock anything may come out.
        RetryAfter::Date { own_date: false, .. } => return,
        RetryAfter::Date { secs, .. } => {
            let wait = u64::try_from(*secs).map_or(Nanos::ZERO, Nanos::from_secs);
            // Both dates are rounded to whole seconds.
            let most = wait.saturating_add(Nanos::from_secs(1));
            if *secs <= 1 {
                read.is_none_or(|d| d <= most)
            } else {
                read.is_some_and(|d| d <= most)
            }
        }
        RetryAfter::Text(_) => read.is_none(),
    };
    report.check(right, task.run.id, RETRY_AFTER_MISREAD, || {
        format!("{after:?} was read as {read:?}: {}", retry.failed.show())
    });
}

/// Whether every attempt started within the total timeout, with the time that it leaves.
fn starts(report: &mut Report, evidence: &Evidence, task: &TaskHistory<'_>) {
    let policy = &task.step.policy;
    let deadline = task.deadline();
    for entry in &task.entries {
        let Event::AttemptStarted { timeout, .. } = entry.event else { continue };
        if let Some(end) = deadline {
            report.check(entry.at < end, task.run.id, STARTED_AFTER_TOTAL, || {
                format!("the total timeout ended at {end}: {}", entry.show())
            });
        }
        if policy.total_timeout().is_some() && deadline.is_none() {
            continue;
        }
        let left = deadline.map(|end| end.since(entry.at));
        let own = policy.attempt_timeout().or(evidence.attempt_timeout);
        let right = [own, left].into_iter().flatten().min();
        report.check(*timeout == right, task.run.id, WRONG_TIMEOUT, || {
            format!("it may take {timeout:?}, not {right:?}: {}", entry.show())
        });
    }
}
