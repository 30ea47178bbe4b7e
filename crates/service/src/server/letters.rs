//! `/v1/letters`: tasks that failed for good.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::audit::CreatedRun;
use super::caller::Caller;
use super::extract::{LetterPath, QueryParameters};
use super::json::{answer, letter_head, ok};
use super::problem::Problem;
use super::service::SharedState;
use retrial::engine::{DeadLetter, World};
use retrial::observe::letter_json;
use retrial::store::{AskLetters, LetterFilter};

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Discard {
    reason: Option<String>,
}

pub(super) async fn list<W: World>(
    State(service): State<SharedState<W>>,
    mut asked: QueryParameters,
) -> Result<Response, Problem> {
    let filter = LetterFilter {
        workflow: asked.take("workflow"),
        action: asked.take("action"),
        code: asked.take("code"),
        waiting: asked.read("waiting")?.unwrap_or(false),
        since: asked.read("since")?,
        until: asked.read("until")?,
    };
    let limit = asked.limit(service.settings.limits.page)?;
    let after = asked.read("after")?;
    asked.end()?;
    let page = service.engine.letters(AskLetters { after, limit, filter }).await?;
    let next = page.letters.last().filter(|_| page.letters.len() >= limit);
    Ok(ok(&json!({
        "at": page.at.to_string(),
        "letters": page.letters.iter().map(letter_head).collect::<Vec<_>>(),
        "next": next.map(|head| head.id.to_string()),
        "damaged": page.damaged.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })))
}

pub(super) async fn show<W: World>(
    State(service): State<SharedState<W>>,
    LetterPath(id): LetterPath,
) -> Result<Response, Problem> {
    let DeadLetter { head, letter } = service.engine.letter(id).await?;
    let mut shown = letter_head(&head);
    if let (Value::Object(shown), Value::Object(more)) = (&mut shown, letter_json(&letter)) {
        shown.extend(more);
    }
    Ok(ok(&shown))
}

pub(super) async fn redrive<W: World>(
    State(service): State<SharedState<W>>,
    LetterPath(id): LetterPath,
) -> Result<Response, Problem> {
    service.check_capacity().await?;
    let handle = service.engine.redrive(id).await?;
    let mut response = answer(StatusCode::CREATED, &json!({ "run": handle.run.to_string() }));
    response.extensions_mut().insert(CreatedRun(handle.run));
    Ok(response)
}

pub(super) async fn discard<W: World>(
    State(service): State<SharedState<W>>,
    LetterPath(id): LetterPath,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let asked = service.json::<Discard>(&headers, body).await?.unwrap_or_default();
    let reason = asked.reason.unwrap_or_else(|| "discarded over HTTP".to_owned());
    service.engine.discard(id, &caller.reason(&reason)).await?;
    Ok(ok(&json!({ "letter": id.to_string(), "status": "discarded" })))
}
