//! The part of promise 5 about error budgets: an alert is recorded exactly where it is raised, and
//! the run that delivers it to its webhook exists, also after crashes.
//!
//! Where the store's time of each outcome is known, or all outcomes of an action belong to one run, their
//! order is known and the alerts follow from them. Elsewhere the oracle demands only what holds in every
//! order.

use std::collections::{BTreeMap, BTreeSet};

use retrial::failure::{Class, Failure};
use retrial::guard::{Alert, ErrorBudget, GuardRules};
use retrial::run::{Event, RunId, TaskId};
use retrial::time::{Nanos, Timestamp};
use serde_json::{Value, json};

use super::history::{Entry, carried, entries};
use super::{ALERT, ALERTS_TO_COME, Report, WEBHOOK};
use crate::evidence::{Evidence, RunEvidence, StoreAnswer};

/// An alert that no failure of its attempt follows.
pub const ALERT_WITHOUT_FAILURE: &str = "alert_without_failure";
/// An alert that its own numbers do not reach, or that is not in the rules.
pub const ALERT_UNREACHED: &str = "alert_unreached";
/// An alert counts outcomes that there were not.
pub const ALERT_MISCOUNTED: &str = "alert_miscounted";
/// An alert was raised again although it can't have been lowered.
pub const ALERT_TWICE: &str = "alert_twice";
/// An alert must have been raised, and was not recorded.
pub const ALERT_UNTOLD: &str = "alert_untold";
/// The alerts of a run are not those that follow from its outcomes.
pub const ALERTS_OTHERWISE: &str = "alerts_otherwise";
/// A webhook has no run, or one too many.
pub const WEBHOOK_LOST: &str = "webhook_lost";
/// A webhook's run says something else than its alert.
pub const WEBHOOK_WRONG: &str = "webhook_wrong";
/// A run that was not submitted.
pub const WEBHOOK_UNASKED: &str = "webhook_unasked";

/// How far the instants of outcomes may be from those at which the store counted them.
const UNSURE: Nanos = Nanos::from_secs(120);
const MILLION: u128 = 1_000_000;

/// An alert as a run records it.
struct RecordedAlert<'e> {
    run: &'e RunEvidence,
    entry: Entry<'e>,
    task: TaskId,
    alert: Alert,
    webhook: Option<RunId>,
    /// The number of the failure that raised it.
    raised_by: Option<u64>,
}

/// An outcome that counts.
#[derive(Clone, Copy)]
struct Counted {
    run: RunId,
    number: u64,
    /// When its node decided it.
    decided: Timestamp,
    /// The same, or the time of the store's answer where that is known.
    at: Timestamp,
    failed: bool,
}

/// Judges every alert, and those that there should have been.
pub(super) fn judge(report: &mut Report, evidence: &Evidence) {
    let kept = || evidence.runs.iter().filter(|run| !run.damaged);
    let told: Vec<RecordedAlert<'_>> = kept().flat_map(alerts).collect();
    for told in &told {
        report.met(ALERT);
        alert(report, told);
        webhook(report, evidence, told);
    }
    let whole = evidence.runs.iter().all(|run| !run.damaged && run.first.0 == 0);
    if !whole {
        return;
    }
    unasked(report, evidence, &told);
    let mut actions: BTreeMap<&str, Vec<&GuardRules>> = BTreeMap::new();
    for run in kept() {
        for (name, action) in run.workflow.actions() {
            if action.guard.error_budget.is_some() {
                actions.entry(name).or_default().push(&action.guard);
            }
        }
    }
    for (action, rules) in actions {
        // Runs that have other rules for it share what was counted, each under its own.
        if let Some(budget) =
            rules[0].error_budget.as_ref().filter(|_| rules.windows(2).all(|w| w[0] == w[1]))
        {
            let alone = *rules[0]
                == GuardRules { error_budget: Some(budget.clone()), ..GuardRules::default() };
            of_action(report, evidence, &told, action, budget, alone);
        }
    }
}

