//! Where the value under a secret name begins and ends.

use std::ops::Range;

use super::names;

/// What may stand between a name and its separator: the end of a quoted or indexed name.
const CLOSERS: [&str; 9] = ["\"", "'", "`", "\\", "]", ")", "%22", "&quot;", "&#34;"];
const SEPARATORS: [&str; 5] = ["=", ":", ">", "%3d", "%3a"];
const QUOTES: [char; 3] = ['"', '\'', '`'];

/// How a name and the text before it bound its value.
#[derive(Clone, Copy)]
pub(super) struct Before {
    /// The value is the whole rest of the line.
    pub(super) whole_line: bool,
    /// The name is an option of a command line: `--password hunter2`.
    pub(super) option: bool,
    /// The name stands in a URL's query.
    pub(super) query: bool,
    /// The quote that the name stands in, and the backslashes before it.
    pub(super) quote: Option<(char, usize)>,
}

impl Before {
    /// Of `name` behind `text`.
    pub(super) fn of(text: &str, name: &str) -> Self {
        let last = text.chars().next_back();
        let quote = last.filter(|c| QUOTES.contains(c));
        let slashes = |q: char| trailing_slashes(&text[..text.len() - q.len_utf8()]);
        Self {
            whole_line: names::runs_to_line_end(name),
            option: name.starts_with('-'),
            query: matches!(last, Some('?' | '&')),
            quote: quote.map(|q| (q, slashes(q))),
        }
    }
}

/// The value of the name that ends at `at`, if one follows.
pub(super) fn value_after(text: &str, at: usize, before: Before) -> Option<Range<usize>> {
    let closed = skip(text, at, &CLOSERS);
    let blank = skip_blanks(text, closed);
    let start = folded(text, skip_separators(text, blank), blank);
    if start == blank && !(before.option && at < blank) {
        return quoted_beside(text, closed, blank);
    }
    if let Some(quoted) = quoted(text, start) {
        return Some(quoted.inner);
    }
    let end = match before.quote {
        Some((quote, slashes)) if before.whole_line && closed == at => {
            closing(text, start, quote, slashes).0
        }
        _ if before.whole_line => line_end(text, start),
        _ => bare_end(text, start, before.query),
    };
    (start < end).then_some(start..end)
}

/// `password "hunter2"`: a quoted text beside the name.
fn quoted_beside(text: &str, closed: usize, blank: usize) -> Option<Range<usize>> {
    let inner = quoted(text, blank).map(|q| q.inner);
    inner.filter(|inner| closed < blank && !inner.is_empty())
}

fn skip(text: &str, mut at: usize, any: &[&str]) -> usize {
    while let Some(found) = any.iter().find(|s| starts_with(&text[at..], s)) {
        at += found.len();
    }
    at
}

fn starts_with(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}

pub(super) fn skip_blanks(text: &str, at: usize) -> usize {
    let rest = &text[at..];
    at + rest.len() - rest.trim_start_matches([' ', '\t']).len()
}

/// Past every separator and the blanks around them: `:`, `=`, `=>`, `:=`, `: =`.
fn skip_separators(text: &str, mut at: usize) -> usize {
    loop {
        let next = skip(text, at, &SEPARATORS);
        if next == at {
            return at;
        }
        at = skip_blanks(text, next);
    }
}

/// Past a line's end where the value stands on the next line, further in: a folded header, YAML.
/// `before` is where the separator was looked for; without one nothing is folded.
fn folded(text: &str, at: usize, before: usize) -> usize {
    if at == before || !text[at..].starts_with('\n') {
        return at;
    }
    let next = skip_blanks(text, at + 1);
    if next == at + 1 { at } else { next }
}

pub(super) fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |n| at + n)
}

struct Quoted {
    inner: Range<usize>,
    /// Where the text goes on.
    after: usize,
}

/// The quoted text at `at`, which may begin with backslashes or as `b'...'`.
fn quoted(text: &str, at: usize) -> Option<Quoted> {
    let rest = &text[at..];
    let letters = rest.chars().take(2).take_while(|c| is_prefix(*c)).count();
    let opening = at + letters;
    let slashes = text[opening..].bytes().take_while(|b| *b == b'\\').count();
    let start = opening + slashes;
    let quote = text[start..].chars().next().filter(|c| QUOTES.contains(c))?;
    let start = start + quote.len_utf8();
    let (end, after) = closing(text, start, quote, slashes);
    Some(Quoted { inner: start..end, after })
}

