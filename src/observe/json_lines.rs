use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Notice, Observer, json};

/// Writes each notice as one line of JSON, in the schema of `docs/events.md`.
///
/// Each line is written at once, without a buffer, so a crash loses no line. A slow reader slows the
/// node down. After the first error nothing more is written: a reader that disconnects must not
/// affect runs.
#[derive(Debug)]
pub struct JsonLines<W>(Mutex<Writer<W>>);

#[derive(Debug)]
struct Writer<W> {
    out: W,
    broken: Option<io::Error>,
}

impl<W: Write> JsonLines<W> {
    /// Writes to `out`, one call for each line.
    pub fn new(out: W) -> Self {
        Self(Mutex::new(Writer { out, broken: None }))
    }

    /// Writes one notice.
    pub fn write(&self, notice: &Notice<'_>) {
        let mut writer = self.lock();
        if writer.broken.is_none() {
            let mut line = serde_json::Value::Object(json::object(notice)).to_string();
            line.push('\n');
            let written = writer.out.write_all(line.as_bytes()).and_then(|()| writer.out.flush());
            writer.broken = written.err();
        }
    }

    /// The first write error, after which lines are missing. The last line may be incomplete.
    pub fn take_error(&self) -> Option<io::Error> {
        let mut writer = self.lock();
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        writer.broken.as_mut().map(|error| std::mem::replace(error, gone()))
    }

    fn lock(&self) -> MutexGuard<'_, Writer<W>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: Write + Send + 'static> Observer for JsonLines<W> {
    fn tell(&self, notice: &Notice<'_>) {
        self.write(notice);
    }
}
