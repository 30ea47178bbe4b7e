//! `[clients.NAME]`, and what every caller has: a policy, guards and a network.

use std::collections::BTreeMap;

use retrial_core::dialect::tree::{Data, Entry, Fields, Node};
use retrial_core::dialect::{Diagnostic, Diagnostics, own_policy, read_guards};
use retrial_core::guard::GuardRules;
use retrial_core::policy::{Dialect, Policy};
use retrial_core::time::Nanos;

use super::value::{Files, SECOND, distribution, number, series, share, time};
use super::{Names, step_policy};
use crate::model::{
    Arrivals, Class, Distribution, Edge, GiveUpAction, MOST_CLIENTS, MOST_RATE, Tokens,
};

/// The keys of every caller.
pub(super) const EDGE_KEYS: [&str; 19] = [
    "to",
    "retry",
    "work_config",
    "execution",
    "retry_config",
    "preset",
    "workflow",
    "step",
    "idempotent",
    "breaker",
    "concurrency",
    "rate",
    "retry_budget",
    "error_budget",
    "guards_per",
    "held",
    "tokens",
    "latency",
    "loss",
];
const CLASS_KEYS: [&str; 5] = ["count", "arrivals", "tasks_per_client", "give_up", "deadline"];
const ARRIVALS: [&str; 4] = ["constant", "poisson", "closed", "burst"];
const TOKENS: [&str; 9] = [
    "capacity",
    "initial",
    "per_failure",
    "per_retry",
    "per_success",
    "per_first",
    "per_second",
    "threshold",
    "debt",
];
const GIVE_UPS: [(&str, GiveUpAction); 3] = [
    ("drop", GiveUpAction::Drop),
    ("dead_letter", GiveUpAction::DeadLetter),
    ("leave", GiveUpAction::Leave),
];

/// Reads a class and the edge to what it calls.
pub(super) fn read(
    entry: &Entry,
    services: &BTreeMap<String, usize>,
    files: &Files,
) -> Result<(Class, Edge), Diagnostics> {
    let keys: Vec<&str> = CLASS_KEYS.into_iter().chain(EDGE_KEYS).collect();
    let edge = edge(&entry.key, &entry.node, &keys, services, files)?;
    let class = alone(entry, &keys, files)?;
    Ok((class, edge))
}

fn alone(entry: &Entry, keys: &[&str], files: &Files) -> Result<Class, Diagnostic> {
    let fields = entry.node.fields(keys)?;
    let help = "write arrivals = { poisson = 70 }, { constant = 70 }, { closed = \"1s\" } or { burst = 100 }";
    let limit = fields.get("tasks_per_client").map(|n| n.count(1, u32::MAX)).transpose()?;
    Ok(Class {
        name: entry.key.clone(),
        count: fields.get("count").map_or(Ok(1), |n| n.count(1, MOST_CLIENTS))?,
        arrivals: arrivals(fields.require("arrivals", help)?, help, files)?,
        concurrency: limit,
        give_up: fields.get("give_up").map_or(Ok(GiveUpAction::Drop), give_up)?,
        deadline: fields.get("deadline").map(|n| n.timeout(SECOND)).transpose()?,
    })
}

fn arrivals(node: &Node, help: &str, files: &Files) -> Result<Arrivals, Diagnostic> {
    let fields = node.fields(&["constant", "poisson", "closed", "burst", "at", "ramp"])?;
    let Some((kind, value)) = fields.at_most_one(&ARRIVALS)? else {
        return Err(node.place.error("the arrivals have no kind").help_with(help));
    };
    for (key, needs) in [("at", "burst"), ("ramp", "closed")] {
        if let Some(node) = fields.get(key).filter(|_| kind != needs) {
            let error = node.place.error(format!("this has no effect without `{needs}`"));
            return Err(error.help_with("leave it out"));
        }
    }
    Ok(match kind {
        "closed" => Arrivals::Closed {
            think: distribution(value, files)?,
            ramp: fields.get("ramp").map_or(Ok(Nanos::ZERO), time)?,
        },
        "burst" => Arrivals::Burst {
            tasks: value.count(1, MOST_CLIENTS)?,
            at: fields.get("at").map_or(Ok(Nanos::ZERO), time)?,
        },
        kind => {
            Arrivals::Open { rate: series(value, MOST_RATE, files)?, poisson: kind == "poisson" }
        }
    })
}

fn give_up(node: &Node) -> Result<GiveUpAction, Diagnostic> {
    if let Data::Table(_) = node.data {
        let fields = node.fields(&["again", "share"])?;
        let wait = time(fields.require("again", "write give_up = { again = \"10s\" }")?)?;
        let share = fields.get("share").map_or(Ok(1.0), share)?;
        return Ok(GiveUpAction::Again { wait, millionths: (share * 1e6).round() as u32 });
    }
    node.choice(&GIVE_UPS)
        .map_err(|e| e.help_with("use \"drop\", \"dead_letter\", \"leave\" or { again = \"10s\" }"))
}

