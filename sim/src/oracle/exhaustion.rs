//! Promise 3: exhaustion. A task fails for good exactly once, after exactly the allowed attempts,
//! and the following events are those that were announced; nothing starts after an end. Routing is
//! in `routing`.

use retrial::failure::Failure;
use retrial::policy::GiveUp;
use retrial::run::Event;
use retrial::time::Timestamp;

use super::attempt_records::AttemptRecords;
use super::history::{Entry, Failed, TaskHistory, endpoint_of, entries, tasks};
use super::policy_model::Unknown;
use super::{
    OUTCOME_UNKNOWN, Promise, Report, answers, by_hand, cancellation, policy_model, promptness,
    rollback, routing,
};
use crate::evidence::{Evidence, FunctionEvent, RunEvidence};

/// It was retried although the policy stops.
pub const RETRIED_TOO_OFTEN: &str = "retried_too_often";
/// The task failed for good although the policy allows a retry.
pub const GAVE_UP_EARLY: &str = "gave_up_early";
/// It was given up for a reason that does not hold.
pub const WRONG_REASON: &str = "wrong_reason";
/// `will_retry` and what followed contradict each other.
pub const WILL_RETRY_CONTRADICTED: &str = "will_retry_contradicted";
/// Attempts are not numbered 1, 2, 3.
pub const ATTEMPT_GAP: &str = "attempt_gap";
/// Something happened to a task after its end.
pub const EVENT_AFTER_TASK_END: &str = "event_after_task_end";
/// The count of attempts in `TaskFailed` is wrong.
pub const ATTEMPTS_MISCOUNTED: &str = "attempts_miscounted";
/// `retries_left` is not the largest limit less the attempt.
pub const WRONG_RETRIES_LEFT: &str = "wrong_retries_left";
/// Something happened to a run after its end.
pub const EVENT_AFTER_RUN_END: &str = "event_after_run_end";
/// An attempt was started while its run was deactivated.
pub const STARTED_AT_REST: &str = "started_at_rest";
/// A new process called an attempt lost whose run was left alone.
pub const ENDED_AT_REST: &str = "ended_at_rest";
/// The record of the failure is not the last failure's.
pub const WRONG_ERROR: &str = "wrong_error";

/// Judges promise 3.
#[must_use]
pub fn judge(evidence: &Evidence) -> Report {
    let mut report = Report::new(Promise::Exhaustion);
    let ledger = AttemptRecords::of(evidence);
    for run in &evidence.runs {
        let tasks = tasks(run);
        for task in &tasks {
            order(&mut report, task);
            for failed in task.failed() {
                ruling(&mut report, evidence, &ledger, task, &failed);
            }
            record(&mut report, task);
            counts(&mut report, task);
        }
        last(&mut report, run);
        rest(&mut report, evidence, run);
        routing::judge(&mut report, run, &tasks, &ledger);
        rollback::judge(&mut report, run, &ledger);
    }
    cancellation::judge(&mut report, evidence);
    report
}

/// Whether each event of a task may follow the one before it.
fn order(report: &mut Report, task: &TaskHistory<'_>) {
    if let (Some(first), true) = (task.entries.first(), task.whole) {
        let begins = matches!(
            first.event,
            Event::AttemptStarted { attempt: 1, .. }
                | Event::TaskCancelled { .. }
                | Event::TaskFailed { attempts: 0, reason: GiveUp::ByHand, .. }
        );
        report.check(begins, task.run.id, ATTEMPT_GAP, || {
            format!("the task begins with {}", first.show())
        });
    }
    for pair in task.entries.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        let wrong = wrong_successor(task, before, after);
        report.check(wrong.is_none(), task.run.id, wrong.unwrap_or_default(), || {
            format!("{} is followed by {}", before.show(), after.show())
        });
    }
    // A failure, its counter and its requeueing are one commit.
    let dangling = task.entries.last().filter(|e| matches!(e.event, Event::AttemptFailed { .. }));
    report.check(dangling.is_none(), task.run.id, WILL_RETRY_CONTRADICTED, || {
        format!("nothing follows {}", dangling.map(|e| e.show()).unwrap_or_default())
    });
}

