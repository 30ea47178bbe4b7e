//! One run of a scenario: an event loop over integer time.
//!
//! Decides what happens when: who calls, who waits, who works. About retries it decides nothing: the
//! core's policies, guards and budgets do, as they do in the engine. Must never know how a run is
//! judged or shown. To add a kind of event, add it to `Event` and its arm to `World::handle`.
//!
//! Callers are in `calls`, what they keep of a callee in `gate`, callees in `server` and `server_state`, the begin of
//! tasks in `arrivals`, and what goes wrong in `triggers`.

mod arrivals;
mod calls;
mod fault;
mod gate;
mod server;
mod server_state;
mod slab;
mod triggers;

use std::collections::VecDeque;

use retrial_core::policy::Functions;
use retrial_core::schedule::DueQueue;
use retrial_core::time::{Nanos, Timestamp};

use crate::measure::{Measure, Measured};
use crate::model::{MOST_AT_ONCE, MOST_CALLS, MOST_EVENTS, Scenario};
use crate::numeric::Chance;
use arrivals::Clients;
use calls::{Call, Reply};
use fault::Failures;
use gate::Gate;
use server_state::{Request, Server};
use slab::{Id, Slab};

/// What happens next.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The next task of an open class begins.
    Arrival { class: usize },
    /// A client begins a task; `intended` is when it first wanted to.
    Begin { class: usize, client: u32, intended: Timestamp },
    /// A request has reached its service.
    Request(Id),
    /// A worker is done with a request.
    Done(Id),
    /// A request has waited long enough.
    QueueTimeout(Id),
    /// An answer has reached its caller.
    Answer { call: Id, attempt: u32, reply: Reply },
    /// An attempt has run out of time, unless an answer comes at the same instant.
    Timeout(Id),
    /// The same, after all else of that instant.
    TimedOut { call: Id, attempt: u32 },
    /// The next attempt of a call is due.
    Attempt(Id),
    /// A call that a guard held back fails.
    Refused(Id),
    /// A gate lets through what it can.
    Wake(usize),
    /// A trigger begins.
    TriggerStarts(usize),
    /// A trigger ends.
    TriggerEnds(usize),
    /// A part of a service restarts.
    Deploy { trigger: usize, part: u32 },
    /// The capacity of a service changes.
    Capacity(usize),
    /// A bucket of the measures is full.
    Tick,
}

/// A run in progress.
struct World<'s> {
    scenario: &'s Scenario,
    seed: u64,
    now: Timestamp,
    end: Timestamp,
    events: DueQueue<Event>,
    /// What is due at this instant and came last: most messages take no time in most models.
    at_once: VecDeque<Event>,
    calls: Slab<Call>,
    requests: Slab<Request>,
    servers: Vec<Server>,
    clients: Vec<Clients>,
    gates: Vec<Gate>,
    /// The first gate of each edge.
    first_gate: Vec<usize>,
    /// What is drawn for the messages of each edge.
    network: Vec<Chance>,
    /// What triggers add to the loss of each edge.
    extra_loss: Vec<f64>,
    /// The place of the class of each trigger's spike, merged into its rate.
    failures: Failures,
    functions: Functions,
    measure: Measure,
}

/// Runs `scenario` with this seed.
#[must_use]
pub fn run(scenario: &Scenario, seed: u64) -> Measured {
    let mut world = World::new(scenario, seed);
    world.prepare();
    let (mut handled, mut moment) = (0_u64, (Timestamp::default(), 0));
    while let Some(event) = world.next_event() {
        world.handle(event);
        handled += 1;
        if world.now > moment.0 {
            moment = (world.now, handled);
        }
        // Where nothing takes any time, a closed loop would turn for good.
        if handled >= MOST_EVENTS || handled - moment.1 >= MOST_AT_ONCE {
            world.measure.cut_off = true;
            break;
        }
    }
    world.now = world.end;
    world.close_bucket();
    let left = world.tasks_left();
    world.measure.finish(handled, left)
}

