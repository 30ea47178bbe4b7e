//! `[[transitions]]`.

use std::collections::BTreeSet;

use super::condition::About;
use super::{condition, keep, step};
use crate::dialect::tree::{Data, Fields, Node};
use crate::dialect::{Diagnostic, Place};
use crate::workflow::Transition;

const KEYS: [&str; 5] = ["from", "to", "priority", "on_error", "condition"];

/// The transitions and where they stand.
pub(super) fn read(
    fields: &Fields<'_>,
    ids: &[String],
    errors: &mut Vec<Diagnostic>,
) -> (Vec<Transition>, Vec<Place>) {
    let items = fields.get("transitions").map_or(Ok([].as_slice()), Node::items);
    let items = keep(items, errors).unwrap_or_default();
    let read = |n: &Node| Some((keep(transition(n, ids), errors)?, n.place.clone()));
    items.iter().filter_map(read).unzip()
}

fn transition(node: &Node, ids: &[String]) -> Result<Transition, Diagnostic> {
    let fields = node.fields(&KEYS)?;
    Ok(Transition {
        from: step::place_of(fields.require("from", "name the step it leads from")?, ids)?,
        to: step::place_of(fields.require("to", "name the step it leads to")?, ids)?,
        priority: fields.get("priority").map_or(Ok(0), Node::whole)?,
        on_error: fields.get("on_error").map(errors_of).transpose()?,
        condition: fields
            .get("condition")
            .map(|n| condition::read(n, About::Step, ids))
            .transpose()?,
    })
}

/// The types or codes of an exception edge: a list, one name, or `true` for every failure.
fn errors_of(node: &Node) -> Result<BTreeSet<String>, Diagnostic> {
    match &node.data {
        Data::Text(_) => Ok([node.name()?.to_owned()].into()),
        Data::Bool(true) => Ok(BTreeSet::new()),
        _ => node.names(),
    }
}
