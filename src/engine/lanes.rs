//! The lanes of one node: where messages for a run go.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tracing::Instrument;

use super::held::KeptLease;
use super::lane::LaneError;
use super::node::Node;
use super::places::TakenPlace;
use super::{CommandError, Config, World, lane, span};
use crate::failure::Failure;
use crate::run::{
    Cost, Event, Lapse, Progress, Recorded, RunId, RunState, TaskId, TaskPhase, Token,
};
use crate::runtime::{Runtime, Task};
use crate::store::{ClaimedTask, QueueChange};
use crate::time::{Mono, Nanos, Timestamp};
use crate::workflow::StepIx;

/// Messages one lane holds before its senders wait.
const INBOX: usize = 1_024;

/// A message is boxed: a channel has room for 32 of what it holds from its start, and most lanes get two.
type Inbox = mpsc::Sender<Box<Message>>;

/// What reaches a lane.
pub(super) enum Message {
    /// The claim loop has reserved a task; in its place.
    Claimed(ClaimedTask, TakenPlace),
    /// An attempt on this node ended.
    Ended {
        task: TaskId,
        token: Token,
        outcome: Result<Arc<Value>, Failure>,
        /// The newest progress that it reported.
        progress: Option<Progress>,
        /// Its reported cost.
        cost: Option<Cost>,
        /// Renewed until the outcome is durable or refused.
        lease: KeptLease,
        /// Released only when the outcome is durable, so that outcomes can't pile up.
        slot: TakenPlace,
    },
    /// A lease has passed; `orphan` when its holder is known to be dead though it has not.
    Expired { task: TaskId, token: Token, lapse: Lapse, orphan: bool },
    /// A user's command; the reply follows its commit.
    Command(Command, oneshot::Sender<Result<(), CommandError>>),
    /// Recovery asks for the run's queue rows to be compared with its state.
    Recover(oneshot::Sender<()>),
    /// Nothing has happened for long.
    Retire,
    /// The store has more of the run than the lane may have seen.
    Behind,
}

impl Message {
    /// The task that it speaks of, and the token that must be good for that.
    pub(super) fn attempt(&self) -> Option<(TaskId, Token)> {
        match self {
            Self::Claimed(claimed, _) => Some((claimed.task, claimed.token)),
            Self::Ended { task, token, .. } | Self::Expired { task, token, .. } => {
                Some((*task, *token))
            }
            Self::Command(..) | Self::Recover(_) | Self::Retire | Self::Behind => None,
        }
    }
}

/// A user's command to a run.
#[derive(Clone, Debug)]
pub(super) enum Command {
    Cancel(String),
    Rollback(String),
    Deactivate,
    Activate,
    Pause(String),
    Resume,
    Fail { step: StepIx, item: Option<u32>, reason: String },
    Release { step: Option<StepIx>, item: Option<u32>, reason: String },
}

impl Command {
    /// The answer where it changes nothing.
    pub(super) fn met_nothing(&self, state: &RunState) -> Result<(), CommandError> {
        let run = state.id();
        match self {
            Self::Fail { step, .. } => {
                let step = state.workflow().step(*step).map(|s| s.id.clone()).unwrap_or_default();
                Err(CommandError::NothingWaits { run, step })
            }
            Self::Release { .. } => Err(CommandError::NothingHeld(run)),
            _ => Ok(()),
        }
    }
}

#[derive(Default)]
pub(super) struct Lanes {
    map: Mutex<BTreeMap<RunId, LaneEntry>>,
    /// The runs whose last lane ended because they are damaged, and what it said.
    damaged: Mutex<BTreeMap<RunId, String>>,
}

struct LaneEntry {
    inbox: Inbox,
    task: Task,
    touched: Mono,
    /// Of a lane that waits for its run to be created.
    expected: Option<Weak<Expectation>>,
}

/// What a lane waits for whose run is about to be created. All who may hear that it is share it; once
/// they have let go of it without a state, the lane loads the run, if there is one.
pub(super) struct Expectation(Mutex<Option<oneshot::Sender<RunState>>>);

