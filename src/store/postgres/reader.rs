//! The readers. Each answers the loads that wait for it from one instant of the store.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::super::queue::Queue;
use super::super::seam::{Answer, Request, StoreError};
use super::error::Failed;
use super::read::{ReadTransaction, load_and_answer, try_request};
use super::server::Server;
use super::working_set::WorkingSet;

/// The most requests that are answered together.
const LARGEST_BATCH: usize = 128;

/// A load on its way through a reader.
pub(super) struct Load {
    pub(super) request: Box<Request>,
    pub(super) reply: oneshot::Sender<Result<Answer, StoreError>>,
}

impl Load {
    /// Nobody waits for the answer any more.
    fn is_given_up(&self) -> bool {
        self.reply.is_closed()
    }
}

/// A reader.
pub(super) struct Reader {
    pub(super) server: Arc<Server>,
}

impl Reader {
    /// Answers loads until the last sender is dropped.
    pub(super) async fn serve(self, mut requests: mpsc::Receiver<Load>) {
        let mut batch = Vec::new();
        let mut last = 0;
        while requests.recv_many(&mut batch, LARGEST_BATCH).await > 0 {
            self.server.gather(last).await;
            while batch.len() < LARGEST_BATCH
                && let Ok(load) = requests.try_recv()
            {
                batch.push(load);
            }
            last = batch.len();
            batch.retain(|load| !load.is_given_up());
            match self.answer(&batch).await {
                // What one request asks for must fail no other.
                Err(Failed::Before(_)) if batch.len() > 1 => {
                    for load in batch.drain(..) {
                        let answers = self.answer(std::slice::from_ref(&load)).await;
                        reply(vec![load], answers);
                    }
                }
                answers => reply(std::mem::take(&mut batch), answers),
            }
        }
    }

    /// Answers a batch, unless the server takes too long.
    async fn answer(&self, batch: &[Load]) -> Result<Vec<Result<Answer, StoreError>>, Failed> {
        self.server.in_time(self.transact(batch)).await
    }

    async fn transact(&self, batch: &[Load]) -> Result<Vec<Result<Answer, StoreError>>, Failed> {
        let (mut runs, mut rows) = (Vec::new(), Vec::new());
        for load in batch {
            match &*load.request {
                Request::Load { run, after: None } => runs.push(*run),
                Request::Queue(run) => rows.push(*run),
                _ => {}
            }
        }
        let reading = ReadTransaction::begin(&self.server).await?;
        let (session, now) = (&reading.session, reading.now);
        let mut loaded = WorkingSet { now, ..WorkingSet::default() };
        loaded.load_runs(session, &runs, &rows).await?;
        let mut answers = answers_from(&loaded, batch);
        for (answer, load) in answers.iter_mut().zip(batch) {
            if answer.is_none() {
                *answer = Some(load_and_answer(session, now, &load.request).await?);
            }
        }
        reading.end().await?;
        Ok(answers.into_iter().flatten().collect())
    }
}

/// The answers that what was loaded is enough for.
fn answers_from(loaded: &WorkingSet, batch: &[Load]) -> Vec<Option<Result<Answer, StoreError>>> {
    // Where nobody asks for rows, none were loaded.
    let asks = |load: &Load| matches!(*load.request, Request::Queue(_));
    let mut queue = if batch.iter().any(asks) { loaded.queue() } else { Queue::default() };
    let answer = |load: &Load| {
        let (answer, missing) = try_request(loaded, &mut queue, &load.request);
        missing.is_empty().then_some(answer)
    };
    batch.iter().map(answer).collect()
}

fn reply(batch: Vec<Load>, answers: Result<Vec<Result<Answer, StoreError>>, Failed>) {
    match answers {
        // Who asked may be gone.
        Ok(answers) => batch.into_iter().zip(answers).for_each(|(load, answer)| {
            let _ = load.reply.send(answer);
        }),
        Err(failed) => {
            let error = StoreError::from(failed);
            batch.into_iter().for_each(|load| _ = load.reply.send(Err(error.clone())));
        }
    }
}
