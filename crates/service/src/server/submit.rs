//! `POST /v1/runs`: submits a workflow, by name or as text, with its input.

use std::sync::{Arc, MutexGuard, PoisonError};

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Settings;
use super::audit::CreatedRun;
use super::caller::Caller;
use super::definitions::{self, DefinitionText, Syntax};
use super::extract::parse;
use super::json::answer;
use super::problem::{Kind, Problem};
use super::service::{ServiceState, SharedState};
use retrial::engine::{Submission, World};
use retrial::runtime::Runtime;
use retrial::store::Store;
use retrial::time::{Mono, Nanos};
use retrial::workflow::Workflow;

/// The longest submission key, in bytes.
const LONGEST_KEY: usize = 255;

/// How long a count of unfinished runs is valid.
const COUNT_AGAIN: Nanos = Nanos::from_secs(1);

/// The body: `workflow` or `definition`, and the fields that belong to it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    workflow: Option<String>,
    definition: Option<String>,
    format: Option<String>,
    name: Option<String>,
    actions: Option<String>,
    #[serde(default)]
    input: Map<String, Value>,
}

pub(super) async fn submit<W: World>(
    State(service): State<SharedState<W>>,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let key = key(&headers)?;
    let body = service.json_body(&headers, body).await?;
    let size = body.len();
    let (wanted, input) = service.away(move |settings| Wanted::read(&body, settings)).await?;
    let workflow = match wanted {
        Wanted::Written(workflow) => *workflow,
        Wanted::Uploaded(name) => service.named(&name).await?,
    };
    service.check_capacity().await?;
    let room = service.room_for(&caller, size).await?;
    let submission = Submission::new(Arc::new(workflow)).with_input(input);
    let handle = service.engine.submit(Submission { key, ..submission }).await?;
    if !handle.existing {
        room.keep(handle.run);
    }
    let status = if handle.existing { StatusCode::OK } else { StatusCode::CREATED };
    let run = handle.run.to_string();
    let mut response = answer(status, &json!({ "run": run, "existing": handle.existing }));
    response.extensions_mut().insert(CreatedRun(handle.run));
    if let Ok(place) = HeaderValue::try_from(format!("/v1/runs/{run}")) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

/// The submission's key.
fn key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    let text = key.to_str().ok().filter(|text| (1..=LONGEST_KEY).contains(&text.len()));
    text.map(|text| Some(text.to_owned())).ok_or_else(|| {
        Problem::bad_request(format!(
            "the Idempotency-Key is invalid; use 1 to {LONGEST_KEY} visible ASCII characters"
        ))
    })
}

/// The workflow of a submission.
enum Wanted {
    /// The uploaded one of this name.
    Uploaded(String),
    /// The one in the request.
    Written(Box<Workflow>),
}

impl Wanted {
    /// The workflow and its input.
    fn read(body: &[u8], settings: &Settings) -> Result<(Self, Map<String, Value>), Problem> {
        let asked: Asked = parse(body)?;
        let wanted = match &asked {
            Asked {
                workflow: Some(name),
                definition: None,
                format: None,
                name: None,
                actions: None,
                ..
            } => Self::Uploaded(name.clone()),
            Asked { workflow: None, definition: Some(text), .. } => {
                Self::Written(Box::new(asked.written(text, settings)?))
            }
            _ => {
                return Err(Problem::bad_request(
                    "give either `workflow`, the name of an uploaded definition, or `definition` and `format`",
                ));
            }
        };
        Ok((wanted, asked.input))
    }
}

impl Asked {
    fn written(&self, text: &str, settings: &Settings) -> Result<Workflow, Problem> {
        let syntax = Syntax::named(self.format.as_deref().unwrap_or_default())?;
        let (name, actions) = (self.name.as_deref(), self.actions.as_deref());
        if syntax != Syntax::Ir && (name.is_some() || actions.is_some()) {
            let detail =
                "`name` and `actions` apply only to IR text; other definitions contain their own";
            return Err(Problem::bad_request(detail));
        }
        let text = DefinitionText { name: name.unwrap_or("workflow"), syntax, text, actions };
        let read = text.bounded()?.read(settings);
        read.map(|document| document.workflow)
            .map_err(|found| definitions::invalid_definition(&found))
    }
}

impl<W: World> ServiceState<W> {
    /// Fails if the limit of unfinished runs is reached. Counts them in the store at most once in
    /// [`COUNT_AGAIN`] and adds submissions in between, so that a burst of submissions needs one
    /// count.
    pub(super) async fn check_capacity(&self) -> Result<(), Problem> {
        let most = self.settings.limits.unfinished;
        let now = self.engine.runtime().now();
        let fresh = self.counted().filter(|(at, _)| now.since(*at) < COUNT_AGAIN);
        let unfinished = match fresh {
            Some((_, unfinished)) => unfinished,
            None => {
                let tally = self.engine.store().tally().await?;
                let going = tally.phases.iter().filter(|(phase, _)| !phase.is_terminal());
                let unfinished = going.map(|(_, count)| *count).sum();
                *self.counted() = Some((now, unfinished));
                unfinished
            }
        };
        if unfinished >= most {
            let detail = format!(
                "{unfinished} runs are unfinished and the limit is {most}; try again later"
            );
            return Err(Problem::new(Kind::TooManyRuns, detail));
        }
        if let Some((_, unfinished)) = &mut *self.counted() {
            *unfinished += 1;
        }
        Ok(())
    }

    fn counted(&self) -> MutexGuard<'_, Option<(Mono, u64)>> {
        self.unfinished.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
