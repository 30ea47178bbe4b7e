//! Server-sent events, in little memory however slowly they are read.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use futures_core::Stream;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::monitor::{self, GaugeGuard};
use super::problem::{Kind, Problem};
use super::service::SharedState;
use retrial::action::Canceller;
use retrial::engine::World;
use retrial::runtime::{Runtime, Task};
use retrial::time::Nanos;

/// The most bytes of messages that wait for a slow reader.
const WAITING: u32 = 32 * 1024;
/// The most bytes of one message's data.
pub(super) const LARGEST: usize = 64 * 1024;
/// The most bytes of a field that a message keeps if it is larger.
const LARGEST_FIELD: usize = 1024;
/// The most bytes given to the connection at once, which copies them.
const PIECE: usize = 8 * 1024;

/// One message of a stream.
pub(super) struct Message {
    number: Option<u64>,
    kind: String,
    data: String,
}

impl Message {
    /// Of an object that is too large, its small fields and the names of the others.
    pub(super) fn new(kind: &str, data: &Value) -> Self {
        let mut text = data.to_string();
        if text.len() > LARGEST {
            text = small_fields(data).to_string();
        }
        Self { number: None, kind: kind.to_owned(), data: text }
    }

    /// The same message with a number, after which a reader can resume.
    pub(super) fn numbered(self, number: u64) -> Self {
        Self { number: Some(number), ..self }
    }

    fn into_bytes(self) -> Bytes {
        let Self { number, kind, data } = self;
        let number = number.map(|number| format!("id: {number}\n")).unwrap_or_default();
        format!("{number}event: {kind}\ndata: {data}\n\n").into()
    }
}

fn small_fields(data: &Value) -> Value {
    let (mut kept, mut left_out) = (serde_json::Map::new(), Vec::new());
    for (name, value) in data.as_object().into_iter().flatten() {
        match value.to_string().len() {
            0..=LARGEST_FIELD => drop(kept.insert(name.clone(), value.clone())),
            _ => left_out.push(name.clone()),
        }
    }
    kept.insert("left_out".to_owned(), left_out.into());
    Value::Object(kept)
}

/// Ends the connection of a request. Nothing happens where the routes are mounted in another server.
#[derive(Clone)]
pub(super) struct Cut(pub(super) Option<Canceller>);

impl<S: Send + Sync> FromRequestParts<S> for Cut {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned().unwrap_or(Self(None)))
    }
}

/// A message on its way, and its room in the stream's memory.
type Queued = (Bytes, OwnedSemaphorePermit);

/// Sends the messages of a stream.
pub(super) struct MessageSender<R> {
    queue: mpsc::UnboundedSender<Queued>,
    /// One permit for each byte that may wait.
    room: Arc<Semaphore>,
    runtime: R,
    /// How long a reader may leave no room for the next message.
    within: Nanos,
    cut: Cut,
}

/// The reader has disconnected, or was cut because it reads too slowly.
pub(super) struct ReaderGone;

impl<R: Runtime> MessageSender<R> {
    /// Waits for room for the message, and cuts a reader that makes none in time. The reader can
    /// resume after the last message that it has.
    pub(super) async fn send(&self, message: Message) -> Result<(), ReaderGone> {
        let bytes = message.into_bytes();
        let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX).min(WAITING);
        let end = self.runtime.now().after(self.within);
        let room = tokio::select! {
            biased;
            room = Arc::clone(&self.room).acquire_many_owned(size) => room,
            () = self.queue.closed() => return Err(ReaderGone),
            () = self.runtime.sleep_until(end) => {
                self.cut.0.iter().for_each(Canceller::cancel);
                return Err(ReaderGone);
            }
        };
        let room = room.map_err(|_| ReaderGone)?;
        self.queue.send((bytes, room)).map_err(|_| ReaderGone)
    }
}

/// Opens a stream of the messages that `fill` sends, unless the limit of open streams is reached. At
/// shutdown the stream ends with the message `closing`, after which its reader can resume on another
/// node or later.
pub(super) fn open<W, F>(
    service: &SharedState<W>,
    cut: Cut,
    fill: impl FnOnce(Arc<MessageSender<W::Runtime>>) -> F,
) -> Result<Response, Problem>
where
    W: World,
    F: Future<Output = Result<(), ReaderGone>> + Send + 'static,
{
    let limits = service.settings.limits;
    let permit = Arc::clone(&service.streams).try_acquire_owned().map_err(|_| {
        let most = limits.streams;
        Problem::new(
            Kind::TooManyStreams,
            format!("{most} event streams are open, which is the limit; try again later"),
        )
    })?;
    let (queue, messages) = mpsc::unbounded_channel();
    let room = Arc::new(Semaphore::new(WAITING as usize));
    let runtime = service.engine.runtime().clone();
    let feed = Arc::new(MessageSender {
        queue,
        room,
        runtime: runtime.clone(),
        within: limits.read_within,
        cut,
    });
    let filling = fill(Arc::clone(&feed));
    let closing = service.closing.clone();
    let task = runtime.spawn(async move {
        // The reader may have disconnected.
        let _ = tokio::select! {
            biased;
            () = closing.cancelled() => feed.send(Message::new("closing", &json!({}))).await,
            done = filling => done,
        };
    });
    let silence = Box::new(move || -> Sleep {
        let runtime = runtime.clone();
        Box::pin(async move { runtime.sleep_until(runtime.now().after(limits.keep_alive)).await })
    });
    let counted = service.monitor.count_open(monitor::STREAMS);
    let messages = Messages {
        messages,
        rest: None,
        quiet: silence(),
        silence,
        _task: task,
        _permit: permit,
        _counted: counted,
    };
    let mut response = Response::new(Body::from_stream(messages));
    const STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, STREAM);
    Ok(response)
}

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The messages for the reader. Dropping it stops `fill`.
struct Messages {
    messages: mpsc::UnboundedReceiver<Queued>,
    /// What is left of the message that is being given.
    rest: Option<Queued>,
    /// Ends when a comment is due.
    quiet: Sleep,
    silence: Box<dyn Fn() -> Sleep + Send>,
    _task: Task,
    _permit: OwnedSemaphorePermit,
    _counted: GaugeGuard,
}

impl Messages {
    fn piece(&mut self) -> Option<Bytes> {
        let (bytes, _) = self.rest.as_mut()?;
        let piece = bytes.split_to(bytes.len().min(PIECE));
        if bytes.is_empty() {
            self.rest = None;
        }
        Some(piece)
    }
}

impl Stream for Messages {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.rest.is_none() {
            match self.messages.poll_recv(cx) {
                Poll::Ready(Some(next)) => self.rest = Some(next),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => {
                    std::task::ready!(self.quiet.as_mut().poll(cx));
                    self.quiet = (self.silence)();
                    return Poll::Ready(Some(Ok(Bytes::from_static(b":\n\n"))));
                }
            }
        }
        self.quiet = (self.silence)();
        Poll::Ready(self.piece().map(Ok))
    }
}
