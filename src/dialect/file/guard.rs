//! The guards of an action, in its `[actions.NAME]`.
//!
//! ```toml
//! breaker = { failures = 5, rate = 0.5, window = "30s", min_calls = 10, open = "30s", probes = 2 }
//! concurrency = 4
//! rate = { calls = 10, per = "1s" }
//! retry_budget = 0.1
//! ```

use std::num::NonZeroU32;

use crate::dialect::tree::{Fields, Node};
use crate::dialect::{Diagnostic, budget};
use crate::guard::{Breaker, FailureRate, GuardRules, Pace};
use crate::policy::{Budget, Share};

const SECOND: u64 = 1_000_000_000;
const BREAKER: [&str; 6] = ["failures", "rate", "window", "min_calls", "open", "probes"];
const RATE: [&str; 2] = ["calls", "per"];

/// Reads the guards among an action's fields.
pub(super) fn read(fields: &Fields<'_>) -> Result<GuardRules, Diagnostic> {
    Ok(GuardRules {
        breaker: fields.get("breaker").map(breaker).transpose()?,
        concurrency: fields.get("concurrency").map(many).transpose()?,
        rate: fields.get("rate").map(pace).transpose()?,
        retry_budget: fields.get("retry_budget").map(retry_budget).transpose()?,
    })
}

fn breaker(node: &Node) -> Result<Breaker, Diagnostic> {
    let fields = node.fields(&BREAKER)?;
    let count = |key, unset| fields.get(key).map_or(Ok(unset), many);
    let failures = fields.get("failures").map(many).transpose()?;
    let rate = match fields.get("rate") {
        Some(rate) => Some(FailureRate {
            share: share(rate)?,
            window: fields.get("window").map_or(Ok(FailureRate::WINDOW), |n| n.duration(SECOND))?,
            min_calls: count("min_calls", FailureRate::MIN_CALLS)?,
        }),
        None => {
            let idle = ["window", "min_calls"].into_iter().find_map(|key| fields.get(key));
            if let Some(node) = idle {
                let error = node.place.error("this is about a failure rate, and none is set");
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

fn retry_budget(node: &Node) -> Result<Budget, Diagnostic> {
    let budget = budget::read(node)?;
    budget.check().map_err(|error| node.place.refuse(&error))?;
    Ok(budget)
}

/// A count of at least 1.
fn many(node: &Node) -> Result<NonZeroU32, Diagnostic> {
    let n = node.count(1, u32::MAX)?;
    Ok(NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN))
}

fn share(node: &Node) -> Result<Share, Diagnostic> {
    let share = u32::try_from(node.millionths()?).ok().map(Share::from_millionths);
    let error = || node.place.error("a share is from 0 to 1").help_with("write 0.5 for a half");
    share.and_then(Result::ok).ok_or_else(error)
}
