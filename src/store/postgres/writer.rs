//! The writers: each gathers the requests that wait for it and does them in one transaction.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{mpsc, oneshot};

use super::super::guards::Guards;
use super::super::requests::Requests;
use super::super::run_index::RunIndex;
use super::super::seam::{Answer, Request, StoreError};
use super::base::{Ask, Base, Wants};
use super::error::Failed;
use super::layout::text;
use super::news::Voice;
use super::records::{Changes, PgRecords};
use super::rows::Rows;
use super::session::Session;
use super::shared::Shared;
use super::write::write;
use crate::runtime::Runtime;

/// The most requests in one transaction.
const LARGEST_BATCH: usize = 128;
/// How often a request is tried again that another transaction was in the way of.
const TRIES: usize = 8;
/// How often requests may ask for more before one that never has enough is given up.
const ROUNDS: usize = 16;

const NEW_GUARDS: &str = "INSERT INTO guards (action) SELECT unnest($1::text[]) \
    ON CONFLICT (action) DO NOTHING";

/// A request on its way through a writer.
pub(super) struct Call {
    request: Request,
    answer: Result<Answer, StoreError>,
    reply: oneshot::Sender<Result<Answer, StoreError>>,
}

impl Call {
    pub(super) fn new(
        request: Request,
        reply: oneshot::Sender<Result<Answer, StoreError>>,
    ) -> Self {
        let answer = Err(StoreError::NotDone("the request was not reached".into()));
        Self { request, answer, reply }
    }

    /// What it is known to read.
    fn wants(&self) -> Wants {
        Wants::of(&self.request)
    }

    /// Does it on what was loaded and keeps the answer. May be called again.
    fn act(&mut self, ledger: &mut Requests<'_, PgRecords<'_>>) {
        self.answer = ledger.answer(&self.request);
    }

    /// Answers: what was kept, or why the transaction came to nothing. Whoever asked may be gone.
    fn settle(self, failed: Option<StoreError>) {
        let _ = self.reply.send(failed.map_or(self.answer, Err));
    }
}

/// A writer.
pub(super) struct Writer<R> {
    pub(super) runtime: R,
    pub(super) shared: Arc<Shared>,
    /// What this writer's runs were told last, and the guards of the transaction in progress.
    pub(super) guards: Guards,
    /// Actions whose guards have a row.
    pub(super) guarded: BTreeSet<String>,
    pub(super) voice: Arc<Voice>,
}

/// What some requests came to.
struct Decided {
    asked: Vec<Ask>,
    changes: Changes,
    rows: Rows,
    guards: Guards,
}

type Works = Vec<Call>;

impl<R: Runtime> Writer<R> {
    /// Serves requests until the last sender is gone, then drops `closed`.
    pub(super) async fn serve(
        mut self,
        mut requests: mpsc::Receiver<Call>,
        closed: oneshot::Sender<()>,
    ) {
        let mut waiting = VecDeque::new();
        let mut come = Vec::new();
        loop {
            if waiting.is_empty() && requests.recv_many(&mut come, LARGEST_BATCH).await == 0 {
                break;
            }
            while come.len() + waiting.len() < LARGEST_BATCH
                && let Ok(work) = requests.try_recv()
            {
                come.push(work);
            }
            waiting.extend(come.drain(..));
            let batch = gather(&mut waiting);
            self.do_all(batch).await;
        }
        drop(closed);
    }

