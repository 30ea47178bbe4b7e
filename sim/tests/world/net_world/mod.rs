//! What the network's tests share: a small world on a fresh thread, a runtime and a raw client.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::future::Future;
use std::net::IpAddr;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper::{HeaderMap, Request};
use hyper_util::rt::TokioIo;
use madsim::runtime::{Handle, NodeHandle};
use madsim::time::{TimeHandle, sleep, sleep_until};
use retrial::runtime::{Runtime, Task, WorkLost};
use retrial::time::{Mono, Nanos, Timestamp};
use retrial_sim::fault::{FaultKind, Strikes};
use retrial_sim::unstable::clock::true_now;
use retrial_sim::unstable::incarnation::Incarnation;
use retrial_sim::unstable::net::{Effect, Net, NetFault, NetPlan, SimConnector, Which, Window};
use retrial_sim::unstable::trace::Trace;

/// One seed's recorders and network.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) trace: Trace,
    pub(crate) strikes: Strikes,
    pub(crate) net: Net,
}

impl World {
    /// A node named `name` with the `n`-th address.
    pub(crate) fn node(&self, name: &str, n: u8) -> NodeHandle {
        let ip: IpAddr = [10, 0, 0, n].into();
        self.net.add_node(name, ip);
        Handle::current().create_node().name(name).ip(ip).build()
    }

    pub(crate) fn struck(&self, kind: FaultKind) -> u64 {
        self.strikes.counts().get(&kind).copied().unwrap_or(0)
    }
}

/// Runs `scene` in a fresh world under `plan`, on a thread of its own.
#[expect(clippy::disallowed_methods, reason = "each seed has a thread of its own")]
pub(crate) fn within<T, F>(
    seed: u64,
    plan: NetPlan,
    scene: impl FnOnce(World) -> F + Send + 'static,
) -> T
where
    T: Send + 'static,
    F: Future<Output = T> + 'static,
{
    let run = move || {
        let mut runtime =
            madsim::runtime::Runtime::with_seed_and_config(seed, madsim::Config::default());
        runtime.set_time_limit(std::time::Duration::from_secs(36_000));
        let (trace, strikes) = (Trace::new(true), Strikes::default());
        let net = Net::new(seed, plan, trace.clone(), strikes.clone());
        runtime.block_on(async move { scene(World { trace, strikes, net }).await })
    };
    std::thread::spawn(run).join().unwrap()
}

/// A plan of these faults.
pub(crate) fn plan(faults: impl IntoIterator<Item = NetFault>) -> NetPlan {
    NetPlan { faults: faults.into_iter().collect(), ..NetPlan::default() }
}

/// `effect` on the n-th connection of each link, always.
pub(crate) fn nth(n: u64, effect: Effect) -> NetFault {
    NetFault { which: Which::Nth(n), ..NetFault::always(effect) }
}

/// From `from` to `until`, in milliseconds.
pub(crate) fn window(from: u64, until: u64) -> Window {
    let at = |ms| Mono::from_nanos(Nanos::from_millis(ms).get());
    Window { from: at(from), until: at(until) }
}

pub(crate) fn millis(n: u64) -> std::time::Duration {
    std::time::Duration::from_millis(n)
}

/// True simulated time in whole milliseconds.
pub(crate) fn now_ms() -> u64 {
    true_now().as_nanos() / 1_000_000
}

/// A runtime over madsim whose clock is the true one.
#[derive(Clone)]
pub(crate) struct PlainRuntime;

impl Runtime for PlainRuntime {
    fn now(&self) -> Mono {
        true_now()
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_nanos(true_now().as_nanos())
    }

    fn random(&self) -> u64 {
        madsim::rand::random()
    }

    async fn sleep_until(&self, at: Mono) {
        let wait = at.since(true_now());
        sleep_until(TimeHandle::current().now_instant() + std::time::Duration::from(wait)).await;
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Task {
        let abort = madsim::task::spawn(future).abort_handle();
        Task::new(move || abort.abort())
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, WorkLost> {
        Ok(work())
    }
}

/// What a raw client saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// The body, or `None` when it broke off.
    pub(crate) body: Option<Bytes>,
}

impl Seen {
    pub(crate) fn text(&self) -> String {
        let body = self.body.as_ref().map_or("broken off".into(), |b| String::from_utf8_lossy(b));
        format!("{} {body}", self.status)
    }
}

/// One POST over a connection of its own, with `token` as its receipt token.
pub(crate) async fn post(
    connector: &SimConnector,
    host: &str,
    path: &str,
    token: &str,
    body: &str,
) -> Result<Seen, String> {
    let stream = connector.connect_to(host, 80).await.map_err(|e| e.kind().to_string())?;
    let shaken = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.map_err(|e| e.to_string())?;
    let driver = madsim::task::spawn(connection);
    let request = Request::post(path)
        .header("host", host)
        .header("receipt-token", token)
        .header("idempotency-key", token)
        .header("x-retry-attempt", "1")
        .header("x-retry-timeout-ms", "5000")
        .body(Full::new(Bytes::from(body.to_owned())))
        .unwrap();
    let answered = sender.send_request(request).await;
    let seen = match answered {
        Ok(response) => {
            let (head, body) = response.into_parts();
            let body = body.collect().await.ok().map(|whole| whole.to_bytes());
            Ok(Seen { status: head.status.as_u16(), headers: head.headers, body })
        }
        Err(error) => Err(error.to_string()),
    };
    driver.abort();
    seen
}

/// Lets everything that is under way come to rest.
pub(crate) async fn settle() {
    sleep(millis(100)).await;
}

/// The first life of `node`.
pub(crate) fn incarnation(node: &str) -> Incarnation {
    Incarnation::new(node, 0)
}
