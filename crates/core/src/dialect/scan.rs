//! What the hand-written grammars share: the input, its errors, and tokens.

use std::ops::Range;

use winnow::Parser;
use winnow::combinator::opt;
use winnow::error::ParserError;
use winnow::stream::{LocatingSlice, Location, Stream};
use winnow::token::{any, literal, take_while};

use super::{Diagnostic, Place};

/// A text that knows how far it has been read.
pub(super) type Input<'t> = LocatingSlice<&'t str>;

/// A value, or why the text is refused.
pub(super) type Scan<T> = Result<T, Fault>;

/// Where a text does not fit its grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    span: Range<usize>,
    message: String,
    help: Option<String>,
}

impl Fault {
    pub(super) fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span, message: message.into(), help: None }
    }

    pub(super) fn help_with(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The fault as a diagnostic about `place`, whose text it was found in.
    pub(super) fn within(self, place: &Place) -> Diagnostic {
        let start = place.span().start;
        let error = place.at(start + self.span.start..start + self.span.end).error(self.message);
        match self.help {
            Some(help) => error.help_with(help),
            None => error,
        }
    }
}

impl<'t> ParserError<Input<'t>> for Fault {
    type Inner = Self;

    fn from_input(input: &Input<'t>) -> Self {
        Self::new(next_span(input), format!("unexpected {}", next_shown(input)))
    }

    fn assert(input: &Input<'t>, _message: &'static str) -> Self {
        Self::from_input(input)
    }

    fn into_inner(self) -> Result<Self, Self> {
        Ok(self)
    }
}

/// The place of the next character.
pub(super) fn next_span(input: &Input<'_>) -> Range<usize> {
    let start = input.current_token_start();
    start..start + input.peek_token().map_or(0, char::len_utf8)
}

/// The next character, for messages.
pub(super) fn next_shown(input: &Input<'_>) -> String {
    match input.peek_token() {
        None => "the end of the text".into(),
        Some('\n' | '\r') => "the end of the line".into(),
        Some(c) if c.is_control() => format!("`{}`", c.escape_debug()),
        Some(c) => format!("`{c}`"),
    }
}

/// That `what` should stand here.
pub(super) fn expected(input: &Input<'_>, what: &str) -> Fault {
    Fault::new(next_span(input), format!("expected {what}, found {}", next_shown(input)))
}

/// Takes `token` if it is next.
pub(super) fn eat(input: &mut Input<'_>, token: &'static str) -> bool {
    let taken: Scan<Option<&str>> = opt(literal(token)).parse_next(input);
    matches!(taken, Ok(Some(_)))
}

/// Takes `token`, which must be next.
pub(super) fn must(input: &mut Input<'_>, token: &'static str) -> Scan<()> {
    if eat(input, token) { Ok(()) } else { Err(expected(input, &format!("`{token}`"))) }
}

/// Takes characters as long as they are `wanted`, with their place.
pub(super) fn run<'t>(
    input: &mut Input<'t>,
    wanted: impl Fn(char) -> bool,
) -> (&'t str, Range<usize>) {
    let taken: Scan<_> = take_while(0.., wanted).with_span().parse_next(input);
    taken.unwrap_or(("", next_span(input)))
}

/// Takes one character.
pub(super) fn one(input: &mut Input<'_>) -> Option<char> {
    let taken: Scan<char> = any.parse_next(input);
    taken.ok()
}

/// The content of a text in `quote`s, whose opening quote has been read, with JSON's escapes.
pub(super) fn quoted(input: &mut Input<'_>, quote: char) -> Scan<String> {
    let open = input.current_token_start();
    let mut content = String::new();
    loop {
        let (plain, _) = run(input, |c| c != quote && c != '\\' && c >= ' ');
        content.push_str(plain);
        let at = next_span(input);
        match one(input) {
            Some(c) if c == quote => return Ok(content),
            Some('\\') => content.push(escape(input)?),
            Some('\n' | '\r') | None => {
                return Err(Fault::new(open.saturating_sub(1)..open, "the text has no end")
                    .help_with(format!("close it with {quote} on the same line")));
            }
            Some(_) => {
                return Err(Fault::new(at, "a control character in a text")
                    .help_with("write it as an escape such as \\u0007"));
            }
        }
    }
}

fn escape(input: &mut Input<'_>) -> Scan<char> {
    let at = next_span(input);
    Ok(match one(input) {
        Some(c @ ('"' | '\'' | '\\' | '/')) => c,
        Some('b') => '\u{8}',
        Some('f') => '\u{c}',
        Some('n') => '\n',
        Some('r') => '\r',
        Some('t') => '\t',
        Some('u') => unicode(input)?,
        _ => {
            return Err(Fault::new(at, "unknown escape")
                .help_with("use \\\", \\\\, \\/, \\b, \\f, \\n, \\r, \\t or \\uXXXX"));
        }
    })
}

fn unicode(input: &mut Input<'_>) -> Scan<char> {
    let start = input.current_token_start();
    let high = hex4(input)?;
    let code = match high {
        0xD800..=0xDBFF if eat(input, "\\u") => match hex4(input)? {
            low @ 0xDC00..=0xDFFF => 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00),
            _ => high,
        },
        other => other,
    };
    char::from_u32(code).ok_or_else(|| {
        Fault::new(start..input.current_token_start(), "half of a surrogate pair")
            .help_with("write the character itself")
    })
}

fn hex4(input: &mut Input<'_>) -> Scan<u32> {
    let digits: Scan<&str> = take_while(4..=4, |c: char| c.is_ascii_hexdigit()).parse_next(input);
    let code = digits.ok().and_then(|d| u32::from_str_radix(d, 16).ok());
    code.ok_or_else(|| expected(input, "four hexadecimal digits"))
}

/// `text` in double quotes, as every grammar reads it. Control characters are escaped: JSON and IR
/// take some of them as they are, TOML does not.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
