//! Notices as an async stream, for a program that embeds the engine.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;

use super::{Notice, Observer};
use crate::run::{Event, RunId, Version};
use crate::time::Timestamp;
use crate::workflow::Workflow;

/// A feed, which is an observer of the engine, and the stream that it fills.
///
/// At most `capacity` notices wait to be read. If the reader is slower than the engine, the oldest
/// notices are dropped and the stream yields [`Lagged`] with their number: a reader must not slow
/// runs down nor fill the memory.
#[must_use]
pub fn feed(capacity: NonZeroUsize) -> (Feed, Notices) {
    let shared = Arc::new(Mutex::new(Shared::default()));
    (Feed { shared: Arc::clone(&shared), capacity: capacity.get() }, Notices(shared))
}

/// An observer that passes notices to one stream.
#[derive(Debug)]
pub struct Feed {
    shared: Arc<Mutex<Shared>>,
    capacity: usize,
}

/// The notices of a [`Feed`], in order. Ends when the feed is dropped and all notices are read.
#[derive(Debug)]
pub struct Notices(Arc<Mutex<Shared>>);

/// Dropped notices, because the reader was too slow. The stream continues with the oldest one kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{missed} notices were dropped, because the reader is slower than the engine")]
pub struct Lagged {
    /// How many.
    pub missed: u64,
}

/// An owned [`Notice`].
#[derive(Clone, Debug)]
pub struct OwnedNotice {
    /// The run.
    pub run: RunId,
    /// The run's definition.
    pub workflow: Arc<Workflow>,
    /// The event's number within the run, from 0.
    pub number: Version,
    /// When it was decided, in store time.
    pub at: Timestamp,
    /// The event.
    pub event: Event,
}

impl OwnedNotice {
    /// The notice, borrowed.
    #[must_use]
    pub fn notice(&self) -> Notice<'_> {
        let Self { run, workflow, number, at, event } = self;
        Notice { run: *run, workflow, number: *number, at: *at, event }
    }
}

impl From<&Notice<'_>> for OwnedNotice {
    fn from(notice: &Notice<'_>) -> Self {
        Self {
            run: notice.run,
            workflow: Arc::clone(notice.workflow),
            number: notice.number,
            at: notice.at,
            event: notice.event.clone(),
        }
    }
}

#[derive(Debug, Default)]
struct Shared {
    waiting: VecDeque<OwnedNotice>,
    missed: u64,
    reader: Option<Waker>,
    /// The feed or the reader is gone.
    closed: bool,
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Observer for Feed {
    fn tell(&self, notice: &Notice<'_>) {
        let mut shared = lock(&self.shared);
        if shared.closed {
            return;
        }
        if shared.waiting.len() >= self.capacity {
            shared.waiting.pop_front();
            shared.missed += 1;
        }
        shared.waiting.push_back(notice.into());
        if let Some(reader) = shared.reader.take() {
            reader.wake();
        }
    }
}

impl Notices {
    /// The next notice; `None` at the end of the stream.
    ///
    /// # Errors
    /// [`Lagged`] if notices before it were dropped.
    pub async fn next(&mut self) -> Option<Result<OwnedNotice, Lagged>> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for Notices {
    type Item = Result<OwnedNotice, Lagged>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut shared = lock(&self.0);
        let missed = std::mem::take(&mut shared.missed);
        if missed > 0 {
            return Poll::Ready(Some(Err(Lagged { missed })));
        }
        match shared.waiting.pop_front() {
            Some(notice) => Poll::Ready(Some(Ok(notice))),
            None if shared.closed => Poll::Ready(None),
            None => {
                shared.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        let mut shared = lock(&self.shared);
        shared.closed = true;
        if let Some(reader) = shared.reader.take() {
            reader.wake();
        }
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        let mut shared = lock(&self.0);
        shared.closed = true;
        shared.waiting.clear();
    }
}
