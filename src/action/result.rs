//! The limits of results, and results that are failures.

use std::io;

use serde::Serialize;
use serde_json::Value;

use crate::failure::Failure;
use crate::run::MAX_NESTING;
use crate::workflow::Nesting;

/// The largest result kept, as compact JSON text, in bytes: 256 KiB.
pub const MAX_RESULT: usize = crate::workflow::MAX_VALUE;

/// The failure that `value` describes, if it is an exception object: one whose `type` and `message`
/// are texts. Its `mro`, a list of type names, is the lineage.
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

/// The size and depth of a value as JSON text, measured without storing the text.
#[derive(Default)]
pub(super) struct Measure {
    size: usize,
    nesting: Nesting,
}

impl Measure {
    /// Measures `value` up to the greatest depth, so that no depth can exhaust the stack.
    pub(super) fn of(value: &impl Serialize) -> Self {
        let mut measure = Self::default();
        // A value that can't be written fails later, with its own error.
        let _ = serde_json::to_writer(&mut measure, value);
        measure
    }

    /// Fails with `RESULT_TOO_DEEP`, permanent, if the value is too deep to be read back.
    pub(super) fn depth(&self) -> Result<(), Failure> {
        if self.nesting.deepest() <= MAX_NESTING {
            return Ok(());
        }
        let message =
            format!("the result is nested deeper than {MAX_NESTING} levels; return a flatter one");
        Err(Failure::new("RESULT_TOO_DEEP", &message)
            .with_lineage(["ResultTooDeepError", "ValueError"]))
    }

    /// Fails with `RESULT_TOO_LARGE`, permanent, if the value is too large to store.
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
