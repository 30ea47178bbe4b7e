//! Promise 6: one owner. Each attempt starts once, under its own token, and has at most one
//! outcome, before the next attempt starts.

use std::collections::{BTreeMap, BTreeSet};

use retrial::run::{Event, RunId, Token, Version};
use retrial::store::QueueState;
use retrial::time::Nanos;

use super::attempt_records::AttemptRecords;
use super::history::{Entry, TaskHistory, tasks};
use super::{Promise, Report, leases};
use crate::evidence::{Evidence, Shutdown};
use crate::incarnation::Lifespan;

/// An attempt was started twice.
pub const STARTED_TWICE: &str = "started_twice";
/// An attempt has two outcomes.
pub const TWO_OUTCOMES: &str = "two_outcomes";
/// An outcome of an attempt that is not in progress.
pub const OUTCOME_WITHOUT_START: &str = "outcome_without_start";
/// An attempt was started while another was in progress.
pub const OVERLAPPING_ATTEMPTS: &str = "overlapping_attempts";
/// Two attempts share a token.
pub const TOKEN_REUSED: &str = "token_reused";
/// A lease is held under a token that no start names.
pub const LEASE_WITHOUT_START: &str = "lease_without_start";
/// One attempt reached its endpoint twice.
pub const SENT_TWICE: &str = "sent_twice";
/// A lease was ended before its time, and not by the outcome of its attempt.
pub const LEASE_ENDED_EARLY: &str = "lease_ended_early";
/// A node was shut down in good order, and the outcome of an attempt there was lost.
pub const LEFT_BEHIND: &str = "left_behind";

/// A node was shut down in good order, and a claim or a start of an attempt had no answer yet.
pub const SHUT_DOWN_TOO_SOON: &str = "shut_down_too_soon";

/// Judges promise 6.
#[must_use]
pub fn judge(evidence: &Evidence) -> Report {
    let mut report = Report::new(Promise::Ownership);
    let ledger = AttemptRecords::of(evidence);
    let mut tokens = BTreeMap::new();
    for run in &evidence.runs {
        let tasks = tasks(run);
        for task in &tasks {
            pairing(&mut report, task);
            for entry in &task.entries {
                if let Event::AttemptStarted { token, attempt, .. } = entry.event {
                    unique(&mut report, &mut tokens, run.id, *token, entry);
                    let arrivals = ledger.arrivals(run.id, task.task, *attempt).len();
                    report.check(arrivals <= 1, run.id, SENT_TWICE, || {
                        format!("{arrivals} arrivals of {}", entry.show())
                    });
                }
                left_behind(&mut report, evidence, task, entry);
            }
        }
        for row in &run.queue {
            let QueueState::Leased { token, .. } = row.state else { continue };
            let known = tokens.contains_key(&token);
            report.check(known || run.first.0 > 0, run.id, LEASE_WITHOUT_START, || {
                format!("task {} attempt {} is leased under {token}", row.task, row.attempt)
            });
        }
    }
    for shutdown in &evidence.shutdowns {
        report.check(shutdown.unanswered == 0, None, SHUT_DOWN_TOO_SOON, || {
            format!("{} of {} had no answer yet", shutdown.unanswered, shutdown.node)
        });
    }
    early_ends(&mut report, evidence);
    leases::judge(&mut report, evidence);
    report
}

/// A lease that has not ended is ended by others only where its holder is dead.
fn early_ends(report: &mut Report, evidence: &Evidence) {
    for end in &evidence.leases.early_ends {
        let holder = evidence.leases.started.get(&(end.run, end.token));
        let Some(holder) = holder else { continue };
        let of_holder = |l: &&Lifespan| (&l.node, &l.incarnation) == (&holder.0, &holder.1);
        let lifespan = evidence.lifespans.iter().find(of_holder);
        let dead = lifespan.is_none_or(|l| l.died.is_some_and(|died| died <= end.seen));
        report.check(dead, end.run, LEASE_ENDED_EARLY, || {
            format!(
                "the lease of task {} was ended at {}, it held until {}",
                end.task, end.at, end.until
            )
        });
    }
}

/// An attempt whose node was shut down in good order has its outcome recorded by then.
fn left_behind(
    report: &mut Report,
    evidence: &Evidence,
    task: &TaskHistory<'_>,
    entry: &Entry<'_>,
) {
    let Event::AttemptFailed { attempt, failure, .. } = entry.event else { return };
    if failure.code().as_str() != "LEASE_LOST" || evidence.shutdowns.is_empty() {
        return;
    }
    let run = task.run.id;
    let asked = |entry: &Entry<'_>| evidence.asked.get(&(run, Version(entry.number))).copied();
    let started = task.entries.iter().find_map(|e| match e.event {
        Event::AttemptStarted { token, timeout, attempt: n, .. } if n == attempt => {
            Some((*token, asked(e)?, timeout.unwrap_or(Nanos::MAX)))
        }
        _ => None,
    });
    let Some((token, from, timeout)) = started else { return };
    let by = evidence.leases.started.get(&(run, token));
    let (Some((node, incarnation)), Some(ended)) = (by, asked(entry)) else { return };
    if evidence.clock.leapt(from, ended) {
        return;
    }
    let of_holder = |s: &Shutdown| s.node == *node && s.incarnation == *incarnation;
    // One whose time is over by the time that its start lands is not begun.
    let over = from.after(timeout).min(ended);
    let left = evidence.shutdowns.iter().any(|s| of_holder(s) && s.at < over);
    report.check(!left, run, LEFT_BEHIND, || entry.show());
}

fn unique(
    report: &mut Report,
    tokens: &mut BTreeMap<Token, (RunId, String)>,
    run: RunId,
    token: Token,
    entry: &Entry<'_>,
) {
    let before = tokens.insert(token, (run, entry.show()));
    report.check(before.is_none(), run, TOKEN_REUSED, || {
        let (run, shown) = before.clone().unwrap_or((run, String::new()));
        format!("{} has the token of run {run} {shown}", entry.show())
    });
}

/// Follows the one attempt that may be in progress.
fn pairing(report: &mut Report, task: &TaskHistory<'_>) {
    let run = task.run.id;
    let mut open: Option<u32> = None;
    // Before a trimmed history an attempt may have been in progress.
    let mut unknown = !task.whole;
    let (mut started, mut settled) = (BTreeSet::new(), BTreeSet::new());
    for entry in &task.entries {
        match entry.event {
            Event::AttemptStarted { attempt, .. } => {
                report.check(started.insert(*attempt), run, STARTED_TWICE, || entry.show());
                report.check(open.is_none(), run, OVERLAPPING_ATTEMPTS, || {
                    format!("attempt {} was in progress at {}", open.unwrap_or(0), entry.show())
                });
                open = Some(*attempt);
                unknown = false;
            }
            Event::AttemptFailed { attempt, .. } | Event::TaskSucceeded { attempt, .. } => {
                let new = settled.insert(*attempt);
                report.check(new, run, TWO_OUTCOMES, || entry.show());
                let right = open == Some(*attempt) || unknown || !new;
                report.check(right, run, OUTCOME_WITHOUT_START, || {
                    format!("in progress was {open:?} at {}", entry.show())
                });
                open = None;
                unknown = false;
            }
            Event::TaskCancelled { .. } => open = None,
            _ => {}
        }
    }
}
