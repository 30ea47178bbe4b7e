//! A naive model of the graph: which edge a step's end takes. If a condition needs data that is not
//! in the evidence (the payload of a result), it is unknown, and not judged.

use std::collections::BTreeSet;

use retrial::failure::{ErrorContext, Failure};
use retrial::workflow::{Condition, StepIx, Transition, Workflow};
use serde_json::{Map, Value};

use super::policy_model::answers_to;

/// The value of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Truth {
    Yes,
    No,
    Unknown,
}

impl Truth {
    fn of(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }

    fn not(self) -> Self {
        match self {
            Self::Yes => Self::No,
            Self::No => Self::Yes,
            Self::Unknown => Self::Unknown,
        }
    }
}

/// The values that conditions see.
pub(super) struct Seen<'e> {
    pub(super) input: &'e Map<String, Value>,
    pub(super) last_error: Option<Value>,
    /// Every error that is not cleared.
    pub(super) errors: Option<Value>,
    /// An attempt's result, for what it must meet.
    pub(super) result: Option<&'e Value>,
}

impl<'e> Seen<'e> {
    /// Nothing has gone wrong.
    pub(super) fn well(input: &'e Map<String, Value>) -> Self {
        Self { input, last_error: None, errors: None, result: None }
    }

    /// The value at `state.…`: `Err` when the evidence does not show it.
    fn find(&self, path: &str) -> Result<Option<Value>, ()> {
        let mut parts = path.split('.').skip(1);
        let root = match parts.next() {
            Some("input") => Some(Value::Object(self.input.clone())),
            // Errors of other branches are not looked up for a result.
            Some("_last_error" | "_errors") if self.result.is_some() => return Err(()),
            Some("_last_error") => self.last_error.clone(),
            Some("_errors") => self.errors.clone(),
            Some("result") => self.result.cloned(),
            _ => return Err(()),
        };
        Ok(parts.fold(root, |at, part| match at? {
            Value::Object(map) => map.get(part).cloned(),
            Value::Array(items) => items.get(part.parse::<usize>().ok()?).cloned(),
            _ => None,
        }))
    }

    /// C6: a missing value equals nothing.
    pub(super) fn holds(&self, condition: &Condition) -> Truth {
        match condition {
            Condition::Exists { field } => {
                self.test(&String::from(field.clone()), |v| v.is_some_and(|v| !v.is_null()))
            }
            Condition::Eq { field, value } => {
                self.test(&String::from(field.clone()), |v| v.as_ref() == Some(value))
            }
            Condition::In { field, values } => {
                self.test(&String::from(field.clone()), |v| v.is_some_and(|v| values.contains(&v)))
            }
            Condition::Not { condition } => self.holds(condition).not(),
            Condition::And { conditions } => self.each(conditions, Truth::No),
            Condition::Or { conditions } => self.each(conditions, Truth::Yes),
        }
    }

    fn test(&self, path: &str, check: impl FnOnce(Option<Value>) -> bool) -> Truth {
        self.find(path).map_or(Truth::Unknown, |v| Truth::of(check(v)))
    }

    /// `deciding` if any part gives it, else unknown if any is, else its opposite.
    fn each(&self, parts: &[Condition], deciding: Truth) -> Truth {
        let truths: Vec<Truth> = parts.iter().map(|c| self.holds(c)).collect();
        if truths.contains(&deciding) {
            deciding
        } else if truths.contains(&Truth::Unknown) {
            Truth::Unknown
        } else {
            deciding.not()
        }
    }
}

/// Where a step's end leads.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// To one of these: more than one where the specification leaves the order open.
    To(BTreeSet<StepIx>),
    /// Nowhere.
    Nowhere,
    /// The evidence does not show it.
    Unknown,
}

/// The edge of a step that succeeded: the first one by priority with a condition that holds; never
/// an exception edge.
pub(super) fn way_of_success(workflow: &Workflow, step: StepIx, seen: &Seen<'_>) -> Way {
    let mut edges: Vec<&Transition> = out(workflow, step);
    edges.retain(|t| t.on_error.is_none());
    edges.sort_by_key(|t| t.priority);
    first(&edges, |t| t.condition.as_ref().map_or(Truth::Yes, |c| seen.holds(c)))
}

