//! How long after healing every run must have ended: generous, but finite.

use std::ops::Deref;
use std::sync::Arc;

use retrial::guard::{Bucket, GuardRules, RECHECK};
use retrial::policy::{Functions, Limit, Policy, Rule};
use retrial::time::Nanos;
use retrial::workflow::{Step, Target, Template, Workflow};
use serde_json::{Value, json};

use crate::evidence::Bound;
use crate::oracle::{Truth, delays, ensured};
use crate::scenario::{ENDPOINT_HOST, EndpointPlan, NodeClock, Reply, RetryAfter, Scenario};

/// For starting nodes again, noticing that the store answers, and recovering runs.
const START: Nanos = Nanos::from_secs(60);
/// For one answer of a healed endpoint, its delay included, and for claiming and committing.
const ANSWER: Nanos = Nanos::from_secs(15);
/// What one task adds where many wait for the same few hands.
const TASK: Nanos = Nanos::from_millis(500);
/// Attempts that may still go wrong once healed: the one in progress, and the one after it when
/// its node had died.
const LEFTOVER: u32 = 3;
/// The items of a list that a user's own code gives, which is known only when it does.
const ITEMS: u64 = 100;
/// How many retries the longest wait is looked for in.
const RETRIES: u32 = 64;

/// How long after healing every run of `scenario` must have ended. `workflows` are its workflow
/// texts, parsed, with the builder's policies in place; `functions` the custom backoffs that a user
/// brings.
#[must_use]
pub fn bound(scenario: &Scenario, workflows: &[Arc<Workflow>], functions: &Functions) -> Bound {
    let scenario = &Ground { scenario, functions };
    let mut longest = Nanos::ZERO;
    for workflow in workflows {
        let Some(time) = of_workflow(scenario, workflow) else { return Bound::UnboundedByPolicy };
        longest = longest.max(time);
    }
    let last = scenario.submissions.iter().map(|s| s.at).max();
    let late = last.map_or(Nanos::ZERO, |at| at.since(scenario.heal_at));
    let mut each = TASK;
    for workflow in workflows {
        let Some(time) = one_by_one(scenario, workflow) else { return Bound::UnboundedByPolicy };
        each = each.max(time);
    }
    let crowd = each.saturating_mul(tasks(scenario, workflows));
    Bound::Within(START.saturating_add(late).saturating_add(crowd).saturating_add(longest))
}

/// What a bound is computed from.
struct Ground<'g> {
    scenario: &'g Scenario,
    functions: &'g Functions,
}

impl Deref for Ground<'_> {
    type Target = Scenario;

    fn deref(&self) -> &Scenario {
        self.scenario
    }
}

impl Ground<'_> {
    /// A user's own function knows its delays. Jitter at most doubles one, or a decorrelated one
    /// grows threefold from the one before.
    fn custom(&self, rule: &Rule, n: u32) -> u64 {
        let nominal = rule.backoff.nominal(n, self.functions);
        nominal.saturating_mul(3).get()
    }
}

/// The steps one after another; `None` when one may never end.
fn of_workflow(scenario: &Ground<'_>, workflow: &Workflow) -> Option<Nanos> {
    let mut total = Nanos::ZERO;
    for step in workflow.steps() {
        let heals = scenario.endpoints_heal && heals(scenario, workflow, step);
        let task = of_task(scenario, &step.policy, heals)?;
        // Compensations come one after another.
        let items = if step.compensates.is_some() { longest_list(scenario, workflow) } else { 1 };
        total = total.saturating_add(task.saturating_mul(items));
    }
    // An alert that the last failure raises is told after that, in a run of its own.
    for webhook in workflow.actions().values().filter_map(|action| action.webhook.as_ref()) {
        // A user's own may go on failing for as long as it is tried.
        let heals = scenario.endpoints_heal && scenario.own.is_none();
        let task = of_task(scenario, webhook.policy(), heals)?;
        total = total.saturating_add(task);
    }
    Some(total)
}

/// How long the tasks of a guarded action may take, each after the other; none where no action is
/// guarded.
fn one_by_one(scenario: &Ground<'_>, workflow: &Workflow) -> Option<Nanos> {
    let guarded = |step: &&Step| {
        let of_action = workflow.actions().get(&step.action).map(|a| !a.guard.is_empty());
        of_action.unwrap_or(false) || step.policy.budget().is_some()
    };
    let mut times = workflow.steps().iter().filter(guarded).map(|step| {
        let heals = scenario.endpoints_heal && heals(scenario, workflow, step);
        let task = of_task(scenario, &step.policy, heals)?;
        let attempts = if heals { LEFTOVER } else { most_attempts(&step.policy)? };
        let held = workflow.actions().get(&step.action).map_or(Nanos::ZERO, |a| held(&a.guard));
        Some(task.saturating_add(held.saturating_mul(u64::from(attempts))))
    });
    times.try_fold(Nanos::ZERO, |longest, time| Some(longest.max(time?)))
}

