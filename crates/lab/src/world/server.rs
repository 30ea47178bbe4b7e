//! Callees: queues, workers, and what a request meets there.

use retrial_core::guard::{Ended, GuardInput};
use retrial_core::run::mix;
use retrial_core::time::Nanos;

use super::calls::{Owner, Reply};
use super::fault::Fault;
use super::server_state::{Phase, Request};
use super::slab::Id;
use super::{Event, World};
use crate::model::{Row, scaled};

impl World<'_> {
    /// Adds what has waited and worked since the last time to the measures.
    pub(super) fn sum_up(&mut self, service: usize) {
        let server = &mut self.servers[service];
        let passed = self.now.since(server.summed_at).get() as f64;
        server.summed_at = self.now;
        self.measure.stood(service, passed, server.queued, server.busy);
    }

    pub(super) fn request_arrives(&mut self, id: Id) {
        let Some(request) = self.requests.get(id) else { return };
        let (service, write) = (request.service, request.version.is_some());
        let model = &self.scenario.services[service];
        self.measure.arrived(service);
        if self.servers[service].down > 0 {
            self.reply(id, Reply::Failed(Fault::Refused));
            return;
        }
        if let Some(wait) = self.is_throttled(service, id).filter(|_| !write) {
            self.measure.throttled(service);
            let wait =
                if model.rate_limit.is_some_and(|l| l.retry_after) { wait } else { Nanos::ZERO };
            self.reply(id, Reply::Failed(Fault::Throttled(wait)));
            return;
        }
        let server = &self.servers[service];
        if !server.has_worker() && server.queued >= model.queue.capacity {
            self.measure.rejected(service);
            if model.queue.drops {
                self.drop_unanswered(id);
            } else {
                self.reply(id, Reply::Failed(Fault::Overloaded));
            }
            return;
        }
        self.sum_up(service);
        let now = self.now;
        self.servers[service].in_service += 1;
        if let Some(request) = self.requests.get_mut(id) {
            request.since = now;
            request.phase = Phase::Waiting;
        }
        if self.servers[service].has_worker() {
            self.work(id);
        } else {
            let event = model
                .queue
                .timeout
                .map(|wait| self.events.insert(now.after(wait), Event::QueueTimeout(id)));
            if let Some(request) = self.requests.get_mut(id) {
                request.event = event;
            }
            self.enqueue(service, id);
        }
    }

    fn enqueue(&mut self, service: usize, id: Id) {
        let server = &mut self.servers[service];
        server.waiting.push_back(id);
        server.queued += 1;
        // Those that wait no longer are swept out before they are the most.
        if server.waiting.len() > 2 * server.queued as usize + 64 {
            let waits = |id: &Id| self.requests.get(*id).is_some_and(|r| r.phase == Phase::Waiting);
            server.waiting.retain(waits);
        }
        self.measure.waits(service, self.servers[service].queued);
    }

    /// How long until the rate limit lets a request in, if it does not now.
    fn is_throttled(&mut self, service: usize, id: Id) -> Option<Nanos> {
        let server = &mut self.servers[service];
        server.limits.rate?;
        let attempt = id.number();
        let admit = GuardInput::Admit { attempt, first: true, tokens: 0 };
        match server.limiter.take(&server.limits, &admit, self.now) {
            Ok(_) => {
                let end = GuardInput::Ended { attempt, how: Ended::Silently, refill: 0 };
                // The end of an attempt is never refused.
                let _ = server.limiter.take(&server.limits, &end, self.now);
                None
            }
            Err(refusal) => Some(refusal.until.since(self.now)),
        }
    }

    /// Begins to work on a request that has waited or just come.
    fn work(&mut self, id: Id) {
        let now = self.now;
        let Some(request) = self.requests.get_mut(id) else { return };
        let service = request.service;
        let model = &self.scenario.services[service];
        let server = &mut self.servers[service];
        if let Some(key) = request.event.take() {
            self.events.cancel(key);
        }
        if request.gone && !model.work_for_gone {
            server.in_service -= 1;
            self.requests.take(id);
            self.measure.skipped(service);
            return;
        }
        server.busy += 1;
        self.measure.waited(service, now.since(request.since));
        request.phase = Phase::Working;
        if model.row == Some(Row::Transaction) {
            request.version = Some(server.version);
        }
        let right = (1.0 - model.errors.at(now)) * server.right;
        request.fails = right < 1.0 && server.errors.unit() >= right;
        let time = match &model.error_time {
            Some(time) if request.fails => time,
            _ => &model.time,
        };
        let mut factor = server.slow;
        if let Some(slower) = model.slower {
            let over = server.in_service.saturating_sub(slower.from);
            factor *= 1.0 + slower.by * f64::from(over);
        }
        if let (Some(cold), Some(since)) = (model.cold, server.cold_since) {
            let warm = now.since(since).get() as f64 / cold.length.get().max(1) as f64;
            factor *= 1.0 + (cold.factor - 1.0) * (1.0 - warm).max(0.0);
        }
        let drawn = time.draw(&mut server.chance);
        let time = if factor == 1.0 { drawn } else { scaled(drawn, factor) };
        request.done_at = now.after(time);
        request.event = Some(self.events.insert(request.done_at, Event::Done(id)));
        request.place = server.working.len();
        server.working.push(id);
    }

    /// Gives waiting requests to free workers.
    pub(super) fn fill(&mut self, service: usize) {
        let order = self.scenario.services[service].queue.order;
        while self.servers[service].has_worker() {
            let Some(next) = self.servers[service].next(order, &self.requests) else { break };
            self.work(next);
        }
    }

    pub(super) fn work_done(&mut self, id: Id) {
        let Some(request) = self.requests.get_mut(id) else { return };
        request.event = None;
        let (service, fails) = (request.service, request.fails);
        self.stop_work(service, id);
        let calls = &self.scenario.services[service].calls;
        if fails {
            self.measure.errors(service);
            self.complete(id, Err(Fault::Error(service)), true);
        } else if calls.is_empty() {
            self.complete(id, Ok(()), true);
        } else {
            if let Some(request) = self.requests.get_mut(id) {
                request.phase = Phase::Calling;
            }
            if !self.scenario.services[service].holds_worker {
                self.free_worker(service);
            }
            self.call_next(id);
        }
    }

    fn stop_work(&mut self, service: usize, id: Id) {
        let Some(place) = self.requests.get(id).map(|r| r.place) else { return };
        let working = &mut self.servers[service].working;
        working.swap_remove(place);
        let moved = working.get(place).copied();
        if let Some(moved) = moved.and_then(|moved| self.requests.get_mut(moved)) {
            moved.place = place;
        }
    }

    fn free_worker(&mut self, service: usize) {
        self.sum_up(service);
        self.servers[service].busy -= 1;
        self.fill(service);
    }

    /// Calls the next service, or completes the request after the last one.
    fn call_next(&mut self, id: Id) {
        let Some(request) = self.requests.get_mut(id) else { return };
        let model = &self.scenario.services[request.service];
        let Some(edge) = model.calls.get(request.next_call).copied() else {
            let holds = model.holds_worker;
            self.complete(id, Ok(()), holds);
            return;
        };
        request.next_call += 1;
        let number = mix(id.number() ^ self.now.as_nanos());
        let child = self.call(edge, 0, Owner::Request(id), number);
        if let Some(request) = self.requests.get_mut(id) {
            request.child = Some(child);
        }
    }

    /// What a request waited for has ended.
    pub(super) fn callee_done(&mut self, id: Id, well: bool) {
        let Some(request) = self.requests.get_mut(id) else { return };
        request.child = None;
        let holds = self.scenario.services[request.service].holds_worker;
        if well {
            self.call_next(id);
        } else {
            self.complete(id, Err(Fault::Dependency), holds);
        }
    }

    /// Answers a request and lets its worker go on.
    fn complete(&mut self, id: Id, result: Result<(), Fault>, has_worker: bool) {
        let Some(request) = self.requests.get(id) else { return };
        let (service, gone) = (request.service, request.gone);
        let server = &mut self.servers[service];
        let reply = match (result, self.scenario.services[service].row, request.version) {
            (Err(fault), ..) => Reply::Failed(fault),
            (Ok(()), None, _) => Reply::Done,
            (Ok(()), Some(_), None) => Reply::Version(server.version),
            (Ok(()), Some(_), Some(version)) if version == server.version => {
                server.version += 1;
                Reply::Done
            }
            (Ok(()), Some(_), Some(_)) => {
                self.measure.conflict(service);
                Reply::Failed(Fault::Conflict)
            }
        };
        self.sum_up(service);
        let server = &mut self.servers[service];
        server.in_service -= 1;
        server.busy -= u32::from(has_worker);
        self.measure.served(service, gone, matches!(reply, Reply::Done | Reply::Version(_)));
        self.reply(id, reply);
        self.fill(service);
    }

    /// Sends the answer to a request, which is then gone.
    pub(super) fn reply(&mut self, id: Id, reply: Reply) {
        let Some(request) = self.requests.take(id) else { return };
        let Request { call, attempt, edge, .. } = request;
        let wait = self.travels(edge);
        self.answered(call, id);
        if let Some(wait) = wait.filter(|_| self.waits(call, attempt)) {
            self.later(wait, Event::Answer { call, attempt, reply });
        }
    }

    /// Forgets a request; its caller notices by its timeout.
    fn drop_unanswered(&mut self, id: Id) {
        if let Some(request) = self.requests.take(id) {
            self.answered(request.call, id);
        }
    }

    pub(super) fn waited_too_long(&mut self, id: Id) {
        let waits = |r: &&mut Request| r.phase == Phase::Waiting;
        let Some(request) = self.requests.get_mut(id).filter(waits) else { return };
        let service = request.service;
        self.sum_up(service);
        let server = &mut self.servers[service];
        server.queued -= 1;
        server.in_service -= 1;
        self.measure.rejected(service);
        self.reply(id, Reply::Failed(Fault::Overloaded));
    }

    /// The service loses a request that it has taken in.
    pub(super) fn lose(&mut self, id: Id) {
        let Some(request) = self.requests.get_mut(id) else { return };
        let (service, phase, child) = (request.service, request.phase, request.child.take());
        if let Some(key) = request.event.take() {
            self.events.cancel(key);
        }
        self.sum_up(service);
        let holds = self.scenario.services[service].holds_worker;
        let server = &mut self.servers[service];
        match phase {
            Phase::Travelling => return,
            Phase::Waiting => server.queued -= 1,
            Phase::Working => {
                server.busy -= 1;
                self.stop_work(service, id);
            }
            Phase::Calling => server.busy -= u32::from(holds),
        }
        self.servers[service].in_service -= 1;
        self.reply(id, Reply::Failed(Fault::Reset));
        if let Some(child) = child {
            self.abandon(child);
        }
    }

    pub(super) fn shift(&mut self, id: Id, left: Option<Nanos>) {
        let now = self.now;
        let Some(request) = self.requests.get_mut(id) else { return };
        if let Some(key) = request.event.take() {
            self.events.cancel(key);
        }
        if let Some(left) = left {
            request.done_at = now.after(left);
            request.event = Some(self.events.insert(request.done_at, Event::Done(id)));
        }
    }
}