/// Where the inside of a quoted text ends and where the text goes on after it. `slashes`
/// backslashes stood before its opening quote.
fn closing(text: &str, from: usize, quote: char, slashes: usize) -> (usize, usize) {
    let mut run = 0;
    for (n, c) in text[from..].char_indices() {
        let at = from + n;
        let after = at + c.len_utf8();
        if c == quote && closes(run, slashes) && !is_apostrophe(quote, &text[after..]) {
            return (at - run.min(slashes), after);
        }
        run = if c == '\\' { run + 1 } else { 0 };
    }
    (text.len(), text.len())
}

/// Whether a quote behind `run` backslashes ends a text whose opening quote had `slashes`. Each
/// level of quoting doubles the backslashes and adds one for the quote.
fn closes(run: usize, slashes: usize) -> bool {
    match (slashes, run % 2) {
        (0, odd) => odd == 0,
        (_, 0) => true,
        (_, _) => closes((run - 1) / 2, (slashes - 1) / 2),
    }
}

fn is_apostrophe(quote: char, after: &str) -> bool {
    quote == '\'' && after.starts_with(char::is_alphanumeric)
}

fn trailing_slashes(text: &str) -> usize {
    text.bytes().rev().take_while(|b| *b == b'\\').count()
}

/// The end of a value without quotes. Brackets in it belong to it as far as their pairs; an
/// authentication scheme is followed by one more word.
pub(super) fn bare_end(text: &str, start: usize, query: bool) -> usize {
    let end = trimmed(text, start, run_end(text, start, query));
    let last = text[start..end].rsplit(['=', ':']).next();
    if last.is_some_and(names::is_scheme) {
        let next = skip_blanks(text, end);
        return trimmed(text, next, run_end(text, next, query)).max(end);
    }
    end
}

/// The end of the word at `start`: punctuation that closes the sentence around it stays outside.
pub(super) fn word_end(text: &str, start: usize) -> usize {
    let ends = |c: char| c.is_whitespace() || QUOTES.contains(&c) || matches!(c, '<' | '>' | '\\');
    let len = text[start..].find(ends).unwrap_or(text.len() - start);
    trimmed(text, start, start + len)
}

fn trimmed(text: &str, start: usize, end: usize) -> usize {
    start + text[start..end].trim_end_matches([',', ';', ')', ']', '}']).len()
}

fn run_end(text: &str, start: usize, query: bool) -> usize {
    let mut at = start;
    while let Some(c) = text[at..].chars().next() {
        let at_quote = QUOTES.contains(&c) || (c == '\\' && escapes_a_quote(&text[at..]));
        let inner = at_quote && text[start..at].trim_end_matches(is_prefix).ends_with(['=', ':']);
        if let Some(quoted) = quoted(text, at).filter(|_| inner) {
            at = quoted.after;
        } else if at_quote || ends_value(c, query) {
            break;
        } else if matches!(c, '(' | '[' | '{') {
            at = group_end(text, at);
        } else {
            at += c.len_utf8();
        }
    }
    at
}

/// The letters before a string in Python and Rust: `b"..."`, `r'...'`.
fn is_prefix(c: char) -> bool {
    "brufBRUF".contains(c)
}

fn ends_value(c: char, query: bool) -> bool {
    c.is_whitespace() || matches!(c, '<' | '>') || (query && matches!(c, '&' | '#'))
}

fn escapes_a_quote(text: &str) -> bool {
    // A value rarely holds more than a few backslashes in a row; the bound keeps time linear.
    let run = text.bytes().take(64).take_while(|b| *b == b'\\').count();
    text[run..].starts_with(QUOTES)
}

/// The end of the brackets that open at `start`; the end of the text where they never close.
fn group_end(text: &str, start: usize) -> usize {
    let (mut at, mut depth) = (start, 0_usize);
    while let Some(c) = text[at..].chars().next() {
        let slashes = if c == '"' { trailing_slashes(&text[start..at]) } else { 0 };
        at += c.len_utf8();
        match c {
            '"' => at = closing(text, at, '"', slashes).1,
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    at
}
