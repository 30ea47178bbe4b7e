use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Digest, Event, Impossible, Input, Outcome, Recorded, RunId, TaskId, Token, Version};
use crate::failure::{ErrorContext, Failure};
use crate::policy::Functions;
use crate::time::{Nanos, Timestamp};
use crate::workflow::{Step, StepIx, Workflow};

/// Where a run stands: the fold of its events. O(tasks), never O(attempts).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunState {
    pub(super) id: RunId,
    pub(super) seed: u64,
    pub(super) workflow: Arc<Workflow>,
    pub(super) input: Arc<Value>,
    pub(super) version: Version,
    pub(super) last_at: Timestamp,
    pub(super) phase: Phase,
    /// Why no retry starts (H17).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) paused: Option<String>,
    pub(super) steps: Vec<StepState>,
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
    /// Taken out of recovery and claiming; attempts in progress may still end (A12).
    Deactivated,
    /// Nothing can happen any more.
    Ended(Outcome),
}

/// Where a step stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepState {
    /// How far it is.
    pub phase: StepPhase,
    /// Its tasks by item; empty before it is entered.
    pub tasks: Vec<TaskState>,
    /// The item of the task that failed for good first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_failed: Option<u32>,
    /// Its own final failure.
    pub error: Option<ErrorContext>,
    /// Its branch's `_last_error` (spec decision 14).
    pub last_error: Option<ErrorContext>,
    /// Whether a transition into it was taken.
    pub routed: bool,
    /// Whether its branch began with a failure's handler.
    pub handling: bool,
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
    /// Its tasks are at work.
    Active,
    /// As many of its tasks succeeded as must.
    Succeeded,
    /// Too many of its tasks failed for good.
    Failed,
    /// A failure before it keeps it from starting.
    Unreachable,
    /// A choice before it passed it by.
    Skipped,
}

/// Where a task stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskState {
    /// How far it is.
    pub phase: TaskPhase,
    /// The attempt to come, in progress or last made, from 1.
    pub attempt: u32,
    /// When the first attempt started: the total timeout counts from here.
    pub first_started: Option<Timestamp>,
    /// Retries that timeouts have caused (R11).
    pub timeout_retries: u32,
    /// Retries that each rule has caused, by its place in the text, up to the last that caused any;
    /// empty where all rules share one count (X4).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_rule: Vec<u32>,
    /// The backoff drawn last, which the next decorrelated draw starts from.
    pub backoff: Option<Nanos>,
    /// The delay before the attempt to come or in progress.
    pub delay: Nanos,
    /// When the attempt to come, or in progress, was due.
    #[serde(default)]
    pub due: Timestamp,
    /// The first attempt's failure: what compaction keeps of a long history beside the last (X9).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_failure: Option<Box<Failure>>,
    /// The last failure. Boxed, as most tasks have none and states are copied for every commit.
    pub failure: Option<Box<Failure>>,
}

/// How far a task is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskPhase {
    /// Waits for its next attempt.
    Queued,
    /// An attempt is in progress.
    Running {
        /// Who may report its outcome.
        token: Token,
        /// The time it may take.
        timeout: Option<Nanos>,
    },
    /// Ended well.
    Succeeded {
        /// Of the result.
        digest: Digest,
    },
    /// Failed for good.
    Failed {
        /// Its own record, whatever becomes of `_last_error`.
        error: Box<ErrorContext>,
    },
    /// Called off.
    Cancelled,
}

impl StepState {
    pub(super) const fn new() -> Self {
        Self {
            phase: StepPhase::Waiting,
            tasks: Vec::new(),
            first_failed: None,
            error: None,
            last_error: None,
            routed: false,
            handling: false,
            ended: None,
            led_to: None,
        }
    }
}

impl TaskState {
    pub(super) const fn new() -> Self {
        Self {
            phase: TaskPhase::Queued,
            attempt: 1,
            first_started: None,
            timeout_retries: 0,
            by_rule: Vec::new(),
            backoff: None,
            delay: Nanos::ZERO,
            due: Timestamp::from_nanos(0),
            first_failure: None,
            failure: None,
        }
    }

    /// One more retry that the rule at `place` has caused.
    pub(super) fn count_against(&mut self, place: usize) {
        if self.by_rule.len() <= place {
            self.by_rule.resize(place + 1, 0);
        }
        if let Some(count) = self.by_rule.get_mut(place) {
            *count = count.saturating_add(1);
        }
    }

    /// Whether the task has work left.
    #[must_use]
    pub fn is_live(&self) -> bool {
        matches!(self.phase, TaskPhase::Queued | TaskPhase::Running { .. })
    }
}

