//! The room that a filled-in template may take, measured before anything is written.

use std::io;

use serde::Serialize;

/// The largest value that an action is given or gives, as compact JSON text, in bytes: 256 KiB.
pub const MAX_VALUE: usize = 256 * 1024;

/// A filled-in template would be larger than [`MAX_VALUE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// What is left of the room. Taking more than that ends at once, however much would follow.
pub(super) struct Room(usize);

impl Room {
    pub(super) fn new() -> Self {
        Self(MAX_VALUE)
    }

    pub(super) fn take(&mut self, bytes: usize) -> Result<(), TooLarge> {
        self.0 = self.0.checked_sub(bytes).ok_or(TooLarge)?;
        Ok(())
    }

    /// Takes what `value` is as JSON text.
    pub(super) fn take_json(&mut self, value: &impl Serialize) -> Result<(), TooLarge> {
        serde_json::to_writer(Plain(self), value).map_err(|_| TooLarge)
    }

    /// Takes what `text` is inside the quotes of a JSON text.
    pub(super) fn take_text(&mut self, text: &str) -> Result<(), TooLarge> {
        text.bytes().try_for_each(|b| self.take(escaped(b)))
    }

    /// Takes what the JSON text of `value` is inside the quotes of another.
    pub(super) fn take_json_text(&mut self, value: &impl Serialize) -> Result<(), TooLarge> {
        serde_json::to_writer(Quoted(self), value).map_err(|_| TooLarge)
    }
}

/// The bytes that JSON writes for a byte of a text.
fn escaped(b: u8) -> usize {
    match b {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0x00..=0x1f => 6,
        _ => 1,
    }
}

struct Plain<'r>(&'r mut Room);

impl io::Write for Plain<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        taken(self.0.take(bytes.len()), bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Quoted<'r>(&'r mut Room);

impl io::Write for Quoted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        taken(bytes.iter().try_for_each(|b| self.0.take(escaped(*b))), bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn taken(room: Result<(), TooLarge>, bytes: &[u8]) -> io::Result<usize> {
    room.map(|()| bytes.len()).map_err(|TooLarge| io::ErrorKind::OutOfMemory.into())
}
