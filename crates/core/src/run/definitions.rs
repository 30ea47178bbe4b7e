//! Definitions by their stored text, so that those of many runs are read once.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::codec::{read, read_event};
use super::{DecodeError, Recorded, RunState, stored};
use crate::workflow::Workflow;

/// The definitions that stored bytes had of late. Runs with the same text share one.
#[derive(Debug, Default)]
pub struct Definitions {
    young: BTreeMap<Box<str>, Arc<Workflow>>,
    /// Dropped when `young` takes its place; what is asked for before that becomes young again.
    old: BTreeMap<Box<str>, Arc<Workflow>>,
    /// The length of the texts in `young`.
    bytes: usize,
}

/// The most bytes of text in each generation. One that is longer is kept alone.
const MOST: usize = 512 * 1_024;

/// A state from stored bytes, without its results.
///
/// # Errors
/// When the bytes are damaged or newer than this program.
pub fn decode_snapshot(bytes: &[u8]) -> Result<RunState, DecodeError> {
    Definitions::default().decode_snapshot(bytes)
}

impl Definitions {
    /// A run's first event from stored bytes.
    ///
    /// # Errors
    /// When the bytes are damaged, newer than this program, or another event.
    pub fn decode_creation(&mut self, bytes: &[u8]) -> Result<Recorded, DecodeError> {
        read_event::<stored::Creation<'_>>(bytes)?.read(|text| self.read(text))
    }

    /// A state from stored bytes, without its results.
    ///
    /// # Errors
    /// When the bytes are damaged or newer than this program.
    pub fn decode_snapshot(&mut self, bytes: &[u8]) -> Result<RunState, DecodeError> {
        let state = read::<stored::Snapshot<'_>>(bytes)?.read(|text| self.read(text))?;
        if state.is_sound() {
            Ok(state)
        } else {
            Err(DecodeError::Damaged("its steps are not its workflow's".to_owned()))
        }
    }

    fn read(&mut self, text: &str) -> Result<Arc<Workflow>, DecodeError> {
        if let Some(known) = self.young.get(text) {
            return Ok(Arc::clone(known));
        }
        let (text, workflow) = match self.old.remove_entry(text) {
            Some(known) => known,
            None => {
                let read = serde_json::from_str(text);
                (text.into(), read.map_err(|e| DecodeError::Damaged(e.to_string()))?)
            }
        };
        if self.bytes.saturating_add(text.len()) > MOST {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
        self.bytes += text.len();
        self.young.insert(text, Arc::clone(&workflow));
        Ok(workflow)
    }
}
