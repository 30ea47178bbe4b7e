use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The progress that a task's attempts reported. It lives in the task's queue row alone:
/// it outlives the lease, and goes with the row. Of two the one with the larger number is newer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Counted up over all attempts of the task, from 1.
    pub number: u64,
    /// What was given with a heartbeat last, as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<Arc<str>>,
    /// Whether the action's preconditions have held.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub checked: bool,
}
