//! Text that may hold secrets.

use retrial::failure::sanitise;
use serde_json::{Value, json};

const SECRET: &str = "q7Zt4Lw9Xk2Vb8Nd";

pub(crate) fn mask(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for most in [40, usize::MAX] {
        let shown = sanitise::message(&text, most);
        assert!(shown.chars().count() <= most);
        assert!(shown.len() <= 4 * text.len() + 100, "{} of {}", shown.len(), text.len());
        assert!(!shown.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\t')));
        assert_eq!(sanitise::message(&shown, most), shown, "masked again");
    }
    assert!(!sanitise::clean(&text).contains(char::is_control));
    let _ = sanitise::url(&text);
    // Whatever stands around it.
    for planted in [
        format!("{text}\nAuthorization: Bearer {SECRET}\n"),
        format!("https://user:{SECRET}@example.org/ {text}"),
    ] {
        let shown = sanitise::message(&planted, usize::MAX);
        assert!(!shown.contains(SECRET), "{shown}");
    }
    let shown = sanitise::value(&json!({ "password": SECRET, "text": text }));
    assert!(!shown.to_string().contains(SECRET), "{shown}");
    if let Ok(value) = serde_json::from_slice::<Value>(bytes) {
        let shown = sanitise::value(&value);
        assert_eq!(sanitise::value(&shown), shown, "masked again");
    }
}