impl Lanes {
    fn map(&self) -> MutexGuard<'_, BTreeMap<RunId, LaneEntry>> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes `run`'s lane off the map if it takes no more messages; its task runs on to its end.
    pub(super) fn forget(&self, run: RunId) {
        let mut map = self.map();
        if map.get(&run).is_some_and(|lane| lane.inbox.is_closed())
            && let Some(lane) = map.remove(&run)
        {
            lane.task.detach();
        }
    }

    /// Whether `run` has a lane, whose last events observers may not have seen.
    pub(super) fn has(&self, run: RunId) -> bool {
        self.map().contains_key(&run)
    }

    fn damaged(&self) -> MutexGuard<'_, BTreeMap<RunId, String>> {
        self.damaged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps for who waits for `run` that its lane ended because the run is damaged.
    pub(super) fn note_damage(&self, run: RunId, error: &LaneError) {
        if matches!(error, LaneError::Damaged { .. }) {
            self.damaged().insert(run, error.to_string());
        }
    }

    /// `run` goes on after all.
    pub(super) fn forget_damage(&self, run: RunId) {
        self.damaged().remove(&run);
    }

    /// # Errors
    /// When `run`'s last lane here ended because the run is damaged.
    pub(super) fn check_damage(&self, run: RunId) -> Result<(), CommandError> {
        match self.damaged().get(&run) {
            Some(what) => Err(CommandError::Broken(what.clone())),
            None => Ok(()),
        }
    }

    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut *self.map());
        drop(all);
    }

    /// The runs whose lanes nothing has reached since `before`.
    pub(super) fn idle(&self, before: Mono) -> Vec<RunId> {
        self.map().iter().filter(|(_, l)| l.touched < before).map(|(run, _)| *run).collect()
    }
}

impl<W: World> Node<W> {
    /// Sends `message` to `run`'s lane, beginning one where there is none.
    pub(super) async fn send(self: &Arc<Self>, run: RunId, message: Message) {
        let mut message = Box::new(message);
        // A lane that has just ended gives the message back; the next one takes it.
        while let Err(back) = self.lane(run).send(message).await {
            self.lanes.forget(run);
            message = back.0;
        }
    }

    /// Tells a lane something that does not count as work for it. Begins none.
    pub(super) fn hint(&self, run: RunId, message: Message) {
        let lanes = self.lanes.map();
        if let Some(lane) = lanes.get(&run) {
            // A full inbox means that the lane is neither idle nor behind for long.
            let _ = lane.inbox.try_send(Box::new(message));
        }
    }

    /// Begins the lane of a run that is about to be created. It waits for the state: what reaches
    /// it before the creation is known of and told comes after that. `None` where a lane has begun.
    pub(super) fn expect(self: &Arc<Self>, run: RunId) -> Option<Arc<Expectation>> {
        let mut lanes = self.lanes.map();
        if let Some(lane) = lanes.get(&run) {
            let shared = lane.expected.as_ref()?.upgrade();
            if shared.is_some() {
                return shared;
            }
        }
        let (known, created) = oneshot::channel();
        let expectation = Arc::new(Expectation(Mutex::new(Some(known))));
        let lane = self.begin_lane(run, Some(created));
        let expected = Some(Arc::downgrade(&expectation));
        // One that nobody lets begin any more gives this one its messages.
        if let Some(left) = lanes.insert(run, LaneEntry { expected, ..lane }) {
            left.task.detach();
        }
        Some(expectation)
    }

    /// Lets the lane of a run begin whose creation is known of and told.
    pub(super) fn fulfil(&self, expectation: &Expectation, state: RunState) {
        if let Some(lane) = self.lanes.map().get_mut(&state.id()) {
            lane.expected = None;
        }
        let known = expectation.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(known) = known {
            // Only the end of the node takes the lane away before that.
            let _ = known.send(state);
        }
    }

