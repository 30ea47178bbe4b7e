//! A store as a node sees it, with a witness beside it that writes down what the oracles need.

use std::sync::{Arc, Mutex};

use retrial::run::RunId;
use retrial::store::{Commit, Committed, Layer, Snapshot, Store, StoreError};

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

impl<S: Store> Layer for Witness<S> {
    type Under = S;

    fn under(&self) -> &S {
        &self.store
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
}
