//! Callers: attempts, their timeouts, and what follows from a failure.

use retrial_core::failure::{Class, RetryKind};
use retrial_core::guard::{Ended, HeldBy};
use retrial_core::policy::{Denied, PolicyParts, Used, Verdict};
use retrial_core::run::{TaskId, mix};
use retrial_core::schedule::Key;
use retrial_core::time::{Nanos, Timestamp};

use super::fault::Fault;
use super::server_state::Request;
use super::slab::Id;
use super::{Event, World};

/// One call: a task at the first layer, and what a service does to serve a request at the next ones.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) owner: Owner,
    edge: usize,
    client: u32,
    /// What jitter is drawn from, as from a run's seed.
    seed: u64,
    /// The attempt in progress or to come, from 1.
    attempt: u32,
    timeout_retries: u32,
    by_rule: Vec<u32>,
    previous: Option<Nanos>,
    first_started: Option<Timestamp>,
    last: Option<Fault>,
    in_flight: bool,
    timeout: Option<Key>,
    /// The request of the attempt, until it is answered.
    request: Option<Id>,
}

/// Who waits for a call.
#[derive(Clone, Copy, Debug)]
pub(super) enum Owner {
    /// A client, which wanted to begin then.
    Client { class: usize, client: u32, intended: Timestamp },
    /// A request that a service works on.
    Request(Id),
}

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// It is done.
    Done,
    /// The row was read, in this version.
    Version(u64),
    /// It failed.
    Failed(Fault),
}

