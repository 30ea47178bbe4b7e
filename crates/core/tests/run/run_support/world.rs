//! The driver itself.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;

use retrial_core::failure::Failure;
use retrial_core::policy::Functions;
use retrial_core::run::{
    Event, Input, Lapse, Recorded, RunId, RunState, TaskId, Token, Waits, queue_of,
};
use retrial_core::time::{Nanos, Timestamp};
use retrial_core::workflow::Workflow;
use serde_json::{Map, Value};

use super::{End, Shot, ok};

/// When every test begins.
pub const START: Timestamp = Timestamp::from_nanos(1_000_000_000_000_000_000);

/// What a task waits for, by the driver's own reading of the events.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Row {
    Due { attempt: u32, at: Timestamp },
    Leased { attempt: u32, token: Token, ends: Timestamp, cut: Option<Nanos> },
}

/// A run, what has happened to it, and what is to come.
pub struct World {
    pub state: RunState,
    pub log: Vec<Recorded>,
    pub now: Timestamp,
    pub rows: BTreeMap<TaskId, Row>,
    pub functions: Functions,
    /// How late a due task is claimed.
    pub lag: Nanos,
    /// While set, nothing is claimed.
    pub paused: bool,
    /// How attempts go that no script speaks of.
    pub beyond: Shot,
    /// How many attempts in a row may lose their node.
    pub quarantine_after: Option<NonZeroU32>,
    scripts: BTreeMap<TaskId, Vec<Shot>>,
    /// The tasks that are held in quarantine.
    quarantined: BTreeSet<TaskId>,
    /// While the run is paused: no retry falls due.
    held_back: bool,
}

impl World {
    pub fn new(workflow: Workflow, seed: u64) -> Self {
        Self::with_input(workflow, seed, Map::new())
    }

    pub fn with_input(workflow: Workflow, seed: u64, input: Map<String, Value>) -> Self {
        let id = RunId::from_random(1, 2);
        let (state, events) = RunState::create(id, seed, Arc::new(workflow), input, START).unwrap();
        let mut world = Self {
            state,
            log: Vec::new(),
            now: START,
            rows: BTreeMap::new(),
            functions: Functions::default(),
            lag: Nanos::ZERO,
            paused: false,
            beyond: ok(),
            quarantine_after: None,
            scripts: BTreeMap::new(),
            quarantined: BTreeSet::new(),
            held_back: false,
        };
        world.note(events);
        world
    }

    /// How the attempts of a task of the step named `id` go; those after them as `beyond`.
    pub fn script(&mut self, id: &str, item: u32, shots: impl IntoIterator<Item = Shot>) {
        let step = self.state.workflow().place_of(id).expect("a step of the workflow");
        self.script_task(TaskId { step, item }, shots.into_iter().collect());
    }

    /// How the attempts of a task go; those after them as `beyond`.
    pub fn script_task(&mut self, task: TaskId, shots: Vec<Shot>) {
        self.scripts.insert(task, shots);
    }

    /// Gives the run an input now, and returns what it led to.
    pub fn handle(&mut self, input: &Input) -> Vec<Recorded> {
        let events = self.state.handle(input, self.now, &self.functions).unwrap();
        self.note(events.clone());
        events
    }

    /// Lets time pass until `until`, doing whatever falls due before it or at it.
    pub fn run_until(&mut self, until: Timestamp) {
        while let Some((at, task)) = self.next()
            && at <= until
        {
            self.now = self.now.max(at);
            self.step(task);
        }
        self.now = self.now.max(until);
    }

    /// As [`World::run_until`], `seconds` from the start.
    pub fn run_to(&mut self, seconds: u64) {
        self.run_until(START.after(Nanos::from_secs(seconds)));
    }

    /// Does what falls due until nothing is left, at most `most` things. Whether nothing is left.
    pub fn run(&mut self, most: usize) -> bool {
        (0..most).any(|_| !self.step_next()) || self.next().is_none()
    }

    /// Lets time pass until the next thing falls due and does it. Whether there was one.
    pub fn step_next(&mut self) -> bool {
        let Some((at, task)) = self.next() else { return false };
        self.now = self.now.max(at);
        self.step(task);
        true
    }

    /// The token of the attempt in progress.
    pub fn token(&self, task: TaskId) -> Option<Token> {
        match self.rows.get(&task)? {
            Row::Leased { token, .. } => Some(*token),
            Row::Due { .. } => None,
        }
    }

