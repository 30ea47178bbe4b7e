//! The cost that is recorded of an attempt over HTTP is what its answer named, whatever its status (H17).

use std::collections::BTreeMap;

use retrial::run::Event;

use super::Report;
use super::attempt_records::AttemptRecords;
use super::functions::{COST, COST_MISCOUNTED};
use super::history::{TaskHistory, entries};

/// The failures of attempts that may have had no answer, or not all of it.
const UNANSWERED: [&str; 4] = ["NETWORK_ERROR", "TIMEOUT", "HEARTBEAT_TIMEOUT", "LEASE_LOST"];

pub(super) fn judge(report: &mut Report, ledger: &AttemptRecords<'_>, task: &TaskHistory<'_>) {
    let reported = entries(task.run).filter_map(|e| match e.event {
        Event::CostReported { task: of, attempt, cost } if *of == task.task => {
            Some((*attempt, cost.millionths()))
        }
        _ => None,
    });
    let reported: BTreeMap<u32, u64> = reported.collect();
    for entry in &task.entries {
        let (attempt, is_answered) = match entry.event {
            Event::TaskSucceeded { attempt, .. } => (*attempt, true),
            Event::AttemptFailed { attempt, failure, .. } => {
                (*attempt, !UNANSWERED.contains(&failure.code().as_str()))
            }
            _ => continue,
        };
        let arrivals = ledger.arrivals(task.run.id, task.task, attempt);
        let mut named = arrivals.iter().map(|a| a.cost.unwrap_or(0));
        let right = match reported.get(&attempt) {
            Some(cost) => named.any(|named| named == *cost),
            None => !is_answered || arrivals.is_empty() || named.any(|cost| cost == 0),
        };
        report.check(right, task.run.id, COST_MISCOUNTED, || {
            let named: Vec<_> = arrivals.iter().map(|a| a.cost).collect();
            let found = reported.get(&attempt);
            format!("its answers named {named:?} millionths, not {found:?}: {}", entry.show())
        });
        if reported.contains_key(&attempt) {
            report.met(COST);
        }
    }
}
