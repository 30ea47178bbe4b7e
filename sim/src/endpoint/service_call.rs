//! Requests to a user's service: how the plan of its host changes them, and how the service
//! answers.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, RETRY_AFTER};
use hyper::{HeaderMap, Method, Uri};
use serde_json::Value;

use super::answer::Answer;
use crate::scenario::{ENDPOINTS, Reply, RetryAfter};
use crate::user::{Request, Response, Service};
use crate::watchdog::Watchdog;

/// A user's service that is asked.
#[derive(Clone)]
pub(super) struct ServiceCall {
    pub(super) host: String,
    pub(super) request: Request,
    pub(super) service: Service,
    pub(super) watchdog: Watchdog,
}

impl ServiceCall {
    /// The answer of the service. Its polls are counted, so a livelock is found.
    pub(super) async fn answer(&self) -> Response {
        let mut answering = pin!((self.service)(self.request.clone()));
        poll_fn(|cx| {
            if self.watchdog.admit(ENDPOINTS) { answering.as_mut().poll(cx) } else { Poll::Pending }
        })
        .await
    }
}

/// The request as a service gets it. Headers that are no text are left out.
pub(super) fn request(method: &str, uri: &Uri, headers: &HeaderMap, body: &Bytes) -> Request {
    let texts = headers.iter().filter_map(|(name, value)| {
        Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned()))
    });
    Request {
        method: method.to_owned(),
        path: uri.path().to_owned(),
        query: uri.query().unwrap_or_default().to_owned(),
        headers: texts.collect(),
        body: body.clone(),
    }
}

/// Whether the service gets the request before the caller gets this reply. If not, the reply is the
/// only effect.
pub(super) fn reaches(reply: &Reply) -> bool {
    match reply {
        // A gateway gave up waiting, but the service did the work.
        Reply::Status { code, .. } => *code == 504,
        _ => true,
    }
}

/// The reply that an HTTP action which asked by `method` takes `answer` for.
pub(super) fn reads_like(method: &Method, answer: &Response) -> Reply {
    if !(200..300).contains(&answer.status) {
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        let retry_after = Answer::of(answer).header(&RETRY_AFTER).map(asks_for);
        return Reply::Status { code: answer.status, retry_after, body };
    }
    if is_answered_bare(method) || answer.status == 204 {
        return Reply::Ok(Value::Null);
    }
    // More than an action reads.
    if answer.body.len() > 1024 * 1024 {
        return Reply::Malformed;
    }
    if answer.body.trim_ascii().is_empty() {
        return Reply::Ok(Value::Null);
    }
    let json = serde_json::from_slice(&answer.body).ok();
    let text = || String::from_utf8(answer.body.to_vec()).ok().map(Value::String);
    let read = match json {
        Some(body) if !is_text(answer) || says_it_failed(&body) => Some(body),
        Some(_) => text(),
        None if is_text(answer) => text(),
        None => None,
    };
    read.map_or(Reply::Malformed, Reply::Ok)
}

/// Whether the answer's type is one of text. Without a type it is sent as JSON.
fn is_text(answer: &Response) -> bool {
    let sent = Answer::of(answer);
    sent.header(&CONTENT_TYPE).is_some_and(|kind| kind.trim_ascii().starts_with("text/"))
}

fn says_it_failed(body: &Value) -> bool {
    match body.get("success") {
        Some(Value::Bool(success)) => !success,
        _ => ["type", "message"].iter().all(|key| body.get(key).is_some_and(Value::is_string)),
    }
}

/// The meaning of `Retry-After`: seconds, a date, or unreadable text.
fn asks_for(text: &str) -> RetryAfter {
    let text = text.trim_ascii();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return RetryAfter::Seconds(text.parse().unwrap_or(u64::MAX));
    }
    match httpdate::parse_http_date(text) {
        // A date is compared with a clock that may be wrong, so the delay is unknown.
        Ok(_) => RetryAfter::Date { secs: 0, own_date: false },
        Err(_) => RetryAfter::Text(text.to_owned()),
    }
}

/// Whether answers to requests by `method` have no body, even if their head announces one.
fn is_answered_bare(method: &Method) -> bool {
    *method == Method::HEAD
}

/// The reply that a caller by `method` sees, where it differs from the scripted one.
pub(crate) fn as_received(method: &Method, reply: &Reply) -> Option<Reply> {
    match reply {
        Reply::Status { code: code @ 200..=299, body, .. } => {
            let body = body.clone().into();
            Some(reads_like(method, &Response { body, ..Response::status(*code) }))
        }
        Reply::Status { .. }
        | Reply::Hang
        | Reply::Poison
        | Reply::Delay { .. }
        | Reply::ResetAfterHandling => None,
        _ => is_answered_bare(method).then_some(Reply::Ok(Value::Null)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_read_as_http_does() {
        let text = |text: &str| RetryAfter::Text(text.to_owned());
        let date = RetryAfter::Date { secs: 0, own_date: false };
        for (written, read) in [
            (" 7 ", RetryAfter::Seconds(7)),
            ("99999999999999999999999999", RetryAfter::Seconds(u64::MAX)),
            ("", text("")),
            ("+5", text("+5")),
            ("5\u{a0}", text("5\u{a0}")),
            ("Sun, 06 Nov 1994 08:49:37 GMT", date),
        ] {
            assert_eq!(asks_for(written), read, "{written:?}");
        }
    }
}
