//! A definition as JSON text, written once however many runs it has.

use std::sync::{Arc, OnceLock};

use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use sha2::{Digest as _, Sha256};

use super::{Nesting, Workflow};

/// The text of a definition, once it was asked for. It says nothing that the definition does not, so
/// all are equal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written(OnceLock<Text>);

#[derive(Clone, Debug)]
struct Text {
    json: Box<RawValue>,
    /// What has hashed `[` and the text.
    hash: Sha256,
    nesting: usize,
}

impl PartialEq for Written {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Written {}

impl Workflow {
    fn written(&self) -> &Text {
        self.1.0.get_or_init(|| {
            // Maps have text keys and no value's serialisation fails, so neither can this.
            let json = to_raw_value(&self.0);
            invariant!(json.is_ok(), "a definition could not be written: {json:?}");
            let json = json.unwrap_or_default();
            let hash = Sha256::new().chain_update("[").chain_update(json.get());
            let nesting = Nesting::of(json.get().as_bytes());
            Text { json, hash, nesting }
        })
    }

    /// What has hashed `[` and the definition's text.
    pub(crate) fn hash(&self) -> Sha256 {
        self.written().hash.clone()
    }

    /// How deep the definition's text is nested.
    pub(crate) fn nesting(&self) -> usize {
        self.written().nesting
    }
}

/// Writes a definition's text as it is.
pub(crate) fn serialize<S: Serializer>(
    workflow: &Arc<Workflow>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    workflow.written().json.serialize(serializer)
}
