use std::num::NonZeroU32;

use super::Retention;
use crate::policy::{Functions, PolicyParts};
use crate::time::Nanos;

/// How a node works. The defaults suit one process on an embedded store.
#[derive(Clone, Debug)]
pub struct Config {
    /// The most attempts in progress at once.
    pub concurrency: usize,
    /// The percent of these that one action may take, at least one: where it hangs, the others go on.
    /// A node that can run only one action gives it all.
    pub action_share: u8,
    /// How long an attempt may take where its policy does not say; any time without it. The total
    /// timeout cuts it as well. Recorded when an attempt starts, so a change is for later attempts.
    pub attempt_timeout: Option<Nanos>,
    /// How many attempts in a row may lose their node (`LEASE_LOST`) before the task is held in
    /// quarantine until [`Engine::release`](super::Engine::release): what the task does may be what
    /// ends the nodes. Never without it.
    pub quarantine_after: Option<NonZeroU32>,
    /// How long a lease or reservation holds; a lease is renewed at a third of that.
    pub lease: Nanos,
    /// How often to ask the store for due tasks when nothing says that one is due.
    pub poll: Nanos,
    /// How long shutdown waits for attempts in progress.
    pub grace: Nanos,
    /// Whether no other process uses the store. Then leases found at start belong to a dead process, and
    /// their attempts are lost at once.
    pub sole_owner: bool,
    /// How many bytes of events a run gathers, at the least, before its state is stored again.
    pub snapshot_tail: usize,
    /// The events kept of a run beside its newest snapshot.
    pub keep_events: u64,
    /// How long an idle run stays in memory. One whose next attempt is due later leaves at once.
    pub lane_idle: Nanos,
    /// How long ended runs are kept; without it they are never removed.
    pub retention: Option<Retention>,
    /// Custom backoff functions by name.
    pub functions: Functions,
}

impl Config {
    /// How often leases are renewed and looked at: a third of a lease.
    pub(super) fn round(&self) -> Nanos {
        Nanos::new(self.lease.get() / 3).max(Nanos::from_millis(1))
    }

    /// How long the store may hold a lease without a heartbeat that must come within `limit`. The
    /// node itself is strict; this leaves the heartbeat a round of renewals to reach the store.
    pub(super) fn patience(&self, limit: Nanos) -> Nanos {
        limit.saturating_add(self.round())
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            concurrency: 64,
            action_share: 75,
            attempt_timeout: Some(PolicyParts::DEFAULT_TIMEOUT),
            quarantine_after: NonZeroU32::new(3),
            lease: Nanos::from_secs(30),
            poll: Nanos::from_secs(1),
            grace: Nanos::from_secs(10),
            sole_owner: true,
            snapshot_tail: 16 * 1_024,
            keep_events: 10_000,
            lane_idle: Nanos::from_secs(30),
            retention: None,
            functions: Functions::default(),
        }
    }
}
