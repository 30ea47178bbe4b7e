//! The endpoint's server.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response};
use hyper_util::rt::TokioIo;
use madsim::time::{TimeHandle, sleep};
use tokio::sync::{Notify, mpsc, oneshot};

use super::answer::{Answer, Pieces};
use super::ledger::Place;
use super::service_call::{self, ServiceCall};
use super::{Delivery, EndpointScript, Entry, Ledger, Route};
use crate::clock::true_now;
use crate::fault::{FaultKind, Strikes};
use crate::net::{Breaker, ShimStream, SimListener};
use crate::node::SimNode;
use crate::scenario::Reply;
use crate::trace::{Kind, Trace};
use crate::user::Service;
use crate::watchdog::Watchdog;

/// A scripted HTTP endpoint, and beside it a user's own services. Clones are the same endpoint.
#[derive(Clone)]
pub struct Endpoint(pub(super) Arc<Shared>);

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("name", &self.0.name).finish_non_exhaustive()
    }
}

pub(super) struct Shared {
    name: String,
    script: EndpointScript,
    ledger: Ledger,
    trace: Trace,
    strikes: Strikes,
    healed: AtomicBool,
    changed: Notify,
    /// The nodes that a poison ends.
    pub(super) nodes: OnceLock<Vec<SimNode>>,
    /// The user's own services, by host.
    services: BTreeMap<String, Service>,
    watchdog: Option<Watchdog>,
}

/// One exchange, from a request that is whole to its answer.
struct Exchange {
    place: Place,
    route: Route,
    reply: Reply,
    method: Method,
    args: Bytes,
    cost: Option<u64>,
    breaker: Breaker,
    own: Option<ServiceCall>,
    /// The node that asks.
    node: String,
}

/// There will be no answer: the connection ends.
#[derive(Debug, thiserror::Error)]
#[error("the endpoint gives no answer")]
struct Silent;

impl Endpoint {
    /// An endpoint under `script`; `name` is its lane in the history.
    #[must_use]
    pub fn new(name: &str, script: EndpointScript, trace: Trace, strikes: Strikes) -> Self {
        Self::made(name, script, trace, strikes, BTreeMap::new(), None)
    }

    /// An endpoint that is a user's services as well, by host. `watchdog` counts their polls.
    pub(crate) fn with_services(
        self,
        services: BTreeMap<String, Service>,
        watchdog: Watchdog,
    ) -> Self {
        let Shared { name, script, trace, strikes, .. } = &*self.0;
        let (trace, strikes) = (trace.clone(), strikes.clone());
        Self::made(name, script.clone(), trace, strikes, services, Some(watchdog))
    }

    fn made(
        name: &str,
        script: EndpointScript,
        trace: Trace,
        strikes: Strikes,
        services: BTreeMap<String, Service>,
        watchdog: Option<Watchdog>,
    ) -> Self {
        Self(Arc::new(Shared {
            name: name.to_owned(),
            services,
            watchdog,
            script,
            ledger: Ledger::default(),
            trace,
            strikes,
            healed: AtomicBool::new(false),
            changed: Notify::new(),
            nodes: OnceLock::new(),
        }))
    }

    /// The hosts of the user's services.
    pub(crate) fn services(&self) -> Vec<String> {
        self.0.services.keys().cloned().collect()
    }

