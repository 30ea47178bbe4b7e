//! Which policy each step of a workflow's text has: its own, its action's, the default of the
//! action's kind, the default of all, the built-in one (row H7).

use serde_json::Value;

use super::plain::PlainPolicy;
use super::{brackets, presets, tables};
use crate::scenario::{Format, WorkflowText};

/// The policy of a step as its text has it.
pub struct StepPolicy {
    /// The step's id; a program's calls have only their place.
    pub id: Option<String>,
    /// The policy; `None` where the text is not understood.
    pub policy: Option<PlainPolicy>,
}

/// The policies of a text's steps in text order; `None` where it is no text of a dialect.
pub fn policies(text: &WorkflowText) -> Option<Vec<StepPolicy>> {
    let tree: Value = match text.format {
        Format::Toml => toml::from_str(&text.text).ok()?,
        Format::Json => serde_json::from_str(&text.text).ok()?,
        Format::Ir => return program(text),
        Format::Stored => return None,
    };
    let steps = tree.get("steps")?.as_array()?.iter().map(|step| StepPolicy {
        id: step.get("id").and_then(Value::as_str).map(str::to_owned),
        policy: match own(step) {
            Some(own) => own,
            None => inherited(&tree, action_of(step)).unwrap_or_else(|| built_in(&tree, step)),
        },
    });
    Some(steps.collect())
}

/// A call without brackets is not retried, unless a declaration says so.
fn program(text: &WorkflowText) -> Option<Vec<StepPolicy>> {
    let declared = match &text.actions {
        Some(actions) => toml::from_str(actions).ok()?,
        None => Value::Null,
    };
    let calls = brackets::calls(&text.text)?.into_iter().map(|(action, own)| StepPolicy {
        id: None,
        policy: match own {
            "" => inherited(&declared, action).unwrap_or_else(|| Some(PlainPolicy::new("ir"))),
            own => brackets::read(own),
        },
    });
    Some(calls.collect())
}

fn action_of(step: &Value) -> &str {
    step.get("action").and_then(Value::as_str).unwrap_or_default()
}

/// The policy that a table sets, in whichever dialect; the inner `None` where it is not understood.
fn own(table: &Value) -> Option<Option<PlainPolicy>> {
    let table = table.as_object()?;
    let mut found = table.iter().filter_map(|(key, value)| {
        Some(match key.as_str() {
            "retry" => value.as_str().and_then(brackets::read),
            "work_config" => tables::work_config(value),
            "execution" => tables::execution(value),
            "retry_config" => tables::retry_config(value),
            "preset" => presets::read(value),
            _ => return None,
        })
    });
    found.next()
}

/// What applies to a step without a policy of its own, if the text says so. The most specific one
/// applies whole.
fn inherited(top: &Value, action: &str) -> Option<Option<PlainPolicy>> {
    let declared = top.get("actions").and_then(|actions| actions.get(action));
    let defaults = top.get("defaults");
    let of_kind = || defaults?.get(kind(declared));
    declared.and_then(own).or_else(|| own(of_kind()?)).or_else(|| own(defaults?))
}

fn kind(action: Option<&Value>) -> &str {
    let kind = action.and_then(|action| action.get("kind")).and_then(Value::as_str);
    kind.unwrap_or("tool_call")
}

fn built_in(top: &Value, step: &Value) -> Option<PlainPolicy> {
    let declared = top.get("actions").and_then(|actions| actions.get(action_of(step)));
    Some(tables::built_in(kind(declared)))
}
