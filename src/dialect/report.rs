//! Diagnostics as reports with the source line and a pointer to the column.

use miette::{LabeledSpan, MietteError, SourceCode, SourceSpan, SpanContents};

use super::{Diagnostic, Source};

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
