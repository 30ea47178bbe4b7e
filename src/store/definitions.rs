//! Workflow definitions by name: the seam's types, and what a store does with them.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::records::Records;
use super::requests::Requests;
use super::seam::StoreError;
use crate::time::Timestamp;

/// A workflow's text under a name. The caller limits the length of both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// The name.
    pub name: String,
    /// The format of the text: `toml`, `json` or `ir`.
    pub format: String,
    /// The text.
    pub text: Bytes,
}

/// The answer to [`Store::define`](super::Store::define).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defined {
    /// Counted from 1 for each name. The same format and text again are the same revision.
    pub revision: u64,
    /// When that revision was stored, store time.
    pub at: Timestamp,
}

/// A stored definition. The store keeps the newest revision of each name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredDefinition {
    /// The definition.
    pub definition: Definition,
    /// Its revision.
    pub revision: u64,
    /// When that revision was stored, store time.
    pub at: Timestamp,
}

impl<S: Records> Requests<'_, S> {
    /// Stores a definition, unless it is the newest of its name already.
    pub(super) fn define(&mut self, definition: &Definition) -> Result<Defined, StoreError> {
        let known = self.records.definition(&definition.name)?;
        if let Some(StoredDefinition { revision, at, .. }) =
            known.as_ref().filter(|known| known.definition == *definition)
        {
            return Ok(Defined { revision: *revision, at: *at });
        }
        let (revision, at) = (known.as_ref().map_or(0, |known| known.revision) + 1, self.now);
        let stored = StoredDefinition { definition: definition.clone(), revision, at };
        self.records.put_definition(&stored, known.is_none())?;
        Ok(Defined { revision, at })
    }
}
