//! The observer of a service's node: metrics, counts by action, and a signal for new events.

use std::sync::Arc;

use metrics::{
    SetRecorderError, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram, set_global_recorder, with_local_recorder,
};
use metrics_exporter_prometheus::{
    BuildError, Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};
use tokio::sync::Notify;

use super::actions::{Rates, counted_for};
use super::recent::Recent;
use retrial::observe::metrics::Metrics;
use retrial::observe::{Notice, Observer};
use retrial::time::Nanos;

const REQUESTS: &str = "retrial_http_requests_total";
const DURATION: &str = "retrial_http_request_duration_seconds";
/// Requests without an answer yet.
pub(super) const IN_FLIGHT: &str = "retrial_http_requests_in_flight";
/// Event streams that are open.
pub(super) const STREAMS: &str = "retrial_http_streams_open";

/// Upper ends of buckets of seconds.
const SECONDS: [f64; 16] = [
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
    3_600.0,
];
/// Upper ends of buckets of attempts.
const ATTEMPTS: [f64; 9] = [1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 20.0, 50.0];

/// The observer that a service's node needs: give it to the engine, then to the service.
pub struct Monitor {
    recorder: Arc<PrometheusRecorder>,
    handle: PrometheusHandle,
    metrics: Metrics,
    pub(super) rates: Rates,
    pub(super) recent: Recent,
    /// Notified of every event on this node.
    pub(super) news: Notify,
}

impl Monitor {
    /// A monitor with its own Prometheus recorder.
    ///
    /// # Errors
    /// [`BuildError`] if the recorder refuses its buckets. They are fixed, so it does not.
    pub fn new() -> Result<Arc<Self>, BuildError> {
        let of_attempts = Matcher::Full("retrial_task_attempts".to_owned());
        let recorder = PrometheusBuilder::new()
            .set_buckets(&SECONDS)?
            .set_buckets_for_metric(of_attempts, &ATTEMPTS)?
            .build_recorder();
        let handle = recorder.handle();
        let recorder = Arc::new(recorder);
        let metrics = with_local_recorder(&recorder, || {
            describe_histogram!(DURATION, Unit::Seconds, "How long answers took to begin");
            describe_counter!(REQUESTS, Unit::Count, "Requests that were answered");
            describe_gauge!(IN_FLIGHT, Unit::Count, "Requests that are not answered yet");
            describe_gauge!(STREAMS, Unit::Count, "Event streams that are open");
            Metrics::new()
        });
        Ok(Arc::new(Self {
            recorder,
            handle,
            metrics,
            rates: Rates::default(),
            recent: Recent::default(),
            news: Notify::new(),
        }))
    }

    /// Makes this the recorder of the whole process. Only the gauge of attempts in progress and the
    /// process's own metrics need that.
    ///
    /// # Errors
    /// [`SetRecorderError`] if the process has a recorder already.
    pub fn install(&self) -> Result<(), SetRecorderError<Arc<PrometheusRecorder>>> {
        set_global_recorder(Arc::clone(&self.recorder))
    }

    /// Every metric in Prometheus' text format.
    pub(super) fn render(&self) -> String {
        self.handle.render()
    }

    /// Drains the histograms' buffers. The service calls it every few seconds.
    pub(super) fn upkeep(&self) {
        self.handle.run_upkeep();
    }

    /// Counts an answered request.
    pub(super) fn answered(&self, route: &str, method: &'static str, status: u16, took: Nanos) {
        let (route, status) = (route.to_owned(), status.to_string());
        with_local_recorder(&self.recorder, || {
            histogram!(DURATION, "route" => route.clone())
                .record(std::time::Duration::from(took).as_secs_f64());
            counter!(
                REQUESTS,
                "route" => route, "method" => method, "status" => status
            )
            .increment(1);
        });
    }

    /// Increments the gauge `name` until the returned guard is dropped.
    pub(super) fn count_open(&self, name: &'static str) -> GaugeGuard {
        let gauge = with_local_recorder(&self.recorder, || gauge!(name));
        gauge.increment(1.0);
        GaugeGuard(gauge)
    }
}

/// Decrements its gauge when it is dropped.
pub(super) struct GaugeGuard(metrics::Gauge);

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

impl Observer for Monitor {
    fn tell(&self, notice: &Notice<'_>) {
        with_local_recorder(&self.recorder, || self.metrics.tell(notice));
        if let Some(action) = counted_for(notice) {
            self.rates.take(&action, notice);
            self.recent.take(&action, notice);
        }
        self.news.notify_waiters();
    }
}
