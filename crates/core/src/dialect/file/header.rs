//! `headers` of an action: literal values, and variables of the environment as `env:NAME`.

use std::collections::BTreeMap;

use crate::dialect::tree::{Data, Node};
use crate::dialect::{Diagnostic, brief};
use crate::workflow::HeaderText;

/// Headers that the HTTP client alone sets.
const OWN_HEADERS: [&str; 11] = [
    "receipt-token",
    "idempotency-key",
    "x-retry-attempt",
    "x-retry-timeout-ms",
    "host",
    "connection",
    "content-length",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// What begins the name of a variable of the environment.
const ENV: &str = "env:";

/// Header names are lower-cased. What is wrong with a value never shows the value.
pub(super) fn read(node: &Node) -> Result<BTreeMap<String, HeaderText>, Diagnostic> {
    let mut headers = BTreeMap::new();
    for entry in node.entries()? {
        let name = entry.key.to_ascii_lowercase();
        let error = |message: String| entry.place.error(message);
        if name.is_empty() || !name.bytes().all(is_token_byte) {
            return Err(error(format!("{:?} is not the name of a header", brief(&entry.key))));
        }
        if OWN_HEADERS.contains(&name.as_str()) {
            return Err(
                error(format!("only the HTTP client may set `{name}`")).help_with("leave it out")
            );
        }
        let value = value(&entry.node)?;
        if headers.insert(name.clone(), value).is_some() {
            return Err(error(format!("`{}` is given twice", brief(&name)))
                .help_with("header names ignore case; keep one"));
        }
    }
    Ok(headers)
}

fn is_token_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)
}

fn value(node: &Node) -> Result<HeaderText, Diagnostic> {
    let Data::Text(text) = &node.data else {
        return Err(node.place.error(format!("expected a text, found {}", node.kind())));
    };
    if let Some(help) = looks_like_template(text) {
        return Err(node.place.error("a header can't hold a template").help_with(help));
    }
    if !text.bytes().all(|b| b == b'\t' || (b' '..=b'~').contains(&b)) {
        return Err(node
            .place
            .error("the header's value has a character that can't be sent")
            .help_with("use printable ASCII"));
    }
    parts(text).ok_or_else(|| {
        let error = node.place.error("`env:` is not followed by the name of a variable");
        error.help_with("write env:NAME")
    })
}

/// What to write in place of something that other tools fill in, and that would be sent as it is.
fn looks_like_template(text: &str) -> Option<&'static str> {
    let shell = |rest: &str| {
        let name = rest.bytes().take_while(|b| is_name(*b)).count();
        let name = &rest[..name];
        name.bytes().any(|b| b.is_ascii_uppercase())
            && !name.bytes().any(|b| b.is_ascii_lowercase())
    };
    let is_template =
        text.contains("${") || text.contains("{{") || text.split('$').skip(1).any(shell);
    is_template.then_some("write env:NAME for a variable of the environment, such as \"Bearer env:TOKEN\"; other values are fixed")
}

fn is_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b == b'_'
}

/// `env:NAME` at the beginning of the text and of each word in it; `None` if a name is missing.
pub(in crate::dialect) fn parts(text: &str) -> Option<HeaderText> {
    let begins = |at: &usize| {
        text[..*at].chars().next_back().is_none_or(|c| c.is_whitespace() || "=,;\"'(".contains(c))
    };
    let (mut parts, mut done) = (Vec::new(), 0);
    for at in text.match_indices(ENV).map(|(at, _)| at).filter(begins) {
        let name = &text[at + ENV.len()..];
        let name = &name[..name.bytes().take_while(|b| is_name(*b)).count()];
        if name.is_empty() {
            return None;
        }
        if at > done {
            parts.push(HeaderText::Literal(text[done..at].to_owned()));
        }
        parts.push(HeaderText::Env(name.to_owned()));
        done = at + ENV.len() + name.len();
    }
    if done < text.len() || parts.is_empty() {
        parts.push(HeaderText::Literal(text[done..].to_owned()));
    }
    Some(match parts.len() {
        1 => parts.remove(0),
        _ => HeaderText::Joined(parts),
    })
}
