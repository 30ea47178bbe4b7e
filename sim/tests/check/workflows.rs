//! Workflows of a user's own, unlike those which sweeps draw: a correct engine is never found wrong.

use std::future::ready;

use retrial::action::Context;
use retrial::failure::Failure;
use retrial_sim::check::{Check, Gap, Request, Response, World};
use serde_json::{Value, json};

use super::kit::held;

/// A service that does well mostly, and answers what it was asked.
fn moody(world: &World) -> impl Fn(Request) -> std::future::Ready<Response> + use<> {
    let world = world.clone();
    move |request| {
        world.record("asked", true);
        let n = world.facts("asked").len();
        ready(match n % 11 {
            3 => Response::status(503),
            5 => Response::status(404),
            7 => Response::json(&json!({ "success": false, "error": "not today" })),
            8 => Response::json(
                &json!({ "type": "DeclinedError", "message": "no", "mro": ["CardError"] }),
            ),
            _ => Response::json(&json!({ "id": n, "state": "ready", "path": request.path })),
        })
    }
}

#[track_caller]
fn holds(name: &str, seeds: u64, text: &str) {
    held(checked(name, seeds, text));
}

fn checked(name: &str, seeds: u64, text: &str) -> Check {
    let check = Check::new(name).allow(Gap::ALL).workflow_file("w.toml", text);
    let check = check.service("shop.test", moody).service("other.test", moody);
    let check = check.functions(|registry| {
        registry.register("local", || ready(Ok::<_, Failure>(7)));
        registry.register("busy", || {
            let busy = Failure::new("ThrottlingException", "slow down");
            ready(Err::<Value, _>(busy))
        });
        registry
            .action("closed")
            .precondition(|_: Context| ready(Err::<(), _>(Failure::from("closed"))))
            .run(|_: Context| ready(Ok::<_, Failure>(7)))
            .register();
    });
    let input = json!({ "rows": [1, 2, 3], "none": [], "who": { "name": "Ann" } });
    check.input(input).seeds(seeds)
}

#[test]
fn addresses() {
    holds(
        "addresses",
        20,
        r#"
        workflow = "w"
        [actions.a]
        http = "POST http://shop.test/items?kind=a&x=1"
        [actions.b]
        http = "PUT http://SHOP.test:80/items/"
        headers = { "Authorization" = "env:SHOP_TOKEN" }
        [actions.c]
        http = "POST http://other.test"
        [actions.d]
        http = "DELETE http://other.test/items/%20a//b/"
        [[steps]]
        id = "a"
        action = "a"
        retry = "[retry: 3, backoff: 1s]"
        [[steps]]
        id = "b"
        action = "b"
        after = ["a"]
        retry = "[retry: 3, backoff: 1s]"
        [[steps]]
        id = "c"
        action = "c"
        args = { from = "${steps.a.result}" }
        after = ["a"]
        retry = "[retry: 3, backoff: 1s]"
        [[steps]]
        id = "d"
        action = "d"
        after = ["a"]
        retry = "[retry: 3, backoff: 1s]"
    "#,
    );
}

#[test]
fn an_order_that_is_rolled_back() {
    holds(
        "order",
        20,
        r#"
        workflow = "order"
        rollback = "always"
        [actions.charge]
        http = "POST http://shop.test/charge"
        [actions.reserve]
        http = "POST http://shop.test/reserve"
        [actions.refund]
        http = "DELETE http://shop.test/charge"
        [actions.release]
        http = "GET http://other.test/release"
        [[steps]]
        id = "charge"
        action = "charge"
        retry = "[ServerError -> retry: 2] [retry: 1]"
        [[steps]]
        id = "reserve"
        action = "reserve"
        after = ["charge"]
        for_each = "${input.rows}"
        args = { item = "${item}" }
        [[steps]]
        id = "refund"
        compensates = "charge"
        action = "refund"
        args = { charge = "${result.id}", why = "${_last_error.code}" }
        retry = "[retry: 6, backoff: 1s]"
        [[steps]]
        id = "release"
        compensates = "reserve"
        action = "release"
        args = { item = "${item}", undone = "${result}" }
        retry = "[retry: 6, backoff: 1s]"
    "#,
    );
}

#[test]
fn handlers_joins_and_conditions() {
    holds(
        "handlers",
        20,
        r#"
        workflow = "w"
        [actions.ask]
        http = "POST http://shop.test/ask"
        [actions.pick]
        http = "POST http://other.test/pick"
        [[steps]]
        id = "ask_a"
        action = "ask"
        [[steps]]
        id = "ask_b"
        action = "ask"
        retry = "[CardError -> retry: 4, backoff: 2s] [503 -> retry: 1]"
        [[steps]]
        id = "ask_c"
        action = "local"
        [[steps]]
        id = "declined"
        action = "pick"
        args = { why = "${_last_error}" }
        [[steps]]
        id = "gone"
        action = "ask"
        [[steps]]
        id = "quote"
        action = "pick"
        after = ["ask_b", "ask_c"]
        join = { at_least = 1 }
        args = { offers = ["${steps.ask_b.result}", "${steps.ask_c.result}"], failed = "${_errors}" }
        [[transitions]]
        from = "ask_a"
        to = "declined"
        on_error = ["CardError", "WORK_FAILED"]
        priority = 1
        [[transitions]]
        from = "ask_a"
        to = "gone"
        on_error = ["4xx"]
        priority = 2
        [[transitions]]
        from = "ask_a"
        to = "gone"
        condition = { type = "exists", field = "state._last_error" }
        priority = 3
    "#,
    );
}

