//! Which single setting changes a verdict, found by trying.
//!
//! Decides which settings are tried, and in which order. Must never guess: what it names was run. To
//! try one more setting, add it to `changes`.

use std::num::NonZeroU32;

use retrial_core::guard::Breaker;
use retrial_core::policy::{Budget, Jitter, Limit, Policy, PolicyParts, Share};
use retrial_core::time::Nanos;

use crate::judge::{Verdict, judge};
use crate::model::{Distribution, Edge, Scenario, scaled};

/// One setting, changed.
#[derive(Clone, Debug)]
pub struct Change {
    /// What to do, in words.
    pub words: String,
    /// The scenario with it.
    pub scenario: Scenario,
}

/// A change that was tried, and the verdict with it.
#[derive(Clone, Debug)]
pub struct Tried {
    /// What was changed, in words.
    pub words: String,
    /// The verdict then.
    pub verdict: Verdict,
    /// The seeds that recovered.
    pub recovered: u32,
}

/// Tries each change with these many seeds, in order. Each is one setting of one caller.
#[must_use]
pub fn tried(scenario: &Scenario, seeds: u32, jobs: usize) -> Vec<Tried> {
    let all = changes(scenario);
    let tried = all.into_iter().map(|change| {
        let judgement = judge(&change.scenario, seeds, jobs);
        let (verdict, recovered) = (judgement.verdict, judgement.recovered);
        Tried { words: change.words, verdict, recovered }
    });
    tried.collect()
}

/// The settings that are tried: for each caller a budget, a breaker, jitter, fewer attempts, a
/// shorter and a longer timeout.
#[must_use]
pub fn changes(scenario: &Scenario) -> Vec<Change> {
    let mut all = Vec::new();
    for (place, edge) in scenario.edges.iter().enumerate() {
        let mut add = |words: String, changed: Option<Edge>| {
            if let Some(changed) = changed {
                let mut scenario = scenario.clone();
                scenario.edges[place] = changed;
                all.push(Change { words: format!("{words} ({})", edge.name), scenario });
            }
        };
        add(
            "limit retries to 10 % of first attempts: retry_budget = 0.1".into(),
            with_budget(edge),
        );
        add("give retries full jitter".into(), with_jitter(edge));
        add(
            "open a circuit breaker after 5 failures in a row: breaker = { failures = 5 }".into(),
            with_breaker(edge),
        );
        for attempts in fewer(edge) {
            let plural = if attempts == 1 { "" } else { "s" };
            let words = format!("make at most {attempts} attempt{plural}");
            add(words, with_attempts(edge, attempts));
        }
        for timeout in timeouts(scenario, edge) {
            let words = format!("time each attempt out after {timeout}");
            add(words, with_timeout(edge, timeout));
        }
    }
    all
}

fn retries(edge: &Edge) -> bool {
    edge.policy.limit() != Limit::ONE
}

/// The edge with other contents of its policy; none where they are invalid.
fn with_parts(edge: &Edge, change: impl FnOnce(&mut PolicyParts)) -> Option<Edge> {
    let mut parts = PolicyParts::from(edge.policy.clone());
    change(&mut parts);
    let policy = Policy::try_from(parts).ok().filter(|policy| *policy != edge.policy)?;
    Some(Edge { policy, ..edge.clone() })
}

fn with_budget(edge: &Edge) -> Option<Edge> {
    let mut changed = edge.clone();
    changed.guards.retry_budget = Some(Budget::of_first_attempts(Share::TENTH));
    (retries(edge) && changed.guards.retry_budget != edge.guards.retry_budget).then_some(changed)
}

fn with_breaker(edge: &Edge) -> Option<Edge> {
    let five = NonZeroU32::MIN.saturating_add(4);
    let breaker = Breaker::new(Some(five), None, Breaker::OPEN, NonZeroU32::MIN).ok()?;
    let mut changed = edge.clone();
    changed.guards.breaker = Some(breaker);
    edge.guards.breaker.is_none().then_some(changed)
}

fn with_jitter(edge: &Edge) -> Option<Edge> {
    with_parts(edge, |parts| {
        parts.rules.iter_mut().for_each(|rule| rule.backoff.jitter = Jitter::Full);
    })
}

/// Half of the attempts, and one alone.
fn fewer(edge: &Edge) -> Vec<u32> {
    let most = edge.policy.limit().count().unwrap_or(8);
    let mut fewer = vec![most / 2, 1];
    fewer.dedup();
    fewer.retain(|n| *n >= 1 && retries(edge));
    fewer
}

fn with_attempts(edge: &Edge, attempts: u32) -> Option<Edge> {
    let limit = Limit::attempts(attempts)?;
    with_parts(edge, |parts| {
        parts.rules.iter_mut().for_each(|rule| rule.limit = rule.limit.min(limit));
    })
}

fn with_timeout(edge: &Edge, timeout: Nanos) -> Option<Edge> {
    with_parts(edge, |parts| parts.attempt_timeout = Some(timeout))
}

/// Half and four times the timeout that there is; else ten times what a call takes alone.
fn timeouts(scenario: &Scenario, edge: &Edge) -> Vec<Nanos> {
    if let Some(now) = edge.policy.attempt_timeout() {
        return vec![scaled(now, 0.5), now.saturating_mul(4)];
    }
    let mean = |d: &Distribution| d.mean();
    let alone = mean(&scenario.services[edge.to].time).saturating_add(mean(&edge.latency));
    let rounded = alone.saturating_mul(10).as_millis_ceil();
    if rounded == 0 { Vec::new() } else { vec![Nanos::from_millis(rounded)] }
}
