//! One walk over the words of a text.

use std::borrow::Cow;
use std::ops::Range;

use super::spans::{self, Before};
use super::{MASK, names, shapes};

/// How many words away a long key is still taken to belong to a word that speaks of secrets.
const NEAR: usize = 4;

/// Words that follow `Bearer` in prose.
const PROSE: [&str; 16] = [
    "token",
    "tokens",
    "auth",
    "authentication",
    "authorization",
    "scheme",
    "realm",
    "error",
    "is",
    "was",
    "not",
    "required",
    "header",
    "credentials",
    "or",
    "and",
];

pub(super) fn masked(text: &str) -> String {
    let mut scan = Scan::new(text);
    while let Some(c) = text[scan.at..].chars().next() {
        match word_len(&text[scan.at..]) {
            0 => scan.copy(c),
            len => scan.word(len),
        }
    }
    scan.out
}

struct Scan<'a> {
    text: &'a str,
    /// How far the text is read, in bytes.
    at: usize,
    out: String,
    /// Words read on this line.
    words: usize,
    /// The word that last spoke of secrets.
    spoke: Option<usize>,
    /// The latest words that look like keys, and where they stand in `out`.
    random: Vec<(usize, Range<usize>)>,
    /// The word before, and where reading went on after it.
    previous: (Cow<'a, str>, usize),
}

/// A word of the text.
struct Word<'a> {
    /// As it is written out: without the secret of a known shape that it may hold. Every rule looks
    /// at this, so that masking twice is masking once.
    shown: Cow<'a, str>,
    /// Where the text goes on.
    end: usize,
}

impl<'a> Scan<'a> {
    fn new(text: &'a str) -> Self {
        let out = String::with_capacity(text.len());
        let previous = (Cow::Borrowed(""), 0);
        Self { text, at: 0, out, words: 0, spoke: None, random: Vec::new(), previous }
    }

    fn copy(&mut self, c: char) {
        self.out.push(c);
        self.at += c.len_utf8();
        if c == '\n' {
            self.forget();
        }
    }

    /// What was read so far says nothing about what follows.
    fn forget(&mut self) {
        self.spoke = None;
        self.random.clear();
    }

    fn word(&mut self, len: usize) {
        let word = self.next_word(len);
        let before = Before::of(&self.text[..self.at], &word.shown);
        self.words += 1;
        if self.names_a_secret(&word.shown, before) {
            self.named(&word, before);
        } else if !self.credentials_follow(&word) {
            self.plain(&word);
        }
        self.previous = (word.shown, word.end);
    }

    /// The word of `len` bytes from here. From a secret of a known shape on it is masked.
    fn next_word(&self, len: usize) -> Word<'a> {
        let end = self.at + len;
        let word = &self.text[self.at..end];
        let shown = match shape_in(word) {
            Some(shape) => format!("{}{MASK}", &word[..shape]).into(),
            None => word.into(),
        };
        Word { shown, end }
    }

    fn names_a_secret(&self, word: &str, before: Before) -> bool {
        if word.starts_with('/') && self.text[..self.at].ends_with('<') {
            return false;
        }
        let name = word.rsplit('/').next().unwrap_or(word);
        if !name.eq_ignore_ascii_case("key") {
            return names::is_secret(name);
        }
        // `?key=` and `api key`.
        let (previous, end) = &self.previous;
        let beside = self.text[*end..self.at] == *" ";
        before.query || (beside && names::is_secret(&format!("{previous}key")))
    }

    /// A word that speaks of a secret: its value if it has one, else the keys near it.
    fn named(&mut self, word: &Word<'_>, before: Before) {
        self.mask_random();
        match spans::value_after(self.text, word.end, before) {
            Some(value) => {
                self.push(word);
                self.mask(value);
            }
            None if self.credentials_follow(word) => {}
            None => {
                self.plain(word);
                self.spoke = Some(self.words);
            }
        }
    }

    /// `Bearer ...` and its like, wherever they stand.
    fn credentials_follow(&mut self, word: &Word<'_>) -> bool {
        if !names::is_scheme(&word.shown) {
            return false;
        }
        let start = spans::skip_blanks(self.text, word.end);
        let next = &self.text[start..spans::word_end(self.text, start)];
        if start == word.end || next.is_empty() || !is_credentials(&word.shown, next) {
            return false;
        }
        let stop = if next.starts_with(MASK) {
            start + MASK.len()
        } else if word.shown.eq_ignore_ascii_case("digest") {
            spans::line_end(self.text, start)
        } else {
            spans::bare_end(self.text, start, false)
        };
        self.push(word);
        self.mask(start..stop);
        true
    }

    fn plain(&mut self, word: &Word<'_>) {
        self.push(word);
        if !shapes::looks_random(&word.shown) {
            return;
        }
        let near = self.spoke.is_some_and(|spoke| self.words - spoke <= NEAR);
        let place = self.out.len() - word.shown.len()..self.out.len();
        self.random.retain(|(number, _)| self.words - number < NEAR);
        self.random.push((self.words, place));
        if near {
            self.mask_random();
        }
    }

    /// Masks the words of late that look like keys, the last one first: the places of the others
    /// stay true.
    fn mask_random(&mut self) {
        for (number, place) in std::mem::take(&mut self.random).into_iter().rev() {
            if self.words - number <= NEAR {
                self.out.replace_range(place, MASK);
            }
        }
    }

    fn push(&mut self, word: &Word<'_>) {
        self.out.push_str(&word.shown);
        self.at = word.end;
    }

    /// Copies up to `value` and masks it.
    fn mask(&mut self, value: Range<usize>) {
        self.out.push_str(&self.text[self.at..value.start]);
        self.out.push_str(MASK);
        self.at = value.end;
        self.forget();
    }
}

/// Whether what follows the name of a scheme is more than prose.
fn is_credentials(scheme: &str, next: &str) -> bool {
    if next.starts_with(MASK) {
        return true;
    }
    if scheme.eq_ignore_ascii_case("bearer") {
        let first = next.split(['=', ':']).next().unwrap_or(next);
        return !PROSE.iter().any(|p| first.eq_ignore_ascii_case(p));
    }
    if scheme.eq_ignore_ascii_case("digest") {
        return next.contains('=');
    }
    // Base64 seldom reads like a word: it has digits, signs or capitals inside.
    let body = next.trim_end_matches('=');
    let odd = |b: u8| b.is_ascii_digit() || b.is_ascii_uppercase() || b"+/".contains(&b);
    next.len() >= 6
        && body.bytes().all(|b| shapes::is_secret_byte(b) && b != b'=')
        && (body != next || body.bytes().skip(1).any(odd))
}

/// Where a secret of a known shape begins in `word`: at its beginning or behind punctuation.
fn shape_in(word: &str) -> Option<usize> {
    let mut inside = false;
    word.char_indices().find_map(|(at, c)| {
        let begins = !inside && shapes::begins(&word[at..]);
        inside = c.is_alphanumeric();
        begins.then_some(at)
    })
}

fn word_len(text: &str) -> usize {
    text.find(|c: char| !is_word(c)).unwrap_or(text.len())
}

/// Letters, digits, and what joins them in names, paths and base64. The mask is a word as well, so
/// that masking leaves the count of words as it was.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '+' | '~' | '$' | '*')
}
