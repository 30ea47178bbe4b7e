use hyper::StatusCode;
use hyper::header::{CONTENT_TYPE, DATE, LOCATION, RETRY_AFTER};
use serde_json::Value;

use super::exchange::{Answer, cut};
use crate::action::Outcome;
use crate::action::result::{Measure, exception};
use crate::failure::{Failure, sanitise};
use crate::retry::retry_after;
use crate::run::Cost;
use crate::time::Timestamp;
use crate::workflow::AnswerForm;

/// The most characters of a refusal's body that its message shows.
const EXCERPT: usize = 300;
/// The most characters of a body that can't be read that its message shows.
const BEGINNING: usize = 80;
/// The most characters of a redirect's target that its message shows.
const TARGET: usize = 200;

/// The outcome that `answer` means, read as `form` or else by its `Content-Type`. `bodiless`: answers
/// to the request's method have no body. `at` is store time.
pub(super) fn read(
    answer: &Answer,
    bodiless: bool,
    form: Option<AnswerForm>,
    at: Timestamp,
) -> Outcome {
    if !answer.status.is_success() {
        return Err(refusal(answer, at));
    }
    if form == Some(AnswerForm::Status) {
        return Ok(answer.status.as_u16().into());
    }
    let body = answer.whole()?;
    if form == Some(AnswerForm::Text) {
        return fitting(text(answer)?.into());
    }
    if bodiless || body.trim_ascii().is_empty() {
        return Ok(Value::Null);
    }
    let media = Media::of(answer).filter(|_| form.is_none());
    let may_be_text = form.is_none() && !matches!(media, Some(Media::Json | Media::Other));
    match serde_json::from_slice(body) {
        // What says that it failed has failed, whatever its type.
        Ok(body) => match said(&body) {
            Some(failure) => Err(failure),
            None if media == Some(Media::Text) => fitting(text(answer)?.into()),
            None => fitting(body),
        },
        Err(error) if media.is_none() && error.is_eof() && answer.open_ended() => {
            Err(unreadable(answer, &error))
        }
        Err(_) if may_be_text => fitting(text(answer)?.into()),
        Err(error) => Err(unreadable(answer, &error)),
    }
}

/// What an answer's `Content-Type` says of its body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Media {
    Json,
    Text,
    Other,
}

impl Media {
    /// `None` if the answer does not say.
    fn of(answer: &Answer) -> Option<Self> {
        const TEXTS: [&str; 6] = ["xml", "yaml", "x-yaml", "javascript", "x-ndjson", "jsonl"];
        let written = content_type(answer)?.split(';').next()?.trim().to_ascii_lowercase();
        let (kind, name) = written.split_once('/')?;
        let suffix = name.rsplit_once('+').map_or(name, |(_, suffix)| suffix);
        Some(match suffix {
            "json" => Self::Json,
            name if kind == "text" || TEXTS.contains(&name) => Self::Text,
            "x-www-form-urlencoded" => Self::Text,
            _ => Self::Other,
        })
    }
}

fn content_type(answer: &Answer) -> Option<&str> {
    answer.headers.get(CONTENT_TYPE)?.to_str().ok()
}

/// The body as text: UTF-8, or ISO 8859-1 where its type says so.
fn text(answer: &Answer) -> Result<String, Failure> {
    let written = content_type(answer).unwrap_or_default().to_ascii_lowercase();
    let charset = written.split_once("charset=").map(|(_, rest)| rest.trim_matches('"'));
    if charset.is_some_and(|name| name.starts_with("iso-8859-1")) {
        return Ok(answer.body.iter().map(|b| char::from(*b)).collect());
    }
    String::from_utf8(answer.body.to_vec()).map_err(|_| bad(answer, "is not text in UTF-8"))
}

/// `value` as a result, unless it is too deep or too large to keep.
fn fitting(value: Value) -> Outcome {
    let measure = Measure::of(&value);
    measure.depth()?;
    measure.size()?;
    Ok(value)
}

