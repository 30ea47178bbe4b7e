//! `${...}` in arguments: `${input.x}`, `${steps.ID.result.x}`, `${item.x}`, `${index}`,
//! `${_last_error.code}`, `${_errors.0.code}`, `${result.x}`. A text that is one reference becomes the
//! value itself; a reference inside a longer text is written into it. A missing value is null, or
//! empty inside a text.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::room::{Room, TooLarge};
use super::seen::{Root, Seen, Values};

/// A dotted path from a root. A segment that is a number also indexes an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    root: Root,
    /// The segments with dots between them; empty for none.
    rest: Box<str>,
}

/// Why a path or template is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The path has an unknown root.
    #[error("`{0}` has an unknown root; use input, steps.ID, item, index, _last_error or _errors")]
    Root(String),
    /// The path would read the environment.
    #[error("`{0}` would store a variable of the environment; send it in a header, as env:NAME")]
    Env(String),
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
        if text.split('.').any(|p| p.trim().is_empty()) {
            return Err(TemplateError::Empty(text.to_owned()));
        }
        let (first, mut rest) = split(text.trim());
        let root = match first {
            "input" => Root::Input,
            "item" => Root::Item,
            "index" => Root::Index,
            "_last_error" => Root::LastError,
            "_errors" => Root::Errors,
            "result" => Root::Result,
            "steps" if !rest.is_empty() => {
                let (id, of_step) = split(rest);
                rest = of_step;
                Root::Step(id.to_owned())
            }
            "env" => return Err(TemplateError::Env(text.to_owned())),
            _ => return Err(TemplateError::Root(text.to_owned())),
        };
        Ok(Self { root, rest: rest.into() })
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

    fn segments(&self) -> impl Iterator<Item = &str> {
        self.rest.split('.').filter(|segment| !segment.is_empty())
    }

    /// What is at the path, if there is something.
    pub(crate) fn find<'v>(&self, values: &'v impl Values) -> Option<Seen<'v>> {
        let root = values.root(&self.root)?;
        self.segments().try_fold(root, Seen::child)
    }
}

fn split(path: &str) -> (&str, &str) {
    path.split_once('.').unwrap_or((path, ""))
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
        self.segments().try_for_each(|s| write!(f, ".{s}"))
    }
}

/// A JSON value with `${...}` in its texts. Stored as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub struct Template {
    raw: Value,
    node: Node,
}

/// What is to be filled in, beside the value as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    /// Nothing, here or further in.
    Literal,
    Whole(Box<Path>),
    Text(Box<[Piece]>),
    List(Box<[Node]>),
    /// In the order of the object's keys.
    Object(Box<[Node]>),
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
        Self { raw: Value::Object(serde_json::Map::new()), node: Node::Literal }
    }
}

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw.serialize(serializer)
    }
}

impl Template {
    /// The value with every `${...}` filled in from `values`.
    ///
    /// # Errors
    /// When it would be larger than [`MAX_VALUE`](super::MAX_VALUE); then nothing is filled in.
    pub(crate) fn render(&self, values: &impl Values) -> Result<Value, TooLarge> {
        self.node.render_within(&self.raw, values)
    }

    /// Whether the value is not too large to be filled in.
    pub(crate) fn fits(&self, values: &impl Values) -> bool {
        self.node.measure(&self.raw, values, &mut Room::new()).is_ok()
    }

    /// How many items the list has that it gives; `None` where it gives none.
    pub(crate) fn items(&self, values: &impl Values) -> Option<usize> {
        match &self.node {
            Node::Whole(path) => path.find(values)?.items(),
            _ => self.raw.as_array().map(Vec::len),
        }
    }

