//! Writes a page as one file that loads nothing else.

use super::model::Page;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

impl Page {
    /// The page's HTML. All content is data: no text in it can become markup or script.
    #[must_use]
    pub fn html(&self) -> String {
        let data = serde_json::to_string(self).unwrap_or_default();
        let part = |name: &str| match name {
            "style" => STYLE.to_owned(),
            "script" => SCRIPT.to_owned(),
            "data" => unmarked(&data),
            _ => escaped(&self.title),
        };
        filled(PAGE, part)
    }
}

/// `text` with the part of that name in the place of each `{{name}}`. A name inside a part is not
/// replaced.
fn filled(text: &str, part: impl Fn(&str) -> String) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").unwrap_or((after, ""));
        filled.push_str(before);
        filled.push_str(&part(name));
        rest = after;
    }
    filled + rest
}

/// JSON in which nothing can end a script element or begin a comment.
fn unmarked(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
