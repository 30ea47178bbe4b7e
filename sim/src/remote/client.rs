//! The caller's side.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use retrial::runtime::Runtime;
use retrial::store::{Answer, Request, Store, StoreError};
use retrial::time::Nanos;
use tokio::sync::Mutex;

use super::link::Link;
use super::protocol::{RequestFrame, frame};
use crate::net::SimConnector;

/// A store at another node. All calls share one connection, which is opened when it is first needed
/// and again after it was lost.
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

    /// Sets how long a call waits for its answer, by this node's clock. Connecting may take as long
    /// again.
    #[must_use]
    pub fn with_patience(mut self, patience: Nanos) -> Self {
        self.patience = patience;
        self
    }

    /// The connection, opened if there is none.
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

    /// The output of `future`; `None` if the patience ends first.
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

impl<R: Runtime> Store for RemoteStore<R> {
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let frame = frame(&RequestFrame { id, ask: request });
        let frame = frame.map_err(|e| StoreError::NotDone(e.to_string()))?;
        let link = self.link().await?;
        let mut answered = link.call(id, frame);
        if let Some(given) = self.within(&mut answered).await {
            return given.unwrap_or_else(|_| Err(unanswered()));
        }
        // The peer may be dead and silent. Closing the link answers whether this request ever left.
        link.close(LATE);
        answered.try_recv().unwrap_or_else(|_| Err(unanswered()))
    }
}
