//! What a path leads to, by reference: nothing is copied before it is known to be small enough.

use std::cell::OnceCell;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

/// What a path starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    /// The run's input.
    Input,
    /// What a step produced: an object with `result`, and for a fanned-out step also `succeeded`,
    /// `failed` and `errors`.
    Step(String),
    /// The fanned-out item.
    Item,
    /// The fanned-out item's place, from 0.
    Index,
    /// The branch's last error.
    LastError,
    /// The uncleared errors of the branches that lead here, in text order of the steps and then by
    /// item. Missing where there are none.
    Errors,
    /// The result that an attempt gave, for the condition that it must meet.
    Result,
}

/// Where the values come from when a template is filled in or a condition is judged.
pub(crate) trait Values {
    /// What `root` stands for, if there is something.
    fn root(&self, root: &Root) -> Option<Seen<'_>>;
}

/// A value that a path leads to.
#[derive(Clone, Copy)]
pub(crate) enum Seen<'v> {
    /// A value as it is kept.
    Value(&'v Value),
    /// What a step with one task left: an object with `result`.
    One(&'v Value),
    /// What a fanned-out step left.
    Many(&'v Many<'v>),
    /// The results of a fanned-out step.
    Results(&'v [&'v Value]),
}

/// What a fanned-out step left: an object with `result`, `succeeded`, `failed` and `errors`.
pub(crate) struct Many<'s> {
    /// Each task's result, null where it has none.
    pub(crate) results: Vec<&'s Value>,
    /// How many tasks succeeded.
    pub(crate) succeeded: Value,
    /// How many failed.
    pub(crate) failed: Value,
    /// The records of the failed tasks, made when they are looked at.
    pub(crate) errors: OnceCell<Value>,
    /// Makes them.
    pub(crate) describe: Box<dyn Fn() -> Value + 's>,
}

impl<'v> Seen<'v> {
    /// What stands under `segment`.
    pub(crate) fn child(self, segment: &str) -> Option<Self> {
        match self {
            Self::Value(Value::Object(map)) => map.get(segment).map(Self::Value),
            Self::Value(Value::Array(items)) => items.get(index(segment)?).map(Self::Value),
            Self::Results(items) => items.get(index(segment)?).copied().map(Self::Value),
            Self::One(result) => (segment == "result").then_some(Self::Value(result)),
            Self::Many(many) => match segment {
                "result" => Some(Self::Results(&many.results)),
                "succeeded" => Some(Self::Value(&many.succeeded)),
                "failed" => Some(Self::Value(&many.failed)),
                "errors" => Some(Self::Value(many.errors.get_or_init(|| (many.describe)()))),
                _ => None,
            },
            Self::Value(_) => None,
        }
    }

    /// How many items the list has; `None` where it is no list.
    pub(crate) fn items(self) -> Option<usize> {
        match self {
            Self::Value(value) => value.as_array().map(Vec::len),
            Self::Results(items) => Some(items.len()),
            Self::One(_) | Self::Many(_) => None,
        }
    }

    /// A copy.
    pub(crate) fn to_value(self) -> Value {
        match self {
            Self::Value(value) => value.clone(),
            Self::Results(items) => items.iter().copied().cloned().collect(),
            Self::One(_) | Self::Many(_) => {
                let field = |(key, seen): (&str, Self)| (key.to_owned(), seen.to_value());
                Value::Object(self.fields().map(field).collect::<Map<_, _>>())
            }
        }
    }

    /// Whether it equals `other`.
    pub(crate) fn is(self, other: &Value) -> bool {
        match (self, other) {
            (Self::Value(value), other) => value == other,
            (Self::Results(items), Value::Array(others)) => {
                items.len() == others.len() && items.iter().zip(others).all(|(a, b)| *a == b)
            }
            (Self::One(_) | Self::Many(_), Value::Object(others)) => {
                self.fields().count() == others.len()
                    && self.fields().all(|(key, v)| others.get(key).is_some_and(|o| v.is(o)))
            }
            _ => false,
        }
    }

    pub(crate) fn is_null(self) -> bool {
        matches!(self, Self::Value(Value::Null))
    }

    /// The fields of a step.
    fn fields(self) -> impl Iterator<Item = (&'static str, Self)> {
        let keys = ["errors", "failed", "result", "succeeded"];
        keys.into_iter().filter_map(move |key| match self {
            Self::One(_) | Self::Many(_) => Some((key, self.child(key)?)),
            Self::Value(_) | Self::Results(_) => None,
        })
    }
}

fn index(segment: &str) -> Option<usize> {
    segment.parse().ok()
}

impl Serialize for Seen<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Value(value) => value.serialize(to),
            Self::Results(items) => to.collect_seq(items.iter()),
            Self::One(_) | Self::Many(_) => {
                let mut map = to.serialize_map(None)?;
                self.fields().try_for_each(|(key, seen)| map.serialize_entry(key, &seen))?;
                map.end()
            }
        }
    }
}
