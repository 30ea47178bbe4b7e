//! How many of several must succeed: `"all"`, `"any"` or `{ at_least = 2 }`.

use std::num::NonZeroU32;

use crate::dialect::Diagnostic;
use crate::dialect::tree::{Data, Node};
use crate::workflow::Quorum;

/// Reads `success` or `join`.
pub(super) fn read(node: &Node) -> Result<Quorum, Diagnostic> {
    match &node.data {
        Data::Table(_) => {
            let fields = node.fields(&["at_least"])?;
            let least = fields.require("at_least", "say how many must succeed")?;
            let count = NonZeroU32::new(least.count(1, u32::MAX)?);
            Ok(count.map_or(Quorum::Any, Quorum::AtLeast))
        }
        Data::Text(_) => node.choice(&[("all", Quorum::All), ("any", Quorum::Any)]),
        _ => Err(node
            .place
            .error("expected how many must succeed")
            .help_with("write \"all\", \"any\" or { at_least = 2 }")),
    }
}
