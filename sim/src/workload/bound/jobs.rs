//! The work of the runs of one workflow, and how long it takes.

use hyper::Method;
use retrial::guard::{Bucket, GuardRules, RECHECK};
use retrial::policy::Policy;
use retrial::time::Nanos;
use retrial::workflow::{Action, Condition, Endpoint, Step, Target, Workflow};
use serde_json::{Map, Value};

use super::lists::longest_list;
use super::{BoundInput, LEFTOVER, most_attempts, of_task};
use crate::endpoint::{Route, as_received, upwards};
use crate::oracle::{Truth, body_of, ensured, looks_at, succeeds};
use crate::scenario::{ENDPOINT_HOST, EndpointPlan, Reply};

/// The most attempts of a task that are counted on to raise alerts: each must burn down first what
/// lowers them again.
const MANY: u32 = 64;

/// A workflow, and the inputs of its runs.
pub(super) struct WorkflowLoad<'g> {
    input: BoundInput<'g>,
    workflow: &'g Workflow,
    /// Of each run, the workflow's defaults filled in.
    inputs: Vec<Map<String, Value>>,
    /// The most items that a step fans out over.
    items: u64,
}

/// The tasks of a step, or those that tell of an action's alerts.
struct Job<'g> {
    policy: &'g Policy,
    guard: Option<&'g GuardRules>,
    /// Whether an attempt does well once all has healed.
    heals: bool,
    /// How many run one after another, even without guards.
    in_turn: u64,
    /// About how many tasks a run makes of it.
    tasks: u64,
}

impl<'g> WorkflowLoad<'g> {
    /// The workflow at `place` of the scenario's.
    pub(super) fn new(input: BoundInput<'g>, place: usize, workflow: &'g Workflow) -> Self {
        let asked = input.scenario.submissions.iter().filter(|s| s.workflow == place);
        let inputs: Vec<_> = asked
            .map(|submission| {
                let mut input = workflow.input().clone();
                input.extend(submission.input.clone());
                input
            })
            .collect();
        let items = longest_list(&input, workflow.steps(), &inputs);
        Self { input, workflow, inputs, items }
    }

