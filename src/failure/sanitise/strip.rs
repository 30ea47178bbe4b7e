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
            c if c.is_control() || is_invisible(c) => {}
            c => kept.push(c),
        }
    }
    kept
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
        ] {
            assert_eq!(controls(text), kept, "{text:?}");
        }
    }
}
