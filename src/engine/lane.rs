//! One run on one node: at most one commit in flight; what arrives meanwhile goes into the next.

mod upkeep;

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tracing::Span;

use super::alerts::Expected;
use super::draft::{Draft, phase_of};
use super::guarding::{Guarded, frees};
use super::lanes::{Command, Message};
use super::node::Node;
use super::restore::{extend, restore};
use super::{CommandError, World, span};
use crate::run::{self, Phase, RunId, RunState, TaskPhase};
use crate::runtime::Runtime;
use crate::store::{
    Commit, Committed, Heartbeat, Holding, QueueChange, Raised, Store, StoreError, Tail,
};
use crate::time::{Mono, Nanos};
use crate::workflow::StepIx;

/// The most messages folded into one commit.
const BATCH: usize = 256;

/// Why a lane can't go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum LaneError {
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("run {0} is not in the store")]
    Missing(RunId),
    #[error("run {run} is damaged: {what}")]
    Damaged { run: RunId, what: String },
}

struct Lane<W: World> {
    node: Arc<Node<W>>,
    state: RunState,
    tail_bytes: usize,
    snapshot_bytes: usize,
    guarded: Guarded,
}

/// Why a lane ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The run has ended, or can't go on here: nothing can be done for what still reached the lane.
    Final,
    /// Nothing happened for long: the next lane takes what reached this one meanwhile.
    Idle,
}

/// Works `run`'s messages off until the run has ended or nothing happens for long.
pub(super) async fn live<W: World>(
    node: Arc<Node<W>>,
    run: RunId,
    created: Option<oneshot::Receiver<RunState>>,
    mut inbox: mpsc::Receiver<Message>,
) {
    let lane = match created {
        Some(created) => match created.await {
            Ok(state) => Ok(Lane::new(Arc::clone(&node), state)),
            // It was not created here after all.
            Err(_) => return leave(&node, run, inbox, End::Idle).await,
        },
        None => Lane::load(Arc::clone(&node), run).await,
    };
    let end = match lane {
        Ok(mut lane) => {
            span::loaded(&Span::current(), &lane.state);
            let end = lane.work(&mut inbox).await;
            span::ended(&Span::current(), &lane.state);
            end
        }
        Err(error) => Err(error),
    };
    let end = end.unwrap_or_else(|error| {
        tracing::error!(%run, %error, "the run can't go on on this node");
        End::Final
    });
    leave(&node, run, inbox, end).await;
}

/// Takes the lane off the map. Whoever waits for an answer that nobody will give sees its channel
/// close, and looks at the run itself.
async fn leave<W: World>(
    node: &Arc<Node<W>>,
    run: RunId,
    mut inbox: mpsc::Receiver<Message>,
    end: End,
) {
    inbox.close();
    node.lanes.forget(run);
    node.signals.ring(run);
    while let Ok(message) = inbox.try_recv() {
        if end == End::Idle && !matches!(message, Message::Retire) {
            node.send(run, message).await;
        }
    }
}

impl<W: World> Lane<W> {
    fn new(node: Arc<Node<W>>, state: RunState) -> Self {
        let guarded = Guarded::of(state.workflow());
        Self { node, state, tail_bytes: 0, snapshot_bytes: 0, guarded }
    }

    async fn load(node: Arc<Node<W>>, run: RunId) -> Result<Self, LaneError> {
        let loaded = node.load(run, None).await?.ok_or(LaneError::Missing(run))?;
        let tail_bytes = loaded.tail.events.iter().map(Bytes::len).sum();
        let snapshot_bytes = loaded.snapshot.as_ref().map_or(0, |s| s.state.len());
        Ok(Self { tail_bytes, snapshot_bytes, ..Self::new(node, restore(run, &loaded)?) })
    }

    async fn work(&mut self, inbox: &mut mpsc::Receiver<Message>) -> Result<End, LaneError> {
        while !matches!(self.state.phase(), Phase::Ended(_)) {
            let Some(first) = inbox.recv().await else { return Ok(End::Idle) };
            let mut messages = vec![first];
            while messages.len() < BATCH {
                let Ok(next) = inbox.try_recv() else { break };
                messages.push(next);
            }
            let retire = messages.iter().all(|m| matches!(m, Message::Retire));
            if retire && !self.has_attempts_here() {
                return Ok(End::Idle);
            }
            self.take(messages).await?;
        }
        Ok(End::Final)
    }

