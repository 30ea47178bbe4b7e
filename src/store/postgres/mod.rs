//! The PostgreSQL store: many nodes on one database.
//!
//! Decides how records lie in tables, what is locked, and how requests become transactions. Must
//! never know what an event, result or snapshot means, nor what a request does: the ledger decides
//! that here as it does in every store. To add a table, add a migration, load it into `Base`, and
//! write it from `Changes`.
//!
//! A request is tried on what was loaded for it: runs are locked by id, then rows of the queue by
//! task, then guards by name, and then the clock is read. What it came to is written with one
//! statement for each kind. Requests that wait meanwhile share the next transaction; several writers
//! work at once, and each run has one. Whatever fails before COMMIT is sent did not happen
//! ([`StoreError::NotDone`]); what fails there may have ([`StoreError::Unknown`]). Claims are SQL
//! over queue rows alone and wait for nobody.
//!
//! Every attempt changes when its row is next looked at, in an index, so updates of the queue are
//! not HOT; rows are updated in place all the same, because a row that is removed and added leaves
//! as many dead ones and costs one more statement. Runs and guards are indexed by what never changes
//! and leave room on their pages, so their updates are HOT.

mod base;
mod claim;
mod connect;
mod definitions;
mod error;
mod layout;
mod lists;
mod load;
mod news;
mod options;
mod pages;
mod read;
mod records;
mod rows;
mod session;
mod shared;
mod write;
mod writer;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use tokio::sync::{Mutex, Notify, mpsc, oneshot};

pub use error::ConnectError;
pub use options::PostgresOptions;

use super::guards::Guards;
use super::seam::{Answer, Commit, Create, Request, Store, StoreError};
use crate::run::{LetterId, RunId};
use crate::runtime::{Runtime, Task};
use crate::time::Nanos;
use claim::Claims;
use news::Voice;
use shared::Shared;
use writer::{Call, Writer};

/// How many requests wait for a writer before callers wait to ask.
const WAITING: usize = 256;
/// How much longer than a statement an answer may take.
const GRACE: Nanos = Nanos::from_secs(5);

/// The PostgreSQL store. Dropping it lets the requests in flight finish; [`PostgresStore::close`]
/// waits for that. Nodes that share it must not take themselves for its only user:
/// `Config::sole_owner` is false.
pub struct PostgresStore<R> {
    runtime: R,
    shared: Arc<Shared>,
    claims: Mutex<Claims>,
    writers: Vec<mpsc::Sender<Call>>,
    closed: Vec<oneshot::Receiver<()>>,
    heard: Arc<Notify>,
    _listening: Task,
}

impl<R> fmt::Debug for PostgresStore<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("writers", &self.writers.len()).finish()
    }
}

impl<R: Runtime> PostgresStore<R> {
    /// Connects, and brings the tables up to date.
    ///
    /// # Errors
    /// When the server can't be reached or does not let us in, when the tables can't be made, or
    /// when a later release has changed them.
    pub async fn connect(runtime: R, options: PostgresOptions) -> Result<Self, ConnectError> {
        let tls = connect::tls(&options)?;
        connect::migrate(&runtime, &options, tls.clone()).await?;
        let pool = connect::pool(&options, tls.clone())?;
        let voice = Arc::new(Voice::new(&options.schema, runtime.random()));
        let patience = options.statement_timeout.saturating_add(GRACE);
        let shared = Arc::new(Shared::new(pool, patience));
        let (mut writers, mut closed) = (Vec::new(), Vec::new());
        for _ in 0..options.writers.max(1) {
            let (requests, waiting) = mpsc::channel(WAITING);
            let (tell, told) = oneshot::channel();
            let writer = Writer {
                runtime: runtime.clone(),
                shared: Arc::clone(&shared),
                guards: Guards::default(),
                guarded: BTreeSet::new(),
                voice: Arc::clone(&voice),
            };
            runtime.spawn(writer.serve(waiting, tell)).detach();
            writers.push(requests);
            closed.push(told);
        }
        let heard = Arc::new(Notify::new());
        let listening = news::listen(runtime.clone(), options, tls, voice, Arc::clone(&heard));
        let _listening = runtime.spawn(listening);
        Ok(Self { runtime, shared, claims: Mutex::default(), writers, closed, heard, _listening })
    }

    /// Finishes the requests in flight and closes the connections.
    pub async fn close(self) {
        let Self { writers, closed, shared, _listening: listening, .. } = self;
        drop((writers, listening));
        for closed in closed {
            // The writer drops its end when it has finished.
            let _ = closed.await;
        }
        shared.pool.close();
    }

    /// Has the writer of `run` do it.
    async fn write(&self, run: RunId, request: Request) -> Result<Answer, StoreError> {
        let gone = || "the store's writer has stopped".to_owned();
        let [.., last] = run.to_bytes();
        let writer = self.writers.get(usize::from(last) % self.writers.len().max(1));
        let writer = writer.ok_or_else(|| StoreError::NotDone(gone()))?;
        let (reply, answer) = oneshot::channel();
        let sent = writer.send(Call::new(request, reply)).await;
        sent.map_err(|_| StoreError::NotDone(gone()))?;
        answer.await.unwrap_or_else(|_| Err(StoreError::Unknown(gone())))
    }

    /// Gives `doing` up where the server does not answer.
    async fn in_time<T>(
        &self,
        doing: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        tokio::select! {
            biased;
            done = doing => done,
            () = self.runtime.sleep_until(self.runtime.now().after(self.shared.patience)) => {
                Err(StoreError::NotDone("PostgreSQL did not answer in time".into()))
            }
        }
    }
}

/// Whose writer does what is no run's.
fn nobody() -> RunId {
    RunId::from_bytes([0; 16])
}

impl<R: Runtime> Store for PostgresStore<R> {
    async fn ask(&self, request: Request) -> Result<Answer, StoreError> {
        match &request {
            Request::Create(Create { run, .. })
            | Request::Commit(Commit { run, .. })
            | Request::Discard { id: LetterId { run, .. }, .. }
            | Request::Trim { run, .. }
            | Request::Archive(run) => self.write(*run, request).await,
            Request::Renew(held) => {
                let run = held.first().map_or_else(nobody, |holding| holding.run);
                self.write(run, request).await
            }
            Request::Prune(prune) => {
                let run = prune.after.unwrap_or_else(nobody);
                self.write(run, request).await
            }
            Request::Define(_) => self.write(nobody(), request).await,
            Request::Claim(claim) => {
                let claimed = async { self.claims.lock().await.claim(&self.shared, claim).await };
                self.in_time(claimed).await.map(Answer::Claim)
            }
            Request::Expired { limit } => {
                self.in_time(claim::expired(&self.shared, *limit)).await.map(Answer::Expired)
            }
            Request::Clock
            | Request::Load { .. }
            | Request::Heads { .. }
            | Request::Queue(_)
            | Request::Letters(_)
            | Request::Letter(_)
            | Request::List(_)
            | Request::Tally
            | Request::Guards
            | Request::Definition(_)
            | Request::Definitions { .. } => {
                self.in_time(async { read::read(&self.shared, &request).await? }).await
            }
        }
    }

    /// Another node's transaction left something due. One of those who wait here is told.
    async fn news(&self) {
        self.heard.notified().await;
    }
}
