//! What ends a command early: how it is shown, and with which code.

use std::fmt::{self, Display};
use std::io::{IsTerminal, Write, stderr};
use std::process::ExitCode;

use anstream::{AutoStream, ColorChoice};
use miette::{GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteDiagnostic, SourceCode};
use retrial::dialect::Diagnostic;
use retrial::failure::sanitise;

/// The longest message shown, in characters.
const LONGEST: usize = 2_000;

/// Why a command can't do what it was asked to.
#[derive(Debug)]
pub(super) struct Trouble {
    kind: Kind,
    what: What,
    note: Option<&'static str>,
}

/// Who has to do something about it, which gives the exit code.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Input,
    Store,
}

#[derive(Debug)]
enum What {
    Text(Vec<Diagnostic>),
    Plain(MietteDiagnostic),
}

impl Trouble {
    /// The user's input makes no sense.
    pub(super) fn input(message: impl Into<String>) -> Self {
        Self { kind: Kind::Input, what: What::Plain(MietteDiagnostic::new(message)), note: None }
    }

    /// The store can't be used.
    pub(super) fn store(message: impl Into<String>) -> Self {
        Self { kind: Kind::Store, what: What::Plain(MietteDiagnostic::new(message)), note: None }
    }

    /// The same trouble with what to do about it.
    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        if let What::Plain(plain) = &mut self.what {
            plain.help = Some(help.into());
        }
        self
    }

    /// The same trouble with a last line.
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
            What::Plain(plain) => handler.render_report(&mut text, plain),
            What::Text(found) => {
                found.iter().try_for_each(|d| handler.render_report(&mut text, &Shown::new(d)))
            }
        };
        if let Some(note) = self.note {
            text.extend([note, "\n"]);
        }
        // Whoever closed stderr does not want to know.
        let _ = stderr().write_all(text.as_bytes());
    }
}

impl From<Vec<Diagnostic>> for Trouble {
    fn from(found: Vec<Diagnostic>) -> Self {
        Self { kind: Kind::Input, what: What::Text(found), note: None }
    }
}

impl From<Diagnostic> for Trouble {
    fn from(found: Diagnostic) -> Self {
        vec![found].into()
    }
}

fn handler() -> GraphicalReportHandler {
    let terminal = stderr().is_terminal();
    let theme = match (terminal, AutoStream::choice(&stderr())) {
        (false, _) => GraphicalTheme::none(),
        (true, ColorChoice::Never) => GraphicalTheme::unicode_nocolor(),
        (true, _) => GraphicalTheme::unicode(),
    };
    // One line of source and no more: its neighbours are none of the error's business.
    let handler = GraphicalReportHandler::new_themed(theme).with_context_lines(0).with_links(false);
    match terminal_size::terminal_size_of(stderr()) {
        Some((width, _)) => handler.with_width(usize::from(width.0)),
        None => handler.with_wrap_lines(false),
    }
}

/// A diagnostic as it is shown: without secrets (C14), and of a long stretch only its first line.
struct Shown<'d> {
    diagnostic: &'d Diagnostic,
    message: String,
    help: Option<String>,
    /// Whether the source line holds nothing to hide.
    quotes: bool,
}

impl<'d> Shown<'d> {
    fn new(diagnostic: &'d Diagnostic) -> Self {
        let clean = |text: &str| sanitise::message(text, LONGEST);
        let line = line_of(diagnostic);
        let quotes = sanitise::message(line, line.len()) == line;
        let message = clean(diagnostic.message());
        let message = if quotes {
            message
        } else {
            let (file, line, column) = (diagnostic.file(), diagnostic.line(), diagnostic.column());
            format!("{file}:{line}:{column}: {}: {message}", diagnostic.field())
        };
        Self { diagnostic, message, help: diagnostic.help().map(clean), quotes }
    }
}

/// The line that the diagnostic's stretch begins on.
fn line_of(diagnostic: &Diagnostic) -> &str {
    let text = diagnostic.source_text();
    text.lines().nth(diagnostic.line() - 1).unwrap_or_default()
}

/// Where the last character that is no white space begins: the pointer can't point behind the text.
fn last_char(text: &str) -> usize {
    text.trim_end().char_indices().next_back().map_or(0, |(at, _)| at)
}

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Shown<'_> {}

impl miette::Diagnostic for Shown<'_> {
    fn help<'a>(&'a self) -> Option<Box<dyn Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.quotes.then(|| miette::Diagnostic::source_code(self.diagnostic)).flatten()
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let text = self.diagnostic.source_text();
        let start = self.diagnostic.span().start.min(last_char(text));
        let rest = text.get(start..self.diagnostic.span().end).unwrap_or_default();
        let end = start + rest.find(['\n', '\r']).unwrap_or(rest.len());
        let label = match self.diagnostic.field() {
            "" => "here",
            field => field,
        };
        let label = LabeledSpan::new_with_span(Some(label.to_owned()), start..end);
        Some(Box::new(std::iter::once(label)))
    }
}
