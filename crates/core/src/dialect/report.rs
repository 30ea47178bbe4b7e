//! Diagnostics as reports with the source line and a pointer to the column.

use std::fmt::{self, Display, Write};
use std::ops::Range;

use miette::{
    GraphicalReportHandler, LabeledSpan, MietteError, MietteSpanContents, SourceCode, SourceSpan,
    SpanContents,
};

use super::{Diagnostic, Source};
use crate::failure::sanitise;

/// The longest message shown, in characters.
const LONGEST: usize = 2_000;

/// Writes `diagnostic` as `handler` draws it, without secrets.
///
/// # Errors
/// When `to` takes no more.
pub fn render(
    to: &mut impl Write,
    handler: &GraphicalReportHandler,
    diagnostic: &Diagnostic,
) -> fmt::Result {
    handler.render_report(to, &Shown::new(diagnostic))
}

/// The help is part of the message already.
impl miette::Diagnostic for Diagnostic {
    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(&**self.source())
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let label = match self.field() {
            "" => "here",
            field => field,
        };
        let label = LabeledSpan::new_with_span(Some(label.to_owned()), self.span());
        Some(Box::new(std::iter::once(label)))
    }
}

impl SourceCode for Source {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        lines_before: usize,
        lines_after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let inner = self.text.read_span(span, lines_before, lines_after)?;
        Ok(Box::new(miette::MietteSpanContents::new_named(
            self.file.clone(),
            inner.data(),
            *inner.span(),
            inner.line(),
            inner.column(),
            inner.line_count(),
        )))
    }
}

/// A diagnostic as it is shown: without secrets and of a long stretch only its first line.
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
