//! One future under a policy (X10), on a clock of the test's own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::future::{Future, IntoFuture as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use retrial::dialect::{Environment, Policies, parse_policy};
use retrial::failure::{ErrorCode, Failure};
use retrial::policy::{
    AtDeadline, Backoff, Functions, GiveUp, Jitter, Policy, PolicyBuilder, Shape,
};
use retrial::retry::{Attempt, GaveUp, PolicyExt as _};
use retrial::run::TaskId;
use retrial::runtime::{Runtime, Task, WorkLost};
use retrial::time::{Mono, Nanos, Timestamp};
use retrial::workflow::StepIx;

/// A clock that leaps to whatever is slept for.
#[derive(Clone, Default)]
struct Leaping(Arc<AtomicU64>);

impl Leaping {
    fn pass(&self, by: Nanos) {
        self.0.fetch_add(by.get(), Ordering::SeqCst);
    }
}

impl Runtime for Leaping {
    fn now(&self) -> Mono {
        Mono::from_nanos(self.0.load(Ordering::SeqCst))
    }

    fn wall(&self) -> Timestamp {
        Timestamp::default()
    }

    fn random(&self) -> u64 {
        7
    }

    async fn sleep_until(&self, at: Mono) {
        self.0.fetch_max(at.as_nanos(), Ordering::SeqCst);
    }

    fn spawn(&self, _: impl Future<Output = ()> + Send + 'static) -> Task {
        panic!("a retried future spawns nothing")
    }

    async fn blocking<T: Send + 'static>(
        &self,
        _: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, WorkLost> {
        Err(WorkLost)
    }
}

fn secs(n: u64) -> Nanos {
    Nanos::from_secs(n)
}

fn policy(change: impl FnOnce(PolicyBuilder) -> PolicyBuilder) -> Policy {
    let usual = Policy::builder().attempts(4).backoff(Backoff::exponential(secs(1)));
    change(usual).build().unwrap()
}

async fn failed(_: Attempt) -> Result<(), Failure> {
    Err(Failure::new("E", "").retryable())
}

/// What is asked of the work: each attempt takes a second and fails of `code`.
async fn failing(policy: &Policy, code: &str) -> (Vec<(u64, Attempt)>, GaveUp<Failure>) {
    let clock = Leaping::default();
    let mut seen = Vec::new();
    let work = |attempt: Attempt| {
        seen.push((clock.now().as_nanos() / 1_000_000_000, attempt));
        clock.pass(secs(1));
        std::future::ready(Err::<(), _>(Failure::new(code, "it went wrong").retryable()))
    };
    let done = policy.retry(work).on(clock.clone()).await;
    (seen, done.unwrap_err())
}

#[tokio::test]
async fn x10_retries_one_future_under_a_policy() {
    let clock = Leaping::default();
    let plain = policy(|p| p);
    let work = |attempt: Attempt| {
        let fails = attempt.number < 3;
        async move { if fails { Err(Failure::http(503, "busy")) } else { Ok(attempt) } }
    };
    let done = plain.retry(work).on(clock.clone()).await.unwrap();
    assert_eq!(clock.now(), Mono::from_nanos(secs(3).get()), "1 s and 2 s of delay");
    assert_eq!((done.number, done.retries_left, done.timeout), (3, Some(1), None));
    assert_eq!(done.last, Some(Failure::http(503, "busy")));
}

#[tokio::test]
async fn x10_the_error_says_how_often_and_why() {
    let (seen, error) = failing(&policy(|p| p), "E").await;
    let starts: Vec<u64> = seen.iter().map(|(at, _)| *at).collect();
    assert_eq!(starts, [0, 2, 5, 10]);
    assert_eq!((error.attempts, error.reason), (4, GiveUp::Exhausted));
    assert_eq!(error.failure.code().as_str(), "E");
    assert!(error.error.is_some());
    assert_eq!(error.to_string(), "E: it went wrong (after 4 attempts: all attempts are used up)");
    let asked = |_: Attempt| async {
        Err::<(), _>(Failure::http(503, "busy").with_retry_after(secs(7_200)))
    };
    let short = policy(|p| p);
    let error = short.retry(asked).on(Leaping::default()).await.unwrap_err();
    let whole = "503: busy (2h is more than max_retry_after, 1h) (after 1 attempt: the endpoint asks for a longer wait than is allowed)";
    assert_eq!(error.to_string(), whole);
    let (seen, error) = failing(&policy(|p| p.exception_types(["Other"])), "E").await;
    assert_eq!((seen.len(), error.reason), (1, GiveUp::NotRetryable));
}

