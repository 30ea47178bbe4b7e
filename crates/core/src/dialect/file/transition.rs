//! `[[transitions]]`.

use std::collections::BTreeSet;

use super::condition;
use super::condition::About;
use super::step::Ids;
use crate::dialect::tree::{Data, Fields, Node};
use crate::dialect::{Diagnostic, Errors, Place};
use crate::workflow::Transition;

const KEYS: [&str; 5] = ["from", "to", "priority", "on_error", "condition"];

/// The transitions and where they stand.
pub(super) fn read(
    fields: &Fields<'_>,
    ids: &Ids<'_>,
    errors: &mut Errors,
) -> (Vec<Transition>, Vec<Place>) {
    let items = fields.get("transitions").map_or(Ok([].as_slice()), Node::items);
    let items = errors.keep(items).unwrap_or_default();
    let (mut transitions, mut places) = (Vec::new(), Vec::new());
    for node in items {
        if errors.is_full() {
            break;
        }
        let Some(read) = errors.keep(transition(node, ids)) else { continue };
        transitions.push(read);
        places.push(node.place.clone());
    }
    (transitions, places)
}

fn transition(node: &Node, ids: &Ids<'_>) -> Result<Transition, Diagnostic> {
    let fields = node.fields(&KEYS)?;
    Ok(Transition {
        from: ids.place_of(fields.require("from", "name the step it leads from")?)?,
        to: ids.place_of(fields.require("to", "name the step it leads to")?)?,
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
