//! Secrets that are known by their own shape.

use super::MASK;

/// How an issuer's secrets begin, and how many characters at least follow.
const PREFIXES: [(&str, usize); 36] = [
    ("AKIA", 12),
    ("ASIA", 12),
    ("AROA", 12),
    ("AIDA", 12),
    ("AIza", 20),
    ("ya29.", 10),
    ("sk-", 12),
    ("sk_live_", 8),
    ("sk_test_", 8),
    ("rk_live_", 8),
    ("rk_test_", 8),
    ("pk_live_", 8),
    ("whsec_", 8),
    ("ghp_", 12),
    ("gho_", 12),
    ("ghu_", 12),
    ("ghs_", 12),
    ("ghr_", 12),
    ("github_pat_", 12),
    ("glpat-", 10),
    ("xoxb-", 8),
    ("xoxp-", 8),
    ("xoxa-", 8),
    ("xoxr-", 8),
    ("xoxs-", 8),
    ("xapp-", 8),
    ("npm_", 16),
    ("pypi-", 16),
    ("hf_", 16),
    ("dop_v1_", 16),
    ("shpat_", 16),
    ("hvs.", 16),
    ("SG.", 16),
    // Addresses that are keys: whoever knows one may post.
    ("hooks.slack.com/services/", 8),
    ("discord.com/api/webhooks/", 8),
    // Base64 of `{"`: a JSON Web Token begins so, whole or cut.
    ("eyJ", 8),
];

/// Whether a secret of a known shape begins `text`. A longer text with the same beginning is one
/// too, so cutting makes none appear.
pub(super) fn begins(text: &str) -> bool {
    PREFIXES.iter().any(|(prefix, least)| {
        text.strip_prefix(prefix).is_some_and(|rest| body_len(rest, *least) >= *least)
    })
}

fn body_len(text: &str, enough: usize) -> usize {
    text.bytes().take(enough).take_while(|b| is_secret_byte(*b)).count()
}

/// What the issuers above make their secrets of: base64 in both alphabets, and dots.
pub(super) fn is_secret_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'+' | b'/' | b'=' | b'~')
}

/// The least length of a hexadecimal or base64 text that is taken for a secret beside a word that
/// speaks of secrets.
const LONG: usize = 16;

/// Whether `word` could be a key in hexadecimal or base64: long, of letters and digits mixed, or of
/// letters in both cases. A UUID is an identifier.
pub(super) fn looks_random(word: &str) -> bool {
    if word.len() < LONG || !word.bytes().all(|b| is_secret_byte(b) && b != b'.') || is_uuid(word) {
        return false;
    }
    let has = |kind: fn(&u8) -> bool| word.as_bytes().iter().any(kind);
    let digit = has(u8::is_ascii_digit);
    let (lower, upper) = (has(u8::is_ascii_lowercase), has(u8::is_ascii_uppercase));
    (digit && (lower || upper)) || (lower && upper)
}

fn is_uuid(word: &str) -> bool {
    word.len() == 36
        && word.bytes().enumerate().all(|(i, b)| match i {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
}

/// `text` without PEM blocks of private keys: from `-----BEGIN` to the end line, or to the end of
/// the text where that is missing.
pub(super) fn without_private_keys(text: &str) -> String {
    const BEGIN: &str = "-----BEGIN ";
    const END: &str = "-----END ";
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(BEGIN) {
        let (before, block) = rest.split_at(start);
        kept.push_str(before);
        if !label(&block[BEGIN.len()..]).contains("PRIVATE") {
            kept.push_str(BEGIN);
            rest = &block[BEGIN.len()..];
            continue;
        }
        kept.push_str(MASK);
        rest = block.find(END).map_or("", |end| after_dashes(&block[end + END.len()..]));
    }
    kept.push_str(rest);
    kept
}

fn label(text: &str) -> &str {
    let ends = |c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == ' ');
    &text[..text.find(ends).unwrap_or(text.len())]
}

fn after_dashes(text: &str) -> &str {
    text.split_once("-----").map_or("", |(_, after)| after)
}
