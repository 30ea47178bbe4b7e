//! A function of your own in 100 simulated worlds: networks fail, nodes crash, answers are lost.
//!
//! ```text
//! cargo run -p retrial-sim --example own_check
//! ```

use retrial::action::Context;
use retrial::policy::Policy;
use retrial_sim::check::{Check, Request, Response, World};

/// What production runs. The bank knows a repeated request by the attempt's header.
async fn charge(context: Context) -> Result<u64, retrial::failure::Failure> {
    let request = context.http().post("https://bank.test/charges").json(&4200);
    request.with_attempt().send().await?.json()
}

/// Charges each receipt once.
fn bank(world: &World) -> impl Fn(Request) -> std::future::Ready<Response> + use<> {
    let world = world.clone();
    move |request| {
        let receipt = request.header("receipt-token").unwrap_or_default().to_owned();
        if !world.facts("charged").iter().any(|known| known.value == receipt) {
            world.record("charged", receipt);
        }
        std::future::ready(Response::json(&4200))
    }
}

pub(crate) fn check(policy: Policy) -> Check {
    let check = Check::new("charge").retry(policy, charge).service("bank.test", bank);
    check.holds("nobody is charged twice", |seen| {
        let (charged, runs) = (seen.facts("charged").count(), seen.runs().len());
        if charged <= runs { Ok(()) } else { Err(format!("{charged} charges for {runs} runs")) }
    })
}

fn main() -> Result<(), retrial::dialect::Diagnostics> {
    check("[retry: 5, backoff: 200ms] [timeout: 5s]".parse()?).run();
    Ok(())
}