    fn has_attempts_here(&self) -> bool {
        let held = self.node.held();
        let running = |t: &run::TaskState| matches!(t.phase, TaskPhase::Running { .. });
        self.state.tasks().any(|(id, t)| running(t) && held.contains_key(&(self.state.id(), id)))
    }

    /// Folds `messages` into one commit, or into several where others write in between.
    async fn take(&mut self, messages: Vec<Message>) -> Result<(), LaneError> {
        let mut messages = messages;
        if messages.iter().any(|m| matches!(m, Message::Recover(_))) {
            let found = self.look_over().await?;
            messages.extend(found);
        }
        let mut may_be_behind = !self.node.config.sole_owner;
        let (mut raised, mut expected) = (Vec::new(), Expected::new());
        loop {
            let mut draft = self.draft(&messages, &raised);
            if may_be_behind && draft.is_at_a_loss(&messages) {
                may_be_behind = false;
                self.refresh().await?;
                continue;
            }
            if draft.events.is_empty() {
                self.answer(messages, &draft);
                return Ok(());
            }
            self.node.expect_all(&draft.births, &mut expected);
            let commit = self.commit(&draft);
            let begun = self.node.runtime.now();
            // They were counted for this very draft.
            raised.clear();
            match self.send(commit).await? {
                Committed::Applied { .. } | Committed::Already { .. } => {
                    self.confirm(&mut draft, begun).await?;
                    self.land(draft, messages, expected);
                    return self.trim().await;
                }
                Committed::Conflict { tail, .. } => self.catch_up(&tail)?,
                Committed::Behind { .. } => self.reload().await?,
                Committed::Held { holds, at } => self.node.hold(&mut messages, &holds, at),
                Committed::Untold { raised: all, .. } => raised = all,
                Committed::Fenced { task, .. } => messages.retain(|m| !self.refused(m, task)),
            }
        }
    }

    /// Takes in what others wrote.
    async fn refresh(&mut self) -> Result<(), LaneError> {
        let run = self.state.id();
        let loaded = self.node.load(run, Some(self.state.version())).await?;
        let loaded = loaded.ok_or(LaneError::Missing(run))?;
        if loaded.snapshot.is_none() {
            return self.catch_up(&loaded.tail);
        }
        self.reload().await
    }

    /// Begins again from what is stored: what came between is compacted away.
    async fn reload(&mut self) -> Result<(), LaneError> {
        *self = Self::load(Arc::clone(&self.node), self.state.id()).await?;
        self.node.call_off_ended(&self.state);
        Ok(())
    }

    /// Decides what the messages do, on a copy of the state.
    fn draft(&self, messages: &[Message], raised: &[Raised]) -> Draft {
        let mut draft = Draft::new(self.state.clone(), self.guarded.clone());
        let now = self.node.clock.now(&self.node.runtime);
        for (place, message) in messages.iter().enumerate() {
            if draft.take(&self.state, message, raised, now, &self.node.config) {
                draft.changed.push(place);
            }
        }
        draft
    }

    fn commit(&self, draft: &Draft) -> Commit {
        let events: Vec<Bytes> = draft.events.iter().map(run::encode).collect();
        let grown = self.tail_bytes + events.iter().map(Bytes::len).sum::<usize>();
        let wanted = grown > self.snapshot_bytes.max(self.node.config.snapshot_tail);
        Commit {
            id: self.node.next_id(),
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
            creates: draft.births.iter().map(|birth| birth.create.clone()).collect(),
        }
    }

    /// Sends the same bytes until a definite answer comes.
    async fn send(&mut self, commit: Commit) -> Result<Committed, LaneError> {
        let bytes = commit.events.iter().map(Bytes::len).sum::<usize>();
        let snapshot = commit.snapshot.as_ref().map(Bytes::len);
        let answer = self.node.until_answered(|| self.node.store.commit(commit.clone())).await?;
        let (Committed::Applied { at, .. }
        | Committed::Already { at, .. }
        | Committed::Conflict { at, .. }
        | Committed::Behind { at }
        | Committed::Held { at, .. }
        | Committed::Untold { at, .. }
        | Committed::Fenced { at, .. }) = &answer;
        self.node.clock.hear(*at, &self.node.runtime);
        if matches!(answer, Committed::Applied { .. } | Committed::Already { .. }) {
            match snapshot {
                Some(size) => (self.tail_bytes, self.snapshot_bytes) = (0, size),
                None => self.tail_bytes += bytes,
            }
        }
        Ok(answer)
    }

