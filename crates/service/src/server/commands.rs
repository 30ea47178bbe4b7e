//! `POST /v1/runs/{run}/...`: what people ask of one run.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use serde_json::json;

use super::ask::OfRun;
use super::problem::{Kind, Problem};
use super::service::{At, Shared};
use super::shown::{ok, phase_name};
use retrial::engine::World;
use retrial::run::RunId;

/// What stands in a record where no reason was given.
const NO_REASON: &str = "asked over HTTP";

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

fn reason(given: Option<String>) -> String {
    given.filter(|text| !text.trim().is_empty()).unwrap_or_else(|| NO_REASON.to_owned())
}

pub(super) async fn cancel<W: World>(
    State(at): State<At<W>>,
    OfRun(run): OfRun,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let asked = at.json::<Cancel>(&headers, body).await?.unwrap_or_default();
    at.goes_on(run).await?;
    let reason = reason(asked.reason);
    match asked.rollback {
        true => at.engine.rollback(run, &reason).await?,
        false => at.engine.cancel(run, &reason).await?,
    }
    at.stands(run).await
}

pub(super) async fn pause<W: World>(
    State(at): State<At<W>>,
    OfRun(run): OfRun,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let asked = at.json::<Because>(&headers, body).await?.unwrap_or_default();
    at.goes_on(run).await?;
    at.engine.pause(run, &reason(asked.reason)).await?;
    at.stands(run).await
}

pub(super) async fn fail<W: World>(
    State(at): State<At<W>>,
    OfRun(run): OfRun,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let asked = at.json::<Fail>(&headers, body).await?;
    let asked = asked.ok_or_else(|| Problem::bad_request("name the step: {\"step\": \"...\"}"))?;
    at.goes_on(run).await?;
    at.engine.fail(run, &asked.step, asked.item, &reason(asked.reason)).await?;
    at.stands(run).await
}

/// A command without words.
macro_rules! plain {
    ($name:ident) => {
        pub(super) async fn $name<W: World>(
            State(at): State<At<W>>,
            OfRun(run): OfRun,
            headers: HeaderMap,
            body: Body,
        ) -> Result<Response, Problem> {
            at.json::<Nothing>(&headers, body).await?;
            at.goes_on(run).await?;
            at.engine.$name(run).await?;
            at.stands(run).await
        }
    };
}

plain!(resume);
plain!(deactivate);
plain!(activate);

pub(super) async fn archive<W: World>(
    State(at): State<At<W>>,
    OfRun(run): OfRun,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    at.json::<Nothing>(&headers, body).await?;
    at.engine.archive(run).await?;
    at.stands(run).await
}

impl<W: World> Shared<W> {
    /// Refuses what would do nothing: the run has ended.
    async fn goes_on(&self, run: RunId) -> Result<(), Problem> {
        let phase = self.head(run).await?.phase;
        if phase.is_terminal() {
            let name = phase_name(phase);
            let problem = Problem::new(Kind::Ended, format!("run {run} has ended ({name})"));
            return Err(problem.with("phase", name));
        }
        Ok(())
    }

    /// Where the run stands after what was done.
    async fn stands(&self, run: RunId) -> Result<Response, Problem> {
        let head = self.head(run).await?;
        Ok(ok(&json!({
            "run": run.to_string(),
            "phase": phase_name(head.phase),
            "version": head.version.0,
            "archived": head.archived.map(|at| at.to_string()),
        })))
    }
}
