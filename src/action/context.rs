use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

use super::context_runtime::Network;
use super::{Call, Cancelled, Reports};
use crate::failure::Failure;
use crate::net::{Authority, BoxStream, UrlError};
use crate::run::{Cost, RunId, TaskId};
use crate::time::{Mono, Nanos, Timestamp};

/// One attempt, as a registered function sees it (W15), and the world around it: clocks, timers,
/// chance and network. A function that takes all of these from here runs unchanged in a simulated
/// world. Clones are the same attempt.
#[derive(Clone, Debug)]
pub struct Context(pub(super) Call, pub(super) Network);

impl Context {
    pub(super) fn new(call: Call, network: Network) -> Self {
        Self(call, network)
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

    /// The node's monotonic clock. It may drift; it never jumps.
    #[must_use]
    pub fn now(&self) -> Mono {
        self.0.context_runtime.now()
    }

    /// The node's wall clock. It may be wrong and may jump.
    #[must_use]
    pub fn wall(&self) -> Timestamp {
        self.0.context_runtime.wall()
    }

    /// 64 bits of chance, not fit for secrets.
    #[must_use]
    pub fn random(&self) -> u64 {
        self.0.context_runtime.random()
    }

    /// Waits for `length`.
    pub async fn sleep(&self, length: Nanos) {
        self.0.context_runtime.sleep_until(self.now().after(length)).await;
    }

    /// Waits until [`Context::now`] has reached `at`.
    pub async fn sleep_until(&self, at: Mono) {
        self.0.context_runtime.sleep_until(at).await;
    }

    /// What `work` gives, where it ends within `limit`; else it is dropped.
    ///
    /// # Errors
    /// `TIMEOUT`, retryable; what had been done of `work` is unknown.
    pub async fn within<T>(
        &self,
        limit: Nanos,
        work: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.sleep(limit) => Err(Failure::timeout(limit)),
        }
    }

    /// Opens a stream of bytes to `host:port`, or to the host of an `http` or `https` URL, where
    /// TLS is already agreed on.
    ///
    /// # Errors
    /// `BAD_ADDRESS`, permanent, for an address that makes no sense; else as the network failed:
    /// `NETWORK_ERROR` or `TIMEOUT`, retryable, or `NO_TLS`, permanent.
    pub async fn connect(&self, to: &str) -> Result<BoxStream, Failure> {
        let to: Authority = to.parse().map_err(|error: UrlError| {
            Failure::new("BAD_ADDRESS", &format!("an address can't be read: {error}"))
                .with_lineage(["BadAddressError", "ValueError"])
        })?;
        Ok(self.1.connect(&to).await?)
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
