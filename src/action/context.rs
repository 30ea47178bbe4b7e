use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use super::{Call, Cancelled};
use crate::failure::Failure;
use crate::run::{RunId, TaskId};
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
