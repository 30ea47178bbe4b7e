//! The guards of an action, in its `[actions.NAME]`.
//!
//! ```toml
//! breaker = { failures = 5, rate = 0.5, window = "30s", min_calls = 10, open = "30s", probes = 2 }
//! concurrency = 4
//! rate = { calls = 10, per = "1s" }
//! retry_budget = 0.1
//! error_budget = { target = 0.99, window = "1h", min_calls = 20, alerts = [0.5, 0.9, 1.0], webhook = "notify" }
//! ```

use std::num::NonZeroU32;

use crate::dialect::number::SECOND;
use crate::dialect::tree::{Fields, Node};
use crate::dialect::{Diagnostic, budget};
use crate::guard::{Breaker, ErrorBudget, FailureRate, GuardError, GuardRules, Pace};

const BREAKER: [&str; 6] = ["failures", "rate", "window", "min_calls", "open", "probes"];
const ERROR_BUDGET: [&str; 5] = ["target", "window", "min_calls", "alerts", "webhook"];
const RATE: [&str; 2] = ["calls", "per"];

/// The keys of an action's guards.
pub const GUARD_KEYS: [&str; 5] =
    ["breaker", "concurrency", "rate", "retry_budget", "error_budget"];

/// Reads the guards among an action's fields.
///
/// # Errors
/// When one is invalid.
pub fn read_guards(fields: &Fields<'_>) -> Result<GuardRules, Diagnostic> {
    Ok(GuardRules {
        breaker: fields.get("breaker").map(breaker).transpose()?,
        concurrency: fields.get("concurrency").map(many).transpose()?,
        rate: fields.get("rate").map(pace).transpose()?,
        retry_budget: fields.get("retry_budget").map(budget::read).transpose()?,
        error_budget: fields.get("error_budget").map(error_budget).transpose()?,
    })
}

fn breaker(node: &Node) -> Result<Breaker, Diagnostic> {
    let fields = node.fields(&BREAKER)?;
    let count = |key, unset| fields.get(key).map_or(Ok(unset), many);
    let failures = fields.get("failures").map(many).transpose()?;
    let rate = match fields.get("rate") {
        Some(rate) => Some(FailureRate {
            share: rate.share()?,
            window: fields.get("window").map_or(Ok(FailureRate::WINDOW), |n| n.duration(SECOND))?,
            min_calls: count("min_calls", FailureRate::MIN_CALLS)?,
        }),
        None => {
            let idle = ["window", "min_calls"].into_iter().find_map(|key| fields.get(key));
            if let Some(node) = idle {
                let error = node.place.error("this has no effect without a failure rate");
                return Err(error.help_with("add rate = 0.5, or leave it out"));
            }
            None
        }
    };
    let open = fields.get("open").map_or(Ok(Breaker::OPEN), |n| n.duration(SECOND))?;
    let probes = count("probes", NonZeroU32::MIN)?;
    Breaker::new(failures, rate, open, probes).map_err(|error| node.place.refuse(&error))
}

fn pace(node: &Node) -> Result<Pace, Diagnostic> {
    let fields = node.fields(&RATE)?;
    let help = "write rate = { calls = 10, per = \"1s\" }";
    let calls = many(fields.require("calls", help)?)?;
    let per = fields.require("per", help)?.duration(SECOND)?;
    Pace::new(calls, per).map_err(|error| node.place.refuse(&error))
}

/// Its webhook is the declarations' matter, which know the other actions.
fn error_budget(node: &Node) -> Result<ErrorBudget, Diagnostic> {
    let fields = node.fields(&ERROR_BUDGET)?;
    let target = fields.require("target", "write target = 0.99")?.share()?;
    let window = fields.get("window").map_or(Ok(ErrorBudget::WINDOW), |n| n.duration(SECOND))?;
    let min_calls = fields.get("min_calls").map_or(Ok(ErrorBudget::MIN_CALLS), many)?;
    let alerts = match fields.get("alerts") {
        Some(list) => list.items()?.iter().map(Node::millionths).collect::<Result<_, _>>()?,
        None => ErrorBudget::ALERTS.to_vec(),
    };
    ErrorBudget::new(target, window, min_calls, alerts).map_err(|error| {
        let key = match error {
            GuardError::NoErrorBudget => "target",
            GuardError::NoWindow => "window",
            _ => "alerts",
        };
        fields.get(key).unwrap_or(node).place.refuse(&error)
    })
}

/// The name of the webhook in an action's error budget.
pub(super) fn webhook(action: &Node) -> Option<&Node> {
    fn field<'n>(node: &'n Node, key: &str) -> Option<&'n Node> {
        node.entries().ok()?.iter().find(|e| e.key == key).map(|e| &e.node)
    }
    field(field(action, "error_budget")?, "webhook")
}

/// A count of at least 1.
fn many(node: &Node) -> Result<NonZeroU32, Diagnostic> {
    let n = node.count(1, u32::MAX)?;
    Ok(NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN))
}
