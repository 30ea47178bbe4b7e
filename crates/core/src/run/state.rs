use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::task::Counts;
use super::{Cost, Outcome, RunId, TaskId, TaskState, TaskTime, Version};
use crate::failure::ErrorContext;
use crate::guard::Bucket;
use crate::time::Timestamp;
use crate::workflow::{StepIx, Workflow, written};

/// A run's state: the fold of its events. Its size is O(tasks), never O(attempts).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunState {
    pub(super) id: RunId,
    pub(super) seed: u64,
    #[serde(serialize_with = "written::serialize")]
    pub(super) workflow: Arc<Workflow>,
    pub(super) input: Arc<Value>,
    pub(super) version: Version,
    pub(super) last_at: Timestamp,
    pub(super) phase: Phase,
    /// Why no retry starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) paused: Option<String>,
    pub(super) steps: Vec<StepState>,
    /// The succeeded tasks that a rollback would still have to undo, in the order in which they
    /// succeeded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) undo: Vec<TaskId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rollback: Option<Box<RollbackState>>,
    /// Results live once, in the store's results table; the state holds their digests.
    #[serde(skip)]
    pub(super) results: BTreeMap<TaskId, Arc<Value>>,
}

/// Whether a run goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Work is left.
    Running,
    /// Recovery and claiming skip the run; attempts in progress may still end.
    Deactivated,
    /// The run has ended; no event follows.
    Ended(Outcome),
}

/// The state of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepState {
    /// How far it is.
    pub phase: StepPhase,
    /// Its tasks by item; empty before it is entered.
    pub tasks: Vec<TaskState>,
    /// Of its tasks, so that nobody looks at all of them after each event.
    #[serde(skip)]
    pub(super) counts: Counts,
    /// The item of the task that failed for good first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_failed: Option<u32>,
    /// Its own final failure.
    pub error: Option<ErrorContext>,
    /// Its branch's `_last_error`.
    pub last_error: Option<ErrorContext>,
    /// Whether a transition into it was taken.
    pub routed: bool,
    /// Whether its branch began with a failure's handler.
    pub handling: bool,
    /// The budget of its tasks' retries, where they share one of their own.
    #[serde(default, skip_serializing_if = "Bucket::is_new")]
    pub budget: Bucket,
    /// The number of the event that ended it, once tasks or a failure of its own have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Version>,
    /// Where the edge that was taken at its end leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub led_to: Option<StepIx>,
}

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepPhase {
    /// Not entered.
    Waiting,
    /// Its tasks run or wait.
    Active,
    /// As many of its tasks succeeded as must.
    Succeeded,
    /// Too many of its tasks failed for good.
    Failed,
    /// A failure before it keeps it from starting.
    Unreachable,
    /// A branch that was not taken leads to it.
    Skipped,
}

/// A run's rollback, from its start on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RollbackState {
    /// How the run ends once it is rolled back.
    pub outcome: Outcome,
    /// Compensations that succeeded.
    pub compensated: u32,
    /// Compensations that failed for good.
    pub failed: u32,
    /// Whether everything that had to be compensated was; `None` while it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete: Option<bool>,
}

impl RollbackState {
    pub(super) fn new(outcome: Outcome) -> Self {
        Self { outcome, compensated: 0, failed: 0, complete: None }
    }
}

impl StepState {
    pub(super) fn new() -> Self {
        Self {
            phase: StepPhase::Waiting,
            tasks: Vec::new(),
            counts: Counts::default(),
            first_failed: None,
            error: None,
            last_error: None,
            routed: false,
            handling: false,
            budget: Bucket::default(),
            ended: None,
            led_to: None,
        }
    }
}

impl RunState {
    pub(super) fn before_creation(id: RunId, workflow: Arc<Workflow>) -> Self {
        Self {
            id,
            seed: 0,
            steps: vec![StepState::new(); workflow.steps().len()],
            workflow,
            undo: Vec::new(),
            rollback: None,
            input: Arc::default(),
            version: Version::START,
            last_at: Timestamp::default(),
            phase: Phase::Running,
            paused: None,
            results: BTreeMap::new(),
        }
    }

    /// The run's id.
    #[must_use]
    pub fn id(&self) -> RunId {
        self.id
    }

    /// Where the run's chance comes from.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The definition.
    #[must_use]
    pub fn workflow(&self) -> &Arc<Workflow> {
        &self.workflow
    }

    /// The input of the run.
    #[must_use]
    pub fn input(&self) -> &Value {
        &self.input
    }

    /// How many events are folded in.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// The last event's time.
    #[must_use]
    pub fn last_at(&self) -> Timestamp {
        self.last_at
    }

    /// Whether the run goes on.
    #[must_use]
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// The run's rollback, once one has begun.
    #[must_use]
    pub fn rollback(&self) -> Option<&RollbackState> {
        self.rollback.as_deref()
    }

    /// How the run ended, if it has.
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        match &self.phase {
            Phase::Ended(outcome) => Some(outcome),
            Phase::Running | Phase::Deactivated => None,
        }
    }

    /// Where each step stands, in text order.
    #[must_use]
    pub fn steps(&self) -> &[StepState] {
        &self.steps
    }

    /// Where a task stands, if it exists.
    #[must_use]
    pub fn task(&self, task: TaskId) -> Option<&TaskState> {
        self.steps.get(task.step.index())?.tasks.get(task.item as usize)
    }

    /// Every task, by step and item.
    pub fn tasks(&self) -> impl Iterator<Item = (TaskId, &TaskState)> {
        self.workflow.places().zip(&self.steps).flat_map(|(step, state)| {
            let items = 0..u32::try_from(state.tasks.len()).unwrap_or(u32::MAX);
            items.zip(&state.tasks).map(move |(item, task)| (TaskId { step, item }, task))
        })
    }

    /// The cost that all its attempts reported.
    #[must_use]
    pub fn cost(&self) -> Cost {
        self.tasks().map(|(_, task)| task.cost).sum()
    }

    /// The time that all its tasks have spent so far.
    #[must_use]
    pub fn spent(&self) -> TaskTime {
        self.tasks().fold(TaskTime::default(), |sum, (_, task)| sum.and(task.spent()))
    }

    /// Whether every part speaks of the same steps: bytes from outside may not.
    pub(super) fn is_sound(&self) -> bool {
        self.steps.len() == self.workflow.steps().len()
    }
}
