//! Answers in JSON.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};

use retrial::failure::sanitise::clean;
use retrial::store::{LetterHead, LetterStatus, RunHead, RunPhase};

/// A run in a list, as one JSON object.
pub(super) fn run_head(head: &RunHead) -> Value {
    json!({
        "run": head.run.to_string(),
        "workflow": clean(&head.workflow),
        "phase": phase_name(head.phase),
        "version": head.version.0,
        "created": head.created.to_string(),
        "ended": head.ended.map(|at| at.to_string()),
        "archived": head.archived.map(|at| at.to_string()),
        "redrives": head.redrives.map(|id| id.to_string()),
        "letters": head.letters,
        "key": head.key.as_deref().map(clean),
        "code": head.code.as_deref().map(clean),
    })
}

/// A dead letter in a list, as one JSON object.
pub(super) fn letter_head(head: &LetterHead) -> Value {
    let (status, run, why) = match &head.status {
        LetterStatus::Waiting => ("waiting", None, None),
        LetterStatus::Redriven { run } => ("redriven", Some(run.to_string()), None),
        LetterStatus::Discarded { reason } => ("discarded", None, Some(clean(reason))),
    };
    json!({
        "letter": head.id.to_string(),
        "workflow": clean(&head.workflow),
        "action": clean(&head.action),
        "code": clean(&head.code),
        "message": clean(&head.message),
        "failed_at": head.at.to_string(),
        "status": status,
        "redriven_by": run,
        "discarded_because": why,
        "redrives": head.redrives.map(|id| id.to_string()),
    })
}

/// The phases of runs, and their names in requests and answers.
pub(super) const PHASES: [(&str, RunPhase); 6] = [
    ("running", RunPhase::Running),
    ("paused", RunPhase::Paused),
    ("completed", RunPhase::Completed),
    ("failed", RunPhase::Failed),
    ("cancelled", RunPhase::Cancelled),
    ("deactivated", RunPhase::Deactivated),
];

pub(super) fn phase_name(phase: RunPhase) -> &'static str {
    PHASES.iter().find(|(_, named)| *named == phase).map_or("", |(name, _)| name)
}

/// An answer in JSON.
pub(super) fn answer(status: StatusCode, body: &Value) -> Response {
    json_as("application/json", status, body)
}

/// An answer with the status 200.
pub(super) fn ok(body: &Value) -> Response {
    answer(StatusCode::OK, body)
}

/// An answer in JSON of the media type `kind`.
pub(super) fn json_as(kind: &'static str, status: StatusCode, body: &Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
