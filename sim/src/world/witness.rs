//! A store as a node sees it, with a witness beside it that writes down what the oracles need.

use std::sync::{Arc, Mutex};

use retrial::run::{LetterId, RunId, Version};
use retrial::store::{
    Archived, AskLetters, Claim, Claimed, Commit, Committed, Create, Created, Discarded, Expired,
    Heads, Holding, Letters, Loaded, Prune, Pruned, QueueRow, Renewed, Snapshot, Store, StoreError,
    StoredLetter,
};
use retrial::time::Timestamp;

use crate::life::Life;
use crate::sync::lock;

/// What was seen of all stores of a world. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    snapshots: Vec<(RunId, Snapshot)>,
    fenced: u64,
}

impl Seen {
    pub(super) fn snapshots_of(&self, run: RunId) -> Vec<Snapshot> {
        let inner = lock(&self.0);
        inner.snapshots.iter().filter(|(of, _)| *of == run).map(|(_, s)| s.clone()).collect()
    }

    pub(super) fn fenced(&self) -> u64 {
        lock(&self.0).fenced
    }
}

/// A store that is watched.
#[derive(Debug)]
pub(super) struct Witness<S> {
    store: S,
    seen: Seen,
    life: Life,
}

impl<S> Witness<S> {
    pub(super) fn new(store: S, seen: Seen, life: Life) -> Self {
        Self { store, seen, life }
    }
}

impl<S: Store> Store for Witness<S> {
    async fn clock(&self) -> Result<Timestamp, StoreError> {
        self.store.clock().await
    }

    async fn create(&self, create: Create) -> Result<Created, StoreError> {
        self.store.create(create).await
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        self.store.claim(claim).await
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, StoreError> {
        let (run, state) = (commit.run, commit.snapshot.clone());
        let answer = self.store.commit(commit).await;
        if self.life.is_over() {
            return answer;
        }
        let mut seen = lock(&self.seen.0);
        match (&answer, state) {
            (
                Ok(Committed::Applied { version, .. } | Committed::Already { version, .. }),
                Some(state),
            ) => seen.snapshots.push((run, Snapshot { version: *version, state })),
            (Ok(Committed::Fenced { .. }), _) => seen.fenced += 1,
            _ => {}
        }
        answer
    }

    async fn renew(&self, held: Vec<Holding>) -> Result<Renewed, StoreError> {
        self.store.renew(held).await
    }

    async fn expired(&self, limit: usize) -> Result<Expired, StoreError> {
        self.store.expired(limit).await
    }

    async fn load(&self, run: RunId, after: Option<Version>) -> Result<Option<Loaded>, StoreError> {
        self.store.load(run, after).await
    }

    async fn heads(&self, after: Option<RunId>, limit: usize) -> Result<Heads, StoreError> {
        self.store.heads(after, limit).await
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
