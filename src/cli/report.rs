//! What ends a command early: how it is shown, and with which code.

use std::fmt::{self, Display};
use std::io::{IsTerminal, Write, stderr};
use std::ops::Range;
use std::process::ExitCode;

use anstream::{AutoStream, ColorChoice};
use miette::{
    GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteDiagnostic, MietteError,
    MietteSpanContents, SourceCode, SourceSpan, SpanContents,
};
use retrial::dialect::{Diagnostic, Source};
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
    Plain(Box<MietteDiagnostic>),
}

impl Trouble {
    /// The user's input makes no sense.
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
            What::Plain(plain) => handler.render_report(&mut text, &**plain),
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
    // One line of source and no more: its neighbours may hold secrets.
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
    /// The source line, unless it holds something to hide.
    line: Option<Line<'d>>,
}

/// The line of the text that a diagnostic points at.
struct Line<'d> {
    source: &'d Source,
    range: Range<usize>,
    /// Of what is pointed at, from 0.
    column: usize,
}

impl<'d> Shown<'d> {
    fn new(diagnostic: &'d Diagnostic) -> Self {
        let clean = |text: &str| sanitise::message(text, LONGEST);
        let line = Line::of(diagnostic);
        let text = line.text();
        let line = (sanitise::message(text, text.len()) == text).then_some(line);
        let message = clean(diagnostic.message());
        let message = match line {
            Some(_) => message,
            None => {
                let (file, line, column) =
                    (diagnostic.file(), diagnostic.line(), diagnostic.column());
                format!("{file}:{line}:{column}: {}: {message}", diagnostic.field())
            }
        };
        Self { diagnostic, message, help: diagnostic.help().map(clean), line }
    }
}

impl<'d> Line<'d> {
    fn of(diagnostic: &'d Diagnostic) -> Self {
        let source = diagnostic.source();
        let start = start_of(diagnostic);
        let (before, after) = source.text.split_at(start);
        let from = before.rfind('\n').map_or(0, |at| at + 1);
        let to = start + after.find(['\n', '\r']).unwrap_or(after.len());
        Self { source, range: from..to, column: source.text[from..start].chars().count() }
    }

    fn text(&self) -> &'d str {
        self.source.text.get(self.range.clone()).unwrap_or_default()
    }
}

/// Gives the whole line, whatever part of it was asked for, as from the column pointed at.
impl SourceCode for Line<'_> {
    fn read_span<'a>(
        &'a self,
        _: &SourceSpan,
        _: usize,
        _: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let line = self.source.read_span(&self.range.clone().into(), 0, 0)?;
        Ok(Box::new(MietteSpanContents::new_named(
            self.source.file.clone(),
            line.data(),
            *line.span(),
            line.line(),
            self.column,
            line.line_count(),
        )))
    }
}

/// Where the pointer points: behind the text there is nothing to point at.
fn start_of(diagnostic: &Diagnostic) -> usize {
    diagnostic.span().start.min(last_char(diagnostic.source_text()))
}

/// Where the last character that is no white space begins.
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
        self.line.as_ref().map(|line| line as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let text = self.diagnostic.source_text();
        let start = start_of(self.diagnostic);
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
