//! Metrics through the `metrics` facade, named by Prometheus' conventions. `docs/metrics.md`
//! lists them; a test holds the page against [`METRICS`].
//!
//! A process has one recorder; without one, nothing is counted. Every label has a bounded set of
//! values: action names from definitions, codes from [`KNOWN_CODES`] and HTTP statuses, `other` for
//! all else. Counts start at zero with the process, as Prometheus expects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use super::format::kind_name;
use super::{Notice, Observer};
use crate::failure::sanitise::clean;
use crate::failure::{ErrorCode, Failure, RetryKind};
use crate::run::{Event, Outcome, TaskId, TaskTime};
use crate::time::Nanos;

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A count that only increases.
    Counter,
    /// A number that increases and decreases.
    Gauge,
    /// Observations, in buckets that the recorder sets.
    Histogram,
}

/// One metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// Its unit.
    pub unit: Unit,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// Its description.
    pub help: &'static str,
}

const ATTEMPTS: &str = "retrial_attempts_total";
const IN_PROGRESS: &str = "retrial_attempts_in_progress";
const DURATION: &str = "retrial_attempt_duration_seconds";
const ALERTS: &str = "retrial_error_budget_alerts_total";
const RETRIES: &str = "retrial_retries_total";
const DELAY: &str = "retrial_retry_delay_seconds";
const TIMEOUTS: &str = "retrial_timeouts_total";
const TASKS: &str = "retrial_tasks_total";
const QUARANTINED: &str = "retrial_tasks_quarantined_total";
const UNTIL_SUCCESS: &str = "retrial_task_attempts";
const TIME: &str = "retrial_task_time_seconds";
const RUNS: &str = "retrial_runs_total";

/// Every metric, by name.
pub const METRICS: [Metric; 12] = [
    metric(
        DURATION,
        Kind::Histogram,
        Unit::Seconds,
        &["action", "outcome"],
        "How long attempts took",
    ),
    metric(IN_PROGRESS, Kind::Gauge, Unit::Count, &["action"], "Attempts at work on this node"),
    metric(
        ATTEMPTS,
        Kind::Counter,
        Unit::Count,
        &["action", "outcome", "code"],
        "Attempts that ended",
    ),
    metric(
        ALERTS,
        Kind::Counter,
        Unit::Count,
        &["action"],
        "Alerts of error budgets that were raised",
    ),
    metric(RETRIES, Kind::Counter, Unit::Count, &["action", "kind"], "Retries that were scheduled"),
    metric(DELAY, Kind::Histogram, Unit::Seconds, &["action"], "Delays before retries"),
    metric(RUNS, Kind::Counter, Unit::Count, &["workflow", "outcome"], "Runs that ended"),
    metric(
        UNTIL_SUCCESS,
        Kind::Histogram,
        Unit::Count,
        &["action"],
        "Attempts that tasks needed until they succeeded",
    ),
    metric(
        TIME,
        Kind::Histogram,
        Unit::Seconds,
        &["action", "spent"],
        "Where the time of tasks went: working, failing or waiting",
    ),
    metric(
        QUARANTINED,
        Kind::Counter,
        Unit::Count,
        &["action"],
        "Tasks that were held in quarantine",
    ),
    metric(TASKS, Kind::Counter, Unit::Count, &["action", "outcome"], "Tasks that ended"),
    metric(TIMEOUTS, Kind::Counter, Unit::Count, &["action"], "Attempts that ran out of time"),
];

const fn metric(
    name: &'static str,
    kind: Kind,
    unit: Unit,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric { name, kind, unit, labels, help }
}

/// The codes that are labels, beside HTTP statuses.
pub const KNOWN_CODES: [&str; 10] = [
    ErrorCode::TIMEOUT,
    ErrorCode::NETWORK_ERROR,
    ErrorCode::LEASE_LOST,
    ErrorCode::WORK_FAILED,
    ErrorCode::BAD_RESPONSE,
    "BAD_REQUEST",
    "MISSING_ENV",
    "UNSUPPORTED_ACTION",
    "BAD_FAN_OUT",
    ErrorCode::ARGUMENTS_TOO_LARGE,
];

/// The label of all other values.
const OTHER: &str = "other";
/// The code of an attempt that succeeded.
const NONE: &str = "none";
/// The most values that a label takes from definitions.
const MOST_NAMES: usize = 1_000;

/// Counts events through the process's recorder, which must be installed first.
#[derive(Debug, Default)]
pub struct Metrics {
    codes: BTreeSet<String>,
    labels: Labels,
}

/// The labels of names from definitions. Each name is masked once. Users can submit any name, so
/// their number is limited.
#[derive(Debug, Default)]
pub(crate) struct Labels(Mutex<BTreeMap<String, Arc<str>>>);

impl Labels {
    /// The label of a name.
    pub(crate) fn of(&self, name: &str) -> Arc<str> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(label) = known.get(name) {
            return Arc::clone(label);
        }
        if known.len() >= MOST_NAMES {
            return OTHER.into();
        }
        let label: Arc<str> = clean(name).into();
        known.insert(name.to_owned(), Arc::clone(&label));
        label
    }
}

