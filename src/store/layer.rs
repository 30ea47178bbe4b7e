//! A store over another store.

use std::future::Future;
use std::sync::Arc;

use super::definitions::{Defined, Definition, StoredDefinition};
use super::letters::{AskLetters, Discarded, Letters, StoredLetter};
use super::listing::{AskRuns, Heads, Listed, Tally};
use super::retention::{Archived, Prune, Pruned};
use super::seam::{
    Claim, Claimed, Commit, Committed, Create, Created, Expired, GuardRow, Holding, Loaded,
    QueueRow, Renewed, Store, StoreError,
};
use crate::run::{LetterId, RunId, Version};
use crate::time::Timestamp;

/// A store over another one, which answers in its place wherever a method is not written out. Each
/// method means what [`Store`] says. A layer calls the store beneath through [`Layer::under`].
#[expect(missing_docs, reason = "the seam's own methods")]
pub trait Layer: Send + Sync + 'static {
    /// The store beneath.
    type Under: Store;

    /// The store beneath.
    fn under(&self) -> &Self::Under;

    fn clock(&self) -> impl Future<Output = Result<Timestamp, StoreError>> + Send {
        self.under().clock()
    }

    fn create(&self, create: Create) -> impl Future<Output = Result<Created, StoreError>> + Send {
        self.under().create(create)
    }

    fn claim(&self, claim: Claim) -> impl Future<Output = Result<Claimed, StoreError>> + Send {
        self.under().claim(claim)
    }

    fn commit(&self, commit: Commit) -> impl Future<Output = Result<Committed, StoreError>> + Send {
        self.under().commit(commit)
    }

    fn renew(
        &self,
        held: Vec<Holding>,
    ) -> impl Future<Output = Result<Renewed, StoreError>> + Send {
        self.under().renew(held)
    }

    fn expired(&self, limit: usize) -> impl Future<Output = Result<Expired, StoreError>> + Send {
        self.under().expired(limit)
    }

    fn load(
        &self,
        run: RunId,
        after: Option<Version>,
    ) -> impl Future<Output = Result<Option<Loaded>, StoreError>> + Send {
        self.under().load(run, after)
    }

    fn heads(
        &self,
        after: Option<RunId>,
        limit: usize,
    ) -> impl Future<Output = Result<Heads, StoreError>> + Send {
        self.under().heads(after, limit)
    }

    fn queue(&self, run: RunId) -> impl Future<Output = Result<Vec<QueueRow>, StoreError>> + Send {
        self.under().queue(run)
    }

    fn trim(
        &self,
        run: RunId,
        below: Version,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.under().trim(run, below)
    }

    fn letters(&self, ask: AskLetters) -> impl Future<Output = Result<Letters, StoreError>> + Send {
        self.under().letters(ask)
    }

    fn letter(
        &self,
        id: LetterId,
    ) -> impl Future<Output = Result<Option<StoredLetter>, StoreError>> + Send {
        self.under().letter(id)
    }

    fn discard(
        &self,
        id: LetterId,
        reason: String,
    ) -> impl Future<Output = Result<Discarded, StoreError>> + Send {
        self.under().discard(id, reason)
    }

    fn archive(&self, run: RunId) -> impl Future<Output = Result<Archived, StoreError>> + Send {
        self.under().archive(run)
    }

    fn prune(&self, prune: Prune) -> impl Future<Output = Result<Pruned, StoreError>> + Send {
        self.under().prune(prune)
    }

    fn list(&self, ask: AskRuns) -> impl Future<Output = Result<Listed, StoreError>> + Send {
        self.under().list(ask)
    }

    fn tally(&self) -> impl Future<Output = Result<Tally, StoreError>> + Send {
        self.under().tally()
    }

    fn guards(&self) -> impl Future<Output = Result<Vec<GuardRow>, StoreError>> + Send {
        self.under().guards()
    }

    fn define(
        &self,
        definition: Definition,
    ) -> impl Future<Output = Result<Defined, StoreError>> + Send {
        self.under().define(definition)
    }

    fn definition(
        &self,
        name: String,
    ) -> impl Future<Output = Result<Option<StoredDefinition>, StoreError>> + Send {
        self.under().definition(name)
    }

    fn definitions(
        &self,
        after: Option<String>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<StoredDefinition>, StoreError>> + Send {
        self.under().definitions(after, limit)
    }

    fn news(&self) -> impl Future<Output = ()> + Send {
        self.under().news()
    }
}

