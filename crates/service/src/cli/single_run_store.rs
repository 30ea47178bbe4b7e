//! A store as one run sees it.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use retrial::run::RunId;
use retrial::store::{Answer, Commit, Committed, Request, Store, StoreError};

/// Hides every other run of a store from the engine's loops: `retrial run` carries on the run that
/// it was asked for and those that tell its alerts, and no abandoned one beside it.
///
/// Due tasks of other runs are reserved all the same and left to lapse, which uses up nothing.
pub(super) struct SingleRunStore<S> {
    store: S,
    run: RunId,
    /// The runs that it has added.
    added: Mutex<BTreeSet<RunId>>,
}

impl<S> SingleRunStore<S> {
    pub(super) fn new(store: S, run: RunId) -> Self {
        Self { store, run, added: Mutex::default() }
    }

    /// The runs that the run has added, which tell its alerts.
    pub(super) fn added(&self) -> BTreeSet<RunId> {
        self.added.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn shows(&self, run: RunId) -> bool {
        run == self.run || self.added().contains(&run)
    }
}

impl<S: Store> SingleRunStore<S> {
    async fn commit_and_show(&self, commit: Commit) -> Result<Committed, StoreError> {
        let added = || self.added.lock().unwrap_or_else(PoisonError::into_inner);
        let creates: Vec<RunId> = commit.creates.iter().map(|create| create.run).collect();
        // Before they are there to be claimed.
        added().extend(&creates);
        let committed = self.store.commit(commit).await?;
        if !matches!(committed, Committed::Applied { .. } | Committed::Already { .. }) {
            added().retain(|run| !creates.contains(run));
        }
        Ok(committed)
    }
}

impl<S: Store> Store for SingleRunStore<S> {
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        Ok(match request {
            Request::Claim(claim) => {
                let mut claimed = self.store.claim(claim).await?;
                claimed.tasks.retain(|task| self.shows(task.run));
                Answer::Claim(claimed)
            }
            Request::Commit(commit) => Answer::Commit(self.commit_and_show(commit).await?),
            // Asks for all of them, or the other runs' would crowd out this one's.
            Request::Expired { limit } => {
                let mut expired = self.store.expired(usize::MAX).await?;
                expired.tasks.retain(|task| self.shows(task.run));
                expired.tasks.truncate(limit);
                Answer::Expired(expired)
            }
            Request::Heads { after, .. } => {
                let mut page = self.store.heads(after.max(Some(self.run.before())), 1).await?;
                page.runs.retain(|head| head.run == self.run);
                page.damaged.retain(|run| *run == self.run);
                Answer::Heads(page)
            }
            other => self.store.ask(other).await?,
        })
    }

    fn news(&self) -> impl Future<Output = ()> + Send {
        self.store.news()
    }
}
