//! The inspector: a page that shows the service to people. It asks what programs ask too.
//!
//! Decides which files the page is made of, and that it runs nothing else. Must never know a run:
//! whatever is shown comes over the same routes as for everybody, so that nothing is shown that was
//! not masked. To add a file, add a row to [`ASSETS`]; the modules need no build step.

use axum::Router;
use axum::extract::Path;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::problem::Problem;

/// What the page may do: run and load what is served beside it, ask this service, and nothing else.
/// Markup from data is refused by the browser even where a module tried to set some.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; \
                      trusted-types 'none'";

const PAGE: &str = include_str!("index.html");

/// The files beside the page: name, media type, text.
const ASSETS: [(&str, &str, &str); 14] = [
    ("style.css", CSS, include_str!("style.css")),
    ("icon.svg", "image/svg+xml", include_str!("icon.svg")),
    ("app.js", SCRIPT, include_str!("app.js")),
    ("dom.js", SCRIPT, include_str!("dom.js")),
    ("api.js", SCRIPT, include_str!("api.js")),
    ("words.js", SCRIPT, include_str!("words.js")),
    ("runs.js", SCRIPT, include_str!("runs.js")),
    ("run.js", SCRIPT, include_str!("run.js")),
    ("graph.js", SCRIPT, include_str!("graph.js")),
    ("timeline.js", SCRIPT, include_str!("timeline.js")),
    ("letters.js", SCRIPT, include_str!("letters.js")),
    ("together.js", SCRIPT, include_str!("together.js")),
    ("actions.js", SCRIPT, include_str!("actions.js")),
    ("workflows.js", SCRIPT, include_str!("workflows.js")),
];

const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The page and its files.
pub(super) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new().route("/", get(page)).route("/assets/{name}", get(asset))
}

async fn page() -> Response {
    file("text/html; charset=utf-8", PAGE)
}

async fn asset(Path(name): Path<String>) -> Response {
    match ASSETS.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, text)) => file(kind, text),
        None => Problem::not_found("the page has no such file").into_response(),
    }
}

fn file(kind: &'static str, text: &'static str) -> Response {
    let policy = HeaderValue::from_static(POLICY);
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CONTENT_SECURITY_POLICY, policy),
    ];
    (headers, text).into_response()
}
