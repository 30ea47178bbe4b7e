use std::borrow::Cow;

use crate::dialect::brief;

/// The most names that are compared with an unknown one.
const COMPARED: usize = 256;
/// The most characters of a name that are compared.
const LONGEST: usize = 64;
/// How most types of errors end.
const ERROR: &str = "error";
/// The most names that are listed.
const LISTED: usize = 20;

/// The one of the first [`COMPARED`] of `known` that is nearest to `word`, when it is near enough to
/// be meant.
pub(crate) fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let word = compared(word);
    let most = (word.len() / 3).max(1);
    let near = |k: &str| {
        let known = compared(k);
        let is_start = word.len() > 3 && (known.starts_with(&word) || word.starts_with(&known));
        if is_start { Some(most) } else { away(&word, &known, most) }
    };
    let all = known.into_iter().take(COMPARED).filter_map(|k| Some((near(k)?, k)));
    all.min_by_key(|(d, _)| *d).map(|(_, k)| k)
}

/// A name without what most types of errors end with.
pub(crate) struct Stem<'k> {
    name: &'k str,
    chars: Vec<char>,
}

impl<'k> Stem<'k> {
    pub(crate) fn of(name: &'k str) -> Self {
        let mut chars = compared(name);
        let end = chars.len().saturating_sub(ERROR.len());
        if chars[end..].iter().copied().eq(ERROR.chars()) {
            chars.truncate(end);
        }
        Self { name, chars }
    }
}

/// The one of `known` that `word` is, but for its case or a slip of the pen.
pub(crate) fn misspelt<'k>(word: &str, known: &[Stem<'k>]) -> Option<&'k str> {
    let own = Stem::of(word).chars;
    let most = (own.len() / 3).min(2);
    let all = known.iter().filter_map(|k| Some((away(&own, &k.chars, most)?, k.name)));
    all.min_by_key(|(d, _)| *d).map(|(_, k)| k)
}

/// The [`distance`], where it is at most `most`.
fn away(a: &[char], b: &[char], most: usize) -> Option<usize> {
    // An edit puts at most one character in and takes at most one out. Computing it costs more.
    let letters = |word: &[char]| word.iter().fold(0_u64, |all, c| all | 1 << (*c as u32 % 64));
    let differ = (letters(a) ^ letters(b)).count_ones() as usize;
    let is_near = a.len().abs_diff(b.len()) <= most && differ <= 2 * most;
    is_near.then(|| distance(a, b)).filter(|d| *d <= most)
}

fn compared(name: &str) -> Vec<char> {
    name.chars().flat_map(char::to_lowercase).take(LONGEST).collect()
}

/// `did you mean ...?`, or the list of what there is.
pub(crate) fn did_you_mean<'k>(
    word: &str,
    known: impl IntoIterator<Item = &'k str> + Clone,
) -> String {
    suggest(word, known, |all| format!("use {}", all.join(", ")))
}

/// `did you mean ...?`, or what there is to name.
pub(crate) fn did_you_mean_one_of<'k>(
    word: &str,
    known: impl IntoIterator<Item = &'k str> + Clone,
) -> String {
    suggest(word, known, |all| {
        let verb = if all.len() == 1 { "is" } else { "are" };
        format!("there {verb} `{}`", all.join("`, `"))
    })
}

/// `did you mean ...?`, or what `list` says of all there is.
fn suggest<'k>(
    word: &str,
    known: impl IntoIterator<Item = &'k str> + Clone,
    list: impl FnOnce(&[Cow<'_, str>]) -> String,
) -> String {
    if let Some(k) = nearest(word, known.clone()) {
        return format!("did you mean `{}`?", brief(k));
    }
    let all: Vec<_> = known.into_iter().take(LISTED).map(brief).collect();
    if all.is_empty() { "there are none".into() } else { list(&all) }
}

/// Edits of one character, and swaps of two neighbours, between `a` and `b`.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = match (i, j) {
                (0, n) | (n, 0) => n,
                _ => {
                    let swap = if a[i - 1] == b[j - 1] { 0 } else { 1 };
                    let mut best =
                        (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + swap);
                    if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                        best = best.min(rows[i - 2][j - 2] + 1);
                    }
                    best
                }
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_only_what_is_near() {
        let known = ["max_retries", "backoff", "max_backoff"];
        assert_eq!(nearest("max_retry", known), Some("max_retries"));
        assert_eq!(nearest("bakcoff", known), Some("backoff"));
        assert_eq!(nearest("Max_Backoff", known), Some("max_backoff"));
        assert_eq!(nearest("backoff_ms", known), Some("backoff"));
        assert_eq!(nearest("colour", known), None);
        // The beginning of a name, unless it is shorter than most words.
        assert_eq!(nearest("back", known), Some("backoff"));
        assert_eq!(nearest("bac", known), None);
        // Neighbours that are swapped are one mistake, wherever they stand.
        for swapped in ["ertry", "rtery", "rerty", "retyr"] {
            assert_eq!(nearest(swapped, ["retry"]), Some("retry"), "{swapped}");
        }
        assert_eq!(nearest("yetrr", ["retry"]), None);
        // A third of the characters may be others.
        assert_eq!(nearest("abcdefghi", ["xbcyefzhi"]), Some("xbcyefzhi"));
        assert_eq!(nearest("abcdefghi", ["xbcyefzhx"]), None);
    }

    #[test]
    fn a_slip_of_the_pen_is_not_another_word() {
        let known = ["TIMEOUT", "HTTPError", "TlsError", "ServerError", "ConnectionError"];
        let known = known.map(Stem::of);
        for (word, meant) in [
            ("TIMEOT", "TIMEOUT"),
            ("Timeout", "TIMEOUT"),
            ("HttpError", "HTTPError"),
            ("SeverError", "ServerError"),
            ("ConnectonErorr", "ConnectionError"),
        ] {
            let found = misspelt(word, &known);
            assert_eq!(found, if word == "ConnectonErorr" { None } else { Some(meant) }, "{word}");
        }
        for other in ["OSError", "UserError", "ServiceError", "KeyError", "Error", "", "E"] {
            assert_eq!(misspelt(other, &known), None, "{other}");
        }
    }
}
