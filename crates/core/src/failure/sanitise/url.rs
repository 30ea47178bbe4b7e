//! User and password in URLs and addresses: all before `@` is a secret.

use super::MASK;

/// `text` with `user:password@` masked, behind `://` and without it.
pub(super) fn masked(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for part in text.split_inclusive(|c: char| c.is_whitespace() || is_quote(c)) {
        let mut addresses = part.split(MASK);
        mask_address(addresses.next().unwrap_or_default(), true, &mut out);
        // What is masked already was the beginning of the address.
        for address in addresses {
            out.push_str(MASK);
            mask_address(address, false, &mut out);
        }
    }
    out
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'' | '`' | '<' | '>')
}

fn mask_address(address: &str, from_start: bool, out: &mut String) {
    if !address.contains('@') {
        return out.push_str(address);
    }
    let mut parts = address.split("://");
    let first = parts.next().unwrap_or_default();
    if from_start {
        mask_pair(first, out)
    } else {
        out.push_str(first)
    }
    for part in parts {
        out.push_str("://");
        mask_user(part, out);
    }
}

/// `user:password@host` without a scheme.
fn mask_pair(text: &str, out: &mut String) {
    match text.rsplit_once('@') {
        Some((user, host)) if user.contains(':') => push_masked(host, out),
        _ => out.push_str(text),
    }
}

/// What stands behind `://`. A slash in a password ends the authority too early; what is then no
/// port gives it away.
fn mask_user(text: &str, out: &mut String) {
    let authority = &text[..text.find(['/', '?', '#']).unwrap_or(text.len())];
    let port = authority.rsplit_once(':').map_or("", |(_, port)| port);
    let odd = !authority.ends_with(']') && !port.bytes().all(|b| b.is_ascii_digit());
    match (authority.rsplit_once('@'), text.rsplit_once('@')) {
        (Some((user, _)), _) => push_masked(&text[user.len() + 1..], out),
        (None, Some((_, host))) if odd => push_masked(host, out),
        _ => out.push_str(text),
    }
}

fn push_masked(host: &str, out: &mut String) {
    out.push_str(MASK);
    out.push('@');
    out.push_str(host);
}
