//! A store that shows the engine one run.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use retrial::run::RunId;
use retrial::store::{Answer, Commit, Committed, RedbStore, Request, Store, StoreError, Stranded};

/// Hides every other run of a store from the engine's loops: `retrial run` executes only the run
/// that it was given and the runs that deliver its alerts.
///
/// A claim still reserves due tasks of other runs. The reservations lapse and use up nothing.
pub(super) struct SingleRunStore {
    store: RedbStore,
    run: RunId,
    /// The runs that this run has created.
    added: Mutex<BTreeSet<RunId>>,
}

impl SingleRunStore {
    pub(super) fn new(store: RedbStore, run: RunId) -> Self {
        Self { store, run, added: Mutex::default() }
    }

    /// The runs that this run has created to deliver its alerts.
    pub(super) fn added(&self) -> BTreeSet<RunId> {
        self.added.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn shows(&self, run: RunId) -> bool {
        run == self.run || self.added().contains(&run)
    }

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

impl Store for SingleRunStore {
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
            Request::Leases { after, limit } => {
                let mut leases = self.store.leases(after, usize::MAX).await?;
                leases.retain(|leased| self.shows(leased.run));
                leases.truncate(limit);
                Answer::Leases(leases)
            }
            Request::Heads { after, .. } => {
                let mut page = self.store.heads(after.max(Some(self.run.before())), 1).await?;
                page.runs.retain(|head| head.run == self.run);
                page.damaged.retain(|run| *run == self.run);
                Answer::Heads(page)
            }
            Request::Stranded { .. } => {
                let mut runs = self.store.heads(Some(self.run.before()), 1).await?.runs;
                runs.retain(|head| head.run == self.run && head.active && head.tasks == 0);
                Answer::Stranded(Stranded { runs, next: None })
            }
            other => self.store.ask(other).await?,
        })
    }

    fn news(&self) -> impl Future<Output = ()> + Send {
        self.store.news()
    }
}