    /// The requests that arrived.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        self.0.ledger.clone()
    }

    /// Makes it answer every request with success from now on, those that hang included, unless
    /// its script forbids that. What was slow becomes quick.
    pub fn heal(&self) {
        if self.0.script.heals {
            self.record(Kind::Input, "the endpoint heals", &[]);
            self.0.healed.store(true, Ordering::SeqCst);
            self.0.changed.notify_waiters();
        }
    }

    /// Answers requests, one a connection, until `listener` fails; to be run on its own node.
    ///
    /// # Errors
    /// What [`SimListener::accept`] says.
    pub async fn serve(&self, listener: SimListener) -> io::Result<()> {
        loop {
            let stream = listener.accept().await?;
            madsim::task::spawn(self.clone().converse(stream));
        }
    }

    async fn converse(self, stream: ShimStream) {
        let place = OnceLock::new();
        let (breaker, node) = (stream.breaker(), stream.peer().to_owned());
        let connection = stream.name().to_owned();
        let service = service_fn(|request| {
            self.respond(request, &node, &connection, breaker.clone(), &place)
        });
        let served = http1::Builder::new()
            .auto_date_header(false)
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service)
            .await;
        let Some(place) = place.get() else { return };
        let now = true_now();
        let (delivery, says) = match served {
            Ok(()) => (Delivery::Handed(now), "was handed over"),
            Err(_) => (Delivery::Cut(now), "was cut"),
        };
        self.record(Kind::Note, &format!("the answer on {connection} {says}"), &[]);
        self.0.ledger.delivered(*place, delivery);
    }

    /// Reads the request, starts its handling, and waits for the answer.
    async fn respond(
        &self,
        request: Request<Incoming>,
        node: &str,
        connection: &str,
        breaker: Breaker,
        placed: &OnceLock<Place>,
    ) -> Result<Response<Pieces>, Silent> {
        let (head, body) = request.into_parts();
        let args = body.collect().await.map_err(|_| Silent)?.to_bytes();
        let own = self.own(&head, &args);
        let host = own.as_ref().map(|own| own.host.as_str());
        let route = self.route(host.unwrap_or(head.uri.path()));
        let mut entry =
            self.enter(head.uri.path(), host, &head.headers, args.clone(), node, connection);
        entry.service = own.as_ref().map(|own| (own.host.clone(), own.request.clone()));
        let (reply, cost) = (entry.reply.clone(), entry.cost);
        let place = self.0.ledger.add(entry);
        let (method, node) = (head.method, node.to_owned());
        let exchange = Exchange { place, route, reply, method, args, cost, breaker, own, node };
        let _ = placed.set(exchange.place);
        let (answer, answered) = oneshot::channel();
        // A separate task: handling continues when the caller gives up.
        madsim::task::spawn(self.clone().handle(exchange, answer));
        answered.await.map_err(|_| Silent)
    }

    /// The user's service that the request is sent to, if it is.
    fn own(&self, head: &Parts, body: &Bytes) -> Option<ServiceCall> {
        let watchdog = self.0.watchdog.clone()?;
        let host = head.headers.get(hyper::header::HOST)?.to_str().ok()?;
        let host = host.rsplit_once(':').map_or(host, |(host, _)| host).to_ascii_lowercase();
        let service = Arc::clone(self.0.services.get(&host)?);
        let request = service_call::request(head.method.as_str(), &head.uri, &head.headers, body);
        Some(ServiceCall { host, request, service, watchdog })
    }

    fn enter(
        &self,
        path: &str,
        host: Option<&str>,
        headers: &HeaderMap,
        body: Bytes,
        node: &str,
        connection: &str,
    ) -> Entry {
        let text = |name| headers.get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
        let token = text("receipt-token");
        let key = host.unwrap_or(path);
        let (place, arrival) = self.0.ledger.arrival(key, token.as_deref().unwrap_or_default());
        let route = self.route(key);
        let fork = self.0.trace.fork_chance();
        let healed = self.is_healed();
        let reply = if healed { route.healed() } else { route.chosen(fork, place, arrival) };
        let of = host.unwrap_or_default();
        let asks = format!("{connection} asks {of}{path}, arrival {arrival}");
        self.record(Kind::Message, &asks, &body);
        Entry {
            at: true_now(),
            node: node.to_owned(),
            connection: connection.to_owned(),
            path: path.to_owned(),
            token,
            key: text("idempotency-key"),
            retry_attempt: text("x-retry-attempt").and_then(|t| t.parse().ok()),
            retry_timeout_ms: text("x-retry-timeout-ms").and_then(|t| t.parse().ok()),
            body,
            arrival,
            cost: route.cost.map(|first| first.saturating_add(arrival)),
            reply,
            ended: None,
            delivery: None,
            service: None,
            response: None,
        }
    }

    /// The route of `path`, or of a service's host; one that says 404 when there is no such path.
    fn route(&self, path: &str) -> Route {
        if self.0.services.contains_key(path) {
            return self.0.script.routes.get(path).cloned().unwrap_or_default();
        }
        let missing = || {
            let then = Reply::Status { code: 404, retry_after: None, body: String::new() };
            Route { scripts: Vec::new(), then, cost: None }
        };
        self.0.script.route(path).cloned().unwrap_or_else(missing)
    }

    async fn handle(self, exchange: Exchange, answer: oneshot::Sender<Response<Pieces>>) {
        let place = exchange.place;
        self.give(exchange, answer).await;
        self.0.ledger.ended(place, true_now());
    }

    /// Gives the reply, as late and as slowly as it says.
    async fn give(&self, exchange: Exchange, answer: oneshot::Sender<Response<Pieces>>) {
        let Exchange { mut reply, route, method, args, cost, breaker, place, own, node } = exchange;
        while let Reply::Delay { ms, then } = reply {
            self.pause(ms).await;
            reply = *then;
            if self.is_healed() {
                reply = self.healed(place, &route);
            }
        }
        let answer_of_own = match &own {
            Some(own) if service_call::reaches(&reply) => Some(self.ask(own, place).await),
            _ => None,
        };
        match reply {
            Reply::Hang => {
                self.strike(&reply);
                self.until_healed().await;
                reply = self.healed(place, &route);
            }
            Reply::Poison => return self.poison(&node).await,
            Reply::ResetAfterHandling => {
                self.strike(&reply);
                return breaker.reset();
            }
            _ => {}
        }
        if let Some(response) = answer_of_own.filter(|_| reply.is_success()) {
            self.0.ledger.gives(place, service_call::reads_like(&method, &response));
            return self.send(&reply, Answer::of(&response), answer).await;
        }
        if let Some(received) = service_call::as_received(&method, &reply) {
            self.0.ledger.gives(place, received);
        }
        let now = TimeHandle::current().now_time();
        if let Some(ready) = Answer::to(&reply, &args, now) {
            self.send(&reply, ready.costing(cost), answer).await;
        }
    }

    /// Asks the service and records its answer.
    ///
    /// # Panics
    /// When the answer is no valid status.
    async fn ask(&self, own: &ServiceCall, place: Place) -> crate::user::Response {
        let answer = own.answer().await;
        assert!(
            (200..=599).contains(&answer.status),
            "the service `{}` answers {}, which is no status: use 200 to 599",
            own.host,
            answer.status
        );
        self.0.ledger.answered(place, answer.clone());
        let text = format!("{} answers {}", own.host, answer.status);
        self.record(Kind::Note, &text, &[]);
        answer
    }

    fn healed(&self, place: Place, route: &Route) -> Reply {
        let reply = route.healed();
        self.0.ledger.gives(place, reply.clone());
        reply
    }

    async fn send(&self, reply: &Reply, ready: Answer, answer: oneshot::Sender<Response<Pieces>>) {
        let (pieces, rest) = mpsc::unbounded_channel();
        let Ok(response) = ready.response(rest) else { return };
        if answer.send(response).is_err() {
            if reply.is_success() {
                self.0.strikes.strike(FaultKind::LateSuccess);
            }
            return self.record(Kind::Note, "the caller had given up", &[]);
        }
        self.strike(reply);
        for piece in ready.pieces {
            self.pause(ready.every_ms).await;
            if pieces.send(piece).is_err() {
                return self.record(Kind::Note, "the caller gave up midway", &[]);
            }
        }
        if *reply == Reply::Truncated {
            // hyper throws away what it has not yet sent when a body ends short.
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits `ms`, or until it heals.
    async fn pause(&self, ms: u64) {
        if ms > 0 {
            tokio::select! {
                biased;
                () = self.until_healed() => {}
                () = sleep(Duration::from_millis(ms)) => {}
            }
        }
    }

    async fn until_healed(&self) {
        // Registered before the check, so a heal between the two is not missed.
        let changed = self.0.changed.notified();
        if !self.is_healed() {
            changed.await;
        }
    }

    fn is_healed(&self) -> bool {
        self.0.healed.load(Ordering::SeqCst)
    }

    fn strike(&self, reply: &Reply) {
        if let Some(kind) = reply.fault() {
            self.0.strikes.strike(kind);
            self.record(Kind::Fault, &format!("{kind}: answers {reply:?}"), &[]);
        }
    }

    fn record(&self, kind: Kind, text: &str, detail: &[u8]) {
        self.0.trace.record(true_now(), &self.0.name, kind, text, detail);
    }
}
