use redb::{CommitError, StorageError, TableError, TransactionError};
use tokio::sync::{mpsc, oneshot};

use super::super::requests::Requests;
use super::super::seam::{Answer, Request, StoreError};
use super::error::{OpenError, before_commit};
use super::mark::{Mark, Touched};
use super::open::Open;
use super::records::RedbRecords;
use super::silent;
use crate::runtime::Runtime;
use crate::time::{Mono, Timestamp};

/// The most requests in one transaction. The mark has room for the runs and keys of so many
/// submissions.
const LARGEST_BATCH: usize = 144;

/// A request on its way through the writer.
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

    /// Runs the request within a transaction and keeps the answer. It may run again if the
    /// transaction fails.
    fn act(&mut self, requests: &mut Requests<'_, RedbRecords<'_>>) {
        self.answer = requests.answer(&self.request);
    }

    /// Sends the answer, or why the transaction failed. The caller may be gone.
    fn settle(self, failed: Option<StoreError>) {
        let _ = self.reply.send(failed.map_or(self.answer, Err));
    }
}

/// The store's time: fixed when it was first opened, then monotonic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub(super) origin: Timestamp,
    pub(super) since: Mono,
}

impl Clock {
    fn at(self, now: Mono) -> Timestamp {
        self.origin.after(now.since(self.since))
    }
}

/// Opens the store again.
///
/// A named type, because with a bare boxed closure the compiler does not see that futures which hold
/// one are `Send`.
pub(super) struct Opener(Box<dyn Fn() -> Result<Open, OpenError> + Send>);

impl Opener {
    pub(super) fn new(open: impl Fn() -> Result<Open, OpenError> + Send + 'static) -> Self {
        Self(Box::new(open))
    }

    pub(super) fn open(&self) -> Result<Open, OpenError> {
        (self.0)()
    }
}

/// Owns the database and the queue. After a failure it holds no database until it has opened it
/// again, and answers nothing before that.
pub(super) struct Writer {
    pub(super) opener: Opener,
    pub(super) open: Option<Open>,
    pub(super) clock: Clock,
}

/// Why a transaction failed.
enum Failed {
    /// Before its commit: it did not happen.
    Before(StoreError),
    /// In its commit: it may have happened.
    Commit(String),
}

impl From<StorageError> for Failed {
    fn from(error: StorageError) -> Self {
        Self::Before(before_commit(error))
    }
}

impl From<TransactionError> for Failed {
    fn from(error: TransactionError) -> Self {
        match error {
            TransactionError::Storage(error) => error.into(),
            other => Self::Before(StoreError::NotDone(other.to_string())),
        }
    }
}

impl From<TableError> for Failed {
    fn from(error: TableError) -> Self {
        match error {
            TableError::Storage(error) => error.into(),
            other => Self::Before(StoreError::Broken(format!("the store: {other}"))),
        }
    }
}

impl From<CommitError> for Failed {
    fn from(error: CommitError) -> Self {
        Self::Commit(error.to_string())
    }
}

/// Answers requests until the last sender is dropped, then closes the database and drops `closed`.
pub(super) async fn serve<R: Runtime>(
    runtime: R,
    mut writer: Writer,
    mut requests: mpsc::Receiver<Call>,
    closed: oneshot::Sender<()>,
) {
    let mut batch = Vec::new();
    while requests.recv_many(&mut batch, LARGEST_BATCH).await > 0 {
        let works = std::mem::take(&mut batch);
        let now = writer.clock.at(runtime.now());
        let served = runtime.blocking(move || {
            writer.serve(works, now);
            writer
        });
        match served.await {
            Ok(back) => writer = back,
            Err(_) => return,
        }
    }
    // The file's lock is free before `close` returns.
    let _ = runtime.blocking(move || writer.close()).await;
    drop(closed);
}

impl Writer {
    /// Runs all of `works` in one transaction and answers. If damage fails the batch, each request
    /// runs alone, so that only those that touch the damage fail.
    fn serve(&mut self, mut works: Vec<Call>, now: Timestamp) {
        match self.attempt(&mut works, now) {
            Err(Failed::Before(StoreError::Broken(_))) if works.len() > 1 => {
                works.into_iter().for_each(|work| self.serve(vec![work], now));
            }
            done => {
                let failed = done.err().map(|failed| match failed {
                    Failed::Before(error) => error,
                    Failed::Commit(why) => StoreError::Unknown(why),
                });
                works.into_iter().for_each(|work| work.settle(failed.clone()));
            }
        }
    }

    fn attempt(&mut self, works: &mut [Call], now: Timestamp) -> Result<(), Failed> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.opener.open().map_err(|error| Failed::Before(error.into()))?,
        };
        let mut committing = false;
        let done = silent::catch(|| transact(&mut open, works, now, &mut committing));
        let done = done.unwrap_or_else(|why| {
            Err(match committing {
                true => Failed::Commit(why),
                false => Failed::Before(StoreError::Broken(format!("the store: {why}"))),
            })
        });
        match done {
            Ok(()) => self.open = Some(open),
            Err(_) => close(open),
        }
        done
    }

    fn close(mut self) {
        self.open.take().into_iter().for_each(close);
    }
}

/// Drops a database that may be damaged, which may panic.
fn close(open: Open) {
    let _ = silent::catch(|| drop(open));
}

fn transact(
    open: &mut Open,
    works: &mut [Call],
    now: Timestamp,
    committing: &mut bool,
) -> Result<(), Failed> {
    let txn = open.db.begin_write()?;
    let mut records = RedbRecords::open(&txn, &open.known, open.totals)?;
    for work in works {
        let Open { queue, guards, run_index, .. } = open;
        let run_index = Some(run_index);
        work.act(&mut Requests { records: &mut records, queue, guards, run_index, now });
        if let Some(error) = records.failed() {
            return Err(Failed::Before(error));
        }
    }
    let (written, mut totals) = (records.written, records.totals);
    totals.clock = now;
    if !written {
        drop(records);
        return Ok(txn.abort()?);
    }
    let touched = std::mem::take(&mut records.touched);
    totals.commits += u64::from(!touched.is_empty());
    records.totals = totals;
    records.write_totals()?;
    drop(records);
    *committing = true;
    txn.commit()?;
    open.totals = totals;
    mark(open, touched)
}

/// Marks the newest commit. Nothing is lost if redb takes back a commit that only renewed leases.
fn mark(open: &Open, touched: Touched) -> Result<(), Failed> {
    if touched.is_empty() {
        return Ok(());
    }
    let mark = Mark { commit: open.totals.commits, touched: Some(touched) };
    mark.write(&open.backend).map_err(|error| Failed::Commit(error.to_string()))
}
