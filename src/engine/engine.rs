use std::pin::pin;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::clock::StoreClock;
use super::lane::LaneError;
use super::lanes::{Command, Message};
use super::node::Node;
use super::queue_view::{QueueView, queue_view};
use super::restore::restore;
use super::run_handle::Handle;
use super::submit::Submitted;
use super::{Config, Submission, SubmitError, World, claim, recover, renew, retention, sweep};
use crate::observe::Observer;
use crate::run::{self, LetterId, Outcome, RunId, RunState, Version};
use crate::runtime::{Runtime, Task};
use crate::store::{Loaded, QueueRow, RunHead, Store, StoreError};
use crate::workflow::Need;

/// A running engine. Clones are handles to the same one. When the last is dropped, its work stops at
/// once, as in a crash; nothing durable is lost.
pub struct Engine<W: World>(Arc<Guard<W>>);

/// Owns the loops: they hold the node, so the node can't own them.
struct Guard<W: World> {
    node: Arc<Node<W>>,
    loops: Vec<Task>,
}

impl<W: World> Clone for Engine<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<W: World> Drop for Guard<W> {
    fn drop(&mut self) {
        self.loops.clear();
        self.node.lanes.clear();
        let held = std::mem::take(&mut *self.node.held());
        drop(held);
    }
}

/// Why a command or a query about a run failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// There is no such run.
    #[error("run {0} is not in the store")]
    UnknownRun(RunId),
    /// The run's stored data is damaged, or leads to an event that can't follow the events before it.
    #[error("{0}")]
    Broken(String),
    /// The run's workflow has no such step.
    #[error("run {run} has no step `{step}`")]
    UnknownStep {
        /// The run.
        run: RunId,
        /// The name.
        step: String,
    },
    /// No task of the step waits. An attempt in progress can't be failed by hand.
    #[error("no task of step `{step}` of run {run} waits")]
    NothingWaits {
        /// The run.
        run: RunId,
        /// The step.
        step: String,
    },
    /// No task of the run, or none of those that were named, is held in quarantine.
    #[error("no such task of run {0} is held in quarantine")]
    NothingHeld(RunId),
    /// Only a run that has ended or is deactivated can be archived.
    #[error("run {0} has work left; deactivate or cancel it first")]
    NotAtRest(RunId),
    /// There is no such dead letter.
    #[error("letter {0} is not in the store")]
    UnknownLetter(LetterId),
    /// The letter was redriven, which can't be taken back.
    #[error("letter {letter} was redriven before, by run {run}")]
    AlreadyRedriven {
        /// The letter.
        letter: LetterId,
        /// The run that redrives it.
        run: RunId,
    },
    /// The node is shutting down.
    #[error("the node is shutting down")]
    Closing,
}

/// How a run ended, and its final state.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Ended {
    /// How.
    pub outcome: Outcome,
    /// The final state, with its results.
    pub state: RunState,
}

impl Ended {
    /// `None` where the run goes on.
    fn of(state: RunState) -> Option<Self> {
        Some(Self { outcome: state.outcome()?.clone(), state })
    }
}

impl<W: World> Engine<W> {
    pub(super) fn node(&self) -> &Arc<Node<W>> {
        &self.0.node
    }

    /// Starts an engine: reads the store's time, claims due tasks, and recovers the runs of an earlier
    /// process meanwhile. Waits until the store answers.
    pub async fn start(
        runtime: W::Runtime,
        store: W::Store,
        actions: W::Actions,
        config: Config,
        observers: Vec<Arc<dyn Observer>>,
    ) -> Self {
        let clock = first_answer(&runtime, &store).await;
        let node = Arc::new(Node::<W>::new(runtime, store, actions, config, observers, clock));
        let mut loops = vec![
            node.runtime.spawn(recover::recover(Arc::clone(&node))),
            node.runtime.spawn(claim::claim(Arc::clone(&node))),
            node.runtime.spawn(sweep::sweep(Arc::clone(&node))),
            node.runtime.spawn(renew::renew(Arc::clone(&node))),
        ];
        if let Some(retention) = node.config.retention {
            loops.push(node.runtime.spawn(retention::retain(Arc::clone(&node), retention)));
        }
        Self(Arc::new(Guard { node, loops }))
    }

    /// An engine that only inspects and administers: it never claims, sweeps or recovers. Use it
    /// beside the nodes that execute work. Waits until the store answers.
    pub async fn idle(
        runtime: W::Runtime,
        store: W::Store,
        actions: W::Actions,
        config: Config,
    ) -> Self {
        let clock = first_answer(&runtime, &store).await;
        let node = Node::<W>::new(runtime, store, actions, config, Vec::new(), clock);
        Self(Arc::new(Guard { node: Arc::new(node), loops: Vec::new() }))
    }

