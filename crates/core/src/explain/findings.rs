//! What in a policy may be a mistake.

use std::fmt;
use std::sync::LazyLock;

use super::delays;
use crate::dialect::{Diagnostic, Named, Place, tree};
use crate::failure::OWN_NAMES;
use crate::policy::{Functions, Jitter, Limit, Policy, Rule, Scope, Shape};
use crate::time::Nanos;

/// Something valid in a policy that may be a mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The rule, from 1; `None` for the policy as a whole.
    pub rule: Option<usize>,
    /// What it is, and why that matters.
    pub reason: String,
    /// What to do.
    pub help: String,
}

impl Finding {
    /// The finding as a diagnostic about `place`.
    #[must_use]
    pub fn at(&self, place: &Place) -> Diagnostic {
        let rule = self.rule.map(|n| format!("rule {n}: ")).unwrap_or_default();
        place.error(format!("{rule}{}", self.reason)).help_with(self.help.clone())
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(rule) = self.rule {
            write!(f, "rule {rule}: ")?;
        }
        write!(f, "{}; {}", self.reason, self.help)
    }
}

/// A reason and what to do.
type Found = Option<(String, &'static str)>;

/// Everything found in `policy`, which is that of `step` where there is one.
pub(super) fn of(policy: &Policy, step: Option<&Named>, functions: &Functions) -> Vec<Finding> {
    let rules = policy.rules();
    let of_rules = rules.iter().enumerate().flat_map(|(at, rule)| {
        [
            never_retries(rule),
            names_nothing(rule),
            misspelt(rule),
            never_governs(rules, at),
            grows_without_cap(rule),
            capped_from_start(rule, functions),
            unknown_function(rule, functions),
            cut_short(policy, rule, functions),
            in_step_with_the_others(rule, step, functions),
        ]
        .into_iter()
        .flatten()
        .map(move |found| (Some(at + 1), found))
    });
    let of_all = [attempt_beyond_total(policy), multiplies(policy, step)].into_iter().flatten();
    let found = of_rules.chain(of_all.map(|found| (None, found)));
    found.map(|(rule, (reason, help))| Finding { rule, reason, help: help.to_owned() }).collect()
}

fn never_retries(rule: &Rule) -> Found {
    let waits = !rule.backoff.is_always_zero();
    (rule.limit == Limit::ONE && waits)
        .then(|| ("it has a delay but allows no retry".into(), "say how many retries there may be"))
}

fn names_nothing(rule: &Rule) -> Found {
    let Scope::Names(names) = &rule.matcher.scope else { return None };
    if names.is_empty() {
        return Some((
            "its list of errors is empty, so it matches nothing".into(),
            "name an error, or leave the list out",
        ));
    }
    names.is_subset(&rule.matcher.except).then(|| {
        (
            "every error that it names is excluded as well, so it matches nothing".into(),
            "take the names out of one of the two lists",
        )
    })
}

static OWN_STEMS: LazyLock<Vec<tree::Stem<'_>>> =
    LazyLock::new(|| OWN_NAMES.iter().map(|name| tree::Stem::of(name)).collect());

/// The most names of a rule that are looked at.
const NAMES: usize = 256;

/// A name that no failure has unless an action gives it, and that is nearly one that failures have.
fn misspelt(rule: &Rule) -> Found {
    let named = match &rule.matcher.scope {
        Scope::Names(names) | Scope::Retryable(names) => Some(names),
        Scope::Any => None,
    };
    let names = named.into_iter().flatten().chain(&rule.matcher.except).take(NAMES);
    let unknown = names.filter(|name| !OWN_NAMES.contains(&name.as_str()));
    let (name, meant) =
        unknown.filter_map(|name| Some((name, tree::misspelt(name, &OWN_STEMS)?))).next()?;
    Some((
        format!("`{name}` names no error of Retrial's own; `{meant}` does"),
        "correct it, unless an action gives this name",
    ))
}

/// Of the rules that match, the one with the most attempts governs, on a tie the first.
fn never_governs(rules: &[Rule], at: usize) -> Found {
    let rule = &rules[at];
    let beats = |(other, r): (usize, &Rule)| {
        let wins = r.limit > rule.limit || (r.limit == rule.limit && other < at);
        (other != at && covers(r, rule) && wins).then_some(other + 1)
    };
    let other = rules.iter().enumerate().find_map(beats)?;
    Some((
        format!(
            "it never governs: rule {other} matches the same failures with as many attempts or more"
        ),
        "give it more attempts than the other, or leave it out",
    ))
}

/// Whether `r` surely matches whatever `rule` does.
fn covers(r: &Rule, rule: &Rule) -> bool {
    let names = match (&r.matcher.scope, &rule.matcher.scope) {
        (Scope::Any, _) => true,
        (Scope::Names(more), Scope::Names(fewer)) => fewer.is_subset(more),
        _ => false,
    };
    names && r.matcher.except.is_empty() || r.matcher == rule.matcher
}

fn grows_without_cap(rule: &Rule) -> Found {
    let grows =
        !matches!(rule.backoff.shape, Shape::None | Shape::Fixed { .. } | Shape::List { .. });
    (rule.limit == Limit::Unlimited && grows && rule.backoff.cap.is_none())
        .then(|| ("it retries without limit and its delay grows without a cap".into(), "set a cap"))
}

fn capped_from_start(rule: &Rule, functions: &Functions) -> Found {
    let cap = rule.backoff.cap?;
    let uncapped = crate::policy::Backoff { cap: None, ..rule.backoff.clone() };
    let first = uncapped.nominal(1, functions);
    let grows = !matches!(rule.backoff.shape, Shape::List { .. });
    (grows && first > cap && rule.limit > Limit::ONE).then(|| {
        (
            format!("its first delay of {first} is above the cap: every delay is {cap}"),
            "raise the cap or shorten the delay",
        )
    })
}

fn unknown_function(rule: &Rule, functions: &Functions) -> Found {
    let Shape::Custom { name } = &rule.backoff.shape else { return None };
    functions.get(name).is_none().then(|| {
        (
            format!(
                "its backoff function `{name}` is not registered here; its delays are shown as 0"
            ),
            "run it in the program that registers the function",
        )
    })
}

/// Whether the total timeout comes before the rule's last attempt, even if attempts took no time.
fn cut_short(policy: &Policy, rule: &Rule, functions: &Functions) -> Found {
    let (total, attempts) = (policy.total_timeout()?, rule.limit.count()?);
    let mut listed = delays(rule, (attempts - 1).min(super::MOST), functions);
    let late = listed.find(|d| d.earliest_sum >= total)?;
    Some((
        format!(
            "the total timeout of {total} leaves room for at most {} of its {attempts} attempts",
            late.retry
        ),
        "allow more time or fewer attempts",
    ))
}

/// Many clients that wait for the same time come back at the same time.
fn in_step_with_the_others(rule: &Rule, step: Option<&Named>, functions: &Functions) -> Found {
    let waits = rule.backoff.range(1, None, functions) != (Nanos::ZERO..=Nanos::ZERO);
    let alike = rule.backoff.jitter == Jitter::None && waits && rule.limit > Limit::ONE;
    (alike && step?.fans_out).then(|| {
        (
            "tasks of the fan-out that fail together also retry together: there is no jitter"
                .into(),
            "add jitter, such as full",
        )
    })
}

fn attempt_beyond_total(policy: &Policy) -> Found {
    let (attempt, total): (Nanos, Nanos) = (policy.attempt_timeout()?, policy.total_timeout()?);
    (attempt >= total).then(|| {
        (
            format!(
                "the attempt timeout of {attempt} is not below the total timeout of {total}: the first attempt may take it all"
            ),
            "shorten the attempt timeout or lengthen the total one",
        )
    })
}

/// Layers that each retry multiply their attempts.
fn multiplies(policy: &Policy, step: Option<&Named>) -> Found {
    let inner = step?.action.as_ref()?.inner_attempts.filter(|n| *n > 1)?;
    let outer = policy.limit();
    if outer == Limit::ONE {
        return None;
    }
    let reason = match outer.count() {
        Some(n) => format!(
            "each of {n} attempts makes up to {inner} of its own: {} calls in all",
            u64::from(n) * u64::from(inner)
        ),
        None => format!("each of unlimited attempts makes up to {inner} of its own"),
    };
    Some((reason, "let one layer retry"))
}
