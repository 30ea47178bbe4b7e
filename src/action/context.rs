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

/// The context of one attempt of a registered function: the attempt's data, and clocks, timers,
/// randomness and network. A function that uses only these runs unchanged in the simulation.
/// Clones refer to the same attempt.
#[derive(Clone, Debug)]
pub struct Context(pub(super) Call, pub(super) Network);

impl Context {
    pub(super) fn new(call: Call, network: Network) -> Self {
        Self(call, network)
    }

    /// The arguments, deserialized.
    ///
    /// # Errors
    /// `BAD_ARGUMENTS`, permanent, if they do not fit `T`: every attempt has the same arguments.
    pub fn args<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        T::deserialize(&self.0.args).map_err(|error| {
            let message = format!("arguments of `{}`: {}", self.0.name, without_values(&error));
            Failure::new("BAD_ARGUMENTS", &message).with_lineage(["ArgumentError", "ValueError"])
        })
    }

    /// The arguments as JSON.
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

    /// Sends a heartbeat with progress. This is cheap: the node stores the newest progress with each
    /// lease renewal and with the attempt's failure. The next attempt reads it through
    /// [`Context::progress`], on any node.
    ///
    /// # Errors
    /// `BAD_PROGRESS`, permanent, if `progress` can't be written as JSON; `PROGRESS_TOO_LARGE`,
    /// permanent, if it is larger than 16 KiB. Neither sends a heartbeat.
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

    /// Adds to the cost of this attempt, in millionths of the action's unit. The cost is recorded
    /// with the attempt's outcome, success or failure, and summed for the task and the run. If the
    /// node crashes, the cost of the attempt is lost.
    pub fn report_cost(&self, millionths: u64) {
        self.0.reports.spend(Cost::from_millionths(millionths));
    }

    pub(super) fn reports(&self) -> &Reports {
        &self.0.reports
    }

    /// Sends a heartbeat and keeps the progress.
    pub fn beat(&self) {
        self.0.reports.beat(None);
    }

    /// The longest time between heartbeats; `None` if the attempt need not send any.
    #[must_use]
    pub fn heartbeat_timeout(&self) -> Option<Nanos> {
        self.0.heartbeat_timeout
    }

    /// The newest progress of earlier attempts, deserialized; `None` if there is none.
    ///
    /// # Errors
    /// `BAD_PROGRESS`, permanent, if it does not fit `T`.
    pub fn progress<T: DeserializeOwned>(&self) -> Result<Option<T>, Failure> {
        let read = self.0.progress.as_ref().map(T::deserialize).transpose();
        read.map_err(|error| {
            let message = format!("progress of `{}`: {}", self.0.name, without_values(&error));
            Failure::new("BAD_PROGRESS", &message).with_lineage(["BadProgressError", "ValueError"])
        })
    }

    /// The task's idempotency key, the same on every attempt.
    #[must_use]
    pub fn receipt_token(&self) -> Uuid {
        self.0.receipt()
    }

    /// Fires when the attempt is cancelled.
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

    /// 64 random bits, not fit for secrets.
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

    /// The output of `work` if it completes within `limit`; otherwise `work` is dropped.
    ///
    /// # Errors
    /// `TIMEOUT`, retryable, if it does not. How far `work` came is unknown.
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

    /// Opens a byte stream to `host:port` or to the host of an `http` or `https` URL. For `https` the
    /// TLS handshake is done.
    ///
    /// # Errors
    /// `BAD_ADDRESS`, permanent, for an invalid address; `NETWORK_ERROR` or `TIMEOUT`, retryable, if
    /// the network fails; `NO_TLS`, permanent, for `https` in a build without TLS.
    pub async fn connect(&self, to: &str) -> Result<BoxStream, Failure> {
        let to: Authority = to.parse().map_err(|error: UrlError| {
            Failure::new("BAD_ADDRESS", &format!("an address can't be read: {error}"))
                .with_lineage(["BadAddressError", "ValueError"])
        })?;
        Ok(self.1.connect(&to).await?)
    }
}

/// Serde's message without the value that it found, which may be a secret.
fn without_values(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(", expected ") {
        Some((_, expected)) => format!("expected {expected}"),
        None => text,
    }
}
