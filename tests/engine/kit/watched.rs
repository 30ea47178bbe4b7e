//! A store that is watched, with trouble on the way to it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use retrial::run::{RunId, Version};
use retrial::runtime::TokioRuntime;
use retrial::store::{Answer, Commit, Committed, MemoryStore, Request, Store, StoreError};

use super::pass;

/// One node's link to a memory store. It keeps the commits that pass, can be out of order, can leave
/// runs out of the active projection, and can keep to itself which leases have passed.
pub(crate) struct Watched {
    store: Arc<MemoryStore<TokioRuntime>>,
    sent: Mutex<Vec<Commit>>,
    trouble: Mutex<Option<Trouble>>,
    hides_active: AtomicBool,
    holds_recovery: AtomicBool,
    hides_expired: AtomicBool,
    unreadable: Mutex<BTreeSet<(RunId, bool)>>,
    creations: Mutex<VecDeque<(Duration, Duration)>>,
    late_commits: Mutex<Option<(RunId, Duration)>>,
    late_renewals: Mutex<Duration>,
    loads: AtomicUsize,
}

/// What is wrong with the way to a store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Trouble {
    /// The store says that it did nothing.
    NotDone,
    /// The request is lost, and the node can't know.
    RequestLost,
    /// The store does it, and its answer is lost.
    AnswerLost,
    /// The store does it, and of a commit that lands its answer is lost.
    LandingLost,
}

impl Watched {
    pub(crate) fn new() -> Arc<Self> {
        Self::link(Arc::new(MemoryStore::new(TokioRuntime::current())))
    }

    /// Another node's link to the same store.
    pub(crate) fn beside(&self) -> Arc<Self> {
        Self::link(Arc::clone(&self.store))
    }

    fn link(store: Arc<MemoryStore<TokioRuntime>>) -> Arc<Self> {
        Arc::new(Self {
            store,
            sent: Mutex::default(),
            trouble: Mutex::default(),
            hides_active: AtomicBool::new(false),
            holds_recovery: AtomicBool::new(false),
            hides_expired: AtomicBool::new(false),
            unreadable: Mutex::default(),
            creations: Mutex::default(),
            late_commits: Mutex::default(),
            late_renewals: Mutex::default(),
            loads: AtomicUsize::new(0),
        })
    }

    /// The store, past the link.
    pub(crate) fn under(&self) -> &MemoryStore<TokioRuntime> {
        &self.store
    }

    /// How long each of the next creations takes to arrive, and then its answer.
    pub(crate) fn delay_creations(&self, each: impl IntoIterator<Item = (Duration, Duration)>) {
        self.creations.lock().unwrap().extend(each);
    }

    /// From now on the answers to this run's commits take this long.
    pub(crate) fn answer_commits_late(&self, of: RunId, by: Duration) {
        *self.late_commits.lock().unwrap() = Some((of, by));
    }

    /// From now on the answers to renewals take this long.
    pub(crate) fn answer_renewals_late(&self, by: Duration) {
        *self.late_renewals.lock().unwrap() = by;
    }

    pub(crate) fn commits(&self) -> usize {
        self.sent.lock().unwrap().len()
    }

    /// How often a run was loaded, or its tail.
    pub(crate) fn loads(&self) -> usize {
        self.loads.load(Ordering::SeqCst)
    }

    /// Every commit that was sent, in order.
    pub(crate) fn sent(&self) -> Vec<Commit> {
        self.sent.lock().unwrap().clone()
    }

    /// From now on this is wrong with the link.
    pub(crate) fn fail(&self, trouble: Option<Trouble>) {
        *self.trouble.lock().unwrap() = trouble;
    }

    async fn pass_on<T>(
        &self,
        ask: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let trouble = *self.trouble.lock().unwrap();
        match trouble {
            None | Some(Trouble::LandingLost) => ask.await,
            Some(Trouble::NotDone) => Err(StoreError::NotDone("out of reach".into())),
            Some(Trouble::RequestLost) => Err(StoreError::Unknown("out of reach".into())),
            Some(Trouble::AnswerLost) => {
                ask.await?;
                Err(StoreError::Unknown("out of reach".into()))
            }
        }
    }

    /// How many events are kept of a run.
    pub(crate) async fn kept(&self, run: RunId) -> u64 {
        let mut floor = 0;
        let mut step = 1 << 20;
        // The first version from which a tail can still be had, by halving.
        while step > 0 {
            let at = Version(floor + step - 1);
            let whole = self.store.load(run, Some(at)).await.unwrap().unwrap();
            if whole.snapshot.is_some() {
                floor += step;
            }
            step /= 2;
        }
        let newest = self.store.load(run, None).await.unwrap().unwrap().version;
        newest.0 - floor
    }

    pub(crate) fn hide_active(&self) {
        self.hides_active.store(true, Ordering::SeqCst);
    }

    /// Whether recovery waits for what it asks.
    pub(crate) fn hold_recovery(&self, holds: bool) {
        self.holds_recovery.store(holds, Ordering::SeqCst);
    }

    /// From now on these runs can't be read: their snapshots (false), or their events alone (true).
    pub(crate) fn make_unreadable(&self, loads: impl IntoIterator<Item = (RunId, bool)>) {
        self.unreadable.lock().unwrap().extend(loads);
    }

    pub(crate) fn hide_expired(&self) {
        self.hides_expired.store(true, Ordering::SeqCst);
    }
}

impl Store for Watched {
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        if matches!(request, Request::Load { .. }) {
            self.loads.fetch_add(1, Ordering::SeqCst);
        }
        let late = match &request {
            Request::Create(_) => {
                let next = self.creations.lock().unwrap().pop_front();
                let (arrives, answered) = next.unwrap_or_default();
                tokio::time::sleep(arrives).await;
                Some(answered)
            }
            Request::Commit(commit) => {
                self.sent.lock().unwrap().push(commit.clone());
                let late = self.late_commits.lock().unwrap().filter(|(run, _)| *run == commit.run);
                late.map(|(_, by)| by)
            }
            Request::Renew(_) => Some(*self.late_renewals.lock().unwrap()),
            Request::Load { run, after }
                if self.unreadable.lock().unwrap().contains(&(*run, after.is_some())) =>
            {
                return Err(StoreError::Broken(format!("run {run} is rotten")));
            }
            Request::Stranded { .. } | Request::Leases { .. } => {
                while self.holds_recovery.load(Ordering::SeqCst) {
                    pass(10).await;
                }
                None
            }
            _ => None,
        };
        let answer = self.pass_on(self.store.ask(request)).await;
        if let Some(late) = late {
            tokio::time::sleep(late).await;
        }
        let lost = *self.trouble.lock().unwrap() == Some(Trouble::LandingLost);
        let mut answer = answer?;
        match &mut answer {
            Answer::Commit(Committed::Applied { .. } | Committed::Already { .. }) if lost => {
                return Err(StoreError::Unknown("out of reach".into()));
            }
            Answer::Expired(found) if self.hides_expired.load(Ordering::SeqCst) => {
                (found.tasks, found.next) = (vec![], None);
            }
            Answer::Stranded(found) if self.hides_active.load(Ordering::SeqCst) => {
                found.runs = self.store.heads(None, usize::MAX).await?.runs;
                found.runs.iter_mut().for_each(|head| head.active = false);
            }
            _ => {}
        }
        Ok(answer)
    }

    fn news(&self) -> impl Future<Output = ()> + Send {
        self.store.news()
    }
}