#[tokio::test]
async fn x10_timeouts_are_the_policys() {
    let timed = policy(|p| p.attempt_timeout(secs(2)));
    let clock = Leaping::default();
    let hangs = |_| std::future::pending::<Result<(), Failure>>();
    let error = timed.retry(hangs).on(clock.clone()).await.unwrap_err();
    assert_eq!(error.failure.code().as_str(), ErrorCode::TIMEOUT);
    assert_eq!((error.attempts, error.error), (4, None));
    // Four attempts of 2 s, delays of 1, 2 and 4 s.
    assert_eq!(clock.now(), Mono::from_nanos(secs(15).get()));
    let total = policy(|p| p.total_timeout(secs(6)));
    let (seen, error) = failing(&total, "E").await;
    assert_eq!((seen.len(), error.reason), (3, GiveUp::TotalTimeout));
    // The time that is left is what an attempt may take.
    let given: Vec<_> = seen.iter().map(|(_, a)| a.timeout).collect();
    assert_eq!(given, [Some(secs(6)), Some(secs(4)), Some(secs(1))]);
    let both = policy(|p| p.total_timeout(secs(6)).attempt_timeout(secs(3)));
    let (seen, _) = failing(&both, "E").await;
    let given: Vec<_> = seen.iter().map(|(_, a)| a.timeout).collect();
    assert_eq!(given, [Some(secs(3)), Some(secs(3)), Some(secs(1))], "the shorter one");
    let truncate = AtDeadline::Truncate { reserve: Nanos::from_millis(500) };
    let cut = policy(|p| p.total_timeout(secs(9)).at_deadline(truncate));
    let (seen, _) = failing(&cut, "E").await;
    let starts: Vec<u64> = seen.iter().map(|(at, _)| *at).collect();
    assert_eq!(starts, [0, 2, 5, 8], "the fourth starts at 8.5 s, not at 10");
}

#[tokio::test]
async fn x10_outcomes_that_are_unknown() {
    let timed = policy(|p| p.attempt_timeout(secs(2)));
    let hangs = |_| std::future::pending::<Result<(), Failure>>();
    let once = timed.retry(hangs).on(Leaping::default()).not_idempotent();
    let error = once.await.unwrap_err();
    assert_eq!((error.attempts, error.reason), (1, GiveUp::OutcomeUnknown));
    let anyway = policy(|p| p.attempt_timeout(secs(2)).retry_unknown_outcome());
    let twice = anyway.retry(hangs).on(Leaping::default()).not_idempotent();
    assert_eq!(twice.await.unwrap_err().reason, GiveUp::Exhausted);
}

/// Decision 9: the same chance as a run's first task under the same seed.
#[tokio::test]
async fn x10_jitter_comes_from_the_seed() {
    let jittered = policy(|p| p.backoff(Backoff::exponential(secs(8)).with_jitter(Jitter::Full)));
    let slept = |seed: u64| {
        let jittered = &jittered;
        async move {
            let clock = Leaping::default();
            jittered.retry(failed).on(clock.clone()).seeded(seed).await.unwrap_err();
            clock.now().as_nanos()
        }
    };
    let task = TaskId { step: StepIx(0), item: 0 };
    let backoff = &jittered.rules()[0].backoff;
    let expected = |seed| {
        let draw = |n| backoff.draw(n, None, task.chance(seed, n), &Functions::default()).get();
        (1..=3).map(draw).sum::<u64>()
    };
    assert_eq!([slept(1).await, slept(2).await], [expected(1), expected(2)]);
    assert_ne!(expected(1), expected(2));
}

#[tokio::test]
async fn x10_custom_functions() {
    let mut functions = Functions::default();
    functions.register("mine", |n| secs(u64::from(n) * 100));
    let shape = Shape::Custom { name: "mine".into() };
    let custom = policy(|p| p.backoff(Backoff { shape, jitter: Jitter::None, cap: None }));
    let clock = Leaping::default();
    let done = custom.retry(failed).on(clock.clone()).with_functions(functions).await;
    assert_eq!(done.unwrap_err().attempts, 4);
    assert_eq!(clock.now(), Mono::from_nanos(secs(600).get()));
}

