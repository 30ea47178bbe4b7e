use std::error::Error;
use std::io;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderMap};
use hyper::{Request, Response, StatusCode, Version};
use tokio::io::{AsyncRead, AsyncWrite};

use super::connection::{Connection, Unanswered};
use super::encoding;
use crate::failure::{Failure, NetworkFault};
use crate::net::{Authority, ConnectError, HttpVersion};

/// The most bytes read of a body: 1 MiB.
pub(super) const MAX_BODY: usize = 1024 * 1024;

/// An answer, read to its end or to the limit.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// Whether the protocol itself marks the end of every body.
    framed: bool,
    /// The body, unpacked; empty if it could not be.
    pub(super) body: Bytes,
    /// Why the body is not whole.
    pub(super) lacks: Option<Lack>,
}

/// Why a body is not whole.
pub(super) enum Lack {
    /// It is longer than [`MAX_BODY`]; the rest was not read.
    TooLong,
    /// It could not be unpacked, and why.
    Packed(String),
}

impl Answer {
    /// The body.
    ///
    /// # Errors
    /// If it is not whole.
    pub(super) fn whole(&self) -> Result<&Bytes, Failure> {
        Err(match &self.lacks {
            None => return Ok(&self.body),
            Some(Lack::TooLong) => {
                let message = format!("the body is longer than {} KiB", MAX_BODY / 1024);
                Failure::bad_response(&message)
            }
            Some(Lack::Packed(_)) if self.open_ended() => cut(),
            Some(Lack::Packed(why)) => {
                Failure::bad_response(&format!("the body can't be unpacked: {why}"))
            }
        })
    }

    /// Whether only the end of the connection marks the end of the body, so that a cut looks complete.
    pub(super) fn open_ended(&self) -> bool {
        !self.framed
            && !self.headers.contains_key(header::CONTENT_LENGTH)
            && !self.headers.contains_key(header::TRANSFER_ENCODING)
    }
}

/// Sends `request` over a fresh `stream` and reads the answer. Dropping the future closes it.
pub(super) async fn exchange<S>(
    stream: S,
    version: HttpVersion,
    request: Request<Full<Bytes>>,
    to: &Authority,
) -> Result<(Answer, Connection), Failure>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let opened = Connection::open(stream, version, to).await;
    let mut connection = opened.map_err(|error| transport(to, &error))?;
    match connection.exchange(request).await {
        Ok(answer) => Ok((answer, connection)),
        Err(unanswered) => Err(unanswered.of(to)),
    }
}

impl Unanswered {
    /// The failure of a request to `to`.
    pub(super) fn of(self, to: &Authority) -> Failure {
        match self {
            Self::Broken(error) => transport(to, &error),
            Self::Unsent => {
                let message = format!("calling {to}: the connection closed before the request");
                Failure::network(NetworkFault::Cut, &message)
            }
        }
    }
}

pub(super) async fn collect(response: Response<Incoming>) -> Result<Answer, hyper::Error> {
    let (head, mut incoming) = response.into_parts();
    let mut body = Vec::new();
    let mut too_long = incoming.size_hint().lower() > MAX_BODY as u64;
    while !too_long && let Some(frame) = incoming.frame().await {
        // Trailers carry nothing that the engine reads.
        let Ok(data) = frame?.into_data() else { continue };
        too_long = body.len() + data.len() > MAX_BODY;
        body.extend_from_slice(&data[..data.len().min(MAX_BODY - body.len())]);
    }
    let answer = Answer {
        status: head.status,
        headers: head.headers,
        framed: head.version == Version::HTTP_2,
        body: body.into(),
        lacks: too_long.then_some(Lack::TooLong),
    };
    Ok(unpacked(answer))
}

/// The answer with its body unpacked. A packed body that is too long stays out: its beginning may
/// unpack to anything.
fn unpacked(mut answer: Answer) -> Answer {
    let encodings = encoding::of(&answer.headers);
    if encodings.is_empty() || answer.body.is_empty() {
        return answer;
    }
    answer.headers.remove(header::CONTENT_ENCODING);
    let packed = std::mem::take(&mut answer.body);
    if answer.lacks.is_none() {
        match encoding::decoded(&packed, &encodings, MAX_BODY) {
            Ok(mut body) => {
                answer.lacks = (body.len() > MAX_BODY).then_some(Lack::TooLong);
                body.truncate(MAX_BODY);
                answer.body = body.into();
            }
            Err(why) => answer.lacks = Some(Lack::Packed(why)),
        }
    }
    answer
}

/// The failure of an answer whose end only the end of the connection marks, and that is not whole.
pub(super) fn cut() -> Failure {
    let message = "the connection closed before the answer was whole";
    Failure::network(NetworkFault::Cut, message).with_unknown_outcome()
}

/// A connection that closed before the answer was complete is cut; an I/O error keeps its kind. The
/// request may have reached the endpoint, so its outcome is unknown.
fn transport(to: &Authority, error: &hyper::Error) -> Failure {
    broken_off(to, error).with_unknown_outcome()
}

fn broken_off(to: &Authority, error: &hyper::Error) -> Failure {
    let doing = format!("calling {to}");
    if let Some(io) = io_source(error) {
        return ConnectError::from_io(&doing, io).into();
    }
    let closed = error.is_incomplete_message() || error.is_closed() || error.is_canceled();
    let (fault, what) = if closed {
        (NetworkFault::Cut, "the connection closed before the answer was whole".into())
    } else {
        (NetworkFault::Other, format!("the answer is not HTTP: {error}"))
    };
    Failure::network(fault, &format!("{doing}: {what}"))
}

fn io_source(error: &hyper::Error) -> Option<&io::Error> {
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref() {
            return Some(io);
        }
        source = inner.source();
    }
    None
}