impl<'s> World<'s> {
    fn new(scenario: &'s Scenario, seed: u64) -> Self {
        let mut gates = Vec::new();
        let mut first_gate = Vec::new();
        for (place, edge) in scenario.edges.iter().enumerate() {
            first_gate.push(gates.len());
            let clients = scenario.classes.get(place).map_or(1, |class| class.count);
            let many = if edge.per_client { clients } else { 1 };
            gates.extend((0..many).map(|_| Gate::new(edge)));
        }
        let edges = 0..scenario.edges.len() as u64;
        Self {
            scenario,
            seed,
            now: Timestamp::default(),
            end: Timestamp::default().after(scenario.length),
            events: DueQueue::new(),
            at_once: VecDeque::new(),
            calls: Slab::new(),
            requests: Slab::new(),
            servers: (0..).zip(&scenario.services).map(|(n, s)| Server::new(s, seed, n)).collect(),
            clients: (0..).zip(&scenario.classes).map(|(n, c)| Clients::new(c, seed, n)).collect(),
            gates,
            first_gate,
            network: edges.map(|n| Chance::of(seed, 3_000 + n)).collect(),
            extra_loss: vec![0.0; scenario.edges.len()],
            failures: Failures::of(scenario),
            functions: Functions::default(),
            measure: Measure::new(scenario),
        }
    }

    fn prepare(&mut self) {
        self.prepare_triggers();
        for class in 0..self.scenario.classes.len() {
            self.prepare_class(class);
        }
        for service in 0..self.scenario.services.len() {
            self.capacity_changes(service);
        }
        self.later(self.measure.width(), Event::Tick);
    }

    /// Queues an event that nothing takes back.
    fn later(&mut self, wait: Nanos, event: Event) {
        if wait.is_zero() {
            self.at_once.push_back(event);
        } else {
            self.events.insert(self.now.after(wait), event);
        }
    }

    /// The next event before the end, whose time becomes the present.
    fn next_event(&mut self) -> Option<Event> {
        let due = self.events.next_due();
        if due.is_none_or(|due| due > self.now)
            && let Some(event) = self.at_once.pop_front()
        {
            return Some(event);
        }
        let (at, event) = self.events.pop(due.filter(|due| *due < self.end)?)?;
        self.now = at;
        Some(event)
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrival { class } => self.arrival(class),
            Event::Begin { class, client, intended } => self.begin(class, client, intended),
            Event::Request(id) => self.request_arrives(id),
            Event::Done(id) => self.work_done(id),
            Event::QueueTimeout(id) => self.waited_too_long(id),
            Event::Answer { call, attempt, reply } => self.answer(call, attempt, reply),
            Event::Timeout(call) => self.time_is_up(call),
            Event::TimedOut { call, attempt } => self.timed_out(call, attempt),
            Event::Attempt(call) => self.attempt(call),
            Event::Refused(call) => self.finish(call, false),
            Event::Wake(gate) => self.wake(gate),
            Event::TriggerStarts(trigger) => self.trigger_starts(trigger),
            Event::TriggerEnds(trigger) => self.trigger_ends(trigger),
            Event::Deploy { trigger, part } => self.deploy(trigger, part),
            Event::Capacity(service) => self.capacity_changes(service),
            Event::Tick => {
                self.close_bucket();
                self.later(self.measure.width(), Event::Tick);
            }
        }
    }

    /// Whether one more call can be kept.
    fn has_room(&self) -> bool {
        self.calls.len() < MOST_CALLS
    }

    /// Ends a bucket of the measures with what can be seen only now and then.
    fn close_bucket(&mut self) {
        for service in 0..self.servers.len() {
            self.sum_up(service);
        }
        let mut gates = self.gates.iter();
        for (place, edge) in self.scenario.edges.iter().enumerate() {
            let next = self.first_gate.get(place + 1).copied().unwrap_or(self.gates.len());
            let many = next - self.first_gate[place];
            let guarded = !edge.guards.is_empty() || edge.tokens.is_some();
            let own = gates.by_ref().take(many);
            let (mut open, mut held, mut tokens) = (0, 0, None);
            for gate in own.filter(|_| guarded) {
                open += u64::from(gate.is_open(self.now));
                held += gate.waiting() as u64;
                let holds = gate.tokens(edge, self.now);
                tokens = holds.map(|n| n + tokens.unwrap_or(0.0)).or(tokens);
            }
            self.measure.gates(place, open, held, tokens);
        }
        self.measure.next_bucket(self.tasks_left());
    }
}
