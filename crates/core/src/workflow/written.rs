//! A definition as JSON text, written once however many runs it has.

use std::sync::{Arc, OnceLock};

use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use sha2::{Digest as _, Sha256};

use super::Workflow;

/// The text of a definition, once it was asked for. It says nothing that the definition does not, so
/// all are equal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written(OnceLock<(Box<RawValue>, Sha256)>);

impl PartialEq for Written {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Written {}

impl Workflow {
    fn written(&self) -> &(Box<RawValue>, Sha256) {
        self.1.0.get_or_init(|| {
            // Maps have text keys and no value's serialisation fails, so neither can this.
            let text = to_raw_value(&self.0);
            invariant!(text.is_ok(), "a definition could not be written: {text:?}");
            let text = text.unwrap_or_default();
            let hash = Sha256::new().chain_update("[").chain_update(text.get());
            (text, hash)
        })
    }

    /// What has hashed `[` and the definition's text.
    pub(crate) fn hash(&self) -> Sha256 {
        self.written().1.clone()
    }
}

/// Writes a definition's text as it is.
pub(crate) fn serialize<S: Serializer>(
    workflow: &Arc<Workflow>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    workflow.written().0.serialize(serializer)
}
