//! The time after healing by which every run must have ended: generous, but finite.
//!
//! Computes it from the scenario alone: from its policies, guards, inputs and scripted answers.
//! Must never know what happened in a world. To count something more, add a kind of job to `jobs`
//! or a wait to `waits`.

mod jobs;
mod lists;
mod waits;

use std::ops::Deref;
use std::sync::Arc;

use retrial::policy::{Functions, Policy, Rule};
use retrial::time::Nanos;
use retrial::workflow::Workflow;

use crate::evidence::Bound;
use crate::scenario::{EndpointPlan, Reply, Scenario};
use jobs::WorkflowLoad;
pub(super) use waits::patience;

/// For starting nodes again, noticing that the store answers, and recovering runs.
const START: Nanos = Nanos::from_secs(60);
/// For one answer of a healed endpoint, its delay included, and for claiming and committing.
const ANSWER: Nanos = Nanos::from_secs(15);
/// The time that one task adds where many wait for a few places.
const TASK: Nanos = Nanos::from_millis(500);
/// For somebody to see what is held in quarantine, and to release it.
const RELEASE: Nanos = Nanos::from_secs(10);
/// Attempts that may still go wrong once healed: the one in progress, and the one after it when
/// its node had died.
const LEFTOVER: u32 = 3;

/// How long after healing every run of `scenario` must have ended. `workflows` are its workflow
/// texts, parsed, with the builder's policies in place; `functions` the custom backoffs that a user
/// brings.
#[must_use]
pub fn bound(scenario: &Scenario, workflows: &[Arc<Workflow>], functions: &Functions) -> Bound {
    let input = BoundInput { scenario, functions };
    let (mut longest, mut each, mut tasks) = (Nanos::ZERO, TASK, 0_u64);
    for asked in asked(input, workflows) {
        let (Some(whole), Some(turn)) = (asked.one_after_another(), asked.longest_turn()) else {
            return Bound::UnboundedByPolicy;
        };
        longest = longest.max(whole);
        each = each.max(turn);
        tasks = tasks.saturating_add(asked.tasks());
    }
    let last = scenario.submissions.iter().map(|s| s.at).max();
    let late = last.map_or(Nanos::ZERO, |at| at.since(scenario.heal_at));
    let crowd = each.saturating_mul(tasks);
    Bound::Within(START.saturating_add(late).saturating_add(crowd).saturating_add(longest))
}

/// About how many tasks of the scenario guards may hold back.
pub(crate) fn guarded(scenario: &Scenario, workflows: &[Arc<Workflow>]) -> u64 {
    let input = BoundInput { scenario, functions: &Functions::default() };
    asked(input, workflows).map(|asked| asked.guarded_tasks()).fold(0, u64::saturating_add)
}

fn asked<'g>(
    input: BoundInput<'g>,
    workflows: &'g [Arc<Workflow>],
) -> impl Iterator<Item = WorkflowLoad<'g>> {
    workflows.iter().enumerate().map(move |(place, w)| WorkflowLoad::new(input, place, w))
}

/// The input of a bound.
#[derive(Clone, Copy)]
struct BoundInput<'g> {
    scenario: &'g Scenario,
    functions: &'g Functions,
}

impl Deref for BoundInput<'_> {
    type Target = Scenario;

    fn deref(&self) -> &Scenario {
        self.scenario
    }
}

impl BoundInput<'_> {
    /// A user's own function knows its delays. Jitter at most doubles one, or a decorrelated one
    /// grows threefold from the one before.
    fn custom(&self, rule: &Rule, n: u32) -> u64 {
        let nominal = rule.backoff.nominal(n, self.functions);
        nominal.saturating_mul(3).get()
    }
}

/// How long one task may take from healing on, or from its start after that.
fn of_task(scenario: &BoundInput<'_>, policy: &Policy, heals: bool) -> Option<Nanos> {
    let attempt = policy.attempt_timeout().or(scenario.attempt_timeout);
    let attempt = [attempt, policy.total_timeout()].into_iter().flatten().min();
    // A hung attempt is reset by healing; only endpoints that stay broken use its whole time.
    let one = ANSWER.saturating_add(attempt.unwrap_or(Nanos::ZERO));
    let one = one.saturating_add(scenario.own.as_ref().map_or(Nanos::ZERO, |o| o.longest_attempt));
    let lost = scenario.lease.saturating_mul(2);
    let held = scenario.quarantine_after.map_or(Nanos::ZERO, |_| RELEASE);
    let round = waits::wait(scenario, policy).saturating_add(one).saturating_add(lost);
    let round = round.saturating_add(held);
    if heals {
        return Some(round.saturating_mul(u64::from(LEFTOVER)));
    }
    if let Some(total) = policy.total_timeout() {
        return Some(round.saturating_add(total));
    }
    if never_answers(scenario) && attempt.is_none() {
        return None;
    }
    Some(round.saturating_mul(u64::from(most_attempts(policy)?)))
}

fn most_attempts(policy: &Policy) -> Option<u32> {
    // If each rule has a separate count, each adds its retries.
    policy
        .rules()
        .iter()
        .map(|r| r.limit.count())
        .try_fold(1_u32, |sum, n| Some(sum.saturating_add(n?)))
}

/// Whether some endpoint never answers. Faults of requests to a user's service are drawn whether or
/// not these have a timeout.
fn never_answers(scenario: &BoundInput<'_>) -> bool {
    let hangs = |reply: &Reply| *reply.last() == Reply::Hang;
    let on_the_way = |e: &EndpointPlan| is_service(e) && e.scripts.iter().flatten().any(hangs);
    scenario.endpoints.iter().any(|e| hangs(&e.then) || on_the_way(e))
}

/// Whether it is the plan of a user's service, which goes by its host.
fn is_service(plan: &EndpointPlan) -> bool {
    !plan.path.starts_with('/')
}
