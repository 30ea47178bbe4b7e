//! One task's part of a run's history.

use std::collections::BTreeMap;

use retrial::failure::{Failure, RetryKind};
use retrial::policy::Rule;
use retrial::run::{Event, TaskId};
use retrial::time::{Nanos, Timestamp};
use retrial::workflow::{BodyForm, Endpoint, Step, StepIx, Target, Workflow};
use serde_json::{Map, Value};

use super::policy_model;
use crate::evidence::{Arrival, RunEvidence};

/// One event with its number.
#[derive(Clone, Copy)]
pub(super) struct Entry<'e> {
    pub(super) number: u64,
    pub(super) at: Timestamp,
    pub(super) event: &'e Event,
}

impl Entry<'_> {
    /// The event in a finding's words: number, name, task and attempt. Never its payload.
    pub(super) fn show(&self) -> String {
        let mut text = format!("#{} {}", self.number, self.event.name());
        if let Some(task) = self.event.task() {
            text += &format!(" {task}");
        }
        if let Some(attempt) = attempt_of(self.event) {
            text += &format!(" attempt {attempt}");
        }
        text + &format!(" at {}", self.at)
    }
}

/// The attempt that an event is about, if it is about one.
pub(super) fn attempt_of(event: &Event) -> Option<u32> {
    match event {
        Event::AttemptStarted { attempt, .. }
        | Event::TaskHeld { attempt, .. }
        | Event::TaskQuarantined { attempt, .. }
        | Event::TaskReleased { attempt, .. }
        | Event::CostReported { attempt, .. }
        | Event::AttemptFailed { attempt, .. }
        | Event::RetryScheduled { attempt, .. }
        | Event::ErrorBudgetBurnt { attempt, .. }
        | Event::TaskSucceeded { attempt, .. } => Some(*attempt),
        Event::TaskFailed { attempts, .. } => Some(*attempts),
        _ => None,
    }
}

/// Every kept event of a run, with its number.
pub(super) fn entries(run: &RunEvidence) -> impl Iterator<Item = Entry<'_>> {
    let first = run.first.0;
    run.events.iter().zip(first..).map(|(r, number)| Entry { number, at: r.at, event: &r.event })
}

/// What was submitted, and for the rest what the workflow says.
pub(super) fn asked_input(run: &RunEvidence) -> Map<String, Value> {
    let mut input = run.workflow.input().clone();
    input.extend(run.input.clone().unwrap_or_default());
    input
}

/// The input of a run; `None` if its first events are trimmed.
pub(super) fn input_of(run: &RunEvidence) -> Option<&Map<String, Value>> {
    match &run.events.first()?.event {
        Event::RunCreated { input, .. } => Some(input),
        _ => None,
    }
}

/// Where requests of this step go; none where its action is a function.
pub(super) fn endpoint_of(workflow: &Workflow, step: StepIx) -> Option<&Endpoint> {
    match &workflow.actions().get(&workflow.step(step)?.action)?.target {
        Target::Http(endpoint) => Some(endpoint),
        Target::Registered => None,
    }
}

/// Whether requests of this step carry no arguments in a body: those of GET and HEAD have none, and
/// those of DELETE only where the action says so.
pub(super) fn is_bare(workflow: &Workflow, step: StepIx) -> bool {
    let endpoint = endpoint_of(workflow, step);
    endpoint.is_some_and(|endpoint| match endpoint.method.as_str() {
        "GET" | "HEAD" => true,
        "DELETE" => endpoint.body.is_none(),
        _ => false,
    })
}

/// Whether a request of this step carried `args`, as far as its method lets it.
pub(super) fn carried(
    workflow: &Workflow,
    step: StepIx,
    arrival: &Arrival,
    args: Option<&Value>,
) -> bool {
    if is_bare(workflow, step) {
        return arrival.body.is_empty();
    }
    let endpoint = endpoint_of(workflow, step);
    // A form does not say which of its texts were numbers.
    if endpoint.is_some_and(|endpoint| endpoint.body == Some(BodyForm::Form)) {
        return true;
    }
    let sent: Option<Value> = serde_json::from_slice(&arrival.body).ok();
    let mut args = args.cloned();
    if let (Some(endpoint), Some(Value::Object(args))) = (endpoint, &mut args) {
        args.retain(|name, _| !endpoint.url.contains(&format!("${{args.{name}}}")));
    }
    sent == args
}

/// One task's events.
pub(super) struct TaskHistory<'e> {
    pub(super) run: &'e RunEvidence,
    pub(super) task: TaskId,
    pub(super) step: &'e Step,
    pub(super) entries: Vec<Entry<'e>>,
    /// Whether nothing before was trimmed away.
    pub(super) whole: bool,
}

/// Every task that has an event. Holds, costs and quarantine are left out: separate oracles judge
/// these.
pub(super) fn tasks(run: &RunEvidence) -> Vec<TaskHistory<'_>> {
    let mut by_task: BTreeMap<TaskId, Vec<Entry<'_>>> = BTreeMap::new();
    for entry in entries(run).filter(|e| !is_aside(e.event)) {
        if let Some(task) = entry.event.task() {
            by_task.entry(task).or_default().push(entry);
        }
    }
    let whole = run.first.0 == 0;
    let history = |(task, entries): (TaskId, _)| {
        let step = run.workflow.step(task.step)?;
        Some(TaskHistory { run, task, step, entries, whole })
    };
    by_task.into_iter().filter_map(history).collect()
}

