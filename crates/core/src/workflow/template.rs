//! `${...}` in arguments: `${input.x}`, `${steps.ID.result.x}`, `${item.x}`, `${index}`,
//! `${_last_error.code}`, `${_errors.0.code}`, `${result.x}`. A text that is one reference becomes the
//! value itself; a reference inside a longer text is written into it. A missing value is null, or
//! empty inside a text.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Where the values come from when a template is filled in or a condition is judged.
pub(crate) trait Values {
    /// The value that `root` stands for, if there is one.
    fn root(&self, root: &Root) -> Option<Cow<'_, Value>>;

    /// The value of `steps.ID.result` by reference, where that saves a copy.
    fn result(&self, _id: &str) -> Option<&Value> {
        None
    }
}

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

/// A dotted path from a root. A segment that is a number also indexes an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    root: Root,
    segments: Vec<String>,
}

/// Why a path or template is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The path has an unknown root.
    #[error("`{0}` has an unknown root; use input, steps.ID, item, index, _last_error or _errors")]
    Root(String),
    /// A segment is empty.
    #[error("`{0}` has an empty part between its dots")]
    Empty(String),
    /// `${` without `}`.
    #[error("`{0}` has a `${{` without a `}}`")]
    Open(String),
    /// A condition's field does not start with `state.`.
    #[error("`{0}` does not start with `state.`; a condition reads the run's state")]
    NotState(String),
}

impl Path {
    /// Parses `input.x`, `steps.ID.result` and so on.
    ///
    /// # Errors
    /// When the root is unknown or a segment is empty.
    pub(crate) fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut parts = text.trim().split('.');
        if text.split('.').any(|p| p.trim().is_empty()) {
            return Err(TemplateError::Empty(text.to_owned()));
        }
        let root = match (parts.next().unwrap_or_default(), text) {
            ("input", _) => Root::Input,
            ("item", _) => Root::Item,
            ("index", _) => Root::Index,
            ("_last_error", _) => Root::LastError,
            ("_errors", _) => Root::Errors,
            ("result", _) => Root::Result,
            ("steps", _) => match parts.next() {
                Some(id) => Root::Step(id.to_owned()),
                None => return Err(TemplateError::Root(text.to_owned())),
            },
            _ => return Err(TemplateError::Root(text.to_owned())),
        };
        Ok(Self { root, segments: parts.map(str::to_owned).collect() })
    }

    /// Parses a condition's `state.input.x`, `state._last_error.code` and so on.
    ///
    /// # Errors
    /// When `state.` is missing, the root is unknown or a segment is empty.
    pub(crate) fn parse_state(text: &str) -> Result<Self, TemplateError> {
        let inner =
            text.strip_prefix("state.").ok_or_else(|| TemplateError::NotState(text.to_owned()))?;
        Self::parse(inner)
    }

    /// What it starts from.
    #[must_use]
    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    /// The value at the path, if there is one.
    pub(crate) fn find<'v>(&self, values: &'v impl Values) -> Option<Cow<'v, Value>> {
        let (start, segments) = match (&self.root, self.segments.split_first()) {
            (Root::Step(id), Some((first, rest))) if first == "result" => match values.result(id) {
                Some(result) => (Cow::Borrowed(result), rest),
                None => (values.root(&self.root)?, &*self.segments),
            },
            _ => (values.root(&self.root)?, &*self.segments),
        };
        segments.iter().try_fold(start, |at, segment| match at {
            Cow::Borrowed(v) => child(v, segment).map(Cow::Borrowed),
            Cow::Owned(v) => child(&v, segment).cloned().map(Cow::Owned),
        })
    }
}

fn child<'v>(value: &'v Value, segment: &str) -> Option<&'v Value> {
    match value {
        Value::Object(map) => map.get(segment),
        Value::Array(items) => items.get(segment.parse::<usize>().ok()?),
        _ => None,
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.root {
            Root::Input => f.write_str("input")?,
            Root::Step(id) => write!(f, "steps.{id}")?,
            Root::Item => f.write_str("item")?,
            Root::Index => f.write_str("index")?,
            Root::LastError => f.write_str("_last_error")?,
            Root::Errors => f.write_str("_errors")?,
            Root::Result => f.write_str("result")?,
        }
        self.segments.iter().try_for_each(|s| write!(f, ".{s}"))
    }
}

