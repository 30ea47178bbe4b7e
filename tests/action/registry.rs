//! Registered functions: what they see and how what they return is read.

use crate::action_support;

use action_support::call;
use retrial::action::{Actions, Call, Canceller, Context, Function, MAX_RESULT, Registry};
use retrial::failure::{Class, Failure, NetworkFault};
use retrial::time::Nanos;
use retrial::workflow::{Endpoint, Target};
use serde::Deserialize;
use serde_json::{Value, json};

fn act() -> Call {
    call(Target::Registered)
}

async fn run<M>(function: impl Function<M>) -> Result<Value, Failure> {
    let mut registry = Registry::new();
    registry.register("act", function);
    registry.invoke(act()).await
}

#[track_caller]
#[expect(clippy::unwrap_used, reason = "a success fails the test")]
fn check(got: Result<Value, Failure>, code: &str, class: Class, says: &str) {
    let failure = got.unwrap_err();
    assert_eq!((failure.code().as_str(), failure.class()), (code, class), "{failure}");
    assert!(failure.message().contains(says), "{failure}");
}

// W15
#[tokio::test]
async fn w15_a_function_sees_its_attempt() {
    #[derive(Deserialize)]
    struct Args {
        name: String,
    }
    let mut registry = Registry::new();
    registry.register("act", |ctx: Context| async move {
        let args: Args = ctx.args()?;
        Ok::<_, Failure>(json!([
            args.name,
            ctx.run(),
            ctx.step(),
            ctx.attempt(),
            ctx.retries_left(),
            ctx.timeout(),
            ctx.receipt_token(),
            ctx.cancelled().is_cancelled(),
        ]))
    });
    let (canceller, cancelled) = Canceller::pair();
    canceller.cancel();
    let call = Call {
        args: json!({"name": "x"}),
        attempt: 2,
        timeout: Some(Nanos::new(7)),
        cancelled,
        ..act()
    };
    let expected = json!(["x", call.run, "work", 2, 2, 7, call.task.receipt(call.run), true]);
    assert_eq!(registry.invoke(call).await, Ok(expected));
}

#[tokio::test]
async fn arguments_that_do_not_fit_fail_for_good() {
    let got = run(|ctx: Context| async move { ctx.args::<Vec<u8>>() }).await;
    check(got, "BAD_ARGUMENTS", Class::Permanent, "`act`");
    let mut registry = Registry::new();
    registry.register("act", |ctx: Context| async move { ctx.args::<Vec<u8>>() });
    // C14: the arguments themselves are nobody's to read.
    let got = registry.invoke(Call { args: json!("hunter2"), ..act() }).await;
    let message = got.unwrap_err().message().to_owned();
    assert_eq!(message, "arguments of `act`: expected a sequence");
}

#[tokio::test]
async fn a_failure_is_passed_on_as_it_is() {
    let reset = || Failure::network(NetworkFault::Reset, "gone");
    assert_eq!(run(move || async move { Err::<(), _>(reset()) }).await, Err(reset()));
    check(run(|| async { Err::<(), _>("no luck") }).await, "ERROR", Class::Permanent, "no luck");
}

#[tokio::test]
async fn a_panic_is_a_failure() {
    async fn late() -> Result<(), Failure> {
        tokio::task::yield_now().await;
        panic!("late, token={}", "hunter2")
    }
    let early = || -> std::future::Ready<Result<(), Failure>> { panic!("early") };
    check(run(early).await, "PANIC", Class::Permanent, "early");
    check(run(late).await, "PANIC", Class::Permanent, "late, token=***");
}

// W7
#[tokio::test]
async fn w7_an_exception_object_is_a_failure() {
    let got = run(|| async {
        let mro = ["MyTimeout", "TimeoutError", "Exception"];
        Ok::<_, Failure>(json!({"type": "MyTimeout", "message": "late", "mro": mro}))
    });
    let failure = got.await.unwrap_err();
    assert_eq!(failure.code().as_str(), "MyTimeout");
    assert_eq!(failure.lineage(), ["MyTimeout", "TimeoutError", "Exception"]);
    let harmless = json!({"type": "invoice", "message": 7});
    let returned = harmless.clone();
    assert_eq!(
        run(move || std::future::ready(Ok::<_, Failure>(returned.clone()))).await,
        Ok(harmless)
    );
}

#[tokio::test]
async fn a_result_may_be_256_kib_and_no_more() {
    let sized = |n: usize| run(move || async move { Ok::<_, Failure>("x".repeat(n)) });
    assert!(sized(MAX_RESULT - 2).await.is_ok());
    check(sized(MAX_RESULT - 1).await, "RESULT_TOO_LARGE", Class::Permanent, "256 KiB");
}

/// Deeper JSON could be written and never read back.
#[tokio::test]
async fn a_result_may_be_nested_as_deep_as_can_be_read_back() {
    let nested = |levels: usize| {
        run(move || async move {
            let inside = Value::from("[[\"[");
            Ok::<_, Failure>((0..levels).fold(inside, |inside, _| Value::Array(vec![inside])))
        })
    };
    assert!(nested(100).await.is_ok());
    check(nested(101).await, "RESULT_TOO_DEEP", Class::Permanent, "100 levels");
    check(nested(1_000).await, "RESULT_TOO_DEEP", Class::Permanent, "100 levels");
}

#[tokio::test]
async fn an_action_that_is_not_here_fails_for_good() {
    let mut registry = Registry::new();
    registry.register("b", || async { Ok::<_, Failure>(1) });
    registry.register("a", || async { Ok::<_, Failure>(1) });
    check(registry.invoke(act()).await, "UNKNOWN_ACTION", Class::Permanent, "registered: a, b");
    assert!(registry.has("a") && !registry.has("act"));
    let http = Target::Http(Endpoint::new("POST", "http://h/"));
    check(registry.invoke(call(http)).await, "UNSUPPORTED_ACTION", Class::Permanent, "`act`");
}
