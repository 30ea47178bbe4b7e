//! Accepts connections, serves them within their time limits, and drains them at shutdown.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::net::sockopt::set_socket_send_buffer_size;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::service::{Service, ServiceState};
use super::sse::Cut;
use super::write_timeout::WriteTimeout;
use retrial::action::{Cancelled, Canceller};
use retrial::engine::World;
use retrial::runtime::Runtime;
use retrial::time::Nanos;

/// How long to wait after accepting a connection failed: the process may have too many files open.
const PAUSE: Nanos = Nanos::from_secs(1);
/// The bytes that the system keeps of what a client has not read, of which Linux takes twice as many.
const SEND_BUFFER: usize = 64 * 1024;
/// How often the histograms' buffers are drained.
const UPKEEP: Nanos = Nanos::from_secs(5);
/// A node's counts are stored once in so many rounds of that.
const ROUNDS_OF_REPORT: u64 = 6;
/// How long the last report may take at shutdown.
const LAST_REPORT: Nanos = Nanos::from_secs(1);

/// Why a service does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address can be reached from other machines, and the settings have no token.
    #[error(
        "{0} can be reached from other machines, so a bearer token is required; give one, or listen on 127.0.0.1"
    )]
    NeedsToken(SocketAddr),
    /// The listener has no local address.
    #[error("the listener has no address: {0}")]
    Listener(#[from] io::Error),
}

impl<W: World> Service<W> {
    /// Answers requests on `listener` until `shutdown` completes. Then it accepts no more requests,
    /// ends open streams with the message `closing`, and waits for requests in progress for at most
    /// [`Limits::grace`](super::Limits::grace). Meanwhile the engine shuts down with its own grace.
    ///
    /// # Errors
    /// [`ServeError::NeedsToken`] if the address can be reached from other machines and the settings
    /// have no token, [`ServeError::Listener`] if the listener has no address. Neither answers any
    /// request.
    pub async fn serve(
        self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let Self(service) = &self;
        let address = listener.local_addr()?;
        if !service.settings.needs_token() && !address.ip().is_loopback() {
            return Err(ServeError::NeedsToken(address));
        }
        let most = service.settings.limits.connections.clamp(1, Semaphore::MAX_PERMITS / 2);
        let connections = Arc::new(Semaphore::new(most));
        let (drop_all, dropped) = Canceller::pair();
        let router = self.router();
        {
            let mut shutdown = pin!(shutdown);
            let mut upkeep = pin!(keep_up(service));
            loop {
                tokio::select! {
                    biased;
                    () = &mut shutdown => break,
                    () = &mut upkeep => {}
                    (stream, permit) = next(service, &listener, &connections) => {
                        let connection = connection(service, stream, router.clone(), dropped.clone());
                        let task = service.engine.runtime().spawn(async move {
                            connection.await;
                            drop(permit);
                        });
                        task.detach();
                    }
                }
            }
        }
        drop(listener);
        service.close.cancel();
        let runtime = service.engine.runtime();
        let end = runtime.now().after(service.settings.limits.grace);
        let drained = async {
            let all = u32::try_from(most).unwrap_or(u32::MAX);
            tokio::select! {
                biased;
                _ = connections.acquire_many(all) => {}
                () = runtime.sleep_until(end) => drop_all.cancel(),
            }
        };
        both(drained, service.engine.clone().shutdown()).await;
        let end = runtime.now().after(LAST_REPORT);
        tokio::select! {
            biased;
            () = service.report_recent() => {}
            () = runtime.sleep_until(end) => {}
        }
        Ok(())
    }
}

/// Waits for both.
async fn both(a: impl Future<Output = ()>, b: impl Future<Output = ()>) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut first, mut second) = (false, false);
    poll_fn(|cx| {
        first = first || a.as_mut().poll(cx).is_ready();
        second = second || b.as_mut().poll(cx).is_ready();
        if first && second { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Accepts the next connection, once the limit of connections allows one more.
async fn next<W: World>(
    service: &ServiceState<W>,
    listener: &TcpListener,
    connections: &Arc<Semaphore>,
) -> (TcpStream, Option<tokio::sync::OwnedSemaphorePermit>) {
    let permit = Arc::clone(connections).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, permit),
            Err(error) => {
                tracing::warn!(%error, "accepting a connection failed; it is tried again in a second");
                let runtime = service.engine.runtime();
                runtime.sleep_until(runtime.now().after(PAUSE)).await;
            }
        }
    }
}

async fn keep_up<W: World>(service: &ServiceState<W>) {
    service.resume_recent().await;
    for round in 1_u64.. {
        let runtime = service.engine.runtime();
        runtime.sleep_until(runtime.now().after(UPKEEP)).await;
        service.monitor.upkeep();
        if round.is_multiple_of(ROUNDS_OF_REPORT) {
            service.report_recent().await;
        }
    }
}

/// Answers one connection's requests until it ends, or until `dropped` fires.
fn connection<W: World>(
    service: &Arc<ServiceState<W>>,
    stream: TcpStream,
    router: Router,
    dropped: Cancelled,
) -> impl Future<Output = ()> + Send + 'static {
    let limits = service.settings.limits;
    let closing = service.closing.clone();
    let runtime = service.engine.runtime().clone();
    async move {
        // Small messages of event streams must not be delayed.
        let _ = stream.set_nodelay(true);
        // The system would keep megabytes for a client that does not read.
        let _ = set_socket_send_buffer_size(&stream, SEND_BUFFER);
        let stream = WriteTimeout::new(stream, runtime, limits.read_within, limits.head);
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(std::time::Duration::from(limits.head_within))
            .max_header_size(limits.head)
            .max_buf_size(limits.head.max(16 * 1024));
        let (cut, is_cut) = Canceller::pair();
        let service = TowerToHyperService::new(router);
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Cut(Some(cut.clone())));
            service.call(request)
        });
        let mut serving = pin!(http.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            biased;
            // A broken connection affects no other.
            _ = serving.as_mut() => return,
            () = dropped.cancelled() => return,
            () = is_cut.cancelled() => return,
            () = closing.cancelled() => serving.as_mut().graceful_shutdown(),
        }
        tokio::select! {
            biased;
            _ = serving => {}
            () = dropped.cancelled() => {}
            () = is_cut.cancelled() => {}
        }
    }
}
