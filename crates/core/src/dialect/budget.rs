//! `retry_budget`: a share of first attempts such as `0.1`, or a table whose absent fields are those
//! of that share's budget.
//!
//! ```toml
//! retry_budget = { ratio = 0.1, initial = 10, capacity = 10, cost = 1, throttling_cost = 1, first_success = 0, refund = false, scope = "action", on_denied = "fail" }
//! ```

use super::Diagnostic;
use super::number::millionths;
use super::tree::{Data, Fields, Node};
use crate::policy::{Budget, BudgetScope, Denied, Share};

const KEYS: [&str; 9] = [
    "ratio",
    "initial",
    "capacity",
    "cost",
    "throttling_cost",
    "first_success",
    "refund",
    "scope",
    "on_denied",
];

const SCOPES: [(&str, BudgetScope); 2] =
    [("action", BudgetScope::Action), ("group", BudgetScope::Group)];
const DENIED: [(&str, Denied); 2] = [("fail", Denied::Fail), ("wait", Denied::Wait)];

/// Reads a budget. The ratio is a tenth unless the table says it or another refill; `initial` and
/// `capacity` are each other's default.
pub(super) fn read(node: &Node) -> Result<Budget, Diagnostic> {
    if let Data::Number(_) = node.data {
        let budget = Budget::of_first_attempts(node.share()?);
        return budget.check().map(|()| budget).map_err(|e| node.place.refuse(&e));
    }
    let fields = node.fields(&KEYS)?;
    let usual = Budget::of_first_attempts(ratio(&fields)?);
    let count = |key: &str, least: u32, unset: u32| {
        fields.get(key).map_or(Ok(unset), |n| n.count(least, u32::MAX))
    };
    let mut budget = usual;
    budget.initial = count("initial", 0, count("capacity", 1, usual.initial)?)?;
    budget.capacity = count("capacity", 1, budget.initial.max(1))?;
    budget.cost = count("cost", 1, usual.cost)?;
    budget.throttling_cost = count("throttling_cost", 1, budget.cost)?;
    budget.refill.first_success = count("first_success", 0, 0)?;
    budget.refill.refund = fields.get("refund").map_or(Ok(false), Node::boolean)?;
    budget.scope = fields.get("scope").map_or(Ok(usual.scope), |n| n.choice(&SCOPES))?;
    budget.on_denied =
        fields.get("on_denied").map_or(Ok(usual.on_denied), |n| n.choice(&DENIED))?;
    budget.check().map_err(|e| node.place.refuse(&e))?;
    Ok(budget)
}

fn ratio(fields: &Fields<'_>) -> Result<Share, Diagnostic> {
    let other = fields.get("first_success").or(fields.get("refund"));
    match (fields.get("ratio"), other) {
        (Some(node), _) => node.share(),
        (None, Some(_)) => Ok(Share::ZERO),
        (None, None) => Ok(Share::TENTH),
    }
}

/// The budget as a JSON object that [`read`] takes.
pub(super) fn text(budget: &Budget) -> String {
    let word = |found: Option<&str>| found.unwrap_or_default().to_owned();
    let scope = SCOPES.iter().find(|(_, s)| *s == budget.scope).map(|(name, _)| *name);
    let denied = DENIED.iter().find(|(_, d)| *d == budget.on_denied).map(|(name, _)| *name);
    format!(
        "{{\"ratio\": {}, \"initial\": {}, \"capacity\": {}, \"cost\": {}, \"throttling_cost\": {}, \"first_success\": {}, \"refund\": {}, \"scope\": {:?}, \"on_denied\": {:?}}}",
        millionths(budget.refill.ratio.millionths().into()),
        budget.initial,
        budget.capacity,
        budget.cost,
        budget.throttling_cost,
        budget.refill.first_success,
        budget.refill.refund,
        word(scope),
        word(denied),
    )
}
