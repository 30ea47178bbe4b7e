//! `[services.NAME]`, and what it calls.

use std::collections::BTreeMap;

use retrial_core::dialect::tree::{Entry, Node};
use retrial_core::dialect::{Diagnostic, Diagnostics, read_guards};
use retrial_core::time::Nanos;

use super::class::{EDGE_KEYS, edge};
use super::value::{Files, SECOND, distribution, length, number, series, time as time_of};
use crate::model::{
    Cold, Edge, MOST_CALLS, MOST_PARTS, Order, Queue, RateLimit, Row, Series, Service, Slower,
};

const KEYS: [&str; 16] = [
    "workers",
    "time",
    "queue",
    "work_for_gone",
    "slower",
    "errors",
    "error_time",
    "status",
    "error_retry_after",
    "capacity",
    "rate_limit",
    "retry_after",
    "row",
    "cold",
    "calls",
    "holds_worker",
];
const QUEUE: [&str; 5] = ["order", "capacity", "full", "timeout", "lifo_over"];
const ROWS: [(&str, Row); 2] =
    [("transaction", Row::Transaction), ("read_then_write", Row::ReadThenWrite)];

/// Reads a service and the edges of its calls.
pub(super) fn read(
    entry: &Entry,
    services: &BTreeMap<String, usize>,
    files: &Files,
) -> Result<(Service, Vec<Edge>), Diagnostics> {
    let mut service = alone(entry, files)?;
    let fields = entry.node.fields(&KEYS)?;
    let mut edges = Vec::new();
    if let Some(calls) = fields.get("calls") {
        let items = calls.items()?;
        if items.len() > MOST_PARTS {
            let error = calls.place.error("there are too many calls");
            return Err(error.help_with(format!("use at most {MOST_PARTS}")).into());
        }
        for item in items {
            item.fields(&EDGE_KEYS)?;
            edges.push(edge(&entry.key, item, &EDGE_KEYS, services, files)?);
        }
    }
    service.name.clone_from(&entry.key);
    Ok((service, edges))
}

fn alone(entry: &Entry, files: &Files) -> Result<Service, Diagnostic> {
    let fields = entry.node.fields(&KEYS)?;
    let most = u32::try_from(MOST_CALLS).unwrap_or(u32::MAX);
    let workers = fields.require("workers", "write workers = 10")?.count(1, most)?;
    let time = fields.require("time", "write time = \"100ms\"")?;
    let yes = |key: &str, unset: bool| fields.get(key).map_or(Ok(unset), Node::boolean);
    let shares = |key: &str, unset: f64| {
        fields.get(key).map_or(Ok(Series::constant(unset)), |n| series(n, 1.0, files))
    };
    let status = fields.get("status").map_or(Ok(503), |n| n.count(400, 599))?;
    Ok(Service {
        name: String::new(),
        workers,
        time: distribution(time, files)?,
        queue: fields.get("queue").map_or(Ok(UNBOUNDED), queue)?,
        work_for_gone: yes("work_for_gone", true)?,
        slower: fields.get("slower").map(slower).transpose()?,
        errors: shares("errors", 0.0)?,
        error_time: fields.get("error_time").map(|n| distribution(n, files)).transpose()?,
        status: u16::try_from(status).unwrap_or(503),
        error_retry_after: fields.get("error_retry_after").map(time_of).transpose()?,
        capacity: shares("capacity", 1.0)?,
        rate_limit: rate_limit(entry)?,
        row: fields.get("row").map(|n| n.choice(&ROWS)).transpose()?,
        cold: fields.get("cold").map(cold).transpose()?,
        calls: Vec::new(),
        holds_worker: yes("holds_worker", true)?,
    })
}

const UNBOUNDED: Queue =
    Queue { order: Order::Fifo, capacity: u32::MAX, drops: false, timeout: None };

fn queue(node: &Node) -> Result<Queue, Diagnostic> {
    let fields = node.fields(&QUEUE)?;
    let over = fields.get("lifo_over").map(|n| n.count(0, u32::MAX)).transpose()?;
    let order = match fields.get("order").map(|n| (n, n.text())) {
        None | Some((_, Ok("fifo"))) => Order::Fifo,
        Some((_, Ok("lifo"))) => Order::Lifo,
        Some((node, Ok("adaptive_lifo"))) => Order::AdaptiveLifo(over.ok_or_else(|| {
            let error = node.place.error("an adaptive queue needs the length at which it turns");
            error.help_with("add lifo_over = 10")
        })?),
        Some((node, _)) => {
            return Err(node
                .place
                .error("this order is not known")
                .help_with("use \"fifo\", \"lifo\" or \"adaptive_lifo\""));
        }
    };
    if let (Some(node), Order::Fifo | Order::Lifo) = (fields.get("lifo_over"), order) {
        let error = node.place.error("this has no effect in this order");
        return Err(error.help_with("use order = \"adaptive_lifo\", or leave it out"));
    }
    let capacity = fields.get("capacity").map_or(Ok(u32::MAX), |n| n.count(0, u32::MAX))?;
    let timeout = fields.get("timeout").map(|n| n.timeout(SECOND)).transpose()?;
    let full = [("refuse", false), ("drop", true)];
    let drops = fields.get("full").map_or(Ok(false), |n| n.choice(&full))?;
    if let Some(node) = fields.get("full").filter(|_| capacity == u32::MAX) {
        let error = node.place.error("this has no effect, as the queue is never full");
        return Err(error.help_with("add capacity = 100, or leave it out"));
    }
    Ok(Queue { order, capacity, drops, timeout })
}

fn slower(node: &Node) -> Result<Slower, Diagnostic> {
    let help = "write slower = { from = 10, by = 0.05 }";
    let fields = node.fields(&["from", "by"])?;
    let from = fields.require("from", help)?.count(0, u32::MAX)?;
    let by = number(fields.require("by", help)?, 1_000.0)?;
    Ok(Slower { from, by })
}

fn rate_limit(entry: &Entry) -> Result<Option<RateLimit>, Diagnostic> {
    let fields = entry.node.fields(&KEYS)?;
    let retry_after = fields.get("retry_after").map_or(Ok(true), Node::boolean)?;
    let Some(limit) = fields.get("rate_limit") else {
        return match fields.get("retry_after") {
            Some(node) => Err(node
                .place
                .error("this has no effect without a rate limit")
                .help_with("add rate_limit = { calls = 100, per = \"1s\" }")),
            None => Ok(None),
        };
    };
    // Read as the guard of an action, which it is on the other side.
    let renamed = Entry { key: "rate".into(), place: limit.place.clone(), node: limit.clone() };
    let table = retrial_core::dialect::tree::Data::Table(vec![renamed].into());
    let as_guard = Node { place: limit.place.clone(), data: table };
    let guards = read_guards(&as_guard.fields(&["rate"])?)?;
    Ok(guards.rate.map(|pace| RateLimit { pace, retry_after }))
}

fn cold(node: &Node) -> Result<Cold, Diagnostic> {
    let help = "write cold = { factor = 5, length = \"30s\" }";
    let fields = node.fields(&["factor", "length"])?;
    let factor = number(fields.require("factor", help)?, 1_000.0)?;
    let length = length(fields.require("length", help)?, Nanos::from_secs(86_400))?;
    Ok(Cold { factor: factor.max(1.0), length })
}
