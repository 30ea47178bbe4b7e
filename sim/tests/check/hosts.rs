//! Where a user's services stand, and what keeps nodes from them and from the store.

use std::collections::BTreeMap;
use std::future::ready;

use retrial::action::Context;
use retrial::failure::Failure;
use retrial::run::{Event, Outcome};
use retrial::time::Nanos;
use retrial_sim::check::{Check, Peer, Request, Response, UserFault, World};

use super::kit::held;

const FILE: &str = r#"
    workflow = "ask"
    [actions.ask]
    http = "POST http://HOST/ask"
    [[steps]]
    id = "ask"
    action = "ask"
    args = { at = "HOST" }
    [[steps]]
    id = "by_hand"
    action = "by_hand"
    args = { at = "HOST" }
"#;

async fn by_hand(context: Context) -> Result<(), Failure> {
    let at = context.args::<BTreeMap<String, String>>()?.remove("at").unwrap_or_default();
    context.connect(&at).await?;
    context.http().get(&format!("http://{at}/")).send().await.map(drop)
}

/// A host may be called as a part of the simulated world is, and be at any port.
#[test]
fn every_host_and_port_is_the_users() {
    for host in ["bank.test:8080", "bank.test:443", "store:7000", "endpoints:80", "node-0:1"] {
        let name = host.split(':').next().unwrap();
        let check = Check::new("hosts").workflow_file("ask.toml", &FILE.replace("HOST", host));
        let check = check.function("by_hand", by_hand);
        let check = check.service(name, |_| |_: Request| ready(Response::json(&1)));
        let passed = check.nodes(2).faults([]).runs(1..=1).seeds(1).holds("completed", |seen| {
            let run = seen.runs().first().ok_or("no run")?;
            match seen.outcome(run.id) {
                Some(Outcome::Completed) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
        passed.outcome().unwrap_or_else(|found| panic!("{host}: {found}"));
    }
}

/// Keeps every node from the store for longer than leases last.
struct NoStore;

impl UserFault for NoStore {
    fn name(&self) -> &str {
        "no store"
    }

    fn begin(&self, world: &World, _: u64) -> bool {
        (0..world.nodes()).any(|node| world.part(node, Peer::Store))
    }

    fn end(&self, world: &World) {
        (0..world.nodes()).for_each(|node| world.join(node, Peer::Store));
    }

    fn longest(&self) -> Nanos {
        Nanos::from_secs(15)
    }
}

/// What a fault of the user's own does explains what follows from it.
#[test]
fn a_lease_is_lost_where_the_store_is_out_of_reach() {
    let text = r#"
        workflow = "ask"
        [actions.ask]
        http = "POST http://bank.test/ask"
        [[steps]]
        id = "ask"
        action = "ask"
        retry = "[retry: 3]"
    "#;
    let bank = |world: &World| {
        let world = world.clone();
        move |_: Request| {
            let world = world.clone();
            async move {
                world.sleep(Nanos::from_secs(2)).await;
                Response::json(&1)
            }
        }
    };
    let (said, heard) = std::sync::mpsc::channel();
    let check = Check::new("no store").workflow_file("ask.toml", text).service("bank.test", bank);
    let check = check.nodes(2).faults([]).fault(NoStore).runs(4..=4).seeds(80);
    let passed = check.holds("told", move |seen| {
        let events = seen.runs().iter().flat_map(|run| &run.events);
        let lost = events.filter(|recorded| {
            matches!(&recorded.event,
            Event::AttemptFailed { failure, .. } if failure.code().as_str() == "LEASE_LOST")
        });
        said.send(lost.count()).map_err(|gone| gone.to_string())
    });
    held(passed);
    assert!(heard.iter().sum::<usize>() > 6);
}
