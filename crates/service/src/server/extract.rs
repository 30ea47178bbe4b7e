//! Extractors of paths, queries and bodies. Each is bounded.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::str::FromStr;

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use serde::de::DeserializeOwned;

use super::problem::{Kind, Problem};
use super::service::ServiceState;
use retrial::engine::World;
use retrial::run::{LetterId, RunId};
use retrial::runtime::Runtime;

/// The run that the path names.
pub(super) struct RunPath(pub(super) RunId);

/// The dead letter that the path names.
pub(super) struct LetterPath(pub(super) LetterId);

/// The name in the path.
pub(super) struct NamePath(pub(super) String);

/// The query's parameters. Handlers take the known ones; [`QueryParameters::end`] refuses the rest.
pub(super) struct QueryParameters(BTreeMap<String, String>);

impl<S: Send + Sync> FromRequestParts<S> for RunPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let NamePath(text) = NamePath::from_request_parts(parts, state).await?;
        let wrong = |_| Problem::not_found("the path names no run; a run's id is a UUID");
        RunId::from_str(&text).map(Self).map_err(wrong)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for LetterPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let wrong = || Problem::not_found("the path names no dead letter; write RUN/STEP/ITEM");
        type Three = Path<(String, String, String)>;
        let Path((run, step, item)) =
            Three::from_request_parts(parts, state).await.map_err(|_| wrong())?;
        LetterId::from_str(&format!("{run}/{step}/{item}")).map(Self).map_err(|_| wrong())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for NamePath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let found = Path::<String>::from_request_parts(parts, state).await;
        found
            .map(|Path(name)| Self(name))
            .map_err(|_| Problem::not_found("the path is not valid UTF-8"))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for QueryParameters {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let read = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri);
        let Query(pairs) =
            read.map_err(|_| Problem::bad_request("the query string is malformed"))?;
        let mut all = BTreeMap::new();
        for (name, value) in pairs {
            if all.insert(name, value).is_some() {
                return Err(Problem::bad_request("a query parameter is given twice; give it once"));
            }
        }
        Ok(Self(all))
    }
}

impl QueryParameters {
    /// Takes a parameter's text; an empty one counts as absent.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name).filter(|text| !text.is_empty())
    }

    /// Takes a parameter and parses it.
    pub(super) fn read<T: FromStr>(&mut self, name: &str) -> Result<Option<T>, Problem> {
        let wrong =
            |_| Problem::bad_request(format!("the query parameter `{name}` has an invalid value"));
        self.take(name).map(|text| text.parse().map_err(wrong)).transpose()
    }

    /// The number of entries of a page, at most `most`.
    pub(super) fn limit(&mut self, most: usize) -> Result<usize, Problem> {
        Ok(self.read::<usize>("limit")?.unwrap_or(100).clamp(1, most))
    }

    /// Refuses parameters that no one has taken.
    pub(super) fn end(self) -> Result<(), Problem> {
        match self.0.into_keys().next() {
            Some(name) => Err(Problem::bad_request(format!(
                "the query parameter `{name}` is unknown; /openapi.json lists the parameters"
            ))),
            None => Ok(()),
        }
    }
}

impl<W: World> ServiceState<W> {
    /// The whole body, if it stays within its limits of size and time.
    pub(super) async fn body(&self, body: Body) -> Result<Bytes, Problem> {
        let limits = self.settings.limits;
        let runtime = self.engine.runtime();
        let end = runtime.now().after(limits.body_within);
        let read = tokio::select! {
            biased;
            read = to_bytes(body, limits.body) => read,
            () = runtime.sleep_until(end) => {
                let within = limits.body_within;
                return Err(Problem::new(
                    Kind::TooSlow,
                    format!("the body did not arrive within {within}; send it again"),
                ));
            }
        };
        read.map_err(|error| {
            let over = error.source().is_some_and(<dyn std::error::Error>::is::<Over>);
            match over {
                true => Problem::new(
                    Kind::TooLarge,
                    format!("the body is longer than {} bytes; send a smaller one", limits.body),
                ),
                false => Problem::bad_request("the body ended early; send it again"),
            }
        })
    }

    /// The body as JSON of a known shape; `None` where there is none.
    pub(super) async fn json<T: DeserializeOwned>(
        &self,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<Option<T>, Problem> {
        let bytes = self.body(body).await?;
        if bytes.is_empty() {
            return Ok(None);
        }
        if media_type(headers) != Some("application/json") {
            let detail = "the body is not declared as JSON; send `Content-Type: application/json`";
            return Err(Problem::new(Kind::MediaType, detail));
        }
        serde_json::from_slice(&bytes).map(Some).map_err(|error| unreadable(&error))
    }
}

type Over = http_body_util::LengthLimitError;

/// The body's type, without its parameters.
pub(super) fn media_type(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(text.split(';').next().unwrap_or(text).trim())
}

/// Serde's message, unless it could repeat a value.
fn unreadable(error: &serde_json::Error) -> Problem {
    let words = error.to_string();
    let place = format!("line {}, column {}", error.line(), error.column());
    let about_names = ["unknown field", "missing field", "duplicate field"];
    let what = match about_names.iter().any(|start| words.starts_with(start)) {
        true => words,
        false if error.is_data() => format!("a value has the wrong type at {place}"),
        false => format!("it is not JSON, or it is nested too deeply, at {place}"),
    };
    Problem::bad_request(format!("the body can't be read: {what}"))
}