/// A JSON value with `${...}` in its texts. Stored as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub struct Template {
    raw: Value,
    node: Node,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Literal(Value),
    Whole(Path),
    Text(Vec<Piece>),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Plain(String),
    Path(Path),
}

impl TryFrom<Value> for Template {
    type Error = TemplateError;

    fn try_from(raw: Value) -> Result<Self, TemplateError> {
        Ok(Self { node: Node::parse(&raw)?, raw })
    }
}

/// No arguments: an empty object.
impl Default for Template {
    fn default() -> Self {
        Self { raw: Value::Object(serde_json::Map::new()), node: Node::Object(Vec::new()) }
    }
}

impl From<Template> for Value {
    fn from(template: Template) -> Self {
        template.raw
    }
}

impl Template {
    /// The value with every `${...}` filled in from `values`.
    pub(crate) fn render(&self, values: &impl Values) -> Value {
        self.node.render(values)
    }

    /// The element at `index` of the list that it gives, without the rest of the list.
    pub(crate) fn render_item(&self, values: &impl Values, index: usize) -> Option<Value> {
        match &self.node {
            Node::Whole(path) => path.find(values)?.get(index).cloned(),
            Node::List(items) => items.get(index).map(|i| i.render(values)),
            Node::Literal(_) | Node::Text(_) | Node::Object(_) => None,
        }
    }

    /// Every path that it reads.
    #[must_use]
    pub(crate) fn paths(&self) -> Vec<&Path> {
        let mut found = Vec::new();
        self.node.collect(&mut found);
        found
    }

    /// The value as it was written.
    #[must_use]
    pub fn raw(&self) -> &Value {
        &self.raw
    }
}

impl Node {
    fn parse(raw: &Value) -> Result<Self, TemplateError> {
        Ok(match raw {
            Value::String(text) => Self::parse_text(text)?,
            Value::Array(items) => {
                Self::List(items.iter().map(Self::parse).collect::<Result<_, _>>()?)
            }
            Value::Object(map) => {
                let parsed = map.iter().map(|(k, v)| Ok((k.clone(), Self::parse(v)?)));
                Self::Object(parsed.collect::<Result<_, TemplateError>>()?)
            }
            other => Self::Literal(other.clone()),
        })
    }

    fn parse_text(text: &str) -> Result<Self, TemplateError> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let after = &rest[start + 2..];
            let end = after.find('}').ok_or_else(|| TemplateError::Open(text.to_owned()))?;
            if start > 0 {
                pieces.push(Piece::Plain(rest[..start].to_owned()));
            }
            pieces.push(Piece::Path(Path::parse(&after[..end])?));
            rest = &after[end + 1..];
        }
        if pieces.is_empty() {
            return Ok(Self::Literal(Value::String(text.to_owned())));
        }
        if !rest.is_empty() {
            pieces.push(Piece::Plain(rest.to_owned()));
        }
        Ok(match pieces.as_slice() {
            [Piece::Path(path)] => Self::Whole(path.clone()),
            _ => Self::Text(pieces),
        })
    }

    fn render(&self, values: &impl Values) -> Value {
        match self {
            Self::Literal(value) => value.clone(),
            Self::Whole(path) => path.find(values).map_or(Value::Null, Cow::into_owned),
            Self::Text(pieces) => Value::String(pieces.iter().map(|p| p.render(values)).collect()),
            Self::List(items) => items.iter().map(|i| i.render(values)).collect(),
            Self::Object(fields) => {
                Value::Object(fields.iter().map(|(k, v)| (k.clone(), v.render(values))).collect())
            }
        }
    }

    fn collect<'n>(&'n self, found: &mut Vec<&'n Path>) {
        match self {
            Self::Literal(_) => {}
            Self::Whole(path) => found.push(path),
            Self::Text(pieces) => found.extend(pieces.iter().filter_map(Piece::path)),
            Self::List(items) => items.iter().for_each(|i| i.collect(found)),
            Self::Object(fields) => fields.iter().for_each(|(_, v)| v.collect(found)),
        }
    }
}

impl Piece {
    fn path(&self) -> Option<&Path> {
        match self {
            Self::Plain(_) => None,
            Self::Path(path) => Some(path),
        }
    }

    fn render(&self, values: &impl Values) -> String {
        match self {
            Self::Plain(text) => text.clone(),
            Self::Path(path) => match path.find(values).as_deref() {
                None | Some(Value::Null) => String::new(),
                Some(Value::String(text)) => text.clone(),
                Some(other) => other.to_string(),
            },
        }
    }
}
