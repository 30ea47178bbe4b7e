//! Runs one seed: nodes with the real engine, their disks and network, endpoints, faults, and users
//! that submit and cancel.
//!
//! Decides in which order a world is built, driven, healed, ended and judged. Must never decide
//! what is right: the oracles do. To add a fault, say in `plan` which part carries it out; to add
//! something that users do, add it to `drive`.

mod action_network;
mod changes;
mod collect;
mod counters;
mod drive;
mod following;
mod functions;
mod interventions;
mod listing;
mod node_watch;
mod nodes;
mod order;
mod plan;
mod program;
mod recording_store;
mod release;
mod seen_due;
mod seen_leases;
mod spans;
mod underway;
mod user_faults;
mod users;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use action_network::ActionNetwork;
pub use collect::EngineReplayer;
pub use functions::SimActions;
pub use order::{Listener, Order};
pub use release::{Boxed, EngineParts, NotOpened, Orders, PLACE, Release, Releases, ThisRelease};

use retrial::run::Event;
use retrial::time::{Mono, Nanos};

use crate::clock::true_now;
use crate::evidence::{Bound, Evidence};
use crate::history::History;
use crate::oracle::{Finding, event_refs, judge_all};
use crate::records::Records;
use crate::report::{Breach, SeedReport, Verdict};
use crate::runtime::run_seed as on_a_thread;
use crate::scenario::Scenario;
use crate::source::Source;
use crate::user::UserCode;
use crate::workload;

/// The polls that all nodes of one seed may make together. A loop that only yields makes a million
/// in about a second.
const POLLS: u64 = 5_000_000;
/// The same with user code, where a mistake should be reported soon.
pub(crate) const OWN_POLLS: u64 = 1_000_000;

/// The time added to the bound before the world counts as stuck.
const PATIENCE: Nanos = Nanos::from_secs(3_600);

/// Runs `seed` of `source` and judges it. `keep` keeps the history's lines.
#[must_use]
pub fn run_seed(source: &Source, seed: u64, keep: bool) -> (SeedReport, History) {
    run_scenario(source.scenario(seed), keep)
}

/// Runs a scenario on its own thread and judges it.
#[must_use]
pub fn run_scenario(scenario: Scenario, keep: bool) -> (SeedReport, History) {
    let ScenarioRun { report, history, .. } = run_with_evidence(scenario, keep);
    (report, history)
}

/// The result of a scenario.
#[derive(Debug)]
pub struct ScenarioRun {
    /// The verdict and what the oracles found.
    pub report: SeedReport,
    /// Its history.
    pub history: History,
    /// Its evidence; `None` if the world broke off.
    pub evidence: Option<Evidence>,
}

impl ScenarioRun {
    /// A result of which only the report is known.
    #[must_use]
    pub fn unseen(scenario: &Scenario, report: SeedReport) -> Self {
        Self { report, history: History::new(scenario, Vec::new()), evidence: None }
    }
}

/// Runs a scenario as [`run_scenario`] does, and returns the evidence as well.
#[must_use]
pub fn run_with_evidence(scenario: Scenario, keep: bool) -> ScenarioRun {
    run_world(scenario, None, Releases::default(), &Records::new(keep, POLLS))
}

/// The same with other releases of the engine.
#[must_use]
pub fn run_with_releases(scenario: Scenario, releases: Releases, keep: bool) -> ScenarioRun {
    run_world(scenario, None, releases, &Records::new(keep, POLLS))
}

/// The same with user code.
#[must_use]
pub(crate) fn run_with_code(
    scenario: Scenario,
    own: Option<Arc<UserCode>>,
    records: &Records,
) -> ScenarioRun {
    run_world(scenario, own, Releases::default(), records)
}

