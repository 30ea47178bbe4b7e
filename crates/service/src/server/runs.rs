//! `GET /v1/runs/{run}`: one run with its steps, tasks and attempts.

use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};

use super::extract::RunPath;
use super::json::ok;
use super::problem::Problem;
use super::service::{ServiceState, SharedState};
use retrial::engine::{CommandError, QueueView, World};
use retrial::failure::sanitise::clean;
use retrial::observe::Inspection;
use retrial::run::{self, LetterId, Recorded, RunId, RunState, TaskId, Version};
use retrial::store::{AskLetters, LetterFilter, RunHead, Store};

/// Letters read in one page.
const PAGE: usize = 256;

pub(super) async fn show<W: World>(
    State(service): State<SharedState<W>>,
    RunPath(run): RunPath,
) -> Result<Response, Problem> {
    let state = service.engine.state(run).await?;
    let head = service.head(run).await?;
    let events = service.kept_events(run).await?;
    let queue = service.engine.queue(&state).await?;
    let (letters, damaged) = service.letters_of(run).await?;
    let named = |ids: Vec<LetterId>| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut shown = Inspection::new(&state, &events).to_json();
    shown["created"] = head.created.to_string().into();
    // The head is read after the state, so it may already have an end that the state has not.
    let ended = head.ended.filter(|_| state.outcome().is_some());
    shown["ended"] = json!(ended.map(|at| at.to_string()));
    shown["archived"] = json!(head.archived.map(|at| at.to_string()));
    shown["redrives"] = json!(head.redrives.map(|id| id.to_string()));
    shown["letters"] = json!(named(letters));
    shown["damaged_letters"] = json!(named(damaged));
    let waits = service.engine.waiting_for(&state);
    shown["waiting_for"] = waits
        .iter()
        .map(|need| json!({ "action": clean(&need.action), "via": need.via }))
        .collect();
    shown["queue"] = queue.iter().map(|columns| row(&state, columns)).collect();
    Ok(ok(&shown))
}

/// A queue row without its delivery token, which authorises changes to the attempt.
fn row(state: &RunState, columns: &QueueView) -> Value {
    let step = state.workflow().step(columns.task.step);
    json!({
        "step": step.map(|step| clean(&step.id)),
        "item": columns.task.item,
        "max_retries": columns.max_retries,
        "attempt_number": columns.attempt_number,
        "timeout_seconds": columns.timeout_seconds,
        "timeout_retry_limit": columns.timeout_retry_limit,
        "backoff_kind": columns.backoff_kind,
        "backoff_base_delay_ms": columns.backoff_base_delay_ms,
        "retry_kind": columns.retry_kind,
        "scheduled_at": columns.scheduled_at.map(|at| at.to_string()),
        "timeout_at": columns.timeout_at.map(|at| at.to_string()),
        "status": columns.status,
    })
}

impl<W: World> ServiceState<W> {
    /// The run's head, as lists show it.
    pub(super) async fn head(&self, run: RunId) -> Result<RunHead, Problem> {
        let page = self.engine.store().heads(Some(run.before()), 1).await?;
        let head = page.runs.into_iter().find(|head| head.run == run);
        if head.is_none() && page.damaged.contains(&run) {
            return Err(CommandError::Broken(format!("run {run} is damaged")).into());
        }
        Ok(head.ok_or(CommandError::UnknownRun(run))?)
    }

    /// The run's events, as far as they are kept.
    async fn kept_events(&self, run: RunId) -> Result<Vec<Recorded>, Problem> {
        let loaded = self.engine.store().load(run, Some(Version::START)).await?;
        let loaded = loaded.ok_or(CommandError::UnknownRun(run))?;
        let events = loaded.tail.events.iter().map(|bytes| run::decode(bytes));
        let events: Result<Vec<_>, _> = events.collect();
        Ok(events.map_err(|error| CommandError::Broken(format!("run {run}: {error}")))?)
    }

    /// The run's letters, and apart from them those that are damaged.
    async fn letters_of(&self, run: RunId) -> Result<(Vec<LetterId>, Vec<LetterId>), Problem> {
        let (mut found, mut damaged) = (Vec::new(), Vec::new());
        let mut after = LetterId { run: run.before(), task: TaskId::LAST };
        loop {
            let filter = LetterFilter::default();
            let ask = AskLetters { after: Some(after), limit: PAGE, filter };
            let page = self.engine.letters(ask).await?;
            damaged.extend(page.damaged.into_iter().filter(|id| id.run == run));
            let Some(last) = page.letters.last() else { return Ok((found, damaged)) };
            after = last.id;
            let of_run = page.letters.iter().map(|head| head.id).filter(|id| id.run == run);
            found.extend(of_run);
            if after.run != run {
                return Ok((found, damaged));
            }
        }
    }
}
