//! Records the spans and events that the engine traces, as one of the outputs of a world.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use super::program::Outputs;
use crate::sync::lock;

const SOURCE: &str = "spans";

/// Writes every span and event of the engine on this thread, until it is dropped. Without times:
/// nothing here may differ from one run of a seed to the next.
pub(super) fn record_spans(outputs: &Outputs) -> DefaultGuard {
    let subscriber = Registry::default().with(SpanRecorder(outputs.clone()));
    tracing::subscriber::set_default(subscriber)
}

struct SpanRecorder(Outputs);

struct Fields<'t>(&'t mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}

impl SpanRecorder {
    fn write(&self, name: &str, record: impl FnOnce(&mut Fields<'_>)) {
        let mut line = name.to_owned();
        record(&mut Fields(&mut line));
        line.push('\n');
        let mut outputs = lock(&self.0);
        outputs.entry(SOURCE.to_owned()).or_default().extend_from_slice(line.as_bytes());
    }
}

impl<S: Subscriber> Layer<S> for SpanRecorder {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        metadata.target().starts_with("retrial")
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        self.write(attributes.metadata().name(), |fields| attributes.record(fields));
    }

    fn on_record(&self, _: &Id, values: &Record<'_>, _: Context<'_, S>) {
        self.write("record", |fields| values.record(fields));
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.write("event", |fields| event.record(fields));
    }
}
