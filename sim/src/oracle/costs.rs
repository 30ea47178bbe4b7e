//! The cost that is recorded of an attempt over HTTP is what its answer named, whatever its status (H17).

use retrial::run::Event;

use super::Report;
use super::attempt_records::AttemptRecords;
use super::functions::{COST, COST_MISCOUNTED};
use super::history::{TaskHistory, reported_costs};

/// The failures of attempts that may have had no answer, or not all of it.
const UNANSWERED: [&str; 4] = ["NETWORK_ERROR", "TIMEOUT", "HEARTBEAT_TIMEOUT", "LEASE_LOST"];

pub(super) fn judge(report: &mut Report, ledger: &AttemptRecords<'_>, task: &TaskHistory<'_>) {
    let costs = reported_costs(task.run, task.task);
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
        let reported = costs.get(&attempt).map(|cost| cost.millionths);
        let right = match reported {
            Some(cost) => named.any(|named| named == cost),
            None => !is_answered || arrivals.is_empty() || named.any(|cost| cost == 0),
        };
        report.check(right, task.run.id, COST_MISCOUNTED, || {
            let named: Vec<_> = arrivals.iter().map(|a| a.cost).collect();
            format!("its answers named {named:?} millionths, not {reported:?}: {}", entry.show())
        });
        if reported.is_some() {
            report.met(COST);
        }
    }
}
