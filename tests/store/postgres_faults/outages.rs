//! Servers and their sessions that die under load. The nodes live, so no attempt may be used up.

use std::net::SocketAddr;
use std::time::Duration;

use crate::postgres_faults::fleet::Fleet;
use crate::postgres_faults::judge::{Tally, judge};
use crate::postgres_faults::ledger::Ledger;
use crate::postgres_faults::node::Plan;
use crate::postgres_faults::opened::open;
use crate::postgres_faults::seed::Seed;
use crate::postgres_faults::server;
use crate::postgres_proxy::{Fault, From, Proxy, Strike, Way};

/// How many runs are worked off: enough that all strikes asserted below fall into the work.
const RUNS: u64 = 500;

/// Two nodes work off so many runs through the store at `through` while `strike` strikes.
pub(crate) async fn under(
    seed: &mut Seed,
    through: &str,
    direct: &str,
    runs: u64,
    strike: impl AsyncFnMut(&mut Fleet, &mut Seed) -> Duration,
) -> Tally {
    let mut strike = strike;
    let ledger = Ledger::open(seed.draw()).await;
    let (store, endpoint) = (through.to_owned(), ledger.url("/work"));
    // Longer than any outage, so that whoever has lost a lease has lost it for a wrong reason.
    let plan = Plan { store, endpoint, lease_ms: 60_000, concurrency: 32 };
    let store = open(direct).await;
    let mut fleet = Fleet::start(plan, 2).await;
    fleet.work_off(&store, runs, async |fleet: &mut Fleet| strike(fleet, seed).await).await;
    let tally = judge(&store, &fleet.submitted, ledger.entries()).await;
    println!("{} commits refused, {tally:?}", fleet.refused.len());
    assert_eq!(tally.wrong, [""; 0]);
    assert_eq!((tally.runs, tally.takeovers), (runs, 0), "an attempt was used up");
    tally
}

// C8: what befalls the store is no failure of a task.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn c8_a_server_killed_under_load_uses_no_attempt_up() {
    let mut server = server::start();
    let url = server.url(&server.database().await);
    let mut kills = 0;
    under(&mut Seed::drawn(), &url, &url, RUNS, async |_, seed| {
        server::kill_and_start_again(&mut server);
        kills += 1;
        Duration::from_millis(300 + seed.below(1_000))
    })
    .await;
    assert!(kills > 2, "the server was killed {kills} times");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn c8_sessions_ended_under_load_use_no_attempt_up() {
    const END: &str = "SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM \
        pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() \
        ORDER BY random() LIMIT 3) AS chosen";
    let server = server::start();
    let database = server.database().await;
    let (url, client) = (server.url(&database), server.client("postgres").await);
    let mut ended = 0;
    under(&mut Seed::drawn(), &url, &url, RUNS, async |_, seed| {
        ended += client.query_one(END, &[]).await.unwrap().get::<_, i64>(0);
        Duration::from_millis(20 + seed.below(100))
    })
    .await;
    println!("{ended} sessions ended");
    assert!(ended > 20, "{ended} sessions were ended");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this"]
async fn c8_connections_cut_under_load_use_no_attempt_up() {
    let server = server::start();
    let url = server.url(&server.database().await);
    let proxy = Proxy::before(SocketAddr::from(([127, 0, 0, 1], server.port()))).await;
    let through = url.replace(&server.port().to_string(), &proxy.port().to_string());
    // Of each seventh commit nobody hears that it landed.
    proxy.lose_each(7);
    under(&mut Seed::drawn(), &through, &url, RUNS, async |_, seed| {
        let way = if seed.below(2) == 0 { Way::ToServer } else { Way::ToClient };
        let strike = if seed.below(2) == 0 { Strike::End } else { Strike::Reset };
        proxy.arm(Fault { way, from: From::Arming, passing: seed.below(5_000), strike });
        Duration::from_millis(10 + seed.below(50))
    })
    .await;
    println!("{} connections cut", proxy.struck());
    assert!(proxy.struck() > 50, "{} connections were cut", proxy.struck());
}
