//! One run on one node: at most one commit in flight; what arrives meanwhile goes into the next.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::lanes::{Command, Message};
use super::node::Node;
use super::{CommandError, World};
use crate::run::{self, Event, Input, Phase, Recorded, RunId, RunState, TaskPhase, Version, Waits};
use crate::store::{
    Commit, Committed, Fence, Loaded, QueueChange, QueueState, ResultRow, RunPhase, Store,
    StoreError, Tail,
};

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
}

/// Works `run`'s messages off until the run has ended or nothing happens for long.
pub(super) async fn live<W: World>(
    node: Arc<Node<W>>,
    run: RunId,
    state: Option<RunState>,
    mut inbox: mpsc::Receiver<Message>,
) {
    let lane = match state {
        Some(state) => Ok(Lane::new(Arc::clone(&node), state)),
        None => Lane::load(Arc::clone(&node), run).await,
    };
    match lane {
        Ok(mut lane) => {
            if let Err(error) = lane.work(&mut inbox).await {
                tracing::error!(%run, %error, "the run can't go on on this node");
            }
        }
        Err(error) => tracing::error!(%run, %error, "the run could not be loaded"),
    }
    leave(&node, run, inbox).await;
}

/// Takes the lane off the map, and hands what still reached it to the next one.
async fn leave<W: World>(node: &Arc<Node<W>>, run: RunId, mut inbox: mpsc::Receiver<Message>) {
    inbox.close();
    node.lanes.forget(run);
    node.ends.ring(run);
    while let Ok(message) = inbox.try_recv() {
        // Commands are answered by the next lane; the rest is offered again by the store.
        if matches!(message, Message::Command(..)) {
            node.send(run, message).await;
        }
    }
}

impl<W: World> Lane<W> {
    fn new(node: Arc<Node<W>>, state: RunState) -> Self {
        Self { node, state, tail_bytes: 0, snapshot_bytes: 0 }
    }

    async fn load(node: Arc<Node<W>>, run: RunId) -> Result<Self, LaneError> {
        let loaded = node.load(run).await?.ok_or(LaneError::Missing(run))?;
        let tail_bytes = loaded.tail.events.iter().map(Bytes::len).sum();
        let snapshot_bytes = loaded.snapshot.as_ref().map_or(0, |s| s.state.len());
        let state = restore(run, &loaded)?;
        Ok(Self { node, state, tail_bytes, snapshot_bytes })
    }

    async fn work(&mut self, inbox: &mut mpsc::Receiver<Message>) -> Result<(), LaneError> {
        while !matches!(self.state.phase(), Phase::Ended(_)) {
            let Some(first) = inbox.recv().await else { return Ok(()) };
            let mut messages = vec![first];
            while messages.len() < BATCH {
                let Ok(next) = inbox.try_recv() else { break };
                messages.push(next);
            }
            let retire = messages.iter().all(|m| matches!(m, Message::Retire));
            if retire && !self.has_attempts_here() {
                return Ok(());
            }
            self.take(messages).await?;
        }
        Ok(())
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
        loop {
            let draft = self.draft(&messages);
            if draft.events.is_empty() {
                self.answer(messages, &[]);
                return Ok(());
            }
            let commit = self.commit(&draft);
            match self.send(commit).await? {
                Committed::Applied { .. } | Committed::Already { .. } => {
                    self.land(draft, messages);
                    return self.trim().await;
                }
                Committed::Conflict { tail, .. } => self.catch_up(&tail)?,
                Committed::Behind { .. } => {
                    *self = Self::load(Arc::clone(&self.node), self.state.id()).await?;
                    self.node.call_off_ended(&self.state);
                }
                Committed::Fenced { task, .. } => messages.retain(|m| !self.refused(m, task)),
            }
        }
    }

    /// Decides what the messages do, on a copy of the state.
    fn draft(&self, messages: &[Message]) -> Draft {
        let mut draft = Draft::new(self.state.clone());
        let now = self.node.clock.now(&self.node.runtime);
        for message in messages {
            let Some((input, fence)) = reading(message) else { continue };
            draft.take(&input, fence, now, &self.node.config);
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
            phase: phase_of(&draft.state),
            snapshot: wanted.then(|| run::encode_snapshot(&draft.state)),
        }
    }

