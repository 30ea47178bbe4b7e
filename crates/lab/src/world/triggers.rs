//! What goes wrong: begins, and ends.

use retrial_core::time::{Nanos, Timestamp};

use super::server_state::Phase;
use super::slab::Id;
use super::{Event, World};
use crate::model::{Trigger, TriggerKind};

impl World<'_> {
    pub(super) fn prepare_triggers(&mut self) {
        for (place, trigger) in self.scenario.triggers.iter().enumerate() {
            let start = Timestamp::default().after(trigger.at);
            self.events.insert(start, Event::TriggerStarts(place));
            self.events.insert(start.after(trigger.length), Event::TriggerEnds(place));
        }
    }

    pub(super) fn trigger_starts(&mut self, trigger: usize) {
        let model = &self.scenario.triggers[trigger];
        match model.kind {
            // Merged into the rate of its class.
            TriggerKind::Spike(..) => {}
            TriggerKind::Pause(service) => {
                self.servers[service].paused += 1;
                if self.servers[service].paused == 1 {
                    self.stand_still(service);
                }
            }
            TriggerKind::Capacity(service, share) => self.change_share(service, share),
            TriggerKind::Errors(service, share) => self.servers[service].right *= 1.0 - share,
            TriggerKind::Slow(service, factor) => self.servers[service].slow *= factor,
            TriggerKind::Crash(service) => {
                self.servers[service].down += 1;
                self.lose_all(service);
            }
            TriggerKind::Deploy(service, parts) => {
                self.change_share(service, 1.0 - 1.0 / f64::from(parts));
                let each = Nanos::new(model.length.get() / u64::from(parts));
                for part in 0..parts {
                    let at = each.saturating_mul(u64::from(part));
                    self.later(at, Event::Deploy { trigger, part });
                }
            }
            TriggerKind::Loss(edge, share) => {
                let kept = 1.0 - self.extra_loss[edge];
                self.extra_loss[edge] = 1.0 - kept * (1.0 - share);
            }
        }
    }

    pub(super) fn trigger_ends(&mut self, trigger: usize) {
        match self.scenario.triggers[trigger].kind {
            TriggerKind::Spike(..) => {}
            TriggerKind::Pause(service) => {
                self.servers[service].paused -= 1;
                if self.servers[service].paused == 0 {
                    self.go_on(service);
                }
            }
            TriggerKind::Capacity(service, _) | TriggerKind::Deploy(service, _) => {
                // From the triggers that go on, so that no rounding is left behind.
                self.servers[service].share = self.active(|kind| match kind {
                    TriggerKind::Capacity(of, share) if *of == service => Some(*share),
                    TriggerKind::Deploy(of, n) if *of == service => Some(1.0 - 1.0 / f64::from(*n)),
                    _ => None,
                });
                self.change_share(service, 1.0);
            }
            TriggerKind::Errors(service, _) => {
                let right = self.active(|kind| match kind {
                    TriggerKind::Errors(of, share) if *of == service => Some(1.0 - share),
                    _ => None,
                });
                self.servers[service].right = right;
            }
            TriggerKind::Slow(service, _) => {
                let slow = self.active(|kind| match kind {
                    TriggerKind::Slow(of, factor) if *of == service => Some(*factor),
                    _ => None,
                });
                self.servers[service].slow = slow;
            }
            TriggerKind::Crash(service) => {
                self.servers[service].down -= 1;
                self.servers[service].cold_since = Some(self.now);
            }
            TriggerKind::Loss(edge, _) => {
                let kept = self.active(|kind| match kind {
                    TriggerKind::Loss(of, share) if *of == edge => Some(1.0 - share),
                    _ => None,
                });
                self.extra_loss[edge] = 1.0 - kept;
            }
        }
    }

    /// The product of what the triggers that go on say.
    fn active(&self, says: impl Fn(&TriggerKind) -> Option<f64>) -> f64 {
        let goes_on = |t: &&Trigger| {
            let from = Timestamp::default().after(t.at);
            from <= self.now && self.now < from.after(t.length)
        };
        self.scenario.triggers.iter().filter(goes_on).filter_map(|t| says(&t.kind)).product()
    }

    fn change_share(&mut self, service: usize, factor: f64) {
        self.servers[service].share *= factor;
        self.set_capacity(service);
    }

    /// The capacity of a service changes by itself, now and each time that its series says.
    pub(super) fn capacity_changes(&mut self, service: usize) {
        self.set_capacity(service);
        let next = self.scenario.services[service].capacity.next_change(self.now);
        if let Some(next) = next {
            self.events.insert(next, Event::Capacity(service));
        }
    }

    fn set_capacity(&mut self, service: usize) {
        let model = &self.scenario.services[service];
        let share = model.capacity.at(self.now) * self.servers[service].share;
        let workers = (f64::from(model.workers) * share).round();
        self.servers[service].capacity = workers.clamp(0.0, f64::from(u32::MAX)) as u32;
        self.fill(service);
    }

    /// What is worked on stands still.
    fn stand_still(&mut self, service: usize) {
        for id in self.servers[service].working.clone() {
            self.shift(id, None);
            if let Some(request) = self.requests.get_mut(id) {
                // How much is left, counted from the origin.
                request.done_at = Timestamp::default().after(request.done_at.since(self.now));
            }
        }
    }

    fn go_on(&mut self, service: usize) {
        for id in self.servers[service].working.clone() {
            let left = self.requests.get(id).map(|r| r.done_at.since(Timestamp::default()));
            self.shift(id, left);
        }
        self.fill(service);
    }

    fn lose_all(&mut self, service: usize) {
        let inside = |r: &super::Request| r.service == service && r.phase != Phase::Travelling;
        let all: Vec<Id> =
            self.requests.iter().filter(|(_, r)| inside(r)).map(|(id, _)| id).collect();
        for id in all {
            self.lose(id);
        }
    }

    /// One part of the service restarts and loses what it works on.
    pub(super) fn deploy(&mut self, trigger: usize, part: u32) {
        let TriggerKind::Deploy(service, parts) = self.scenario.triggers[trigger].kind else {
            return;
        };
        // Each request has its part for as long as it is there.
        let own = |id: &&Id| id.number() % u64::from(parts) == u64::from(part);
        let all: Vec<Id> = self.servers[service].working.iter().filter(own).copied().collect();
        for id in all {
            self.lose(id);
        }
        self.servers[service].cold_since = Some(self.now);
        self.fill(service);
    }
}
