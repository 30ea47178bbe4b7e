//! A policy in plain words: what it retries, how often, and when.
//!
//! Decides how a policy is shown. Must never know how it was written, runs or stores: it computes
//! every number from the [`Policy`] itself. To show one more thing, add a field to
//! [`Explanation`], and write it in `text` and `json`.

mod findings;
mod json;
mod text;
mod words;

pub use findings::Finding;

use crate::dialect::{Named, Policies};
use crate::policy::{Functions, Limit, Policy, Rule};
use crate::time::Nanos;

/// What is shown of one policy.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The step it is for; `None` when it stands alone.
    pub step: Option<Named>,
    /// The policy.
    pub policy: Policy,
    /// The rules' delays, in text order.
    pub delays: Vec<Vec<Delay>>,
    /// What may be a mistake.
    pub warnings: Vec<Finding>,
}

/// What is shown of a text about policies.
#[derive(Clone, Debug)]
pub enum Explained {
    /// One policy.
    One(Box<Explanation>),
    /// The policies of a workflow's steps.
    Steps {
        /// The workflow's name.
        workflow: String,
        /// The steps in text order.
        steps: Vec<Explanation>,
    },
}

/// The wait before one retry, and the sum of all waits so far. Attempts take time beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delay {
    /// The retry, from 1.
    pub retry: u32,
    /// The shortest wait.
    pub earliest: Nanos,
    /// The longest wait.
    pub latest: Nanos,
    /// The shortest sum of waits.
    pub earliest_sum: Nanos,
    /// The longest sum of waits.
    pub latest_sum: Nanos,
}

/// Retries listed of an unlimited rule.
const UNLIMITED: u32 = 10;
/// The most retries ever listed of a rule.
const MOST: u32 = 1_000;

/// Explains every policy of `policies`. `attempts`, the first included, limits how many are listed;
/// without it a rule's own limit does, and 10 retries where it has none.
#[must_use]
pub fn explain_all(policies: &Policies, attempts: Option<u32>, functions: &Functions) -> Explained {
    match policies {
        Policies::One(policy) => Explained::One(Box::new(explain(policy, attempts, functions))),
        Policies::Steps { workflow, steps } => {
            let one = |named: &Named| one(&named.policy, Some(named), attempts, functions);
            let steps = steps.iter().map(one).collect();
            Explained::Steps { workflow: workflow.clone(), steps }
        }
    }
}

/// Explains one policy; see [`explain_all`].
#[must_use]
pub fn explain(policy: &Policy, attempts: Option<u32>, functions: &Functions) -> Explanation {
    one(policy, None, attempts, functions)
}

fn one(
    policy: &Policy,
    step: Option<&Named>,
    attempts: Option<u32>,
    functions: &Functions,
) -> Explanation {
    let rules = policy.rules().iter();
    let listed = |r: &Rule| delays(r, listed(r.limit, attempts), functions).collect();
    Explanation {
        step: step.cloned(),
        policy: policy.clone(),
        delays: rules.map(listed).collect(),
        warnings: findings::of(policy, step, functions),
    }
}

/// How many retries are listed.
fn listed(limit: Limit, attempts: Option<u32>) -> u32 {
    let allowed = limit.count().map(|n| n - 1);
    let wanted = attempts.map(|n| n.saturating_sub(1));
    let listed = match (allowed, wanted) {
        (Some(allowed), Some(wanted)) => allowed.min(wanted),
        (Some(n), None) | (None, Some(n)) => n,
        (None, None) => UNLIMITED,
    };
    listed.min(MOST)
}

/// The waits before the first `count` retries of `rule`. Under decorrelated jitter the latest grows
/// from the latest before it.
fn delays(rule: &Rule, count: u32, functions: &Functions) -> impl Iterator<Item = Delay> {
    let floor = rule.floor();
    let mut previous = None;
    let (mut earliest_sum, mut latest_sum) = (Nanos::ZERO, Nanos::ZERO);
    let row = move |retry| {
        let range = rule.backoff.range(retry, previous, functions);
        let (earliest, latest) = ((*range.start()).max(floor), (*range.end()).max(floor));
        previous = Some(latest);
        earliest_sum = earliest_sum.saturating_add(earliest);
        latest_sum = latest_sum.saturating_add(latest);
        Delay { retry, earliest, latest, earliest_sum, latest_sum }
    };
    (1..=count).map(row)
}
