//! The PostgreSQL store: many nodes on one database.
//!
//! Decides how records are laid out in tables, what is locked, and how requests become transactions.
//! Must never know what an event, result or snapshot means, nor what a request does: `Requests`
//! decides that, as in every store. To add a table, add a migration, load the table into
//! `WorkingSet`, and write it from `Changes`.
//!
//! A writer loads what a request reads: it locks runs by id, then queue rows by task, then guards by
//! name, and then reads the clock. It decides the request on that, and writes the changes with one
//! statement for each table. Requests that wait meanwhile share the next transaction. Several writers
//! work at once, and each run has one writer. A failure before COMMIT is sent means that nothing
//! happened ([`StoreError::NotDone`]); a failure of COMMIT leaves that unknown
//! ([`StoreError::Unknown`]). Claims are SQL over queue rows only and wait for no lock.
//!
//! Every attempt changes the due time of its row, which is indexed, so updates of the queue are not
//! HOT. Rows are updated in place all the same: removing and adding a row leaves as many dead rows
//! and costs one more statement. Runs and guards are indexed by columns that never change, and their
//! pages have free room, so their updates are HOT.
//!
//! | file | decides |
//! | --- | --- |
//! | `options.rs`, `connect.rs`, `error.rs` | how to connect, how the tables are migrated, what a failure means |
//! | `server.rs`, `session.rs` | the pool, the database's time, and one connection in use |
//! | `layout.rs`, `event_rows.rs`, `definitions.rs` | how values become columns, and their checksums |
//! | `working_set.rs`, `load.rs`, `load_history.rs`, `pages.rs` | what is loaded for requests, in which order it is locked, and the SQL that loads it |
//! | `records.rs` | records as requests read and change them: the working set and the changes |
//! | `writer.rs`, `write.rs`, `rows.rs` | which requests share a transaction, and the SQL that writes their changes |
//! | `read.rs`, `reader.rs`, `lists.rs` | requests that change nothing, and which of them share a transaction |
//! | `claim.rs` | claims and expired leases |
//! | `notify.rs` | hints to other nodes that something is due |
//! | `measured.rs` | what was asked of the server, for benches |

mod claim;
mod connect;
mod definitions;
mod error;
mod event_rows;
mod layout;
mod lists;
mod load;
mod load_history;
#[cfg(feature = "unstable")]
mod measured;
mod notify;
mod options;
mod pages;
mod read;
mod reader;
mod records;
mod reports;
mod rows;
mod server;
mod session;
mod working_set;
mod write;
mod writer;

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::{Mutex, Notify, mpsc, oneshot};

pub use error::ConnectError;
#[cfg(feature = "unstable")]
pub use measured::ServerUse;
pub use options::PostgresOptions;

use super::guards::Guards;
use super::seam::{Answer, Commit, Create, Request, Store, StoreError};
use crate::run::{LetterId, RunId};
use crate::runtime::{Runtime as _, Task, TokioRuntime};
use crate::time::Nanos;
use claim::Claims;
use notify::Notifier;
use reader::{Load, Reader};
use server::Server;
use writer::{Call, Writer};

/// How many requests can wait for a writer. Further callers wait to send theirs.
const WAITING: usize = 256;
/// How many writers there are for each reader. A reader answers loads of runs, one after another, each
/// with those that wait meanwhile.
const WRITERS_A_READER: usize = 2;
/// How much longer than a statement an answer may take.
const GRACE: Nanos = Nanos::from_secs(5);

/// A future in a box. The compiler makes the code of an `async fn` anew in each crate that awaits
/// it, and behind these is all of tokio-postgres.
type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The PostgreSQL store. When it is dropped, the requests in flight finish; [`PostgresStore::close`]
/// waits for that. Nodes that share it must set `Config::sole_owner` to false.
pub struct PostgresStore {
    server: Arc<Server>,
    claims: Mutex<Claims>,
    writers: Vec<mpsc::Sender<Box<Call>>>,
    readers: Vec<mpsc::Sender<Load>>,
    closed: Vec<oneshot::Receiver<()>>,
    news: Arc<Notify>,
    _listening: Task,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("writers", &self.writers.len()).finish()
    }
}

