//! The printer of one command, and who waits for its last line.

use std::io::{IsTerminal, Stdout, stdout};
use std::sync::{Mutex, PoisonError};

use anstream::{AutoStream, ColorChoice};
use retrial::observe::{Notice, Observer, Output, Printer};
use retrial::run::Event;
use tokio::sync::Notify;

use super::Lookup;

/// Prints one run on stdout.
pub(super) struct Watch {
    printer: Printer<Stdout>,
    /// Printed before anything else, once something is durable.
    first: Mutex<Option<String>>,
    ended: Notify,
}

impl Watch {
    pub(super) fn new(detailed: bool, lookup: Lookup) -> Self {
        let terminal = stdout().is_terminal() && lookup("TERM").is_none_or(|term| term != "dumb");
        let output = if detailed { Output::Detailed } else { Output::Auto { terminal } };
        let colour = terminal && AutoStream::choice(&stdout()) != ColorChoice::Never;
        let printer = Printer::new(stdout(), output).with_colour(colour);
        let printer = match terminal_size::terminal_size_of(stdout()) {
            Some((columns, rows)) => printer.with_size(columns.0.into(), rows.0.into()),
            None => printer,
        };
        Self { printer, first: Mutex::default(), ended: Notify::new() }
    }

    pub(super) fn printer(&self) -> &Printer<Stdout> {
        &self.printer
    }

    /// Has `line` printed before the first event.
    pub(super) fn begin_with(&self, line: String) {
        *self.first.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
    }

    /// Waits until the run's end is printed.
    pub(super) async fn ended(&self) {
        self.ended.notified().await;
    }
}

impl Observer for Watch {
    fn tell(&self, notice: &Notice<'_>) {
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
