//! Conditions in Capability 5's form, each part located.

use super::step::Ids;
use crate::dialect::Diagnostic;
use crate::dialect::tree::{Data, Fields, Node};
use crate::workflow::{Condition, Field, Root};

#[derive(Clone, Copy)]
enum Kind {
    Exists,
    Not,
    Eq,
    In,
    And,
    Or,
}

const KINDS: [(&str, Kind); 6] = [
    ("exists", Kind::Exists),
    ("not", Kind::Not),
    ("eq", Kind::Eq),
    ("in", Kind::In),
    ("and", Kind::And),
    ("or", Kind::Or),
];

/// What a condition is about, and so which fields it can look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// A step's beginning or end, as a whole.
    Step,
    /// The result of one attempt.
    Attempt,
    /// The result of one attempt for one item.
    Item,
}

/// Reads a condition; a step that it looks at must be among `ids`.
pub(super) fn read(node: &Node, about: About, ids: &Ids<'_>) -> Result<Condition, Diagnostic> {
    let kind = kind(node)?;
    Ok(match kind {
        Kind::Exists => {
            let fields = node.fields(&["type", "field"])?;
            Condition::Exists { field: field(&fields, about, ids)? }
        }
        Kind::Not => {
            let fields = node.fields(&["type", "condition"])?;
            let inner = fields.require("condition", "write the condition that must not hold")?;
            Condition::Not { condition: Box::new(read(inner, about, ids)?) }
        }
        Kind::Eq => {
            let fields = node.fields(&["type", "field", "value"])?;
            // `get` takes a null for absent, yet here null is a value.
            let value = match &node.data {
                Data::Table(entries) => entries.iter().find(|e| e.key == "value").map(|e| &e.node),
                _ => None,
            };
            let value = value.map_or_else(|| fields.require("value", "write what to find"), Ok)?;
            Condition::Eq { field: field(&fields, about, ids)?, value: value.to_json()? }
        }
        Kind::In => {
            let fields = node.fields(&["type", "field", "values"])?;
            let values = fields.require("values", "write the list to find one of")?.items()?;
            let values = values.iter().map(Node::to_json).collect::<Result<_, _>>()?;
            Condition::In { field: field(&fields, about, ids)?, values }
        }
        Kind::And => Condition::And { conditions: parts(node, about, ids)? },
        Kind::Or => Condition::Or { conditions: parts(node, about, ids)? },
    })
}

fn kind(node: &Node) -> Result<Kind, Diagnostic> {
    let found = node.entries()?.iter().find(|e| e.key == "type");
    let help = "say type = exists, not, eq, in, and, or";
    let found =
        found.ok_or_else(|| node.place.child("type").error("`type` is missing").help_with(help))?;
    found.node.choice(&KINDS)
}

fn parts(node: &Node, about: About, ids: &Ids<'_>) -> Result<Vec<Condition>, Diagnostic> {
    let fields = node.fields(&["type", "conditions"])?;
    let list = fields.require("conditions", "write the list of conditions")?;
    list.items()?.iter().map(|n| read(n, about, ids)).collect()
}

/// A path as a text, or as `{ type = "field", path = "..." }`.
fn field(fields: &Fields<'_>, about: About, ids: &Ids<'_>) -> Result<Field, Diagnostic> {
    let node = fields.require("field", "name the field to look at, such as state._last_error")?;
    let path = match &node.data {
        Data::Table(_) => {
            let long = node.fields(&["type", "path"])?;
            long.require("type", "say type = \"field\"")?.choice(&[("field", ())])?;
            long.require("path", "write a path such as state._last_error")?
        }
        _ => node,
    };
    let field = Field::parse(path.text()?).map_err(|e| path.place.refuse(&e))?;
    match field.path().root() {
        Root::Step(id) => ids.find(id, &path.place).map(|_| field),
        Root::Item | Root::Index if about != About::Item => Err(path
            .place
            .error("there is no single item here")
            .help_with("use state.input, state.steps.ID or state._last_error")),
        Root::Result if about == About::Step => Err(path
            .place
            .error("only `ensures` looks at the result of an attempt")
            .help_with("use state.steps.ID.result")),
        _ => Ok(field),
    }
}
