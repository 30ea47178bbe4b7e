//! A store as one run sees it.

use retrial::run::{LetterId, RunId, Version};
use retrial::store::{
    Archived, AskLetters, Claim, Claimed, Commit, Committed, Create, Created, Discarded, Expired,
    Heads, Holding, Letters, Loaded, Prune, Pruned, QueueRow, Renewed, Store, StoreError,
    StoredLetter,
};
use retrial::time::Timestamp;

/// Hides every other run of a store from the engine's loops: `retrial run` carries on the run that
/// it was asked for, and no abandoned one beside it.
///
/// Due tasks of other runs are reserved all the same and left to lapse, which uses up nothing.
pub(super) struct OneRun<S> {
    store: S,
    run: RunId,
}

impl<S> OneRun<S> {
    pub(super) fn new(store: S, run: RunId) -> Self {
        Self { store, run }
    }

    /// Hides every run.
    pub(super) fn nobody(store: S) -> Self {
        Self::new(store, RunId::from_bytes([0; 16]))
    }

    /// The store with all its runs.
    pub(super) fn inner(&self) -> &S {
        &self.store
    }

    /// The id before this run's, in the order of ids.
    fn before(&self) -> RunId {
        let before = u128::from_be_bytes(self.run.to_bytes()).saturating_sub(1);
        RunId::from_bytes(before.to_be_bytes())
    }
}

impl<S: Store> Store for OneRun<S> {
    async fn clock(&self) -> Result<Timestamp, StoreError> {
        self.store.clock().await
    }

    async fn create(&self, create: Create) -> Result<Created, StoreError> {
        self.store.create(create).await
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        let mut claimed = self.store.claim(claim).await?;
        claimed.tasks.retain(|task| task.run == self.run);
        Ok(claimed)
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, StoreError> {
        self.store.commit(commit).await
    }

    async fn renew(&self, held: Vec<Holding>) -> Result<Renewed, StoreError> {
        self.store.renew(held).await
    }

    /// Looks at all of them, or the other runs' would crowd out this one's.
    async fn expired(&self, limit: usize) -> Result<Expired, StoreError> {
        let mut expired = self.store.expired(usize::MAX).await?;
        expired.tasks.retain(|task| task.run == self.run);
        expired.tasks.truncate(limit);
        Ok(expired)
    }

    async fn load(&self, run: RunId, after: Option<Version>) -> Result<Option<Loaded>, StoreError> {
        self.store.load(run, after).await
    }

    async fn heads(&self, after: Option<RunId>, _: usize) -> Result<Heads, StoreError> {
        let mut page = self.store.heads(after.max(Some(self.before())), 1).await?;
        page.runs.retain(|head| head.run == self.run);
        page.damaged.retain(|run| *run == self.run);
        Ok(page)
    }

    async fn queue(&self, run: RunId) -> Result<Vec<QueueRow>, StoreError> {
        self.store.queue(run).await
    }

    async fn trim(&self, run: RunId, below: Version) -> Result<(), StoreError> {
        self.store.trim(run, below).await
    }

    async fn letters(&self, ask: AskLetters) -> Result<Letters, StoreError> {
        self.store.letters(ask).await
    }

    async fn letter(&self, id: LetterId) -> Result<Option<StoredLetter>, StoreError> {
        self.store.letter(id).await
    }

    async fn discard(&self, id: LetterId, reason: String) -> Result<Discarded, StoreError> {
        self.store.discard(id, reason).await
    }

    async fn archive(&self, run: RunId) -> Result<Archived, StoreError> {
        self.store.archive(run).await
    }

    async fn prune(&self, prune: Prune) -> Result<Pruned, StoreError> {
        self.store.prune(prune).await
    }
}
