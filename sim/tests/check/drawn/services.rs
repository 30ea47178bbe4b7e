//! Services and functions that do all that a user's may.

use std::future::Future;
use std::pin::Pin;

use retrial::action::{Context, Registry};
use retrial::failure::Failure;
use retrial::time::Nanos;
use retrial_sim::check::{Peer, Request, Response, UserFault, World};
use serde_json::{Value, json};

type Answer = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Does well.
pub(super) fn good(_: &World) -> impl Fn(Request) -> Answer + use<> {
    |request| {
        let said: Value = request.json().unwrap_or_default();
        Box::pin(std::future::ready(Response::json(&json!({ "said": said, "rows": [1, 2] }))))
    }
}

/// Does well mostly, and anything else otherwise, after a while.
pub(super) fn moody(world: &World) -> impl Fn(Request) -> Answer + use<> {
    let world = world.clone();
    move |request| {
        let (world, chance) = (world.clone(), world.random());
        Box::pin(async move {
            if chance.is_multiple_of(5) {
                world.sleep(Nanos::from_millis(chance % 4_000)).await;
            }
            answer(chance >> 8, &request)
        })
    }
}

fn answer(chance: u64, request: &Request) -> Response {
    let said: Value = request.json().unwrap_or_default();
    let exception = |kind: &str, mro: &[&str]| {
        Response::json(&json!({ "type": kind, "message": "no", "mro": mro }))
    };
    let text = |text: &str| Response { body: text.to_owned().into(), ..Response::status(200) };
    match chance % 40 {
        0 => Response::status(503),
        1 => Response::status(503).with_header("retry-after", "3"),
        2 => Response::status(429).with_header("Retry-After", "1"),
        3 => Response::status(404),
        4 => Response::status(408),
        5 => Response::status(500).with_header("retry-after", "7"),
        6 => Response::status(302).with_header("location", "/"),
        7 => text("{\"success\": fal"),
        8 => Response::json(&json!({ "success": false, "error": { "code": 7, "message": "no" } })),
        9 => exception("DeclinedError", &["CardError"]),
        10 => exception("RetryLater", &["TimeoutError"]),
        11 => exception("TIMEOUT", &["TimeoutError"]),
        12 => exception("503", &[]),
        13 => exception("ThrottlingException", &[]),
        14 => text(""),
        15 => text("  \n"),
        16 => Response::status(204),
        17 => Response::json(&[1, 2, 3]),
        18 => Response::json(&json!({ "rows": "none", "state": "odd" })),
        19 => Response::json(&json!({ "success": true, "type": "E", "message": "m" })),
        20 => Response::json(&1).with_header("x-cost", "1500"),
        21 => Response::json(&Value::Null),
        22 => Response::status(503).with_header("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT"),
        23 => Response::json(&json!({ "type": 3, "message": "m" })),
        24 => Response::json(&"x".repeat(300 * 1024)),
        25 => Response::status(599),
        26 => Response::status(429).with_header("retry-after", "100000"),
        27 => Response::json(&1).with_header("content-length", "7").with_header("x", "a\nb"),
        _ => Response::json(&json!({ "state": "ready", "rows": [1, 2], "said": said })),
    }
}

async fn erratic(context: Context) -> Result<Value, Failure> {
    let chance = u64::from(context.attempt()) + context.random();
    if chance.is_multiple_of(4) {
        context.sleep(Nanos::from_millis(chance % 9_000)).await;
    }
    context.report_cost(chance % 7);
    context.heartbeat(chance % 5)?;
    match chance % 11 {
        0 => Err(Failure::new("BUSY", "busy").retryable()),
        1 => Err(Failure::new("BROKEN", "broken")),
        2 => Err(Failure::new("SlowDown", "slow down").retryable()),
        3 => Err(Failure::timed_out("its own clock")),
        4 => Err(Failure::new("UNSURE", "?").retryable().with_unknown_outcome()),
        5 => Err(Failure::http(502, "a gateway").with_retry_after(Nanos::from_secs(2))),
        6 => Err(Failure::exception("KeyError", "no key", &["LookupError".to_owned()])),
        7 => context
            .http()
            .post("http://shop.test/by-hand")
            .json(&1)
            .with_attempt()
            .send()
            .await?
            .json(),
        8 => context.http().get("http://store:8080/x").send().await?.json(),
        _ => Ok(json!({ "state": "ready", "rows": [3], "chance": chance % 3 })),
    }
}

pub(super) fn functions(registry: &mut Registry) {
    registry.register("erratic", erratic);
    registry.register("well", || std::future::ready(Ok::<_, Failure>(json!({ "rows": [1] }))));
    registry
        .action("closed")
        .precondition(|context: Context| async move {
            match context.random() % 2 {
                0 => Ok(()),
                _ => Err(Failure::from("closed today")),
            }
        })
        .run(erratic)
        .register();
}

/// Does to nodes what a fault of a user's own can do.
pub(super) struct Meddler;

impl UserFault for Meddler {
    fn name(&self) -> &str {
        "meddler"
    }

    fn begin(&self, world: &World, chance: u64) -> bool {
        let node = usize::try_from(chance >> 8).unwrap() % world.nodes();
        match chance % 4 {
            0 => world.crash(node, Nanos::from_millis(chance % 5_000)),
            1 => world.pause(node),
            2 => world.part(node, Peer::Services),
            _ => world.part(node, Peer::Store),
        }
    }

    fn end(&self, world: &World) {
        for node in 0..world.nodes() {
            world.resume(node);
            world.join(node, Peer::Services);
            world.join(node, Peer::Store);
        }
    }
}
