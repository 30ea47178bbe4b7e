//! The metrics of all nodes of a world, in memory, as lines of text for the oracles.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};

/// Records counters with their values. For gauges and histograms it records only that they exist,
/// because no oracle reads their values.
#[derive(Debug, Default)]
pub(super) struct Counters(Mutex<Series>);

#[derive(Debug, Default)]
struct Series {
    /// By name and labels.
    counters: BTreeMap<String, Arc<AtomicU64>>,
    /// The names of gauges and histograms, by name and labels.
    others: BTreeMap<String, KeyName>,
    help: BTreeMap<KeyName, String>,
}

impl Counters {
    fn series(&self) -> MutexGuard<'_, Series> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One line a series, sorted.
    pub(super) fn lines(&self) -> String {
        let series = self.series();
        let counted = |(name, count): (&String, &Arc<AtomicU64>)| {
            format!("{name} {}\n", count.load(Ordering::SeqCst))
        };
        let other =
            |(name, key): (&String, &KeyName)| format!("# {name} {:?}\n", series.help.get(key));
        let mut lines: Vec<String> = series.counters.iter().map(counted).collect();
        lines.extend(series.others.iter().map(other));
        lines.sort();
        lines.concat()
    }

    fn describe(&self, name: KeyName, help: &SharedString) {
        self.series().help.insert(name, help.to_string());
    }

    fn note(&self, key: &Key) {
        self.series().others.insert(shown(key), KeyName::from(key.name().to_owned()));
    }
}

/// A key as its line begins: `name{label=value,…}`.
fn shown(key: &Key) -> String {
    let labels: Vec<_> = key.labels().map(|l| format!("{}={}", l.key(), l.value())).collect();
    format!("{}{{{}}}", key.name(), labels.join(","))
}

impl Recorder for Counters {
    fn describe_counter(&self, name: KeyName, _: Option<Unit>, help: SharedString) {
        self.describe(name, &help);
    }

    fn describe_gauge(&self, name: KeyName, _: Option<Unit>, help: SharedString) {
        self.describe(name, &help);
    }

    fn describe_histogram(&self, name: KeyName, _: Option<Unit>, help: SharedString) {
        self.describe(name, &help);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(Arc::clone(self.series().counters.entry(shown(key)).or_default()))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        self.note(key);
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        self.note(key);
        Histogram::noop()
    }
}
