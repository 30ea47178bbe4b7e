//! Alerts of error budgets (C18): what a commit tells, and the runs that tell webhooks.
//!
//! The store alone knows when an alert is raised, and the run's events must say so. So a commit names
//! the alerts that it tells, and lands only where the store raises exactly these; otherwise it is
//! drafted again with those that the store has named. The run that tells the webhook is added in the
//! same transaction, under an id that follows from the attempt.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use super::lanes::Message;
use super::node::Node;
use super::submit::{Submission, creation};
use super::{Config, World};
use crate::dialect;
use crate::guard::Alert;
use crate::run::{Impossible, Input, Recorded, RunId, RunState, TaskId, Version};
use crate::store::{Create, Raised};
use crate::time::Timestamp;

/// A run that a commit adds.
pub(super) struct Birth {
    state: RunState,
    events: Vec<Recorded>,
    pub(super) create: Create,
}

/// The lanes of runs that a commit may add, which wait to be told.
pub(super) type Expected = BTreeMap<RunId, oneshot::Sender<RunState>>;

/// Whether `raised` is about the attempt whose end `message` brings.
pub(super) fn is_about(raised: &Raised, message: &Message) -> bool {
    match message {
        Message::Ended { token, .. } | Message::Expired { token, .. } => {
            *token == raised.attempt.token
        }
        _ => false,
    }
}

/// What `raised` means to the run, and the run that tells the webhook.
pub(super) fn telling(
    state: &RunState,
    raised: &Raised,
    now: Timestamp,
    config: &Config,
) -> Result<(Input, Option<Birth>), Impossible> {
    let Raised { attempt, alert } = *raised;
    let birth = birth(state, raised, now, config)?;
    let webhook = birth.as_ref().map(|birth| birth.state.id());
    Ok((Input::Burnt { task: attempt.task, token: attempt.token, alert, webhook }, birth))
}

fn birth(
    state: &RunState,
    Raised { attempt, alert }: &Raised,
    now: Timestamp,
    config: &Config,
) -> Result<Option<Birth>, Impossible> {
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
    Ok(Some(Birth { state, events, create }))
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
    pub(super) fn expect_all(self: &Arc<Self>, births: &[Birth], expected: &mut Expected) {
        for id in births.iter().map(|birth| birth.state.id()) {
            if !expected.contains_key(&id)
                && let Some(known) = self.expect(id)
            {
                expected.insert(id, known);
            }
        }
    }

    /// These runs are durable: tells of them before anything else of them is told.
    pub(super) fn born(&self, births: Vec<Birth>, mut expected: Expected) {
        for Birth { state, events, create } in births {
            let (id, workflow) = (state.id(), Arc::clone(state.workflow()));
            self.tell(id, &workflow, Version::START, &events);
            if let Some(known) = expected.remove(&id) {
                // Only the end of the node takes the lane away before that.
                let _ = known.send(state);
            }
            self.wake_for(&create.queue);
        }
    }
}
