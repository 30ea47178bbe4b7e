//! `[[transitions]]`.

use std::collections::BTreeSet;

use super::condition;
use super::condition::About;
use super::step::Ids;
use crate::dialect::tree::{Data, Fields, Node};
use crate::dialect::{Diagnostic, Errors, Place};
use crate::workflow::Transition;

const KEYS: [&str; 7] =
    ["from", "from_node_id", "to", "to_node_id", "priority", "on_error", "condition"];

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
        let Some(read) = errors.read(node, |node| transition(node, ids)) else { continue };
        transitions.push(read);
        places.push(node.place.clone());
    }
    (transitions, places)
}

fn transition(node: &Node, ids: &Ids<'_>) -> Result<Transition, Diagnostic> {
    let fields = node.fields(&KEYS)?;
    // The second is what Capability 5 calls it.
    let end = |key, other, help| match fields.at_most_one(&[key, other])? {
        Some((_, step)) => ids.place_of(step),
        None => ids.place_of(fields.require(key, help)?),
    };
    Ok(Transition {
        from: end("from", "from_node_id", "name the step it leads from")?,
        to: end("to", "to_node_id", "name the step it leads to")?,
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
