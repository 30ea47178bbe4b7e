//! Extractors of paths, queries and bodies. Each is bounded.

use std::collections::BTreeMap;
use std::str::FromStr;

use axum::body::Body;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::BodyExt as _;
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
pub(super) struct QueryParameters {
    once: BTreeMap<String, String>,
    /// The values of `field`, the one parameter that may be given several times.
    fields: Vec<String>,
}

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
        let (mut once, mut fields) = (BTreeMap::new(), Vec::new());
        for (name, value) in pairs {
            if name == "field" {
                fields.push(value);
            } else if once.insert(name, value).is_some() {
                return Err(Problem::bad_request("a query parameter is given twice; give it once"));
            }
        }
        Ok(Self { once, fields })
    }
}

impl QueryParameters {
    /// Takes a parameter's text; an empty one counts as absent.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        self.once.remove(name).filter(|text| !text.is_empty())
    }

    /// Takes a parameter and parses it.
    pub(super) fn read<T: FromStr>(&mut self, name: &str) -> Result<Option<T>, Problem> {
        let wrong =
            |_| Problem::bad_request(format!("the query parameter `{name}` has an invalid value"));
        self.take(name).map(|text| text.parse().map_err(wrong)).transpose()
    }

    /// Takes the values of searchable fields, each written `NAME=VALUE`.
    pub(super) fn fields(&mut self) -> Result<BTreeMap<String, String>, Problem> {
        let mut fields = BTreeMap::new();
        for text in std::mem::take(&mut self.fields) {
            let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
            let (name, value) = pair.ok_or_else(|| {
                Problem::bad_request("a `field` has no name or no `=`; write NAME=VALUE")
            })?;
            if fields.insert(name.to_owned(), value.to_owned()).is_some() {
                return Err(Problem::bad_request("a `field` is given twice; give each once"));
            }
        }
        Ok(fields)
    }

    /// The number of entries of a page, at most `most`.
    pub(super) fn limit(&mut self, most: usize) -> Result<usize, Problem> {
        Ok(self.read::<usize>("limit")?.unwrap_or(100).clamp(1, most))
    }

    /// Refuses parameters that no one has taken.
    pub(super) fn end(self) -> Result<(), Problem> {
        let untaken = self.fields.first().map(|_| "field".to_owned());
        match self.once.into_keys().next().or(untaken) {
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
        tokio::select! {
            biased;
            read = self.receive(body) => read,
            () = runtime.sleep_until(end) => {
                let within = limits.body_within;
                Err(Problem::new(
                    Kind::TooSlow,
                    format!("the body did not arrive within {within}; send it again"),
                ))
            }
        }
    }

    async fn receive(&self, mut body: Body) -> Result<Bytes, Problem> {
        let most = self.settings.limits.body;
        let mut received = Vec::new();
        let mut held = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame =
                frame.map_err(|_| Problem::bad_request("the body ended early; send it again"))?;
            // Trailers carry nothing that the service reads.
            let Ok(data) = frame.into_data() else { continue };
            if received.len() + data.len() > most {
                return Err(too_large(most));
            }
            let size = u32::try_from(data.len()).unwrap_or(u32::MAX);
            held.push(self.receiving.try_acquire_many(size).map_err(|_| {
                Problem::new(Kind::Busy, "too many bodies are being received; try again later")
            })?);
            received.extend_from_slice(&data);
        }
        Ok(received.into())
    }

    /// The body as JSON of a known shape; `None` where there is none.
    pub(super) async fn json<T: DeserializeOwned>(
        &self,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<Option<T>, Problem> {
        let body = self.json_body(headers, body).await?;
        (!body.is_empty()).then(|| parse(&body)).transpose()
    }

    /// The body, if it is empty or declared as JSON. To [`parse`] a large one takes long.
    pub(super) async fn json_body(
        &self,
        headers: &HeaderMap,
        body: Body,
    ) -> Result<Bytes, Problem> {
        let bytes = self.body(body).await?;
        if !bytes.is_empty() && media_type(headers) != Some("application/json") {
            let detail = "the body is not declared as JSON; send `Content-Type: application/json`";
            return Err(Problem::new(Kind::MediaType, detail));
        }
        Ok(bytes)
    }
}

/// The body as JSON of a known shape.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    if body.is_empty() {
        return Err(Problem::bad_request("the body is empty; send a JSON object"));
    }
    serde_json::from_slice(body).map_err(|error| unreadable(&error))
}

/// The problem of a body that is longer than `most` bytes.
pub(super) fn too_large(most: usize) -> Problem {
    let detail = format!("the body is longer than {most} bytes; send a smaller one");
    Problem::new(Kind::TooLarge, detail)
}

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
