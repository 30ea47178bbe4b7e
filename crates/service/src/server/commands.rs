//! `POST /v1/runs/{run}/...`: the commands on one run.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use serde_json::json;

use super::caller::Caller;
use super::extract::RunPath;
use super::json::{ok, phase_name};
use super::problem::{Kind, Problem};
use super::service::{ServiceState, SharedState};
use retrial::engine::World;
use retrial::run::RunId;

/// The recorded reason if the request gives none.
const NO_REASON: &str = "requested over HTTP";

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Because {
    reason: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Cancel {
    reason: Option<String>,
    #[serde(default)]
    rollback: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fail {
    step: String,
    item: Option<u32>,
    reason: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Release {
    step: Option<String>,
    item: Option<u32>,
    reason: Option<String>,
}

fn reason(given: Option<String>, caller: &Caller) -> String {
    let given = given.filter(|text| !text.trim().is_empty());
    caller.reason(given.as_deref().unwrap_or(NO_REASON))
}

pub(super) async fn cancel<W: World>(
    State(service): State<SharedState<W>>,
    RunPath(run): RunPath,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let asked = service.json::<Cancel>(&headers, body).await?.unwrap_or_default();
    service.require_unfinished(run).await?;
    let reason = reason(asked.reason, &caller);
    match asked.rollback {
        true => service.engine.rollback(run, &reason).await?,
        false => service.engine.cancel(run, &reason).await?,
    }
    service.current_state(run).await
}

pub(super) async fn pause<W: World>(
    State(service): State<SharedState<W>>,
    RunPath(run): RunPath,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let asked = service.json::<Because>(&headers, body).await?.unwrap_or_default();
    service.require_unfinished(run).await?;
    service.engine.pause(run, &reason(asked.reason, &caller)).await?;
    service.current_state(run).await
}

pub(super) async fn fail<W: World>(
    State(service): State<SharedState<W>>,
    RunPath(run): RunPath,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let asked = service.json::<Fail>(&headers, body).await?;
    let asked = asked
        .ok_or_else(|| Problem::bad_request("the body names no step; send {\"step\": \"...\"}"))?;
    service.require_unfinished(run).await?;
    service.engine.fail(run, &asked.step, asked.item, &reason(asked.reason, &caller)).await?;
    service.current_state(run).await
}

pub(super) async fn release<W: World>(
    State(service): State<SharedState<W>>,
    RunPath(run): RunPath,
    caller: Caller,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let asked = service.json::<Release>(&headers, body).await?.unwrap_or_default();
    let step = asked.step.as_deref();
    if step.is_none() && asked.item.is_some() {
        return Err(Problem::bad_request("`item` needs the `step` whose item it is"));
    }
    service.require_unfinished(run).await?;
    service.engine.release(run, step, asked.item, &reason(asked.reason, &caller)).await?;
    service.current_state(run).await
}

/// A handler of a command without a body.
macro_rules! command_without_body {
    ($name:ident) => {
        pub(super) async fn $name<W: World>(
            State(service): State<SharedState<W>>,
            RunPath(run): RunPath,
            headers: HeaderMap,
            body: Body,
        ) -> Result<Response, Problem> {
            service.json::<Nothing>(&headers, body).await?;
            service.require_unfinished(run).await?;
            service.engine.$name(run).await?;
            service.current_state(run).await
        }
    };
}

command_without_body!(resume);
command_without_body!(deactivate);
command_without_body!(activate);

pub(super) async fn archive<W: World>(
    State(service): State<SharedState<W>>,
    RunPath(run): RunPath,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    service.json::<Nothing>(&headers, body).await?;
    service.engine.archive(run).await?;
    service.current_state(run).await
}

impl<W: World> ServiceState<W> {
    /// Fails if the run has ended, when a command would do nothing.
    async fn require_unfinished(&self, run: RunId) -> Result<(), Problem> {
        let phase = self.head(run).await?.phase;
        if phase.is_terminal() {
            let name = phase_name(phase);
            let problem = Problem::new(Kind::Ended, format!("run {run} has ended ({name})"));
            return Err(problem.with("phase", name));
        }
        Ok(())
    }

    /// The answer of a command: the run's state after it.
    async fn current_state(&self, run: RunId) -> Result<Response, Problem> {
        let head = self.head(run).await?;
        Ok(ok(&json!({
            "run": run.to_string(),
            "phase": phase_name(head.phase),
            "version": head.version.0,
            "archived": head.archived.map(|at| at.to_string()),
        })))
    }
}