impl World<'_> {
    /// Begins a call over `edge`. `number` is its own among those with the same edge.
    pub(super) fn call(&mut self, edge: usize, client: u32, owner: Owner, number: u64) -> Id {
        let call = Call {
            owner,
            edge,
            client,
            seed: mix(self.seed ^ mix(number ^ ((edge as u64) << 48))),
            attempt: 1,
            timeout_retries: 0,
            by_rule: Vec::new(),
            previous: None,
            first_started: None,
            last: None,
            in_flight: false,
            timeout: None,
            request: None,
        };
        let id = self.calls.add(call);
        self.attempt(id);
        id
    }

    fn gate_of(&self, call: &Call) -> Option<usize> {
        let edge = &self.scenario.edges[call.edge];
        let guarded = !edge.guards.is_empty() || edge.tokens.is_some();
        let own = if edge.per_client { call.client as usize } else { 0 };
        guarded.then(|| self.first_gate[call.edge] + own)
    }

    /// An attempt is due: it starts, unless a guard holds it back.
    pub(super) fn attempt(&mut self, id: Id) {
        let Some(call) = self.calls.get(id) else { return };
        if self.is_too_late(call) {
            self.finish(id, false);
            return;
        }
        match self.gate_of(call) {
            None => self.start(id),
            Some(gate) if self.gates[gate].has_line() => self.hold(gate, id, HeldBy::Concurrency),
            Some(gate) => match self.admit(gate, id) {
                Ok(()) => self.start(id),
                Err((by, until)) => {
                    self.hold(gate, id, by);
                    self.wake_at(gate, until);
                }
            },
        }
    }

    /// Whether the total timeout has passed; a first attempt is never too late.
    fn is_too_late(&self, call: &Call) -> bool {
        let policy = &self.scenario.edges[call.edge].policy;
        let deadline = call.first_started.and_then(|first| policy.deadline(first));
        deadline.is_some_and(|deadline| self.now >= deadline)
    }

    fn admit(&mut self, gate: usize, id: Id) -> Result<(), (HeldBy, Timestamp)> {
        let Some(call) = self.calls.get(id) else { return Ok(()) };
        let edge = &self.scenario.edges[call.edge];
        let first = call.attempt == 1;
        let waits = edge.guards.retry_budget.as_ref().filter(|b| b.on_denied == Denied::Wait);
        let tokens = match (waits, call.last) {
            (Some(budget), Some(fault)) if !first => budget.cost_of(&self.failures.get(fault)),
            _ => 0,
        };
        let gate = &mut self.gates[gate];
        gate.admit(&edge.guards, id, first, tokens, self.now).map_err(|r| (r.by, r.until))?;
        if first {
            gate.bucket().first(self.now);
        }
        Ok(())
    }

    fn hold(&mut self, gate: usize, id: Id, by: HeldBy) {
        let Some(call) = self.calls.get(id) else { return };
        let edge = call.edge;
        self.measure.held(edge);
        if self.scenario.edges[edge].fail_held {
            // Not at once: whoever has just begun the call is not done with it.
            self.later(Nanos::ZERO, Event::Refused(id));
        } else {
            self.gates[gate].hold(id, by);
        }
    }

    fn wake_at(&mut self, gate: usize, until: Timestamp) {
        let until = until.max(self.now.after(Nanos::new(1)));
        if self.gates[gate].wake.is_none_or(|at| at > until || at <= self.now) {
            self.gates[gate].wake = Some(until);
            self.events.insert(until, Event::Wake(gate));
        }
    }

    /// Lets through what the gate admits, in the order in which the calls came.
    pub(super) fn wake(&mut self, gate: usize) {
        if self.gates[gate].wake.is_some_and(|at| at <= self.now) {
            self.gates[gate].wake = None;
        }
        for line in [HeldBy::Concurrency, HeldBy::RetryBudget] {
            while let Some(id) = self.gates[gate].next_held(line) {
                let Some(call) = self.calls.get(id) else { continue };
                if self.is_too_late(call) {
                    self.finish(id, false);
                    continue;
                }
                match self.admit(gate, id) {
                    Ok(()) => self.start(id),
                    Err((by, until)) => {
                        self.gates[gate].hold_first(id, by);
                        self.wake_at(gate, until);
                        if (by == HeldBy::RetryBudget) == (line == HeldBy::RetryBudget) {
                            break;
                        }
                    }
                }
            }
        }
    }

    /// Sends the request of an attempt.
    fn start(&mut self, id: Id) {
        let Some(call) = self.calls.get_mut(id) else { return };
        let edge = &self.scenario.edges[call.edge];
        let first = *call.first_started.get_or_insert(self.now);
        let limit = edge.policy.attempt_timeout().unwrap_or(PolicyParts::DEFAULT_TIMEOUT);
        let left = edge.policy.deadline(first).map(|end| end.since(self.now));
        let limit = left.map_or(limit, |left| limit.min(left));
        call.in_flight = true;
        call.timeout = Some(self.events.insert(self.now.after(limit), Event::Timeout(id)));
        let (edge, attempt) = (call.edge, call.attempt);
        self.measure.attempt(edge, attempt);
        self.send(id, None);
    }

    /// Sends a request, to write the row in this version where one was read.
    fn send(&mut self, id: Id, version: Option<u64>) {
        let Some(call) = self.calls.get_mut(id) else { return };
        let edge = call.edge;
        let service = self.scenario.edges[edge].to;
        let request = Request::new(id, call.attempt, edge, service, version);
        let Some(wait) = self.travels(edge) else { return };
        let request = self.requests.add(request);
        if let Some(call) = self.calls.get_mut(id) {
            call.request = Some(request);
        }
        self.later(wait, Event::Request(request));
    }

    /// How long a message over `edge` travels; none where it is lost.
    pub(super) fn travels(&mut self, edge: usize) -> Option<Nanos> {
        let (chance, model) = (&mut self.network[edge], &self.scenario.edges[edge]);
        let kept = (1.0 - model.loss) * (1.0 - self.extra_loss[edge]);
        let lost = kept < 1.0 && chance.unit() >= kept;
        let wait = model.latency.draw(chance);
        (!lost).then_some(wait)
    }

    /// Whether the caller still waits for this attempt.
    pub(super) fn waits(&self, call: Id, attempt: u32) -> bool {
        self.calls.get(call).is_some_and(|c| c.attempt == attempt && c.in_flight)
    }

    /// The request of an attempt is answered; the answer is on its way.
    pub(super) fn answered(&mut self, call: Id, request: Id) {
        if let Some(call) = self.calls.get_mut(call).filter(|c| c.request == Some(request)) {
            call.request = None;
        }
    }

    pub(super) fn answer(&mut self, id: Id, attempt: u32, reply: Reply) {
        if !self.waits(id, attempt) {
            return;
        }
        match reply {
            Reply::Done => self.succeeded(id),
            Reply::Version(version) => self.send(id, Some(version)),
            Reply::Failed(fault) => self.failed(id, fault),
        }
    }

    /// An answer at the same instant still counts, so all else of the instant comes first.
    pub(super) fn time_is_up(&mut self, id: Id) {
        if let Some(call) = self.calls.get(id) {
            let attempt = call.attempt;
            self.later(Nanos::ZERO, Event::TimedOut { call: id, attempt });
        }
    }

    pub(super) fn timed_out(&mut self, id: Id, attempt: u32) {
        if self.waits(id, attempt) {
            self.measure.timeout(self.calls.get(id).map_or(0, |call| call.edge));
            self.failed(id, Fault::Timeout);
        }
    }

    /// The attempt in progress is over, whatever its outcome.
    fn over(&mut self, id: Id) {
        let Some(call) = self.calls.get_mut(id) else { return };
        call.in_flight = false;
        let (timeout, request) = (call.timeout.take(), call.request.take());
        timeout.map(|key| self.events.cancel(key));
        if let Some(request) = request.and_then(|request| self.requests.get_mut(request)) {
            request.gone = true;
        }
    }

    fn succeeded(&mut self, id: Id) {
        self.over(id);
        let Some(call) = self.calls.get(id) else { return };
        if let Some(gate) = self.gate_of(call) {
            let rules = &self.scenario.edges[call.edge].guards;
            let last = call.last.map(|fault| self.failures.get(fault));
            let budget = rules.retry_budget.as_ref();
            let refill = budget.map_or(0, |b| b.refill_of_success(call.attempt, last.as_deref()));
            self.gates[gate].end(rules, id, Ended::Well, refill, self.now);
            self.gates[gate].bucket().succeeded(self.now);
            self.wake(gate);
        }
        self.finish(id, true);
    }

    fn failed(&mut self, id: Id, fault: Fault) {
        self.over(id);
        let Some(call) = self.calls.get(id) else { return };
        let (edge, gate) = (call.edge, self.gate_of(call));
        if let Some(gate) = gate {
            let class = self.failures.get(fault).class();
            let how = if class == Class::Retryable { Ended::Badly } else { Ended::Well };
            let rules = &self.scenario.edges[edge].guards;
            self.gates[gate].end(rules, id, how, 0, self.now);
            self.gates[gate].bucket().failed(self.now);
        }
        match self.verdict(id, fault) {
            Some(Verdict::Retry { delay, backoff, rule }) if self.affords(id, gate, fault) => {
                self.goes_on(id, fault, backoff, rule);
                self.later(delay, Event::Attempt(id));
            }
            Some(Verdict::Retry { .. }) => {
                self.measure.denied(edge);
                self.finish(id, false);
            }
            _ => self.finish(id, false),
        }
        if let Some(gate) = gate {
            self.wake(gate);
        }
    }

    fn verdict(&self, id: Id, fault: Fault) -> Option<Verdict> {
        let call = self.calls.get(id)?;
        let edge = &self.scenario.edges[call.edge];
        let used = Used {
            attempt: call.attempt,
            idempotent: edge.idempotent,
            timeout_retries: call.timeout_retries,
            by_rule: &call.by_rule,
            previous: call.previous,
            first_started: call.first_started.unwrap_or(self.now),
        };
        let chance = TaskId::FIRST.chance(call.seed, call.attempt);
        let failure = self.failures.get(fault);
        Some(edge.policy.verdict(&failure, &used, self.now, chance, &self.functions))
    }

    /// Whether the budgets allow a retry; then it is paid for.
    fn affords(&mut self, id: Id, gate: Option<usize>, fault: Fault) -> bool {
        let (Some(gate), Some(call)) = (gate, self.calls.get(id)) else { return true };
        let edge = &self.scenario.edges[call.edge];
        let gate = &mut self.gates[gate];
        if edge.tokens.is_some() && !gate.bucket().retry(self.now) {
            return false;
        }
        let budget = edge.guards.retry_budget.as_ref().filter(|b| b.on_denied == Denied::Fail);
        budget.is_none_or(|budget| {
            let tokens = budget.cost_of(&self.failures.get(fault));
            gate.withdraw(&edge.guards, id, tokens, self.now)
        })
    }

    fn goes_on(&mut self, id: Id, fault: Fault, backoff: Nanos, rule: u32) {
        let timeout = self.failures.get(fault).kind() == RetryKind::Timeout;
        let Some(call) = self.calls.get_mut(id) else { return };
        let shared = self.scenario.edges[call.edge].policy.counting().is_shared();
        call.attempt = call.attempt.saturating_add(1);
        call.timeout_retries = call.timeout_retries.saturating_add(u32::from(timeout));
        call.previous = Some(backoff);
        call.last = Some(fault);
        if !shared {
            let place = rule as usize;
            call.by_rule.resize(call.by_rule.len().max(place + 1), 0);
            call.by_rule[place] = call.by_rule[place].saturating_add(1);
        }
    }

    /// Ends a call for good and hands on its outcome.
    pub(super) fn finish(&mut self, id: Id, well: bool) {
        let Some(call) = self.calls.take(id) else { return };
        self.measure.attempts_of_call(call.edge, call.attempt);
        match call.owner {
            Owner::Client { class, client, intended } => {
                self.task_ended(class, client, intended, well);
            }
            Owner::Request(request) => self.callee_done(request, well),
        }
    }

    /// Drops a call whose owner is gone.
    pub(super) fn abandon(&mut self, id: Id) {
        self.over(id);
        let Some(call) = self.calls.take(id) else { return };
        if let Some(gate) = self.gate_of(&call) {
            let rules = &self.scenario.edges[call.edge].guards;
            self.gates[gate].end(rules, id, Ended::Silently, 0, self.now);
            self.wake(gate);
        }
    }
}
