//! A payment whose handler is not idempotent: the simulated world finds the double charge, and the
//! fixed handler passes.
//!
//! ```text
//! cargo run -p retrial-sim --example payment_check
//! ```
//!
//! The handlers are what production registers; nothing in them knows of the simulation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use retrial::action::Context;
use retrial::failure::Failure;
use retrial_sim::check::{Check, Failed, Invariant, Passed, Request, Response, Seen, World};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Two steps. The first is tried again when the network fails or the bank is busy.
const WORKFLOW: &str = r#"
workflow = "payment"

[input]
cents = 4200

[[steps]]
id = "charge"
action = "charge"
args = { cents = "${input.cents}" }
retry = "[retry: 5, backoff: 200ms] [timeout: 5s]"

[[steps]]
id = "receipt"
action = "receipt"
after = ["charge"]
args = { charge = "${steps.charge.result.id}" }
retry = "[retry: 5, backoff: 200ms] [timeout: 5s]"
"#;

#[derive(Serialize, Deserialize)]
struct Charge {
    id: String,
}

/// Charges, whatever has come of earlier attempts. When the bank's answer is lost, the next attempt
/// charges again.
async fn charge_carelessly(context: Context) -> Result<Charge, Failure> {
    let order = json!({ "order": context.run(), "cents": context.raw_args()["cents"] });
    let asked = context.http().post("https://bank.test/charges").json(&order);
    asked.send().await?.json()
}

/// The same, with the attempt's headers: the bank knows by the receipt token, which is the same on
/// every attempt, that it has done this already.
async fn charge_once(context: Context) -> Result<Charge, Failure> {
    let order = json!({ "order": context.run(), "cents": context.raw_args()["cents"] });
    let asked = context.http().post("https://bank.test/charges").json(&order);
    asked.with_attempt().send().await?.json()
}

/// Mails a receipt. Two of them do no harm.
async fn receipt(context: Context) -> Result<(), Failure> {
    let mail = json!({ "about": context.raw_args()["charge"] });
    context.http().post("https://mail.test/send").json(&mail).send().await.map(drop)
}

/// The bank: it charges once for each idempotency key, and each time where there is none. `make` is
/// called once a world, so every world has a bank of its own.
fn bank(world: &World) -> impl Fn(Request) -> std::future::Ready<Response> + use<> {
    let known: Arc<Mutex<BTreeMap<String, Charge>>> = Arc::default();
    let world = world.clone();
    move |request| {
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let key = request.header("idempotency-key").map(str::to_owned);
        if let Some(charge) = key.as_ref().and_then(|key| known.get(key)) {
            return std::future::ready(Response::json(charge));
        }
        let order: serde_json::Value = request.json().unwrap_or_default();
        world.record("charged", order["order"].clone());
        let charge = Charge { id: format!("ch_{}", world.facts("charged").len()) };
        let answer = Response::json(&charge);
        known.extend(key.map(|key| (key, charge)));
        std::future::ready(answer)
    }
}

/// What the shop cares for.
struct NoDoubleCharge;

impl Invariant for NoDoubleCharge {
    fn name(&self) -> &str {
        "no double charge"
    }

    fn check(&self, seen: &Seen<'_>) -> Result<(), String> {
        let mut charged = BTreeSet::new();
        match seen.facts("charged").find(|fact| !charged.insert(fact.value.to_string())) {
            Some(fact) => Err(format!("order {} is charged twice", fact.value)),
            None => Ok(()),
        }
    }
}

fn check() -> Check {
    Check::new("payment")
        .workflow_file("payment.toml", WORKFLOW)
        .function("receipt", receipt)
        .service("bank.test", bank)
        .service("mail.test", |_| |_| std::future::ready(Response::status(204)))
        .invariant(NoDoubleCharge)
        .runs(1..=3)
        .seeds(100)
}

/// The payment as it was first written.
///
/// # Errors
/// The double charge.
pub(crate) fn careless() -> Result<Passed, Failed> {
    check().function("charge", charge_carelessly).outcome()
}

/// The payment as it is right.
///
/// # Errors
/// Whatever is found: nothing.
pub(crate) fn fixed() -> Result<Passed, Failed> {
    check().function("charge", charge_once).outcome()
}

/// In a project of its own each of the two would be a `#[test]` that ends in `.run()`.
fn main() -> Result<(), Failed> {
    match careless() {
        Ok(passed) => println!("not found: {passed}"),
        Err(found) => println!("{found}"),
    }
    println!("\nfixed:\n{}", fixed()?);
    Ok(())
}
