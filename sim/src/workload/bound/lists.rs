//! The number of items that steps fan out over.

use retrial::workflow::{Step, Template};
use serde_json::{Map, Value};

use super::BoundInput;
use crate::scenario::Reply;

/// The most items that a step of the workflow of these steps fans out over, going by the lists in
/// its runs' inputs, in the workflow itself and in scripted answers; and by the user's limit for
/// their own code, whose lists are known only at run time.
pub(super) fn longest_list(
    scenario: &BoundInput<'_>,
    steps: &[Step],
    inputs: &[Map<String, Value>],
) -> u64 {
    let written = steps.iter().flat_map(|s| [s.for_each.as_ref(), Some(&s.args)]);
    let answered = scenario.replies().filter_map(|reply| match reply.last() {
        Reply::Ok(body) => Some(body),
        _ => None,
    });
    let values = inputs.iter().flat_map(Map::values).chain(answered);
    let values = values.chain(written.flatten().map(Template::raw));
    let known = values.map(longest_within).max().unwrap_or(1).max(1);
    let of_result = |step: &Step| {
        let raw = step.for_each.as_ref().map(Template::raw);
        raw.and_then(Value::as_str).is_some_and(|text| !text.starts_with("${input."))
    };
    match &scenario.own {
        Some(own) if steps.iter().any(of_result) => known.max(own.longest_list),
        _ => known,
    }
}

/// The length of the longest list in a value.
fn longest_within(value: &Value) -> u64 {
    match value {
        Value::Array(items) => {
            let below = items.iter().map(longest_within).max().unwrap_or(0);
            below.max(items.len() as u64)
        }
        Value::Object(fields) => fields.values().map(longest_within).max().unwrap_or(0),
        _ => 0,
    }
}
