//! A policy that causes a retry storm: the simulated world finds it in an outage, and a retry budget
//! ends it.
//!
//! ```text
//! cargo run -p retrial-sim --example storm_check
//! ```
//!
//! The outage is a kind of fault of this program's own.

use std::error::Error;
use std::future::{Ready, ready};

use retrial::action::Context;
use retrial::failure::Failure;
use retrial::policy::{Backoff, Budget, Jitter, Policy, PolicyBuilder, Shape, Share};
use retrial::time::Nanos;
use retrial::workflow::{Step, Template, Workflow, WorkflowParts};
use retrial_sim::check::{
    Check, Failed, Invariant, Passed, Request, Response, Seen, UserFault, World,
};
use serde_json::json;

/// The lamps, chairs and tables that each run asks the prices of.
const ITEMS: usize = 20;

/// Asks for the price of one item.
async fn price(context: Context) -> Result<u64, Failure> {
    let asked = context.http().post("http://catalog.test/price").json(context.raw_args());
    asked.send().await?.json()
}

/// The catalog answers while there is no outage.
fn catalog(world: &World) -> impl Fn(Request) -> Ready<Response> + use<> {
    let world = world.clone();
    move |_| {
        ready(match world.is_on("outage") {
            true => Response::status(503),
            false => Response::json(&1_250),
        })
    }
}

/// The catalog is gone for up to 10 s.
struct Outage;

impl UserFault for Outage {
    fn name(&self) -> &str {
        "outage"
    }

    fn begin(&self, world: &World, _chance: u64) -> bool {
        world.set("outage", true);
        true
    }

    fn end(&self, world: &World) {
        world.set("outage", false);
    }

    fn longest(&self) -> Nanos {
        Nanos::from_secs(10)
    }
}

/// In an outage the catalog gets at most twice the requests that it would get without one, and a
/// few more.
struct NoStorm;

impl Invariant for NoStorm {
    fn name(&self) -> &str {
        "no retry storm"
    }

    fn check(&self, seen: &Seen<'_>) -> Result<(), String> {
        let (needed, sent) = (seen.runs().len() * ITEMS, seen.requests("catalog.test").count());
        if sent > 2 * needed + 20 {
            return Err(format!("{needed} prices took {sent} requests"));
        }
        Ok(())
    }
}

/// Ten attempts, 100 ms apart: harmless for one request, and ten times the load for many.
fn eager() -> PolicyBuilder {
    let shape = Shape::Fixed { base: Nanos::from_millis(100) };
    let backoff = Backoff { shape, jitter: Jitter::None, cap: None };
    Policy::builder()
        .attempts(10)
        .exception_types(["5xx", "NetworkError", "TIMEOUT"])
        .backoff(backoff)
        .attempt_timeout(Nanos::from_secs(5))
}

/// All retries together are at most a fifth of the first attempts, ten besides.
fn budget() -> Result<Budget, Box<dyn Error>> {
    Ok(Budget::of_first_attempts(Share::from_millionths(200_000)?))
}

fn workflow(policy: Policy) -> Result<Workflow, Box<dyn Error>> {
    let items: Vec<usize> = (0..ITEMS).collect();
    let price = Step {
        for_each: Some(Template::try_from(json!("${input.items}"))?),
        args: Template::try_from(json!({ "item": "${item}" }))?,
        ..Step::new("price", "price", policy)
    };
    let input = json!({ "items": items }).as_object().cloned().unwrap_or_default();
    let parts = WorkflowParts {
        name: "quote".into(),
        input,
        steps: vec![price],
        ..WorkflowParts::default()
    };
    Ok(Workflow::try_from(parts)?)
}

fn check(workflow: Workflow) -> Check {
    Check::new("storm")
        .workflow(workflow)
        .function("price", price)
        .service("catalog.test", catalog)
        .fault(Outage)
        .invariant(NoStorm)
        .runs(1..=3)
        .seeds(20)
}

/// The policy as it was first written.
///
/// # Errors
/// The storm.
pub(crate) fn stormy() -> Result<Result<Passed, Failed>, Box<dyn Error>> {
    Ok(check(workflow(eager().build()?)?).outcome())
}

/// The policy with a budget.
///
/// # Errors
/// Whatever is found: nothing.
pub(crate) fn calm() -> Result<Passed, Box<dyn Error>> {
    Ok(check(workflow(eager().budget(budget()?).build()?)?).outcome()?)
}

/// In a project of its own each of the two would be a `#[test]` that ends in `.run()`.
fn main() -> Result<(), Box<dyn Error>> {
    match stormy()? {
        Ok(passed) => println!("not found: {passed}"),
        Err(found) => println!("{found}"),
    }
    println!("\nwith a budget:\n{}", calm()?);
    Ok(())
}
