//! Where `--events` writes.

use std::fs::File;
use std::io::{ErrorKind, Write, stdout};
use std::sync::Arc;

use retrial::observe::{JsonLines, Notice, Observer};

use super::error::CliError;

/// The name of stdout.
const STDOUT: &str = "-";

/// Writes a run's events as JSON lines, from its first event on, also where the run is taken up
/// again: what is written has no gap.
pub(super) struct Events {
    lines: Arc<JsonLines<Box<dyn Write + Send>>>,
    to: String,
}

impl Events {
    /// Begins the file at `to` anew, or writes to stdout.
    pub(super) fn open(to: &str) -> Result<Self, CliError> {
        let out: Box<dyn Write + Send> = match to {
            STDOUT => Box::new(stdout()),
            path => Box::new(File::create(path).map_err(|e| {
                CliError::input(format!("`{path}` can't be written: {e}"))
                    .help("say where the events shall go: --events FILE, or - for stdout")
            })?),
        };
        Ok(Self { lines: Arc::new(JsonLines::new(out)), to: to.to_owned() })
    }

    /// Whether `to` leaves no room on stdout for anything else.
    pub(super) fn takes_stdout(to: Option<&str>) -> bool {
        to == Some(STDOUT)
    }

    /// Writes what happened before this process.
    pub(super) fn recall<'n>(&self, notices: impl Iterator<Item = Notice<'n>>) {
        notices.for_each(|notice| self.lines.write(&notice));
    }

    pub(super) fn observer(&self) -> Arc<dyn Observer> {
        Arc::clone(&self.lines) as _
    }

    /// Says on stderr that lines are missing, where they are. A reader that went away wanted none.
    pub(super) fn close(&self) {
        match self.lines.take_error() {
            Some(error) if error.kind() != ErrorKind::BrokenPipe => {
                CliError::store(format!("events are missing from `{}`: {error}", self.to))
                    .help("they are all in the store: the run itself is not touched")
                    .show();
            }
            _ => {}
        }
    }
}
