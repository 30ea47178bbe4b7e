//! Masks a definition's text.

use std::collections::BTreeSet;

use serde_json::Value;

use retrial::failure::sanitise;
use retrial::workflow::{HeaderText, Target, Workflow};

/// A shorter value is masked only in quotes: elsewhere it may be part of a word.
const LONG: usize = 8;

/// `text`, from which `workflow` was parsed, with the values of its headers, default input and
/// steps' arguments masked, and everything else that looks like a secret.
pub(super) fn masked(text: &str, workflow: &Workflow) -> String {
    let mut values = BTreeSet::new();
    for action in workflow.actions().values() {
        let Target::Http(endpoint) = &action.target else { continue };
        for header in endpoint.headers.values() {
            if let HeaderText::Literal(value) = header {
                values.insert(value.as_str());
            }
        }
        values.extend(endpoint.url.split_once('?').map(|(_, query)| query));
    }
    workflow.input().values().for_each(|value| leaves(value, &mut values));
    workflow.steps().iter().for_each(|step| leaves(step.args.raw(), &mut values));
    let mut values: Vec<&str> = values.into_iter().filter(|value| !value.is_empty()).collect();
    // Longest first: one value may be part of another.
    values.sort_by_key(|value| std::cmp::Reverse(value.len()));
    let shown = values.iter().fold(text.to_owned(), |shown, value| hide(&shown, value));
    sanitise::message(&shown, text.len())
}

fn leaves<'v>(value: &'v Value, found: &mut BTreeSet<&'v str>) {
    match value {
        Value::String(text) => drop(found.insert(text)),
        Value::Array(items) => items.iter().for_each(|item| leaves(item, found)),
        Value::Object(fields) => fields.values().for_each(|field| leaves(field, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn hide(text: &str, value: &str) -> String {
    let quoted = Value::from(value).to_string();
    let shown = text
        .replace(&quoted, &format!("\"{}\"", sanitise::MASK))
        .replace(&format!("'{value}'"), &format!("'{}'", sanitise::MASK));
    let inner = &quoted[1..quoted.len() - 1];
    if value.len() < LONG {
        shown
    } else {
        shown.replace(inner, sanitise::MASK).replace(value, sanitise::MASK)
    }
}
