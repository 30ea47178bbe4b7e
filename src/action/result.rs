//! What a result may be, whoever gave it.

use std::io;

use serde::Serialize;
use serde_json::Value;

use crate::failure::Failure;
use crate::run::{MAX_NESTING, Nesting};

/// The largest result kept, as compact JSON text, in bytes: 256 KiB.
pub const MAX_RESULT: usize = 256 * 1024;

/// The failure that `value` stands for: an object whose `type` and `message` are texts (W7). Its
/// `mro`, a list of type names, is the lineage.
pub(super) fn exception(value: &Value) -> Option<Failure> {
    let kind = value.get("type")?.as_str()?;
    let message = value.get("message")?.as_str()?;
    let names = value.get("mro").and_then(Value::as_array).into_iter().flatten();
    let mro: Vec<String> = names.filter_map(Value::as_str).map(str::to_owned).collect();
    let failure = Failure::exception(kind, message, &mro);
    Some(match value.get("stack_trace").and_then(Value::as_str) {
        Some(trace) => failure.with_stack_trace(trace),
        None => failure,
    })
}

/// What a value is as JSON text, of which nothing is held.
#[derive(Default)]
pub(super) struct Measure {
    size: usize,
    nesting: Nesting,
}

impl Measure {
    /// Goes through `value` until it has ended or is too deep; so no depth can exhaust the stack.
    pub(super) fn of(value: &impl Serialize) -> Self {
        let mut measure = Self::default();
        // Whoever makes a result of it says why a value can't be written at all.
        let _ = serde_json::to_writer(&mut measure, value);
        measure
    }

    /// Whether it can be read back once it is stored: `RESULT_TOO_DEEP` where not, permanent.
    pub(super) fn depth(&self) -> Result<(), Failure> {
        if self.nesting.deepest() <= MAX_NESTING {
            return Ok(());
        }
        let message =
            format!("the result is nested deeper than {MAX_NESTING} levels; return a flatter one");
        Err(Failure::new("RESULT_TOO_DEEP", &message)
            .with_lineage(["ResultTooDeepError", "ValueError"]))
    }

    /// Whether it is small enough to keep: `RESULT_TOO_LARGE` where not, permanent.
    pub(super) fn size(&self) -> Result<(), Failure> {
        if self.size <= MAX_RESULT {
            return Ok(());
        }
        let message = format!(
            "the result is larger than {} KiB of JSON; store it elsewhere and return a reference",
            MAX_RESULT / 1024
        );
        Err(Failure::new("RESULT_TOO_LARGE", &message)
            .with_lineage(["ResultTooLargeError", "ValueError"]))
    }
}

impl io::Write for Measure {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.size = self.size.saturating_add(bytes.len());
        self.nesting.take(bytes);
        match self.nesting.deepest() > MAX_NESTING {
            true => Err(io::ErrorKind::InvalidData.into()),
            false => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
