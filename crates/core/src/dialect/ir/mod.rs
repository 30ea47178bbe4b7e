//! Waymark's and Rappel's syntax: bracketed policies behind calls of actions.
//!
//! ```text
//! # One statement a line; an argument that names an earlier result is a dependency.
//! user  = @fetch_user(id=7)   [retry: 3, backoff: 60] [timeout: 2m]
//! score = @rate(user=user)    [(ValueError, KeyError) -> retry: 3, backoff: 30s]
//! @notify(text="done", score=score.value)
//! ```

mod bracket;
mod call;
mod program;
mod setting;
mod statement;

pub(super) use bracket::MOST_RULES;
pub use program::parse_ir_program;
pub(super) use program::statements;
pub(super) use statement::{Expr, Statement};

use super::scan::Input;
use super::tree::{Data, Node};
use super::{Diagnostic, Place};
use crate::policy::{Dialect, Policy, PolicyParts};

/// Reads bracket text such as `[retry: 3] [timeout: 2m]` at `place`.
pub(super) fn brackets(place: &Place, text: &str) -> Result<Policy, Diagnostic> {
    let mut input = Input::new(text);
    let brackets = bracket::alone(&mut input).map_err(|fault| fault.within(place))?;
    let mut parts = PolicyParts::new(Dialect::Ir);
    brackets.into_parts(&mut parts);
    super::policy_from(parts, place)
}

/// Reads the bracket text of a tree's field.
pub(super) fn read(node: &Node) -> Result<Policy, Diagnostic> {
    let text = node.text()?;
    match inside(node, text) {
        Some(place) => brackets(&place, text),
        // The text has escapes, so its columns are not those of the file.
        None => brackets(&node.place, text)
            .map_err(|e| node.place.error(e.message()).help_with(e.help().unwrap_or_default())),
    }
}

/// The place of a text's content within its quotes; `None` when it was written with escapes.
fn inside(node: &Node, text: &str) -> Option<Place> {
    let Data::Text(_) = node.data else { return None };
    let span = node.place.span();
    let written = node.place.source().text.get(span.clone())?;
    let start = written.find(|c| !matches!(c, '"' | '\'' | '\n' | '\r'))?;
    written.get(start..)?.starts_with(text).then(|| {
        let start = span.start + start;
        node.place.at(start..start + text.len())
    })
}
