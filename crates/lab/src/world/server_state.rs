//! What a service and a request are in a run.

use std::collections::VecDeque;

use retrial_core::guard::{GuardRules, GuardState};
use retrial_core::schedule::Key;
use retrial_core::time::Timestamp;

use super::slab::{Id, Slab};
use crate::model::{Order, Service};
use crate::numeric::Chance;

/// The state of a service.
#[derive(Debug)]
pub(super) struct Server {
    /// Workers that are busy.
    pub(super) busy: u32,
    /// Workers that there are.
    pub(super) capacity: u32,
    /// Requests that have arrived and are not answered.
    pub(super) in_service: u32,
    /// Those that wait for a worker; among them some that wait no longer.
    pub(super) waiting: VecDeque<Id>,
    pub(super) queued: u32,
    /// Those that are worked on.
    pub(super) working: Vec<Id>,
    /// How many triggers let it stand still, and how many have taken it down.
    pub(super) paused: u32,
    pub(super) down: u32,
    /// What triggers make of its time, its errors and its workers.
    pub(super) slow: f64,
    pub(super) right: f64,
    pub(super) share: f64,
    /// When it last started cold.
    pub(super) cold_since: Option<Timestamp>,
    pub(super) limiter: GuardState<u64>,
    pub(super) limits: GuardRules,
    pub(super) version: u64,
    pub(super) chance: Chance,
    pub(super) errors: Chance,
    pub(super) summed_at: Timestamp,
}

/// A request on its way to a service, or in it.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) call: Id,
    pub(super) attempt: u32,
    pub(super) edge: usize,
    pub(super) service: usize,
    /// Whether its caller no longer waits.
    pub(super) gone: bool,
    pub(super) phase: Phase,
    pub(super) since: Timestamp,
    pub(super) event: Option<Key>,
    /// Its place among those that are worked on.
    pub(super) place: usize,
    /// When its work is done.
    pub(super) done_at: Timestamp,
    pub(super) fails: bool,
    pub(super) next_call: usize,
    pub(super) child: Option<Id>,
    /// The version that was read of the row.
    pub(super) version: Option<u64>,
}

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// On its way.
    Travelling,
    /// It waits for a worker.
    Waiting,
    /// It is worked on.
    Working,
    /// Its service waits for another one; with or without a worker.
    Calling,
}

impl Request {
    pub(super) fn new(
        call: Id,
        attempt: u32,
        edge: usize,
        service: usize,
        version: Option<u64>,
    ) -> Self {
        Self {
            call,
            attempt,
            edge,
            service,
            gone: false,
            phase: Phase::Travelling,
            since: Timestamp::default(),
            event: None,
            place: 0,
            done_at: Timestamp::default(),
            fails: false,
            next_call: 0,
            child: None,
            version,
        }
    }
}

impl Server {
    pub(super) fn new(service: &Service, seed: u64, number: u64) -> Self {
        let rate = service.rate_limit.map(|limit| limit.pace);
        Self {
            busy: 0,
            capacity: service.workers,
            in_service: 0,
            waiting: VecDeque::new(),
            queued: 0,
            working: Vec::new(),
            paused: 0,
            down: 0,
            slow: 1.0,
            right: 1.0,
            share: 1.0,
            cold_since: None,
            limiter: GuardState::default(),
            limits: GuardRules { rate, ..GuardRules::default() },
            version: 0,
            chance: Chance::of(seed, 4_000 + number),
            errors: Chance::of(seed, 5_000 + number),
            summed_at: Timestamp::default(),
        }
    }

    pub(super) fn has_worker(&self) -> bool {
        self.paused == 0 && self.busy < self.capacity
    }

    /// Takes out the next waiting request.
    pub(super) fn next(&mut self, order: Order, requests: &Slab<Request>) -> Option<Id> {
        let last = match order {
            Order::Fifo => false,
            Order::Lifo => true,
            Order::AdaptiveLifo(over) => self.queued > over,
        };
        loop {
            let next = if last { self.waiting.pop_back() } else { self.waiting.pop_front() };
            let waits = |id| requests.get(id).is_some_and(|r| r.phase == Phase::Waiting);
            match next {
                Some(id) if waits(id) => {
                    self.queued -= 1;
                    return Some(id);
                }
                Some(_) => {}
                None => return None,
            }
        }
    }
}
