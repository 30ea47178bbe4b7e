//! One run on one node: at most one commit in flight; what arrives meanwhile goes into the next.
//!
//! A message goes one way: it arrives in a [`Batch`], [`Lane::take`] drafts and commits the batch,
//! [`Lane::land`] acts on what is durable and replies.

mod batch;
mod catch_up;
mod land;
mod upkeep;

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tracing::Span;

pub(super) use self::batch::Batch;
use super::draft::{Draft, phase_of};
use super::guarding::Guarded;
use super::lanes::Message;
use super::node::Node;
use super::restore::restore;
use super::{CommandError, World, span};
use crate::run::{self, Impossible, Phase, RunId, RunState, TaskId, TaskPhase};
use crate::runtime::Runtime;
use crate::store::{Commit, CommitId, Committed, Store, StoreError};

/// Why a lane fails.
#[derive(Debug, thiserror::Error)]
pub(super) enum LaneError {
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("run {0} is not in the store")]
    Missing(RunId),
    #[error("run {run} is damaged: {what}")]
    Damaged { run: RunId, what: String },
}

impl LaneError {
    pub(super) fn damaged(run: RunId, what: impl fmt::Display) -> Self {
        Self::Damaged { run, what: what.to_string() }
    }
}

struct Lane<W: World> {
    node: Arc<Node<W>>,
    state: RunState,
    /// Equal to `state`, for the next draft: a copy for each would cost a large run too much.
    spare: Option<RunState>,
    tail_bytes: usize,
    snapshot_bytes: usize,
    guarded: Guarded,
}

/// Why a lane ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The run has ended or is damaged: messages that still arrived are dropped.
    Final,
    /// The run is idle: messages that still arrived go to the next lane.
    Idle,
}

/// Processes `run`'s messages until the run has ended or is idle for long.
pub(super) async fn run_lane<W: World>(
    node: Arc<Node<W>>,
    run: RunId,
    created: Option<oneshot::Receiver<RunState>>,
    mut inbox: mpsc::Receiver<Box<Message>>,
) {
    let lane = match created {
        Some(created) => match created.await {
            Ok(state) => Ok(Lane::new(Arc::clone(&node), state)),
            // It was not created here after all.
            Err(_) => return close(&node, run, inbox, End::Idle, None).await,
        },
        None => Lane::load(Arc::clone(&node), run).await,
    };
    let mut last = None;
    let end = match lane {
        Ok(mut lane) => {
            span::loaded(&Span::current(), &lane.state);
            let end = lane.work(&mut inbox).await;
            span::ended(&Span::current(), &lane.state);
            last = Some(lane.state).filter(|state| state.outcome().is_some());
            end
        }
        Err(error) => Err(error),
    };
    let end = end.unwrap_or_else(|error| {
        tracing::error!(%run, %error, "this node can't process the run");
        node.lanes.note_damage(run, &error);
        End::Final
    });
    close(&node, run, inbox, end, last).await;
}

/// Removes the lane from the map and leaves who waits for the outcome the `last` state of a run that
/// has ended. Replies that are still open are dropped: who waits for one reads the run's state.
async fn close<W: World>(
    node: &Arc<Node<W>>,
    run: RunId,
    mut inbox: mpsc::Receiver<Box<Message>>,
    end: End,
    last: Option<RunState>,
) {
    inbox.close();
    node.lanes.forget(run);
    match last {
        Some(state) => node.run_ended.end(state),
        None => node.run_ended.notify(run),
    }
    while let Ok(message) = inbox.try_recv() {
        if end == End::Idle && !matches!(*message, Message::Retire | Message::Behind) {
            node.send(run, *message).await;
        }
    }
}

impl<W: World> Lane<W> {
    fn new(node: Arc<Node<W>>, state: RunState) -> Self {
        let guarded = Guarded::of(state.workflow());
        Self { node, state, spare: None, tail_bytes: 0, snapshot_bytes: 0, guarded }
    }

    async fn load(node: Arc<Node<W>>, run: RunId) -> Result<Self, LaneError> {
        let loaded = node.load(run, None).await?.ok_or(LaneError::Missing(run))?;
        let tail_bytes = loaded.tail.events.iter().map(Bytes::len).sum();
        let snapshot_bytes = loaded.snapshot.as_ref().map_or(0, |s| s.state.len());
        let state = restore(run, &loaded, &node.definitions)?;
        Ok(Self { tail_bytes, snapshot_bytes, ..Self::new(node, state) })
    }

    async fn work(&mut self, inbox: &mut mpsc::Receiver<Box<Message>>) -> Result<End, LaneError> {
        while !matches!(self.state.phase(), Phase::Ended(_)) {
            let Some(batch) = Batch::receive(inbox).await else { return Ok(End::Idle) };
            if batch.only_retires() && !self.has_attempts_here() {
                return Ok(End::Idle);
            }
            self.take(batch).await?;
            if self.rests() && inbox.is_empty() {
                return Ok(End::Idle);
            }
        }
        Ok(End::Final)
    }

    /// Whether the run would be idle until the sweep ends its lane: then it need not stay until then.
    fn rests(&self) -> bool {
        let now = self.node.clock.now(&self.node.runtime);
        let ended = matches!(self.state.phase(), Phase::Ended(_));
        !ended && self.state.rests_until(now.after(self.node.config.lane_idle))
    }

    fn has_attempts_here(&self) -> bool {
        let held = self.node.held();
        let running = |t: &run::TaskState| matches!(t.phase, TaskPhase::Running { .. });
        self.state.tasks().any(|(id, t)| running(t) && held.contains_key(&(self.state.id(), id)))
    }

