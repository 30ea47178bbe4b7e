//! Attempts and delays that are awaited. Written out as a state machine, so that what is awaited has a
//! name and can be sent between threads just where the work can.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::gave_up::GaveUp;
use super::progress::{Attempt, Progress};
use super::settings::{Failed, OnTokio, Retry, Settings};
use crate::runtime::{Runtime, TokioRuntime};
use crate::time::Nanos;

type Timer = Pin<Box<dyn Future<Output = ()> + Send>>;

pin_project! {
    /// Work under a policy, as it is awaited.
    #[must_use = "futures do nothing unless polled"]
    pub struct RetryFuture<'p, W, F, E, R> {
        settings: Settings<'p, E>,
        work: W,
        runtime: R,
        progress: Progress,
        #[pin]
        attempt: Option<F>,
        // The end of the attempt's time, with its length, or of the delay.
        timer: Option<(Timer, Nanos)>,
        failed: Option<Failed<E>>,
    }
}

impl<'p, W, F, T, E, R> IntoFuture for Retry<'p, W, E, R>
where
    W: FnMut(Attempt) -> F,
    F: Future<Output = Result<T, E>>,
    R: Runtime,
{
    type Output = Result<T, GaveUp<E>>;
    type IntoFuture = RetryFuture<'p, W, F, E, R>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { settings, work, runtime } = self;
        let seed = settings.seed.unwrap_or_else(|| runtime.random());
        let progress = Progress::new(runtime.now(), seed);
        RetryFuture { settings, work, runtime, progress, attempt: None, timer: None, failed: None }
    }
}

impl<'p, W, F, T, E> IntoFuture for Retry<'p, W, E, OnTokio>
where
    W: FnMut(Attempt) -> F,
    F: Future<Output = Result<T, E>>,
{
    type Output = Result<T, GaveUp<E>>;
    type IntoFuture = RetryFuture<'p, W, F, E, TokioRuntime>;

    /// Panics outside of a tokio runtime, as tokio does.
    fn into_future(self) -> Self::IntoFuture {
        self.on(TokioRuntime::current()).into_future()
    }
}

impl<W, F, T, E, R> Future for RetryFuture<'_, W, F, E, R>
where
    W: FnMut(Attempt) -> F,
    F: Future<Output = Result<T, E>>,
    R: Runtime,
{
    type Output = Result<T, GaveUp<E>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            if let Some(attempt) = this.attempt.as_mut().as_pin_mut() {
                // An outcome that is ready when the time is up counts.
                let error = match (attempt.poll(cx), this.timer.as_mut()) {
                    (Poll::Ready(Ok(done)), _) => return Poll::Ready(Ok(done)),
                    (Poll::Ready(Err(error)), _) => Ok(error),
                    (Poll::Pending, None) => return Poll::Pending,
                    (Poll::Pending, Some((timer, limit))) => {
                        ready!(timer.as_mut().poll(cx));
                        Err(*limit)
                    }
                };
                this.attempt.set(None);
                *this.timer = None;
                let failed = this.settings.after(this.progress, error, this.runtime.now());
                match failed {
                    Ok(failed) => *this.failed = Some(failed),
                    Err(gave_up) => return Poll::Ready(Err(gave_up)),
                }
            } else if let Some((timer, _)) = this.timer.as_mut() {
                ready!(timer.as_mut().poll(cx));
                *this.timer = None;
                let Some(failed) = this.failed.take() else { continue };
                let now = this.runtime.now();
                if let Err(gave_up) = this.settings.begin(this.progress, failed, now) {
                    return Poll::Ready(Err(gave_up));
                }
            } else if let Some(failed) = this.failed.as_ref() {
                *this.timer = Some((after(this.runtime, failed.delay()), failed.delay()));
            } else {
                let attempt = this.progress.attempt(this.settings.policy, this.runtime.now());
                *this.timer = attempt.timeout.map(|limit| (after(this.runtime, limit), limit));
                this.attempt.set(Some((this.work)(attempt)));
            }
        }
    }
}

fn after<R: Runtime>(runtime: &R, length: Nanos) -> Timer {
    let (runtime, at) = (runtime.clone(), runtime.now().after(length));
    Box::pin(async move { runtime.sleep_until(at).await })
}

impl<W, F, E, R> std::fmt::Debug for RetryFuture<'_, W, F, E, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RetryFuture").field("progress", &self.progress).finish_non_exhaustive()
    }
}
