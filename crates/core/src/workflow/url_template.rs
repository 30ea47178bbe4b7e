//! `${args.NAME}` in the path and the query of an endpoint's URL. The values are escaped, so none
//! can end its part of the path or its place in the query, or change where the request goes.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::Value;

/// Why a URL's templates are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UrlTemplateError {
    #[error("`{0}` has a `${{` without a `}}`; close it")]
    Open(String),
    #[error(
        "a template can't stand in the URL's scheme, host or port; write them out, and use ${{args.NAME}} in the path and the query"
    )]
    Host,
    #[error("`${{{0}}}` would store a secret in the URL; send it in a header, as env:NAME")]
    Env(String),
    #[error("`${{{0}}}` names no argument; write ${{args.NAME}}")]
    Unnamed(String),
    #[error(
        "a URL reads only the step's arguments, not `${{{0}}}`; add {name} = \"${{{0}}}\" to the step's args, and write ${{args.{name}}}", name = name_for(.0)
    )]
    Root(String),
}

/// An argument that the request can't carry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the argument `{argument}` {why}")]
pub struct ArgumentError {
    /// Its name, or the path to what is wrong in it.
    pub argument: String,
    why: &'static str,
}

impl ArgumentError {
    pub(super) fn new(argument: &str, why: &'static str) -> Self {
        Self { argument: argument.to_owned(), why }
    }
}

/// A URL's pieces in order.
pub(crate) struct UrlTemplate<'u>(Vec<Piece<'u>>);

enum Piece<'u> {
    Plain(&'u str),
    /// The path to an argument, without `args.`.
    Argument {
        path: &'u str,
        in_query: bool,
    },
}

/// A name for the argument that holds what a reference reads.
fn name_for(reference: &str) -> &str {
    reference.rsplit('.').map(str::trim).find(|name| !name.is_empty()).unwrap_or("NAME")
}

const MISSING: &str = "is missing, and the URL needs it; add it to the step's args";
const EMPTY: &str = "is empty, and a part of a URL's path can't be; pass a value";
const DOTS: &str =
    "is dots alone, which would lead to another path of the host; pass another value";
const NESTED: &str = "is a list or a table, which a part of a URL can't hold; pass a text, a number or a boolean of it";

impl<'u> UrlTemplate<'u> {
    /// Reads a URL.
    ///
    /// # Errors
    /// When a template stands where none can, or names no argument.
    pub(crate) fn parse(url: &'u str) -> Result<Self, UrlTemplateError> {
        let host = url.find("://").map_or(0, |at| at + 3);
        let path = url[host..].find(['/', '?']).map_or(url.len(), |at| host + at);
        let (mut pieces, mut at, mut in_query) = (Vec::new(), 0, false);
        while let Some(start) = url[at..].find("${").map(|found| at + found) {
            let open = || UrlTemplateError::Open(url[start..].to_owned());
            let inner = &url[start + 2..];
            let inner = &inner[..inner.find('}').ok_or_else(open)?];
            if start < path {
                return Err(UrlTemplateError::Host);
            }
            let named = inner.trim().strip_prefix("args.");
            let named = named.filter(|path| path.split('.').all(|name| !name.trim().is_empty()));
            let argument = named.ok_or_else(|| match inner.trim().split('.').next() {
                Some("env") => UrlTemplateError::Env(inner.to_owned()),
                Some("args") => UrlTemplateError::Unnamed(inner.to_owned()),
                _ => UrlTemplateError::Root(inner.to_owned()),
            })?;
            let before = &url[at..start];
            in_query |= before.contains('?');
            pieces.push(Piece::Plain(before));
            pieces.push(Piece::Argument { path: argument, in_query });
            at = start + 3 + inner.len();
        }
        pieces.push(Piece::Plain(&url[at..]));
        Ok(Self(pieces))
    }

    /// Reads a URL that a parser has accepted. One that was made otherwise and is not accepted has no
    /// templates.
    pub(super) fn of_accepted(url: &'u str) -> Self {
        Self::parse(url).unwrap_or_else(|_| Self(vec![Piece::Plain(url)]))
    }

    /// The URL without its templates.
    pub(crate) fn plain(&self) -> impl Iterator<Item = &'u str> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Plain(text) => Some(*text),
            Piece::Argument { .. } => None,
        })
    }

    fn arguments(&self) -> impl Iterator<Item = (&'u str, bool)> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Argument { path, in_query } => Some((*path, *in_query)),
            Piece::Plain(_) => None,
        })
    }

    pub(super) fn names_any(&self) -> bool {
        self.arguments().next().is_some()
    }

    /// Whether the whole argument `name` stands in the URL.
    pub(super) fn names(&self, name: &str) -> bool {
        self.arguments().any(|(path, _)| path == name)
    }

    /// The URL with every argument escaped in its place.
    pub(super) fn fill(&self, args: &Value) -> Result<String, ArgumentError> {
        let mut url = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Plain(text) => url.push_str(text),
                Piece::Argument { path, in_query } => {
                    let wrong = |why| ArgumentError::new(path, why);
                    let value = find(args, path).ok_or_else(|| wrong(MISSING))?;
                    let text = plain(value).ok_or_else(|| wrong(NESTED))?;
                    fits(&text, *in_query).map_err(wrong)?;
                    encode(&text, &mut url);
                }
            }
        }
        Ok(url)
    }

    /// Whether the arguments can be filled in, as far as they are known before a run.
    pub(super) fn check(&self, args: &Value) -> Result<(), ArgumentError> {
        for (path, in_query) in self.arguments() {
            let wrong = |why| ArgumentError::new(path, why);
            let known = path.split('.').try_fold(args, |value, name| match value {
                Value::String(text) if text.contains("${") => Ok(value),
                _ => child(value, name).ok_or(MISSING),
            });
            match plain(known.map_err(wrong)?) {
                Some(text) => fits(&text, in_query).map_err(wrong)?,
                None => return Err(wrong(NESTED)),
            }
        }
        Ok(())
    }
}

/// Whether a text can stand in its place. A path that lost one of its parts leads elsewhere.
fn fits(text: &str, in_query: bool) -> Result<(), &'static str> {
    match text {
        "" if !in_query => Err(EMPTY),
        dots if !in_query && dots.bytes().all(|b| b == b'.') => Err(DOTS),
        _ => Ok(()),
    }
}

fn find<'v>(args: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(args, child)
}

fn child<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    match value {
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        value => value.get(name),
    }
}

/// A text, a number, a boolean or nothing as text.
pub(super) fn plain(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::Null => Some("".into()),
        Value::String(text) => Some(text.into()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string().into()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// Writes `text` with everything but RFC 3986's unreserved characters as `%XX`, which is right in
/// a path, in a query and in a form.
pub(super) fn encode(text: &str, to: &mut String) {
    for b in text.bytes() {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                to.push(char::from(b));
            }
            _ => {
                // Writing to a text can't fail.
                let _ = write!(to, "%{b:02X}");
            }
        }
    }
}
