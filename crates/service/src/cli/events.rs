//! Where `--events` writes.

use std::fs::File;
use std::io::{ErrorKind, Write, stdout};
use std::sync::Arc;

use retrial::observe::{JsonLines, Notice, Observer};

use super::error::CliError;

/// The name of stdout.
const STDOUT: &str = "-";

/// Writes all of a run's events as JSON lines. For a resumed run it writes the past events first, so
/// the file has no gap.
pub(super) struct Events {
    lines: Arc<JsonLines<Box<dyn Write + Send>>>,
    to: String,
}

impl Events {
    /// Creates or truncates the file at `to`, or writes to stdout.
    pub(super) fn open(to: &str) -> Result<Self, CliError> {
        let out: Box<dyn Write + Send> = match to {
            STDOUT => Box::new(stdout()),
            path => Box::new(File::create(path).map_err(|e| {
                CliError::input(format!("`{path}` can't be written: {e}"))
                    .help("choose another file with --events FILE, or `-` for stdout")
            })?),
        };
        Ok(Self { lines: Arc::new(JsonLines::new(out)), to: to.to_owned() })
    }

    /// Whether the events go to stdout, so that nothing else may be printed there.
    pub(super) fn takes_stdout(to: Option<&str>) -> bool {
        to == Some(STDOUT)
    }

    /// Writes the events from before this process.
    pub(super) fn recall<'n>(&self, notices: impl Iterator<Item = Notice<'n>>) {
        notices.for_each(|notice| self.lines.write(&notice));
    }

    pub(super) fn observer(&self) -> Arc<dyn Observer> {
        Arc::clone(&self.lines) as _
    }

    /// Reports missing lines on stderr. A closed pipe is no error: its reader wants no more lines.
    pub(super) fn close(&self) {
        match self.lines.take_error() {
            Some(error) if error.kind() != ErrorKind::BrokenPipe => {
                CliError::store(format!("events are missing from `{}`: {error}", self.to))
                    .help("the store holds all of them, and the run is not affected")
                    .show();
            }
            _ => {}
        }
    }
}
