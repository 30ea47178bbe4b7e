//! What the loops, lanes and attempts of one node share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::clock::StoreClock;
use super::held::{Held, HeldAttempts};
use super::lanes::Lanes;
use super::places::Places;
use super::recover::OwnTokens;
use super::run_signals::RunSignals;
use super::{Config, World};
use crate::action::{Actions, ContextRuntime};
use crate::observe::{Notice, Observer};
use crate::run::{Definitions, Recorded, RunId, RunState, TaskId, Token, Version};
use crate::runtime::Runtime;
use crate::store::{CommitId, StoreError};
use crate::time::{Mono, Nanos};
use crate::workflow::{Able, Workflow};

/// The shared part of a node.
pub(super) struct Node<W: World> {
    pub(super) runtime: W::Runtime,
    pub(super) store: W::Store,
    pub(super) actions: W::Actions,
    /// The clocks, chance and network that registered functions get.
    pub(super) context_runtime: ContextRuntime,
    /// What `actions` can run.
    pub(super) able: Arc<Able>,
    pub(super) config: Config,
    pub(super) observers: Vec<Arc<dyn Observer>>,
    #[cfg(feature = "metrics")]
    pub(super) labels: crate::observe::metrics::Labels,
    pub(super) clock: StoreClock,
    /// The id of this process in commit receipts.
    pub(super) writer: u64,
    counter: AtomicU64,
    pub(super) places: Arc<Places>,
    pub(super) lanes: Lanes,
    pub(super) attempts: Arc<HeldAttempts>,
    pub(super) own_tokens: OwnTokens,
    /// Of the runs that were loaded of late.
    pub(super) definitions: Mutex<Definitions>,
    pub(super) alarm: Alarm,
    closing: AtomicBool,
    /// Woken when leases may have to be renewed sooner than was planned.
    pub(super) renewals: Notify,
    /// Notified when a run's lane ends.
    pub(super) run_ended: RunSignals,
    /// Notified when a run has new events that this node knows of.
    pub(super) news: RunSignals,
}

impl<W: World> Node<W> {
    pub(super) fn new(
        runtime: W::Runtime,
        store: W::Store,
        actions: W::Actions,
        config: Config,
        observers: Vec<Arc<dyn Observer>>,
        clock: StoreClock,
    ) -> Self {
        let able = actions.able();
        Self {
            writer: runtime.random(),
            context_runtime: ContextRuntime::by(runtime.clone()),
            runtime,
            store,
            places: Places::new(&config, &able),
            able: Arc::new(able),
            own_tokens: OwnTokens::new(config.sole_owner),
            actions,
            config,
            observers,
            #[cfg(feature = "metrics")]
            labels: Default::default(),
            clock,
            counter: AtomicU64::new(0),
            lanes: Lanes::default(),
            attempts: Arc::default(),
            definitions: Mutex::default(),
            alarm: Alarm::default(),
            closing: AtomicBool::new(false),
            renewals: Notify::new(),
            run_ended: RunSignals::default(),
            news: RunSignals::default(),
        }
    }

    pub(super) fn next_id(&self) -> CommitId {
        CommitId { writer: self.writer, counter: self.counter.fetch_add(1, Ordering::Relaxed) }
    }

    pub(super) fn held(&self) -> MutexGuard<'_, BTreeMap<(RunId, TaskId), Held>> {
        self.attempts.map()
    }

    /// Calls off the attempt of `task`, if this node runs it under `token`.
    pub(super) fn call_off(&self, run: RunId, task: TaskId, token: Token) {
        self.with_held(run, task, token, |held| held.canceller.cancel());
    }

    /// Does `act` to the attempt of `task`, if this node runs it under `token`.
    pub(super) fn with_held(
        &self,
        run: RunId,
        task: TaskId,
        token: Token,
        act: impl FnOnce(&mut Held),
    ) {
        if let Some(held) = self.held().get_mut(&(run, task)).filter(|h| h.token == token) {
            act(held);
        }
    }

    pub(super) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        // Another engine of this process may have the store by and by, and leases of its own.
        self.own_tokens.forget();
        self.alarm.ring();
        self.attempts.changed.notify_waiters();
        self.run_ended.notify_all();
        self.news.notify_all();
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Notifies the observers of `events`, which are durable, and who waits for news of the run.
    pub(super) fn tell(
        &self,
        run: RunId,
        workflow: &Arc<Workflow>,
        first: Version,
        events: &[Recorded],
    ) {
        if events.is_empty() {
            return;
        }
        for (i, recorded) in events.iter().enumerate() {
            let number = first.after(i);
            let notice = Notice { run, workflow, number, at: recorded.at, event: &recorded.event };
            self.observers.iter().for_each(|o| o.tell(&notice));
        }
        self.news.notify(run);
    }

    /// Cancels the attempts on this node whose tasks have ended: by the run's end or by `fail_fast`.
    pub(super) fn call_off_ended(&self, state: &RunState) {
        let over = |task: TaskId| state.task(task).is_none_or(|t| !t.is_live());
        let held = self.held();
        let of_run = (state.id(), TaskId::FIRST)..=(state.id(), TaskId::LAST);
        for ((_, _), found) in held.range(of_run).filter(|((_, task), _)| over(*task)) {
            found.canceller.cancel();
        }
    }

    pub(super) async fn sleep(&self, length: Nanos) {
        self.runtime.sleep_until(self.runtime.now().after(length)).await;
    }

    /// Sends the same request until the store gives a definite answer. The store recognises a repeat,
    /// so a lost answer does nothing twice.
    ///
    /// # Errors
    /// Only [`StoreError::Broken`]: a retry would not help.
    pub(super) async fn until_answered<T, F>(
        &self,
        mut ask: impl FnMut() -> F + Send,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>> + Send,
    {
        let mut failures = 0;
        loop {
            match ask().await {
                Err(error @ StoreError::Broken(_)) => return Err(error),
                Err(error) => self.store_pause(failures, &error).await,
                answer => return answer,
            }
            failures += 1;
        }
    }

    /// The pause before the `failures`-th retry of a store call: 20 ms doubling to 2 s, full
    /// jitter. A store failure uses up no attempt.
    pub(super) async fn store_pause(&self, failures: u32, error: &StoreError) {
        match self.is_closing() {
            // Whoever closed the node may have taken its store away.
            true => tracing::debug!(%error, failures, "the store request failed"),
            false => tracing::warn!(%error, failures, "the store request failed; retrying"),
        }
        let most = 20_u64.saturating_mul(1 << failures.min(7)).min(2_000);
        let drawn = 1 + self.runtime.random() % most;
        self.sleep(Nanos::from_millis(drawn)).await;
    }
}

/// When the claim loop must next ask the store.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    at: Mutex<Option<Mono>>,
    set: Notify,
}

impl Alarm {
    /// Something is due at `at`.
    pub(super) fn set(&self, at: Mono) {
        let mut earliest = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        if earliest.is_none_or(|e| at < e) {
            *earliest = Some(at);
            self.set.notify_one();
        }
    }

    /// Something may be due now.
    pub(super) fn ring(&self) {
        self.set(Mono::default());
    }

    /// Waits until the alarm is due, or `latest`, and clears it.
    pub(super) async fn wait(&self, runtime: &impl Runtime, latest: Mono) {
        loop {
            let due = self
                .at
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .unwrap_or(latest)
                .min(latest);
            if due <= runtime.now() {
                *self.at.lock().unwrap_or_else(PoisonError::into_inner) = None;
                return;
            }
            tokio::select! {
                biased;
                () = self.set.notified() => {}
                () = runtime.sleep_until(due) => {}
            }
        }
    }
}
