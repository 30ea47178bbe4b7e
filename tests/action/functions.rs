//! What a registered function takes, and what its errors mean.

use std::io;

use action_support::call;
use retrial::action::{Actions, Args, Call, Context, FromContext, Function, Registry};
use retrial::failure::{Class, Failure, NetworkFault};
use retrial::net::ConnectError;
use retrial::workflow::Target;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::action_support;

#[derive(Deserialize)]
struct Order {
    item: String,
}

/// A step's name, as a type of a user's.
struct StepName(String);

impl FromContext for StepName {
    fn from_context(context: &Context) -> Result<Self, Failure> {
        match context.step() {
            "" => Err(Failure::new("NAMELESS", "the step has no name")),
            name => Ok(Self(name.to_owned())),
        }
    }
}

async fn nothing() -> Result<u32, Failure> {
    Ok(1)
}

async fn arguments(Args(order): Args<Order>) -> Result<String, Failure> {
    Ok(order.item)
}

async fn all(
    StepName(step): StepName,
    Args(order): Args<Order>,
    context: Context,
) -> Result<Value, Failure> {
    Ok(json!([step, order.item, context.attempt()]))
}

async fn outcome<M>(function: impl Function<M>, call: Call) -> Result<Value, Failure> {
    let mut registry = Registry::new();
    registry.register("act", function);
    registry.invoke(call).await
}

fn with(args: Value) -> Call {
    Call { args, ..call(Target::Registered) }
}

// W15: in any order, or not at all.
#[tokio::test]
async fn w15_a_function_takes_what_it_names() {
    let lamp = || with(json!({ "item": "lamp" }));
    assert_eq!(outcome(nothing, lamp()).await, Ok(json!(1)));
    assert_eq!(outcome(arguments, lamp()).await, Ok(json!("lamp")));
    let got = outcome(all, Call { step: "ship".into(), ..lamp() }).await;
    assert_eq!(got, Ok(json!(["ship", "lamp", 1])));
}

// W15: what can't be had fails the attempt before the function is called.
#[tokio::test]
async fn w15_what_a_function_can_not_have_fails_its_attempt() {
    let called = |_: Args<Order>, _: StepName| async { panic!("called") as Result<(), Failure> };
    let failure = outcome(called, with(json!({ "item": 7 }))).await.unwrap_err();
    assert_eq!((failure.code().as_str(), failure.class()), ("BAD_ARGUMENTS", Class::Permanent));
    assert!(!failure.message().contains('7'), "{failure}");
    let nameless = Call { step: "".into(), ..with(json!({ "item": "lamp" })) };
    assert_eq!(outcome(called, nameless).await.unwrap_err().code().as_str(), "NAMELESS");
}

#[derive(Debug, thiserror::Error)]
enum ChargeError {
    #[error("the card was declined")]
    Declined,
    #[error("the bank did not answer")]
    Bank(#[from] Failure),
}

/// What such a failure is: its code, class and first type.
async fn read<M>(function: impl Function<M>) -> (String, Class, String) {
    let failure = outcome(function, with(json!({}))).await.unwrap_err();
    let first = failure.lineage().first().cloned().unwrap_or_default();
    (failure.code().as_str().to_owned(), failure.class(), first)
}

// W15: each kind of error that people use.
#[tokio::test]
async fn w15_any_error_of_a_function_is_read() {
    let is = |code: &str, class, first: &str| (code.to_owned(), class, first.to_owned());
    let got = read(|| async { Err::<(), _>(ChargeError::Declined) }).await;
    assert_eq!(got, is("ERROR", Class::Retryable, "ChargeError"));
    let got = read(|| async { Err::<(), ChargeError>(Failure::new("LIMIT", "no").into()) }).await;
    assert_eq!(got, is("LIMIT", Class::Permanent, "ChargeError"));
    let got = read(|| async { Err::<(), _>(Failure::new("LIMIT", "no")) }).await;
    assert_eq!(got, is("LIMIT", Class::Permanent, ""));
    let got = read(|| async { Err::<(), _>(io::Error::from(io::ErrorKind::NotFound)) }).await;
    assert_eq!(got, is("NotFound", Class::Permanent, "Error"));
    let refused = || ConnectError::new(NetworkFault::Refused, "nobody listens");
    let got = read(move || async move { Err::<(), _>(refused()) }).await;
    assert_eq!(got, is("NETWORK_ERROR", Class::Retryable, "ConnectError"));
    let any = move || anyhow::Error::from(refused()).context("asking for the price");
    let got = read(move || async move { Err::<(), _>(any()) }).await;
    assert_eq!((got.0, got.1), ("NETWORK_ERROR".to_owned(), Class::Retryable));
    let boxed = || Box::<dyn std::error::Error + Send + Sync>::from("in words");
    let got = read(move || async move { Err::<(), _>(boxed()) }).await;
    assert_eq!((got.0, got.1), ("ERROR".to_owned(), Class::Retryable));
    let got = read(|| async { Err::<(), _>("no") }).await;
    assert_eq!(got, is("ERROR", Class::Permanent, ""));
}