/// A shared store is a store.
impl<S: Store> Layer for Arc<S> {
    type Under = S;

    fn under(&self) -> &S {
        self
    }
}

impl<L: Layer> Store for L {
    fn clock(&self) -> impl Future<Output = Result<Timestamp, StoreError>> + Send {
        L::clock(self)
    }

    fn create(&self, create: Create) -> impl Future<Output = Result<Created, StoreError>> + Send {
        L::create(self, create)
    }

    fn claim(&self, claim: Claim) -> impl Future<Output = Result<Claimed, StoreError>> + Send {
        L::claim(self, claim)
    }

    fn commit(&self, commit: Commit) -> impl Future<Output = Result<Committed, StoreError>> + Send {
        L::commit(self, commit)
    }

    fn renew(
        &self,
        held: Vec<Holding>,
    ) -> impl Future<Output = Result<Renewed, StoreError>> + Send {
        L::renew(self, held)
    }

    fn expired(&self, limit: usize) -> impl Future<Output = Result<Expired, StoreError>> + Send {
        L::expired(self, limit)
    }

    fn load(
        &self,
        run: RunId,
        after: Option<Version>,
    ) -> impl Future<Output = Result<Option<Loaded>, StoreError>> + Send {
        L::load(self, run, after)
    }

    fn heads(
        &self,
        after: Option<RunId>,
        limit: usize,
    ) -> impl Future<Output = Result<Heads, StoreError>> + Send {
        L::heads(self, after, limit)
    }

    fn queue(&self, run: RunId) -> impl Future<Output = Result<Vec<QueueRow>, StoreError>> + Send {
        L::queue(self, run)
    }

    fn trim(
        &self,
        run: RunId,
        below: Version,
    ) -> impl Future<Output = Result<(), StoreError>> + Send {
        L::trim(self, run, below)
    }

    fn letters(&self, ask: AskLetters) -> impl Future<Output = Result<Letters, StoreError>> + Send {
        L::letters(self, ask)
    }

    fn letter(
        &self,
        id: LetterId,
    ) -> impl Future<Output = Result<Option<StoredLetter>, StoreError>> + Send {
        L::letter(self, id)
    }

    fn discard(
        &self,
        id: LetterId,
        reason: String,
    ) -> impl Future<Output = Result<Discarded, StoreError>> + Send {
        L::discard(self, id, reason)
    }

    fn archive(&self, run: RunId) -> impl Future<Output = Result<Archived, StoreError>> + Send {
        L::archive(self, run)
    }

    fn prune(&self, prune: Prune) -> impl Future<Output = Result<Pruned, StoreError>> + Send {
        L::prune(self, prune)
    }

    fn list(&self, ask: AskRuns) -> impl Future<Output = Result<Listed, StoreError>> + Send {
        L::list(self, ask)
    }

    fn tally(&self) -> impl Future<Output = Result<Tally, StoreError>> + Send {
        L::tally(self)
    }

    fn guards(&self) -> impl Future<Output = Result<Vec<GuardRow>, StoreError>> + Send {
        L::guards(self)
    }

    fn define(
        &self,
        definition: Definition,
    ) -> impl Future<Output = Result<Defined, StoreError>> + Send {
        L::define(self, definition)
    }

    fn definition(
        &self,
        name: String,
    ) -> impl Future<Output = Result<Option<StoredDefinition>, StoreError>> + Send {
        L::definition(self, name)
    }

    fn definitions(
        &self,
        after: Option<String>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<StoredDefinition>, StoreError>> + Send {
        L::definitions(self, after, limit)
    }

    fn news(&self) -> impl Future<Output = ()> + Send {
        L::news(self)
    }
}
