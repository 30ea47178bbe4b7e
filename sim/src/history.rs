//! The history of a world, for a reader: the scenario, then one line for each entry.

use std::fmt::Write as _;

use retrial::time::Nanos;
use serde_json::Value;

use crate::scenario::Scenario;
use crate::trace::{Kind, Line};

/// The history of one seed.
#[derive(Clone, Debug)]
pub struct History {
    drawn: String,
    lines: Vec<Line>,
}

impl History {
    /// The history of `scenario`.
    #[must_use]
    pub fn new(scenario: &Scenario, lines: Vec<Line>) -> Self {
        let drawn = serde_json::to_string(scenario).unwrap_or_default();
        Self { drawn, lines }
    }

    /// The lines, in the order in which things happened.
    #[must_use]
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// The whole history: a line for what was drawn, then one an event with virtual time.
    #[must_use]
    pub fn words(&self) -> String {
        let mut text = format!("drawn {}\n", self.drawn);
        self.lines.iter().for_each(|line| write(&mut text, line));
        text
    }

    /// One entry, counted from 1, in a short line: of an event what it is and what it is about.
    #[must_use]
    pub fn entry(&self, number: u64) -> Option<String> {
        let place = usize::try_from(number).ok()?.checked_sub(1)?;
        let line = self.lines.get(place)?;
        let (mut text, short) = (String::new(), shortened(&line.text));
        write(&mut text, &Line { text: short, ..line.clone() });
        Some(text.trim_end().to_owned())
    }

    /// The same, each line after the head of the fingerprint so far: two histories that differ in
    /// anything differ here.
    #[must_use]
    pub fn marked(&self) -> String {
        let mut text = format!("drawn {}\n", self.drawn);
        for line in &self.lines {
            let _ = write!(text, "{:016x} ", line.mark);
            write(&mut text, line);
        }
        text
    }
}

/// The most characters of an entry that are shown in a short line.
const SHORT: usize = 100;

/// The text of an entry without most of what an event in JSON says.
pub(crate) fn shortened(text: &str) -> String {
    let Ok(Value::Object(event)) = serde_json::from_str(text) else {
        return text.chars().take(SHORT).collect();
    };
    let part = |name: &str| match event.get(name)? {
        Value::String(text) if name == "event" => Some(text.clone()),
        value => Some(format!("{name} {value}")),
    };
    let parts = ["event", "step", "item", "attempt", "code", "run"].into_iter().filter_map(part);
    parts.collect::<Vec<_>>().join(" ")
}

fn write(text: &mut String, line: &Line) {
    let at = Nanos::new(line.at.as_nanos());
    let (secs, nanos) = (at.get() / 1_000_000_000, at.get() % 1_000_000_000);
    let (lane, sign) = (&line.lane, sign(line.kind));
    let _ = writeln!(text, "{secs:>6}.{nanos:09} {lane:<10} {sign} {}", line.text);
}

fn sign(kind: Kind) -> &'static str {
    match kind {
        Kind::Input => "input  ",
        Kind::Event => "event  ",
        Kind::Message => "message",
        Kind::Disk => "disk   ",
        Kind::Fault => "FAULT  ",
        Kind::Note => "note   ",
    }
}