    /// Does them in one transaction. Where that can't be, each is done by itself, so that one that
    /// can't be done takes no other down.
    async fn do_all(&mut self, mut works: Works) {
        match self.attempt(&mut works).await {
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

    async fn do_one(&mut self, work: Call) {
        let mut works = vec![work];
        let mut done = self.attempt(&mut works).await;
        for _ in 1..TRIES {
            if !matches!(done, Err(Failed::InTheWay(_))) {
                break;
            }
            done = self.attempt(&mut works).await;
        }
        settle(works, done);
    }

    /// Does them in one transaction, unless the server takes too long.
    async fn attempt(&mut self, works: &mut Works) -> Result<(), Failed> {
        let committing = AtomicBool::new(false);
        let (runtime, limit) = (self.runtime.clone(), self.shared.patience);
        let done = self.transact(works, &committing);
        let too_long = runtime.sleep_until(runtime.now().after(limit));
        tokio::select! {
            biased;
            done = done => done,
            () = too_long => {
                let why = "PostgreSQL did not answer in time".to_owned();
                match committing.load(Ordering::Relaxed) {
                    true => Err(Failed::Commit(why)),
                    false => Err(Failed::Away(why)),
                }
            }
        }
    }

    async fn transact(&mut self, works: &mut Works, committing: &AtomicBool) -> Result<(), Failed> {
        let mut wants = Wants::default();
        works.iter().for_each(|work| wants.join(work.wants()));
        let session = Session::of(&self.shared.pool).await?;
        self.begin_guards(&session, &wants).await?;
        let floor = self.shared.floor();
        let mut base = Base::load(&session, &wants, floor).await?;
        let mut decided = self.decide(&base, works);
        for _ in 0..ROUNDS {
            if decided.asked.is_empty() {
                break;
            }
            base.load_more(&session, &decided.asked).await?;
            decided = self.decide(&base, works);
        }
        if !decided.asked.is_empty() {
            return Err(Failed::Before("a request never had enough to be decided on".into()));
        }
        let Decided { changes, rows, guards, .. } = decided;
        if changes.is_empty() && rows.is_empty() {
            session.run("ROLLBACK").await?;
            session.done();
        } else {
            write(&session, base.now, &changes, &rows).await?;
            self.voice.tell(&session, rows.leave_due(base.now)).await?;
            committing.store(true, Ordering::Relaxed);
            session.commit().await?;
        }
        self.guards = guards;
        self.guards.states.clear();
        self.shared.saw(base.now, floor.max(base.updated)).await;
        Ok(())
    }

    /// Actions that are new get a row of their own beforehand: what is there can be locked in order.
    async fn begin_guards(&mut self, session: &Session, wants: &Wants) -> Result<(), Failed> {
        let new: Vec<&String> =
            wants.guards.keys().filter(|action| !self.guarded.contains(*action)).collect();
        let names: Vec<_> = new.iter().map(|action| text(action)).collect();
        session.write(names.len(), NEW_GUARDS, [&names]).await?;
        self.guarded.extend(new.into_iter().cloned());
        Ok(())
    }

    fn decide(&self, base: &Base, works: &mut Works) -> Decided {
        let mut queue = base.queue();
        let mut guards = self.guards.clone();
        base.fill(&mut guards);
        let mut shelf = PgRecords::new(base);
        // Lists and counts are SQL here.
        let mut catalogue = RunIndex::default();
        for work in works {
            let (queue, guards, catalogue) = (&mut queue, &mut guards, &mut catalogue);
            work.act(&mut Requests { shelf: &mut shelf, queue, guards, catalogue, now: base.now });
        }
        let (asked, changes) = (shelf.asked(), shelf.changes);
        Decided { asked, changes, rows: Rows::of(base, &queue), guards }
    }
}

fn settle(works: Works, done: Result<(), Failed>) {
    let failed = done.err().map(StoreError::from);
    works.into_iter().for_each(|work| work.settle(failed.clone()));
}

/// Those that can be done on one ground, in the order in which they came. One that has to wait
/// for another keeps its place before those that come after it.
fn gather(waiting: &mut VecDeque<Call>) -> Works {
    let (mut batch, mut rest) = (Vec::new(), VecDeque::new());
    let mut busy = Wants::default();
    for work in waiting.drain(..) {
        let wants = work.wants();
        let is_first = batch.is_empty() && rest.is_empty();
        if is_first || batch.len() < LARGEST_BATCH && !busy.meets(&wants) {
            batch.push(work);
        } else {
            rest.push_back(work);
        }
        busy.join(wants);
    }
    *waiting = rest;
    batch
}
