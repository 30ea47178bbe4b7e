//! The writers. Each runs the requests that wait for it in one transaction.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{mpsc, oneshot};

use super::super::guards::Guards;
use super::super::requests::Requests;
use super::super::seam::{Answer, Request, StoreError};
use super::error::Failed;
use super::layout::text;
use super::notify::Notifier;
use super::records::{Changes, PgRecords};
use super::rows::ChangedRows;
use super::server::Server;
use super::session::Session;
use super::working_set::{Missing, ReadSet, WorkingSet};
use super::write::write;

/// The most requests in one transaction.
const LARGEST_BATCH: usize = 128;
/// How often a request runs before a conflict with another transaction is its answer.
const TRIES: usize = 8;
/// How often more is loaded for a batch before it is given up.
const ROUNDS: usize = 16;

const NEW_GUARDS: &str = "INSERT INTO guards (action) SELECT unnest($1::text[]) \
    ON CONFLICT (action) DO NOTHING";

/// A request on its way through a writer.
pub(super) struct Call {
    request: Request,
    /// What the request is known to read.
    reads: ReadSet,
    answer: Result<Answer, StoreError>,
    reply: oneshot::Sender<Result<Answer, StoreError>>,
}

impl Call {
    pub(super) fn new(
        request: Request,
        reply: oneshot::Sender<Result<Answer, StoreError>>,
    ) -> Self {
        let reads = ReadSet::of(&request);
        let answer = Err(StoreError::NotDone("the request was not reached".into()));
        Self { request, reads, answer, reply }
    }

    /// Runs the request on what was loaded and keeps the answer. It may run again.
    fn act(&mut self, requests: &mut Requests<'_, PgRecords<'_>>) {
        self.answer = requests.answer(&self.request);
    }

    /// Sends the answer, or why the transaction failed. The caller may be gone.
    fn settle(self, failed: Option<StoreError>) {
        let _ = self.reply.send(failed.map_or(self.answer, Err));
    }
}

/// A writer.
pub(super) struct Writer {
    pub(super) server: Arc<Server>,
    /// The last refusals of this writer's runs, and the guards of the transaction in progress.
    pub(super) guards: Guards,
    /// Actions whose guards have a row.
    pub(super) guarded: BTreeSet<String>,
    pub(super) notifier: Arc<Notifier>,
}

/// The outcome of a batch of requests.
struct Decided {
    missing: Vec<Missing>,
    changes: Changes,
    rows: ChangedRows,
    guards: Guards,
}

type Works = Vec<Box<Call>>;

impl Writer {
    /// Answers requests until the last sender is dropped, then drops `closed`.
    pub(super) async fn serve(
        mut self,
        mut requests: mpsc::Receiver<Box<Call>>,
        closed: oneshot::Sender<()>,
    ) {
        let mut waiting = VecDeque::new();
        let mut come = Vec::new();
        let mut last = 0;
        loop {
            if waiting.is_empty() && requests.recv_many(&mut come, LARGEST_BATCH).await == 0 {
                break;
            }
            self.server.gather(last).await;
            while come.len() + waiting.len() < LARGEST_BATCH
                && let Ok(work) = requests.try_recv()
            {
                come.push(work);
            }
            waiting.extend(come.drain(..));
            let (batch, reads) = gather(&mut waiting);
            last = batch.len();
            self.do_all(batch, &reads).await;
        }
        drop(closed);
    }

    /// Runs a batch in one transaction. If that fails, each request runs alone, so that one request
    /// fails no other.
    async fn do_all(&mut self, mut works: Works, reads: &ReadSet) {
        match self.attempt(&mut works, reads).await {
            Err(Failed::Before(_) | Failed::InTheWay(_)) if works.len() > 1 => {
                for work in works {
                    self.do_one(work).await;
                }
            }
            Err(Failed::InTheWay(_)) => {
                for work in works {
                    self.do_one(work).await;
                }
            }
            done => settle(works, done),
        }
    }

    async fn do_one(&mut self, mut work: Box<Call>) {
        let reads = std::mem::take(&mut work.reads);
        let mut works = vec![work];
        let mut done = self.attempt(&mut works, &reads).await;
        for _ in 1..TRIES {
            if !matches!(done, Err(Failed::InTheWay(_))) {
                break;
            }
            done = self.attempt(&mut works, &reads).await;
        }
        settle(works, done);
    }

