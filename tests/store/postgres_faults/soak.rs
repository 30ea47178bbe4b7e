//! Three nodes under kill and load for minutes: what `scripts/soak.sh` runs.
//!
//! Two nodes are killed again and again. The third is never killed, so that its memory shows
//! leaks, but stopped past its lease and woken.

use std::fmt;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::postgres_faults::fleet::Fleet;
use crate::postgres_faults::judge::{Tally, judge};
use crate::postgres_faults::ledger::Ledger;
use crate::postgres_faults::node::Plan;
use crate::postgres_faults::opened::open;
use crate::postgres_faults::seed::Seed;
use crate::postgres_faults::server;

/// How long it takes, in seconds.
const LONG: &str = "RETRIAL_SOAK_SECONDS";

/// Runs submitted each second.
const RATE: u64 = 30;

const LEASE: Duration = Duration::from_secs(3);

struct Report {
    took: Duration,
    submitted: usize,
    ended: usize,
    tally: Tally,
    kills: u64,
    stops: u64,
    refused: usize,
    /// Of each node at the beginning of its life and at the end, in bytes; the third lives
    /// throughout.
    memory: Vec<(u64, u64)>,
    /// In microseconds.
    claims: Vec<u32>,
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PostgreSQL's server programs (Debian: postgresql); scripts/test.sh installs them and runs this for some seconds, scripts/soak.sh for long"]
async fn three_nodes_lose_nothing_for_as_long_as_it_takes() {
    let seconds = std::env::var(LONG).map_or(10, |text| text.parse().expect("a number of seconds"));
    let mut seed = Seed::drawn();
    let server = server::start();
    let url = server.url(&server.database().await);
    let ledger = Ledger::open(seed.draw()).await;
    let lease_ms = u64::try_from(LEASE.as_millis()).unwrap();
    let plan =
        Plan { store: url.clone(), endpoint: ledger.url("/work"), lease_ms, concurrency: 32 };
    let mut fleet = Fleet::start(plan, 3).await;
    let store = open(&url).await;
    let begun = Instant::now();
    let mut stops = 0;
    let mut memory: Vec<_> = (0..3).map(|place| (fleet.memory(place), 0)).collect();
    let strike = async |fleet: &mut Fleet| {
        match seed.below(4) {
            0 => {
                stops += 1;
                fleet.stop(2);
                sleep(LEASE + LEASE / 3).await;
                fleet.wake(2);
            }
            n => fleet.kill((n % 2) as usize).await,
        }
        println!("{} s: {} runs have ended", begun.elapsed().as_secs(), fleet.ended.len());
        Duration::from_millis(1_000 + seed.below(10_000))
    };
    fleet.work_for(&store, Duration::from_secs(seconds), RATE, strike).await;
    let took = begun.elapsed();
    memory.iter_mut().enumerate().for_each(|(place, m)| m.1 = fleet.memory(place));
    let tally = judge(&store, &fleet.submitted, ledger.entries()).await;
    let mut claims = std::mem::take(&mut fleet.claims);
    claims.sort_unstable();
    let (submitted, ended, kills) = (fleet.submitted.len(), fleet.ended.len(), fleet.kills);
    let refused = fleet.refused.len();
    let report = Report { took, submitted, ended, tally, kills, stops, refused, memory, claims };
    println!("{report}");
    assert_eq!(report.tally.wrong, [""; 0]);
    assert_eq!(report.tally.runs, submitted as u64);
    assert!(ended == submitted && submitted > 0);
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wrong = |what: &str| self.tally.wrong.iter().filter(|w| w.contains(what)).count();
        let mut row = |name: &str, value: String| writeln!(f, "| {name} | {value} |");
        row("what", "came to".into())?;
        row("---", "---".into())?;
        row("time, in seconds", self.took.as_secs().to_string())?;
        row("runs submitted", self.submitted.to_string())?;
        row("runs ended", self.ended.to_string())?;
        row("tasks", self.tally.tasks.to_string())?;
        row("attempts", self.tally.attempts.to_string())?;
        row("nodes killed", self.kills.to_string())?;
        row("nodes stopped past their lease", self.stops.to_string())?;
        row("attempts taken over from a lost node", self.tally.takeovers.to_string())?;
        row("answers that a lost node recorded no more", self.tally.repeats.to_string())?;
        row("commits and renewals refused", self.refused.to_string())?;
        row("runs lost", wrong("is lost").to_string())?;
        row("anything else wrong", (self.tally.wrong.len() - wrong("is lost")).to_string())?;
        for (place, (first, last)) in self.memory.iter().enumerate() {
            let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
            let name = format!("memory of node {}, first and last, in MB", place + 1);
            row(&name, format!("{}, {}", megabytes(*first), megabytes(*last)))?;
        }
        let at = |of_hundred: usize| {
            let place = self.claims.len().saturating_sub(1) * of_hundred / 100;
            f64::from(self.claims.get(place).copied().unwrap_or_default()) / 1e3
        };
        let quantiles = format!("{:.1}, {:.1}, {:.1}, {:.1}", at(50), at(90), at(99), at(100));
        row("claims", self.claims.len().to_string())?;
        row("a claim takes, in ms: half, 90 %, 99 %, all of them at most", quantiles)
    }
}
