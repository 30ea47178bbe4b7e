//! A located tree: what TOML and JSON have in common, with the place of every value.

mod json;
pub(super) mod load;
pub(super) mod print;
mod read;
mod suggest;
mod toml;

use std::path::Path;

use serde_json::{Map, Value};

pub use read::Fields;
pub(crate) use read::{NO_STATUSES, makes_sense};
pub(crate) use suggest::{Stem, did_you_mean, did_you_mean_one_of, misspelt};

use super::{Diagnostic, Place, Source, brief};

/// The syntax of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// TOML 1.1.
    Toml,
    /// JSON (RFC 8259), keys unique.
    Json,
}

impl Format {
    /// What the file's extension says; `None` for any but `.toml` and `.json`.
    #[must_use]
    pub fn from_extension(file: &str) -> Option<Self> {
        match Path::new(file).extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "toml" => Some(Self::Toml),
            "json" => Some(Self::Json),
            _ => None,
        }
    }

    /// What the text looks like: JSON begins with a brace.
    #[must_use]
    pub fn of_text(text: &str) -> Self {
        if text.trim_start().starts_with('{') { Self::Json } else { Self::Toml }
    }
}

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Where it stands.
    pub place: Place,
    /// What it is.
    pub data: Data,
}

/// What a [`Node`] is.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A decimal number as it was written, or `inf` or `nan`.
    Number(Box<str>),
    /// A text; also a TOML date.
    Text(Box<str>),
    /// A list.
    List(Box<[Node]>),
    /// A table, in text order, keys unique.
    Table(Box<[Entry]>),
}

/// One key of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub place: Place,
    /// Its value.
    pub node: Node,
}

impl Node {
    /// Parses `text`, called `file` in messages.
    ///
    /// # Errors
    /// The first place where the text breaks the format's grammar.
    pub fn parse(file: &str, text: &str, format: Format) -> Result<Self, Diagnostic> {
        let source = Source::new(file, text);
        match format {
            Format::Toml => toml::parse(&source),
            Format::Json => json::parse(&source),
        }
    }

    /// The same value without places.
    ///
    /// # Errors
    /// When a number does not fit JSON.
    pub fn to_json(&self) -> Result<Value, Diagnostic> {
        Ok(match &self.data {
            Data::Null => Value::Null,
            Data::Bool(b) => Value::Bool(*b),
            Data::Number(text) => self.json_number(text)?,
            Data::Text(text) => Value::String(text.as_ref().to_owned()),
            Data::List(items) => items.iter().map(Self::to_json).collect::<Result<_, _>>()?,
            Data::Table(_) => Value::Object(self.to_json_object()?),
        })
    }

    /// The same table without places.
    ///
    /// # Errors
    /// When the value is not a table, or a number does not fit JSON.
    pub fn to_json_object(&self) -> Result<Map<String, Value>, Diagnostic> {
        self.entries()?.iter().map(|e| Ok((e.key.clone(), e.node.to_json()?))).collect()
    }

    fn json_number(&self, text: &str) -> Result<Value, Diagnostic> {
        let number = serde_json::from_str(text.trim_start_matches('+')).map(Value::Number);
        number.map_err(|_| {
            self.place
                .error(format!("`{}` can't be written in JSON", brief(text)))
                .help_with("use a finite number that fits 64 bits, or a text")
        })
    }

    /// What kind of value it is, for messages.
    #[must_use]
    pub(crate) fn kind(&self) -> &'static str {
        match self.data {
            Data::Null => "null",
            Data::Bool(_) => "a boolean",
            Data::Number(_) => "a number",
            Data::Text(_) => "a text",
            Data::List(_) => "a list",
            Data::Table(_) => "a table",
        }
    }
}
