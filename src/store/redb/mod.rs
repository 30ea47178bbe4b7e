//! The embedded store: one redb file.
//!
//! Decides how records are laid out in redb and how requests become transactions. Must never know
//! what an event, result or snapshot means. To add a table, add a sheet to the shelf and, where its
//! loss would go unnoticed, a count to the record or the totals.
//!
//! One task owns the database and the queue. Whatever waits becomes one transaction, done away from
//! the async threads; a caller may go away, its commit may not. Any error of a commit is
//! [`StoreError::Unknown`] to all in its batch: redb may have written it all the same. The database
//! is then dropped and opened again, and nothing is read meanwhile. Reservations live in memory
//! alone, so claiming writes nothing and reopening forgets them, which uses up nothing.

mod checked_table;
mod definitions;
mod error;
mod layout;
mod open;
mod records;
mod writer;

use std::io;
use std::path::Path;

use redb::StorageBackend;
use tokio::sync::{mpsc, oneshot};

pub use error::OpenError;

use super::seam::{Answer, Request, Store, StoreError};
use crate::runtime::Runtime;
use writer::{Call, Clock, Opener, Writer};

/// How many requests wait for the writer before callers wait to ask.
const WAITING: usize = 256;

/// The embedded store. Dropping it lets the requests in flight finish and then closes the file;
/// [`RedbStore::close`] waits for that.
#[derive(Debug)]
pub struct RedbStore {
    requests: mpsc::Sender<Call>,
    closed: oneshot::Receiver<()>,
}

impl RedbStore {
    /// Opens the file at `path`, or makes it. Its folder must exist.
    ///
    /// # Errors
    /// When something else lies there, when it is damaged, newer than this release, open in another
    /// process, or out of reach.
    pub async fn open<R: Runtime>(runtime: R, path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref().to_owned();
        let place = path.display().to_string();
        let opener = move || open::open(&place, open::file(&path)?);
        Self::start(runtime, Opener::new(opener)).await
    }

    /// Opens the store on a backend of redb's. `backend` gives a fresh one each time the store is
    /// opened, at first and after each failed commit; `place` names it in errors.
    ///
    /// # Errors
    /// As [`RedbStore::open`].
    pub async fn open_with_backend<R, F, B>(
        runtime: R,
        place: &str,
        backend: F,
    ) -> Result<Self, OpenError>
    where
        R: Runtime,
        F: Fn() -> io::Result<B> + Send + 'static,
        B: StorageBackend,
    {
        let place = place.to_owned();
        let opener = move || {
            let backend = backend();
            let io = |source| OpenError::Io { place: place.clone(), source };
            open::open(&place, backend.map_err(io)?)
        };
        Self::start(runtime, Opener::new(opener)).await
    }

    async fn start<R: Runtime>(runtime: R, opener: Opener) -> Result<Self, OpenError> {
        let opened = runtime.blocking(move || opener.open().map(|open| (opener, open))).await;
        let lost = |lost| OpenError::Io { place: "store".into(), source: io::Error::other(lost) };
        let (opener, open) = opened.map_err(lost)??;
        let origin = open.totals.clock.max(runtime.wall());
        let clock = Clock { origin, since: runtime.now() };
        let writer = Writer { opener, open: Some(open), clock };
        let (requests, waiting) = mpsc::channel(WAITING);
        let (tell, closed) = oneshot::channel();
        runtime.spawn(writer::serve(runtime.clone(), writer, waiting, tell)).detach();
        Ok(Self { requests, closed })
    }

    /// Finishes the requests in flight and closes the file.
    pub async fn close(self) {
        let Self { requests, closed } = self;
        drop(requests);
        // The writer drops its end when the file is closed.
        let _ = closed.await;
    }
}

impl Store for RedbStore {
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        let (reply, answer) = oneshot::channel();
        let gone = || "the store's writer has stopped".to_owned();
        let sent = self.requests.send(Call::new(request, reply)).await;
        sent.map_err(|_| StoreError::NotDone(gone()))?;
        answer.await.unwrap_or_else(|_| Err(StoreError::Unknown(gone())))
    }
}
