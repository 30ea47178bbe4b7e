//! The printer of one command, and who waits for its last line.

use std::io::{IsTerminal, Write, stderr, stdout};
use std::sync::{Mutex, PoisonError};

use anstream::{AutoStream, ColorChoice};
use retrial::observe::{Notice, Observer, Output, Printer};
use retrial::run::Event;
use terminal_size::{Height, Width, terminal_size_of};
use tokio::sync::Notify;

use super::Lookup;

/// Where a run is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Stdout,
    /// Where stdout is for data.
    Stderr,
}

/// What the place can show.
struct Sight {
    terminal: bool,
    colour: bool,
    size: Option<(Width, Height)>,
}

impl Place {
    fn out(self) -> Box<dyn Write + Send> {
        match self {
            Self::Stdout => Box::new(stdout()),
            Self::Stderr => Box::new(stderr()),
        }
    }

    /// Colours follow NO_COLOR, CLICOLOR, CLICOLOR_FORCE and TERM, as anstream reads them.
    fn sight(self) -> Sight {
        let colour = |choice| choice != ColorChoice::Never;
        match self {
            Self::Stdout => Sight {
                terminal: stdout().is_terminal(),
                colour: colour(AutoStream::choice(&stdout())),
                size: terminal_size_of(stdout()),
            },
            Self::Stderr => Sight {
                terminal: stderr().is_terminal(),
                colour: colour(AutoStream::choice(&stderr())),
                size: terminal_size_of(stderr()),
            },
        }
    }
}

/// Prints one run.
pub(super) struct Watch {
    printer: Printer<Box<dyn Write + Send>>,
    /// Printed before anything else, once something is durable.
    first: Mutex<Option<String>>,
    ended: Notify,
}

impl Watch {
    pub(super) fn new(place: Place, detailed: bool, lookup: Lookup) -> Self {
        let Sight { terminal, colour, size } = place.sight();
        let terminal = terminal && lookup("TERM").is_none_or(|term| term != "dumb");
        let output = if detailed { Output::Detailed } else { Output::Auto { terminal } };
        let printer = Printer::new(place.out(), output).with_colour(colour);
        let printer = match size {
            Some((columns, rows)) => printer.with_size(columns.0.into(), rows.0.into()),
            None => printer,
        };
        Self { printer, first: Mutex::default(), ended: Notify::new() }
    }

    pub(super) fn printer(&self) -> &Printer<Box<dyn Write + Send>> {
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
