use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A text being read, and its name in messages.
#[derive(Debug, PartialEq, Eq)]
pub struct Source {
    /// The file's name, or another name for the text.
    pub file: String,
    /// The whole text.
    pub text: Arc<str>,
}

impl Source {
    /// `text`, called `file` in messages.
    #[must_use]
    pub fn new(file: &str, text: &str) -> Arc<Self> {
        Arc::new(Self { file: file.to_owned(), text: text.into() })
    }
}

/// A range of a text and the dotted path of the field there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    source: Arc<Source>,
    span: Range<usize>,
    field: Arc<str>,
}

impl Place {
    /// The whole of `source`, for no field.
    #[must_use]
    pub fn whole(source: &Arc<Source>) -> Self {
        Self { source: Arc::clone(source), span: 0..source.text.len(), field: "".into() }
    }

    /// Another range of the same text, in bytes, for the same field.
    #[must_use]
    pub fn at(&self, span: Range<usize>) -> Self {
        Self { span, ..self.clone() }
    }

    /// The same range, for the field `key` inside this one.
    #[must_use]
    pub fn child(&self, key: impl fmt::Display) -> Self {
        let field = match &*self.field {
            "" => key.to_string().into(),
            parent => format!("{parent}.{key}").into(),
        };
        Self { field, ..self.clone() }
    }

    /// The range in bytes.
    #[must_use]
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// The field's dotted path; empty at the top.
    #[must_use]
    pub fn field(&self) -> &str {
        &self.field
    }

    /// The text that the place is in.
    #[must_use]
    pub fn source(&self) -> &Arc<Source> {
        &self.source
    }

    /// A diagnostic of `error` here; the part after its first semicolon becomes the help.
    #[must_use]
    pub fn refuse(&self, error: &impl fmt::Display) -> Diagnostic {
        let message = error.to_string();
        match message.split_once("; ") {
            Some((message, help)) => self.error(message).help_with(help),
            None => self.error(message),
        }
    }

    /// A diagnostic here.
    #[must_use]
    pub fn error(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic { place: self.clone(), message: message.into(), help: None }
    }
}

/// What is wrong with a text, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    place: Place,
    message: String,
    help: Option<String>,
}

impl Diagnostic {
    /// The same diagnostic with what to do about it.
    #[must_use]
    pub fn help_with(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The file's name.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.place.source.file
    }

    /// The whole text.
    #[must_use]
    pub fn source_text(&self) -> &Arc<str> {
        &self.place.source.text
    }

    /// The text and its name.
    #[must_use]
    pub fn source(&self) -> &Arc<Source> {
        &self.place.source
    }

    /// The range of the text that is wrong, in bytes.
    #[must_use]
    pub fn span(&self) -> Range<usize> {
        self.place.span.clone()
    }

    /// The line, from 1.
    #[must_use]
    pub fn line(&self) -> usize {
        self.before().matches('\n').count() + 1
    }

    /// The column in characters, from 1.
    #[must_use]
    pub fn column(&self) -> usize {
        self.before().rsplit('\n').next().unwrap_or_default().chars().count() + 1
    }

    /// The dotted path of the field; empty where there is none.
    #[must_use]
    pub fn field(&self) -> &str {
        &self.place.field
    }

    /// What is wrong.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What to do about it.
    #[must_use]
    pub fn help(&self) -> Option<&str> {
        self.help.as_deref()
    }

    fn before(&self) -> &str {
        let text = &*self.place.source.text;
        let mut end = self.place.span.start.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        &text[..end]
    }
}

/// `file:line:column: field: message (help)`.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file(), self.line(), self.column())?;
        if !self.field().is_empty() {
            write!(f, "{}: ", self.field())?;
        }
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, " ({help})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Diagnostic {}
