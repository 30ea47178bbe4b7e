//! A workflow of one step that asks a bank for a charge.

use std::future::{Ready, ready};

use retrial::action::Context;
use retrial::failure::Failure;
use retrial::policy::{Backoff, Jitter, Policy, Shape};
use retrial::time::Nanos;
use retrial_sim::check::{Check, Failed, Passed, Request, Response, Seen, World};

pub(crate) fn policy() -> Policy {
    Policy::builder()
        .attempts(6)
        .exception_types(["5xx", "429", "NetworkError", "TIMEOUT"])
        .backoff(Backoff::exponential(Nanos::from_millis(100)))
        .attempt_timeout(Nanos::from_secs(3))
        .build()
        .unwrap()
}

/// Charges again on every attempt.
pub(crate) async fn charge(context: Context) -> Result<String, Failure> {
    let order = context.run().to_string();
    context.http().post("http://bank.test/").json(&order).send().await?.json()
}

/// A bank that charges whoever asks.
pub(crate) fn bank(world: &World) -> impl Fn(Request) -> Ready<Response> + use<> {
    let world = world.clone();
    move |request| {
        world.record("charged", request.json::<String>().unwrap_or_default());
        ready(Response::json(&"done"))
    }
}

/// No order is charged twice.
pub(crate) fn once(seen: &Seen<'_>) -> Result<(), String> {
    let orders: Vec<_> = seen.facts("charged").map(|fact| &fact.value).collect();
    match (1..orders.len()).find(|at| orders[..*at].contains(&orders[*at])) {
        Some(at) => Err(format!("{} was charged twice", orders[at])),
        None => Ok(()),
    }
}

/// A check of one function that uses nothing but its context.
pub(crate) fn of<F, Fut, T>(function: F) -> Check
where
    F: Fn(Context) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<T, Failure>> + Send + 'static,
    T: serde::Serialize,
{
    Check::new("of one function").retry(policy(), function).runs(1..=1).seeds(3).tries(20)
}

/// The backoff that a function of this name gives.
pub(crate) fn custom(name: &str) -> Backoff {
    let shape = Shape::Custom { name: name.to_owned() };
    Backoff { shape, jitter: Jitter::None, cap: None }
}

/// The result of a check in which everything must hold.
#[track_caller]
pub(crate) fn held(check: Check) -> Passed {
    match check.outcome() {
        Ok(passed) => passed,
        Err(found) => panic!("{found}"),
    }
}

/// What was found first: by whom, why, in which words.
pub(crate) fn first(failed: &Failed) -> (&str, &str, &str) {
    let found = failed.found.first().unwrap();
    (&found.oracle, &found.reason, &found.text)
}
