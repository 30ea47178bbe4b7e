//! Prints one run, and lets the command wait until its end is printed.

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::sync::{Mutex, PoisonError};

use anstream::{AutoStream, ColorChoice};
use retrial::observe::{Notice, Observer, Output, Printer};
use retrial::run::{Event, Outcome, RunId};
use terminal_size::terminal_size_of;
use tokio::sync::Notify;

use super::Lookup;

/// The stream that a run is printed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputStream {
    Stdout,
    /// When stdout carries data.
    Stderr,
}

impl OutputStream {
    fn out(self) -> Box<dyn Write + Send> {
        match self {
            Self::Stdout => Box::new(stdout()),
            Self::Stderr => Box::new(stderr()),
        }
    }

    fn is_terminal(self) -> bool {
        match self {
            Self::Stdout => stdout().is_terminal(),
            Self::Stderr => stderr().is_terminal(),
        }
    }

    /// Follows NO_COLOR, CLICOLOR, CLICOLOR_FORCE, TERM and CI, as anstream reads them.
    fn has_colour(self) -> bool {
        let choice = match self {
            Self::Stdout => AutoStream::choice(&stdout()),
            Self::Stderr => AutoStream::choice(&stderr()),
        };
        choice != ColorChoice::Never
    }

    /// Columns and rows, as they are now.
    fn size(self) -> Option<(usize, usize)> {
        let size = match self {
            Self::Stdout => terminal_size_of(stdout()),
            Self::Stderr => terminal_size_of(stderr()),
        };
        size.map(|(columns, rows)| (columns.0.into(), rows.0.into()))
    }
}

/// Prints one run.
pub(super) struct RunPrinter {
    printer: Printer<Box<dyn Write + Send>>,
    /// Printed before anything else, once the run is durable.
    first: Mutex<Option<String>>,
    /// The runs that deliver the run's alerts.
    webhooks: Mutex<BTreeSet<RunId>>,
    ended: Notify,
}

impl RunPrinter {
    pub(super) fn new(stream: OutputStream, detailed: bool, lookup: Lookup) -> Self {
        let moves = lookup("TERM").is_none_or(|term| term != "dumb");
        let terminal = stream.is_terminal() && moves;
        let output = if detailed { Output::Detailed } else { Output::Auto { terminal } };
        let printer = Printer::new(stream.out(), output)
            .with_colour(stream.has_colour())
            .with_size_from(move || stream.size());
        Self { printer, first: Mutex::default(), webhooks: Mutex::default(), ended: Notify::new() }
    }

    pub(super) fn printer(&self) -> &Printer<Box<dyn Write + Send>> {
        &self.printer
    }

    /// Sets a line to print before the first event.
    pub(super) fn begin_with(&self, line: String) {
        *self.first.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
    }

    /// Whether the notice is about a run that delivers an alert: only its end is printed.
    fn is_of_webhook(&self, notice: &Notice<'_>) -> bool {
        let mut webhooks = self.webhooks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Event::ErrorBudgetBurnt { webhook, .. } = notice.event {
            webhooks.extend(*webhook);
        }
        webhooks.contains(&notice.run)
    }

    /// Waits until the run's end is printed.
    pub(super) async fn ended(&self) {
        self.ended.notified().await;
    }
}

impl Observer for RunPrinter {
    fn tell(&self, notice: &Notice<'_>) {
        if self.is_of_webhook(notice) {
            if let Event::RunEnded { outcome } = notice.event {
                self.printer.say(&match outcome {
                    Outcome::Completed => format!("Alert delivered by run {}.", notice.run),
                    _ => format!("Alert not delivered: run {} failed.", notice.run),
                });
            }
            return;
        }
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(line) = first {
            self.printer.say(&line);
        }
        match notice.event {
            // The first line has said so.
            Event::RunCreated { .. } => self.printer.recall(notice),
            _ => self.printer.tell(notice),
        }
        if let Event::RunEnded { .. } = notice.event {
            self.ended.notify_one();
        }
    }
}
