//! When tasks begin, and what a client does when one ends.

use std::collections::VecDeque;

use retrial_core::time::{Nanos, Timestamp};

use super::calls::Owner;
use super::{Event, World};
use crate::model::{Arrivals, Class, GiveUpAction, Series, TriggerKind, scaled};
use crate::numeric::Chance;

/// The clients of a class.
#[derive(Debug)]
pub(super) struct Clients {
    chance: Chance,
    /// Which client gets the next task of an open stream.
    whose: Chance,
    /// Whether a task that failed begins anew.
    persists: Chance,
    /// The rate of an open stream, spikes included.
    rate: Option<(Series, bool)>,
    begun: u64,
    /// By client, where their concurrency is limited: tasks in progress, and those that wait.
    busy: Vec<u32>,
    waiting: Vec<VecDeque<Timestamp>>,
    all_waiting: usize,
    /// The clients that begin no more tasks, where some may leave.
    left: Vec<bool>,
    in_progress: u64,
}

impl Clients {
    pub(super) fn new(class: &Class, seed: u64, number: u64) -> Self {
        let limited = if class.concurrency.is_some() { class.count as usize } else { 0 };
        let leaves = class.give_up == GiveUpAction::Leave;
        Self {
            chance: Chance::of(seed, 1_000 + number),
            whose: Chance::of(seed, 2_000 + number),
            persists: Chance::of(seed, 6_000 + number),
            rate: match &class.arrivals {
                Arrivals::Open { rate, poisson } => Some((rate.clone(), *poisson)),
                _ => None,
            },
            begun: 0,
            busy: vec![0; limited],
            waiting: vec![VecDeque::new(); limited],
            all_waiting: 0,
            left: vec![false; if leaves { class.count as usize } else { 0 }],
            in_progress: 0,
        }
    }
}

/// When a stream that is at `from` brings its next task. `need` is how many tasks the rate has to
/// bring until then: one where gaps are even, and exponential with mean 1 in a Poisson stream.
fn next_arrival(rate: &Series, from: Timestamp, mut need: f64) -> Option<Timestamp> {
    let mut at = from;
    loop {
        let (now, change) = (rate.at(at), rate.next_change(at));
        let wait = if now > 0.0 { need / now * 1e9 } else { f64::INFINITY };
        match change {
            Some(change) if wait > change.since(at).get() as f64 => {
                need -= now * (change.since(at).get() as f64 / 1e9);
                at = change;
            }
            None if wait.is_infinite() => return None,
            _ => return Some(at.after(Nanos::new(wait.round() as u64))),
        }
    }
}