    /// An answer that came late may tell of a lease, or an attempt's time, that has passed since:
    /// attempts that another node has taken over do not start here.
    async fn confirm(&self, draft: &mut Draft, begun: Mono) -> Result<(), LaneError> {
        let lasts = self.node.config.lease;
        let run = self.state.id();
        let mut held = Vec::new();
        let mut soon = Nanos::new(lasts.get() / 3);
        for change in &draft.queue {
            if let QueueChange::Lease { task, token, timeout, heartbeat, .. } = *change {
                let beat = heartbeat.map(|within| Heartbeat { within, progress: None });
                held.push(Holding { run, task, token, lasts, heartbeat: beat });
                let ends = [timeout, heartbeat].into_iter().flatten().fold(lasts, Nanos::min);
                soon = soon.min(Nanos::new(ends.get() / 2));
            }
        }
        if held.is_empty() || self.node.runtime.now().since(begun) < soon {
            return Ok(());
        }
        let renewed = self.node.until_answered(|| self.node.store.renew(held.clone())).await?;
        self.node.clock.hear(renewed.at, &self.node.runtime);
        for holding in renewed.lost(&held) {
            draft.started.retain(|token| *token != holding.token);
        }
        Ok(())
    }

    /// What follows once the events are durable: act, then tell.
    fn land(&mut self, mut draft: Draft, messages: Vec<Message>, expected: Expected) {
        let first = self.state.version();
        std::mem::swap(&mut self.state, &mut draft.state);
        self.node.wake_for(&draft.queue);
        if frees(&draft.guards) {
            self.node.alarm.ring();
        }
        let finished = self.answer(messages, &draft);
        if draft.calls_off {
            self.node.call_off_ended(&self.state);
        }
        self.node.tell(self.state.id(), self.state.workflow(), first, &draft.events);
        self.node.born(draft.births, expected);
        drop(finished);
    }

    /// Starts the attempts that were granted and answers who waits. Gives back the outcomes, whose
    /// slots are free when all is told.
    fn answer(&self, messages: Vec<Message>, draft: &Draft) -> Vec<Message> {
        let mut finished = Vec::new();
        for (place, message) in messages.into_iter().enumerate() {
            match message {
                Message::Claimed(claimed, slot) => {
                    let started = draft.started.contains(&claimed.token);
                    // Also where the run was deactivated in the same commit: what started may end.
                    if started && !matches!(self.state.phase(), Phase::Ended(_)) {
                        self.node.dispatch(&self.state, &claimed, slot);
                    }
                }
                Message::Command(command, reply) => {
                    let idle = !draft.changed.contains(&place);
                    let _ = reply.send(match command {
                        Command::Fail { step, .. } if idle => Err(self.nothing_waits(step)),
                        _ => Ok(()),
                    });
                }
                Message::Recover(done) => {
                    let _ = done.send(());
                }
                Message::Ended { .. } => finished.push(message),
                Message::Held { .. } | Message::Expired { .. } | Message::Retire => {}
            }
        }
        finished
    }

    fn nothing_waits(&self, step: StepIx) -> CommandError {
        let name = self.state.workflow().step(step).map(|s| s.id.clone()).unwrap_or_default();
        CommandError::NothingWaits { run: self.state.id(), step: name }
    }

    /// Others wrote first: their events are applied, and the messages are judged again.
    fn catch_up(&mut self, tail: &Tail) -> Result<(), LaneError> {
        let first = self.state.version();
        extend(&mut self.state, tail)?;
        self.tail_bytes += tail.events.iter().map(Bytes::len).sum::<usize>();
        tracing::debug!(run = %self.state.id(), from = first.0, "another node wrote first");
        self.node.news.ring(self.state.id());
        self.node.call_off_ended(&self.state);
        Ok(())
    }

    /// Whether `message` is about `task`, whose token is not good any more: its holder stops.
    fn refused(&self, message: &Message, task: run::TaskId) -> bool {
        let (about, token) = match message {
            Message::Claimed(claimed, _) => (claimed.task, claimed.token),
            Message::Ended { task, token, .. } | Message::Expired { task, token, .. } => {
                (*task, *token)
            }
            Message::Held { .. } | Message::Command(..) | Message::Recover(_) | Message::Retire => {
                return false;
            }
        };
        if about == task {
            self.node.call_off(self.state.id(), task, token);
        }
        about == task
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
