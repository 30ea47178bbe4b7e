//! What a world shows, as numbers: which events follow each other, after which fault, and how often.

use std::collections::{BTreeMap, BTreeSet};

use retrial::time::Nanos;
use serde_json::Value;

use crate::history::History;
use crate::report::SeedReport;
use crate::trace::Kind;
use crate::workload::Draw;

/// So long a fault or a command is looked at as what an event may follow from.
const AFTERMATH: Nanos = Nanos::from_secs(2);
/// The fields of an event that tell it from others of its name.
const TELLING: [&str; 9] = [
    "reason",
    "cause",
    "outcome",
    "retry_kind",
    "held_by",
    "will_retry",
    "is_retry",
    "complete",
    "error",
];

/// What the world of `history` shows: pairs of events of a run, and of a task; each event after the last
/// fault, command or note; two of those in a row; and, in powers of two, how often each came and how often
/// each rare case was judged.
#[must_use]
pub fn shown(history: &History, report: &SeedReport) -> BTreeSet<u64> {
    let mut all = BTreeSet::new();
    let mut add = |thing: String| _ = all.insert(Draw::new(0, &thing).bits());
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    // The last event of each run and of each task.
    let mut last: BTreeMap<String, String> = BTreeMap::new();
    let mut trouble = None;
    for line in history.lines() {
        let label = match line.kind {
            Kind::Message | Kind::Disk => continue,
            Kind::Event => event(&line.text),
            Kind::Input | Kind::Fault | Kind::Note => None,
        };
        let after = trouble.as_ref().filter(|(at, _)| line.at.since(*at) <= AFTERMATH);
        let after = after.map_or("calm", |(_, trouble): &(_, String)| trouble);
        let label = match label {
            Some(Labelled { label, of }) => {
                add(format!("{after} ! {label}"));
                for whose in of {
                    let before = last.insert(whose, label.clone()).unwrap_or_default();
                    add(format!("{before} > {label}"));
                }
                label
            }
            None => {
                let label = words(&line.text);
                add(format!("{after} & {label}"));
                trouble = Some((line.at, label.clone()));
                label
            }
        };
        *counts.entry(label).or_default() += 1;
    }
    let rare = report.features.iter().map(|(name, count)| (format!("judged {name}"), *count));
    for (label, count) in counts.into_iter().chain(rare) {
        add(format!("{label} * {}", count.max(1).ilog2()));
    }
    all
}

struct Labelled {
    label: String,
    /// Its run, and its task where it has one.
    of: Vec<String>,
}

/// An event's name with what tells it from others; none where the text is not an event.
fn event(text: &str) -> Option<Labelled> {
    let event: Value = serde_json::from_str(text).ok()?;
    let mut label = event["event"].as_str()?.to_owned();
    for field in TELLING {
        match &event[field] {
            Value::String(text) => label.extend([" ", text]),
            Value::Bool(is) => label.push_str(if *is { " yes" } else { " no" }),
            Value::Object(error) => {
                label.extend([" ", error.get("code").and_then(Value::as_str).unwrap_or_default()]);
            }
            _ => {}
        }
    }
    let run = event["run"].to_string();
    let task = event.get("step").map(|step| format!("{run} {step} {}", event["item"]));
    Some(Labelled { label, of: [run].into_iter().chain(task).collect() })
}

/// The words of a line: ids and numbers differ in each world.
fn words(text: &str) -> String {
    let is_word = |word: &&str| !word.contains(|c: char| c.is_ascii_digit());
    let words: Vec<&str> = text.split_whitespace().filter(is_word).take(6).collect();
    words.join(" ")
}
