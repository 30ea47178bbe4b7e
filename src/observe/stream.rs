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

/// A feed and the stream that it fills: the feed is one of the engine's observers, the stream is
/// read by whoever watches.
///
/// At most `capacity` notices wait to be read. A reader that is slower than the engine loses the
/// oldest of them and is told how many, as [`Lagged`]: watching must not slow runs down, nor fill
/// the memory.
#[must_use]
pub fn feed(capacity: NonZeroUsize) -> (Feed, Notices) {
    let shared = Arc::new(Mutex::new(Shared::default()));
    (Feed { shared: Arc::clone(&shared), capacity: capacity.get() }, Notices(shared))
}

/// An observer that hands notices to one reader.
#[derive(Debug)]
pub struct Feed {
    shared: Arc<Mutex<Shared>>,
    capacity: usize,
}

/// What a [`Feed`] was told, in order. Ends when the feed is dropped and all is read.
#[derive(Debug)]
pub struct Notices(Arc<Mutex<Shared>>);

/// Notices that the reader was too slow for. The stream goes on with the oldest one kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{missed} notices were dropped, because the reader is slower than the engine")]
pub struct Lagged {
    /// How many.
    pub missed: u64,
}

/// A notice that can be kept.
#[derive(Clone, Debug)]
pub struct OwnedNotice {
    /// The run.
    pub run: RunId,
    /// The run's definition.
    pub workflow: Arc<Workflow>,
    /// The event's number within the run, from 0.
    pub number: Version,
    /// When it was decided, store time.
    pub at: Timestamp,
    /// What happened.
    pub event: Event,
}

impl OwnedNotice {
    /// The same notice, as other observers take it.
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
    /// The next notice; `None` when there will be no more.
    ///
    /// # Errors
    /// [`Lagged`] where notices before it were dropped.
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
