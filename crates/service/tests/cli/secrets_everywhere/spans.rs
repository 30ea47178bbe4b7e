//! Records every span and event of tracing as it arrives.

use std::fmt::Debug;
use std::io::Write;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

use crate::secrets_everywhere::stage::Paper;

/// Writes every span and event of this thread on `paper` until it is dropped.
pub(crate) fn capture(paper: Paper) -> DefaultGuard {
    tracing::subscriber::set_default(Registry::default().with(Written(paper)))
}

struct Written(Paper);

struct Fields<'w>(&'w mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push_str(&format!(" {}={value:?}", field.name()));
    }
}

impl Written {
    fn write(&self, name: &str, record: impl FnOnce(&mut Fields<'_>)) {
        let mut line = name.to_owned();
        record(&mut Fields(&mut line));
        writeln!(self.0.clone(), "{line}").unwrap();
    }
}

impl<S: Subscriber> Layer<S> for Written {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        self.write(attributes.metadata().name(), |fields| attributes.record(fields));
    }

    fn on_record(&self, _: &Id, values: &Record<'_>, _: Context<'_, S>) {
        self.write("record", |fields| values.record(fields));
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.write(event.metadata().target(), |fields| event.record(fields));
    }
}
