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

use self::records::PgRecords;
use super::definitions::{Defined, Definition, StoredDefinition};
use super::guards::{GuardRow, Guards};
use super::letters::{AskLetters, Discarded, Letters, StoredLetter};
use super::listing::{AskRuns, Heads, Listed, Tally};
use super::records::Records;
use super::requests::Requests;
use super::retention::{Archived, Prune, Pruned};
use super::seam::{
    Claim, Claimed, Commit, Committed, Create, Created, Expired, Holding, Loaded, QueueRow,
    Renewed, Store, StoreError,
};
use crate::run::{LetterId, RunId, Version};
use crate::runtime::{Runtime, Task};
use crate::time::{Nanos, Timestamp};
use base::{Ask, Wants};
use claim::Claims;
use error::Failed;
use news::Voice;
use read::Reading;
use shared::Shared;
use writer::{Call, Work, Writer};

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
    writers: Vec<mpsc::Sender<Box<dyn Work>>>,
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
    async fn write<T: Send + 'static>(
        &self,
        run: RunId,
        wants: impl Fn() -> Wants + Send + 'static,
        act: impl FnMut(&mut Requests<'_, PgRecords<'_>>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let gone = || "the store's writer has stopped".to_owned();
        let [.., last] = run.to_bytes();
        let writer = self.writers.get(usize::from(last) % self.writers.len().max(1));
        let writer = writer.ok_or_else(|| StoreError::NotDone(gone()))?;
        let (reply, answer) = oneshot::channel();
        let sent = writer.send(Box::new(Call::new(wants, act, reply))).await;
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

    /// Reads by the ledger.
    async fn read<T>(
        &self,
        asks: Vec<Ask>,
        whole: Option<RunId>,
        act: impl Fn(&mut Requests<'_, PgRecords<'_>>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.in_time(async { read::read(&self.shared, asks, whole, act).await? }).await
    }
}

/// Whose writer does what is no run's.
fn nobody() -> RunId {
    RunId::from_bytes([0; 16])
}

/// A number of runs, which are locked.
fn runs(runs: impl IntoIterator<Item = RunId>) -> Wants {
    Wants { runs: runs.into_iter().collect(), ..Wants::default() }
}

impl<R: Runtime> Store for PostgresStore<R> {
    async fn clock(&self) -> Result<Timestamp, StoreError> {
        self.read(vec![], None, |ledger| Ok(ledger.now)).await
    }

    async fn create(&self, create: Create) -> Result<Created, StoreError> {
        let (run, create) = (create.run, Arc::new(create));
        let wanted = Arc::clone(&create);
        let wants = move || {
            let mut wants = Wants::default();
            wants.create(&wanted);
            wants
        };
        self.write(run, wants, move |ledger| ledger.create(&create)).await
    }

    async fn claim(&self, claim: Claim) -> Result<Claimed, StoreError> {
        self.in_time(async { self.claims.lock().await.claim(&self.shared, &claim).await }).await
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, StoreError> {
        let (run, commit) = (commit.run, Arc::new(commit));
        let wanted = Arc::clone(&commit);
        let wants = move || {
            let mut wants = Wants::default();
            wants.commit(&wanted);
            wants
        };
        self.write(run, wants, move |ledger| ledger.commit(&commit)).await
    }

    async fn renew(&self, held: Vec<Holding>) -> Result<Renewed, StoreError> {
        let run = held.first().map_or_else(nobody, |holding| holding.run);
        let held: Arc<[Holding]> = held.into();
        let wanted = Arc::clone(&held);
        let wants = move || {
            let mut wants = Wants::default();
            wants.renew(&wanted);
            wants
        };
        self.write(run, wants, move |ledger| ledger.renew(&held)).await
    }

    async fn expired(&self, limit: usize) -> Result<Expired, StoreError> {
        self.in_time(claim::expired(&self.shared, limit)).await
    }

    async fn load(&self, run: RunId, after: Option<Version>) -> Result<Option<Loaded>, StoreError> {
        self.read(vec![Ask::Record(run)], None, move |ledger| ledger.load(run, after)).await
    }

    async fn heads(&self, after: Option<RunId>, limit: usize) -> Result<Heads, StoreError> {
        self.read(vec![], None, move |ledger| ledger.heads(after, limit)).await
    }

    async fn queue(&self, run: RunId) -> Result<Vec<QueueRow>, StoreError> {
        let rows = move |ledger: &mut Requests<'_, PgRecords<'_>>| {
            ledger.shelf.record(run).map(|_| ledger.queue.rows(run))
        };
        self.read(vec![Ask::Record(run)], Some(run), rows).await
    }

    async fn trim(&self, run: RunId, below: Version) -> Result<(), StoreError> {
        self.write(run, move || runs([run]), move |ledger| ledger.trim(run, below)).await
    }

    async fn letters(&self, ask: AskLetters) -> Result<Letters, StoreError> {
        self.read(vec![], None, move |ledger| ledger.letters(&ask)).await
    }

    async fn letter(&self, id: LetterId) -> Result<Option<StoredLetter>, StoreError> {
        self.read(vec![Ask::Letter(id)], None, move |ledger| ledger.letter(id)).await
    }

    async fn discard(&self, id: LetterId, reason: String) -> Result<Discarded, StoreError> {
        let run = id.run;
        self.write(run, move || runs([run]), move |ledger| ledger.discard(id, &reason)).await
    }

    async fn archive(&self, run: RunId) -> Result<Archived, StoreError> {
        self.write(run, move || runs([run]), move |ledger| ledger.archive(run)).await
    }

    async fn prune(&self, prune: Prune) -> Result<Pruned, StoreError> {
        let page = Some((prune.after, prune.limit));
        let wants = move || Wants { page, ..Wants::default() };
        let run = prune.after.unwrap_or_else(nobody);
        self.write(run, wants, move |ledger| ledger.prune(&prune)).await
    }

    async fn list(&self, ask: AskRuns) -> Result<Listed, StoreError> {
        let list = async {
            let reading = Reading::begin(&self.shared).await?;
            let listed = lists::list(&reading.session, reading.now, &ask).await?;
            reading.end().await?;
            Ok::<_, Failed>(listed)
        };
        self.in_time(async { Ok(list.await?) }).await
    }

    async fn tally(&self) -> Result<Tally, StoreError> {
        let tally = async {
            let reading = Reading::begin(&self.shared).await?;
            let tally = lists::tally(&reading.session, reading.now).await?;
            reading.end().await?;
            Ok::<_, Failed>(tally)
        };
        self.in_time(async { Ok(tally.await?) }).await
    }

    async fn guards(&self) -> Result<Vec<GuardRow>, StoreError> {
        let guards = async {
            let reading = Reading::begin(&self.shared).await?;
            let guards = lists::guards(&reading.session, reading.now).await?;
            reading.end().await?;
            Ok::<_, Failed>(guards)
        };
        self.in_time(async { Ok(guards.await?) }).await
    }

    async fn define(&self, definition: Definition) -> Result<Defined, StoreError> {
        let name = definition.name.clone();
        let wants = move || Wants { definitions: [name.clone()].into(), ..Wants::default() };
        self.write(nobody(), wants, move |ledger| ledger.define(&definition)).await
    }

    async fn definition(&self, name: String) -> Result<Option<StoredDefinition>, StoreError> {
        self.read(vec![], None, move |ledger| ledger.shelf.definition(&name)).await
    }

    async fn definitions(
        &self,
        after: Option<String>,
        limit: usize,
    ) -> Result<Vec<StoredDefinition>, StoreError> {
        let page = move |ledger: &mut Requests<'_, PgRecords<'_>>| {
            ledger.shelf.definitions(after.as_deref(), limit)
        };
        self.read(vec![], None, page).await
    }

    /// Another node's transaction left something due. One of those who wait here is told.
    async fn news(&self) {
        self.heard.notified().await;
    }
}
