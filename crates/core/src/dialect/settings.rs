//! The settings that every dialect accepts beside its own keys.
//!
//! `attempt_timeout`, `total_timeout` and `max_retry_after` are seconds or a text with a unit;
//! `timeout_retries` is a count; `jitter` is a word, a share or a boolean;
//! `retry_budget` is a share of first attempts or a table (see `budget`); `counting` is `shared` or
//! `per_rule`, with `total_attempts` beside it; `at_deadline` is `give_up` or `truncate`, with
//! `last_attempt_reserve` beside it; `retry_unknown_outcome` is for actions that are not
//! idempotent.

use super::number::{SECOND, millionths, seconds};
use super::tree::{Data, Fields, Node};
use super::{Diagnostic, budget};
use crate::policy::{AtDeadline, Counting, Jitter, Limit, Policy, PolicyParts, Share};

/// The keys of these settings. The first is the one that a dialect may have its own word for.
pub(super) const KEYS: [&str; 10] = [
    "attempt_timeout",
    "total_timeout",
    "timeout_retries",
    "max_retry_after",
    "counting",
    "total_attempts",
    "at_deadline",
    "last_attempt_reserve",
    "retry_unknown_outcome",
    "retry_budget",
];

/// Reads the settings that are there into `parts`. A dialect with its own word for one of them
/// must have set it before: both together are an error.
pub(super) fn read(fields: &Fields<'_>, parts: &mut PolicyParts) -> Result<(), Diagnostic> {
    for (key, limit) in [
        ("attempt_timeout", &mut parts.attempt_timeout),
        ("total_timeout", &mut parts.total_timeout),
    ] {
        let Some(node) = fields.get(key) else { continue };
        if limit.is_some() {
            let message = format!("`{key}` is given beside the dialect's own word for it");
            return Err(node.place.error(message).help_with("keep one of them"));
        }
        *limit = Some(node.timeout(SECOND)?);
    }
    if let Some(node) = fields.get("timeout_retries") {
        parts.timeout_retries = Some(node.count(0, u32::MAX)?);
    }
    if let Some(node) = fields.get("max_retry_after") {
        parts.max_retry_after = node.duration(SECOND)?;
    }
    counting(fields, parts)?;
    at_deadline(fields, parts)?;
    if let Some(node) = fields.get("retry_unknown_outcome") {
        parts.retry_unknown_outcome = node.boolean()?;
    }
    if let Some(node) = fields.get("retry_budget") {
        parts.budget = Some(budget::read(node)?);
    }
    Ok(())
}

/// The words for jitter. `proportional` is a quarter.
const JITTERS: [(&str, Jitter); 5] = [
    ("none", Jitter::None),
    ("proportional", Jitter::Proportional(Share::QUARTER)),
    ("full", Jitter::Full),
    ("equal", Jitter::Equal),
    ("decorrelated", Jitter::Decorrelated),
];

/// The words for what a rule's limit counts.
pub(super) const COUNTINGS: [(&str, Counting); 2] =
    [("shared", Counting::Shared), ("per_rule", Counting::PerRule { total: Limit::Unlimited })];

fn counting(fields: &Fields<'_>, parts: &mut PolicyParts) -> Result<(), Diagnostic> {
    if let Some(node) = fields.get("counting") {
        parts.counting = node.choice(&COUNTINGS)?;
    }
    let Some(node) = fields.get("total_attempts") else { return Ok(()) };
    let most = Limit::attempts(node.count(1, u32::MAX)?).unwrap_or(Limit::ONE);
    match &mut parts.counting {
        Counting::PerRule { total } => *total = most,
        Counting::Shared => return Err(stray(node, "total_attempts", "counting", "per_rule")),
    }
    Ok(())
}

/// The words for what happens to a delay that would cross the total timeout.
pub(super) const DEADLINES: [(&str, AtDeadline); 2] = [
    ("give_up", AtDeadline::GiveUp),
    ("truncate", AtDeadline::Truncate { reserve: AtDeadline::RESERVE }),
];

fn at_deadline(fields: &Fields<'_>, parts: &mut PolicyParts) -> Result<(), Diagnostic> {
    if let Some(node) = fields.get("at_deadline") {
        parts.at_deadline = node.choice(&DEADLINES)?;
    }
    let Some(node) = fields.get("last_attempt_reserve") else { return Ok(()) };
    match &mut parts.at_deadline {
        AtDeadline::Truncate { reserve } => *reserve = node.timeout(SECOND)?,
        AtDeadline::GiveUp => {
            return Err(stray(node, "last_attempt_reserve", "at_deadline", "truncate"));
        }
    }
    Ok(())
}

fn stray(node: &Node, key: &str, other: &str, word: &str) -> Diagnostic {
    let error = node.place.error(format!("`{key}` has no effect without `{other}`"));
    error.help_with(format!("add {other}: {word}, or leave it out"))
}

/// What these settings say beyond the timeouts, as keys and JSON values.
pub(super) fn texts(policy: &Policy) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    if let Counting::PerRule { total } = policy.counting() {
        found.push(("counting", "\"per_rule\"".to_owned()));
        found.extend(total.count().map(|n| ("total_attempts", n.to_string())));
    }
    if let AtDeadline::Truncate { reserve } = policy.at_deadline() {
        found.push(("at_deadline", "\"truncate\"".to_owned()));
        found.push(("last_attempt_reserve", seconds(reserve)));
    }
    if policy.retries_unknown_outcome() {
        found.push(("retry_unknown_outcome", "true".to_owned()));
    }
    found
}

/// A jitter: a word, a share of the delay such as 0.1, or whether there is the usual one.
pub(super) fn jitter(node: &Node) -> Result<Jitter, Diagnostic> {
    match &node.data {
        Data::Bool(true) => Ok(Jitter::Proportional(Share::QUARTER)),
        Data::Bool(false) => Ok(Jitter::None),
        Data::Number(_) => node.share().map(Jitter::Proportional),
        _ => node.choice(&JITTERS),
    }
}

/// The jitter as a dialect's field spells it.
pub(crate) fn jitter_text(jitter: Jitter) -> String {
    match (jitter, JITTERS.iter().find(|(_, j)| *j == jitter)) {
        (_, Some((name, _))) => format!("{name:?}"),
        (Jitter::Proportional(share), None) => millionths(u64::from(share.millionths())),
        (_, None) => "\"none\"".to_owned(),
    }
}

/// The jitter as a phrase.
pub(crate) fn jitter_words(jitter: Jitter) -> String {
    match (jitter, JITTERS.iter().find(|(_, j)| *j == jitter)) {
        (Jitter::Proportional(share), _) => {
            format!("jitter of plus or minus {} %", millionths(u64::from(share.millionths()) * 100))
        }
        (_, Some((name, _))) => format!("{name} jitter"),
        (_, None) => "jitter".to_owned(),
    }
}
