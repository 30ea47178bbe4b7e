//! The record of a registered function's attempt is that attempt's own outcome, cost and progress.
//! Preconditions that held are not checked again.

use std::collections::BTreeMap;

use retrial::run::{Event, RunId, TaskId, Version};
use retrial::time::Nanos;
use retrial::workflow::{Step, Target};

use super::attempt_records::AttemptRecords;
use super::cancellation::{DEAF, NEWS};
use super::history::{Entry, ReportedCost, reported_costs, tasks};
use super::isolation::LEASE;
use super::{Report, classes};
use crate::evidence::{Evidence, FunctionEvent, RunEvidence};
use crate::fault::FaultKind;

/// An outcome of an attempt that never began.
pub const NEVER_BEGAN: &str = "never_began";
/// The recorded cost of an attempt is not the reported one.
pub const COST_MISCOUNTED: &str = "cost_miscounted";
/// Progress did not reach the next attempt.
pub const PROGRESS_LOST: &str = "progress_lost";
/// An attempt saw progress that was never reported.
pub const PROGRESS_FROM_NOWHERE: &str = "progress_from_nowhere";
/// An attempt did not fail because its precondition does not hold, or failed so although it holds.
pub const REFUSAL_LOST: &str = "refusal_lost";
/// A precondition that had held was looked at again.
pub const CHECKED_AGAIN: &str = "checked_again";
/// A missed heartbeat where the step demands none.
pub const NO_HEARTBEAT_ASKED: &str = "no_heartbeat_asked";
/// An attempt was made where its function is not registered.
pub const NOT_REGISTERED_THERE: &str = "not_registered_there";
/// An attempt ran too long without a heartbeat.
pub const SILENT_TOO_LONG: &str = "silent_too_long";
/// A heartbeat was called missed that had come.
pub const HEARTBEAT_NOT_HEARD: &str = "heartbeat_not_heard";
/// An attempt was not ended in time after it had missed a heartbeat.
pub const MISSED_TOO_LATE: &str = "missed_too_late";
/// An attempt ran past its timeout.
pub const RAN_TOO_LONG: &str = "ran_too_long";

/// The outcome of a function's attempt.
pub(super) const FUNCTION: &str = "function";
/// An attempt of a function after its precondition had held.
pub(super) const CHECKED: &str = "precondition once";
/// The cost of an attempt.
pub(super) const COST: &str = "cost";
/// Progress that reached the next attempt, or a missed heartbeat.
pub(super) const HEARTBEAT: &str = "heartbeat";

/// The outcome of an attempt of a function that some node lacks.
pub(super) const ELSEWHERE: &str = "function elsewhere";

/// The codes of failures that the engine makes of a function's attempt.
const MADE_BY_THE_ENGINE: [&str; 4] =
    ["TIMEOUT", "HEARTBEAT_TIMEOUT", "LEASE_LOST", "POSTCONDITION_FAILED"];

/// Beyond the limit: what a wake-up and the way to the endpoint and back may add.
const SLACK: Nanos = Nanos::from_millis(250);

pub(super) fn judge(report: &mut Report, evidence: &Evidence, ledger: &AttemptRecords<'_>) {
    for run in &evidence.runs {
        for task in tasks(run).into_iter().filter(|task| task.whole) {
            let declared = run.workflow.actions().get(&task.step.action);
            if declared.is_none_or(|action| action.target != Target::Registered) {
                continue;
            }
            placed(
                report,
                run.id,
                evidence.missing_functions.contains(&task.step.action),
                &task.entries,
            );
            // The work inside a user's function is not recorded.
            if evidence.own.is_own {
                continue;
            }
            let of_task = Task { run, task: task.task, step: task.step, ledger };
            of_task.judge(report, &task.entries);
            of_task.timers(report, evidence, &task.entries);
        }
    }
}

/// Every function is registered on some node, so a task waits for that one.
fn placed(report: &mut Report, run: RunId, is_elsewhere: bool, entries_of_task: &[Entry<'_>]) {
    for entry in entries_of_task {
        if let Event::AttemptFailed { failure, .. } = entry.event {
            let there = failure.code().as_str() != "UNKNOWN_ACTION";
            report.check(there, run, NOT_REGISTERED_THERE, || entry.show());
        }
        if is_elsewhere
            && matches!(entry.event, Event::TaskSucceeded { .. } | Event::AttemptFailed { .. })
        {
            report.met(ELSEWHERE);
        }
    }
}

fn fails_precondition(entry: &Entry<'_>) -> bool {
    matches!(entry.event, Event::AttemptFailed { failure, .. }
        if failure.code().as_str() == "PRECONDITION_FAILED")
}

struct Task<'e> {
    run: &'e RunEvidence,
    task: TaskId,
    step: &'e Step,
    ledger: &'e AttemptRecords<'e>,
}

