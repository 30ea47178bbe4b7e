//! Which arrival belongs to which attempt, by receipt token and `X-Retry-Attempt`; and the acts of
//! registered functions in each, and when its action returned.

use std::collections::BTreeMap;

use retrial::run::{RunId, TaskId};

use crate::evidence::{Arrival, Evidence, FunctionRecord, RunEvidence};

/// The records of endpoints and functions, by task and attempt.
pub(super) struct AttemptRecords<'e> {
    by_attempt: BTreeMap<(String, u32), Vec<&'e Arrival>>,
    function_records: BTreeMap<(RunId, TaskId, u32), Vec<&'e FunctionRecord>>,
}

impl<'e> AttemptRecords<'e> {
    pub(super) fn of(evidence: &'e Evidence) -> Self {
        let mut by_attempt: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for arrival in &evidence.ledger {
            if let (Some(token), Some(n)) = (&arrival.receipt_token, arrival.retry_attempt) {
                let attempt = n.saturating_add(1);
                by_attempt.entry((token.clone(), attempt)).or_default().push(arrival);
            }
        }
        let mut function_records: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for work in &evidence.function_records {
            function_records.entry((work.run, work.task, work.attempt)).or_default().push(work);
        }
        Self { by_attempt, function_records }
    }

    /// The acts of the registered function in `attempt` of `task`, in order.
    pub(super) fn function_records(
        &self,
        run: RunId,
        task: TaskId,
        attempt: u32,
    ) -> &[&'e FunctionRecord] {
        self.function_records.get(&(run, task, attempt)).map_or(&[], Vec::as_slice)
    }

    /// The arrivals for `attempt` of `task`.
    pub(super) fn arrivals(&self, run: RunId, task: TaskId, attempt: u32) -> &[&'e Arrival] {
        let token = task.receipt(run).to_string();
        self.by_attempt.get(&(token, attempt)).map_or(&[], Vec::as_slice)
    }

    /// The highest attempt of `task` that arrived.
    pub(super) fn last_attempt(&self, run: RunId, task: TaskId) -> Option<u32> {
        let token = task.receipt(run).to_string();
        let mut found = self.by_attempt.range((token.clone(), 0)..=(token, u32::MAX));
        found.next_back().map(|((_, attempt), _)| *attempt)
    }
}

/// Every task that any known run could have, by its receipt token.
pub(super) fn receipts(evidence: &Evidence) -> BTreeMap<String, (&RunEvidence, TaskId)> {
    let tasks = |run: &RunEvidence| -> Vec<TaskId> {
        super::history::entries(run).filter_map(|e| e.event.task()).collect()
    };
    let all = evidence.runs.iter().flat_map(|r| tasks(r).into_iter().map(move |t| (r, t)));
    all.map(|(run, task)| (task.receipt(run.id).to_string(), (run, task))).collect()
}
