//! Shrinks a failing scenario to the smallest one that fails for the same cause.
//!
//! Decides what to leave out and in which order. Must never know why a scenario fails: the caller
//! passes a function that answers whether it does, so any check can be shrunk. Whole things are
//! left out (a fault, a submission, a step, a setting), by delta debugging: halves first, then ever
//! smaller pieces (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input",
//! 2002). To shrink one more thing, add it to a table in `lists`, or a simplification to `simplify`
//! or `steps`.

mod lists;
mod simplify;
mod steps;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::scenario::{Reply, Scenario};

/// How large a scenario is, in what a reader has to keep in mind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Scheduled faults, bad replies and wrong clocks.
    pub faults: usize,
    /// The commands of users.
    pub operations: usize,
    /// Steps of all workflows, as far as they can be counted.
    pub steps: usize,
}

impl Size {
    /// The size of `scenario`.
    #[must_use]
    pub fn of(scenario: &Scenario) -> Self {
        let interventions = &scenario.interventions;
        let bad = scenario.replies().filter(|reply| reply.fault().is_some()).count();
        let wrong = scenario.clocks.iter().filter(|clock| **clock != Default::default()).count();
        let own = scenario.own.as_ref().map_or(0, |own| own.faults.len());
        Self {
            faults: scenario.faults.len() + own + bad + wrong,
            operations: scenario.submissions.len()
                + scenario.cancels.len()
                + scenario.deactivations.len()
                + interventions.asked()
                + usize::from(interventions.cleanup.is_some()),
            steps: scenario.workflows.iter().map(steps::count).sum(),
        }
    }
}

/// The result of shrinking.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The smallest scenario found that fails.
    pub scenario: Scenario,
    /// Scenarios that were tried.
    pub tried: u64,
    /// Whether nothing more can be left out; not where the tries ended before.
    pub is_smallest: bool,
}

/// Shrinks `scenario`, which `fails`, by at most `most` tries.
pub fn shrink(scenario: Scenario, most: u64, fails: impl FnMut(&Scenario) -> bool) -> Shrunk {
    let mut search = Search { found: scenario, left: most, fails };
    let mut before = None;
    while before.as_ref() != Some(&search.found) && search.left > 0 {
        before = Some(search.found.clone());
        for list in &lists::ALL {
            search.thin(list.count, list.without);
        }
        search.thin(steps::all, steps::without);
        search.simplify(simplify::world);
        search.simplify(steps::settings);
        search.simplify(simplify::replies);
    }
    let Search { found, left, .. } = search;
    let is_smallest = before.as_ref() == Some(&found);
    Shrunk { scenario: found, tried: most - left, is_smallest }
}

/// The scenario without some of its things of one kind; none where that makes no sense.
type Without = fn(&Scenario, Range<usize>) -> Option<Scenario>;

struct Search<F> {
    found: Scenario,
    left: u64,
    fails: F,
}

impl<F: FnMut(&Scenario) -> bool> Search<F> {
    /// Takes `candidate` where it fails too.
    fn take(&mut self, candidate: Scenario) -> bool {
        if self.left == 0 || candidate == self.found {
            return false;
        }
        self.left -= 1;
        let fails = (self.fails)(&candidate);
        if fails {
            self.found = candidate;
        }
        fails
    }

    /// Leaves out as many of the things of one kind as it can.
    fn thin(&mut self, count: fn(&Scenario) -> usize, without: Without) {
        let mut size = count(&self.found);
        while size > 0 {
            let mut at = 0;
            while at < count(&self.found) {
                let piece = at..(at + size).min(count(&self.found));
                // After a piece is left out, the next one has its place.
                if !without(&self.found, piece).is_some_and(|smaller| self.take(smaller)) {
                    at += size;
                }
            }
            size /= 2;
        }
    }

    /// Tries each way of being simpler, again and again while one is found.
    fn simplify(&mut self, ways: fn(&Scenario) -> Vec<Scenario>) {
        while ways(&self.found).into_iter().any(|simplify| self.take(simplify)) && self.left > 0 {}
    }
}

/// A reply that does no harm.
const WELL: Reply = Reply::SuccessTrue;