    /// Sends the same bytes until a definite answer comes.
    async fn send(&mut self, commit: Commit) -> Result<Committed, LaneError> {
        let bytes = commit.events.iter().map(Bytes::len).sum::<usize>();
        let snapshot = commit.snapshot.as_ref().map(Bytes::len);
        let mut failures = 0;
        let answer = loop {
            match self.node.store.commit(commit.clone()).await {
                Ok(answer) => break answer,
                Err(error @ StoreError::Broken(_)) => return Err(error.into()),
                Err(error) => self.node.store_pause(failures, &error).await,
            }
            failures += 1;
        };
        let (Committed::Applied { at, .. }
        | Committed::Already { at, .. }
        | Committed::Conflict { at, .. }
        | Committed::Behind { at }
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

    /// What follows once the events are durable: act, then tell.
    fn land(&mut self, draft: Draft, messages: Vec<Message>) {
        let first = self.state.version();
        self.state = draft.state;
        self.node.wake_for(&draft.queue);
        self.answer(messages, &draft.started);
        if draft.calls_off {
            self.node.call_off_ended(&self.state);
        }
        self.node.tell(self.state.id(), self.state.workflow(), first, &draft.events);
    }

    /// Starts the attempts that were granted, and answers or drops the rest.
    fn answer(&self, messages: Vec<Message>, started: &[run::Token]) {
        for message in messages {
            match message {
                Message::Claimed(claimed, slot) => {
                    let started = started.contains(&claimed.token);
                    if started && matches!(self.state.phase(), Phase::Running) {
                        self.node.dispatch(&self.state, claimed.task, claimed.token, slot);
                    }
                }
                Message::Command(_, reply) => {
                    let _ = reply.send(Ok(()));
                }
                Message::Recover(done) => {
                    let _ = done.send(());
                }
                Message::Ended { .. } | Message::Expired { .. } | Message::Retire => {}
            }
        }
    }

    /// Others wrote first: their events are applied, and the messages are judged again.
    fn catch_up(&mut self, tail: &Tail) -> Result<(), LaneError> {
        let first = self.state.version();
        extend(&mut self.state, tail)?;
        self.tail_bytes += tail.events.iter().map(Bytes::len).sum::<usize>();
        tracing::debug!(run = %self.state.id(), from = first.0, "another node wrote first");
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
            Message::Command(..) | Message::Recover(_) | Message::Retire => return false,
        };
        if about == task {
            self.node.call_off(self.state.id(), task, Some(token));
        }
        about == task
    }

    /// Compares the state with its queue rows; events win. Leases that a dead process left on a
    /// store that only this one can use are over.
    async fn look_over(&mut self) -> Result<Vec<Message>, LaneError> {
        let rows = self.node.queue_rows(self.state.id()).await?;
        let mut missing = Vec::new();
        let mut orphans = Vec::new();
        for (task, attempt, waits) in run::queue_of(&self.state) {
            let row = rows.iter().find(|r| r.task == task);
            match (waits, row.map(|r| r.state)) {
                (Waits::Due, Some(QueueState::Due { .. })) => {}
                (Waits::Due, _) => {
                    let after = self.state.task(task).map(|t| t.delay).unwrap_or_default();
                    missing.push(QueueChange::Due { task, attempt, after });
                }
                (Waits::Leased(token), _) if self.node.config.sole_owner => {
                    orphans.push(Message::Expired { task, token, timed_out: false, orphan: true });
                }
                (Waits::Leased(_), _) => {}
            }
        }
        if !missing.is_empty() {
            tracing::warn!(run = %self.state.id(), rows = missing.len(), "queue rows were missing");
            let mut draft = Draft::new(self.state.clone());
            draft.queue = missing;
            let commit = self.commit(&draft);
            // A conflict means that others are at work on the run: they write its rows.
            self.send(commit).await?;
            self.node.wake_for(&draft.queue);
        }
        Ok(orphans)
    }

    /// Forgets events that only a very long history still needs.
    async fn trim(&self) -> Result<(), LaneError> {
        let keep = self.node.config.keep_events;
        let fresh_snapshot = self.tail_bytes == 0 && self.snapshot_bytes > 0;
        let below = self.state.version().0.saturating_sub(keep);
        if fresh_snapshot
            && below > 0
            && let Err(error) = self.node.store.trim(self.state.id(), Version(below)).await
        {
            tracing::warn!(%error, "old events could not be trimmed; the next snapshot tries again");
        }
        Ok(())
    }
}

/// What a batch of messages comes to, before it is durable.
struct Draft {
    state: RunState,
    events: Vec<Recorded>,
    fences: Vec<Fence>,
    queue: Vec<QueueChange>,
    results: Vec<ResultRow>,
    started: Vec<run::Token>,
    calls_off: bool,
}

impl Draft {
    fn new(state: RunState) -> Self {
        Self {
            state,
            events: Vec::new(),
            fences: Vec::new(),
            queue: Vec::new(),
            results: Vec::new(),
            started: Vec::new(),
            calls_off: false,
        }
    }

