//! The lines of a history that concern user code.

use retrial::time::Nanos;
use serde_json::{Map, Value};

use crate::trace::{Kind, Line};

/// The fields of an event's JSON that are shown, in this order.
const SHOWN: [&str; 11] = [
    "step",
    "item",
    "attempt",
    "error",
    "next_attempt",
    "retry_delay",
    "reason",
    "from",
    "to",
    "tasks",
    "outcome",
];

/// The lines of a history without disk calls and single packets.
pub(super) fn lines(all: &[Line]) -> Vec<String> {
    all.iter().filter(|line| is_shown(line)).map(shown).collect()
}

fn is_shown(line: &Line) -> bool {
    match line.kind {
        Kind::Note => !line.text.ends_with(" was handed over"),
        Kind::Input | Kind::Event | Kind::Fault => true,
        Kind::Message => line.text.contains(" asks "),
        Kind::Disk => false,
    }
}

fn shown(line: &Line) -> String {
    let at = Nanos::new(line.at.as_nanos());
    let (secs, millis) = (at.get() / 1_000_000_000, at.get() % 1_000_000_000 / 1_000_000);
    let text = match (line.kind, serde_json::from_str(&line.text)) {
        (Kind::Event, Ok(Value::Object(event))) => event_words(&event),
        _ => line.text.clone(),
    };
    let mark = if line.kind == Kind::Fault { "FAULT " } else { "" };
    format!("{secs:>5}.{millis:03} {:<10} {mark}{text}", line.lane)
}

/// `attempt_failed step=charge attempt=1 error="NETWORK_ERROR: ..." (run 28bd43e8)`.
fn event_words(event: &Map<String, Value>) -> String {
    let text = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut words = text("event").to_owned();
    for (name, value) in SHOWN.iter().filter_map(|name| Some((name, event.get(*name)?))) {
        words += &format!(" {name}={}", value_words(value));
    }
    let run = text("run");
    format!("{words} (run {})", run.split('-').next().unwrap_or(run))
}

/// A failure as its code and message, a text as it is where it has no blanks.
fn value_words(value: &Value) -> String {
    if let (Some(code), Some(message)) = (value["code"].as_str(), value["message"].as_str()) {
        return format!("{:?}", format!("{code}: {message}"));
    }
    match value.as_str() {
        Some(text) if !text.contains(' ') => text.to_owned(),
        _ => value.to_string(),
    }
}