#[test]
fn groups_of_none_and_of_some() {
    holds(
        "groups",
        20,
        r#"
        workflow = "w"
        [actions.put]
        http = "PUT http://shop.test/put"
        concurrency = 2
        [[steps]]
        id = "nothing"
        action = "put"
        for_each = "${input.none}"
        [[steps]]
        id = "replicate"
        action = "put"
        for_each = "${input.rows}"
        args = { to = "${item}", at = "${index}" }
        success = { at_least = 2 }
        fail_fast = true
        retry = "[retry: 1, backoff: 100ms]"
        [[steps]]
        id = "report"
        action = "put"
        after = ["replicate"]
        requires = { type = "exists", field = "state.input.who.name" }
        ensures = { type = "eq", field = "state.result.state", value = "ready" }
        retry = "[POSTCONDITION_FAILED -> retry: 20, backoff: 5s] [timeout: 10s]"
    "#,
    );
}

#[test]
fn patience_of_hours() {
    holds(
        "patience",
        2,
        r#"
        workflow = "w"
        [actions.slow]
        http = "POST http://shop.test/slow"
        breaker = { rate = 0.5 }
        idempotent = false
        [[steps]]
        id = "slow"
        action = "slow"
        retry = "[retry: 3, backoff: 2h] [timeout: 1h]"
        [[steps]]
        id = "once"
        action = "slow"
        [[steps]]
        id = "preset"
        action = "slow"
        preset = "google-sre"
    "#,
    );
}

/// What an oracle can't know it lets be.
#[test]
fn what_is_ensured_may_look_anywhere() {
    let ensured = r#"
        [[steps]]
        id = "STEP"
        action = "ask"
        after = ["ask"]
        for_each = "${input.rows}"
        args = { item = "${item}" }
        success = { at_least = 1 }
        retry = "[POSTCONDITION_FAILED -> retry: 2, backoff: 1s]"
        ensures = WHAT
    "#;
    let mut text = r#"
        workflow = "w"
        [actions.ask]
        http = "POST http://shop.test/ask"
        [actions.echo]
        http = "POST http://echo.test/echo"
        [actions.bare]
        http = "HEAD http://bare.test/bare"
        [simulate.endpoints.echo]
        then = "echo"
        [[steps]]
        id = "ask"
        action = "ask"
        retry = "[retry: 9, backoff: 1s]"
        [[steps]]
        id = "bare"
        action = "bare"
        retry = "[retry: 3, backoff: 1s]"
        [[steps]]
        id = "echo"
        action = "echo"
        args = { order = 7 }
        ensures = { type = "eq", field = "state.result.args.order", value = 7 }
        retry = "[retry: 9, backoff: 1s]"
    "#
    .to_owned();
    for (at, condition) in [
        r#"{ type = "eq", field = "state.item", value = 2 }"#,
        r#"{ type = "in", field = "state.index", values = [0, 1] }"#,
        r#"{ type = "eq", field = "state.input.rows.1", value = 2 }"#,
        r#"{ type = "eq", field = "state.input.who.name", value = "Bob" }"#,
        r#"{ type = "exists", field = "state.steps.ask.result.id" }"#,
        r#"{ type = "not", condition = { type = "exists", field = "state._last_error" } }"#,
    ]
    .into_iter()
    .enumerate()
    {
        text += &ensured.replace("STEP", &format!("s{at}")).replace("WHAT", condition);
    }
    holds("ensures", 20, &text);
}

/// A world of more than five years takes longer than the watchdog waits, but never stands still.
#[test]
fn patience_of_years() {
    let text = r#"
        workflow = "w"
        [actions.slow]
        http = "POST http://shop.test/slow"
        [[steps]]
        id = "slow"
        action = "slow"
        retry = "[retry: 11, backoff: 1d]"
        ensures = { type = "eq", field = "state.result.state", value = "never" }
    "#;
    let check = checked("years", 1, text).watchdog(std::time::Duration::from_secs(1));
    let passed = held(check);
    assert!(passed.report.attempts == 12, "{passed}");
}

#[test]
fn lists_that_are_none() {
    holds(
        "lists",
        10,
        r#"
        workflow = "w"
        [actions.ask]
        http = "POST http://shop.test/ask"
        [[steps]]
        id = "ask"
        action = "ask"
        retry = "[5XX -> retry: 3, backoff: 1s]"
        [[steps]]
        id = "put"
        action = "ask"
        after = ["ask"]
        for_each = "${steps.ask.result.rows}"
        [[steps]]
        id = "told"
        action = "local"
        [[steps]]
        id = "handled"
        action = "local"
        [[transitions]]
        from = "ask"
        to = "told"
        on_error = ["4XX", "5XX"]
        [[transitions]]
        from = "put"
        to = "handled"
        on_error = ["BAD_FAN_OUT"]
    "#,
    );
}

#[test]
fn services_that_are_asked_too_often() {
    let many: Vec<u32> = (0..40).collect();
    let text = r#"
        workflow = "w"
        [[steps]]
        id = "busy"
        action = "busy"
        for_each = MANY
        preset = "aws-standard-2.1"
    "#;
    holds("throttled", 4, &text.replace("MANY", &format!("{many:?}")));
}

#[test]
fn what_a_function_requires() {
    holds(
        "requires",
        4,
        r#"
        workflow = "w"
        [[steps]]
        id = "closed"
        action = "closed"
        retry = "[retry: 3]"
    "#,
    );
}
