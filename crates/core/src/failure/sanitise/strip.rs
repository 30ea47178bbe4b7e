use std::iter::Peekable;
use std::str::Chars;

/// `text` without control characters but newline and tab, without terminal escape sequences, and
/// without characters that are invisible or turn the direction of writing.
pub(super) fn controls(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' | '\t' => kept.push(c),
            '\u{1b}' => skip_sequence(&mut chars),
            '\u{9b}' => skip_parameters(&mut chars),
            c if is_dropped(c) => {}
            c => {
                kept.push(c);
                if without_escape(&mut kept) == Some('\u{1b}') {
                    skip_sequence(&mut chars);
                }
            }
        }
    }
    kept
}

fn is_dropped(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t')) || is_invisible(c)
}

/// Takes such a character off the end of `kept` where JSON spells it, as in `\u001b`, with every
/// backslash before it. Looked for at each character, so that none comes together from two halves.
fn without_escape(kept: &mut String) -> Option<char> {
    const SPELLED: usize = "\\u001b".len();
    let start = kept.len().checked_sub(SPELLED)?;
    let digits = kept.get(start..)?.strip_prefix("\\u")?;
    let found = char::from_u32(u32::from_str_radix(digits, 16).ok()?).filter(|c| is_dropped(*c))?;
    kept.truncate(start);
    kept.truncate(kept.trim_end_matches('\\').len());
    Some(found)
}

/// `ESC [` with its parameters (ECMA-48); a lone escape is only dropped.
fn skip_sequence(chars: &mut Peekable<Chars<'_>>) {
    if chars.next_if_eq(&'[').is_some() {
        skip_parameters(chars);
    }
}

fn skip_parameters(chars: &mut Peekable<Chars<'_>>) {
    while chars.next_if(|c| ('\u{20}'..='\u{3f}').contains(c)).is_some() {}
    chars.next_if(|c| ('\u{40}'..='\u{7e}').contains(c));
}

fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}'
        | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_gone() {
        for (text, kept) in [
            ("a\tb\nc", "a\tb\nc"),
            ("a\r\nb\0\u{7f}", "a\nb"),
            ("\u{1b}[31;1mred\u{1b}[0m", "red"),
            ("\u{9b}2Jx", "x"),
            ("\u{1b}]0;title\u{7}x", "]0;titlex"),
            ("\u{1b}\u{1b}[1mx", "x"),
            ("pass\u{200b}word", "password"),
            ("\u{1b}[", ""),
            (r"pass\u001b[0mword \u000a\u0041", r"password \u000a\u0041"),
            (r"pass\\u200Bword", "password"),
            (r"\u00\u001b1b", ""),
        ] {
            assert_eq!(controls(text), kept, "{text:?}");
        }
    }
}