fn alerts(run: &RunEvidence) -> Vec<RecordedAlert<'_>> {
    let all: Vec<Entry<'_>> = entries(run).collect();
    let told = all.iter().enumerate().filter_map(|(at, entry)| {
        let Event::ErrorBudgetBurnt { task, attempt, alert, webhook } = entry.event else {
            return None;
        };
        let is_alert = |e: &&Entry<'_>| !matches!(e.event, Event::ErrorBudgetBurnt { .. });
        let next = all[at..].iter().find(is_alert);
        let raised_by = next.filter(|e| {
            matches!(e.event, Event::AttemptFailed { task: t, attempt: n, failure, .. }
                if (t, n) == (task, attempt) && burns(failure))
        });
        Some(RecordedAlert {
            run,
            entry: *entry,
            task: *task,
            alert: *alert,
            webhook: *webhook,
            raised_by: raised_by.map(|e| e.number),
        })
    });
    told.collect()
}

/// Whether a failure is the action's own: retryable ones and timeouts are.
fn burns(failure: &Failure) -> bool {
    failure.class() == Class::Retryable && failure.code().as_str() != "LEASE_LOST"
}

impl RecordedAlert<'_> {
    fn action(&self) -> &str {
        self.run.workflow.step(self.task.step).map_or("", |step| step.action.as_str())
    }
}

fn alert(report: &mut Report, told: &RecordedAlert<'_>) {
    let (run, Alert { threshold, burnt, failures, calls }) = (told.run.id, told.alert);
    let shown = || format!("{}: {:?}", told.entry.show(), told.alert);
    report.check(told.raised_by.is_some(), run, ALERT_WITHOUT_FAILURE, shown);
    let action = told.run.workflow.actions().get(told.action());
    let budget = action.and_then(|action| action.guard.error_budget.as_ref());
    let asked = budget.is_some_and(|budget| {
        let of_all = u128::from(failures) * MILLION * MILLION;
        budget.alerts().contains(&threshold)
            && calls >= u64::from(budget.min_calls().get())
            && (1..=calls).contains(&failures)
            && reaches(budget, threshold, failures, calls)
            && u128::from(burnt) == of_all / (allowed(budget) * u128::from(calls))
    });
    report.check(asked, run, ALERT_UNREACHED, shown);
}

/// The share of outcomes that may be failures, in millionths.
fn allowed(budget: &ErrorBudget) -> u128 {
    MILLION - u128::from(budget.target().millionths())
}

/// Whether so many failures are `share` millionths of the budget.
fn reaches(budget: &ErrorBudget, share: u64, failures: u64, calls: u64) -> bool {
    u128::from(failures) * MILLION * MILLION
        >= u128::from(share) * allowed(budget) * u128::from(calls)
}

/// Whether so many failures are less than half of that: then the alert is lowered.
fn is_lowered(budget: &ErrorBudget, share: u64, failures: u64, calls: u64) -> bool {
    !reaches(budget, share, failures.saturating_mul(2), calls)
}

/// The run that delivers an alert to its webhook exists, once, and carries the alert.
fn webhook(report: &mut Report, evidence: &Evidence, told: &RecordedAlert<'_>) {
    let action = told.run.workflow.actions().get(told.action());
    let named = action.and_then(|action| action.webhook.as_ref());
    let shown = || format!("{}: webhook {:?}", told.entry.show(), told.webhook);
    report.check(named.is_some() == told.webhook.is_some(), told.run.id, WEBHOOK_LOST, shown);
    let (Some(named), Some(id)) = (named, told.webhook) else { return };
    report.met(WEBHOOK);
    let found = evidence.runs.iter().find(|run| run.id == id);
    report.check(found.is_some_and(|run| run.is_webhook), told.run.id, WEBHOOK_LOST, shown);
    let Some(found) = found.filter(|run| !run.damaged && run.first.0 == 0) else { return };
    let Some(Event::RunCreated { workflow, input, .. }) = found.events.first().map(|r| &r.event)
    else {
        return;
    };
    let Alert { failures, calls, .. } = told.alert;
    let fields = [
        ("action", json!(told.action())),
        ("failures", json!(failures)),
        ("calls", json!(calls)),
        ("run", json!(told.run.id.to_string())),
    ];
    let threshold = input.get("threshold").and_then(Value::as_f64).unwrap_or_default();
    #[expect(clippy::cast_precision_loss, reason = "few digits")]
    let same = (threshold * 1_000_000.0 - told.alert.threshold as f64).abs() < 0.5;
    let right = workflow.steps().len() == 1
        && workflow.steps()[0].action == named.name()
        && workflow.steps()[0].policy == *named.policy()
        && same
        && fields.iter().all(|(key, value)| input.get(*key) == Some(value));
    report.check(right, id, WEBHOOK_WRONG, || format!("{}; its input is {input:?}", shown()));
    let receipt = TaskId::FIRST.receipt(id).to_string();
    let arrived = evidence.ledger.iter().filter(|a| a.receipt_token.as_deref() == Some(&receipt));
    for arrival in arrived {
        let sent = carried(workflow, TaskId::FIRST.step, arrival, Some(&json!(input)));
        report.check(sent, id, WEBHOOK_WRONG, || "another body arrived".to_owned());
    }
}

