//! One connection to the store, and the calls that wait on it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use retrial::runtime::{Runtime, Task};
use retrial::store::{Answer, StoreError};
use tokio::io::{AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot};

use super::protocol::{AnswerFrame, read};
use crate::net::ShimStream;

type Result = std::result::Result<Answer, StoreError>;

/// One connection. Dropping the last handle closes it.
#[derive(Debug)]
pub(super) struct Link {
    out: mpsc::UnboundedSender<(u64, Vec<u8>)>,
    calls: Arc<Calls>,
    _tasks: [Task; 2],
}

/// The calls that wait for their answers.
#[derive(Debug, Default)]
struct Calls(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    /// Why the link is closed, once it is.
    closed: Option<String>,
    waiting: BTreeMap<u64, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    /// Whether its first byte may have left.
    sent: bool,
    answer: oneshot::Sender<Result>,
}

impl Link {
    /// Starts to send and receive on `stream`.
    pub(super) fn new(runtime: &impl Runtime, stream: ShimStream) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        let (out, queue) = mpsc::unbounded_channel();
        let calls = Arc::new(Calls::default());
        let tasks = [
            runtime.spawn(receive(Arc::clone(&calls), reader)),
            runtime.spawn(send(Arc::clone(&calls), queue, writer)),
        ];
        Self { out, calls, _tasks: tasks }
    }

    /// Whether it is not closed.
    pub(super) fn is_open(&self) -> bool {
        self.calls.table().closed.is_none()
    }

    /// Queues `frame`. The answer arrives on the channel.
    pub(super) fn call(&self, id: u64, frame: Vec<u8>) -> oneshot::Receiver<Result> {
        let (answer, answered) = oneshot::channel();
        let mut table = self.calls.table();
        if let Some(why) = &table.closed {
            let _ = answer.send(Err(StoreError::NotDone(why.clone())));
        } else {
            table.waiting.insert(id, Waiting { sent: false, answer });
            // The writer holds the other end until the link is closed.
            let _ = self.out.send((id, frame));
        }
        answered
    }

    /// Closes the connection. Every waiting call gets an error.
    pub(super) fn close(&self, why: &str) {
        self.calls.close(why);
    }
}

impl Calls {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self, why: &str) {
        let mut table = self.table();
        table.closed.get_or_insert_with(|| why.to_owned());
        for (_, Waiting { sent, answer }) in std::mem::take(&mut table.waiting) {
            let why = why.to_owned();
            let error = if sent { StoreError::Unknown(why) } else { StoreError::NotDone(why) };
            let _ = answer.send(Err(error));
        }
    }

    /// Records that the call's first byte is about to leave. Returns false if its caller no longer
    /// waits: the caller was answered that it never left, so it must not leave.
    fn mark_sent(&self, id: u64) -> bool {
        let mut table = self.table();
        let call = table.waiting.get_mut(&id);
        call.map(|call| call.sent = true).is_some()
    }

    fn answer(&self, AnswerFrame { id, result }: AnswerFrame) {
        if let Some(call) = self.table().waiting.remove(&id) {
            let _ = call.answer.send(result);
        }
    }
}

async fn receive(calls: Arc<Calls>, mut stream: ReadHalf<ShimStream>) {
    loop {
        match read(&mut stream).await {
            Ok(response) => calls.answer(response),
            Err(error) => return calls.close(&format!("the connection was lost: {error}")),
        }
    }
}

async fn send(
    calls: Arc<Calls>,
    mut queue: mpsc::UnboundedReceiver<(u64, Vec<u8>)>,
    mut stream: WriteHalf<ShimStream>,
) {
    while let Some((id, frame)) = queue.recv().await {
        if !calls.mark_sent(id) {
            continue;
        }
        if let Err(error) = stream.write_all(&frame).await {
            return calls.close(&format!("the connection was lost: {error}"));
        }
    }
}