impl Metrics {
    /// Describes every metric to the recorder.
    #[must_use]
    pub fn new() -> Self {
        for Metric { name, kind, unit, help, .. } in METRICS {
            match kind {
                Kind::Counter => describe_counter!(name, unit, help),
                Kind::Gauge => describe_gauge!(name, unit, help),
                Kind::Histogram => describe_histogram!(name, unit, help),
            }
        }
        Self::default()
    }

    /// Adds codes of your own actions as labels.
    #[must_use]
    pub fn with_codes<S: Into<String>>(mut self, codes: impl IntoIterator<Item = S>) -> Self {
        self.codes.extend(codes.into_iter().map(Into::into));
        self
    }

    /// The label of a code. Endpoints can send any code, so labels are limited to known ones.
    fn code(&self, failure: &Failure) -> String {
        let code = failure.code().as_str();
        let status = code.len() == 3 && code.bytes().all(|b| b.is_ascii_digit());
        let known = status || KNOWN_CODES.contains(&code) || self.codes.contains(code);
        if known { clean(code) } else { OTHER.to_owned() }
    }

    /// The label of a task's action.
    fn action(&self, notice: &Notice<'_>, task: TaskId) -> Arc<str> {
        let step = notice.workflow.step(task.step);
        self.labels.of(step.map_or("", |step| step.action.as_str()))
    }

    fn about_task(&self, notice: &Notice<'_>, task: TaskId) {
        let action = self.action(notice, task);
        match notice.event {
            Event::AttemptFailed { failure, took, .. } => self.failed(action, failure, *took),
            Event::RetryScheduled { delay, kind, .. } => scheduled(action, *delay, *kind),
            Event::TaskQuarantined { .. } => counter!(QUARANTINED, "action" => action).increment(1),
            Event::TaskSucceeded { attempt, spent, .. } => succeeded(action, *attempt, *spent),
            Event::TaskFailed { spent, .. } => ended(action, "failed", *spent),
            Event::TaskCancelled { .. } => ended(action, "cancelled", TaskTime::default()),
            _ => {}
        }
    }

    fn failed(&self, action: Arc<str>, failure: &Failure, took: Nanos) {
        let code = self.code(failure);
        if failure.kind() == RetryKind::Timeout {
            counter!(TIMEOUTS, "action" => Arc::clone(&action)).increment(1);
        }
        histogram!(DURATION, "action" => Arc::clone(&action), "outcome" => "failure")
            .record(seconds(took));
        counter!(ATTEMPTS, "action" => action, "outcome" => "failure", "code" => code).increment(1);
    }
}

impl Observer for Metrics {
    fn tell(&self, notice: &Notice<'_>) {
        if let Some(task) = notice.event.task() {
            return self.about_task(notice, task);
        }
        if let Event::ErrorBudgetBurnt { task, .. } = notice.event {
            counter!(ALERTS, "action" => self.action(notice, *task)).increment(1);
        }
        if let Event::RunEnded { outcome, .. } = notice.event {
            let outcome = match outcome {
                Outcome::Completed => "completed",
                Outcome::Failed { .. } => "failed",
                Outcome::Cancelled { .. } => "cancelled",
            };
            let workflow = self.labels.of(notice.workflow.name());
            counter!(RUNS, "workflow" => workflow, "outcome" => outcome).increment(1);
        }
    }
}

fn scheduled(action: Arc<str>, delay: Nanos, kind: RetryKind) {
    histogram!(DELAY, "action" => Arc::clone(&action)).record(seconds(delay));
    counter!(RETRIES, "action" => action, "kind" => kind_name(kind)).increment(1);
}

fn succeeded(action: Arc<str>, attempts: u32, spent: TaskTime) {
    let name = || Arc::clone(&action);
    counter!(ATTEMPTS, "action" => name(), "outcome" => "success", "code" => NONE).increment(1);
    histogram!(DURATION, "action" => name(), "outcome" => "success").record(seconds(spent.working));
    histogram!(UNTIL_SUCCESS, "action" => name()).record(f64::from(attempts));
    ended(action, "succeeded", spent);
}

fn ended(action: Arc<str>, outcome: &'static str, spent: TaskTime) {
    counter!(TASKS, "action" => Arc::clone(&action), "outcome" => outcome).increment(1);
    let parts =
        [("working", spent.working), ("failing", spent.failing), ("waiting", spent.waiting)];
    for (part, length) in parts.into_iter().filter(|(_, length)| *length > Nanos::ZERO) {
        histogram!(TIME, "action" => Arc::clone(&action), "spent" => part).record(seconds(length));
    }
}

/// Counts an attempt as in progress until it is dropped.
pub(crate) struct InProgress(metrics::Gauge);

impl InProgress {
    /// Counts an attempt of the action with this label.
    pub(crate) fn of(action: Arc<str>) -> Self {
        let gauge = gauge!(IN_PROGRESS, "action" => action);
        gauge.increment(1.0);
        Self(gauge)
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// Seconds as a recorder takes them.
fn seconds(length: Nanos) -> f64 {
    std::time::Duration::from(length).as_secs_f64()
}
