//! What a result may be, whoever gave it.

use std::io;

use serde_json::Value;

use super::Outcome;
use crate::failure::Failure;

/// The largest result kept, as compact JSON text, in bytes: 256 KiB.
pub const MAX_RESULT: usize = 256 * 1024;

/// `value` as a result, unless it is too large to keep: `RESULT_TOO_LARGE`, permanent.
pub(super) fn fitting(value: Value) -> Outcome {
    let mut size = Counter(0);
    if serde_json::to_writer(&mut size, &value).is_ok() {
        return Ok(value);
    }
    let message = format!(
        "the result is larger than {} KiB of JSON; store it elsewhere and return a reference",
        MAX_RESULT / 1024
    );
    Err(Failure::new("RESULT_TOO_LARGE", &message)
        .with_lineage(["ResultTooLargeError", "ValueError"]))
}

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

/// Counts bytes and refuses to go past the limit, so nothing is held.
struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        if self.0 > MAX_RESULT {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
