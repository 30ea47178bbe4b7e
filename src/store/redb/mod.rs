//! The embedded store: one redb file.
//!
//! Decides how records are laid out in redb and how requests become transactions. Must never know
//! what an event, result or snapshot means. To add a table, add it to `RedbRecords`; if the loss of
//! a row would go unnoticed, add a count to the record or the totals.
//!
//! One task owns the database and the queue. It runs all waiting requests in one transaction, on a
//! blocking thread. A caller may be dropped; its commit goes on. After an error of a commit every
//! request of the transaction gets [`StoreError::Unknown`], because redb may have written it. The
//! store then drops the database, opens it again, and reads nothing before that. Reservations are in
//! memory only, so a claim writes nothing, and reopening forgets them, which uses up nothing.

mod checked_table;
mod definitions;
mod error;
mod file;
mod layout;
mod lost;
mod mark;
mod meta;
mod open;
mod pages;
mod records;
mod reports;
mod silent;
mod writer;

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use redb::StorageBackend;
use tokio::sync::{mpsc, oneshot};

pub use error::OpenError;

use super::seam::{Answer, Request, Store, StoreError};
use crate::run::RunId;
use crate::runtime::Runtime;
use writer::{Call, Clock, Opener, Writer};

/// How many requests can wait for the writer. Further callers wait to send theirs.
const WAITING: usize = 256;

/// The embedded store. When it is dropped, the requests in flight finish and the file closes;
/// [`RedbStore::close`] waits for that.
#[derive(Debug)]
pub struct RedbStore {
    damaged: BTreeSet<RunId>,
    requests: mpsc::Sender<Call>,
    closed: oneshot::Receiver<()>,
}

impl RedbStore {
    /// Opens the file at `path`, or creates it. Its folder must exist.
    ///
    /// # Errors
    /// If the file is not a store, is damaged, was written by a newer release, is open in another
    /// process, or can't be reached.
    pub async fn open<R: Runtime>(runtime: R, path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let path = path.as_ref().to_owned();
        let place = path.display().to_string();
        let opener = move || open::open(&place, file::open(&path)?);
        Self::start(runtime, Opener::new(opener)).await
    }

    /// Opens the store on a redb backend. `backend` returns a new one each time the store opens: at
    /// first and after each failed commit. `place` names it in errors.
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
        let damaged = open.known.damaged.clone();
        let origin = open.totals.clock.max(runtime.wall());
        let clock = Clock { origin, since: runtime.now() };
        let writer = Writer { opener, open: Some(open), clock };
        let (requests, waiting) = mpsc::channel(WAITING);
        let (tell, closed) = oneshot::channel();
        runtime.spawn(writer::serve(runtime.clone(), writer, waiting, tell)).detach();
        Ok(Self { damaged, requests, closed })
    }

    /// The runs that were found damaged when the store was opened, those of lost commits among them.
    /// Lists name them as well, and every request for one is refused. The others go on.
    #[must_use]
    pub fn damaged(&self) -> &BTreeSet<RunId> {
        &self.damaged
    }

    /// Finishes the requests in flight and closes the file.
    pub async fn close(self) {
        let Self { requests, closed, .. } = self;
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
