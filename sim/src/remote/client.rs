//! The caller's side.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use retrial::run::{LetterId, RunId, Version};
use retrial::runtime::Runtime;
use retrial::store::{
    Archived, AskLetters, AskRuns, Claim, Claimed, Commit, Committed, Create, Created, Defined,
    Definition, Discarded, Expired, GuardRow, Heads, Holding, Letters, Listed, Loaded, Prune,
    Pruned, QueueRow, Renewed, Store, StoreError, StoredDefinition, StoredLetter, Tally,
};
use retrial::time::{Nanos, Timestamp};
use tokio::sync::Mutex;

use super::link::Link;
use super::protocol::{Answer, Ask, Request, frame};
use crate::net::SimConnector;

/// A store at another node. Keeps one connection, made when it is first needed and again after it
/// was lost; calls share it.
#[derive(Debug)]
pub struct RemoteStore<R> {
    runtime: R,
    connector: SimConnector,
    host: String,
    port: u16,
    patience: Nanos,
    next: AtomicU64,
    link: Mutex<Option<Arc<Link>>>,
}

impl<R: Runtime> RemoteStore<R> {
    /// How long a call waits for its answer unless set: 2 s.
    pub const PATIENCE: Nanos = Nanos::from_secs(2);

    /// The store that [`serve`](super::serve) offers at `port` of `host`.
    #[must_use]
    pub fn new(runtime: R, connector: SimConnector, host: &str, port: u16) -> Self {
        Self {
            runtime,
            connector,
            host: host.to_owned(),
            port,
            patience: Self::PATIENCE,
            next: AtomicU64::new(0),
            link: Mutex::new(None),
        }
    }

    /// The same with another wait for each answer, by this node's clock. Connecting gets as long
    /// again.
    #[must_use]
    pub fn with_patience(mut self, patience: Nanos) -> Self {
        self.patience = patience;
        self
    }

    async fn call(&self, ask: Ask) -> Result<Answer, StoreError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let frame = frame(&Request { id, ask }).map_err(|e| StoreError::NotDone(e.to_string()))?;
        let link = self.link().await?;
        let mut answered = link.call(id, frame);
        if let Some(given) = self.within(&mut answered).await {
            return given.unwrap_or_else(|_| Err(unanswered()));
        }
        // The peer may be dead and silent. Closing says whether this request ever left.
        link.close(LATE);
        answered.try_recv().unwrap_or_else(|_| Err(unanswered()))
    }

    /// The connection, made anew where there is none.
    async fn link(&self) -> Result<Arc<Link>, StoreError> {
        let mut kept = self.link.lock().await;
        if let Some(link) = kept.as_ref().filter(|link| link.is_open()) {
            return Ok(Arc::clone(link));
        }
        *kept = None;
        let stream = match self.within(self.connector.connect_to(&self.host, self.port)).await {
            Some(Ok(stream)) => stream,
            Some(Err(error)) => return Err(StoreError::NotDone(error.to_string())),
            None => return Err(StoreError::NotDone("could not connect in time".to_owned())),
        };
        let link = Arc::new(Link::new(&self.runtime, stream));
        *kept = Some(Arc::clone(&link));
        Ok(link)
    }

    /// What `future` gives, unless patience ends first.
    async fn within<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let deadline = self.runtime.now().after(self.patience);
        tokio::select! {
            biased;
            given = future => Some(given),
            () = self.runtime.sleep_until(deadline) => None,
        }
    }
}

const LATE: &str = "the store did not answer in time";

fn unanswered() -> StoreError {
    StoreError::Unknown(LATE.to_owned())
}

/// An answer of another method's: the two sides do not speak the same protocol.
fn strange<T>(answer: &Answer) -> Result<T, StoreError> {
    Err(StoreError::Unknown(format!("the store answered another question: {answer:?}")))
}

macro_rules! ask {
    ($self:ident, $ask:expr, $variant:ident) => {
        match $self.call($ask).await? {
            Answer::$variant(answer) => Ok(answer),
            other => strange(&other),
        }
    };
}

impl<R: Runtime> Store for RemoteStore<R> {
    async fn clock(&self) -> Result<Timestamp, StoreError> {
        ask!(self, Ask::Clock, Clock)
    }

    async fn create(&self, create: Create) -> Result<Created, StoreError> {
        ask!(self, Ask::Create(create), Create)
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        ask!(self, Ask::Claim(claim), Claim)
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, StoreError> {
        ask!(self, Ask::Commit(commit), Commit)
    }

    async fn renew(&self, held: Vec<Holding>) -> Result<Renewed, StoreError> {
        ask!(self, Ask::Renew(held), Renew)
    }

    async fn expired(&self, limit: usize) -> Result<Expired, StoreError> {
        ask!(self, Ask::Expired { limit }, Expired)
    }

    async fn load(&self, run: RunId, after: Option<Version>) -> Result<Option<Loaded>, StoreError> {
        ask!(self, Ask::Load { run, after }, Load)
    }

    async fn heads(&self, after: Option<RunId>, limit: usize) -> Result<Heads, StoreError> {
        ask!(self, Ask::Heads { after, limit }, Heads)
    }

    async fn queue(&self, run: RunId) -> Result<Vec<QueueRow>, StoreError> {
        ask!(self, Ask::Queue(run), Queue)
    }

    async fn trim(&self, run: RunId, below: Version) -> Result<(), StoreError> {
        match self.call(Ask::Trim { run, below }).await? {
            Answer::Trim => Ok(()),
            other => strange(&other),
        }
    }

    async fn letters(&self, ask: AskLetters) -> Result<Letters, StoreError> {
        ask!(self, Ask::Letters(ask), Letters)
    }

    async fn letter(&self, id: LetterId) -> Result<Option<StoredLetter>, StoreError> {
        ask!(self, Ask::Letter(id), Letter)
    }

    async fn discard(&self, id: LetterId, reason: String) -> Result<Discarded, StoreError> {
        ask!(self, Ask::Discard { id, reason }, Discard)
    }

    async fn archive(&self, run: RunId) -> Result<Archived, StoreError> {
        ask!(self, Ask::Archive(run), Archive)
    }

    async fn prune(&self, prune: Prune) -> Result<Pruned, StoreError> {
        ask!(self, Ask::Prune(prune), Prune)
    }

    async fn list(&self, ask: AskRuns) -> Result<Listed, StoreError> {
        ask!(self, Ask::List(ask), List)
    }

    async fn tally(&self) -> Result<Tally, StoreError> {
        ask!(self, Ask::Tally, Tally)
    }

    async fn guards(&self) -> Result<Vec<GuardRow>, StoreError> {
        ask!(self, Ask::Guards, Guards)
    }

    async fn define(&self, definition: Definition) -> Result<Defined, StoreError> {
        ask!(self, Ask::Define(definition), Define)
    }

    async fn definition(&self, name: String) -> Result<Option<StoredDefinition>, StoreError> {
        ask!(self, Ask::Definition(name), Definition)
    }

    async fn definitions(
        &self,
        after: Option<String>,
        limit: usize,
    ) -> Result<Vec<StoredDefinition>, StoreError> {
        ask!(self, Ask::Definitions { after, limit }, Definitions)
    }
}