    fn take(
        &mut self,
        input: &Input,
        fence: Option<Fence>,
        now: crate::time::Timestamp,
        config: &super::Config,
    ) {
        let events = self.state.handle(input, now, &config.functions);
        if events.is_empty() {
            return;
        }
        self.fences.extend(fence);
        self.queue.extend(super::lanes::queue_changes(&self.state, &events, config.lease));
        for recorded in &events {
            self.note(&recorded.event, input);
        }
        self.events.extend(events);
    }

    fn note(&mut self, event: &Event, input: &Input) {
        match (event, input) {
            (Event::TaskSucceeded { task, attempt, .. }, Input::Succeeded { result, .. }) => {
                let result = Bytes::from(result.to_string());
                self.results.push(ResultRow { task: *task, attempt: *attempt, result });
            }
            (Event::AttemptStarted { token, .. }, _) => self.started.push(*token),
            (Event::TaskCancelled { .. } | Event::RunEnded { .. }, _) => self.calls_off = true,
            _ => {}
        }
    }
}

/// What a message means to the run, and the token that must still be good when it lands.
fn reading(message: &Message) -> Option<(Input, Option<Fence>)> {
    Some(match message {
        Message::Claimed(claimed, _) => {
            let (task, attempt, token) = (claimed.task, claimed.attempt, claimed.token);
            (Input::Claimed { task, attempt, token }, Some(Fence::Held { task, token }))
        }
        Message::Ended { task, token, outcome, .. } => {
            let (task, token) = (*task, *token);
            let input = match outcome {
                Ok(result) => Input::Succeeded { task, token, result: Arc::clone(result) },
                Err(failure) => Input::Failed { task, token, failure: failure.clone() },
            };
            (input, Some(Fence::Held { task, token }))
        }
        Message::Expired { task, token, timed_out, orphan } => {
            let (task, token) = (*task, *token);
            let fence =
                if *orphan { Fence::Held { task, token } } else { Fence::Lapsed { task, token } };
            (Input::Expired { task, token, timed_out: *timed_out }, Some(fence))
        }
        Message::Command(command, _) => {
            let input = match command {
                Command::Cancel(reason) => Input::Cancel { reason: reason.clone() },
                Command::Deactivate => Input::Deactivate,
                Command::Activate => Input::Activate,
            };
            (input, None)
        }
        Message::Recover(_) | Message::Retire => return None,
    })
}

/// The run's phase as its head in the store says it.
pub(super) fn phase_of(state: &RunState) -> RunPhase {
    match state.phase() {
        Phase::Running => RunPhase::Running,
        Phase::Deactivated => RunPhase::Deactivated,
        Phase::Ended(run::Outcome::Completed) => RunPhase::Completed,
        Phase::Ended(run::Outcome::Failed { .. }) => RunPhase::Failed,
        Phase::Ended(run::Outcome::Cancelled { .. }) => RunPhase::Cancelled,
    }
}

/// The state that stored bytes fold to, results restored (W12). Invokes nothing, waits for nothing.
pub(super) fn restore(run: RunId, loaded: &Loaded) -> Result<RunState, LaneError> {
    let damaged = |what: String| LaneError::Damaged { run, what };
    let mut state = match &loaded.snapshot {
        Some(snapshot) => {
            let mut state =
                run::decode_snapshot(&snapshot.state).map_err(|e| damaged(e.to_string()))?;
            extend(&mut state, &loaded.tail)?;
            state
        }
        None => {
            let events: Result<Vec<Recorded>, _> =
                loaded.tail.events.iter().map(|b| run::decode(b)).collect();
            let events = events.map_err(|e| damaged(e.to_string()))?;
            RunState::replay(run, &events).map_err(|e| damaged(e.to_string()))?
        }
    };
    restore_results(&mut state, &loaded.tail.results)?;
    Ok(state)
}

fn extend(state: &mut RunState, tail: &Tail) -> Result<(), LaneError> {
    let run = state.id();
    for bytes in &tail.events {
        let event =
            run::decode(bytes).map_err(|e| LaneError::Damaged { run, what: e.to_string() })?;
        state.apply(&event).map_err(|e| LaneError::Damaged { run, what: e.to_string() })?;
    }
    restore_results(state, &tail.results)
}

fn restore_results(state: &mut RunState, rows: &[ResultRow]) -> Result<(), LaneError> {
    let run = state.id();
    for row in rows {
        let value = serde_json::from_slice(&row.result).map_err(|e| LaneError::Damaged {
            run,
            what: format!("result of {}: {e}", row.task),
        })?;
        state.restore_result(row.task, Arc::new(value));
    }
    Ok(())
}

impl From<LaneError> for CommandError {
    fn from(error: LaneError) -> Self {
        match error {
            LaneError::Missing(run) => Self::UnknownRun(run),
            other => Self::Broken(other.to_string()),
        }
    }
}
