//! Nodes that are killed, over and over, while they work runs off.

use std::time::Duration;

use crate::postgres_faults::fleet::Fleet;
use crate::postgres_faults::judge::judge;
use crate::postgres_faults::ledger::Ledger;
use crate::postgres_faults::node::Plan;
use crate::postgres_faults::opened::open;
use crate::postgres_faults::seed::Seed;
use crate::postgres_faults::server;

/// How many runs are worked off.
const RUNS: u64 = 1_000;

// R7, W12: what was acknowledged is worked off once, whatever dies when.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn w12_every_run_ends_once_while_nodes_are_killed() {
    let server = server::start();
    let url = server.url(&server.database().await);
    let mut seed = Seed::drawn();
    let ledger = Ledger::open(seed.draw()).await;
    let endpoint = ledger.url("/work");
    let plan = Plan { store: url.clone(), endpoint, lease_ms: 1_500, concurrency: 32 };
    let mut fleet = Fleet::start(plan, 3).await;
    let store = open(&url).await;
    let kill = async |fleet: &mut Fleet| {
        let place = seed.below(3) as usize;
        println!("node {place} is killed, {} runs have ended", fleet.ended.len());
        fleet.kill(place).await;
        Duration::from_millis(500 + seed.below(4_000))
    };
    fleet.work_off(&store, RUNS, kill).await;
    let tally = judge(&store, &fleet.submitted, ledger.entries()).await;
    let refused = fleet.refused.len();
    println!("{} kills, {refused} commits refused, {tally:?}", fleet.kills);
    assert_eq!(tally.wrong, [""; 0]);
    assert_eq!(tally.runs, RUNS);
    assert!(fleet.kills > 0 && tally.takeovers > 0, "nothing was put to the test");
}