fn run_world(
    scenario: Scenario,
    own: Option<Arc<UserCode>>,
    releases: Releases,
    records: &Records,
) -> ScenarioRun {
    let workflows = Arc::new(drive::workflows(&scenario));
    let bound = drive::bound(&scenario, &workflows, own.as_deref());
    records.watchdog.expect_held(workload::guarded(&scenario, &workflows));
    let after_heal = match bound {
        Bound::Within(length) => length,
        Bound::UnboundedByPolicy => Nanos::from_secs(600),
    };
    let limit =
        Nanos::new(scenario.heal_at.as_nanos()).saturating_add(after_heal).saturating_add(PATIENCE);
    let drawn = counted(&scenario);
    let seed = scenario.seed;
    let (scene, observed) = (scenario.clone(), records.clone());
    let ran = on_a_thread(seed, limit, move || async move {
        let evidence = drive::run(&scene, workflows, own, releases, bound, &observed).await;
        (evidence, true_now())
    });
    records.watchdog.end();
    let history = History::new(&scenario, records.trace.lines());
    let (report, evidence) = match ran {
        Ok((evidence, ended)) => (judge(seed, &evidence, ended, records), Some(evidence)),
        Err(panic) => {
            let verdict = if panic.is_stuck() { Verdict::Stuck } else { Verdict::Panicked };
            (SeedReport::broken_off(seed, verdict, "world", panic.to_string()), None)
        }
    };
    let struck = records.strikes.counts();
    let fingerprint = records.trace.fingerprint().to_string();
    let fork_mark = records.trace.fork_mark();
    let report = SeedReport { drawn, struck, fingerprint, fork_mark, ..report };
    ScenarioRun { report, history, evidence }
}

fn counted(scenario: &Scenario) -> BTreeMap<crate::fault::FaultKind, u64> {
    let mut drawn: BTreeMap<_, u64> = scenario.kinds().into_iter().map(|k| (k, 0)).collect();
    for fault in &scenario.faults {
        *drawn.entry(fault.kind).or_default() += 1;
    }
    // Kinds in replies and clocks count once for each scenario.
    drawn.values_mut().for_each(|n| *n = (*n).max(1));
    drawn
}

fn judge(seed: u64, evidence: &Evidence, ended: Mono, records: &Records) -> SeedReport {
    let reports = judge_all(evidence, &EngineReplayer::default());
    let unbounded = evidence.phases.bound == Bound::UnboundedByPolicy;
    let stuck = |f: &Finding| f.is_stuck();
    let findings: Vec<&Finding> =
        reports.iter().flat_map(|r| &r.findings).filter(|f| !(unbounded && stuck(f))).collect();
    let watched = records.watchdog.findings();
    let verdict = if findings.iter().any(|f| !stuck(f)) || watched.iter().any(|w| !w.is_stuck()) {
        Verdict::Wrong
    } else if !findings.is_empty() || !watched.is_empty() {
        Verdict::Stuck
    } else if unbounded && evidence.runs.iter().any(|r| !has_ended(&r.events)) {
        Verdict::Unbounded
    } else {
        Verdict::Held
    };
    let found = findings.iter().map(|f| Breach {
        oracle: f.oracle.to_string(),
        reason: f.reason.to_owned(),
        text: f.run.map_or_else(|| f.text.clone(), |run| format!("run {run}: {}", f.text)),
        proof: event_refs::named(f, evidence),
    });
    let harness = watched.iter().map(|w| Breach {
        oracle: "harness".to_owned(),
        reason: if w.is_stuck() { "livelock" } else { "stragglers" }.to_owned(),
        text: w.to_string(),
        proof: Vec::new(),
    });
    let events = || evidence.runs.iter().flat_map(|r| &r.events).map(|r| &r.event);
    let mut retries: BTreeMap<String, u64> = BTreeMap::new();
    for event in events() {
        if let Event::RetryScheduled { kind, .. } = event {
            *retries.entry(kind.to_string()).or_default() += 1;
        }
    }
    let mut features: BTreeMap<String, u64> = BTreeMap::new();
    for (name, count) in reports.iter().flat_map(|r| &r.features) {
        *features.entry((*name).to_owned()).or_default() += count;
    }
    SeedReport {
        seed,
        verdict,
        breaches: found.chain(harness).collect(),
        fingerprint: String::new(),
        fork_mark: None,
        simulated: Nanos::new(ended.as_nanos()),
        runs: evidence.runs.iter().filter(|r| has_ended(&r.events)).count() as u64,
        attempts: events().filter(|e| matches!(e, Event::AttemptStarted { .. })).count() as u64,
        retries,
        drawn: BTreeMap::new(),
        struck: BTreeMap::new(),
        judged: reports.iter().map(|r| (r.oracle.to_string(), r.judged)).collect(),
        features,
        shown: BTreeSet::new(),
    }
}

fn has_ended(events: &[retrial::run::Recorded]) -> bool {
    matches!(events.last().map(|r| &r.event), Some(Event::RunEnded { .. }))
}