    /// What happens next, and when.
    pub fn next(&self) -> Option<(Timestamp, TaskId)> {
        let when = |row: &Row| match row {
            Row::Due { .. } if self.paused => None,
            Row::Due { attempt, .. } if self.held_back && *attempt > 1 => None,
            Row::Due { at, .. } => Some(at.after(self.lag)),
            Row::Leased { ends, .. } => Some(*ends),
        };
        let rows = self.rows.iter().filter(|(task, _)| !self.quarantined.contains(task));
        rows.filter_map(|(task, row)| Some((when(row)?, *task))).min()
    }

    fn step(&mut self, task: TaskId) {
        match self.rows[&task] {
            Row::Due { attempt, .. } => {
                let token = token_of(task, attempt);
                self.handle(&Input::Claimed { task, attempt, token, default_timeout: None });
            }
            Row::Leased { attempt, token, cut, .. } => {
                let input = self.outcome(task, attempt, token, cut);
                self.handle(&input);
            }
        }
    }

    /// How that attempt goes.
    pub fn shot(&self, task: TaskId, attempt: u32) -> Shot {
        let shots = self.scripts.get(&task);
        shots.and_then(|s| s.get(attempt as usize - 1)).unwrap_or(&self.beyond).clone()
    }

    fn outcome(&self, task: TaskId, attempt: u32, token: Token, cut: Option<Nanos>) -> Input {
        let expired = |cut| {
            let lapse = if cut { Lapse::Deadline } else { Lapse::Lease };
            let quarantine_after = self.quarantine_after;
            Input::Expired { task, token, lapse, denied: false, quarantine_after }
        };
        match (self.shot(task, attempt).end, cut) {
            (End::Lost | End::Hang, cut) => expired(cut.is_some()),
            (_, Some(limit)) => {
                Input::Failed { task, token, failure: Failure::timeout(limit), denied: false }
            }
            (End::Ok(value), None) => Input::Succeeded { task, token, result: Arc::new(value) },
            (End::Fail(failure), None) => Input::Failed { task, token, failure, denied: false },
        }
    }

    /// Keeps the events and does to the rows what they imply.
    fn note(&mut self, events: Vec<Recorded>) {
        for recorded in &events {
            self.imply(recorded);
        }
        self.log.extend(events);
    }

    fn imply(&mut self, recorded: &Recorded) {
        let at = recorded.at;
        match &recorded.event {
            Event::StepEntered { step, tasks } => {
                let tasks = (0..*tasks).map(|item| TaskId { step: *step, item });
                self.rows.extend(tasks.map(|t| (t, Row::Due { attempt: 1, at })));
            }
            Event::AttemptStarted { task, attempt, token, timeout, .. } => {
                let takes = self.shot(*task, *attempt).takes;
                let cut = timeout.filter(|limit| takes > *limit);
                let (attempt, token, ends) = (*attempt, *token, at.after(cut.unwrap_or(takes)));
                self.rows.insert(*task, Row::Leased { attempt, token, ends, cut });
            }
            Event::RetryScheduled { task, attempt, delay, .. } => {
                let row = Row::Due { attempt: *attempt, at: at.after(*delay) };
                self.rows.insert(*task, row);
            }
            Event::TaskSucceeded { task, .. }
            | Event::TaskFailed { task, .. }
            | Event::TaskCancelled { task } => {
                self.rows.remove(task);
            }
            Event::TaskQuarantined { task, .. } => {
                self.quarantined.insert(*task);
            }
            Event::TaskReleased { task, .. } => {
                self.quarantined.remove(task);
            }
            Event::RunPaused { .. } => self.held_back = true,
            Event::RunResumed => self.held_back = false,
            Event::CompensationStarted { task } => {
                self.rows.insert(*task, Row::Due { attempt: 1, at });
            }
            Event::RollbackStarted { .. } | Event::RunEnded { .. } => self.rows.clear(),
            _ => {}
        }
    }

    /// The driver's rows in the form of [`queue_of`].
    pub fn expected_queue(&self) -> Vec<(TaskId, u32, Waits)> {
        let row = |(task, row): (&TaskId, &Row)| match *row {
            Row::Due { attempt, .. } => (*task, attempt, Waits::Due),
            Row::Leased { attempt, token, .. } => (*task, attempt, Waits::Leased(token)),
        };
        self.rows.iter().map(row).collect()
    }

    /// Checks that the state's queue is what the events imply.
    pub fn check_queue(&self) {
        assert_eq!(queue_of(&self.state), self.expected_queue());
    }
}

/// An attempt's token: the same in every run of the same task and attempt.
pub fn token_of(task: TaskId, attempt: u32) -> Token {
    Token::from_random(u64::from(task.step.0) << 32 | u64::from(task.item), u64::from(attempt))
}
