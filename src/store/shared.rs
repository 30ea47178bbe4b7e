use std::future::Future;
use std::sync::Arc;

use super::keeping::{Archived, Prune, Pruned};
use super::letters::{AskLetters, Discarded, Letters, StoredLetter};
use super::seam::{
    Claim, Claimed, Commit, Committed, Create, Created, Expired, Heads, Holding, Loaded, QueueRow,
    Renewed, Store, StoreError,
};
use crate::run::{LetterId, RunId, Version};
use crate::time::Timestamp;

/// A shared store is a store.
impl<S: Store> Store for Arc<S> {
    fn clock(&self) -> impl Future<Output = Result<Timestamp, StoreError>> + Send {
        S::clock(self)
    }

    fn create(&self, create: Create) -> impl Future<Output = Result<Created, StoreError>> + Send {
        S::create(self, create)
    }

    fn claim(&self, claim: Claim) -> impl Future<Output = Result<Claimed, StoreError>> + Send {
        S::claim(self, claim)
    }

    fn commit(&self, commit: Commit) -> impl Future<Output = Result<Committed, StoreError>> + Send {
        S::commit(self, commit)
    }

    fn renew(
        &self,
        held: Vec<Holding>,
    ) -> impl Future<Output = Result<Renewed, StoreError>> + Send {
        S::renew(self, held)
    }

    fn expired(&self, limit: usize) -> impl Future<Output = Result<Expired, StoreError>> + Send {
        S::expired(self, limit)
    }

    fn load(
        &self,
        run: RunId,
        after: Option<Version>,
    ) -> impl Future<Output = Result<Option<Loaded>, StoreError>> + Send {
        S::load(self, run, after)
    }

    fn heads(
        &self,
        after: Option<RunId>,
        limit: usize,
    ) -> impl Future<Output = Result<Heads, StoreError>> + Send {
        S::heads(self, after, limit)
    }

    fn queue(&self, run: RunId) -> impl Future<Output = Result<Vec<QueueRow>, StoreError>> + Send {
        S::queue(self, run)
    }

    fn trim(
        &self,
        run: RunId,
        below: Version,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        S::trim(self, run, below)
    }

    fn letters(&self, ask: AskLetters) -> impl Future<Output = Result<Letters, StoreError>> + Send {
        S::letters(self, ask)
    }

    fn letter(
        &self,
        id: LetterId,
    ) -> impl Future<Output = Result<Option<StoredLetter>, StoreError>> + Send {
        S::letter(self, id)
    }

    fn discard(
        &self,
        id: LetterId,
        reason: String,
    ) -> impl Future<Output = Result<Discarded, StoreError>> + Send {
        S::discard(self, id, reason)
    }

    fn archive(&self, run: RunId) -> impl Future<Output = Result<Archived, StoreError>> + Send {
        S::archive(self, run)
    }

    fn prune(&self, prune: Prune) -> impl Future<Output = Result<Pruned, StoreError>> + Send {
        S::prune(self, prune)
    }
}