impl World<'_> {
    pub(super) fn prepare_class(&mut self, class: usize) {
        let model = &self.scenario.classes[class];
        match &model.arrivals {
            Arrivals::Open { .. } => {
                for trigger in &self.scenario.triggers {
                    if let (TriggerKind::Spike(of, factor), Some((rate, _))) =
                        (&trigger.kind, &mut self.clients[class].rate)
                        && *of == class
                    {
                        let until = trigger.at.saturating_add(trigger.length);
                        *rate = rate.times(*factor, trigger.at, until);
                    }
                }
                self.next_of_stream(class);
            }
            Arrivals::Closed { think, ramp } => {
                for client in 0..model.count {
                    let turn = f64::from(client) / f64::from(model.count);
                    let wait = think.draw(&mut self.clients[class].chance);
                    let wait = wait.saturating_add(scaled(*ramp, turn));
                    let intended = self.now.after(wait);
                    self.later(wait, Event::Begin { class, client, intended });
                }
            }
            Arrivals::Burst { tasks, at } => {
                for n in 0..*tasks {
                    let client = n % model.count;
                    let intended = self.now.after(*at);
                    self.later(*at, Event::Begin { class, client, intended });
                }
            }
        }
    }

    fn next_of_stream(&mut self, class: usize) {
        let clients = &mut self.clients[class];
        let Some((rate, poisson)) = &clients.rate else { return };
        let need = if *poisson { clients.chance.exponential() } else { 1.0 };
        if let Some(at) = next_arrival(rate, self.now, need).filter(|at| *at <= self.end) {
            self.events.insert(at, Event::Arrival { class });
        }
    }

    pub(super) fn arrival(&mut self, class: usize) {
        let many = self.scenario.classes[class].count;
        let client = match many {
            1 => 0,
            many => self.clients[class].whose.below(u64::from(many)) as u32,
        };
        self.begin(class, client, self.now);
        self.next_of_stream(class);
    }

    /// A client wants to begin a task.
    pub(super) fn begin(&mut self, class: usize, client: u32, intended: Timestamp) {
        let left = &self.clients[class].left;
        if left.get(client as usize).is_some_and(|left| *left) {
            return;
        }
        if intended == self.now {
            self.measure.offered(class);
        } else {
            // One that failed and begins anew was in progress all the time.
            self.clients[class].in_progress -= 1;
        }
        let limit = self.scenario.classes[class].concurrency;
        let clients = &mut self.clients[class];
        let full = limit.is_some_and(|most| clients.busy[client as usize] >= most);
        if !self.has_room() || self.clients[class].all_waiting >= crate::model::MOST_CALLS {
            self.measure.shed(class);
        } else if full {
            let clients = &mut self.clients[class];
            clients.waiting[client as usize].push_back(intended);
            clients.all_waiting += 1;
        } else {
            self.begin_now(class, client, intended);
        }
    }

    fn begin_now(&mut self, class: usize, client: u32, intended: Timestamp) {
        let clients = &mut self.clients[class];
        clients.begun += 1;
        clients.in_progress += 1;
        if let Some(busy) = clients.busy.get_mut(client as usize) {
            *busy += 1;
        }
        let number = clients.begun;
        self.call(class, client, Owner::Client { class, client, intended }, number);
    }

    /// A task has ended for good.
    pub(super) fn task_ended(
        &mut self,
        class: usize,
        client: u32,
        intended: Timestamp,
        well: bool,
    ) {
        let model = &self.scenario.classes[class];
        let took = self.now.since(intended);
        let in_time = model.deadline.is_none_or(|deadline| took <= deadline);
        let clients = &mut self.clients[class];
        if let Some(busy) = clients.busy.get_mut(client as usize) {
            *busy -= 1;
        }
        let again = match model.give_up {
            GiveUpAction::Again { wait, millionths } if !well => {
                (clients.persists.unit() * 1e6 < f64::from(millionths)).then_some(wait)
            }
            _ => None,
        };
        clients.in_progress -= u64::from(again.is_none());
        match (well, again) {
            (_, Some(_)) => self.measure.begun_anew(class),
            (true, None) => self.measure.succeeded(class, took, in_time),
            (false, None) => {
                self.measure.failed(class, model.give_up == GiveUpAction::DeadLetter);
            }
        }
        if let Some(wait) = again {
            self.later(wait, Event::Begin { class, client, intended });
        } else {
            self.next_of_client(class, client, well);
        }
        self.begin_waiting(class, client);
    }

    /// A client of a closed loop thinks, and then begins its next task.
    fn next_of_client(&mut self, class: usize, client: u32, well: bool) {
        let clients = &mut self.clients[class];
        if let Some(left) = clients.left.get_mut(client as usize).filter(|_| !well) {
            *left = true;
        }
        if let Arrivals::Closed { think, .. } = &self.scenario.classes[class].arrivals {
            let wait = think.draw(&mut clients.chance);
            let intended = self.now.after(wait);
            self.later(wait, Event::Begin { class, client, intended });
        }
    }

    /// The client has room for a task that waits.
    fn begin_waiting(&mut self, class: usize, client: u32) {
        let clients = &mut self.clients[class];
        let Some(waiting) = clients.waiting.get_mut(client as usize) else { return };
        if let Some(intended) = waiting.pop_front() {
            clients.all_waiting -= 1;
            self.begin_now(class, client, intended);
        }
    }

    /// The tasks of all classes that have begun or wait at their clients.
    pub(super) fn tasks_left(&self) -> u64 {
        self.clients.iter().map(|c| c.in_progress + c.all_waiting as u64).sum()
    }
}