impl PostgresStore {
    /// Connects, and migrates the tables.
    ///
    /// # Errors
    /// If the server can't be reached or refuses the login, if the tables can't be migrated, or if a
    /// later release has changed them.
    pub fn connect(
        runtime: TokioRuntime,
        options: PostgresOptions,
    ) -> Boxed<'static, Result<Self, ConnectError>> {
        Box::pin(Self::connected(runtime, options))
    }

    async fn connected(
        runtime: TokioRuntime,
        options: PostgresOptions,
    ) -> Result<Self, ConnectError> {
        let tls = connect::tls(&options)?;
        connect::migrate(&runtime, &options, tls.clone()).await?;
        let pool = connect::pool(&options, tls.clone())?;
        let notifier = Arc::new(Notifier::new(&options.schema, runtime.random()));
        let patience = options.statement_timeout.saturating_add(GRACE);
        let server = Arc::new(Server::new(runtime.clone(), pool, patience));
        let (mut writers, mut closed) = (Vec::new(), Vec::new());
        for _ in 0..options.writers.max(1) {
            let (requests, waiting) = mpsc::channel(WAITING);
            let (tell, told) = oneshot::channel();
            let writer = Writer {
                server: Arc::clone(&server),
                guards: Guards::default(),
                guarded: BTreeSet::new(),
                notifier: Arc::clone(&notifier),
            };
            runtime.spawn(writer.serve(waiting, tell)).detach();
            writers.push(requests);
            closed.push(told);
        }
        let readers = std::iter::repeat_with(|| {
            let (loads, waiting) = mpsc::channel(WAITING);
            let reader = Reader { server: Arc::clone(&server) };
            runtime.spawn(reader.serve(waiting)).detach();
            loads
        });
        let readers = readers.take(writers.len().div_ceil(WRITERS_A_READER)).collect();
        let news = Arc::new(Notify::new());
        let listening = notify::listen(runtime.clone(), options, tls, notifier, Arc::clone(&news));
        let _listening = runtime.spawn(listening);
        let claims = Mutex::default();
        Ok(Self { server, claims, writers, readers, closed, news, _listening })
    }

    /// Finishes the requests in flight and closes the connections.
    pub fn close(self) -> Boxed<'static, ()> {
        Box::pin(self.closed())
    }

    async fn closed(self) {
        let Self { writers, readers, closed, server, _listening: listening, .. } = self;
        drop((writers, readers, listening));
        for closed in closed {
            // The writer drops its end when it has finished.
            let _ = closed.await;
        }
        server.pool.close();
    }

    /// Answers a request. Boxed: the engine's lanes hold this future. Those of loads and of requests
    /// that change something are small, for there is one of them for each commit.
    fn boxed(&self, request: Request) -> Boxed<'_, Result<Answer, StoreError>> {
        let run = match &request {
            Request::Create(Create { run, .. })
            | Request::Commit(Commit { run, .. })
            | Request::Discard { id: LetterId { run, .. }, .. }
            | Request::Trim { run, .. }
            | Request::Archive(run) => *run,
            Request::Renew(held) => held.first().map_or_else(no_run, |holding| holding.run),
            Request::Prune(prune) => prune.after.unwrap_or_else(no_run),
            Request::Define(_) => no_run(),
            Request::Load { run, .. } | Request::Queue(run) => {
                return Box::pin(self.load(*run, request));
            }
            _ => return Box::pin(self.answer(request)),
        };
        Box::pin(self.write(run, request))
    }

    /// Sends the request to a reader.
    fn load(
        &self,
        run: RunId,
        request: Request,
    ) -> impl Future<Output = Result<Answer, StoreError>> + use<'_> {
        let (reply, answer) = oneshot::channel();
        let load = Load { request: Box::new(request), reply };
        async move {
            let gone = || StoreError::NotDone("the store's reader has stopped".into());
            let reader = one_of(&self.readers, run).ok_or_else(gone)?;
            reader.send(load).await.map_err(|_| gone())?;
            answer.await.unwrap_or_else(|_| Err(gone()))
        }
    }

    /// Sends the request to the writer of `run`.
    fn write(
        &self,
        run: RunId,
        request: Request,
    ) -> impl Future<Output = Result<Answer, StoreError>> + use<'_> {
        let (reply, answer) = oneshot::channel();
        let call = Box::new(Call::new(request, reply));
        async move {
            let gone = || "the store's writer has stopped".to_owned();
            let writer = one_of(&self.writers, run).ok_or_else(|| StoreError::NotDone(gone()))?;
            writer.send(call).await.map_err(|_| StoreError::NotDone(gone()))?;
            answer.await.unwrap_or_else(|_| Err(StoreError::Unknown(gone())))
        }
    }
}

/// Always the same for a run.
fn one_of<T>(all: &[T], run: RunId) -> Option<&T> {
    let [.., last] = run.to_bytes();
    all.get(usize::from(last) % all.len().max(1))
}

/// Stands for requests that concern no run: one writer does them all.
fn no_run() -> RunId {
    RunId::from_bytes([0; 16])
}

impl PostgresStore {
    /// Answers a request that has a transaction of its own.
    async fn answer(&self, request: Request) -> Result<Answer, StoreError> {
        match &request {
            Request::Claim(claim) => {
                let claimed = async { self.claims.lock().await.claim(&self.server, claim).await };
                self.server.in_time(claimed).await.map(Answer::Claim)
            }
            Request::Expired { limit } => {
                self.server.in_time(claim::expired(&self.server, *limit)).await.map(Answer::Expired)
            }
            Request::Leases { after, limit } => {
                let leases = claim::leases(&self.server, *after, *limit);
                self.server.in_time(leases).await.map(Answer::Leases)
            }
            Request::Report(report) => {
                let put = async { Ok(reports::put(&self.server, report).await?) };
                self.server.in_time(put).await.map(|()| Answer::Report)
            }
            _ => {
                let read = async { read::read(&self.server, &request).await? };
                self.server.in_time(read).await
            }
        }
    }
}

impl Store for PostgresStore {
    fn ask(&self, request: Request) -> impl Future<Output = Result<Answer, StoreError>> + Send {
        self.boxed(request)
    }

    /// Ends when another node's transaction left something due. One waiting caller is woken.
    async fn news(&self) {
        self.news.notified().await;
    }
}