    fn jobs(&self) -> impl Iterator<Item = Job<'g>> {
        let of_steps = self.workflow.steps().iter().map(|step| self.of_step(step));
        of_steps
            .chain(self.workflow.actions().iter().filter_map(|(name, a)| self.of_alerts(name, a)))
    }

    fn of_step(&self, step: &'g Step) -> Job<'g> {
        let action = self.action(step);
        Job {
            policy: &step.policy,
            guard: action.map(|action| &action.guard),
            heals: self.heals(action, &step.policy, step.ensures.as_ref()),
            // Compensations come one after another.
            in_turn: if step.compensates.is_some() { self.items } else { 1 },
            tasks: self.tasks_of(step),
        }
    }

    /// Any attempt of the action may raise all of its alerts.
    fn of_alerts(&self, name: &str, action: &'g Action) -> Option<Job<'g>> {
        let webhook = action.webhook.as_ref()?;
        let steps = self.workflow.steps().iter().filter(|step| step.action == name);
        let attempts = steps.map(|step| {
            let of_task = most_attempts(&step.policy).unwrap_or(MANY).min(MANY);
            self.tasks_of(step).saturating_mul(u64::from(of_task))
        });
        let attempts = attempts.fold(0, u64::saturating_add);
        let alerts = action.guard.error_budget.as_ref().map_or(0, |budget| budget.alerts().len());
        Some(Job {
            policy: webhook.policy(),
            guard: Some(&webhook.action().guard),
            heals: self.heals(Some(webhook.action()), webhook.policy(), None),
            in_turn: 1,
            tasks: attempts.saturating_mul(alerts as u64),
        })
    }

    fn tasks_of(&self, step: &Step) -> u64 {
        if step.for_each.is_some() || step.compensates.is_some() { self.items } else { 1 }
    }

    fn action(&self, step: &Step) -> Option<&'g Action> {
        self.workflow.actions().get(&step.action)
    }

    /// The steps one after another, and then the alerts: the last failure may raise one, and a
    /// separate run delivers it. `None` when a task may never end.
    pub(super) fn one_after_another(&self) -> Option<Nanos> {
        self.jobs().try_fold(Nanos::ZERO, |total, job| {
            let task = of_task(&self.input, job.policy, job.heals)?;
            Some(total.saturating_add(task.saturating_mul(job.in_turn)))
        })
    }

    /// The longest that a task keeps others waiting, which are guarded as it is or wait for its place;
    /// none where nothing is guarded and places are many, `None` where that has no end.
    pub(super) fn longest_turn(&self) -> Option<Nanos> {
        let few = self.input.scenario.places.is_some();
        let mut waited_for = self.jobs().filter(|job| few || job.is_guarded());
        waited_for.try_fold(Nanos::ZERO, |longest, job| {
            let task = of_task(&self.input, job.policy, job.heals)?;
            let total = || job.policy.total_timeout().map(|_| LEFTOVER);
            let attempts = if job.heals { Some(LEFTOVER) } else { most_attempts(job.policy) };
            let attempts = u64::from(attempts.or_else(total)?);
            let held = job.guard.map_or(Nanos::ZERO, held).saturating_mul(attempts);
            Some(longest.max(task.saturating_add(held)))
        })
    }

    /// About how many tasks its runs have in all.
    pub(super) fn tasks(&self) -> u64 {
        self.count(|_| true)
    }

    /// About how many of them guards may hold back.
    pub(super) fn guarded_tasks(&self) -> u64 {
        self.count(Job::is_guarded)
    }

    fn count(&self, such: impl Fn(&Job<'g>) -> bool) -> u64 {
        let of_one = self.jobs().filter(such).map(|job| job.tasks).fold(0, u64::saturating_add);
        of_one.saturating_mul(self.inputs.len() as u64)
    }

    /// Whether an attempt of the action does well once all has healed. A user's own code, which may
    /// go on failing for as long as it is tried, is waited for only where nothing else ends the
    /// task.
    fn heals(&self, action: Option<&Action>, policy: &Policy, ensures: Option<&Condition>) -> bool {
        if !self.input.endpoints_heal {
            return false;
        }
        let scripted = action.and_then(|action| self.scripted(action));
        if self.input.own.is_some() && scripted.is_none() {
            return most_attempts(policy).is_none() && policy.total_timeout().is_none();
        }
        let Some((endpoint, plan)) = scripted else { return ensures.is_none() };
        let healed = healed(endpoint, plan);
        let is_enough = |ensures: &Condition| match &healed {
            // Its arguments are known only at run time.
            Reply::Echo if looks_at(ensures, &|field| may_be_echoed(field)) => false,
            reply => {
                let holds = |input| ensured(ensures, input, &body_of(reply, &[])) == Truth::Yes;
                self.inputs.iter().all(holds)
            }
        };
        succeeds(&healed) && ensures.is_none_or(is_enough)
    }

    /// The scripted endpoint that the action asks; none where it is a function or a user's service.
    fn scripted<'a>(&self, action: &'a Action) -> Option<(&'a Endpoint, &'g EndpointPlan)> {
        let Target::Http(at) = &action.target else { return None };
        let path = at.url.strip_prefix("http://")?.strip_prefix(ENDPOINT_HOST)?;
        let path = path.split('?').next()?;
        let plans = &self.input.scenario.endpoints;
        let plan = upwards(path).find_map(|path| plans.iter().find(|plan| plan.path == path))?;
        Some((at, plan))
    }
}

impl Job<'_> {
    /// Whether anything may hold its tasks back: an error budget does not.
    fn is_guarded(&self) -> bool {
        let holds = |g: &GuardRules| !GuardRules { error_budget: None, ..g.clone() }.is_empty();
        self.guard.is_some_and(holds) || self.policy.budget().is_some()
    }
}

/// How long a guard may hold an attempt back that is next in line.
fn held(guard: &GuardRules) -> Nanos {
    let breaker = guard.breaker.map_or(Nanos::ZERO, |breaker| breaker.open());
    let rate = guard.rate.map_or(Nanos::ZERO, |rate| rate.per());
    // Time alone refills what is waited for by one retry a second.
    RECHECK.saturating_add(Bucket::TRICKLE).saturating_add(breaker).saturating_add(rate)
}

/// The reply of the healed endpoint to an action.
fn healed(at: &Endpoint, plan: &EndpointPlan) -> Reply {
    let reply = Route { then: plan.then.clone(), ..Route::default() }.healed();
    let method = Method::from_bytes(at.method.as_bytes()).ok();
    method.and_then(|method| as_received(&method, &reply)).unwrap_or(reply)
}

fn may_be_echoed(field: &str) -> bool {
    let mut parts = field.split('.').skip(1);
    parts.next() == Some("result") && parts.next().is_none_or(|part| part == "args")
}