/// The way of a step that failed: exception edges, then transitions that ask for the error, each by
/// ascending priority, ties in text order. Priorities could also be read as
/// going over both kinds together; where that differs, both are right. A failure would vanish in a
/// step that is not `open` any more, so no edge leads there.
pub(super) fn way_of_failure(
    workflow: &Workflow,
    step: StepIx,
    seen: &Seen<'_>,
    failure: &Failure,
    open: impl Fn(StepIx) -> bool,
) -> Way {
    let mut edges = out(workflow, step);
    edges.retain(|t| open(t.to));
    let truth = |t: &Transition| fits(t, seen, failure);
    let mut apart = edges.clone();
    apart.sort_by_key(|t| (t.on_error.is_none(), t.priority));
    let mut together = edges;
    together.sort_by_key(|t| (t.priority, t.on_error.is_none()));
    match (first(&apart, truth), first(&together, truth)) {
        (Way::To(a), Way::To(b)) => Way::To(a.union(&b).copied().collect()),
        (Way::Nowhere, _) | (_, Way::Nowhere) => Way::Nowhere,
        _ => Way::Unknown,
    }
}

fn fits(edge: &Transition, seen: &Seen<'_>, failure: &Failure) -> Truth {
    let named = match &edge.on_error {
        Some(names) => names.is_empty() || names.iter().any(|n| answers_to(failure, n)),
        None => edge.condition.as_ref().is_some_and(asks_for_error),
    };
    match (named, &edge.condition) {
        (false, _) => Truth::No,
        (true, None) => Truth::Yes,
        (true, Some(condition)) => seen.holds(condition),
    }
}

fn asks_for_error(condition: &Condition) -> bool {
    let of_errors = |path: &str| matches!(path.split('.').nth(1), Some("_last_error" | "_errors"));
    looks_at(condition, &of_errors)
}

/// Whether the condition looks at such a path.
pub(crate) fn looks_at(condition: &Condition, such: &impl Fn(&str) -> bool) -> bool {
    match condition {
        Condition::Exists { field } | Condition::Eq { field, .. } | Condition::In { field, .. } => {
            such(&String::from(field.clone()))
        }
        Condition::Not { condition } => looks_at(condition, such),
        Condition::And { conditions } | Condition::Or { conditions } => {
            conditions.iter().any(|condition| looks_at(condition, such))
        }
    }
}

fn out(workflow: &Workflow, step: StepIx) -> Vec<&Transition> {
    workflow.transitions().iter().filter(|t| t.from == step).collect()
}

/// The first edge that holds, unless an unknown one is before it.
fn first(edges: &[&Transition], truth: impl Fn(&Transition) -> Truth) -> Way {
    for edge in edges {
        match truth(edge) {
            Truth::Yes => return Way::To(BTreeSet::from([edge.to])),
            Truth::No => {}
            Truth::Unknown => return Way::Unknown,
        }
    }
    Way::Nowhere
}

/// Whether `condition` holds over an attempt's result.
pub(crate) fn ensured(condition: &Condition, input: &Map<String, Value>, result: &Value) -> Truth {
    Seen { result: Some(result), ..Seen::well(input) }.holds(condition)
}

/// `_last_error` as conditions see it.
pub(super) fn as_last_error(error: &ErrorContext) -> Option<Value> {
    serde_json::to_value(error).ok()
}

/// How many tasks a step has, where its definition and the input alone say so.
pub(super) fn fan_out(
    workflow: &Workflow,
    step: StepIx,
    input: &Map<String, Value>,
) -> Option<usize> {
    let Some(template) = &workflow.step(step)?.for_each else { return Some(1) };
    match template.raw() {
        Value::Array(items) => Some(items.len()),
        Value::String(text) => {
            let name = text.strip_prefix("${input.")?.strip_suffix('}')?;
            Some(input.get(name)?.as_array()?.len())
        }
        _ => None,
    }
}