    /// The inbox of `run`'s lane. A new one loads the run.
    fn lane(self: &Arc<Self>, run: RunId) -> Inbox {
        let mut lanes = self.lanes.map();
        let lane = lanes.entry(run).or_insert_with(|| self.begin_lane(run, None));
        lane.touched = self.runtime.now();
        lane.inbox.clone()
    }

    /// A lane of `run`, which waits for `created`, if given, else loads the run.
    fn begin_lane(
        self: &Arc<Self>,
        run: RunId,
        created: Option<oneshot::Receiver<RunState>>,
    ) -> LaneEntry {
        let (inbox, receive) = mpsc::channel(INBOX);
        let lane = lane::run_lane(Arc::clone(self), run, created, receive);
        let task = self.runtime.spawn(lane.instrument(span::of_run(run)));
        LaneEntry { inbox, task, touched: self.runtime.now(), expected: None }
    }
}

/// The row of a task that waits for its next attempt.
pub(super) fn due(state: &RunState, task: TaskId, now: Timestamp) -> Option<QueueChange> {
    let need = state.workflow().need(task.step)?;
    let attempt = state.task(task)?.attempt;
    let after = state.due_in(task, now).unwrap_or(HELD_BACK);
    Some(QueueChange::Due { task, attempt, after, need, progress: None })
}

/// When a task is due that only a person can let go on: a retry of a paused run, or a task in
/// quarantine. It keeps its row, and with it what its attempts reported.
const HELD_BACK: Nanos = Nanos::from_secs(100 * 365 * 24 * 3_600);

/// What `events`, which led to `state`, change in the queue. `progress` is that of the attempt
/// whose outcome led to them.
pub(super) fn queue_changes(
    state: &RunState,
    events: &[Recorded],
    config: &Config,
    progress: Option<&Progress>,
) -> Vec<QueueChange> {
    let mut changes = Vec::new();
    for recorded in events {
        match &recorded.event {
            Event::StepEntered { step, tasks } => {
                let tasks = (0..*tasks).map(|item| TaskId { step: *step, item });
                changes.extend(tasks.filter_map(|task| due(state, task, recorded.at)));
            }
            Event::RetryScheduled { task, .. } => {
                changes.extend(due(state, *task, recorded.at).map(|c| c.with(progress)));
            }
            Event::RunPaused { .. } | Event::RunResumed => {
                let retries = state.waiting_retries();
                changes.extend(retries.filter_map(|(task, _)| due(state, task, recorded.at)));
            }
            Event::TaskReleased { task, .. } => changes.extend(due(state, *task, recorded.at)),
            Event::AttemptStarted { task, attempt, token, timeout, .. } => {
                let (task, attempt, token) = (*task, *attempt, *token);
                let heartbeat = state.workflow().heartbeat_timeout(task.step);
                changes.push(QueueChange::Lease {
                    task,
                    attempt,
                    token,
                    lasts: config.lease,
                    timeout: *timeout,
                    heartbeat: heartbeat.map(|limit| config.patience(limit)),
                });
            }
            Event::TaskSucceeded { task, .. }
            | Event::TaskFailed { task, .. }
            | Event::TaskCancelled { task } => changes.push(QueueChange::Remove { task: *task }),
            Event::CompensationStarted { task } => changes.extend(due(state, *task, recorded.at)),
            Event::RollbackStarted { .. } | Event::RunEnded { .. } => {
                // Whatever was live then was called off by this event.
                let off = state.tasks().filter(|(_, t)| t.phase == TaskPhase::Cancelled);
                changes.extend(off.map(|(task, _)| QueueChange::Remove { task }));
            }
            _ => {}
        }
    }
    changes
}

impl<W: World> Node<W> {
    /// Has the claim loop look when the first of `changes` falls due.
    pub(super) fn wake_for(&self, changes: &[QueueChange]) {
        let due = changes.iter().filter_map(|c| match c {
            QueueChange::Due { after, .. } => Some(*after),
            _ => None,
        });
        if let Some(soonest) = due.min() {
            self.alarm.set(self.runtime.now().after(soonest));
        }
    }
}