/// The reason why `after` may not follow `before`, if there is one.
fn wrong_successor(
    task: &TaskHistory<'_>,
    before: &Entry<'_>,
    after: &Entry<'_>,
) -> Option<&'static str> {
    let ok = |holds: bool, reason| if holds { None } else { Some(reason) };
    match (before.event, after.event) {
        (
            Event::TaskSucceeded { .. } | Event::TaskFailed { .. } | Event::TaskCancelled { .. },
            _,
        ) => Some(EVENT_AFTER_TASK_END),
        (
            Event::AttemptStarted { attempt: n, .. },
            Event::AttemptFailed { attempt: m, .. } | Event::TaskSucceeded { attempt: m, .. },
        ) => ok(n == m, ATTEMPT_GAP),
        (
            Event::AttemptFailed { attempt: n, will_retry: true, .. },
            Event::RetryScheduled { attempt: m, .. },
        ) => ok(n.checked_add(1) == Some(*m), ATTEMPT_GAP),
        (
            Event::AttemptFailed { attempt: n, will_retry: false, .. },
            Event::TaskFailed { attempts: m, .. },
        ) => ok(n == m, ATTEMPTS_MISCOUNTED),
        (Event::AttemptFailed { .. }, _) => Some(WILL_RETRY_CONTRADICTED),
        (Event::RetryScheduled { attempt: n, .. }, Event::AttemptStarted { attempt: m, .. }) => {
            ok(n == m, ATTEMPT_GAP)
        }
        // Work that came due only after the total timeout had passed can't start any more.
        (
            Event::RetryScheduled { attempt: n, .. },
            Event::TaskFailed { attempts: m, reason: GiveUp::TotalTimeout, .. },
        ) => {
            let passed = task.deadline().is_none_or(|end| after.at >= end);
            ok(passed, GAVE_UP_EARLY).or(ok(*n == m + 1, ATTEMPTS_MISCOUNTED))
        }
        // A user failed it while it waited.
        (
            Event::RetryScheduled { attempt: n, .. },
            Event::TaskFailed { attempts: m, reason: GiveUp::ByHand, .. },
        ) => {
            let mut commands = by_hand::commands(task.run);
            let asked = commands.any(|c| c.means(task.task, before.number, after.number));
            ok(asked, GAVE_UP_EARLY).or(ok(*n == m + 1, ATTEMPTS_MISCOUNTED))
        }
        (
            Event::AttemptStarted { .. } | Event::RetryScheduled { .. },
            Event::TaskCancelled { .. },
        ) => None,
        _ => Some(ATTEMPT_GAP),
    }
}

/// Whether retrying or giving up is what the policy says.
fn ruling(
    report: &mut Report,
    evidence: &Evidence,
    ledger: &AttemptRecords<'_>,
    task: &TaskHistory<'_>,
    failed: &Failed<'_>,
) {
    let declared = task.run.workflow.actions().get(&task.step.action);
    let situation = policy_model::UsedUp {
        attempt: failed.attempt,
        at: failed.entry.at,
        timeout_retries: failed.timeout_retries,
        harmful: declared.is_some_and(|a| a.idempotent == Some(false)),
        unknown: unknown(evidence, ledger, task, failed),
        causes: &failed.causes,
        previous: failed.previous,
        deadline: task.deadline(),
    };
    let policy = &task.step.policy;
    // The attempts used up before the kept history are unknown.
    let forgets = policy.total_timeout().is_some()
        || policy.timeout_retries().is_some()
        || !policy.counting().is_shared();
    if !task.whole && forgets {
        return;
    }
    let Some(ruling) = policy_model::ruling(policy, failed.failure, &situation) else { return };
    if ruling.reasons.contains(&GiveUp::OutcomeUnknown) {
        report.met(OUTCOME_UNKNOWN);
    }
    let run = task.run.id;
    let shown = || format!("`{}`: {}", failed.failure.code(), failed.entry.show());
    if failed.will_retry {
        report.check(!ruling.must_stop, run, RETRIED_TOO_OFTEN, || {
            format!("the policy stops ({:?}) after {}", ruling.reasons, shown())
        });
        return;
    }
    let given = task.entries.iter().find_map(|e| match e.event {
        Event::TaskFailed { reason, .. } => Some(*reason),
        _ => None,
    });
    // Whether its budget was used up is for the oracle of guards to say.
    let budget = task.run.workflow.retry_budget(task.task.step);
    if given == Some(GiveUp::RetryBudget) && budget.is_some() && !ruling.must_stop {
        return;
    }
    report.check(!ruling.reasons.is_empty(), run, GAVE_UP_EARLY, || {
        format!("the policy goes on after {}", shown())
    });
    if let (Some(given), false) = (given, ruling.reasons.is_empty()) {
        report.check(ruling.reasons.contains(&given), run, WRONG_REASON, || {
            format!("{given:?} where {:?} holds after {}", ruling.reasons, shown())
        });
    }
}