    /// Folds `batch` into one commit. Drafts it again where others have written or the store
    /// refuses a part of it.
    async fn take(&mut self, mut batch: Batch) -> Result<(), LaneError> {
        if batch.recovers() {
            self.restore_rows().await?;
        }
        let mut may_be_behind = !self.node.config.sole_owner;
        loop {
            let mut draft =
                self.draft(&batch).map_err(|wrong| LaneError::damaged(self.state.id(), wrong))?;
            if may_be_behind && draft.ignores_some(&batch) {
                may_be_behind = false;
                self.refresh().await?;
                continue;
            }
            if draft.events.is_empty() {
                self.land(draft, batch);
                return Ok(());
            }
            self.node.expect_all(&draft.new_runs, &mut batch.expected);
            let begun = self.node.runtime.now();
            // They were counted for this very draft.
            batch.raised.clear();
            match self.send(&draft).await? {
                Committed::Applied { .. } | Committed::Already { .. } => {
                    self.confirm(&mut draft, begun).await?;
                    self.land(draft, batch);
                    return self.trim().await;
                }
                Committed::Conflict { tail, .. } => self.catch_up(&tail)?,
                Committed::Behind { .. } => self.reload().await?,
                Committed::Held { holds, at } => self.node.hold(&mut batch, &holds, at),
                Committed::Untold { raised, .. } => batch.raised = raised,
                Committed::Fenced { task, .. } => self.refuse(&mut batch, task),
            }
        }
    }

    /// Decides what the batch does, on a copy of the state.
    fn draft(&mut self, batch: &Batch) -> Result<Draft, Impossible> {
        let copy = self.spare.take().unwrap_or_else(|| self.state.clone());
        let mut draft = Draft::new(copy, self.guarded.clone());
        let now = self.node.clock.now(&self.node.runtime);
        for (place, message) in batch.messages.iter().enumerate() {
            if draft.take(&self.state, message, batch, now, &self.node.config)? {
                draft.changed.push(place);
            }
        }
        for hold in &batch.holds {
            draft.hold(hold, now, &self.node.config)?;
        }
        Ok(draft)
    }

    fn commit(&self, draft: &Draft, id: CommitId) -> Commit {
        let events = run::encode_all(&draft.events);
        let grown = self.tail_bytes + events.iter().map(Bytes::len).sum::<usize>();
        let wanted = grown > self.snapshot_bytes.max(self.node.config.snapshot_tail);
        Commit {
            id,
            run: self.state.id(),
            expect: self.state.version(),
            fences: draft.fences.clone(),
            events,
            queue: draft.queue.clone(),
            results: draft.results.clone(),
            letters: draft.letters.clone(),
            phase: phase_of(&draft.state),
            snapshot: wanted.then(|| run::encode_snapshot(&draft.state)),
            guards: draft.guards.clone(),
            raised: draft.raised.clone(),
            creates: draft.new_runs.iter().map(|new_run| new_run.create.clone()).collect(),
        }
    }

    /// Sends what `draft` changes until a definite answer comes, each time the same bytes.
    async fn send(&mut self, draft: &Draft) -> Result<Committed, LaneError> {
        let id = self.node.next_id();
        let commit = self.commit(draft, id);
        let bytes = commit.events.iter().map(Bytes::len).sum::<usize>();
        let snapshot = commit.snapshot.as_ref().map(Bytes::len);
        let asked = self.node.runtime.now();
        let mut first = Some(commit);
        let ask = || {
            let commit = first.take().unwrap_or_else(|| self.commit(draft, id));
            self.node.store.commit(commit)
        };
        let answer = self.node.until_answered(ask).await?;
        let (Committed::Applied { at, .. }
        | Committed::Already { at, .. }
        | Committed::Conflict { at, .. }
        | Committed::Behind { at }
        | Committed::Held { at, .. }
        | Committed::Untold { at, .. }
        | Committed::Fenced { at, .. }) = &answer;
        self.node.clock.hear(*at, asked, &self.node.runtime);
        if matches!(answer, Committed::Applied { .. } | Committed::Already { .. }) {
            match snapshot {
                Some(size) => (self.tail_bytes, self.snapshot_bytes) = (0, size),
                None => self.tail_bytes += bytes,
            }
        }
        Ok(answer)
    }

    /// Drops what speaks of `task` with a token that is not good any more: its holder stops. Where the
    /// batch has a lease of the task that was seen to end, only that is dropped: it is refused also
    /// where the lease was renewed since, and then its holder goes on, or its outcome lands.
    fn refuse(&self, batch: &mut Batch, task: TaskId) {
        let messages = &mut batch.messages;
        let token = |m: &Message| m.attempt().filter(|(about, _)| *about == task).map(|(_, t)| t);
        let is_sight = |m: &Message| token(m).is_some() && matches!(m, Message::Expired { .. });
        if messages.iter().any(is_sight) {
            messages.retain(|message| !is_sight(message));
            return;
        }
        messages.retain(|message| match token(message) {
            Some(token) => {
                self.node.call_off(self.state.id(), task, token);
                false
            }
            None => true,
        });
    }
}

impl From<StoreError> for CommandError {
    fn from(error: StoreError) -> Self {
        Self::Broken(error.to_string())
    }
}

impl From<LaneError> for CommandError {
    fn from(error: LaneError) -> Self {
        match error {
            LaneError::Missing(run) => Self::UnknownRun(run),
            other => Self::Broken(other.to_string()),
        }
    }
}
