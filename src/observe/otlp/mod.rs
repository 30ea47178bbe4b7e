//! Runs as traces, sent to an OpenTelemetry collector (OTLP over HTTP, protobuf).
//!
//! Decides which events are spans, and how long spans wait to be sent. Must never delay a run: spans
//! that the collector does not accept in time are dropped and counted. Must never show a secret:
//! texts in spans pass the sanitiser. To show another event, add its arm to `Spans::of`.
//!
//! A run is one trace, whichever nodes execute it: ids derive from the run's id, so a node that
//! takes over a run continues its trace. The node that commits an event sends its span; if the node
//! crashes first, the span is missing.

mod http_client;
mod spans;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use opentelemetry::KeyValue;
use opentelemetry_otlp::{ExporterBuildError, RetryPolicy, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use tokio::sync::mpsc;

use self::http_client::NetworkClient;
use self::spans::Spans;
use super::{Notice, Observer};
use crate::net::{Connect, Url, UrlError};
use crate::runtime::Runtime;
use crate::time::Nanos;

/// The most spans that wait to be sent.
const WAITING: usize = 16_384;
/// The most spans of one request.
const BATCH: usize = 512;
/// How long a span waits to be sent in a batch.
const GATHER: Nanos = Nanos::from_secs(1);
/// The most that one request may take.
const REQUEST: Nanos = Nanos::from_secs(10);
/// The delays between attempts to send a batch. After the last attempt it is dropped.
const RETRY_DELAYS: [Nanos; 4] =
    [Nanos::from_secs(1), Nanos::from_secs(2), Nanos::from_secs(4), Nanos::from_secs(8)];

/// Why traces can't be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OtlpError {
    /// The collector's address is invalid.
    #[error("the collector's address is invalid: {0}")]
    Url(#[from] UrlError),
    /// An environment variable (`OTEL_EXPORTER_OTLP_...`) is invalid.
    #[error("{0}")]
    Exporter(#[from] ExporterBuildError),
}

/// An observer and its exporter: give the first to the engine and spawn [`Export::run`] of the
/// second.
///
/// `collector` is the base address, such as `http://127.0.0.1:4318`; `/v1/traces` is added. `node`
/// names this process (`service.instance.id`). Headers, such as the collector's key, and resource
/// attributes come from the standard variables: `OTEL_EXPORTER_OTLP_HEADERS`,
/// `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_SERVICE_NAME`.
///
/// # Errors
/// [`OtlpError`] if the address or one of the variables is invalid.
pub fn traces(
    collector: &str,
    node: &str,
    network: impl Connect,
) -> Result<(Traces, Export), OtlpError> {
    let collector = collector.trim_end_matches('/');
    let _: Url = collector.parse()?;
    let mut exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_endpoint(format!("{collector}/v1/traces"))
        .with_http_client(NetworkClient::new(network))
        // Its retries would block the thread.
        .with_retry_policy(RetryPolicy::disabled())
        .build()?;
    exporter.set_resource(&resource(node));
    let (spans, waiting) = mpsc::channel(WAITING);
    let dropped = Arc::new(AtomicU64::new(0));
    let traces = Traces { spans, dropped: Arc::clone(&dropped), of: Spans::default() };
    Ok((traces, Export { exporter, waiting, dropped, failing: false }))
}

fn resource(node: &str) -> Resource {
    let mut builder = Resource::builder().with_attributes([
        KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
        KeyValue::new("service.instance.id", node.to_owned()),
    ]);
    let unnamed = Resource::builder().build();
    let named = unnamed.iter().any(|(key, value)| {
        key.as_str() == "service.name" && !value.as_str().starts_with("unknown_service")
    });
    if !named {
        builder = builder.with_service_name("retrial");
    }
    builder.build()
}

/// The observer.
#[derive(Debug)]
pub struct Traces {
    spans: mpsc::Sender<SpanData>,
    dropped: Arc<AtomicU64>,
    of: Spans,
}

impl Traces {
    /// Spans that were dropped since the last log line about dropped spans.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Observer for Traces {
    fn tell(&self, notice: &Notice<'_>) {
        if let Some(span) = self.of.of(notice)
            && self.spans.try_send(span).is_err()
        {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Sends the spans of its [`Traces`].
#[must_use = "nothing is sent before `run`"]
#[derive(Debug)]
pub struct Export {
    exporter: opentelemetry_otlp::SpanExporter,
    waiting: mpsc::Receiver<SpanData>,
    dropped: Arc<AtomicU64>,
    /// The last export failed, which was logged.
    failing: bool,
}

impl Export {
    /// Sends spans until the observer is dropped and every span was sent or dropped.
    pub async fn run(mut self, runtime: impl Runtime) {
        loop {
            let batch = self.gather(&runtime).await;
            if batch.is_empty() {
                return;
            }
            self.send(&runtime, batch).await;
            let dropped = self.dropped.swap(0, Ordering::Relaxed);
            if dropped > 0 {
                tracing::warn!(
                    dropped,
                    "spans were dropped because the collector is slower than the runs"
                );
            }
        }
    }

    /// The next batch; empty if no more spans will come.
    async fn gather(&mut self, runtime: &impl Runtime) -> Vec<SpanData> {
        let mut batch = Vec::new();
        if self.waiting.recv_many(&mut batch, BATCH).await == 0 {
            return batch;
        }
        let until = runtime.now().after(GATHER);
        while batch.len() < BATCH {
            let room = BATCH - batch.len();
            tokio::select! {
                biased;
                more = self.waiting.recv_many(&mut batch, room) => if more == 0 { break },
                () = runtime.sleep_until(until) => break,
            }
        }
        batch
    }

    async fn send(&mut self, runtime: &impl Runtime, batch: Vec<SpanData>) {
        let spans = batch.len();
        let mut again = RETRY_DELAYS.into_iter();
        loop {
            let request = runtime.now().after(REQUEST);
            let error = tokio::select! {
                biased;
                sent = self.exporter.export(batch.clone()) => match sent {
                    Ok(()) => {
                        self.failing = false;
                        return;
                    }
                    Err(error) => error.to_string(),
                },
                () = runtime.sleep_until(request) => "the collector did not answer in time".to_owned(),
            };
            if !std::mem::replace(&mut self.failing, true) {
                tracing::warn!(
                    error = crate::failure::sanitise::clean(&error),
                    "the collector does not accept spans; trying again"
                );
            }
            let Some(wait) = again.next() else {
                self.dropped.fetch_add(spans as u64, Ordering::Relaxed);
                return;
            };
            runtime.sleep_until(runtime.now().after(wait)).await;
        }
    }
}
