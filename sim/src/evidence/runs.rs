//! A run, as asked for and as read back.

use std::sync::Arc;

use retrial::run::{LetterId, Recorded, RunId, Version};
use retrial::store::{QueueRow, ResultRow, Snapshot};
use retrial::time::Mono;
use retrial::workflow::Workflow;
use serde_json::{Map, Value};

use crate::scenario::WorkflowText;

/// One run, as asked for and as read back from the store at the end.
#[derive(Clone, Debug)]
pub struct RunEvidence {
    /// Its id.
    pub id: RunId,
    /// Where its chance comes from, as the first event says.
    pub seed: u64,
    /// The definition that was submitted.
    pub workflow: Arc<Workflow>,
    /// The text that it was read from; `None` where no user asked for the run.
    pub text: Option<Arc<WorkflowText>>,
    /// The input that was submitted; `None` where no user asked for the run.
    pub input: Option<Map<String, Value>>,
    /// The key that it was submitted with.
    pub key: Option<String>,
    /// True time of the first request.
    pub submitted_at: Mono,
    /// The run that the answer to its submission named.
    pub answer: Option<RunId>,
    /// Whether the request was answered with this run's id.
    pub acknowledged: bool,
    /// Why it was refused, where that is because of what was asked.
    pub refused: Option<String>,
    /// True times of requests to cancel it.
    pub cancels: Vec<Mono>,
    /// True times of requests to roll it back.
    pub rollbacks: Vec<Mono>,
    /// True time at which a request of one of these kinds was first answered well.
    pub called_off: Option<Mono>,
    /// Whether it was deactivated and not activated again.
    pub left_alone: bool,
    /// When its retries were paused: from the answer until the request to resume.
    pub pauses: Vec<(Mono, Mono)>,
    /// Whether somebody asked to release what is held of it in quarantine.
    pub release_asked: bool,
    /// The dead letter that it redrives, by the store's word.
    pub redrives: Option<LetterId>,
    /// Whether it delivers an alert to a webhook: no user asked for it.
    pub is_webhook: bool,
    /// The number of the first event that is kept; above zero when older ones were trimmed.
    pub first: Version,
    /// The events kept, in order.
    pub events: Vec<Recorded>,
    /// The version by the store's own count.
    pub version: Version,
    /// The results table.
    pub results: Vec<ResultRow>,
    /// The queue's rows.
    pub queue: Vec<QueueRow>,
    /// Snapshots, as they were stored over time.
    pub snapshots: Vec<Snapshot>,
    /// Encoded states held in nodes' memory at the end.
    pub live: Vec<Snapshot>,
    /// Whether the store reported stored bytes of it as damaged.
    pub damaged: bool,
}

impl RunEvidence {
    /// A run that was asked for at `submitted_at` and left nothing yet.
    #[must_use]
    pub fn new(id: RunId, seed: u64, workflow: Arc<Workflow>, submitted_at: Mono) -> Self {
        Self {
            id,
            seed,
            workflow,
            text: None,
            input: None,
            key: None,
            submitted_at,
            answer: None,
            acknowledged: false,
            refused: None,
            cancels: Vec::new(),
            rollbacks: Vec::new(),
            called_off: None,
            left_alone: false,
            pauses: Vec::new(),
            release_asked: false,
            redrives: None,
            is_webhook: false,
            first: Version::START,
            events: Vec::new(),
            version: Version::START,
            results: Vec::new(),
            queue: Vec::new(),
            snapshots: Vec::new(),
            live: Vec::new(),
            damaged: false,
        }
    }
}
