use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, Range};
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
    /// In bytes. A tree has a place for each value, so they are kept small.
    start: u32,
    end: u32,
    /// The field, or the list that holds it. Shared with every place inside.
    path: Option<Arc<Part>>,
    /// Which item of that list it is.
    item: Option<u32>,
}

/// One key of a dotted path, behind those before it.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    parent: Option<Arc<Part>>,
    key: Box<str>,
}

impl Place {
    /// The whole of `source`, for no field.
    #[must_use]
    pub fn whole(source: &Arc<Source>) -> Self {
        let end = small(source.text.len());
        Self { source: Arc::clone(source), start: 0, end, path: None, item: None }
    }

    /// Another range of the same text, in bytes, for the same field. A place beyond 4 GiB counts as
    /// one at 4 GiB.
    #[must_use]
    pub fn at(&self, span: Range<usize>) -> Self {
        Self { start: small(span.start), end: small(span.end), ..self.clone() }
    }

    /// The same range, for the field `key` inside this one.
    #[must_use]
    pub fn child(&self, key: impl fmt::Display) -> Self {
        let part = Part { parent: self.as_parent().path, key: key.to_string().into() };
        Self { path: Some(Arc::new(part)), item: None, ..self.clone() }
    }

    /// The same range, for the item at `index` of the list here. Allocates nothing.
    pub(crate) fn item(&self, index: usize) -> Self {
        Self { item: Some(small(index)), ..self.as_parent() }
    }

    /// The same place, whose path all places inside it share.
    pub(crate) fn as_parent(&self) -> Self {
        match self.item {
            None => self.clone(),
            Some(index) => Self { item: None, ..self.clone() }.child(index),
        }
    }

    /// The range in bytes.
    #[must_use]
    pub fn span(&self) -> Range<usize> {
        wide(self.start)..wide(self.end)
    }

    /// The field's dotted path; empty at the top. A long key is cut.
    #[must_use]
    pub fn field(&self) -> String {
        let item = self.item.map(|index| index.to_string());
        let parts = std::iter::successors(self.path.as_deref(), |part| part.parent.as_deref());
        let mut keys: Vec<_> = item.into_iter().collect();
        keys.extend(parts.map(|part| brief(&part.key).into_owned()));
        keys.reverse();
        keys.join(".")
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
        let message = short(message.into()).into();
        Diagnostic {
            place: self.clone(),
            field: self.field().into(),
            message,
            help: None,
            about: About::Whole,
        }
    }
}

fn small(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn wide(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// The most characters of a name in a message.
const NAME: usize = 64;
/// The most characters of a message or of a help.
const MESSAGE: usize = 2_000;

/// `name` as a message shows it: the beginning of a long one.
pub(crate) fn brief(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(NAME) {
        Some((end, _)) => format!("{}…", &name[..end]).into(),
        None => name.into(),
    }
}

fn short(mut message: String) -> String {
    if let Some((end, _)) = message.char_indices().nth(MESSAGE) {
        message.truncate(end);
        message.push('…');
    }
    message
}

/// What is wrong with a text, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    place: Place,
    field: Box<str>,
    message: Box<str>,
    help: Option<Box<str>>,
    about: About,
}

/// What a diagnostic depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
enum About {
    /// This value alone: it holds whatever else is written.
    Value,
    /// A key that is not known, and the one that seems to be meant.
    Key(Option<Box<str>>),
    /// A key that is not there.
    Missing,
    /// How values go together.
    Whole,
}

impl Diagnostic {
    /// The same diagnostic, which is about this value alone.
    pub(crate) fn of_value(self) -> Self {
        Self { about: About::Value, ..self }
    }

    /// The same diagnostic, which is about a key that is not there.
    pub(crate) fn of_missing(self) -> Self {
        Self { about: About::Missing, ..self }
    }

    /// The same diagnostic, which is about an unknown key where `meant` seems to be meant.
    pub(crate) fn of_key(self, meant: Option<&str>) -> Self {
        Self { about: About::Key(meant.map(Into::into)), ..self }
    }

    /// Whether it holds whatever else is written.
    pub(crate) fn stands_alone(&self) -> bool {
        matches!(self.about, About::Value | About::Key(_))
    }

    /// The key that seems to be meant where an unknown one is written.
    pub(crate) fn meant_key(&self) -> Option<&str> {
        match &self.about {
            About::Key(meant) => meant.as_deref(),
            _ => None,
        }
    }

    pub(crate) fn is_of_missing(&self) -> bool {
        self.about == About::Missing
    }

    /// The same diagnostic with what to do about it.
    #[must_use]
    pub fn help_with(mut self, help: impl Into<String>) -> Self {
        self.help = Some(short(help.into()).into());
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
        self.place.span()
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
        &self.field
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
        let mut end = self.span().start.min(text.len());
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

/// Everything that is wrong with a text, in text order. It is shown as a line for each,
/// also by `Debug`, so that a `main` that returns it prints what people can read.
#[derive(Clone, PartialEq, Eq)]
pub struct Diagnostics(Vec<Diagnostic>);

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().enumerate().try_for_each(|(n, one)| {
            let line = if n == 0 { "" } else { "\n" };
            write!(f, "{line}{one}")
        })
    }
}

impl fmt::Debug for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Diagnostics {}

impl From<Diagnostic> for Diagnostics {
    fn from(one: Diagnostic) -> Self {
        Self(vec![one])
    }
}

impl From<Vec<Diagnostic>> for Diagnostics {
    fn from(all: Vec<Diagnostic>) -> Self {
        Self(all)
    }
}

impl Deref for Diagnostics {
    type Target = [Diagnostic];

    fn deref(&self) -> &[Diagnostic] {
        &self.0
    }
}

impl IntoIterator for Diagnostics {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
