//! Dead letters: the record of a task that failed for good, and the run that redrives it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Event, RunId, RunState, TaskId};
use crate::failure::{ErrorContext, Failure};
use crate::policy::GiveUp;
use crate::workflow::{MAX_VALUE, Step, StepIx, Template, Workflow, WorkflowParts};

/// The id of a dead letter. A task fails for good at most once, so run and task identify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LetterId {
    /// The run.
    pub run: RunId,
    /// The task that failed.
    pub task: TaskId,
}

/// `run/step/item`, as in `0b53…/2/0`.
impl fmt::Display for LetterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.run, self.task)
    }
}

/// A text that is not the id of a dead letter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a dead letter's name, which is written RUN/STEP/ITEM")]
pub struct NotALetter(String);

impl FromStr for LetterId {
    type Err = NotALetter;

    fn from_str(text: &str) -> Result<Self, NotALetter> {
        let wrong = || NotALetter(text.to_owned());
        let mut parts = text.splitn(3, '/');
        let mut next = || parts.next().ok_or_else(wrong);
        let run = next()?.parse().map_err(|_| wrong())?;
        let step = StepIx(next()?.parse().map_err(|_| wrong())?);
        let item = next()?.parse().map_err(|_| wrong())?;
        Ok(Self { run, task: TaskId { step, item } })
    }
}

/// A dead letter: the record of a task that failed for good. The store keeps its id, workflow and time
/// beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Letter {
    /// The step's name.
    pub step: String,
    /// The action's name.
    pub action: String,
    /// Attempts made.
    pub attempts: u32,
    /// Why it was not tried again.
    pub reason: GiveUp,
    /// The error that was routed.
    pub error: ErrorContext,
    /// The first attempt's failure; none where no attempt was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Failure>,
    /// The last attempt's failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Failure>,
    /// The arguments as they were invoked, unmasked. None where they are larger
    /// than [`Letter::MAX_PAYLOAD`] or nested deeper than [`Letter::MAX_DEPTH`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
}

impl Letter {
    /// The largest payload kept, in bytes of JSON: as large as arguments may be.
    pub const MAX_PAYLOAD: usize = MAX_VALUE;
    /// The deepest nesting kept.
    pub const MAX_DEPTH: usize = 64;

    /// The letter that `event` leaves, where it is a task's final failure. `state` has it folded
    /// in: what the arguments were made from stays as it was.
    #[must_use]
    pub fn left_by(state: &RunState, event: &Event) -> Option<(TaskId, Self)> {
        let Event::TaskFailed { task, attempts, reason, error, .. } = event else { return None };
        let (found, step) = (state.task(*task)?, state.workflow().step(task.step)?);
        let payload = state.arguments(*task).filter(is_kept);
        let letter = Self {
            step: step.id.clone(),
            action: step.action.clone(),
            attempts: *attempts,
            reason: *reason,
            error: error.clone(),
            first: found.first_failure.as_deref().cloned(),
            last: found.failure.as_deref().cloned(),
            payload,
        };
        Some((*task, letter))
    }

    /// The workflow and input of the run that tries `task` of `workflow` again: that step alone,
    /// with its action and its pinned policy, on the arguments as they were kept.
    ///
    /// # Errors
    /// When the letter has no payload, or the step can't stand alone.
    pub fn redrive(
        &self,
        workflow: &Workflow,
        task: TaskId,
    ) -> Result<(Workflow, Map<String, Value>), NotRedrivable> {
        let payload = self.payload.clone().ok_or(NotRedrivable::NoPayload)?;
        let step = workflow.step(task.step).ok_or(NotRedrivable::NoStep)?;
        let alone = |why: String| NotRedrivable::NotAlone { step: step.id.clone(), why };
        let args = Template::try_from(json!("${input.payload}"));
        let args = args.map_err(|error| alone(error.to_string()))?;
        // What it ensures goes along, as a part of each attempt; its place in the graph does not.
        let step = Step {
            args,
            goal: step.goal,
            fail_fast: step.fail_fast,
            ensures: step.ensures.clone(),
            heartbeat_timeout: step.heartbeat_timeout,
            origin: step.origin,
            ..Step::new(step.id.as_str(), step.action.as_str(), step.policy.clone())
        };
        let action = workflow.actions().get_key_value(&step.action);
        let parts = WorkflowParts {
            name: workflow.name().to_owned(),
            actions: action
                .map(|(name, action)| (name.clone(), action.clone()))
                .into_iter()
                .collect(),
            steps: vec![step],
            ..WorkflowParts::default()
        };
        let workflow = Workflow::try_from(parts).map_err(|error| alone(error.to_string()))?;
        Ok((workflow, Map::from_iter([("payload".to_owned(), payload)])))
    }
}

/// Why a dead letter's task can't be tried again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotRedrivable {
    /// Its payload was too large or too deeply nested to be stored.
    #[error("its arguments were too large or too deeply nested to keep; submit the work anew")]
    NoPayload,
    /// Its run's workflow has no such step.
    #[error("its step is not in its run's workflow")]
    NoStep,
    /// The step says what makes no sense without the steps around it.
    #[error("step `{step}` can't run alone: {why}")]
    NotAlone {
        /// The step.
        step: String,
        /// What is wrong.
        why: String,
    },
}

fn is_kept(payload: &Value) -> bool {
    is_within(payload, Letter::MAX_DEPTH) && payload.to_string().len() <= Letter::MAX_PAYLOAD
}

/// Whether `value` is nested at most `depth` deep.
fn is_within(value: &Value, depth: usize) -> bool {
    let mut inner: Box<dyn Iterator<Item = &Value>> = match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(fields) => Box::new(fields.values()),
        _ => return true,
    };
    depth > 0 && inner.all(|value| is_within(value, depth - 1))
}