impl Task<'_> {
    fn judge(&self, report: &mut Report, entries_of_task: &[Entry<'_>]) {
        let costs = reported_costs(self.run, self.task);
        let (mut known, mut held) = (None, false);
        for entry in entries_of_task {
            let (attempt, own) = match entry.event {
                Event::AttemptStarted { attempt, .. } => {
                    self.begins(report, entry, *attempt, known, held);
                    continue;
                }
                Event::AttemptFailed { attempt, failure, .. } => {
                    // Of other codes only the function knows the class.
                    if MADE_BY_THE_ENGINE.contains(&failure.code().as_str()) {
                        classes::judge(report, self.run.id, entry, failure, &[]);
                    }
                    // Where the attempt's time or lease was over, what it said may be lost.
                    let lost = ["LEASE_LOST", "TIMEOUT", "HEARTBEAT_TIMEOUT"];
                    (*attempt, !lost.contains(&failure.code().as_str()))
                }
                Event::TaskSucceeded { attempt, .. } => (*attempt, true),
                _ => continue,
            };
            let began = self.did(attempt).any(|did| matches!(did, FunctionEvent::Began(_)));
            let refused = self.did(attempt).any(|did| matches!(did, FunctionEvent::Refused));
            report.check(began || refused || !own, self.run.id, NEVER_BEGAN, || entry.show());
            if own {
                report.check(
                    refused == fails_precondition(entry),
                    self.run.id,
                    REFUSAL_LOST,
                    || format!("its precondition refused it: {refused}: {}", entry.show()),
                );
            }
            report.met(FUNCTION);
            self.cost(report, &costs, entry, attempt, own);
            if own {
                held = !refused;
                known = self.last_beat(attempt).or(known);
            }
        }
    }

    fn did(&self, attempt: u32) -> impl Iterator<Item = &FunctionEvent> {
        self.ledger.function_records(self.run.id, self.task, attempt).iter().map(|work| &work.did)
    }

    fn last_beat(&self, attempt: u32) -> Option<u64> {
        let beats = self.did(attempt).filter_map(|did| match did {
            FunctionEvent::Beat(done) => Some(*done),
            _ => None,
        });
        beats.last()
    }

    /// Judges what an attempt finds: the recorded progress, or newer; and no precondition to check
    /// again.
    fn begins(
        &self,
        report: &mut Report,
        entry: &Entry<'_>,
        attempt: u32,
        known: Option<u64>,
        held: bool,
    ) {
        let made = (1..attempt).filter_map(|n| self.last_beat(n)).max();
        for did in self.did(attempt) {
            match did {
                FunctionEvent::Checked => {
                    report.check(!held, self.run.id, CHECKED_AGAIN, || entry.show());
                }
                FunctionEvent::Began(seen) => {
                    report.check(*seen >= known, self.run.id, PROGRESS_LOST, || {
                        format!("it had come to {known:?}, not {seen:?}: {}", entry.show())
                    });
                    report.check(*seen <= made, self.run.id, PROGRESS_FROM_NOWHERE, || {
                        format!("it had come to {made:?}, not {seen:?}: {}", entry.show())
                    });
                    if seen.is_some() {
                        report.met(HEARTBEAT);
                    }
                    if held {
                        report.met(CHECKED);
                    }
                }
                _ => {}
            }
        }
    }

    /// The cost is recorded before the outcome, and is what the attempt said.
    fn cost(
        &self,
        report: &mut Report,
        costs: &BTreeMap<u32, ReportedCost>,
        outcome: &Entry<'_>,
        attempt: u32,
        own: bool,
    ) {
        let said: u64 = self
            .did(attempt)
            .filter_map(|did| match did {
                FunctionEvent::TaskTime(cost) => Some(*cost),
                _ => None,
            })
            .sum();
        let recorded =
            costs.get(&attempt).filter(|c| c.number < outcome.number).map(|c| c.millionths);
        let right = match recorded {
            Some(cost) => cost == said,
            None => !own || said == 0,
        };
        report.check(right, self.run.id, COST_MISCOUNTED, || {
            format!("it cost {said} millionths, not {recorded:?}: {}", outcome.show())
        });
        if recorded.is_some() {
            report.met(COST);
        }
    }

    /// A heartbeat is missed exactly where the step demands one and none came, and no attempt runs
    /// past its timeout.
    fn timers(&self, report: &mut Report, evidence: &Evidence, entries_of_task: &[Entry<'_>]) {
        let of_action = self.run.workflow.actions().get(&self.step.action);
        let of_action = of_action.and_then(|action| action.heartbeat_timeout);
        let limit = self.step.heartbeat_timeout.or(of_action);
        // While a node is paused, its timers are paused as well.
        let stood = evidence.struck(&[FaultKind::Pause, FaultKind::SlowNode]);
        // A process that dies leaves its connections open.
        let deaf =
            evidence.struck(&DEAF) || evidence.struck(&[FaultKind::Crash, FaultKind::Poison]);
        for entry in entries_of_task {
            match entry.event {
                Event::AttemptStarted { attempt, timeout, .. } => {
                    if let Some(limit) = limit.filter(|_| !deaf) {
                        self.ended_in_time(report, evidence, entry, *attempt, limit);
                    }
                    if let Some(limit) = timeout.filter(|_| !stood) {
                        self.in_time(report, evidence, entry, *attempt, limit);
                    }
                }
                Event::AttemptFailed { attempt, failure, .. }
                    if failure.code().as_str() == "HEARTBEAT_TIMEOUT" =>
                {
                    report.met(HEARTBEAT);
                    report.check(limit.is_some(), self.run.id, NO_HEARTBEAT_ASKED, || entry.show());
                    // Elsewhere a heartbeat may not have reached the store in time.
                    if let (Some(limit), false) = (limit, stood || evidence.struck(LEASE)) {
                        self.missed(report, evidence, entry, *attempt, limit);
                    }
                }
                Event::TaskSucceeded { attempt, .. } => {
                    let Some(limit) = limit.filter(|_| !stood) else { continue };
                    let arrivals = self.ledger.arrivals(self.run.id, self.task, *attempt);
                    let answered = arrivals.iter().filter_map(|a| a.answered_at).min();
                    let records = self.ledger.function_records(self.run.id, self.task, *attempt);
                    let last = records.iter().rfind(|r| r.did != FunctionEvent::Returned);
                    let (Some(at), Some(last)) = (answered, last) else { continue };
                    let silent = at.since(last.at);
                    report.check(
                        silent <= at_most(evidence, limit),
                        self.run.id,
                        SILENT_TOO_LONG,
                        || format!("no heartbeat for {silent}, {limit} allowed: {}", entry.show()),
                    );
                }
                _ => {}
            }
        }
    }

    /// The call of an attempt ends soon after its heartbeat was due and did not come.
    fn ended_in_time(
        &self,
        report: &mut Report,
        evidence: &Evidence,
        entry: &Entry<'_>,
        attempt: u32,
        limit: Nanos,
    ) {
        let records = self.ledger.function_records(self.run.id, self.task, attempt);
        for arrival in self.ledger.arrivals(self.run.id, self.task, attempt) {
            let Some(end) = arrival.ended_at else { continue };
            let acts = |did: &FunctionEvent| *did != FunctionEvent::Returned;
            let Some(last) = records.iter().rfind(|r| r.at <= end && acts(&r.did)) else {
                continue;
            };
            let silent = end.since(last.at);
            let most = at_most(evidence, limit).saturating_add(NEWS);
            report.check(silent <= most, self.run.id, MISSED_TOO_LATE, || {
                format!("no heartbeat for {silent}, {limit} allowed: {}", entry.show())
            });
        }
    }

    /// The last act of an attempt that missed its heartbeat is so long ago.
    fn missed(
        &self,
        report: &mut Report,
        evidence: &Evidence,
        entry: &Entry<'_>,
        attempt: u32,
        limit: Nanos,
    ) {
        let Some(said) = evidence.asked.get(&(self.run.id, Version(entry.number))) else { return };
        let records = self.ledger.function_records(self.run.id, self.task, attempt);
        let beats =
            |did: &FunctionEvent| matches!(did, FunctionEvent::Beat(_) | FunctionEvent::Alive);
        let Some(last) = records.iter().rfind(|r| r.at <= *said && beats(&r.did)) else { return };
        let silent = said.since(last.at).saturating_add(evidence.clock.tolerance(limit));
        report.check(silent >= limit, self.run.id, HEARTBEAT_NOT_HEARD, || {
            format!("silent for {silent}, {limit} allowed: {}", entry.show())
        });
    }

    /// From its first act to its last no more time passes than the attempt has.
    fn in_time(
        &self,
        report: &mut Report,
        evidence: &Evidence,
        entry: &Entry<'_>,
        attempt: u32,
        limit: Nanos,
    ) {
        let records = self.ledger.function_records(self.run.id, self.task, attempt);
        let (Some(first), Some(last)) = (records.first(), records.last()) else { return };
        let ran = last.at.since(first.at);
        report.check(ran <= at_most(evidence, limit), self.run.id, RAN_TOO_LONG, || {
            format!("it ran for {ran}, {limit} allowed: {}", entry.show())
        });
    }
}

/// How long what a node ends after `limit` may take in true time.
fn at_most(evidence: &Evidence, limit: Nanos) -> Nanos {
    limit.saturating_add(evidence.clock.tolerance(limit)).saturating_add(SLACK)
}