    /// Runs a batch in one transaction, unless the server takes too long.
    async fn attempt(&mut self, works: &mut Works, reads: &ReadSet) -> Result<(), Failed> {
        let (server, committing) = (Arc::clone(&self.server), AtomicBool::new(false));
        tokio::select! {
            biased;
            done = self.transact(works, reads, &committing) => done,
            why = server.too_long() => match committing.load(Ordering::Relaxed) {
                true => Err(Failed::Commit(why)),
                false => Err(Failed::Away(why)),
            },
        }
    }

    async fn transact(
        &mut self,
        works: &mut Works,
        reads: &ReadSet,
        committing: &AtomicBool,
    ) -> Result<(), Failed> {
        let session = self.server.session().await?;
        self.begin_guards(&session, reads).await?;
        let floor = self.server.last_time();
        let mut loaded = WorkingSet::load(&session, reads, floor).await?;
        let mut decided = self.decide(&loaded, works);
        for _ in 0..ROUNDS {
            if decided.missing.is_empty() {
                break;
            }
            loaded.load_more(&session, &decided.missing).await?;
            decided = self.decide(&loaded, works);
        }
        if !decided.missing.is_empty() {
            return Err(Failed::Before("a request never had enough to be decided on".into()));
        }
        let Decided { changes, rows, guards, .. } = decided;
        if changes.is_empty() && rows.is_empty() {
            session.run("ROLLBACK").await?;
            session.done();
        } else {
            let is_news = rows.leave_due(loaded.now);
            tokio::try_join!(
                biased;
                write(&session, loaded.now, &changes, &rows),
                self.notifier.notify(&session, is_news),
            )?;
            committing.store(true, Ordering::Relaxed);
            session.commit().await?;
        }
        self.guards = guards;
        self.guards.states.clear();
        self.server.advance_time(loaded.now, floor.max(loaded.updated)).await;
        Ok(())
    }

    /// Adds rows for new actions first, so that all guards can be locked in order.
    async fn begin_guards(&mut self, session: &Session, reads: &ReadSet) -> Result<(), Failed> {
        let new: Vec<&String> =
            reads.guards.keys().filter(|action| !self.guarded.contains(*action)).collect();
        let names: Vec<_> = new.iter().map(|action| text(action)).collect();
        session.write(names.len(), NEW_GUARDS, [&names]).await?;
        self.guarded.extend(new.into_iter().cloned());
        Ok(())
    }

    fn decide(&self, loaded: &WorkingSet, works: &mut Works) -> Decided {
        let mut queue = loaded.queue();
        let mut guards = self.guards.clone();
        loaded.fill(&mut guards);
        let mut records = PgRecords::new(loaded);
        for work in works {
            work.act(&mut Requests {
                records: &mut records,
                queue: &mut queue,
                guards: &mut guards,
                run_index: None,
                now: loaded.now,
            });
        }
        let (missing, changes) = (records.missing(), records.changes);
        Decided { missing, changes, rows: ChangedRows::of(loaded, &queue), guards }
    }
}

fn settle(works: Works, done: Result<(), Failed>) {
    let failed = done.err().map(StoreError::from);
    works.into_iter().for_each(|work| work.settle(failed.clone()));
}

/// Takes the requests that can share a transaction, in the order of arrival, and what they read. A
/// request that must wait for another stays ahead of later ones that overlap with it.
fn gather(waiting: &mut VecDeque<Box<Call>>) -> (Works, ReadSet) {
    let (mut batch, mut rest) = (Vec::new(), VecDeque::new());
    let (mut reads, mut passed) = (ReadSet::default(), ReadSet::default());
    for work in waiting.drain(..) {
        let is_first = batch.is_empty() && rest.is_empty();
        let overlaps = || reads.overlaps(&work.reads) || passed.overlaps(&work.reads);
        if is_first || batch.len() < LARGEST_BATCH && !overlaps() {
            reads.merge(&work.reads);
            batch.push(work);
        } else {
            passed.merge(&work.reads);
            rest.push_back(work);
        }
    }
    *waiting = rest;
    (batch, reads)
}
