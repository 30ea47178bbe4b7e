//! Alerts of error budgets: the events that record them, and the runs that call webhooks.
//!
//! Only the store knows when an alert is raised, and the run's events must record it. So a commit lists
//! its alerts, and the store accepts it only if it raises exactly these; otherwise the lane drafts it
//! again with the alerts that the store returned. The same transaction adds the run that calls the
//! webhook, under an id derived from the attempt.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::lanes::{Expectation, Message};
use super::node::Node;
use super::submit::{Submission, creation};
use super::{Config, World};
use crate::dialect;
use crate::guard::Alert;
use crate::run::{Impossible, Input, Recorded, RunId, RunState, TaskId, Version};
use crate::store::{Create, Raised};
use crate::time::Timestamp;

/// A run that a commit adds.
pub(super) struct NewRun {
    state: RunState,
    events: Vec<Recorded>,
    pub(super) create: Create,
}

/// The lanes of runs that a commit may add. Each waits for its run's state.
pub(super) type Expected = BTreeMap<RunId, Arc<Expectation>>;

/// Whether `raised` is about the attempt whose end `message` brings.
pub(super) fn is_about(raised: &Raised, message: &Message) -> bool {
    match message {
        Message::Ended { token, .. } | Message::Expired { token, .. } => {
            *token == raised.attempt.token
        }
        _ => false,
    }
}

/// The input that records `raised`, and the run that calls the webhook.
pub(super) fn input_of(
    state: &RunState,
    raised: &Raised,
    now: Timestamp,
    config: &Config,
) -> Result<(Input, Option<NewRun>), Impossible> {
    let Raised { attempt, alert } = *raised;
    let new_run = new_run(state, raised, now, config)?;
    let webhook = new_run.as_ref().map(|new_run| new_run.state.id());
    Ok((Input::Burnt { task: attempt.task, token: attempt.token, alert, webhook }, new_run))
}

fn new_run(
    state: &RunState,
    Raised { attempt, alert }: &Raised,
    now: Timestamp,
    config: &Config,
) -> Result<Option<NewRun>, Impossible> {
    let declared = state.workflow().step(attempt.task.step).map(|step| &step.action);
    let webhook = declared.and_then(|action| {
        let webhook = state.workflow().actions().get(action)?.webhook.as_ref()?;
        Some((action, webhook.workflow(action)?))
    });
    let Some((action, workflow)) = webhook else { return Ok(None) };
    let workflow = Arc::new(workflow);
    let input = arguments(state, attempt.task, action, alert);
    let digest = Submission::new(Arc::clone(&workflow)).with_input(input.clone()).digest();
    let (id, seed) = attempt.token.telling(alert.threshold);
    let (state, events) = RunState::create(id, seed, workflow, input, now)?;
    let create = creation(&state, &events, digest, config);
    Ok(Some(NewRun { state, events, create }))
}

/// What the webhook is called with. Shares are of the budget.
fn arguments(state: &RunState, task: TaskId, action: &str, alert: &Alert) -> Map<String, Value> {
    let step = state.workflow().step(task.step).map(|step| step.id.as_str());
    let Alert { threshold, burnt, failures, calls } = *alert;
    let arguments = json!({
        "action": action,
        "threshold": share(threshold),
        "burnt": share(burnt),
        "failures": failures,
        "calls": calls,
        "run": state.id().to_string(),
        "workflow": state.workflow().name(),
        "step": step,
    });
    match arguments {
        Value::Object(arguments) => arguments,
        _ => Map::new(),
    }
}

/// Millionths as a JSON number, written exactly.
fn share(millionths: u64) -> Value {
    serde_json::from_str(&dialect::millionths(millionths)).unwrap_or_default()
}

impl<W: World> Node<W> {
    /// Begins the lanes of runs that are about to be added.
    pub(super) fn expect_all(self: &Arc<Self>, new_runs: &[NewRun], expected: &mut Expected) {
        for id in new_runs.iter().map(|new_run| new_run.state.id()) {
            if !expected.contains_key(&id)
                && let Some(expectation) = self.expect(id)
            {
                expected.insert(id, expectation);
            }
        }
    }

    /// Announces new runs, which are durable now: to observers first, then to their lanes.
    pub(super) fn announce(&self, new_runs: Vec<NewRun>, mut expected: Expected) {
        for NewRun { state, events, create } in new_runs {
            let (id, workflow) = (state.id(), Arc::clone(state.workflow()));
            self.tell(id, &workflow, Version::START, &events);
            if let Some(expectation) = expected.remove(&id) {
                self.fulfil(&expectation, state);
            }
            self.wake_for(&create.queue);
        }
    }
}
