//! Errors that end a command: how they are printed, and the exit code.

use std::io::{IsTerminal, Write, stderr};
use std::process::ExitCode;

use anstream::{AutoStream, ColorChoice};
use miette::{GraphicalReportHandler, GraphicalTheme, MietteDiagnostic};
use retrial::dialect::{Diagnostic, Diagnostics, report};

/// Why a command fails.
#[derive(Debug)]
pub(super) struct CliError {
    kind: Kind,
    what: What,
    note: Option<&'static str>,
}

/// Whether the input or the store is at fault, which gives the exit code.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Input,
    Store,
}

#[derive(Debug)]
enum What {
    Text(Diagnostics),
    Plain(Box<MietteDiagnostic>),
}

impl CliError {
    /// The user's input is invalid.
    pub(super) fn input(message: impl Into<String>) -> Self {
        Self::plain(Kind::Input, message)
    }

    /// The store can't be used.
    pub(super) fn store(message: impl Into<String>) -> Self {
        Self::plain(Kind::Store, message)
    }

    fn plain(kind: Kind, message: impl Into<String>) -> Self {
        let plain = MietteDiagnostic::new(message);
        Self { kind, what: What::Plain(Box::new(plain)), note: None }
    }

    /// The same error with what to do about it.
    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        if let What::Plain(plain) = &mut self.what {
            plain.help = Some(help.into());
        }
        self
    }

    /// The same error with a last line.
    pub(super) fn note(mut self, note: &'static str) -> Self {
        self.note = Some(note);
        self
    }

    /// 2 for bad input, 3 for a store that is not available.
    pub(super) fn code(&self) -> ExitCode {
        match self.kind {
            Kind::Input => ExitCode::from(2),
            Kind::Store => ExitCode::from(3),
        }
    }

    /// Writes it to stderr: with the source line and a pointer, in colours on a terminal.
    pub(super) fn show(&self) {
        let handler = handler();
        let mut text = String::new();
        // Neither writing to a text nor reading a text that was parsed can fail.
        let _ = match &self.what {
            What::Plain(plain) => handler.render_report(&mut text, &**plain),
            What::Text(found) => {
                found.iter().try_for_each(|d| report::render(&mut text, &handler, d))
            }
        };
        if let Some(note) = self.note {
            text.extend([note, "\n"]);
        }
        // A closed stderr is not an error.
        let _ = stderr().write_all(text.as_bytes());
    }
}

impl From<Diagnostics> for CliError {
    fn from(found: Diagnostics) -> Self {
        Self { kind: Kind::Input, what: What::Text(found), note: None }
    }
}

impl From<Diagnostic> for CliError {
    fn from(found: Diagnostic) -> Self {
        Diagnostics::from(found).into()
    }
}

fn handler() -> GraphicalReportHandler {
    let terminal = stderr().is_terminal();
    let theme = match (terminal, AutoStream::choice(&stderr())) {
        (false, _) => GraphicalTheme::none(),
        (true, ColorChoice::Never) => GraphicalTheme::unicode_nocolor(),
        (true, _) => GraphicalTheme::unicode(),
    };
    // One line of source and no more: its neighbours may hold secrets.
    let handler = GraphicalReportHandler::new_themed(theme).with_context_lines(0).with_links(false);
    match terminal_size::terminal_size_of(stderr()) {
        Some((width, _)) => handler.with_width(usize::from(width.0)),
        None => handler.with_wrap_lines(false),
    }
}
