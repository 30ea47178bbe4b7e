//! The events of holds: at most one for an attempt that waits, by a guard that the action has. A
//! hold changes nothing else: the next attempt to start is the one that was held.

use std::collections::{BTreeMap, BTreeSet};

use retrial::guard::HeldBy;
use retrial::policy::GiveUp;
use retrial::run::{Event, TaskId};

use super::{DENIED_WITHOUT_NEED, HELD_BY_NOTHING, HOLD_UNSAID, WRONG_HOLD, rules};
use crate::evidence::{Evidence, RunEvidence, StoreAnswer};
use crate::oracle::Report;
use crate::oracle::history::entries;
use crate::oracle::promptness::is_near;

pub(super) fn judge(report: &mut Report, evidence: &Evidence, run: &RunEvidence) {
    if run.first.0 > 0 {
        return;
    }
    let mut said = BTreeSet::new();
    let mut next: BTreeMap<TaskId, Option<u32>> = BTreeMap::new();
    let waits = |next: &BTreeMap<TaskId, Option<u32>>, task: &TaskId, attempt: u32| {
        next.get(task).copied().unwrap_or(Some(1)) == Some(attempt)
    };
    for entry in entries(run) {
        match entry.event {
            Event::RetryScheduled { task, attempt, .. } => {
                next.insert(*task, Some(*attempt));
            }
            Event::AttemptStarted { task, attempt, .. } => {
                let right = waits(&next, task, *attempt);
                report.check(right, run.id, WRONG_HOLD, || entry.show());
                next.insert(*task, None);
            }
            Event::TaskHeld { task, attempt, by, .. } => {
                let right = waits(&next, task, *attempt) && said.insert((*task, *attempt));
                report.check(right, run.id, WRONG_HOLD, || entry.show());
                let breaker = rules(run, task.step).is_some_and(|rules| rules.breaker.is_some());
                let there = *by == HeldBy::Breaker && breaker;
                report.check(there, run.id, HELD_BY_NOTHING, || entry.show());
            }
            _ => {}
        }
    }
    unsaid(report, evidence, run, &said);
    denied(report, evidence, run);
}

/// If a breaker held an attempt that the same node started later, there is an event of the hold,
/// unless a node may have died between, or the answer of the store may be lost: asked again, another
/// guard may hold the attempt. Where another node starts it, the first may have had no answer yet to
/// what it said.
fn unsaid(
    report: &mut Report,
    evidence: &Evidence,
    run: &RunEvidence,
    said: &BTreeSet<(TaskId, u32)>,
) {
    if evidence.lifespans.iter().any(|incarnation| incarnation.died.is_some()) || !is_near(evidence)
    {
        return;
    }
    let landed = evidence.answers.iter().filter_map(|answer| match answer {
        StoreAnswer::Landed(ask) if ask.run == run.id => Some(ask),
        _ => None,
    });
    let started: BTreeSet<(u64, TaskId, u32)> = landed
        .flat_map(|ask| ask.events.iter().map(|recorded| (ask.writer, &recorded.event)))
        .filter_map(|(writer, event)| match event {
            Event::AttemptStarted { task, attempt, .. } => Some((writer, *task, *attempt)),
            _ => None,
        })
        .collect();
    for answer in &evidence.answers {
        let StoreAnswer::Held(ask, holds) = answer else { continue };
        for recorded in ask.events.iter().filter(|_| ask.run == run.id) {
            let Event::AttemptStarted { task, attempt, token, .. } = &recorded.event else {
                continue;
            };
            let held =
                |h: &&retrial::store::Hold| h.attempt.token == *token && h.by == HeldBy::Breaker;
            let name = (ask.writer, *task, *attempt);
            if holds.iter().any(|h| held(&h)) && started.contains(&name) {
                report.check(said.contains(&(*task, *attempt)), run.id, HOLD_UNSAID, || {
                    format!("attempt {attempt} of task {task} was held back and started later")
                });
            }
        }
    }
}

/// For each retry denied by a shared budget, a node asked the store, and the store refused.
fn denied(report: &mut Report, evidence: &Evidence, run: &RunEvidence) {
    let mut refused = BTreeSet::new();
    for answer in &evidence.answers {
        if let StoreAnswer::Held(ask, holds) = answer {
            let by_budget = holds.iter().filter(|h| h.by == HeldBy::RetryBudget);
            refused.extend(by_budget.filter(|_| ask.run == run.id).map(|h| h.attempt.task));
        }
    }
    for entry in entries(run) {
        let Event::TaskFailed { task, reason: GiveUp::RetryBudget, .. } = entry.event else {
            continue;
        };
        let shared = rules(run, task.step).is_some_and(|rules| rules.budget.is_some());
        let right = !shared || refused.contains(task);
        report.check(right, run.id, DENIED_WITHOUT_NEED, || entry.show());
        let group = run.workflow.retry_budget(task.step).is_some();
        report.check(group, run.id, HELD_BY_NOTHING, || entry.show());
    }
}
