//! A sleep that puts one entry into madsim's timer, however often it is polled, and wakes no task
//! once it is dropped. madsim's own adds an entry at every poll and wakes after its drop.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use madsim::time::{Sleep, TimeHandle};
use retrial::time::Mono;

use crate::clock::true_time;
use crate::sync::lock;

/// A sleep until a true time.
#[derive(Debug)]
pub(super) struct TimerSleep {
    sleep: Sleep,
    waker: Option<Arc<SharedWaker>>,
}

impl TimerSleep {
    /// A sleep until the true time `at`, which must be in the future.
    pub(super) fn until(time: &TimeHandle, at: Mono) -> Self {
        let ahead = at.since(true_time(time));
        let deadline = time.now_instant() + Duration::from(ahead);
        let mut sleep = time.sleep_until(deadline);
        // A new madsim sleep lasts 1 ms at least; a reset one doesn't.
        Pin::new(&mut sleep).reset(deadline);
        Self { sleep, waker: None }
    }
}

impl Future for TimerSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.sleep.is_elapsed() {
            return Poll::Ready(());
        }
        match &self.waker {
            Some(waker) => *lock(&waker.0) = Some(cx.waker().clone()),
            None => {
                let waker = Arc::new(SharedWaker(Mutex::new(Some(cx.waker().clone()))));
                self.waker = Some(Arc::clone(&waker));
                let rings = Waker::from(waker);
                return Pin::new(&mut self.sleep).poll(&mut Context::from_waker(&rings));
            }
        }
        Poll::Pending
    }
}

impl Drop for TimerSleep {
    fn drop(&mut self) {
        if let Some(waker) = &self.waker {
            drop(lock(&waker.0).take());
        }
    }
}

/// The waker of the last poll; none after the sleep is dropped.
#[derive(Debug)]
struct SharedWaker(Mutex<Option<Waker>>);

impl Wake for SharedWaker {
    fn wake(self: Arc<Self>) {
        let waker = lock(&self.0).take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Gives every other ready task a chance.
pub(super) async fn yield_once() {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
