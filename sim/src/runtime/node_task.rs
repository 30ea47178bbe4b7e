//! The wrapper around every future of a node: it asks before each poll whether the node lives,
//! counts the poll, and makes the planned crashes happen.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use super::priorities::OrderedTask;
use super::seed;
use crate::incarnation::Incarnation;
use crate::sync::lock;
use crate::watchdog::Watchdog;

/// A node's count of polls over all its incarnations, and what shall happen at which. Clones share it.
#[derive(Clone, Default)]
pub struct PollCounter(Arc<Mutex<Polls>>);

#[derive(Default)]
struct Polls {
    polls: u64,
    planned: BTreeMap<u64, Vec<Then>>,
}

type Then = Box<dyn FnOnce() + Send>;

impl PollCounter {
    /// How many polls there were.
    #[must_use]
    pub fn polls(&self) -> u64 {
        lock(&self.0).polls
    }

    /// Calls `then` just before the poll with number `poll`, from 0; before the next one when that
    /// has passed.
    pub fn at_poll(&self, poll: u64, then: impl FnOnce() + Send + 'static) {
        lock(&self.0).planned.entry(poll).or_default().push(Box::new(then));
    }

    /// Counts a poll, after calling what was planned for it.
    fn count(&self) {
        for then in self.due() {
            then();
        }
        lock(&self.0).polls += 1;
    }

    fn due(&self) -> Vec<Then> {
        let mut polls = lock(&self.0);
        let later = polls.polls + 1;
        let rest = polls.planned.split_off(&later);
        std::mem::replace(&mut polls.planned, rest).into_values().flatten().collect()
    }
}

impl fmt::Debug for PollCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pulse").field("polls", &self.polls()).finish_non_exhaustive()
    }
}

/// How many wrapped futures of one incarnation exist. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveTasks(Arc<AtomicU64>);

impl LiveTasks {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A future of a node.
pub(super) struct NodeTask {
    future: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    incarnation: Incarnation,
    poll_counter: PollCounter,
    watchdog: Watchdog,
    live: LiveTasks,
    /// None where any task that is ready may be polled first.
    ordered: Option<OrderedTask>,
}

impl NodeTask {
    pub(super) fn new(
        future: impl Future<Output = ()> + Send + 'static,
        incarnation: &Incarnation,
        poll_counter: &PollCounter,
        watchdog: &Watchdog,
        live: &LiveTasks,
        ordered: Option<OrderedTask>,
    ) -> Self {
        live.0.fetch_add(1, Ordering::SeqCst);
        Self {
            future: Some(Box::pin(future)),
            incarnation: incarnation.clone(),
            poll_counter: poll_counter.clone(),
            watchdog: watchdog.clone(),
            live: live.clone(),
            ordered,
        }
    }

    /// Whether the future may be polled now. A planned crash happens in here.
    fn admitted(&self) -> bool {
        if self.incarnation.is_over() {
            return false;
        }
        self.poll_counter.count();
        !self.incarnation.is_over() && self.watchdog.admit(self.incarnation.node())
    }

    fn step(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.admitted() { self.poll_inner(cx) } else { Poll::Ready(()) }
    }

    fn poll_inner(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(future) = &mut self.future else { return Poll::Ready(()) };
        let polled = seed::inside(&self.incarnation, || future.as_mut().poll(cx));
        // An incarnation that ended during the poll, say inside a disk call, gets no other.
        if self.incarnation.is_over() { Poll::Ready(()) } else { polled }
    }
}

impl Future for NodeTask {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let ordered = self.ordered.take();
        let polled = match &ordered {
            // What is dead waits for nothing.
            Some(ordered) if !self.incarnation.is_over() => ordered.poll(cx, |cx| self.step(cx)),
            _ => self.step(cx),
        };
        if polled.is_ready() {
            self.future = None;
        } else {
            self.ordered = ordered;
        }
        polled
    }
}

impl Drop for NodeTask {
    fn drop(&mut self) {
        self.future = None;
        self.live.0.fetch_sub(1, Ordering::SeqCst);
    }
}