    /// The element at `index` of the list that it gives, without the rest of the list.
    ///
    /// # Errors
    /// When the element would be larger than [`MAX_VALUE`](super::MAX_VALUE).
    pub(crate) fn render_item(
        &self,
        values: &impl Values,
        index: usize,
    ) -> Result<Option<Value>, TooLarge> {
        match &self.node {
            Node::Whole(path) => {
                let item = path.find(values).and_then(|list| list.child(&index.to_string()));
                item.map(|item| {
                    Room::new().take_json(&item)?;
                    Ok(item.to_value())
                })
                .transpose()
            }
            node => {
                let raw = self.raw.as_array().and_then(|items| items.get(index));
                raw.map(|raw| node.inside(index).render_within(raw, values)).transpose()
            }
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
            Value::Array(items) => Self::parse_all(items.iter())?.map_or(Self::Literal, Self::List),
            Value::Object(map) => {
                Self::parse_all(map.values())?.map_or(Self::Literal, Self::Object)
            }
            _ => Self::Literal,
        })
    }

    /// `None` where there is nothing to fill in.
    fn parse_all<'v>(
        all: impl Iterator<Item = &'v Value>,
    ) -> Result<Option<Box<[Self]>>, TemplateError> {
        let nodes: Box<[Self]> = all.map(Self::parse).collect::<Result<_, _>>()?;
        Ok(nodes.iter().any(|node| *node != Self::Literal).then_some(nodes))
    }

    /// What is to be filled in at `index` of a list or of an object's values.
    fn inside(&self, index: usize) -> &Self {
        match self {
            Self::List(nodes) | Self::Object(nodes) => nodes.get(index).unwrap_or(&Self::Literal),
            _ => &Self::Literal,
        }
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
            return Ok(Self::Literal);
        }
        if !rest.is_empty() {
            pieces.push(Piece::Plain(rest.to_owned()));
        }
        Ok(match pieces.as_slice() {
            [Piece::Path(path)] => Self::Whole(Box::new(path.clone())),
            _ => Self::Text(pieces.into()),
        })
    }

    fn render_within(&self, raw: &Value, values: &impl Values) -> Result<Value, TooLarge> {
        self.measure(raw, values, &mut Room::new())?;
        Ok(self.render(raw, values))
    }

    /// Takes the room that the node needs as JSON text once it is filled in.
    fn measure(&self, raw: &Value, values: &impl Values, room: &mut Room) -> Result<(), TooLarge> {
        match self {
            Self::Literal => room.take_json(raw),
            Self::Whole(path) => {
                room.take_json(&path.find(values).unwrap_or(Seen::Value(&Value::Null)))
            }
            Self::Text(pieces) => {
                room.take(2)?;
                pieces.iter().try_for_each(|p| p.measure(values, room))
            }
            Self::List(items) => {
                room.take(2 + items.len().saturating_sub(1))?;
                let raws = raw.as_array().into_iter().flatten();
                items.iter().zip(raws).try_for_each(|(item, raw)| item.measure(raw, values, room))
            }
            Self::Object(fields) => {
                room.take(2 + fields.len().saturating_sub(1))?;
                let raws = raw.as_object().into_iter().flatten();
                fields.iter().zip(raws).try_for_each(|(field, (key, raw))| {
                    room.take(3)?;
                    room.take_text(key)?;
                    field.measure(raw, values, room)
                })
            }
        }
    }

    /// Only after [`Node::measure`]: what is filled in is copied.
    fn render(&self, raw: &Value, values: &impl Values) -> Value {
        match self {
            Self::Literal => raw.clone(),
            Self::Whole(path) => path.find(values).map_or(Value::Null, Seen::to_value),
            Self::Text(pieces) => {
                let mut text = String::new();
                pieces.iter().for_each(|p| p.render(values, &mut text));
                Value::String(text)
            }
            Self::List(items) => {
                let raws = raw.as_array().into_iter().flatten();
                items.iter().zip(raws).map(|(item, raw)| item.render(raw, values)).collect()
            }
            Self::Object(fields) => {
                let raws = raw.as_object().into_iter().flatten();
                let filled = fields.iter().zip(raws);
                let filled =
                    filled.map(|(field, (key, raw))| (key.clone(), field.render(raw, values)));
                Value::Object(filled.collect())
            }
        }
    }

    fn collect<'n>(&'n self, found: &mut Vec<&'n Path>) {
        match self {
            Self::Literal => {}
            Self::Whole(path) => found.push(path),
            Self::Text(pieces) => found.extend(pieces.iter().filter_map(Piece::path)),
            Self::List(nodes) | Self::Object(nodes) => {
                nodes.iter().for_each(|node| node.collect(found))
            }
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

    fn measure(&self, values: &impl Values, room: &mut Room) -> Result<(), TooLarge> {
        match self {
            Self::Plain(text) => room.take_text(text),
            Self::Path(path) => match path.find(values) {
                None | Some(Seen::Value(Value::Null)) => Ok(()),
                Some(Seen::Value(Value::String(text))) => room.take_text(text),
                Some(other) => room.take_json_text(&other),
            },
        }
    }

    fn render(&self, values: &impl Values, to: &mut String) {
        match self {
            Self::Plain(text) => to.push_str(text),
            Self::Path(path) => match path.find(values) {
                None | Some(Seen::Value(Value::Null)) => {}
                Some(Seen::Value(Value::String(text))) => to.push_str(text),
                Some(other) => to.push_str(&other.to_value().to_string()),
            },
        }
    }
}