impl RunState {
    /// A new run and its first events. `input` overlays the workflow's defaults key by key.
    #[must_use]
    pub fn create(
        id: RunId,
        seed: u64,
        workflow: Arc<Workflow>,
        input: Map<String, Value>,
        now: Timestamp,
    ) -> (Self, Vec<Recorded>) {
        let mut merged = workflow.input().clone();
        merged.extend(input);
        let mut state = Self::before_creation(id, Arc::clone(&workflow));
        let created = Event::RunCreated { seed, workflow, input: merged };
        let mut events = Vec::new();
        state.record(created, now, &mut events);
        state.settle(now, &mut events);
        (state, events)
    }

    fn before_creation(id: RunId, workflow: Arc<Workflow>) -> Self {
        Self {
            id,
            seed: 0,
            steps: vec![StepState::new(); workflow.steps().len()],
            workflow,
            input: Arc::default(),
            version: Version::START,
            last_at: Timestamp::default(),
            phase: Phase::Running,
            paused: None,
            results: BTreeMap::new(),
        }
    }

    /// The state that `events`, from the first, fold to.
    ///
    /// # Errors
    /// When they do not begin with a creation or one of them can't follow those before it.
    pub fn replay<'e>(
        id: RunId,
        events: impl IntoIterator<Item = &'e Recorded>,
    ) -> Result<Self, Impossible> {
        let mut events = events.into_iter().peekable();
        let Some(Event::RunCreated { workflow, .. }) = events.peek().map(|r| &r.event) else {
            return Err(Impossible {
                number: Version::START,
                event: "the first event is not run_created",
            });
        };
        let mut state = Self::before_creation(id, Arc::clone(workflow));
        for event in events {
            state.apply(event)?;
        }
        Ok(state)
    }

    /// Takes one input in: decides, applies, and goes on deciding until nothing follows. Returns
    /// the events in order; none when the input changes nothing (a stale token, an ended run).
    pub fn handle(
        &mut self,
        input: &Input,
        now: Timestamp,
        functions: &Functions,
    ) -> Vec<Recorded> {
        let mut events = Vec::new();
        let now = now.max(self.last_at).max(self.not_before(input));
        for event in decide_and_keep(self, input, now, functions) {
            self.record(event, now, &mut events);
        }
        if !events.is_empty() {
            self.settle(now, &mut events);
        }
        events
    }

    /// The store says that a claimed task is due, so it is no earlier than that, whatever the node
    /// believes: a store that was down is behind a node that was not.
    fn not_before(&self, input: &Input) -> Timestamp {
        match input {
            Input::Claimed { task, .. } => self.task(*task).map(|t| t.due).unwrap_or_default(),
            _ => Timestamp::default(),
        }
    }

    fn settle(&mut self, now: Timestamp, events: &mut Vec<Recorded>) {
        loop {
            let next = super::advance(self, now);
            if next.is_empty() {
                return;
            }
            for event in next {
                self.record(event, now, events);
            }
        }
    }

    fn record(&mut self, event: Event, now: Timestamp, events: &mut Vec<Recorded>) {
        let recorded = Recorded { at: now.max(self.last_at), event };
        let legal = self.apply(&recorded);
        debug_assert!(legal.is_ok(), "decided an impossible event: {legal:?}");
        // What is recorded is what was folded in, whatever was decided.
        if legal.is_ok() {
            events.push(recorded);
        }
    }

    /// Brings a stored result back, as read from the results table (W12).
    pub fn restore_result(&mut self, task: TaskId, result: Arc<Value>) {
        self.results.insert(task, result);
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

    /// A task's result, if it has one and it is at hand.
    #[must_use]
    pub fn result(&self, task: TaskId) -> Option<&Arc<Value>> {
        self.results.get(&task)
    }

    /// Whether every part speaks of the same steps: bytes from outside may not.
    pub(super) fn is_sound(&self) -> bool {
        self.steps.len() == self.workflow.steps().len()
    }

    pub(super) fn definition(&self, at: StepIx) -> Option<&Step> {
        self.workflow.step(at)
    }
}

/// Decides, and keeps the result of a success at hand for what the success leads to.
fn decide_and_keep(
    state: &mut RunState,
    input: &Input,
    now: Timestamp,
    functions: &Functions,
) -> Vec<Event> {
    let events = super::decide(state, input, now, functions);
    if let Input::Succeeded { task, result, .. } = input
        && matches!(events[..], [Event::TaskSucceeded { .. }])
    {
        state.results.insert(*task, Arc::clone(result));
    }
    events
}
