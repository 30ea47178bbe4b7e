//! `POST /v1/prune`: removes runs that ended long ago.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use serde_json::json;

use super::json::ok;
use super::problem::Problem;
use super::service::SharedState;
use retrial::engine::{Retention, World};
use retrial::time::Nanos;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    older_than_ns: u64,
    #[serde(default)]
    archived_only: bool,
    #[serde(default)]
    with_letters: bool,
}

pub(super) async fn prune<W: World>(
    State(service): State<SharedState<W>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let asked = service.json::<Asked>(&headers, body).await?;
    let Asked { older_than_ns, archived_only, with_letters } = asked.ok_or_else(|| {
        Problem::bad_request("the body gives no age; send {\"older_than_ns\": ...}")
    })?;
    let older_than = Nanos::new(older_than_ns);
    let gone = service.engine.prune(Retention { older_than, archived_only, with_letters }).await?;
    let gone: Vec<_> = gone.iter().map(ToString::to_string).collect();
    Ok(ok(&json!({ "pruned": gone })))
}