    /// Adds a run; returns once it is durable.
    ///
    /// # Errors
    /// See [`SubmitError`]. Nothing was added then.
    pub async fn submit(&self, submission: Submission) -> Result<Handle<W>, SubmitError> {
        let Submitted { run, existing } = self.0.node.submit(submission).await?;
        Ok(Handle::new(self.clone(), run, existing))
    }

    /// A handle to a run that was submitted before. The run need not exist.
    #[must_use]
    pub fn handle(&self, run: RunId) -> Handle<W> {
        Handle::new(self.clone(), run, true)
    }

    /// Cancels a run at once: while it waits for a retry and during an attempt. Does nothing to a run
    /// that has ended.
    ///
    /// # Errors
    /// See [`CommandError`].
    pub async fn cancel(&self, run: RunId, reason: &str) -> Result<(), CommandError> {
        self.command(run, Command::Cancel(reason.to_owned())).await
    }

    /// Cancels a run and compensates what succeeded in it first, whatever its workflow says about
    /// rollback. Does nothing to a run that has ended or rolls back already; cancelling
    /// that one stops the rollback.
    ///
    /// # Errors
    /// See [`CommandError`].
    pub async fn rollback(&self, run: RunId, reason: &str) -> Result<(), CommandError> {
        self.command(run, Command::Rollback(reason.to_owned())).await
    }

    /// Deactivates a run: recovery and claiming skip it until [`Engine::activate`].
    ///
    /// # Errors
    /// See [`CommandError`].
    pub async fn deactivate(&self, run: RunId) -> Result<(), CommandError> {
        self.command(run, Command::Deactivate).await
    }

    /// Activates a deactivated run.
    ///
    /// # Errors
    /// See [`CommandError`].
    pub async fn activate(&self, run: RunId) -> Result<(), CommandError> {
        let done = self.command(run, Command::Activate).await;
        self.0.node.alarm.ring();
        done
    }

    pub(super) async fn command(&self, run: RunId, command: Command) -> Result<(), CommandError> {
        let node = &self.0.node;
        // A lane that can't load its run drops the reply; loading the run here gives the error.
        let state = node.state_of(run).await?;
        match state.outcome() {
            Some(_) => Ok(()),
            None => self.ask(run, command).await,
        }
    }

    /// Sends `command` to the lane of a run that exists and has not ended.
    pub(super) async fn ask(&self, run: RunId, command: Command) -> Result<(), CommandError> {
        let node = &self.0.node;
        let meant = command.clone();
        let (reply, answer) = oneshot::channel();
        node.send(run, Message::Command(command, reply)).await;
        match answer.await {
            Ok(result) => result,
            Err(_) => {
                let state = node.state_of(run).await?;
                node.lanes.check_damage(run)?;
                // The run ended first.
                meant.met_nothing(&state)
            }
        }
    }

    /// Waits until the run has ended, on whichever node. When it ends on this node, its observers are
    /// notified first.
    ///
    /// # Errors
    /// When the run does not exist or is damaged.
    pub async fn outcome(&self, run: RunId) -> Result<Ended, CommandError> {
        let node = &self.0.node;
        let waiter = node.run_ended.wait_for(run);
        // A lane here says itself what it does to the run. All else shows in the store.
        let mut polls = u32::from(!node.lanes.has(run));
        loop {
            let mut signal = pin!(waiter.signal.notified());
            let told = waiter.end().and_then(Ended::of);
            let look = async {
                match told {
                    None if polls > 0 || !node.config.sole_owner => node.ended(run, polls).await,
                    told => Ok(told),
                }
            };
            let ended = tokio::select! {
                biased;
                () = &mut signal => continue,
                ended = look => ended?,
            };
            match ended {
                Some(ended) if !node.lanes.has(run) => return Ok(ended),
                // When another node wrote the end, the lane here has not seen it.
                Some(_) => node.hint(run, Message::Behind),
                None => node.lanes.check_damage(run)?,
            }
            if node.is_closing() {
                return Err(CommandError::Closing);
            }
            tokio::select! {
                biased;
                () = signal => {}
                () = node.sleep(node.config.poll) => {}
            }
            polls = polls.saturating_add(1);
        }
    }

    /// A run's state, as the store has it.
    ///
    /// # Errors
    /// When the run does not exist or its stored data is damaged.
    pub async fn state(&self, run: RunId) -> Result<RunState, CommandError> {
        self.0.node.state_of(run).await
    }