/// Whether the outcome of the attempt is unknown: as its failure implies, or as the function
/// reports.
fn unknown(
    evidence: &Evidence,
    ledger: &AttemptRecords<'_>,
    task: &TaskHistory<'_>,
    failed: &Failed<'_>,
) -> Unknown {
    let arrivals = ledger.arrivals(task.run.id, task.task, failed.attempt);
    let implied = policy_model::unknown(failed.failure, !arrivals.is_empty());
    if evidence.own.is_own && endpoint_of(&task.run.workflow, task.task.step).is_none() {
        // A user's function makes any failure, and knows its own effect. The effect of one that did
        // not end is unknown.
        let function_records = ledger.function_records(task.run.id, task.task, failed.attempt);
        let itself = function_records.iter().find_map(|work| match &work.did {
            FunctionEvent::Failed { code, unknown } if code == failed.failure.code() => {
                Some(*unknown)
            }
            _ => None,
        });
        return match itself {
            Some(unknown) => Unknown { surely: unknown, possibly: unknown },
            None => Unknown { surely: implied.possibly, ..implied },
        };
    }
    // An exception may be called as a failure of the engine's own is, and was read.
    let was_read = answers::exception(arrivals, failed.failure.code()).is_some();
    Unknown { surely: implied.surely && !was_read, ..implied }
}

/// Whether the final record is the last failure's.
fn record(report: &mut Report, task: &TaskHistory<'_>) {
    let Some((entry, error)) = task.entries.iter().find_map(|e| match e.event {
        Event::TaskFailed { error, .. } => Some((e, error)),
        _ => None,
    }) else {
        return;
    };
    let Some(last) = task.failed().pop() else { return };
    let class = policy_model::class(&task.step.policy, last.failure);
    let right = error.code == *last.failure.code()
        && error.attempt == last.attempt
        && error.node_id == task.step.id
        && error.action_id == task.step.action
        && error.retryable == (class == retrial::failure::Class::Retryable);
    report.check(right || timed_out(entry, last.failure), task.run.id, WRONG_ERROR, || {
        let (code, attempt) = (&error.code, error.attempt);
        format!("the record says {code}, attempt {attempt}: {}", entry.show())
    });
}

/// Whether a total timeout speaks for itself instead of repeating the failure before it.
fn timed_out(entry: &Entry<'_>, last: &Failure) -> bool {
    match entry.event {
        Event::TaskFailed { reason: GiveUp::TotalTimeout, error, .. } => {
            error.code.as_str() == "TIMEOUT" && last.code().as_str() != "TIMEOUT"
        }
        _ => false,
    }
}

/// Whether each start says how many retries are left.
fn counts(report: &mut Report, task: &TaskHistory<'_>) {
    let limit = policy_model::limit(&task.step.policy);
    for entry in &task.entries {
        let Event::AttemptStarted { attempt, retries_left, .. } = entry.event else { continue };
        let right = limit.map(|most| most.saturating_sub(*attempt));
        report.check(*retries_left == right, task.run.id, WRONG_RETRIES_LEFT, || {
            format!("{retries_left:?} retries left, not {right:?}: {}", entry.show())
        });
    }
}

/// Whether nothing follows the run's end.
fn last(report: &mut Report, run: &RunEvidence) {
    let mut ended: Option<(u64, Timestamp)> = None;
    for entry in entries(run) {
        report.check(ended.is_none(), run.id, EVENT_AFTER_RUN_END, || {
            let (number, at) = ended.unwrap_or_default();
            format!("{} follows the run's end #{number} at {at}", entry.show())
        });
        if matches!(entry.event, Event::RunEnded { .. }) {
            ended = Some((entry.number, entry.at));
        }
    }
}

/// Whether nothing starts while the run is left alone, and a process that begins meanwhile ends none of its
/// leases. One that was there may have seen them end before.
fn rest(report: &mut Report, evidence: &Evidence, run: &RunEvidence) {
    let is_alone = promptness::owns_its_store(evidence);
    let mut at_rest = None;
    for entry in entries(run) {
        match entry.event {
            Event::RunDeactivated => at_rest = Some(entry),
            Event::RunActivated => at_rest = None,
            Event::AttemptStarted { .. } => {
                report.check(at_rest.is_none(), run.id, STARTED_AT_REST, || entry.show());
            }
            Event::AttemptFailed { failure, .. } if failure.code().as_str() == "LEASE_LOST" => {
                let Some(since) = at_rest.filter(|_| is_alone) else { continue };
                let told = [&since, &entry].map(|e| promptness::first_told(evidence, run, e));
                let [Some(since), Some(now)] = told else { continue };
                let born = promptness::last_born(evidence, since, now);
                report.check(born.is_none(), run.id, ENDED_AT_REST, || entry.show());
            }
            _ => {}
        }
    }
}
