//! Problem answers (RFC 9457).

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

use super::json::json_as;
use retrial::engine::{CommandError, SubmitError};
use retrial::failure::sanitise::clean;
use retrial::store::StoreError;

/// A problem: its kind, which gives the status, and its detail.
#[derive(Debug)]
pub(super) struct Problem {
    kind: Kind,
    detail: String,
    more: Map<String, Value>,
}

/// The kinds of problem. Each has a status, a name that programs can rely on, and a title.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    BadRequest,
    NoToken,
    WrongRole,
    OtherOrigin,
    NotFound,
    NoSuchMethod,
    TooSlow,
    Conflict,
    Ended,
    KeyConflict,
    TooLarge,
    UriTooLong,
    MediaType,
    Invalid,
    TooManyRuns,
    TooManyStreams,
    Damaged,
    Closing,
    NoStore,
    NoAnswer,
    Busy,
    Fault,
}

impl Kind {
    fn parts(self) -> (StatusCode, &'static str, &'static str) {
        use StatusCode as S;
        match self {
            Self::BadRequest => (S::BAD_REQUEST, "bad-request", "The request is malformed"),
            Self::NoToken => (S::UNAUTHORIZED, "no-token", "A bearer token is required"),
            Self::WrongRole => (S::FORBIDDEN, "wrong-role", "The token may not do this"),
            Self::OtherOrigin => {
                (S::FORBIDDEN, "other-origin", "The request comes from another site")
            }
            Self::NotFound => (S::NOT_FOUND, "not-found", "Not found"),
            Self::NoSuchMethod => {
                (S::METHOD_NOT_ALLOWED, "no-such-method", "The method is not allowed here")
            }
            Self::TooSlow => (S::REQUEST_TIMEOUT, "too-slow", "The request came too slowly"),
            Self::Conflict => (S::CONFLICT, "conflict", "The current state does not allow it"),
            Self::Ended => (S::CONFLICT, "ended", "The run has ended"),
            Self::KeyConflict => {
                (S::CONFLICT, "key-conflict", "The key was used for another submission")
            }
            Self::TooLarge => (S::PAYLOAD_TOO_LARGE, "too-large", "The body is too large"),
            Self::UriTooLong => (S::URI_TOO_LONG, "uri-too-long", "The URI is too long"),
            Self::MediaType => {
                (S::UNSUPPORTED_MEDIA_TYPE, "media-type", "The body's media type is not supported")
            }
            Self::Invalid => (S::UNPROCESSABLE_ENTITY, "invalid", "The content is invalid"),
            Self::TooManyRuns => {
                (S::TOO_MANY_REQUESTS, "too-many-runs", "Too many runs are unfinished")
            }
            Self::TooManyStreams => {
                (S::TOO_MANY_REQUESTS, "too-many-streams", "Too many streams are open")
            }
            Self::Damaged => (S::INTERNAL_SERVER_ERROR, "damaged", "Stored data is damaged"),
            Self::Closing => (S::SERVICE_UNAVAILABLE, "closing", "The service is shutting down"),
            Self::NoStore => (S::SERVICE_UNAVAILABLE, "no-store", "The store is unavailable"),
            Self::NoAnswer => (S::SERVICE_UNAVAILABLE, "no-answer", "The answer took too long"),
            Self::Busy => (S::SERVICE_UNAVAILABLE, "busy", "The service has too much to read"),
            Self::Fault => (S::INTERNAL_SERVER_ERROR, "fault", "The service failed"),
        }
    }

    /// When to try again, in seconds, if that may help.
    fn retry_after(self) -> Option<u32> {
        match self {
            Self::TooManyRuns => Some(5),
            Self::TooManyStreams | Self::Closing | Self::NoStore | Self::NoAnswer | Self::Busy => {
                Some(1)
            }
            _ => None,
        }
    }
}

impl Problem {
    pub(super) fn new(kind: Kind, detail: impl AsRef<str>) -> Self {
        Self { kind, detail: clean(detail.as_ref()), more: Map::new() }
    }

    pub(super) fn bad_request(detail: impl AsRef<str>) -> Self {
        Self::new(Kind::BadRequest, detail)
    }

    pub(super) fn not_found(detail: impl AsRef<str>) -> Self {
        Self::new(Kind::NotFound, detail)
    }

    pub(super) fn invalid(detail: impl AsRef<str>) -> Self {
        Self::new(Kind::Invalid, detail)
    }

    /// The same with one more field.
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, name, title) = self.kind.parts();
        let mut body = json!({
            "type": format!("urn:retrial:problem:{name}"),
            "title": title,
            "status": status.as_u16(),
            "detail": self.detail,
        });
        if let Value::Object(body) = &mut body {
            body.extend(self.more);
        }
        let mut response = json_as("application/problem+json", status, &body);
        let headers = response.headers_mut();
        if let Some(seconds) = self.kind.retry_after() {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.kind == Kind::NoToken {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let kind = match error {
            StoreError::Broken(_) => Kind::Damaged,
            StoreError::Unknown(_) | StoreError::NotDone(_) => Kind::NoStore,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<CommandError> for Problem {
    fn from(error: CommandError) -> Self {
        let kind = match error {
            CommandError::UnknownRun(_) | CommandError::UnknownLetter(_) => Kind::NotFound,
            CommandError::UnknownStep { .. } => Kind::Invalid,
            CommandError::NothingWaits { .. }
            | CommandError::NothingHeld(_)
            | CommandError::NotAtRest(_) => Kind::Conflict,
            CommandError::AlreadyRedriven { .. } => Kind::Conflict,
            CommandError::Broken(_) => Kind::Damaged,
            CommandError::Closing => Kind::Closing,
        };
        let problem = Self::new(kind, error.to_string());
        match error {
            CommandError::AlreadyRedriven { run, .. } => problem.with("run", run.to_string()),
            _ => problem,
        }
    }
}

impl From<SubmitError> for Problem {
    fn from(error: SubmitError) -> Self {
        match error {
            // The key is not repeated: it may contain a secret.
            SubmitError::KeyConflict { run, .. } => Self::new(
                Kind::KeyConflict,
                format!("the key belongs to run {run}, which has another workflow or input"),
            )
            .with("run", run.to_string()),
            SubmitError::AlreadyRedriven { run, .. } => {
                Self::new(Kind::Conflict, error.to_string()).with("run", run.to_string())
            }
            SubmitError::LetterDiscarded(_) | SubmitError::NotRedrivable { .. } => {
                Self::new(Kind::Conflict, error.to_string())
            }
            SubmitError::UnknownLetter(_) => Self::not_found(error.to_string()),
            SubmitError::UnknownFunction { .. }
            | SubmitError::MissingAction { .. }
            | SubmitError::BadInput(_)
            | SubmitError::InputTooLarge { .. }
            | SubmitError::TooDeep { .. } => Self::invalid(error.to_string()),
            SubmitError::Closing => Self::new(Kind::Closing, error.to_string()),
            SubmitError::Broken(broken) => broken.into(),
        }
    }
}