/// How long a guard may hold an attempt back that is next in line.
fn held(guard: &GuardRules) -> Nanos {
    let breaker = guard.breaker.map_or(Nanos::ZERO, |breaker| breaker.open());
    let rate = guard.rate.map_or(Nanos::ZERO, |rate| rate.per());
    // Time alone refills what is waited for by one retry a second.
    RECHECK.saturating_add(Bucket::TRICKLE).saturating_add(breaker).saturating_add(rate)
}

/// Whether what the step's endpoint answers once healed is what the step ensures. A user's own code
/// is waited for only where nothing else ends the task.
fn heals(scenario: &Ground<'_>, workflow: &Workflow, step: &Step) -> bool {
    let scripted = scripted(scenario, workflow, step);
    if scenario.own.is_some() && scripted.is_none() {
        // A user's own code may go on failing for as long as it is tried.
        return most_attempts(&step.policy).is_none();
    }
    let Some(ensures) = &step.ensures else { return true };
    let Some(plan) = scripted else { return false };
    let answer = match plan.then.last() {
        Reply::Ok(body) => body.clone(),
        _ => json!({"success": true}),
    };
    ensured(ensures, workflow.input(), &answer) == Truth::Yes
}

/// The scripted endpoint that the step asks; none where it is a function or a user's service.
fn scripted<'s>(
    scenario: &'s Ground<'_>,
    workflow: &Workflow,
    step: &Step,
) -> Option<&'s EndpointPlan> {
    let Target::Http(at) = &workflow.actions().get(&step.action)?.target else { return None };
    let path = at.url.strip_prefix("http://")?.strip_prefix(ENDPOINT_HOST)?;
    scenario.endpoints.iter().find(|e| e.path == path)
}

/// How long one task may take from healing on, or from its start after that.
fn of_task(scenario: &Ground<'_>, policy: &Policy, heals: bool) -> Option<Nanos> {
    let attempt = [policy.attempt_timeout(), policy.total_timeout()].into_iter().flatten().min();
    // A hung attempt is reset by healing; only endpoints that stay broken use its whole time.
    let one = ANSWER.saturating_add(attempt.unwrap_or(Nanos::ZERO));
    let one = one.saturating_add(scenario.own.as_ref().map_or(Nanos::ZERO, |o| o.longest_attempt));
    let lost = scenario.lease.saturating_mul(2);
    let round = wait(scenario, policy).saturating_add(one).saturating_add(lost);
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
    // With a count of its own each rule adds its retries (X4).
    policy
        .rules()
        .iter()
        .map(|r| r.limit.count())
        .try_fold(1_u32, |sum, n| Some(sum.saturating_add(n?)))
}

/// Whether some endpoint goes on without ever answering. What befalls requests on their way to a
/// user's service is drawn whether or not they are limited in time.
fn never_answers(scenario: &Ground<'_>) -> bool {
    let hangs = |reply: &Reply| *reply.last() == Reply::Hang;
    let on_the_way = |e: &EndpointPlan| is_service(e) && e.scripts.iter().flatten().any(hangs);
    scenario.endpoints.iter().any(|e| hangs(&e.then) || on_the_way(e))
}

/// Whether it is the plan of a user's service, which goes by its host.
fn is_service(plan: &EndpointPlan) -> bool {
    !plan.path.starts_with('/')
}

/// The longest wait before any retry: by the policy, or asked for and obeyed.
fn wait(scenario: &Ground<'_>, policy: &Policy) -> Nanos {
    let by_rule = policy.rules().iter().map(|rule| {
        let longest = longest_of(rule, RETRIES, |n| scenario.custom(rule, n));
        if rule.limit == Limit::Unlimited { longest.min(elapsed(scenario)) } else { longest }
    });
    // What a user's own service asks for is known only when it does.
    let own = scenario.endpoints.iter().any(is_service).then(|| policy.max_retry_after());
    by_rule.chain(asked(scenario, policy.max_retry_after())).chain(own).max().unwrap_or(Nanos::ZERO)
}

