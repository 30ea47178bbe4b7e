//! Texts that users or endpoints wrote, as they may be shown.

use retrial::failure::sanitise;

/// The longest text shown, in characters.
const LONGEST: usize = 500;

/// `text` without secrets (C14) and on one line.
pub(super) fn clean(text: &str) -> String {
    let shown = sanitise::message(text, LONGEST);
    shown.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
