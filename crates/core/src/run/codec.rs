//! Stored bytes: one byte of format version, then the value. Events are written in postcard's binary
//! form, snapshots and dead letters as JSON. Bytes of every earlier version stay readable; golden records
//! in `tests/run/golden_records.rs` hold that.

use std::cmp::Ordering;
use std::{mem, slice};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{Event, Letter, Recorded, RunState, stored};
use crate::workflow::Nesting;

/// JSON: snapshots, dead letters, and the first form of events.
const JSON: u8 = 1;
/// [postcard](https://postcard.jamesmunns.com/wire-format): events.
const BINARY: u8 = 2;

/// Stored bytes that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// There are none.
    #[error("the record is empty")]
    Empty,
    /// A newer program wrote them.
    #[error("the record has format {found}; this program reads up to {BINARY}: upgrade it")]
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
    encode_all(slice::from_ref(event)).pop().unwrap_or_default()
}

/// Events as stored bytes, which share one buffer.
#[must_use]
pub fn encode_all(events: &[Recorded]) -> Vec<Bytes> {
    // Most events are shorter.
    let mut bytes = Vec::with_capacity(64 * events.len());
    let mut ends = Vec::with_capacity(events.len());
    for event in events {
        let written = postcard::to_extend(&(BINARY, stored::Writes(event)), bytes);
        invariant!(written.is_ok(), "an event could not be written: {written:?}");
        bytes = written.unwrap_or_default();
        ends.push(bytes.len());
    }
    // Stores in memory keep these bytes.
    bytes.shrink_to_fit();
    let (all, mut start) = (Bytes::from(bytes), 0);
    let cut = |end| all.slice(mem::replace(&mut start, end)..end);
    ends.into_iter().map(cut).collect()
}

/// An event from stored bytes.
///
/// # Errors
/// When the bytes are damaged or newer than this program.
pub fn decode(bytes: &[u8]) -> Result<Recorded, DecodeError> {
    read_event::<stored::Reads>(bytes).map(Recorded::from)
}

/// What begins with an event's format.
pub(super) fn read_event<'b, T: Deserialize<'b>>(bytes: &'b [u8]) -> Result<T, DecodeError> {
    let Some((&BINARY, value)) = bytes.split_first() else { return read(bytes) };
    match postcard::take_from_bytes(value) {
        Ok((event, [])) => Ok(event),
        Ok(_) => Err(DecodeError::Damaged("something follows the event".to_owned())),
        Err(e) => Err(DecodeError::Damaged(e.to_string())),
    }
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
/// back; the rest is for what the stored forms put around it.
pub const MAX_NESTING: usize = 100;

/// How deep the JSON in an event that creates a run is nested, its definition or its input; 0 for others.
#[must_use]
pub fn nesting(event: &Event) -> usize {
    let Event::RunCreated { workflow, input, .. } = event else { return 0 };
    let mut nesting = Nesting::default();
    let written = serde_json::to_writer(&mut nesting, input);
    invariant!(written.is_ok(), "an input could not be written: {written:?}");
    workflow.nesting().max(nesting.deepest())
}

fn write(value: &impl Serialize) -> Bytes {
    let mut bytes = Vec::with_capacity(256);
    bytes.push(JSON);
    // Maps have text keys and no value's serialisation fails, so neither can this.
    let written = serde_json::to_writer(&mut bytes, value);
    invariant!(written.is_ok(), "a state could not be written: {written:?}");
    // Stores in memory keep these bytes.
    bytes.shrink_to_fit();
    Bytes::from(bytes)
}

pub(super) fn read<'b, T: Deserialize<'b>>(bytes: &'b [u8]) -> Result<T, DecodeError> {
    match bytes.split_first() {
        None => Err(DecodeError::Empty),
        Some((&found, json)) => match found.cmp(&JSON) {
            Ordering::Less => Err(DecodeError::Damaged(format!("unknown format {found}"))),
            Ordering::Equal => {
                serde_json::from_slice(json).map_err(|e| DecodeError::Damaged(e.to_string()))
            }
            Ordering::Greater => Err(DecodeError::Newer { found }),
        },
    }
}