/// The longest delay of the retries that the rule allows, of `endless` where their number has no
/// limit. They grow with n, so a few early ones and the last say it all; a decorrelated one grows from
/// the one before.
fn longest_of(rule: &Rule, endless: u32, custom: impl Fn(u32) -> u64) -> Nanos {
    let retries = rule.limit.count().map_or(endless, |n| n - 1);
    let mut longest = Nanos::ZERO;
    for n in (1..=retries.min(RETRIES)).chain([retries.max(1)]) {
        let high = delays(rule, n, Some(longest)).map_or_else(|| custom(n), |d| saturated(d.high));
        longest = longest.max(Nanos::new(high));
    }
    longest
}

/// The longest that the workflow's policies wait in the first few retries that come after healing,
/// custom backoffs left aside.
pub(super) fn patience(workflow: &Workflow) -> Nanos {
    let rules = workflow.steps().iter().flat_map(|step| step.policy.rules());
    rules.map(|rule| longest_of(rule, LEFTOVER, |_| 0)).max().unwrap_or(Nanos::ZERO)
}

/// Without a cap an unlimited policy's delays grow for as long as faults last: each is at most a
/// few times the ones that have passed. The factor leaves room for small draws of full jitter.
fn elapsed(scenario: &Ground<'_>) -> Nanos {
    START.saturating_add(Nanos::new(scenario.heal_at.as_nanos()).saturating_mul(64))
}

fn saturated(n: u128) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// What replies ask for, as far as it is obeyed: a wait longer than `most` ends the task instead.
/// A date without its own `Date` is read against a clock that may be wrong, so it may come out as
/// anything up to its worst.
fn asked(scenario: &Ground<'_>, most: Nanos) -> impl Iterator<Item = Nanos> {
    let wrong = scenario.clocks.iter().map(how_wrong).max().unwrap_or(Nanos::ZERO);
    scenario.replies().filter_map(move |reply| match reply.last() {
        Reply::Status { retry_after: Some(after), .. } => match after {
            RetryAfter::Seconds(s) => Some(Nanos::from_secs(*s)).filter(|wait| *wait <= most),
            RetryAfter::Date { secs, own_date } => {
                // Dates are whole seconds, so either end may be rounded.
                let wait = u64::try_from(*secs).unwrap_or(0).saturating_add(2);
                let clock = if *own_date { Nanos::ZERO } else { wrong };
                Some(Nanos::from_secs(wait).saturating_add(clock).min(most))
            }
            RetryAfter::Text(_) => None,
        },
        _ => None,
    })
}

/// The farthest that a wall clock may be from the truth.
fn how_wrong(clock: &NodeClock) -> Nanos {
    let jumps = clock.jumps.iter().map(|j| j.by_ns.unsigned_abs());
    Nanos::new(jumps.fold(clock.skew_ns.unsigned_abs(), u64::saturating_add))
}

/// The most items that a step of the workflow fans out over, going by the lists in inputs, in the
/// workflow itself and in scripted answers.
fn longest_list(scenario: &Ground<'_>, workflow: &Workflow) -> u64 {
    let submitted = scenario.submissions.iter().flat_map(|s| s.input.values());
    let steps = || workflow.steps().iter();
    let written = steps().flat_map(|s| [s.for_each.as_ref(), Some(&s.args)]);
    let answered = scenario.replies().filter_map(|reply| match reply.last() {
        Reply::Ok(body) => Some(body),
        _ => None,
    });
    let values = workflow.input().values().chain(submitted).chain(answered);
    let values = values.chain(written.flatten().map(Template::raw));
    let known = values.map(longest_within).max().unwrap_or(1).max(1);
    let of_result = |step: &Step| {
        let raw = step.for_each.as_ref().map(Template::raw);
        raw.and_then(Value::as_str).is_some_and(|text| !text.starts_with("${input."))
    };
    match scenario.own.is_some() && steps().any(of_result) {
        true => known.max(ITEMS),
        false => known,
    }
}

/// The length of the longest list in a value.
fn longest_within(value: &Value) -> u64 {
    match value {
        Value::Array(items) => {
            let below = items.iter().map(longest_within).max().unwrap_or(0);
            below.max(items.len() as u64)
        }
        Value::Object(fields) => fields.values().map(longest_within).max().unwrap_or(0),
        _ => 0,
    }
}

/// About how many tasks there are in all.
fn tasks(scenario: &Ground<'_>, workflows: &[Arc<Workflow>]) -> u64 {
    let counts = scenario.submissions.iter().filter_map(|s| {
        let workflow = workflows.get(s.workflow)?;
        Some(workflow.steps().len() as u64 * longest_list(scenario, workflow))
    });
    counts.sum()
}
