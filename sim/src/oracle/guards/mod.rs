//! Promise 10: guards hold. No more attempts of an action in progress than allowed, none while its
//! breaker is open but for its probes, none faster than its rate, retries within their budget; and
//! nothing is held back without reason.
//!
//! Judges the answers of the store to commits, recorded beside the store with their order and the
//! store's time. Where the order is open, every order is tried.

mod action;
mod attempt_ends;
mod group;
mod hold_events;
mod share;
mod state;
mod timeline;

use std::collections::BTreeMap;

use retrial::failure::Failure;
use retrial::guard::{Breaker, Pace};
use retrial::policy::{Budget, BudgetScope};
use retrial::workflow::{StepIx, Workflow};

pub(crate) use group::Tokens;

use super::policy_model::answers_to;
use super::{Promise, Report};
use crate::evidence::{Evidence, RunEvidence};

/// An attempt started while the breaker was open.
pub const STARTED_WHILE_OPEN: &str = "started_while_open";
/// More attempts started in a half-open breaker than it allows probes.
pub const TOO_MANY_PROBES: &str = "too_many_probes";
/// More attempts of an action were in progress than its limit allows.
pub const TOO_MANY_AT_ONCE: &str = "too_many_at_once";
/// More attempts of an action were in progress on a node than its share of the places.
pub const MORE_THAN_ITS_SHARE: &str = "more_than_its_share";
/// Attempts started faster than their rate allows.
pub const TOO_FAST: &str = "too_fast";
/// A retry for which the budget had too few tokens.
pub const OVER_BUDGET: &str = "over_budget";
/// Something was held back that the named guard lets through.
pub const HELD_WITHOUT_NEED: &str = "held_without_need";
/// Something is held back for longer than the breaker stays open.
pub const HELD_TOO_LONG: &str = "held_too_long";
/// A retry was denied although its budget was not asked, or had enough.
pub const DENIED_WITHOUT_NEED: &str = "denied_without_need";
/// A hold was said of a task that does not wait for that attempt, or was said twice.
pub const WRONG_HOLD: &str = "wrong_hold";
/// A hold was said of a guard that the action does not have.
pub const HELD_BY_NOTHING: &str = "held_by_nothing";
/// A breaker held an attempt back that started later, and there is no event of it.
pub const HOLD_UNSAID: &str = "hold_unsaid";

/// A start that a breaker held back.
pub(super) const BREAKER: &str = "breaker hold";
/// An attempt that decides whether a breaker closes.
pub(super) const PROBE: &str = "breaker probe";
/// A start that had to wait for another's end.
pub(super) const CONCURRENCY: &str = "concurrency hold";
/// A start that would have been too fast.
pub(super) const RATE: &str = "rate hold";
/// A retry that an action's budget denied.
pub(super) const DENIED: &str = "denied retry";
/// A retry that waited for its action's budget.
pub(super) const WAITED: &str = "waiting retry";
/// A retry that a group's budget denied.
pub(super) const GROUP: &str = "group budget";

/// An action that had its share of a node's places.
pub(super) const SHARE: &str = "full share";

/// Judges promise 10.
#[must_use]
pub fn judge(evidence: &Evidence) -> Report {
    let mut report = Report::new(Promise::Guards);
    for run in evidence.runs.iter().filter(|run| !run.damaged) {
        hold_events::judge(&mut report, evidence, run);
        group::judge(&mut report, run);
    }
    share::judge(&mut report, evidence);
    for (action, rules) in guarded(evidence) {
        if let Some(timeline) = timeline::of(evidence, &action, &rules) {
            timeline.judge(&mut report, &action, &rules);
        }
    }
    report
}

/// Whether anything of a workflow's is guarded by a state that runs share.
pub(crate) fn is_guarded(workflow: &Workflow) -> bool {
    workflow.places().any(|step| of_step(workflow, step).is_some())
}

/// How an action is guarded, as far as its state is shared by runs.
#[derive(Clone, Debug, Default, PartialEq)]
struct Rules {
    breaker: Option<Breaker>,
    concurrency: Option<usize>,
    rate: Option<Pace>,
    budget: Option<Budget>,
}

/// The rules of one step, if it has any.
fn rules(run: &RunEvidence, step: StepIx) -> Option<Rules> {
    of_step(&run.workflow, step)
}

fn of_step(workflow: &Workflow, step: StepIx) -> Option<Rules> {
    let name = &workflow.step(step)?.action;
    let guard = workflow.actions().get(name).map(|a| a.guard.clone()).unwrap_or_default();
    let shared = |budget: &&Budget| budget.scope == BudgetScope::Action;
    let rules = Rules {
        breaker: guard.breaker,
        concurrency: guard.concurrency.map(|n| n.get() as usize),
        rate: guard.rate,
        budget: workflow.retry_budget(step).filter(shared).copied(),
    };
    (rules != Rules::default()).then_some(rules)
}

/// The guarded actions that have the same rules in every use of this world.
fn guarded(evidence: &Evidence) -> BTreeMap<String, Rules> {
    let mut found: BTreeMap<String, Option<Rules>> = BTreeMap::new();
    for run in &evidence.runs {
        for place in run.workflow.places() {
            let (Some(step), Some(rules)) = (run.workflow.step(place), rules(run, place)) else {
                continue;
            };
            let known = found.entry(step.action.clone()).or_insert_with(|| Some(rules.clone()));
            if known.as_ref() != Some(&rules) {
                *known = None;
            }
        }
    }
    found.into_iter().filter_map(|(name, rules)| Some((name, rules?))).collect()
}

/// The codes of throttling: HTTP's, and the names of botocore's `retries/standard.py`.
const THROTTLED: [&str; 16] = [
    "429",
    "RateLimitError",
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "RequestThrottledException",
    "TooManyRequestsException",
    "ProvisionedThroughputExceededException",
    "TransactionInProgressException",
    "RequestLimitExceeded",
    "BandwidthLimitExceeded",
    "LimitExceededException",
    "RequestThrottled",
    "SlowDown",
    "PriorRequestNotComplete",
    "EC2ThrottledException",
];

/// The tokens that a retry after `failure` takes.
fn cost(budget: &Budget, failure: &Failure) -> u32 {
    let throttled = THROTTLED.iter().any(|name| answers_to(failure, name));
    if throttled { budget.throttling_cost } else { budget.cost }
}
