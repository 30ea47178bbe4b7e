//! `GET /v1/runs/{run}/events`: a run's durable events, as a stream without gaps or repeats, or
//! as a page.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use serde_json::{Value, json};

use super::extract::{QueryParameters, RunPath};
use super::json::ok;
use super::problem::Problem;
use super::service::{ServiceState, SharedState};
use super::sse::{self, Cut, Message, MessageSender, ReaderGone};
use super::stream_workflows::StreamWorkflow;
use retrial::engine::{CommandError, Events, EventsError, Happened, World};
use retrial::failure::sanitise::clean;
use retrial::observe::{Notice, json as event_json};
use retrial::run::{self, Recorded, RunId, RunState, Version};
use retrial::store::Store;
use retrial::workflow::Workflow;

pub(super) async fn events<W: World>(
    State(service): State<SharedState<W>>,
    RunPath(run): RunPath,
    cut: Cut,
    headers: HeaderMap,
    mut asked: QueryParameters,
) -> Result<Response, Problem> {
    let from = asked.read::<u64>("from")?;
    if wants_page(&headers) {
        let limit = asked.limit(service.settings.limits.page)?;
        asked.end()?;
        return Ok(ok(&service.events_page(run, Version(from.unwrap_or(0)), limit).await?));
    }
    asked.end()?;
    let first = Version(last_seen(&headers)?.map(|n| n.saturating_add(1)).or(from).unwrap_or(0));
    let state = service.engine.state(run).await?;
    if first > state.version() {
        return Err(beyond(run, &state));
    }
    if state.outcome().is_some() && first == state.version() {
        return sse::open(&service, cut, |feed| async move { feed.send(end(run)).await });
    }
    let happened = service.engine.handle(run).events_from(first);
    let workflow = StreamWorkflow::new(&service, &state);
    sse::open(&service, cut, |feed| send_events(run, workflow, happened, feed))
}

/// Whether the client asks for a page instead of a stream.
fn wants_page(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let kinds = accept.unwrap_or_default().split(',').map(|kind| kind.split(';').next());
    kinds.flatten().any(|kind| kind.trim() == "application/json")
}

/// The number of the last event that the client has, as browsers send it when they reconnect.
fn last_seen(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(id) = headers.get("last-event-id") else { return Ok(None) };
    let number = id.to_str().ok().and_then(|text| text.trim().parse().ok());
    number.map(Some).ok_or_else(|| Problem::bad_request("Last-Event-ID is not an event's number"))
}

fn beyond(run: RunId, state: &RunState) -> Problem {
    let have = state.version().0;
    Problem::bad_request(format!("run {run} has {have} events so far; set `from` to 0 to {have}"))
}

async fn send_events<W: World>(
    run: RunId,
    workflow: StreamWorkflow<W>,
    mut happened: Events<W>,
    feed: Arc<MessageSender<W::Runtime>>,
) -> Result<(), ReaderGone> {
    loop {
        match happened.next().await {
            Some(Ok(next)) => {
                let message = match workflow.get(run).await {
                    Ok(workflow) => message(run, &workflow, &next),
                    Err(error) => return feed.send(failed(&error)).await,
                };
                // The event may be large; its message is not.
                drop(next);
                feed.send(message).await?;
            }
            Some(Err(EventsError::Compacted { from, to })) => {
                let data = json!({ "from": from.0, "to": to.0 });
                let last = to.0.saturating_sub(1);
                feed.send(Message::new("compacted", &data).numbered(last)).await?;
            }
            Some(Err(EventsError::Run(CommandError::Closing))) => {
                return feed.send(Message::new("closing", &json!({}))).await;
            }
            Some(Err(EventsError::Run(error))) => return feed.send(failed(&error)).await,
            None => return feed.send(end(run)).await,
        }
    }
}

fn message(run: RunId, workflow: &Arc<Workflow>, next: &Happened) -> Message {
    let data = object(run, workflow, next.number, &next.recorded);
    Message::new(next.recorded.event.name(), &data).numbered(next.number.0)
}

fn failed(error: &CommandError) -> Message {
    Message::new("failed", &json!({ "detail": clean(&error.to_string()) }))
}

fn end(run: RunId) -> Message {
    Message::new("end", &json!({ "run": run.to_string() }))
}

fn object(run: RunId, workflow: &Arc<Workflow>, number: Version, recorded: &Recorded) -> Value {
    let Recorded { at, event } = recorded;
    Value::Object(event_json::object(&Notice { run, workflow, number, at: *at, event }))
}

impl<W: World> ServiceState<W> {
    async fn events_page(&self, run: RunId, from: Version, limit: usize) -> Result<Value, Problem> {
        let state = self.engine.state(run).await?;
        if from > state.version() {
            return Err(beyond(run, &state));
        }
        let loaded = self.engine.store().load(run, Some(from)).await?;
        let loaded = loaded.ok_or(CommandError::UnknownRun(run))?;
        let first = loaded.snapshot.map_or(from, |snapshot| snapshot.version);
        let mut events = Vec::new();
        for (n, bytes) in loaded.tail.events.iter().take(limit).enumerate() {
            let recorded = run::decode(bytes)
                .map_err(|error| CommandError::Broken(format!("run {run}: {error}")))?;
            events.push(object(run, state.workflow(), first.after(n), &recorded));
        }
        let next = first.after(events.len());
        let all = state.outcome().is_some() && next >= state.version();
        let gap = json!({ "from": from.0, "to": first.0 });
        Ok(json!({
            "events": events,
            "next": (!all).then_some(next.0),
            "compacted": (first > from).then_some(gap),
        }))
    }
}
