//! A better policy within bounds that the user names.
//!
//! Decides which policies are tried and which of them are best. Must never judge one itself.

use std::fmt::Write as _;

use retrial_core::dialect::Diagnostic;
use retrial_core::dialect::tree::{Format, Node};
use retrial_core::policy::{
    Backoff, Budget, Jitter, Limit, Multiplier, Policy, PolicyParts, Shape, Share,
};
use retrial_core::time::Nanos;
use serde::Serialize;

use crate::judge::{Verdict, judge};
use crate::model::Scenario;
use crate::read::SECOND;
use crate::summary::Summary;

/// The most policies that one search tries.
pub const MOST_POLICIES: usize = 10_000;

const KEYS: [&str; 5] = ["attempts", "backoff", "jitter", "timeout", "retry_budget"];

/// What a policy may be made of: each combination is tried.
#[derive(Clone, Debug)]
pub struct Bounds {
    attempts: Vec<u32>,
    backoffs: Vec<Nanos>,
    jitters: Vec<Jitter>,
    timeouts: Vec<Option<Nanos>>,
    budgets: Vec<Option<Share>>,
}

/// A policy that was tried.
#[derive(Clone, Debug, Serialize)]
pub struct Candidate {
    /// The policy in words.
    pub words: String,
    /// The verdict with it.
    pub verdict: Verdict,
    /// The share of tasks that succeed.
    pub success: f64,
    /// The calls for each task.
    pub load: f64,
}

/// All that were tried.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// In the order in which they were tried.
    pub all: Vec<Candidate>,
    /// The places of those that none beats in success, load and verdict at once; the least load first.
    pub front: Vec<usize>,
}

/// Reads bounds: lists of attempts, first delays, jitters, timeouts and budgets.
///
/// # Errors
/// The first thing that is wrong.
pub fn bounds(file: &str, text: &str) -> Result<Bounds, Diagnostic> {
    let top = Node::parse(file, text, Format::Toml)?;
    let fields = top.fields(&KEYS)?;
    let list = |key: &str| fields.get(key).map_or(Ok(&[][..]), Node::items);
    let jitters = [
        ("none", Jitter::None),
        ("full", Jitter::Full),
        ("equal", Jitter::Equal),
        ("decorrelated", Jitter::Decorrelated),
    ];
    let all = |items: &[Node], read: &dyn Fn(&Node) -> Result<Nanos, Diagnostic>| {
        items.iter().map(read).collect::<Result<Vec<_>, _>>()
    };
    let mut bounds = Bounds {
        attempts: list("attempts")?.iter().map(|n| n.count(1, 1_000)).collect::<Result<_, _>>()?,
        backoffs: all(list("backoff")?, &|n| n.duration(SECOND))?,
        jitters: list("jitter")?.iter().map(|n| n.choice(&jitters)).collect::<Result<_, _>>()?,
        timeouts: all(list("timeout")?, &|n| n.timeout(SECOND))?.into_iter().map(Some).collect(),
        budgets: list("retry_budget")?
            .iter()
            .map(|n| Ok(Some(n.share()?)))
            .collect::<Result<_, _>>()?,
    };
    bounds.attempts.extend(bounds.attempts.is_empty().then_some(3));
    bounds.backoffs.extend(bounds.backoffs.is_empty().then_some(Nanos::from_millis(100)));
    bounds.jitters.extend(bounds.jitters.is_empty().then_some(Jitter::Full));
    bounds.timeouts.extend(bounds.timeouts.is_empty().then_some(None));
    bounds.budgets.extend(bounds.budgets.is_empty().then_some(None));
    let sizes = [
        bounds.attempts.len(),
        bounds.backoffs.len(),
        bounds.jitters.len(),
        bounds.timeouts.len(),
        bounds.budgets.len(),
    ];
    let many = sizes.iter().try_fold(1_usize, |many, size| many.checked_mul(*size));
    if many.is_none_or(|many| many > MOST_POLICIES) {
        let error = top.place.error("these lists make too many policies");
        return Err(error.help_with(format!("let them make at most {MOST_POLICIES}")));
    }
    Ok(bounds)
}

impl Bounds {
    /// Each combination with its words; those that are no policy are left out.
    #[must_use]
    pub fn policies(&self) -> Vec<(String, Policy)> {
        let mut all: Vec<(String, Policy)> = Vec::new();
        for attempts in &self.attempts {
            for backoff in &self.backoffs {
                for jitter in &self.jitters {
                    for timeout in &self.timeouts {
                        for budget in &self.budgets {
                            all.extend(policy(*attempts, *backoff, *jitter, *timeout, *budget));
                        }
                    }
                }
            }
        }
        // One attempt needs no delay and no budget, so it comes up once a timeout.
        let mut seen = std::collections::BTreeSet::new();
        all.retain(|(words, _)| seen.insert(words.clone()));
        all
    }
}

