//! Corners of what a workflow may say, in which a correct engine is never found wrong.

use std::future::ready;

use retrial::dialect::{Environment, Format, parse_workflow};
use retrial::failure::Failure;
use retrial::workflow::{HeaderText, Target, Workflow, WorkflowParts};
use retrial_sim::check::{Check, Gap, Request, Response, World};
use serde_json::Value;

use super::kit::held;

/// A service that is down for whoever asks first, and then does well.
fn shop(world: &World) -> impl Fn(Request) -> std::future::Ready<Response> + use<> {
    let world = world.clone();
    move |_| {
        world.record("asked", true);
        ready(match world.facts("asked").len() {
            0..=12 => Response::status(503),
            _ => Response::json(&1),
        })
    }
}

#[track_caller]
fn holds(name: &str, seeds: u64, text: &str) {
    let check =
        Check::new(name).allow(Gap::ALL).workflow_file("w.toml", text).service("shop.test", shop);
    let check = check.functions(|registry| {
        registry.register("unsure", || {
            let failure = Failure::new("CARD_ERROR", "no answer").retryable();
            ready(Err::<Value, _>(failure.with_unknown_outcome()))
        });
        registry.register("sure", || {
            ready(Err::<Value, _>(Failure::new("TIMEOUT", "the card machine").retryable()))
        });
        registry.register("hangs", std::future::pending::<Result<(), Failure>>);
        registry.register("well", || ready(Ok::<_, Failure>(1)));
        registry.register("ill", || ready(Err::<Value, _>(Failure::new("ILL", "ill"))));
    });
    held(check.seeds(seeds));
}

#[test]
fn an_alert_that_is_told_by_get() {
    holds(
        "alerts",
        10,
        r#"
        workflow = "w"
        [actions.ask]
        http = "POST http://shop.test/ask"
        error_budget = { target = 0.9, window = "1h", min_calls = 2, alerts = [0.5, 1.0], webhook = "tell" }
        [actions.tell]
        http = "GET http://shop.test/tell"
        [[steps]]
        id = "ask"
        action = "ask"
        retry = "[retry: 9, backoff: 1s]"
    "#,
    );
}

/// It is not routed where it would vanish.
#[test]
fn a_failure_whose_handler_is_ruled_out() {
    holds(
        "ruled out",
        10,
        r#"
        workflow = "w"
        [[steps]]
        id = "first"
        action = "ill"
        [[steps]]
        id = "second"
        action = "well"
        [[steps]]
        id = "third"
        action = "ill"
        after = ["second"]
        [[steps]]
        id = "needs_first"
        action = "well"
        after = ["first"]
        [[steps]]
        id = "handler"
        action = "well"
        after = ["needs_first"]
        [[steps]]
        id = "other"
        action = "well"
        [[steps]]
        id = "goal"
        action = "well"
        goal = true
        after = ["second"]
        [[transitions]]
        from = "third"
        to = "handler"
        on_error = []
        priority = 1
        [[transitions]]
        from = "third"
        to = "other"
        on_error = ["ILL"]
        priority = 2
    "#,
    );
}

/// Many draws come out as the shortest delay that there is.
#[test]
fn short_draws() {
    holds(
        "draws",
        10,
        r#"
        workflow = "w"
        [actions.ask]
        http = "POST http://shop.test/ask"
        [[steps]]
        id = "ask"
        action = "ask"
        for_each = [1, 2, 3, 4]
        work_config = { max_retries = -1, backoff = 12, jitter = "full", max_backoff = 12, retryable_errors = ["5xx", "4xx", "NETWORK_ERROR", "BAD_RESPONSE", "LEASE_LOST"] }
    "#,
    );
}

/// A function knows what it has done.
#[test]
fn what_a_function_says_of_its_outcome() {
    holds(
        "unsure",
        10,
        r#"
        workflow = "w"
        [actions.unsure]
        idempotent = false
        [actions.sure]
        idempotent = false
        [[steps]]
        id = "unsure"
        action = "unsure"
        retry = "[retry: 3, backoff: 1s]"
        [[steps]]
        id = "sure"
        action = "sure"
        goal = true
        retry = "[retry: 3, backoff: 1s]"
    "#,
    );
}

/// Of one that did not come to its end nobody knows.
#[test]
fn what_nobody_can_say_of_a_functions_outcome() {
    for (heartbeat, timeout) in [("1s", "1h"), ("1h", "1s")] {
        let text = format!(
            r#"
            workflow = "w"
            [actions.hangs]
            idempotent = false
            heartbeat_timeout = "{heartbeat}"
            [[steps]]
            id = "hangs"
            action = "hangs"
            retry = "[retry: 3, backoff: 1s] [timeout: {timeout}]"
        "#
        );
        holds("unsaid", 5, &text);
    }
}

#[test]
fn names_that_are_no_paths() {
    holds(
        "names",
        10,
        r#"
        workflow = "w"
        [actions."größe/ß ?x=%41#y"]
        http = "POST http://nowhere.test/ask"
        [actions."größe"]
        http = "POST http://nowhere.test/ask"
        [[steps]]
        id = "ask"
        action = "größe/ß ?x=%41#y"
        retry = "[retry: 9, backoff: 1s]"
        [[steps]]
        id = "too"
        action = "größe"
        retry = "[retry: 9, backoff: 1s]"
    "#,
    );
}

/// Each step after the two before it: a billion ways from the last to the first.
#[test]
fn many_ways_from_step_to_step() {
    let mut text = "workflow = \"w\"\n".to_owned();
    for n in 0..31 {
        for side in ["a", "b"] {
            let action = if n == 0 && side == "a" { "ill" } else { "well" };
            text += &format!("[[steps]]\nid = \"{side}{n}\"\naction = \"{action}\"\n");
            if n > 0 {
                text += &format!("after = [\"a{0}\", \"b{0}\"]\n", n - 1);
            }
        }
    }
    text += "[[steps]]\nid = \"handler\"\naction = \"well\"\n[[transitions]]\n";
    text += "from = \"a0\"\nto = \"handler\"\non_error = []\n";
    let report = "[[steps]]\nid = \"report\"\naction = \"well\"\njoin = \"any\"\n";
    let report =
        format!("{report}after = [\"a30\", \"handler\"]\nargs = {{ errors = \"${{_errors}}\" }}\n");
    text = text.replacen("[[steps]]", &format!("{report}[[steps]]"), 1);
    holds("ways", 2, &text);
}

/// A file would be refused; a workflow that is made in Rust is taken as it is.
#[test]
fn a_request_that_can_not_be_made() {
    let text = r#"
        workflow = "w"
        [actions.ask]
        http = "POST http://shop.test/ask"
        [[steps]]
        id = "ask"
        action = "ask"
        retry = "[retry: 2, backoff: 1s]"
    "#;
    let environment = Environment::default();
    let read = parse_workflow("w.toml", text, Format::Toml, &environment).unwrap();
    let mut parts = WorkflowParts::from(read.workflow);
    let Target::Http(at) = &mut parts.actions.get_mut("ask").unwrap().target else { panic!() };
    at.headers.insert("te".to_owned(), HeaderText::Literal("trailers".to_owned()));
    let workflow = Workflow::try_from(parts).unwrap();
    let check = Check::new("request")
        .allow(Gap::ALL)
        .workflow(workflow)
        .service("shop.test", shop)
        .seeds(10);
    held(check);
}