/// The cost of the attempt from the header `X-Cost`: digits only, in millionths.
pub(super) fn cost(answer: &Answer) -> Option<Cost> {
    let text = answer.headers.get("x-cost")?.to_str().ok()?.trim();
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    // A number that is too large counts as the largest.
    digits.then(|| Cost::from_millionths(text.parse().unwrap_or(u64::MAX)))
}

/// The failure that the body of a 2xx answer reports. `success` takes precedence.
fn said(body: &Value) -> Option<Failure> {
    match body.get("success") {
        Some(Value::Bool(true)) => None,
        Some(Value::Bool(false)) => {
            let words =
                words(body).unwrap_or_else(|| "the endpoint answered success: false".into());
            Some(Failure::work_failed(&words))
        }
        _ => exception(body),
    }
}

/// If only the end of the connection marks the end of the body, incomplete JSON was cut.
fn unreadable(answer: &Answer, error: &serde_json::Error) -> Failure {
    if error.is_eof() && answer.open_ended() {
        return cut();
    }
    bad(answer, &format!("is not JSON: {error}"))
}

/// The failure of a body that can't be read: its type, what is wrong, and how it begins.
fn bad(answer: &Answer, what: &str) -> Failure {
    let status = answer.status.as_u16();
    let kind = content_type(answer).map(|kind| sanitise::message(kind, BEGINNING));
    let kind = kind.unwrap_or_else(|| "without a Content-Type".to_owned());
    let begins = sanitise::message(String::from_utf8_lossy(&answer.body).trim(), BEGINNING);
    Failure::bad_response(&format!("the answer {status} {kind} {what}; it begins with {begins:?}"))
}

/// The failure of any status but 2xx. The body may refine the message but not the code.
pub(super) fn refusal(answer: &Answer, at: Timestamp) -> Failure {
    let status = answer.status;
    let title = match status.canonical_reason() {
        Some(reason) => format!("HTTP {} {reason}", status.as_u16()),
        None => format!("HTTP {}", status.as_u16()),
    };
    let words = target(answer).or_else(|| excerpt(&answer.body));
    let message = match words {
        Some(words) => format!("{title}: {words}"),
        None => title,
    };
    let failure = Failure::http(status.as_u16(), &message);
    let may_ask = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    let text = |name| answer.headers.get(name).and_then(|value| value.to_str().ok());
    let wait = text(RETRY_AFTER).and_then(|asked| retry_after::wait(asked, text(DATE), at));
    match wait.filter(|_| may_ask) {
        Some(wait) => failure.with_retry_after(wait),
        None => failure,
    }
}

/// Where a redirect leads, without what may be secret.
fn target(answer: &Answer) -> Option<String> {
    let location = answer.headers.get(LOCATION).filter(|_| answer.status.is_redirection())?;
    let shown = sanitise::message(&sanitise::url(location.to_str().ok()?), TARGET);
    Some(format!("it leads to {shown}, and redirects are not followed; write that URL"))
}

/// The start of the body. It is masked before it is cut, so that no part of a secret remains.
fn excerpt(body: &[u8]) -> Option<String> {
    let parsed: Option<Value> = serde_json::from_slice(body).ok();
    let words = parsed.as_ref().and_then(words);
    let words = words.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
    let masked = sanitise::message(words.trim(), EXCERPT);
    (!masked.is_empty()).then_some(masked)
}

/// The error text of a body: `{"error": "..."}`, `{"error": {"code", "message"}}`, or an exception
/// object's.
fn words(body: &Value) -> Option<String> {
    let error = body.get("error").unwrap_or(body);
    if let Some(text) = error.as_str() {
        return Some(text.to_owned());
    }
    let message = error.get("message")?.as_str()?;
    let name = error.get("code").or_else(|| error.get("type"));
    Some(match name {
        Some(Value::String(name)) => format!("{name}: {message}"),
        Some(Value::Number(code)) => format!("{code}: {message}"),
        _ => message.to_owned(),
    })
}