fn policy(
    attempts: u32,
    base: Nanos,
    jitter: Jitter,
    timeout: Option<Nanos>,
    budget: Option<Share>,
) -> Option<(String, Policy)> {
    let shape = Shape::Exponential { base, multiplier: Multiplier::TWO };
    let backoff = Backoff { shape, jitter, cap: None };
    let made = Policy::builder().attempts(attempts).backoff(backoff).build().ok()?;
    let mut parts = PolicyParts::from(made);
    parts.attempt_timeout = timeout;
    let budget = budget.filter(|_| attempts > 1);
    parts.budget = budget.map(Budget::of_first_attempts).filter(|b| b.check().is_ok());
    let plural = if attempts == 1 { "" } else { "s" };
    let mut words = format!("{attempts} attempt{plural}");
    if attempts > 1 {
        let jitter = format!("{jitter:?}").to_lowercase();
        let _ = write!(words, ", {base} doubling, jitter {jitter}");
    }
    if let Some(timeout) = timeout {
        let _ = write!(words, ", timeout {timeout}");
    }
    if let Some(budget) = budget {
        let _ = write!(words, ", budget {} %", f64::from(budget.millionths()) / 1e4);
    }
    Some((words, Policy::try_from(parts).ok()?))
}

/// Tries each policy of the bounds for all clients of the scenario.
#[must_use]
pub fn search(scenario: &Scenario, bounds: &Bounds, seeds: u32, jobs: usize) -> Found {
    let mut all = Vec::new();
    for (words, policy) in bounds.policies() {
        debug_assert!(policy.limit() != Limit::Unlimited, "the bounds name a number of attempts");
        let changed = scenario.clone().with_policy(&policy);
        let summary = Summary::of(&changed, &judge(&changed, seeds, jobs));
        let (success, load) = (summary.total.success, summary.total.calls_per_task);
        all.push(Candidate { words, verdict: summary.verdict, success, load });
    }
    let front = front(&all);
    Found { all, front }
}

/// Those that no other one beats: none is at least as good in each way and better in one.
fn front(all: &[Candidate]) -> Vec<usize> {
    let beats = |a: &Candidate, b: &Candidate| {
        let as_good = a.verdict <= b.verdict && a.success >= b.success && a.load <= b.load;
        as_good && (a.verdict < b.verdict || a.success > b.success || a.load < b.load)
    };
    let mut front: Vec<usize> =
        (0..all.len()).filter(|at| !all.iter().any(|other| beats(other, &all[*at]))).collect();
    front.sort_by(|a, b| all[*a].load.total_cmp(&all[*b].load));
    front
}

impl Found {
    /// The front as a table.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!(
            "Of {} policies none beats these:\n\n  {:>9}  {:>14}  verdict\n",
            self.all.len(),
            "success",
            "calls per task"
        );
        for one in self.front.iter().filter_map(|at| self.all.get(*at)) {
            let _ = writeln!(
                text,
                "  {:>7.2} %  {:>14.3}  {:<11} {}",
                one.success * 100.0,
                one.load,
                one.verdict.word(),
                one.words
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_front_has_what_nothing_beats() {
        let one = |success: f64, load: f64, verdict| Candidate {
            words: String::new(),
            verdict,
            success,
            load,
        };
        let all = [
            one(0.9, 1.1, Verdict::Recovers),
            one(0.9, 1.2, Verdict::Recovers),
            one(0.99, 1.5, Verdict::Recovers),
            one(0.5, 1.0, Verdict::Recovers),
            one(0.99, 1.5, Verdict::Metastable),
        ];
        assert_eq!(front(&all), [3, 0, 2]);
    }

    #[test]
    fn bounds_are_read_and_bounded() {
        let read = bounds(
            "b.toml",
            "attempts = [1, 3]\njitter = [\"none\", \"full\"]\nretry_budget = [0.1]\n",
        )
        .unwrap();
        assert_eq!(read.policies().len(), 3, "one attempt has no jitter");
        let said = |text: &str| bounds("b.toml", text).unwrap_err().to_string();
        assert_eq!(
            said("attempts = [0]"),
            "b.toml:1:13: attempts.0: `0` is out of range (use 1 to 1000)"
        );
        assert!(said("attemts = [1]").contains("did you mean `attempts`?"));
        let many = format!("attempts = {:?}\nbackoff = {0:?}\ntimeout = {0:?}", vec![1; 30]);
        assert!(said(&many).contains("too many policies"));
    }
}
