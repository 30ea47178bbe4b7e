//! Liveness, readiness and metrics.

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::json::ok;
use super::problem::{Kind, Problem};
use super::service::SharedState;
use retrial::engine::World;
use retrial::runtime::Runtime;
use retrial::store::{AskRuns, RunFilter, Store};
use retrial::time::Nanos;

/// How long the store may take to answer.
const STORE_TIMEOUT: Nanos = Nanos::from_secs(2);

pub(super) async fn alive() -> Response {
    ok(&json!({ "status": "alive" }))
}

pub(super) async fn ready<W: World>(
    State(service): State<SharedState<W>>,
) -> Result<Response, Problem> {
    if service.closing.is_cancelled() {
        return Err(Problem::new(
            Kind::Closing,
            "the service is shutting down; try again later or on another node",
        ));
    }
    let runtime = service.engine.runtime();
    // The first page names every run that the store knows to be damaged.
    let first = AskRuns { before: None, limit: 1, filter: RunFilter::default() };
    let page = tokio::select! {
        biased;
        page = service.engine.store().list(first) => page?,
        () = runtime.sleep_until(runtime.now().after(STORE_TIMEOUT)) => {
            let detail = format!("the store did not answer within {STORE_TIMEOUT}");
            return Err(Problem::new(Kind::NoStore, detail));
        }
    };
    let writes = service.settings.writes.as_ref();
    if let Some(why) = writes.and_then(|writes| writes.failed(runtime.now())) {
        let detail = format!("the store can't be written: {why}");
        return Err(Problem::new(Kind::NoStore, detail));
    }
    Ok(ok(&json!({ "status": "ready", "damaged_runs": !page.damaged.is_empty() })))
}

pub(super) async fn metrics<W: World>(State(service): State<SharedState<W>>) -> Response {
    const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    ([(header::CONTENT_TYPE, TEXT)], service.monitor.render()).into_response()
}
