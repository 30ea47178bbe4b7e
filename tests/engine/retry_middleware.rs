//! Retries as a middleware of reqwest, beside the one that its users know (X10).

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use reqwest::Method;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware};
use reqwest_retry::RetryTransientMiddleware;
use reqwest_retry::policies::ExponentialBackoff;
use retrial::policy::{Backoff, Budget, Policy, PolicyBuilder, Refill, Share};
use retrial::retry::classify;
use retrial::retry::reqwest_middleware::{HttpAnswers, RetryMiddleware};
use retrial::time::Nanos;

const MS: Nanos = Nanos::from_millis(1);

/// What a server does with its requests, in order; after that it answers with 200.
#[derive(Clone, Copy, Debug)]
enum Reply {
    Status(u16, Option<&'static str>),
    /// The connection ends.
    Cut,
    /// Nothing.
    Silence,
}

use Reply::{Cut, Silence, Status};

const BUSY: Reply = Status(503, None);

/// A server that follows `script`, and the body of each request that it got.
#[derive(Clone, Default)]
struct Server {
    seen: Arc<Mutex<Vec<Bytes>>>,
}

impl Server {
    async fn start(&self, script: Vec<Reply>) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (server, script) = (server.clone(), script.clone());
                let answer = move |request| server.clone().answer(script.clone(), request);
                let serving = http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service_fn(answer));
                tokio::spawn(serving);
            }
        });
        address
    }

    async fn answer(
        self,
        script: Vec<Reply>,
        request: Request<hyper::body::Incoming>,
    ) -> Result<Response<Empty<Bytes>>, &'static str> {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let nth = {
            let mut seen = self.seen.lock().unwrap();
            seen.push(body);
            seen.len() - 1
        };
        match script.get(nth).copied().unwrap_or(Status(200, None)) {
            Status(status, wait) => {
                let mut answer = Response::builder().status(status);
                if let Some(wait) = wait {
                    answer = answer.header("retry-after", wait);
                }
                Ok(answer.body(Empty::new()).unwrap())
            }
            Cut => Err("cut"),
            Silence => std::future::pending().await,
        }
    }
}

fn policy(change: impl FnOnce(PolicyBuilder) -> PolicyBuilder) -> Policy {
    change(Policy::builder().attempts(3).backoff(Backoff::exponential(MS))).build().unwrap()
}

fn client(middleware: impl Middleware) -> ClientWithMiddleware {
    ClientBuilder::new(reqwest::Client::new()).with(middleware).build()
}

fn ours(change: impl FnOnce(PolicyBuilder) -> PolicyBuilder) -> ClientWithMiddleware {
    client(RetryMiddleware::new(policy(change), HttpAnswers))
}

/// How many requests arrived, and the status that the caller got; 0 for an error.
async fn of(client: &ClientWithMiddleware, method: Method, script: Vec<Reply>) -> (usize, u16) {
    let server = Server::default();
    let address = server.start(script).await;
    let got = client.request(method, format!("http://{address}/")).send().await;
    let arrived = server.seen.lock().unwrap().len();
    (arrived, got.map_or(0, |answer| answer.status().as_u16()))
}

#[tokio::test]
async fn x10_a_middleware_of_reqwest_does_what_reqwest_retry_does() {
    let waits = ExponentialBackoff::builder()
        .retry_bounds(Duration::from_millis(1), Duration::from_millis(2))
        .build_with_max_retries(2);
    let theirs = client(RetryTransientMiddleware::new_with_policy(waits));
    let ours = ours(|p| p);
    let scripts = [
        vec![],
        vec![BUSY],
        vec![BUSY, BUSY],
        vec![BUSY; 9],
        vec![Status(429, None), Cut],
        vec![Status(404, None)],
        vec![Cut; 9],
    ];
    for script in scripts {
        let same = of(&ours, Method::GET, script.clone()).await;
        assert_eq!(same, of(&theirs, Method::GET, script.clone()).await, "{script:?}");
    }
    assert_eq!(of(&ours, Method::GET, vec![BUSY; 9]).await, (3, 503), "the last answer is given");
}

#[tokio::test]
async fn x10_x6_a_middleware_waits_as_it_is_asked_and_has_one_budget() {
    let short = ours(|p| p.max_retry_after(Nanos::from_secs(60)));
    let script = vec![Status(503, Some("90"))];
    assert_eq!(of(&short, Method::GET, script).await, (1, 503), "longer than may be waited");
    let refill = Refill { ratio: Share::ZERO, first_success: 1, refund: false };
    let budget = Budget { initial: 1, refill, ..Budget::of_first_attempts(Share::ZERO) };
    let client = ours(|p| p.budget(budget));
    assert_eq!(of(&client, Method::GET, vec![BUSY; 9]).await, (2, 503), "one retry is left");
    assert_eq!(of(&client, Method::GET, vec![BUSY; 9]).await, (1, 503));
    assert_eq!(of(&client, Method::GET, vec![]).await, (1, 200), "a token comes back");
    assert_eq!(of(&client, Method::GET, vec![BUSY]).await, (2, 200));
}

#[tokio::test]
async fn x10_what_may_have_happened_is_done_again_only_where_that_is_safe() {
    let client = ours(|p| p);
    assert_eq!(of(&client, Method::PUT, vec![Cut]).await, (2, 200));
    assert_eq!(of(&client, Method::POST, vec![Cut]).await, (1, 0), "it may have been done");
    assert_eq!(of(&client, Method::POST, vec![BUSY]).await, (2, 200), "it was refused");
    let server = Server::default();
    let address = server.start(vec![Cut]).await;
    let keyed = client.post(format!("http://{address}/")).header("idempotency-key", "7").body("x");
    assert_eq!(keyed.send().await.unwrap().status(), 200);
    assert_eq!(*server.seen.lock().unwrap(), ["x", "x"]);
    let stated = ours(|p| p.retry_unknown_outcome());
    assert_eq!(of(&stated, Method::POST, vec![Cut]).await, (2, 200), "the policy says so");
}

#[tokio::test]
async fn x10_a_body_that_cannot_be_sent_again_is_sent_once() {
    let server = Server::default();
    let address = server.start(vec![BUSY]).await;
    let body = reqwest::Body::wrap(Full::new(Bytes::from("once")));
    let sent = ours(|p| p).put(format!("http://{address}/")).body(body).send().await;
    assert_eq!(sent.unwrap().status(), 503);
    assert_eq!(*server.seen.lock().unwrap(), ["once"]);
}

#[tokio::test]
async fn x10_an_attempt_of_a_middleware_keeps_the_policys_time() {
    let client = ours(|p| p.attempt_timeout(Nanos::from_millis(50)));
    assert_eq!(of(&client, Method::GET, vec![Silence, Silence]).await, (3, 200));
    let server = Server::default();
    let address = server.start(vec![Silence; 9]).await;
    let error = client.get(format!("http://{address}/")).send().await.unwrap_err();
    assert_eq!(classify::reqwest_middleware(&error).code().as_str(), "TIMEOUT", "{error}");
    assert_eq!(classify::error(&error).code().as_str(), "TIMEOUT");
}