/// Nothing is spawned, so nothing outlives the future.
#[tokio::test]
async fn x10_dropping_calls_it_off() {
    let waiting = policy(|p| p.backoff(Backoff::exponential(secs(3_600))));
    let count = Arc::new(AtomicU64::new(0));
    let work = |attempt: Attempt| {
        count.fetch_add(1, Ordering::SeqCst);
        failed(attempt)
    };
    tokio::select! {
        biased;
        _ = waiting.retry(work).into_future() => panic!("it waits for an hour"),
        () = tokio::task::yield_now() => {}
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[derive(Debug, thiserror::Error)]
#[error("the exchange said no")]
struct QuoteError(#[source] std::io::Error);

fn refused() -> std::io::Error {
    std::io::ErrorKind::ConnectionRefused.into()
}

/// An error of any kind comes back whole, as the source of what says that the policy gave up.
#[tokio::test]
async fn x10_x18_any_error_is_taken_and_given_back() {
    let thrice = policy(|p| p.attempts(3));
    let work = |_| async { Err::<(), _>(refused()) };
    let gave_up = thrice.retry(work).on(Leaping::default()).await.unwrap_err();
    assert_eq!((gave_up.attempts, gave_up.failure.code().as_str()), (3, "NETWORK_ERROR"));
    let source = std::error::Error::source(&gave_up).unwrap();
    assert!(source.downcast_ref::<std::io::Error>().is_some());
    assert_eq!(gave_up.into_error().unwrap().kind(), std::io::ErrorKind::ConnectionRefused);

    let work = |_| async { Err::<(), _>(QuoteError(refused())) };
    let gave_up = thrice.retry(work).on(Leaping::default()).await.unwrap_err();
    assert_eq!(gave_up.attempts, 3);
    assert!(gave_up.failure.is_a("QuoteError") && gave_up.failure.is_a("ConnectionRefusedError"));

    let work = |_| async { Err::<(), _>(anyhow::Error::new(refused()).context("at the exchange")) };
    let gave_up = thrice.retry(work).on(Leaping::default()).await.unwrap_err();
    assert!(gave_up.failure.is_a("ConnectionRefusedError"));
    assert_eq!(std::error::Error::source(&gave_up).unwrap().to_string(), "at the exchange");
    let again: anyhow::Error = gave_up.into_error().unwrap();
    assert!(again.is::<std::io::Error>());

    type Boxed = Box<dyn std::error::Error + Send + Sync>;
    let work = |_| async { Err::<(), Boxed>("it is Tuesday".into()) };
    let gave_up = thrice.retry(work).on(Leaping::default()).await.unwrap_err();
    assert_eq!((gave_up.attempts, gave_up.failure.message()), (3, "it is Tuesday"));
    fn whole(_: impl std::error::Error + Send + Sync + 'static) {}
    whole(gave_up);
}

/// A builder's rule without types is not for what the classifier calls permanent, unless told to.
#[tokio::test]
async fn x10_what_is_permanent_is_not_retried_unasked() {
    let missing = |_| async { Err::<(), _>(std::io::Error::from(std::io::ErrorKind::NotFound)) };
    let plain = policy(|p| p);
    let gave_up = plain.retry(missing).on(Leaping::default()).await.unwrap_err();
    assert_eq!((gave_up.attempts, gave_up.reason), (1, GiveUp::NotRetryable));
    let told = plain.retry(missing).on(Leaping::default()).even_permanent().await.unwrap_err();
    assert_eq!(told.attempts, 4);
    let named = policy(|p| p.exception_types(["NotFound"]));
    assert_eq!(named.retry(missing).on(Leaping::default()).await.unwrap_err().attempts, 4);
    let read = parse_policy("p", "[retry: 2]", None, &Environment::default());
    let Ok(Policies::One(text)) = read else { panic!("{read:?}") };
    assert_eq!(text.retry(missing).on(Leaping::default()).await.unwrap_err().attempts, 3);
}

#[tokio::test]
async fn x10_x18_a_condition_a_classifier_and_who_is_told() {
    let plain = policy(|p| p);
    let numbered = |attempt: Attempt| async move {
        Err::<(), _>(std::io::Error::other(format!("number {}", attempt.number)))
    };
    let few = |error: &std::io::Error| error.to_string() != "number 2";
    let gave_up = plain.retry(numbered).on(Leaping::default()).when(few).await.unwrap_err();
    assert_eq!((gave_up.attempts, gave_up.reason), (2, GiveUp::NotRetryable));

    let asks =
        |error: &std::io::Error| Failure::http(429, &error.to_string()).with_retry_after(secs(90));
    let (clock, mut told) = (Leaping::default(), Vec::new());
    let done = plain.retry(numbered).on(clock.clone()).classify(asks).notify(|retry| {
        let error = retry.error.map(ToString::to_string);
        told.push((retry.attempt, retry.delay, retry.failure.status(), error));
    });
    let gave_up = done.await.unwrap_err();
    assert_eq!((gave_up.attempts, gave_up.failure.status()), (4, Some(429)));
    assert_eq!(clock.now(), Mono::from_nanos(secs(270).get()));
    let line = |n: u32| (n, secs(90), Some(429), Some(format!("number {n}")));
    assert_eq!(told, [line(1), line(2), line(3)]);
}

#[test]
fn x10_work_that_blocks() {
    let quick = Backoff::exponential(Nanos::from_millis(1));
    let plain = policy(|p| p.backoff(quick));
    let mut told = 0;
    let done = plain.retry_blocking(|attempt| match attempt.number {
        1 | 2 => Err(refused()),
        number => Ok(number),
    });
    assert_eq!(done.notify(|_| told += 1).call().unwrap(), 3);
    assert_eq!(told, 2);
    let gave_up = plain.retry_blocking(|_| Err::<(), _>(refused())).call().unwrap_err();
    assert_eq!((gave_up.attempts, gave_up.reason), (4, GiveUp::Exhausted));
}

/// What is awaited can be sent to another thread where the work can, and need not be.
#[tokio::test]
async fn x10_the_future_is_as_free_as_the_work() {
    let plain = policy(|p| p.attempts(1));
    let sent = tokio::task::spawn({
        let plain = plain.clone();
        async move { plain.retry(|_| async { Ok::<_, std::io::Error>(1) }).await.unwrap() }
    });
    let local = std::rc::Rc::new(2);
    let stays = plain.retry(|_| {
        let local = std::rc::Rc::clone(&local);
        async move { Ok::<_, std::io::Error>(*local) }
    });
    assert_eq!((sent.await.unwrap(), stays.await.unwrap()), (1, 2));
}
