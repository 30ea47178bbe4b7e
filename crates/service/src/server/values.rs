//! What users and endpoints put into a run and got out of it, as it is stored: inputs, results, the
//! payloads of letters. Every other route masks them. Whoever may reveal may read them here, and the
//! audit trail says who did.

use axum::extract::State;
use axum::response::Response;
use serde_json::{Value, json};

use super::extract::{LetterPath, QueryParameters, RunPath};
use super::json::ok;
use super::problem::Problem;
use super::service::SharedState;
use retrial::engine::World;
use retrial::failure::sanitise::clean;
use retrial::run::{LetterId, RunState, TaskId};

/// A page ends with the result that reaches this many bytes.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// `GET /v1/runs/{run}/values`: the run's input and a page of its tasks' results.
pub(super) async fn of_run<W: World>(
    State(service): State<SharedState<W>>,
    RunPath(run): RunPath,
    mut asked: QueryParameters,
) -> Result<Response, Problem> {
    let limit = asked.limit(service.settings.limits.page)?;
    let after: Option<LetterId> = asked.read("after")?;
    asked.end()?;
    let state = service.engine.state(run).await?;
    let (results, last) = results(&state, after.map(|id| id.task), limit);
    Ok(ok(&json!({
        "run": run.to_string(),
        "input": state.input(),
        "results": results,
        "next": last.map(|task| LetterId { run, task }.to_string()),
    })))
}

/// The results of at most `limit` tasks after `after`, and the last of these tasks if more follow.
fn results(state: &RunState, after: Option<TaskId>, limit: usize) -> (Vec<Value>, Option<TaskId>) {
    let (mut shown, mut bytes, mut last) = (Vec::new(), 0_usize, None);
    let all = state.tasks().filter(|(task, _)| after.is_none_or(|after| *task > after));
    for (task, result) in all.filter_map(|(task, _)| Some((task, state.result(task)?))) {
        if shown.len() == limit || bytes >= PAGE_BYTES {
            return (shown, last);
        }
        let step = state.workflow().step(task.step).map(|step| clean(&step.id));
        bytes = bytes.saturating_add(result.to_string().len());
        shown.push(json!({ "step": step, "item": task.item, "result": result }));
        last = Some(task);
    }
    (shown, None)
}

/// `GET /v1/letters/{run}/{step}/{item}/payload`: the arguments with which the task failed.
pub(super) async fn of_letter<W: World>(
    State(service): State<SharedState<W>>,
    LetterPath(id): LetterPath,
) -> Result<Response, Problem> {
    let letter = service.engine.letter(id).await?.letter;
    Ok(ok(&json!({ "letter": id.to_string(), "payload": letter.payload })))
}
