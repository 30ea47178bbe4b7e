//! One connection of HTTP: what sends, and what is polled beside it.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Context;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use hyper::client::conn::{TrySendError, http1};
#[cfg(feature = "tls")]
use hyper::{client::conn::http2, header, http::Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::exchange::{Answer, collect};
use crate::net::{Authority, HttpVersion};

type Sent = Request<Full<Bytes>>;

/// An open connection to one host. Dropping it closes it.
pub(super) struct Connection {
    sender: Sender,
    driver: Driver,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    #[cfg(feature = "tls")]
    Http2(http2::SendRequest<Full<Bytes>>, Authority),
}

/// Why there is no answer.
pub(super) enum Unanswered {
    /// Nothing of the request was sent: the connection had closed.
    Unsent,
    /// The request may have arrived.
    Broken(hyper::Error),
}

impl Connection {
    /// Speaks `version` over `stream`, which is connected to `to`.
    pub(super) async fn open<S>(
        stream: S,
        version: HttpVersion,
        to: &Authority,
    ) -> hyper::Result<Self>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = TokioIo::new(stream);
        match version {
            #[cfg(feature = "tls")]
            HttpVersion::Http2 => {
                let spawned = Spawned::default();
                let (sender, connection) = http2::handshake(spawned.clone(), stream).await?;
                let driver = Driver::new(connection, spawned);
                Ok(Self { sender: Sender::Http2(sender, to.clone()), driver })
            }
            _ => {
                let _ = to;
                let (sender, connection) = http1::handshake(stream).await?;
                let driver = Driver::new(connection, Spawned::default());
                Ok(Self { sender: Sender::Http1(sender), driver })
            }
        }
    }

    /// Sends `request` and reads the answer. Dropping the future leaves the connection unusable.
    pub(super) async fn exchange(&mut self, request: Sent) -> Result<Answer, Unanswered> {
        let Self { sender, driver } = self;
        let talk = async {
            let response = match sender {
                Sender::Http1(sender) => sender.try_send_request(request).await,
                #[cfg(feature = "tls")]
                Sender::Http2(sender, to) => sender.try_send_request(for_http2(request, to)).await,
            };
            collect(response.map_err(unanswered)?).await.map_err(Unanswered::Broken)
        };
        driver.beside(talk).await
    }
}

fn unanswered(mut error: TrySendError<Sent>) -> Unanswered {
    match error.take_message() {
        Some(_) => Unanswered::Unsent,
        None => Unanswered::Broken(error.into_error()),
    }
}

/// HTTP/2 names scheme and host in the request's URI.
#[cfg(feature = "tls")]
fn for_http2(mut request: Sent, to: &Authority) -> Sent {
    let scheme = if to.tls { "https" } else { "http" };
    let whole = format!("{scheme}://{}{}", to.host_header(), request.uri());
    if let Ok(uri) = whole.parse::<Uri>() {
        *request.uri_mut() = uri;
    }
    request.headers_mut().remove(header::HOST);
    request
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What HTTP/2 asks to be run beside the exchange. It runs in the same task: no runtime is asked.
#[derive(Clone, Default)]
struct Spawned(Arc<Mutex<Vec<Task>>>);

impl Spawned {
    fn take(&self) -> Vec<Task> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<F: Future + Send + 'static> hyper::rt::Executor<F> for Spawned {
    fn execute(&self, work: F) {
        let task = Box::pin(async move {
            work.await;
        });
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(task);
    }
}

/// Polls a connection beside an exchange.
struct Driver {
    running: Vec<Task>,
    spawned: Spawned,
}

impl Driver {
    /// Hyper passes the connection's error to the exchange.
    fn new(connection: impl Future + Send + 'static, spawned: Spawned) -> Self {
        let connection: Task = Box::pin(async move {
            connection.await;
        });
        Self { running: vec![connection], spawned }
    }

    /// Polls all, and what they spawn meanwhile.
    fn poll(&mut self, cx: &mut Context<'_>) {
        let mut new = std::mem::take(&mut self.running);
        new.extend(self.spawned.take());
        while !new.is_empty() {
            new.retain_mut(|task| task.as_mut().poll(cx).is_pending());
            self.running.append(&mut new);
            new = self.spawned.take();
        }
    }

    /// Polls the connection beside `work`, in the same task, until `work` ends.
    async fn beside<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|cx| {
            self.poll(cx);
            work.as_mut().poll(cx)
        })
        .await
    }
}