    /// The actions that due tasks of the run need and this node can't run: they are neither registered
    /// here nor HTTP with a client. Another node may have them. Such tasks stay due and use up no
    /// attempt.
    #[must_use]
    pub fn waiting_for(&self, state: &RunState) -> Vec<Need> {
        let node = &self.0.node;
        run::waits_for(state, &node.able, node.clock.now(&node.runtime))
    }

    /// The run's queue rows, with the columns of a queue table.
    ///
    /// # Errors
    /// When the queue can't be read.
    pub async fn queue(&self, state: &RunState) -> Result<Vec<QueueView>, CommandError> {
        let node = &self.0.node;
        let rows = node.queue_rows(state.id()).await.map_err(LaneError::from)?;
        Ok(queue_view(state, &rows, &node.config))
    }

    /// The engine's runtime.
    #[must_use]
    pub fn runtime(&self) -> &W::Runtime {
        &self.0.node.runtime
    }

    /// The engine's store.
    #[must_use]
    pub fn store(&self) -> &W::Store {
        &self.0.node.store
    }

    /// Stops claiming, waits for attempts in progress for at most [`Config::grace`], and stops. The
    /// leases of attempts that are cut off run out, and their tasks are retried.
    pub async fn shutdown(self) {
        let node = &self.0.node;
        node.close();
        let end = node.runtime.now().after(node.config.grace);
        loop {
            let changed = node.attempts.changed.notified();
            let idle = node.held().is_empty() && node.places.are_free();
            if idle || node.runtime.now() >= end {
                return;
            }
            let soon = node.runtime.now().after(crate::time::Nanos::from_millis(20)).min(end);
            tokio::select! {
                biased;
                () = changed => {}
                () = node.runtime.sleep_until(soon) => {}
            }
        }
    }
}

async fn first_answer<R: Runtime>(runtime: &R, store: &impl Store) -> StoreClock {
    let mut pause = 10;
    loop {
        match store.clock().await {
            Ok(at) => return StoreClock::new(at, runtime.now()),
            Err(error) => tracing::warn!(%error, "the store does not answer; retrying"),
        }
        let until = runtime.now().after(crate::time::Nanos::from_millis(pause));
        runtime.sleep_until(until).await;
        pause = (pause * 2).min(2_000);
    }
}

impl<W: World> Node<W> {
    /// How the run ended, if the store has its end, which it had not at the last of so many `polls`.
    /// Looks at the run's head, and ever more rarely at the run: only that shows a damaged history.
    async fn ended(&self, run: RunId, polls: u32) -> Result<Option<Ended>, CommandError> {
        if !polls.is_power_of_two() {
            // Where its head can't be read, the run says more.
            let head = self.head(run).await?;
            if head.is_some_and(|head| !head.phase.is_terminal()) {
                return Ok(None);
            }
        }
        Ok(Ended::of(self.state_of(run).await?))
    }

    /// The run's head, if the store has one that can be read.
    pub(super) async fn head(&self, run: RunId) -> Result<Option<RunHead>, LaneError> {
        let asked = self.runtime.now();
        let page = self.until_answered(|| self.store.heads(Some(run.before()), 1)).await?;
        self.clock.hear(page.at, asked, &self.runtime);
        Ok(page.runs.into_iter().find(|head| head.run == run))
    }

    /// A run's state as the store has it.
    pub(super) async fn state_of(&self, run: RunId) -> Result<RunState, CommandError> {
        let loaded = self.load(run, None).await.map_err(LaneError::from)?;
        let loaded = loaded.ok_or(CommandError::UnknownRun(run))?;
        Ok(restore(run, &loaded, &self.definitions)?)
    }

    pub(super) async fn load(
        &self,
        run: RunId,
        after: Option<Version>,
    ) -> Result<Option<Loaded>, StoreError> {
        let asked = self.runtime.now();
        let loaded = match self.until_answered(|| self.store.load(run, after)).await {
            // A snapshot only saves the replay: where it is damaged, the events say the same.
            Err(StoreError::Broken(_)) if after.is_none() => {
                self.until_answered(|| self.store.load(run, Some(Version::START))).await?
            }
            loaded => loaded?,
        };
        if let Some(loaded) = &loaded {
            self.clock.hear(loaded.at, asked, &self.runtime);
        }
        Ok(loaded)
    }

    pub(super) async fn queue_rows(&self, run: RunId) -> Result<Vec<QueueRow>, StoreError> {
        self.until_answered(|| self.store.queue(run)).await
    }
}
