use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use super::{Call, Cancelled, Reports};
use crate::failure::Failure;
use crate::run::{Cost, RunId, TaskId};
use crate::time::Nanos;

/// One attempt, as a registered function sees it (W15).
#[derive(Clone, Debug)]
pub struct Context(Call);

impl Context {
    pub(super) fn new(call: Call) -> Self {
        Self(call)
    }

    /// The arguments as a type of the action's own.
    ///
    /// # Errors
    /// `BAD_ARGUMENTS`, permanent, where they do not fit: they are the same on every attempt.
    pub fn args<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        T::deserialize(&self.0.args).map_err(|error| {
            let message = format!("arguments of `{}`: {}", self.0.name, without_values(&error));
            Failure::new("BAD_ARGUMENTS", &message).with_lineage(["ArgumentError", "ValueError"])
        })
    }

    /// The arguments as they came.
    #[must_use]
    pub fn raw_args(&self) -> &Value {
        &self.0.args
    }

    /// The run.
    #[must_use]
    pub fn run(&self) -> RunId {
        self.0.run
    }

    /// The task.
    #[must_use]
    pub fn task(&self) -> TaskId {
        self.0.task
    }

    /// The step's id.
    #[must_use]
    pub fn step(&self) -> &str {
        &self.0.step
    }

    /// The attempt, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.0.attempt
    }

    /// Retries left after this attempt; `None` when unlimited.
    #[must_use]
    pub fn retries_left(&self) -> Option<u32> {
        self.0.retries_left
    }

    /// The time this attempt may take; `None` when unlimited.
    #[must_use]
    pub fn timeout(&self) -> Option<Nanos> {
        self.0.timeout
    }

    /// Says that the attempt goes on, and how far it has come (X1). Cheap: the node brings the newest
    /// progress to the store now and then, and with the attempt's failure. It reaches the next
    /// attempt, on whichever node, through [`Context::progress`].
    ///
    /// # Errors
    /// `BAD_PROGRESS` or `PROGRESS_TOO_LARGE`, both permanent, where `progress` can't be written as
    /// JSON or is larger than [`Reports::MAX_PROGRESS`]. No heartbeat was given then.
    pub fn heartbeat(&self, progress: impl Serialize) -> Result<(), Failure> {
        let json = serde_json::to_string(&progress).map_err(|error| {
            let message =
                format!("the progress of `{}` can't be written as JSON: {error}", self.0.name);
            Failure::new("BAD_PROGRESS", &message).with_lineage(["BadProgressError", "ValueError"])
        })?;
        if json.len() > Reports::MAX_PROGRESS {
            let most = Reports::MAX_PROGRESS / 1024;
            let message =
                format!("the progress of `{}` is larger than {most} KiB of JSON", self.0.name);
            return Err(Failure::new("PROGRESS_TOO_LARGE", &message)
                .with_lineage(["ProgressTooLargeError", "ValueError"]));
        }
        self.0.reports.beat(Some(Arc::from(json)));
        Ok(())
    }

    /// Adds to what this attempt costs, in millionths of whatever the action counts in (H17). It is
    /// recorded with the attempt's outcome, well or ill, and summed for the task and the run. An
    /// attempt whose node is lost takes along what it said.
    pub fn report_cost(&self, millionths: u64) {
        self.0.reports.spend(Cost::from_millionths(millionths));
    }

    pub(super) fn reports(&self) -> &Reports {
        &self.0.reports
    }

    /// Says that the attempt goes on; the progress given before stands (X1).
    pub fn beat(&self) {
        self.0.reports.beat(None);
    }

    /// The longest that this attempt may go on without a heartbeat; `None` when it need not give
    /// any.
    #[must_use]
    pub fn heartbeat_timeout(&self) -> Option<Nanos> {
        self.0.heartbeat_timeout
    }

    /// The newest progress that earlier attempts gave with a heartbeat (X1), as a type of the
    /// action's own; `None` where there is none.
    ///
    /// # Errors
    /// `BAD_PROGRESS`, permanent, where it does not fit.
    pub fn progress<T: DeserializeOwned>(&self) -> Result<Option<T>, Failure> {
        let read = self.0.progress.as_ref().map(T::deserialize).transpose();
        read.map_err(|error| {
            let message = format!("progress of `{}`: {}", self.0.name, without_values(&error));
            Failure::new("BAD_PROGRESS", &message).with_lineage(["BadProgressError", "ValueError"])
        })
    }

    /// The task's idempotency key, the same on every attempt (A14).
    #[must_use]
    pub fn receipt_token(&self) -> Uuid {
        self.0.receipt
    }

    /// Fires when the attempt is called off (C4).
    #[must_use]
    pub fn cancelled(&self) -> &Cancelled {
        &self.0.cancelled
    }
}

/// What was expected. What serde found instead may be a secret that has no shape to tell it by.
fn without_values(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(", expected ") {
        Some((_, expected)) => format!("expected {expected}"),
        None => text,
    }
}