/// Every run that no user asked for delivers an alert.
fn unasked(report: &mut Report, evidence: &Evidence, told: &[RecordedAlert<'_>]) {
    for run in evidence.runs.iter().filter(|run| run.is_webhook) {
        let named = told.iter().filter(|told| told.webhook == Some(run.id)).count();
        report.check(named == 1, run.id, WEBHOOK_UNASKED, || format!("{named} alerts name it"));
    }
}

/// Judges all alerts of one action together. `alone` says that the action has no other guard.
fn of_action(
    report: &mut Report,
    evidence: &Evidence,
    told: &[RecordedAlert<'_>],
    action: &str,
    budget: &ErrorBudget,
    alone: bool,
) {
    let outcomes: Vec<Counted> =
        evidence.runs.iter().flat_map(|run| counted(run, action)).collect();
    let told: Vec<&RecordedAlert<'_>> =
        told.iter().filter(|told| told.action() == action).collect();
    let (calls, failures) = counts(&outcomes);
    for told in &told {
        let there = told.alert.failures <= failures && told.alert.calls <= calls;
        report.check(there, told.run.id, ALERT_MISCOUNTED, || {
            format!("{:?} of {failures} failures in {calls} outcomes", told.alert)
        });
    }
    let instants = || outcomes.iter().map(|o| o.at);
    let (Some(first), Some(last)) = (instants().min(), instants().max()) else { return };
    let length = last.since(first).saturating_add(UNSURE);
    let nothing_left = length < Nanos::new(budget.window().get() / 10 * 9);
    if nothing_left {
        in_every_order(report, &told, &outcomes, action, budget);
    }
    let is_sure = nothing_left && alone && are_of_one_run(&outcomes);
    if let Some(known) = in_order(evidence, &outcomes).or(is_sure.then_some(outcomes)) {
        foretold(report, &told, &known, budget);
    }
}

/// Judges what holds in every order of outcomes that are all within one window.
fn in_every_order(
    report: &mut Report,
    told: &[&RecordedAlert<'_>],
    outcomes: &[Counted],
    action: &str,
    budget: &ErrorBudget,
) {
    let (calls, failures) = counts(outcomes);
    for share in budget.alerts() {
        let mut of_share: Vec<&Alert> =
            told.iter().map(|t| &t.alert).filter(|a| a.threshold == *share).collect();
        of_share.sort_by_key(|alert| (alert.calls, alert.failures));
        for pair in of_share.windows(2) {
            // At best all outcomes between the two but the last were good ones.
            let between = pair[1].calls.saturating_sub(1);
            let lowered = is_lowered(budget, *share, pair[0].failures, between);
            report.check(lowered, None, ALERT_TWICE, || format!("{action}: {pair:?}"));
        }
        // In every order, the last failure finds at least this.
        let enough = failures >= u64::from(budget.min_calls().get());
        let must = enough && reaches(budget, *share, failures, calls);
        report.check(!must || !of_share.is_empty(), None, ALERT_UNTOLD, || {
            format!(
                "{action}: {failures} of {calls} failed, without an alert of {share} millionths"
            )
        });
    }
}

/// How many outcomes there are, and how many of them failures.
fn counts(outcomes: &[Counted]) -> (u64, u64) {
    (outcomes.len() as u64, outcomes.iter().filter(|o| o.failed).count() as u64)
}

fn are_of_one_run(outcomes: &[Counted]) -> bool {
    outcomes.windows(2).all(|pair| pair[0].run == pair[1].run)
}

/// The outcomes in the order in which the store counted them, with its times, where both are known.
fn in_order(evidence: &Evidence, outcomes: &[Counted]) -> Option<Vec<Counted>> {
    let mut landed = BTreeMap::new();
    for answer in &evidence.answers {
        let StoreAnswer::Landed(commit) = answer else { continue };
        for number in (commit.first.0..).take(commit.events.len()) {
            landed.insert((commit.run, number), commit.at);
        }
    }
    let at = |o: &Counted| Some(Counted { at: *landed.get(&(o.run, o.number))?, ..*o });
    let mut known = outcomes.iter().map(at).collect::<Option<Vec<Counted>>>()?;
    known.sort_by_key(|o| (o.at, o.run, o.number));
    let sure = |pair: &[Counted]| pair[0].at < pair[1].at || pair[0].run == pair[1].run;
    known.windows(2).all(sure).then_some(known)
}

/// The outcomes of an action in a run that has an error budget for it.
fn counted<'e>(run: &'e RunEvidence, action: &'e str) -> impl Iterator<Item = Counted> + 'e {
    let declared = run.workflow.actions().get(action);
    let budgeted = declared.is_some_and(|action| action.guard.error_budget.is_some());
    entries(run).filter(move |_| budgeted).filter_map(move |entry| {
        let (task, failed) = match entry.event {
            Event::TaskSucceeded { task, .. } => (task, false),
            Event::AttemptFailed { failure, .. } if failure.code().as_str() == "LEASE_LOST" => {
                return None;
            }
            Event::AttemptFailed { task, failure, .. } => (task, burns(failure)),
            _ => return None,
        };
        let is_it = run.workflow.step(task.step)?.action == action;
        let (number, at) = (entry.number, entry.at);
        is_it.then_some(Counted { run: run.id, number, decided: at, at, failed })
    })
}

/// The alerts that follow from outcomes in their order. What counts reaches back nine to ten tenths of the
/// window (C18.6). An outcome that finds the window empty lowers each alert.
fn foretold(
    report: &mut Report,
    told: &[&RecordedAlert<'_>],
    outcomes: &[Counted],
    budget: &ErrorBudget,
) {
    // What an alert says of other runs' outcomes may be a little old.
    let is_exact = are_of_one_run(outcomes);
    let said = |failures, calls| is_exact.then_some((failures, calls));
    let tenth = budget.window().get().div_ceil(10);
    let (mut raised, mut expected) = (BTreeSet::new(), Vec::new());
    for (at, outcome) in outcomes.iter().enumerate() {
        let part = |at: Timestamp| at.as_nanos() / tenth;
        let left_at = |now| {
            let counted = |o: &&Counted| part(o.at) + 10 > part(now);
            outcomes[..at].iter().rev().take_while(counted).count()
        };
        let left = left_at(outcome.at);
        // The store counts, and the commit that says what it counted may land a little later.
        if left != left_at(outcome.decided) {
            return;
        }
        let (calls, failures) = counts(&outcomes[at - left..=at]);
        raised.retain(|share| calls > 1 && !is_lowered(budget, *share, failures, calls));
        if !outcome.failed || calls < u64::from(budget.min_calls().get()) {
            continue;
        }
        for share in budget.alerts() {
            if reaches(budget, *share, failures, calls) && raised.insert(*share) {
                let raised_by = Some(outcome.number);
                expected.push((outcome.run, raised_by, *share, said(failures, calls)));
            }
        }
    }
    let of = |t: &&RecordedAlert<'_>| {
        let Alert { threshold, failures, calls, .. } = t.alert;
        (t.run.id, t.raised_by, threshold, said(failures, calls))
    };
    let mut found: Vec<_> = told.iter().map(of).collect();
    found.sort_unstable();
    expected.sort_unstable();
    report.met(ALERTS_TO_COME);
    let run = outcomes.first().map(|o| o.run);
    report.check(found == expected, run, ALERTS_OTHERWISE, || {
        format!("the recorded alerts are {found:?}; the outcomes raise {expected:?}")
    });
}