/// Reads what a caller at `from` has in `node`.
pub(super) fn edge(
    from: &str,
    node: &Node,
    keys: &[&str],
    services: &BTreeMap<String, usize>,
    files: &Files,
) -> Result<Edge, Diagnostics> {
    let fields = node.fields(keys)?;
    let (policy, guards) = policy(&fields, files)?;
    let to = fields.require("to", "name a service: to = \"api\"")?;
    let mut edge = bare(&fields, Names::find(services, to)?, files)?;
    let own = read_guards(&fields)?;
    edge.name = format!("{from} -> {}", to.text()?);
    edge.guards = joined(own, guards);
    // A policy's own budget comes first, as in the engine.
    edge.guards.retry_budget = policy.budget().copied().or(edge.guards.retry_budget);
    edge.policy = policy;
    Ok(edge)
}

fn joined(own: GuardRules, others: GuardRules) -> GuardRules {
    GuardRules {
        breaker: own.breaker.or(others.breaker),
        concurrency: own.concurrency.or(others.concurrency),
        rate: own.rate.or(others.rate),
        retry_budget: own.retry_budget.or(others.retry_budget),
        // It holds nothing back.
        error_budget: None,
    }
}

/// The policy in any dialect, or that of a step of a workflow file, with the guards of its action.
/// Without either nothing is retried.
fn policy(fields: &Fields<'_>, files: &Files) -> Result<(Policy, GuardRules), Diagnostics> {
    let own = own_policy(fields)?;
    let Some(workflow) = fields.get("workflow") else {
        if let Some(step) = fields.get("step") {
            let error = step.place.error("a step needs its workflow");
            return Err(error.help_with("add workflow = \"file.toml\"").into());
        }
        return Ok((own.unwrap_or(Policy::no_retries(Dialect::Builder)), GuardRules::default()));
    };
    if own.is_some() {
        let error = workflow.place.error("`workflow` is given beside a policy");
        return Err(error.help_with("keep one of them").into());
    }
    let text = files.text(workflow)?;
    let step = fields.get("step").map(Node::name).transpose()?;
    let place = fields.get("step").unwrap_or(workflow).place.clone();
    step_policy(workflow.name()?, &text, step, Some(&place))
}

fn bare(fields: &Fields<'_>, to: usize, files: &Files) -> Result<Edge, Diagnostic> {
    let latency = fields.get("latency").map(|n| distribution(n, files)).transpose()?;
    let yes = |key: &str, unset| fields.get(key).map_or(Ok(unset), Node::boolean);
    let per = [("class", false), ("client", true)];
    let held = [("wait", false), ("fail", true)];
    Ok(Edge {
        name: String::new(),
        to,
        policy: Policy::no_retries(Dialect::Builder),
        idempotent: yes("idempotent", true)?,
        guards: GuardRules::default(),
        per_client: fields.get("guards_per").map_or(Ok(false), |n| n.choice(&per))?,
        fail_held: fields.get("held").map_or(Ok(false), |n| n.choice(&held))?,
        tokens: fields.get("tokens").map(tokens).transpose()?,
        latency: latency.unwrap_or(Distribution::ZERO),
        loss: fields.get("loss").map_or(Ok(0.0), share)?,
    })
}

fn tokens(node: &Node) -> Result<Tokens, Diagnostic> {
    let fields = node.fields(&TOKENS)?;
    let count = |key: &str| -> Result<Option<u64>, Diagnostic> {
        let millionths = |n: f64| (n * 1e6).round() as u64;
        fields.get(key).map(|n| number(n, 1e9).map(millionths)).transpose()
    };
    let capacity = fields.require("capacity", "write capacity = 10")?;
    let capacity = (number(capacity, 1e9)? * 1e6).round() as u64;
    let tokens = Tokens {
        capacity,
        initial: count("initial")?.unwrap_or(capacity),
        per_failure: count("per_failure")?.unwrap_or(0),
        per_retry: count("per_retry")?.unwrap_or(0),
        per_success: count("per_success")?.unwrap_or(0),
        per_first: count("per_first")?.unwrap_or(0),
        per_second: count("per_second")?.unwrap_or(0),
        threshold: count("threshold")?,
        debt: count("debt")?.unwrap_or(0),
    };
    if tokens.per_failure == 0 && tokens.per_retry == 0 {
        let error = node.place.error("nothing takes tokens, so they limit nothing");
        return Err(error.help_with("add per_retry = 1 or per_failure = 1"));
    }
    if let Some(node) = fields.get("debt").filter(|_| tokens.per_failure == 0) {
        let error = node.place.error("this has no effect, as failures take no tokens");
        return Err(error.help_with("add per_failure = 1, or leave it out"));
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use retrial_core::dialect::{GUARD_KEYS, POLICY_KEYS};

    use super::*;

    #[test]
    fn the_keys_of_policies_and_guards_are_all_known() {
        for key in POLICY_KEYS.into_iter().chain(GUARD_KEYS) {
            assert!(EDGE_KEYS.contains(&key), "{key}");
        }
    }
}
