//! The spans of a run.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use sha2::{Digest as _, Sha256};

use super::super::Notice;
use super::super::format::{fans_out, kind_name, step_name, task_name};
use crate::failure::sanitise::clean;
use crate::run::{Event, Outcome, RunId, TaskId};
use crate::time::{Nanos, Timestamp};

/// The most runs with a remembered submission.
const RUNS: usize = 100_000;

/// Spans from notices.
#[derive(Debug, Default)]
pub(super) struct Spans {
    /// When runs were submitted, for the runs submitted on this node.
    begun: Mutex<BTreeMap<RunId, Timestamp>>,
}

impl Spans {
    /// The span that ends with this event, if one does.
    pub(super) fn of(&self, notice: &Notice<'_>) -> Option<SpanData> {
        match notice.event {
            Event::RunCreated { .. } => {
                let mut begun = self.begun();
                if begun.len() < RUNS {
                    begun.insert(notice.run, notice.at);
                }
                None
            }
            Event::RunEnded { outcome } => Some(self.run(notice, outcome)),
            Event::TaskSucceeded { task, attempt, spent, .. } => {
                let seen = Seen { task: *task, attempt: *attempt, took: spent.working };
                let more = vec![KeyValue::new("retrial.outcome", "success")];
                Some(attempted(notice, seen, more, Status::Ok))
            }
            Event::AttemptFailed { task, attempt, failure, will_retry, took } => {
                let seen = Seen { task: *task, attempt: *attempt, took: *took };
                let more = vec![
                    KeyValue::new("retrial.outcome", "failure"),
                    KeyValue::new("error.type", clean(failure.code().as_str())),
                    KeyValue::new("retrial.will_retry", *will_retry),
                ];
                Some(attempted(notice, seen, more, Status::error(clean(failure.message()))))
            }
            Event::RetryScheduled { task, attempt, delay, backoff, kind, code, .. } => {
                let more = vec![
                    KeyValue::new("retrial.backoff_ms", milliseconds(*backoff)),
                    KeyValue::new("retrial.retry_of", kind_name(*kind)),
                    KeyValue::new("error.type", clean(code.as_str())),
                ];
                Some(delayed(notice, *task, *attempt, *delay, more))
            }
            _ => None,
        }
    }

    fn begun(&self) -> MutexGuard<'_, BTreeMap<RunId, Timestamp>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The span from the run's submission to its end. If the submission is not known (another node
    /// saw it, or this one before a restart), the span has no length and is marked.
    fn run(&self, notice: &Notice<'_>, outcome: &Outcome) -> SpanData {
        let begun = self.begun().remove(&notice.run);
        let (name, status) = match outcome {
            Outcome::Completed => ("completed", Status::Ok),
            Outcome::Failed { error } => ("failed", Status::error(clean(&error.message))),
            Outcome::Cancelled { reason } => {
                ("cancelled", Status::error(format!("cancelled: {}", clean(reason))))
            }
        };
        let mut attributes = about_run(notice);
        attributes.push(KeyValue::new("retrial.outcome", name));
        if begun.is_none() {
            attributes.push(KeyValue::new("retrial.start_unknown", true));
        }
        let from = begun.unwrap_or(notice.at);
        let id = Place::Run.id(notice.run);
        let parent = SpanId::INVALID;
        let name = clean(notice.workflow.name());
        Drawn { id, parent, name, from, to: notice.at, attributes, status }.span(notice.run)
    }
}

/// An attempt that ended.
struct Seen {
    task: TaskId,
    attempt: u32,
    took: Nanos,
}

fn attempted(notice: &Notice<'_>, seen: Seen, more: Vec<KeyValue>, status: Status) -> SpanData {
    let Seen { task, attempt, took } = seen;
    let name = task_name(notice.workflow, task);
    let mut attributes = about_task(notice, task, attempt);
    attributes.extend(more);
    let (from, to) = (notice.at.before(took), notice.at);
    let (id, parent) = (Place::Attempt(task, attempt).id(notice.run), Place::Run.id(notice.run));
    Drawn { id, parent, name, from, to, attributes, status }.span(notice.run)
}

/// The scheduled delay before `attempt`. A command may shorten it.
fn delayed(
    notice: &Notice<'_>,
    task: TaskId,
    attempt: u32,
    delay: Nanos,
    more: Vec<KeyValue>,
) -> SpanData {
    let name = format!("{} delay", task_name(notice.workflow, task));
    let mut attributes = about_task(notice, task, attempt);
    attributes.extend(more);
    let (from, to) = (notice.at, notice.at.after(delay));
    let (id, parent) = (Place::Delay(task, attempt).id(notice.run), Place::Run.id(notice.run));
    Drawn { id, parent, name, from, to, attributes, status: Status::Unset }.span(notice.run)
}

fn about_run(notice: &Notice<'_>) -> Vec<KeyValue> {
    vec![
        KeyValue::new("retrial.run.id", notice.run.to_string()),
        KeyValue::new("retrial.workflow", clean(notice.workflow.name())),
    ]
}

fn about_task(notice: &Notice<'_>, task: TaskId, attempt: u32) -> Vec<KeyValue> {
    let mut attributes = about_run(notice);
    let action = notice.workflow.step(task.step).map_or("", |step| step.action.as_str());
    attributes.extend([
        KeyValue::new("retrial.step", step_name(notice.workflow, task.step)),
        KeyValue::new("retrial.action", clean(action)),
        KeyValue::new("retrial.attempt", i64::from(attempt)),
    ]);
    if fans_out(notice.workflow, task.step) {
        attributes.push(KeyValue::new("retrial.item", i64::from(task.item)));
    }
    attributes
}

fn milliseconds(length: Nanos) -> i64 {
    i64::try_from(length.as_millis()).unwrap_or(i64::MAX)
}

/// The place of a span in its trace.
enum Place {
    Run,
    Attempt(TaskId, u32),
    Delay(TaskId, u32),
}

impl Place {
    /// The same one on every node.
    fn id(&self, run: RunId) -> SpanId {
        let (kind, task, attempt) = match self {
            Self::Run => (0_u8, TaskId::FIRST, 0),
            Self::Attempt(task, attempt) => (1, *task, *attempt),
            Self::Delay(task, attempt) => (2, *task, *attempt),
        };
        let mut hash = Sha256::new();
        hash.update(b"retrial span 1");
        hash.update(run.to_bytes());
        hash.update([kind]);
        hash.update(task.step.0.to_be_bytes());
        hash.update(task.item.to_be_bytes());
        hash.update(attempt.to_be_bytes());
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&hash.finalize()[..8]);
        SpanId::from_bytes(bytes)
    }
}

/// The parts that differ between spans.
struct Drawn {
    id: SpanId,
    parent: SpanId,
    name: String,
    from: Timestamp,
    to: Timestamp,
    attributes: Vec<KeyValue>,
    status: Status,
}

impl Drawn {
    fn span(self, run: RunId) -> SpanData {
        let trace = TraceId::from_bytes(run.to_bytes());
        SpanData {
            span_context: SpanContext::new(
                trace,
                self.id,
                TraceFlags::SAMPLED,
                false,
                TraceState::default(),
            ),
            parent_span_id: self.parent,
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: Cow::Owned(self.name),
            start_time: time(self.from),
            end_time: time(self.to),
            attributes: self.attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: self.status,
            instrumentation_scope: InstrumentationScope::builder("retrial")
                .with_version(env!("CARGO_PKG_VERSION"))
                .build(),
        }
    }
}

fn time(at: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(at.as_nanos())
}
