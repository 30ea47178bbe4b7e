//! Server-sent events.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_core::Stream;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::monitor::{self, GaugeGuard};
use super::problem::{Kind, Problem};
use super::service::SharedState;
use retrial::engine::World;
use retrial::runtime::{Runtime, Task};

/// The most messages buffered for a slow reader.
const WAITING: usize = 16;

/// One message of a stream.
pub(super) struct Message(Event);

impl Message {
    pub(super) fn new(kind: &str, data: &Value) -> Self {
        Self(Event::default().event(kind).data(data.to_string()))
    }

    /// The same message with a number, after which a reader can resume.
    pub(super) fn numbered(self, number: u64) -> Self {
        Self(self.0.id(number.to_string()))
    }
}

/// Sends the messages of a stream.
pub(super) struct MessageSender(mpsc::Sender<Message>);

/// The reader has disconnected.
pub(super) struct ReaderGone;

impl MessageSender {
    pub(super) async fn send(&self, message: Message) -> Result<(), ReaderGone> {
        self.0.send(message).await.map_err(|_| ReaderGone)
    }
}

/// Opens a stream of the messages that `fill` sends, unless the limit of open streams is reached. At
/// shutdown the stream ends with the message `closing`, after which its reader can resume on another
/// node or later.
pub(super) fn open<W, F>(
    service: &SharedState<W>,
    fill: impl FnOnce(Arc<MessageSender>) -> F,
) -> Result<Response, Problem>
where
    W: World,
    F: Future<Output = Result<(), ReaderGone>> + Send + 'static,
{
    let permit = Arc::clone(&service.streams).try_acquire_owned().map_err(|_| {
        let most = service.settings.limits.streams;
        Problem::new(
            Kind::TooManyStreams,
            format!("{most} event streams are open, which is the limit; try again later"),
        )
    })?;
    let (sender, messages) = mpsc::channel(WAITING);
    let feed = Arc::new(MessageSender(sender));
    let filling = fill(Arc::clone(&feed));
    let closing = service.closing.clone();
    let task = service.engine.runtime().spawn(async move {
        // The reader may have disconnected.
        let _ = tokio::select! {
            biased;
            () = closing.cancelled() => feed.send(Message::new("closing", &json!({}))).await,
            done = filling => done,
        };
    });
    let counted = service.monitor.count_open(monitor::STREAMS);
    let messages = Messages { messages, _task: task, _permit: permit, _counted: counted };
    let silence = KeepAlive::new().interval(service.settings.limits.keep_alive.into());
    Ok(Sse::new(messages).keep_alive(silence).into_response())
}

/// The messages for the reader. Dropping it stops `fill`.
struct Messages {
    messages: mpsc::Receiver<Message>,
    _task: Task,
    _permit: OwnedSemaphorePermit,
    _counted: GaugeGuard,
}

impl Stream for Messages {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.messages.poll_recv(cx).map(|next| next.map(|Message(event)| Ok(event)))
    }
}