fn is_aside(event: &Event) -> bool {
    matches!(
        event,
        Event::TaskHeld { .. }
            | Event::TaskQuarantined { .. }
            | Event::TaskReleased { .. }
            | Event::CostReported { .. }
    )
}

/// What a run records that an attempt cost.
#[derive(Clone, Copy)]
pub(super) struct ReportedCost {
    /// Of the event.
    pub(super) number: u64,
    pub(super) millionths: u64,
}

/// The costs of a task's attempts. Of several for one attempt, the first counts.
pub(super) fn reported_costs(run: &RunEvidence, of: TaskId) -> BTreeMap<u32, ReportedCost> {
    let mut costs = BTreeMap::new();
    for entry in entries(run) {
        if let Event::CostReported { task, attempt, cost } = entry.event
            && *task == of
        {
            let reported = ReportedCost { number: entry.number, millionths: cost.millionths() };
            costs.entry(*attempt).or_insert(reported);
        }
    }
    costs
}

/// A retry and the failure that it follows.
pub(super) struct Retry<'e> {
    pub(super) failed: Entry<'e>,
    pub(super) failure: &'e Failure,
    pub(super) scheduled: Entry<'e>,
    /// The attempt to come.
    pub(super) attempt: u32,
    pub(super) delay: Nanos,
    pub(super) backoff: Nanos,
    pub(super) kind: RetryKind,
    pub(super) code: &'e str,
    /// The rule that the event says it counts against.
    pub(super) rule: Option<u32>,
    /// The backoff of the retry before this one.
    pub(super) previous: Option<Nanos>,
    /// The rule that governs, as the model says, with its place.
    pub(super) governs: Option<(usize, &'e Rule)>,
    /// The attempts that count against that rule; `None` if they are trimmed.
    pub(super) count: Option<u32>,
}

/// A failed attempt and what the task had used up by then.
pub(super) struct Failed<'e> {
    pub(super) entry: Entry<'e>,
    pub(super) failure: &'e Failure,
    pub(super) attempt: u32,
    pub(super) will_retry: bool,
    /// Retries that timeouts had caused before.
    pub(super) timeout_retries: u32,
    /// The places of the rules that had caused its retries, as the model says.
    pub(super) causes: Vec<usize>,
    pub(super) previous: Option<Nanos>,
}

impl<'e> TaskHistory<'e> {
    /// When the first attempt started, if that is still known.
    pub(super) fn first_started(&self) -> Option<Timestamp> {
        self.entries.iter().find_map(|e| match e.event {
            Event::AttemptStarted { attempt: 1, .. } => Some(e.at),
            _ => None,
        })
    }

    /// The end of the total timeout, if there is one and the first start is known.
    pub(super) fn deadline(&self) -> Option<Timestamp> {
        Some(self.first_started()?.after(self.step.policy.total_timeout()?))
    }

    /// Every retry with a failure that is kept.
    pub(super) fn retries(&self) -> Vec<Retry<'e>> {
        let policy = &self.step.policy;
        let mut last: Option<(Entry<'e>, &'e Failure)> = None;
        let (mut previous, mut causes) = (None, Vec::new());
        let mut found = Vec::new();
        for entry in &self.entries {
            match entry.event {
                Event::AttemptFailed { failure, .. } => last = Some((*entry, failure)),
                Event::RetryScheduled { attempt, delay, backoff, kind, code, rule, .. } => {
                    let before = last.take();
                    let governs =
                        before.and_then(|(_, failure)| policy_model::rule(policy, failure));
                    let known = self.whole || policy.counting().is_shared();
                    let made = attempt.saturating_sub(1).max(1);
                    let count = governs.filter(|_| known);
                    let count =
                        count.map(|(at, _)| policy_model::counted(policy, at, made, &causes));
                    found.extend(before.map(|(failed, failure)| Retry {
                        failed,
                        failure,
                        scheduled: *entry,
                        attempt: *attempt,
                        delay: *delay,
                        backoff: *backoff,
                        kind: *kind,
                        code: code.as_str(),
                        rule: *rule,
                        previous,
                        governs,
                        count,
                    }));
                    causes.extend(governs.map(|(at, _)| at));
                    previous = Some(*backoff);
                }
                _ => {}
            }
        }
        found
    }

    /// Every failed attempt that is kept.
    pub(super) fn failed(&self) -> Vec<Failed<'e>> {
        let (mut timeout_retries, mut previous, mut causes) = (0, None, Vec::new());
        let mut last = None;
        let mut found = Vec::new();
        for entry in &self.entries {
            match entry.event {
                Event::AttemptFailed { failure, attempt, will_retry, .. } => {
                    last = Some(failure);
                    found.push(Failed {
                        entry: *entry,
                        failure,
                        attempt: *attempt,
                        will_retry: *will_retry,
                        timeout_retries,
                        causes: causes.clone(),
                        previous,
                    });
                }
                Event::RetryScheduled { kind, backoff, .. } => {
                    let cause = last.and_then(|f| policy_model::rule(&self.step.policy, f));
                    causes.extend(cause.map(|(at, _)| at));
                    timeout_retries += u32::from(*kind == RetryKind::Timeout);
                    previous = Some(*backoff);
                }
                _ => {}
            }
        }
        found
    }

    /// The start of `attempt`.
    pub(super) fn start_of(&self, attempt: u32) -> Option<Entry<'e>> {
        self.entries
            .iter()
            .copied()
            .find(|e| matches!(e.event, Event::AttemptStarted { attempt: n, .. } if *n == attempt))
    }
}
