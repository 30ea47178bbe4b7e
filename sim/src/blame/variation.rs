//! A scenario drawn anew after an entry of its history, as far as it is data: scheduled faults and the
//! commands of users.

use retrial::time::{Mono, Nanos};

use crate::history::History;
use crate::scenario::{Fork, Scenario, When};
use crate::trace::Line;
use crate::workload::Draw;

/// A time and a number that no world comes to.
const NEVER: u64 = u64::MAX / 2;

/// The place of the first line that differs.
fn first_difference(lines: &[Line], others: &[Line]) -> usize {
    let same = |(line, other): &(&Line, &Line)| line.mark == other.mark;
    lines.iter().zip(others).take_while(same).count()
}

/// The variations of one scenario.
pub(super) struct Variations<'a> {
    scenario: &'a Scenario,
    /// The places of the faults; those that matter come first, the earliest first.
    order: Vec<usize>,
    /// How many entries of the history are there also if only so many of these faults are.
    alike: Vec<u64>,
    /// How many of them matter at all.
    matter: usize,
}

impl<'a> Variations<'a> {
    /// Runs the scenario with ever more of its faults, to see which of them matter from where on.
    pub(super) fn new(
        scenario: &'a Scenario,
        lines: &[Line],
        mut alone: impl FnMut(Scenario) -> History,
    ) -> Self {
        let mut with = |kept: &[usize]| {
            let mut fewer = scenario.clone();
            for (nth, fault) in fewer.faults.iter_mut().enumerate() {
                if !kept.contains(&nth) {
                    fault.when = never(fault.when);
                }
            }
            first_difference(lines, alone(fewer).lines()) as u64
        };
        let mut order: Vec<usize> = (0..scenario.faults.len()).collect();
        let mut alike = Vec::new();
        for kept in 0..order.len() {
            let so_far = with(&order[..kept]);
            alike.push(so_far);
            if so_far == lines.len() as u64 {
                break;
            }
            // The last of the shortest list of others with which more is alike: that one matters next.
            let (mut less, mut more) = (kept, order.len());
            while more - less > 1 {
                let middle = less.midpoint(more);
                match with(&order[..middle]) > so_far {
                    true => more = middle,
                    false => less = middle,
                }
            }
            order[kept..more].rotate_right(1);
        }
        let matter = alike.iter().position(|alike| *alike == lines.len() as u64);
        Self { matter: matter.unwrap_or(order.len()), scenario, order, alike }
    }

    /// How many of the faults must stay for a fork after so many entries.
    fn kept(&self, after: u64) -> usize {
        let enough = self.alike.iter().position(|alike| *alike >= after);
        enough.unwrap_or(self.order.len())
    }

    /// The scenario with that fork, which is at true time `at`. Faults that did not strike before it
    /// come at another time or not at all, and those that go on may end; commands that were not given
    /// before it are given at another time.
    pub(super) fn after(&self, fork: Fork, at: Mono) -> Scenario {
        let mut varied = Scenario { fork: Some(fork), ..self.scenario.clone() };
        let mut draw = Draw::new(fork.chance, "variation");
        let kept = self.kept(fork.after);
        for (nth, place) in self.order.iter().enumerate() {
            let (fault, half) = (&mut varied.faults[*place], draw.chance(50));
            fault.when = match (fault.when, nth >= kept) {
                (when, true) if half => never(when),
                // What came at its time and did nothing could come again before the fork.
                (when, true) if nth >= self.matter && is_counted(when) => when,
                (when, true) => moved(when, at, &mut draw),
                // It is still on at the instant of the fork, in which more may have happened before it.
                (When::During { from, until }, false) if half && until > at => {
                    When::During { from, until: at.after(Nanos::new(1)) }
                }
                (when, false) => when,
            };
        }
        let mut times = Times { at, heal_at: varied.heal_at, draw };
        varied.submissions.iter_mut().for_each(|s| times.shift(&mut s.at));
        varied.cancels.iter_mut().for_each(|c| times.shift(&mut c.at));
        varied.deactivations.iter_mut().for_each(|d| times.shift_both(&mut d.from, &mut d.until));
        let interventions = &mut varied.interventions;
        interventions.pauses.iter_mut().for_each(|p| times.shift_both(&mut p.from, &mut p.until));
        interventions.by_hand.iter_mut().for_each(|f| times.shift(&mut f.at));
        interventions.letter_rounds.iter_mut().for_each(|round| times.shift(&mut round.at));
        interventions.releases.iter_mut().for_each(|round| times.shift(&mut round.at));
        varied
    }
}

/// The same kind of time, which never comes. The fault stays where it is, since the world's chance
/// depends on how many there are.
fn never(when: When) -> When {
    let end = Mono::from_nanos(NEVER);
    match when {
        When::At(_) => When::At(end),
        When::During { .. } => When::During { from: end, until: end },
        When::Poll(_) => When::Poll(NEVER),
        When::Call(_) => When::Call(NEVER),
        When::Byte { byte, .. } => When::Byte { connection: NEVER, byte },
    }
}

fn is_counted(when: When) -> bool {
    matches!(when, When::Poll(_) | When::Call(_) | When::Byte { .. })
}

/// From the fork on up to twice as late. What is counted comes no sooner, since nobody knows how much
/// of it there was before the fork.
fn moved(when: When, fork: Mono, draw: &mut Draw) -> When {
    match when {
        When::At(at) => When::At(later(at, fork, draw)),
        When::During { from, until } if from > fork => {
            let moved = later(from, fork, draw);
            When::During { from: moved, until: moved.after(until.since(from)) }
        }
        When::Poll(n) => When::Poll(n + draw.below(n)),
        When::Call(n) => When::Call(n + draw.below(n)),
        When::Byte { connection, byte } => {
            When::Byte { connection: connection + draw.below(connection), byte }
        }
        begun @ When::During { .. } => begun,
    }
}

/// A time from `fork` on, up to twice as far from it as `at` is.
fn later(at: Mono, fork: Mono, draw: &mut Draw) -> Mono {
    let away = at.since(fork).get();
    if away == 0 { at } else { fork.after(Nanos::new(1 + draw.below(away.saturating_mul(2)))) }
}

/// Moves the times of users' commands.
struct Times {
    at: Mono,
    heal_at: Mono,
    draw: Draw,
}

impl Times {
    fn shift(&mut self, time: &mut Mono) {
        if *time > self.at {
            let latest = self.heal_at.max(*time);
            *time = later(*time, self.at, &mut self.draw).min(latest);
        }
    }

    /// Where the first has come, both stay.
    fn shift_both(&mut self, from: &mut Mono, until: &mut Mono) {
        if *from > self.at {
            let lasts = until.since(*from);
            let latest = self.heal_at.max(*until);
            self.shift(from);
            *until = from.after(lasts).min(latest);
        }
    }
}
