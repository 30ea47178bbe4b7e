//! Retries as a layer of tower, and what errors of other libraries are read as (X10).

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::{Request, Response};
use retrial::failure::Failure;
use retrial::policy::{Backoff, Budget, Denied, Policy, PolicyBuilder, Refill, Share};
use retrial::retry::classify;
use retrial::retry::tower::{HttpAnswers, RetryLayer};
use retrial::runtime::{Runtime as _, TokioRuntime};
use retrial::time::Nanos;
use tower::{Layer as _, ServiceExt as _, service_fn};

/// Statuses to answer with, in order, each with its `Retry-After`; then 200.
type Script = Vec<(u16, Option<&'static str>)>;
/// The calls so far.
type Calls = Arc<Mutex<usize>>;

fn policy(change: impl FnOnce(PolicyBuilder) -> PolicyBuilder) -> Policy {
    let usual = Policy::builder().attempts(3).backoff(Backoff::exponential(Nanos::from_secs(1)));
    change(usual).build().unwrap()
}

type Answer = Ready<Result<Response<()>, Infallible>>;

fn answers(
    calls: &Calls,
    script: Script,
) -> impl FnMut(Request<()>) -> Answer + Clone + Send + use<> {
    let counted = Arc::clone(calls);
    move |_| {
        let mut calls = counted.lock().unwrap();
        let (status, wait) = script.get(*calls).copied().unwrap_or((200, None));
        *calls += 1;
        let mut answer = Response::builder().status(status);
        if let Some(wait) = wait {
            answer = answer.header("retry-after", wait);
        }
        ready(Ok(answer.body(()).unwrap()))
    }
}

/// How many calls were made, and what the caller got.
async fn ours(layer: &RetryLayer<HttpAnswers>, script: Script) -> (usize, u16) {
    let calls = Calls::default();
    let service = layer.layer(service_fn(answers(&calls, script)));
    let got = service.oneshot(Request::new(())).await.unwrap().status().as_u16();
    (*calls.lock().unwrap(), got)
}

/// `tower`'s own retries, of server errors, with so many left.
#[derive(Clone)]
struct Left(u32);

impl<B> tower::retry::Policy<Request<()>, Response<B>, Infallible> for Left {
    type Future = Ready<()>;

    fn retry(
        &mut self,
        _: &mut Request<()>,
        answer: &mut Result<Response<B>, Infallible>,
    ) -> Option<Ready<()>> {
        let failed = answer.as_ref().is_ok_and(|answer| answer.status().is_server_error());
        self.0 = self.0.checked_sub(u32::from(failed))?;
        failed.then(|| ready(()))
    }

    fn clone_request(&mut self, request: &Request<()>) -> Option<Request<()>> {
        Some(request.clone())
    }
}

async fn theirs(script: Script) -> (usize, u16) {
    let calls = Calls::default();
    let answer = service_fn(answers(&calls, script));
    let service = tower::retry::RetryLayer::new(Left(2)).layer(answer);
    let got = service.oneshot(Request::new(())).await.unwrap().status().as_u16();
    (*calls.lock().unwrap(), got)
}

#[tokio::test(start_paused = true)]
async fn x10_a_layer_of_tower_does_what_towers_own_does() {
    let layer = RetryLayer::new(policy(|p| p), HttpAnswers);
    let bad = |n: usize| vec![(503, None); n];
    for script in [vec![], bad(1), bad(2), bad(3), bad(9), vec![(404, None)]] {
        let same = ours(&layer, script.clone()).await;
        assert_eq!(same, theirs(script.clone()).await, "{script:?}");
    }
    assert_eq!(ours(&layer, bad(9)).await, (3, 503), "the last answer is the caller's");
}

#[tokio::test(start_paused = true)]
async fn x10_a_layer_of_tower_waits_as_it_is_asked() {
    let clock = TokioRuntime::current();
    let layer = RetryLayer::new(policy(|p| p), HttpAnswers);
    let asked = ours(&layer, vec![(503, Some("90"))]).await;
    assert_eq!((asked, clock.now().as_nanos() / 1_000_000_000), ((2, 200), 90));
    let short = RetryLayer::new(policy(|p| p.max_retry_after(Nanos::from_secs(60))), HttpAnswers);
    assert_eq!(ours(&short, vec![(503, Some("90"))]).await, (1, 503));
}

#[tokio::test(start_paused = true)]
async fn x10_the_requests_of_a_layer_share_its_budget() {
    let refill = Refill { ratio: Share::ZERO, first_success: 1, refund: false };
    let budget = Budget { initial: 1, refill, ..Budget::of_first_attempts(Share::ZERO) };
    let layer = RetryLayer::new(policy(|p| p.budget(budget)), HttpAnswers);
    assert_eq!(ours(&layer, vec![(503, None); 9]).await, (2, 503), "one retry is left");
    assert_eq!(ours(&layer.clone(), vec![(503, None); 9]).await, (1, 503));
    assert_eq!(ours(&layer, vec![]).await, (1, 200), "a token comes back");
    assert_eq!(ours(&layer, vec![(503, None)]).await, (2, 200));
}

#[tokio::test(start_paused = true)]
async fn decision_8_a_layer_waits_for_no_token_that_comes_after_the_total_timeout() {
    let share = Share::from_millionths(1).unwrap();
    let waiting =
        Budget { initial: 0, on_denied: Denied::Wait, ..Budget::of_first_attempts(share) };
    let layer = |total| {
        let quick = Backoff::exponential(Nanos::from_millis(10));
        let timed = policy(|p| p.backoff(quick).budget(waiting).total_timeout(total));
        RetryLayer::new(timed, HttpAnswers)
    };
    let clock = TokioRuntime::current();
    let millis = || clock.now().as_nanos() / 1_000_000;
    // A token comes each second.
    let short = layer(Nanos::from_millis(900));
    assert_eq!((ours(&short, vec![(503, None); 9]).await, millis()), ((1, 503), 0));
    let long = layer(Nanos::from_millis(2_500));
    assert_eq!((ours(&long, vec![(503, None); 9]).await, millis()), ((3, 503), 2_000));
}

#[tokio::test(start_paused = true)]
async fn decision_8_a_layer_that_wakes_after_the_total_timeout_makes_no_attempt() {
    let layer = RetryLayer::new(policy(|p| p.total_timeout(Nanos::from_secs(5))), HttpAnswers);
    let call = async { ours(&layer, vec![(503, None); 9]).await };
    let late = async {
        // The delay of a second is waited for by now.
        tokio::task::yield_now().await;
        tokio::time::advance(Duration::from_secs(6)).await;
    };
    assert_eq!(tokio::join!(call, late).0, (1, 503));
}

#[tokio::test(start_paused = true)]
async fn x10_a_layer_of_tower_keeps_the_policys_time() {
    let timed = policy(|p| p.attempt_timeout(Nanos::from_secs(5)));
    let hangs = service_fn(|()| std::future::pending::<Result<(), io::Error>>());
    let is_failure = |answer: Result<&(), &io::Error>| answer.err().map(classify::io);
    let service = RetryLayer::new(timed, is_failure).layer(hangs);
    let clock = TokioRuntime::current();
    let error = service.oneshot(()).await.unwrap_err();
    assert_eq!(error.downcast_ref::<Failure>().unwrap().code().as_str(), "TIMEOUT");
    // Three attempts of 5 s, and delays of 1 s and 2 s.
    assert_eq!(clock.now().as_nanos() / 1_000_000_000, 18);
}

#[test]
fn x10_x18_errors_of_io_are_read_by_their_kind() {
    let read = |kind: io::ErrorKind| classify::io(&kind.into());
    let reset = read(io::ErrorKind::ConnectionReset);
    assert!(reset.is_a("NETWORK_ERROR") && reset.is_a("ConnectionResetError"));
    assert!(read(io::ErrorKind::TimedOut).is_outcome_unknown());
    let retryable = retrial::failure::Class::Retryable;
    for kind in [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied] {
        assert_ne!(read(kind).class(), retryable, "{kind}");
    }
    for kind in [io::ErrorKind::Interrupted, io::ErrorKind::StorageFull, io::ErrorKind::Other] {
        assert_eq!(read(kind).class(), retryable, "{kind}");
    }
    let held = classify::io(&io::Error::other(Failure::http(404, "gone")));
    assert_eq!(held.status(), Some(404));
}

#[tokio::test]
async fn x10_x18_errors_of_reqwest_are_read() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = reqwest::get(format!("http://{gone}/?token=hush")).await.unwrap_err();
    let failure = classify::reqwest(&refused);
    assert!(failure.is_a("ConnectionRefusedError"), "{failure:?}");
    assert!(!failure.message().contains("hush"), "an address may hold a secret: {failure}");
    assert_eq!(classify::error(&refused), failure);
    let bad = reqwest::get("http://").await.unwrap_err();
    assert_eq!(classify::reqwest(&bad).class(), retrial::failure::Class::Permanent);
}
