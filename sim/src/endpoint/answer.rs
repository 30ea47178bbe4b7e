//! A reply as HTTP: its head, and its body piece by piece.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use hyper::Response;
use hyper::body::{Body, Frame};
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, DATE, HeaderName, HeaderValue, RETRY_AFTER,
    TRANSFER_ENCODING, UPGRADE,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::scenario::{Reply, RetryAfter};

/// Headers that say where a message ends and whether its connection stays open.
const FRAMING: [HeaderName; 4] = [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE];

/// A body that arrives in pieces through a channel.
#[derive(Debug)]
pub(super) struct Pieces(mpsc::UnboundedReceiver<Bytes>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// A reply that can be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    status: u16,
    headers: Vec<(HeaderName, String)>,
    /// The pieces of the body, each after a pause of `every_ms`.
    pub(super) pieces: Vec<Bytes>,
    pub(super) every_ms: u64,
}

impl Answer {
    /// `reply` to `args` as HTTP; `None` for those that are no answer.
    pub(super) fn to(reply: &Reply, args: &[u8], now: SystemTime) -> Option<Self> {
        Some(match reply {
            Reply::Ok(result) => Self::json(result),
            Reply::Echo => {
                let args = serde_json::from_slice(args).unwrap_or(Value::Null);
                Self::json(&json!({"success": true, "args": args}))
            }
            Reply::SuccessTrue => Self::json(&json!({"success": true})),
            Reply::SuccessFalse => {
                Self::json(&json!({"success": false, "message": "the work was refused"}))
            }
            Reply::Exception { kind, message, mro } => {
                Self::json(&json!({"type": kind, "message": message, "mro": mro}))
            }
            Reply::Status { code, retry_after, body } => {
                let mut answer = Self::whole(*code, body.clone().into());
                answer.headers.extend(retry_after.iter().flat_map(|r| retry_headers(r, now)));
                answer
            }
            Reply::Malformed => Self::whole(200, Bytes::from_static(b"{\"success\": tru")),
            Reply::Truncated => Self::json(&json!({"success": true})).truncated(),
            Reply::SlowStream { every_ms, total_ms } => Self::slow(*every_ms, *total_ms),
            Reply::Hang | Reply::Poison | Reply::Delay { .. } | Reply::ResetAfterHandling => {
                return None;
            }
        })
    }

    /// The answer of a user's service. Invalid headers are left out, and so are the headers that
    /// frame the message, because the server sets them.
    pub(super) fn of(response: &crate::user::Response) -> Self {
        let mut answer = Self::whole(response.status, response.body.clone());
        for (name, value) in &response.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).ok();
            let Some(name) = name.filter(|name| !FRAMING.contains(name)) else { continue };
            if HeaderValue::from_str(value).is_ok() {
                answer.headers.retain(|(had, _)| *had != name || name != CONTENT_TYPE);
                answer.headers.push((name, value.clone()));
            }
        }
        answer
    }

    /// The same, which says what the attempt cost, in millionths.
    pub(super) fn costing(mut self, cost: Option<u64>) -> Self {
        self.headers.extend(cost.map(|cost| (HeaderName::from_static("x-cost"), cost.to_string())));
        self
    }

    /// The first header of this name that is sent.
    pub(super) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.iter().find(|(had, _)| had == name).map(|(_, value)| value.as_str())
    }

    fn json(value: &Value) -> Self {
        Self::whole(200, value.to_string().into())
    }

    fn whole(status: u16, body: Bytes) -> Self {
        Self::pieces(status, vec![body], 0)
    }

    fn pieces(status: u16, pieces: Vec<Bytes>, every_ms: u64) -> Self {
        let length: usize = pieces.iter().map(Bytes::len).sum();
        let headers = vec![
            (CONTENT_TYPE, "application/json".to_owned()),
            (CONTENT_LENGTH, length.to_string()),
        ];
        Self { status, headers, pieces, every_ms }
    }

    /// Half of the body under the whole one's length.
    fn truncated(mut self) -> Self {
        for piece in &mut self.pieces {
            piece.truncate(piece.len() / 2);
        }
        self
    }

    /// `{"success":true}` with as many blanks as it takes.
    fn slow(every_ms: u64, total_ms: u64) -> Self {
        const MOST: u64 = 10_000;
        let blanks = total_ms.checked_div(every_ms).unwrap_or(0).saturating_sub(2).min(MOST);
        let mut pieces = vec![Bytes::from_static(b"{\"success\":true")];
        pieces.extend((0..blanks).map(|_| Bytes::from_static(b" ")));
        pieces.push(Bytes::from_static(b"}"));
        Self::pieces(200, pieces, every_ms)
    }

    /// The response. `rest` feeds its body.
    pub(super) fn response(
        &self,
        rest: mpsc::UnboundedReceiver<Bytes>,
    ) -> Result<Response<Pieces>, hyper::http::Error> {
        let start = Response::builder().status(self.status);
        let head = self.headers.iter().fold(start, |head, (name, value)| head.header(name, value));
        head.body(Pieces(rest))
    }
}

fn retry_headers(retry: &RetryAfter, now: SystemTime) -> Vec<(HeaderName, String)> {
    match retry {
        RetryAfter::Seconds(n) => vec![(RETRY_AFTER, n.to_string())],
        RetryAfter::Text(text) => vec![(RETRY_AFTER, text.clone())],
        RetryAfter::Date { secs, own_date } => {
            let by = Duration::from_secs(secs.unsigned_abs());
            let at = if *secs < 0 {
                now.checked_sub(by).unwrap_or(SystemTime::UNIX_EPOCH)
            } else {
                now.checked_add(by).unwrap_or_else(last_date)
            };
            let asked = (RETRY_AFTER, http_date(at));
            let own = own_date.then(|| (DATE, http_date(now)));
            std::iter::once(asked).chain(own).collect()
        }
    }
}

/// The date as HTTP writes it, kept within the years that HTTP can write.
fn http_date(at: SystemTime) -> String {
    httpdate::fmt_http_date(at.clamp(SystemTime::UNIX_EPOCH, last_date()))
}

/// The last second of the year 9999.
fn last_date() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_799)
}
