//! The seam's words for workflow definitions that are kept by name, and what a store does with them.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::records::Records;
use super::requests::Requests;
use super::seam::StoreError;
use crate::time::Timestamp;

/// A workflow's text under a name. How long either may be is the caller's business.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// The name.
    pub name: String,
    /// What the text is written in: `toml`, `json` or `ir`.
    pub format: String,
    /// The text.
    pub text: Bytes,
}

/// The answer to a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defined {
    /// Counted from 1 for each name. The same format and text again are the same revision.
    pub revision: u64,
    /// When that revision came, store time.
    pub at: Timestamp,
}

/// A definition as it is kept. Of each name the newest revision is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredDefinition {
    /// The definition.
    pub definition: Definition,
    /// Its revision.
    pub revision: u64,
    /// When that revision came, store time.
    pub at: Timestamp,
}

impl<S: Records> Requests<'_, S> {
    /// Keeps a definition, unless it is the newest of its name already.
    pub(super) fn define(&mut self, definition: &Definition) -> Result<Defined, StoreError> {
        let known = self.shelf.definition(&definition.name)?;
        if let Some(StoredDefinition { revision, at, .. }) =
            known.as_ref().filter(|known| known.definition == *definition)
        {
            return Ok(Defined { revision: *revision, at: *at });
        }
        let (revision, at) = (known.as_ref().map_or(0, |known| known.revision) + 1, self.now);
        let stored = StoredDefinition { definition: definition.clone(), revision, at };
        self.shelf.keep_definition(&stored, known.is_none())?;
        Ok(Defined { revision, at })
    }
}
