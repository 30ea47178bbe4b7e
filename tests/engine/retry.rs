//! The small door (X10): one future under a policy, on a clock of the test's own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use retrial::failure::{ErrorCode, Failure};
use retrial::policy::{
    AtDeadline, Backoff, Functions, GiveUp, Jitter, Policy, PolicyBuilder, Shape,
};
use retrial::retry::{Attempt, GaveUp, PolicyExt as _, Retry};
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
        panic!("the door spawns nothing")
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

/// What is asked of the work: each attempt takes a second and fails of `code`.
async fn failing(policy: &Policy, code: &str) -> (Vec<(u64, Attempt)>, GaveUp<Failure>) {
    let clock = Leaping::default();
    let mut seen = Vec::new();
    let done = Retry::new(policy, clock.clone())
        .retry(|attempt| {
            seen.push((clock.now().as_nanos() / 1_000_000_000, attempt));
            clock.pass(secs(1));
            std::future::ready(Err::<(), _>(Failure::new(code, "it went wrong")))
        })
        .await;
    (seen, done.unwrap_err())
}

#[tokio::test]
async fn x10_retries_one_future_under_a_policy() {
    let clock = Leaping::default();
    let plain = policy(|p| p);
    let done = Retry::new(&plain, clock.clone())
        .retry(|attempt| {
            let fails = attempt.number < 3;
            async move { if fails { Err(Failure::http(503, "busy")) } else { Ok(attempt) } }
        })
        .await
        .unwrap();
    assert_eq!(clock.now(), Mono::from_nanos(secs(3).get()), "1 s and 2 s of delay");
    let last = Some(Failure::http(503, "busy"));
    assert_eq!(done, Attempt { number: 3, retries_left: Some(1), timeout: None, last });
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
    let (seen, error) = failing(&policy(|p| p.exception_types(["Other"])), "E").await;
    assert_eq!((seen.len(), error.reason), (1, GiveUp::NotRetryable));
}

#[tokio::test]
async fn x10_timeouts_are_the_policys() {
    let timed = policy(|p| p.attempt_timeout(secs(2)));
    let clock = Leaping::default();
    let error: GaveUp<Failure> = Retry::new(&timed, clock.clone())
        .retry(|_| std::future::pending::<Result<(), Failure>>())
        .await
        .unwrap_err();
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
    let once = Retry::new(&timed, Leaping::default()).not_idempotent();
    let error = once.retry(hangs).await.unwrap_err();
    assert_eq!((error.attempts, error.reason), (1, GiveUp::OutcomeUnknown));
    let anyway = policy(|p| p.attempt_timeout(secs(2)).retry_unknown_outcome());
    let door = Retry::new(&anyway, Leaping::default()).not_idempotent();
    assert_eq!(door.retry(hangs).await.unwrap_err().reason, GiveUp::Exhausted);
}

/// Decision 9: the same chance as a run's first task under the same seed.
#[tokio::test]
async fn x10_jitter_comes_from_the_seed() {
    let jittered = policy(|p| p.backoff(Backoff::exponential(secs(8)).with_jitter(Jitter::Full)));
    let slept = |seed: u64| {
        let jittered = &jittered;
        async move {
            let clock = Leaping::default();
            let door = Retry::new(jittered, clock.clone()).seeded(seed);
            let done = door.retry(|_| std::future::ready(Err::<(), _>(Failure::new("E", ""))));
            done.await.unwrap_err();
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
    let door = Retry::new(&custom, clock.clone()).with_functions(functions);
    let done = door.retry(|_| std::future::ready(Err::<(), _>(Failure::new("E", "")))).await;
    assert_eq!(done.unwrap_err().attempts, 4);
    assert_eq!(clock.now(), Mono::from_nanos(secs(600).get()));
}

/// Nothing is spawned, so nothing outlives the future.
#[tokio::test]
async fn x10_dropping_calls_it_off() {
    let waiting = policy(|p| p.backoff(Backoff::exponential(secs(3_600))));
    let count = Arc::new(AtomicU64::new(0));
    let work = |_: Attempt| {
        count.fetch_add(1, Ordering::SeqCst);
        std::future::ready(Err::<(), _>(Failure::new("E", "")))
    };
    tokio::select! {
        biased;
        _ = waiting.retry(work) => panic!("it waits for an hour"),
        () = tokio::task::yield_now() => {}
    }
    assert_eq!(count.load(Ordering::SeqCst), 1);
}
