use hyper::StatusCode;
use hyper::header::{DATE, RETRY_AFTER};
use serde_json::Value;

use super::exchange::{Answer, MAX_BODY};
use crate::action::Outcome;
use crate::action::result::{Measure, exception};
use crate::failure::{Failure, NetworkFault, sanitise};
use crate::retry::retry_after;
use crate::run::Cost;
use crate::time::Timestamp;

/// The most characters of a body that a failure's message shows.
const EXCERPT: usize = 300;

/// The outcome that `answer` means. `bodiless`: answers to the request's method have no body. `at`
/// is store time.
pub(super) fn read(answer: &Answer, bodiless: bool, at: Timestamp) -> Outcome {
    if !answer.status.is_success() {
        return Err(refusal(answer, at));
    }
    if answer.too_long {
        let message = format!("the body is longer than {} KiB", MAX_BODY / 1024);
        return Err(Failure::bad_response(&message));
    }
    if bodiless || answer.body.trim_ascii().is_empty() {
        return Ok(Value::Null);
    }
    let body = serde_json::from_slice(&answer.body).map_err(|e| unreadable(answer, &e))?;
    match said(&body) {
        Some(failure) => Err(failure),
        None => fitting(body),
    }
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
        let message = "the connection closed before the answer was whole";
        return Failure::network(NetworkFault::Cut, message).with_unknown_outcome();
    }
    Failure::bad_response(&format!("{} is not JSON: {error}", answer.status.as_u16()))
}

/// The failure of any status but 2xx. The body may refine the message but not the code.
pub(super) fn refusal(answer: &Answer, at: Timestamp) -> Failure {
    let status = answer.status;
    let title = match status.canonical_reason() {
        Some(reason) => format!("HTTP {} {reason}", status.as_u16()),
        None => format!("HTTP {}", status.as_u16()),
    };
    let message = match excerpt(&answer.body) {
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
