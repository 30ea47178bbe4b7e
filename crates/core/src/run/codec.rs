//! Stored bytes: one byte of format version, then JSON. Bytes of every released version stay
//! readable; golden records in `tests/golden_records.rs` hold that.

use std::cmp::Ordering;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{Letter, Recorded, RunState, stored};

/// The format written today.
const FORMAT: u8 = 1;

/// Stored bytes that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// There are none.
    #[error("the record is empty")]
    Empty,
    /// A newer program wrote them.
    #[error("the record has format {found}; this program reads up to {FORMAT}: upgrade it")]
    Newer {
        /// The format found.
        found: u8,
    },
    /// They are not what they should be.
    #[error("the record is damaged: {0}")]
    Damaged(String),
}

/// An event as stored bytes.
#[must_use]
pub fn encode(event: &Recorded) -> Bytes {
    write(&stored::Writes(event))
}

/// An event from stored bytes.
///
/// # Errors
/// When the bytes are damaged or newer than this program.
pub fn decode(bytes: &[u8]) -> Result<Recorded, DecodeError> {
    read::<stored::Reads>(bytes).map(Recorded::from)
}

/// A state as stored bytes. Equal states give equal bytes.
#[must_use]
pub fn encode_snapshot(state: &RunState) -> Bytes {
    write(state)
}

/// A dead letter as stored bytes.
#[must_use]
pub fn encode_letter(letter: &Letter) -> Bytes {
    write(letter)
}

/// A dead letter from stored bytes.
///
/// # Errors
/// When the bytes are damaged or newer than this program.
pub fn decode_letter(bytes: &[u8]) -> Result<Letter, DecodeError> {
    read(bytes)
}

/// The deepest nesting of what is to be stored, in levels. JSON nested deeper than 127 can't be read
/// back; the rest is for what the stored form puts around it.
pub const MAX_NESTING: usize = 100;

/// How deep JSON text is nested, found as its bytes come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nesting {
    depth: usize,
    deepest: usize,
    in_text: bool,
    escaped: bool,
}

impl Nesting {
    /// The deepest level so far.
    #[must_use]
    pub fn deepest(&self) -> usize {
        self.deepest
    }

    /// Takes the next bytes in.
    pub fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_text => self.escaped = true,
                b'"' => self.in_text = !self.in_text,
                b'[' | b'{' if !self.in_text => {
                    self.depth += 1;
                    self.deepest = self.deepest.max(self.depth);
                }
                b']' | b'}' if !self.in_text => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    /// Of bytes that are whole.
    #[must_use]
    pub fn of(bytes: &[u8]) -> usize {
        let mut nesting = Self::default();
        nesting.take(bytes);
        nesting.deepest
    }
}

fn write(value: &impl Serialize) -> Bytes {
    let mut bytes = Vec::with_capacity(256);
    bytes.push(FORMAT);
    // Maps have text keys and no value's serialisation fails, so neither can this.
    let written = serde_json::to_writer(&mut bytes, value);
    invariant!(written.is_ok(), "an event or state could not be written: {written:?}");
    // Stores in memory keep these bytes.
    bytes.shrink_to_fit();
    Bytes::from(bytes)
}

pub(super) fn read<'b, T: Deserialize<'b>>(bytes: &'b [u8]) -> Result<T, DecodeError> {
    match bytes.split_first() {
        None => Err(DecodeError::Empty),
        Some((&found, json)) => match found.cmp(&FORMAT) {
            Ordering::Less => Err(DecodeError::Damaged(format!("unknown format {found}"))),
            Ordering::Equal => {
                serde_json::from_slice(json).map_err(|e| DecodeError::Damaged(e.to_string()))
            }
            Ordering::Greater => Err(DecodeError::Newer { found }),
        },
    }
}
