//! A node that is stopped for longer than its lease and then goes on as if nothing had been.

use retrial::run::{RunId, Version};
use retrial::store::{Loaded, Store};

use crate::postgres_faults::fleet::Fleet;
use crate::postgres_faults::judge::judge;
use crate::postgres_faults::ledger::Ledger;
use crate::postgres_faults::node::Plan;
use crate::postgres_faults::opened::open;
use crate::postgres_faults::patience::soon;
use crate::postgres_faults::server;

const RUNS: u64 = 8;

// R7, spec decision 16: a node that was away for too long has lost its leases, and learns it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn r7_a_node_that_was_stopped_past_its_lease_is_refused() {
    let server = server::start();
    let url = server.url(&server.database().await);
    let ledger = Ledger::open(0).await;
    let endpoint = ledger.url("/held");
    let plan = Plan { store: url.clone(), endpoint, lease_ms: 1_500, concurrency: 32 };
    let mut fleet = Fleet::start(plan, 1).await;
    let store = open(&url).await;
    // Numbers of short runs alone: 1 to 8.
    fleet.submit(1, RUNS + 1);
    fleet.hand_out().await;
    ledger.arrived(RUNS as usize).await;
    // The first node holds them all, and stops before it hears how they went.
    fleet.stop(0);
    ledger.release(RUNS as usize);
    fleet.add().await;
    // The other takes them over when their leases end.
    soon("the takeover", ledger.arrived(2 * RUNS as usize)).await;
    ledger.release(RUNS as usize);
    while fleet.ended.len() < RUNS as usize {
        fleet.listen().await;
    }
    let runs: Vec<RunId> = fleet.submitted.values().copied().collect();
    let before = all(&store, &runs).await;
    fleet.refused.clear();
    fleet.wake(0);
    // It has the answers in hand and sends what it makes of them, unless a renewal stops it before
    // that its leases are lost. All that comes too late.
    while !runs.iter().all(|run| fleet.refused.iter().any(|(place, r, _)| (0, run) == (*place, r)))
    {
        fleet.listen().await;
    }
    assert_eq!(all(&store, &runs).await, before, "a stale completion changed something");
    let tally = judge(&store, &fleet.submitted, ledger.entries()).await;
    assert_eq!(tally.wrong, [""; 0]);
    assert_eq!((tally.runs, tally.takeovers, tally.repeats), (RUNS, RUNS, RUNS));
}

async fn all(store: &impl Store, runs: &[RunId]) -> Vec<Loaded> {
    let mut all = Vec::new();
    for run in runs {
        let loaded = store.load(*run, Some(Version::START)).await.unwrap().unwrap();
        all.push(Loaded { at: Default::default(), ..loaded });
    }
    all
}
