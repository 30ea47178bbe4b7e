//! The time that a simulated disk has taken and that the node has not waited for yet.

use std::sync::{Arc, Mutex};

use retrial::time::Nanos;

use crate::sync::lock;

/// A node's latency debt. Disk calls run inline and add to it; [`super::SimRuntime`]'s `blocking`
/// sleeps it off. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct DiskLatency(Arc<Mutex<Pending>>);

#[derive(Debug, Default)]
struct Pending {
    now: Nanos,
    last: Nanos,
}

impl DiskLatency {
    /// Adds `by`.
    pub fn add(&self, by: Nanos) {
        let mut pending = lock(&self.0);
        pending.now = pending.now.saturating_add(by);
    }

    /// Takes the whole debt.
    pub fn take(&self) -> Nanos {
        std::mem::take(&mut lock(&self.0).now)
    }

    /// Takes the whole debt of a piece of work that has just run, and keeps it as a forecast.
    pub(super) fn settle(&self) -> Nanos {
        let now = self.take();
        lock(&self.0).last = now;
        now
    }

    /// The expected cost of the next piece of work: the cost of the last one.
    pub(super) fn forecast(&self) -> Nanos {
        lock(&self.0).last
    }
}
