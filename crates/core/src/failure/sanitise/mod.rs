//! Masks secrets in text before it is stored, logged or shown.
//!
//! Decides what looks like a secret. When in doubt it masks: a message that lost a harmless word
//! costs less than a leaked secret. Masking takes linear time and is idempotent. To add a shape, add a row to `shapes`; to add a name, a row to `names`.

mod names;
mod scan;
mod shapes;
mod spans;
mod strip;
mod url;

use serde_json::{Map, Value};

/// The text that replaces a secret.
pub const MASK: &str = "***";

/// `text` with control characters removed (newlines and tabs stay) and secrets masked, then cut to
/// `max_chars` characters.
#[must_use]
pub fn message(text: &str, max_chars: usize) -> String {
    let masked = mask(&strip::controls(text));
    match cut(&masked, max_chars) {
        None => masked,
        // A harmless word that was cut in the middle may read like a secret now.
        Some(head) => {
            let masked = mask(head);
            cut(&masked, max_chars).map_or_else(|| masked.clone(), str::to_owned)
        }
    }
}

/// The longest text that [`clean`] returns, in characters.
const LONGEST: usize = 500;

/// `text` with secrets masked, on one line of at most 500 characters: a control character in it
/// could move the terminal's cursor or forge a line of a log.
#[must_use]
pub fn clean(text: &str) -> String {
    let shown = message(text, LONGEST);
    shown.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A URL without user, query, fragment and the parts of its path that look like keys.
#[must_use]
pub fn url(text: &str) -> String {
    let bare = text.split('#').next().unwrap_or(text);
    let (path, query) = bare.split_once('?').map_or((bare, None), |(path, q)| (path, Some(q)));
    let hidden = |part: &str| shapes::looks_random(part) || mask(part) != part;
    let shown = mask(&strip::controls(path));
    let (scheme, rest) = shown.split_once("://").unwrap_or(("", &shown));
    let mut parts = rest.split('/');
    let host = parts.next().unwrap_or_default();
    let parts = parts.map(|part| if hidden(part) { MASK } else { part });
    let path = parts.fold(String::new(), |path, part| path + "/" + part);
    let colon = if scheme.is_empty() { "" } else { "://" };
    let query = if query.is_some() { format!("?{MASK}") } else { String::new() };
    format!("{scheme}{colon}{host}{path}{query}")
}

/// Whether what stands under `name` is a secret.
#[must_use]
pub fn names_a_secret(name: &str) -> bool {
    names::is_secret(name)
}

/// `value` with secrets in its texts masked, and with every value under a secret name masked.
#[must_use]
pub fn value(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(mask(&strip::controls(text))),
        Value::Array(items) => items.iter().map(self::value).collect(),
        Value::Object(members) => Value::Object(object(members)),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn object(members: &Map<String, Value>) -> Map<String, Value> {
    // A list of headers or variables: `{"name": "Authorization", "value": "..."}`.
    let named = ["name", "key"].iter().filter_map(|k| members.get(*k)?.as_str());
    let names_a_secret = named.into_iter().any(names::is_secret);
    let masked = |(key, value): (&String, &Value)| {
        let hidden = names::is_secret(key) || (names_a_secret && key == "value");
        let shown = if hidden { hide(value) } else { self::value(value) };
        (mask(&strip::controls(key)), shown)
    };
    members.iter().map(masked).collect()
}

fn hide(value: &Value) -> Value {
    if value.is_null() { Value::Null } else { Value::String(MASK.to_owned()) }
}

fn mask(text: &str) -> String {
    scan::masked(&url::masked(&shapes::without_private_keys(text)))
}

/// The first `max_chars` characters, where there are more.
fn cut(text: &str, max_chars: usize) -> Option<&str> {
    text.char_indices().nth(max_chars).map(|(at, _)| &text[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_on_one_line_and_moves_no_cursor() {
        assert!(!clean("a\nb\x1b[2Jc\u{9b}d\re").contains(char::is_control));
        assert_eq!(clean("a\nb"), "a b");
        assert_eq!(clean(&"x".repeat(2 * LONGEST)).chars().count(), LONGEST);
    }
}
