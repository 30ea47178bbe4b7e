//! Collects the evidence that the oracles judge.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use retrial::run::{self, Definitions, Event, Letter, Recorded, RunState, TaskId, Version};
use retrial::store::{LetterHead, Store as _};
use retrial::time::{Mono, Nanos};
use retrial::workflow::Target;
use serde_json::Value;
use tokio::sync::oneshot;

use super::nodes::Nodes;
use super::order::Order;
use super::program::Observations;
use super::users::Users;
use crate::clock::true_now;
use crate::endpoint::{Delivery, Entry};
use crate::evidence::{
    Arrival, ArrivalEnd, Bound, ClockBounds, Evidence, InterventionEvidence, METRICS, Output,
    Phases, RedriveAnswer, RunEvidence, ServiceRequest,
};
use crate::fault::FaultKind;
use crate::incarnation::Lifespan;
use crate::oracle::{Replayer, is_guarded};
use crate::records::Records;
use crate::runtime::function_panics;
use crate::scenario::Scenario;
use crate::sync::lock;
use crate::user::UserEvidence;

/// How often each kind of fault struck. A user's fault that parts nodes counts as a partition.
fn strikes(nodes: &Nodes, records: &Records) -> BTreeMap<FaultKind, u64> {
    let mut strikes = records.strikes.counts();
    let partings = nodes.net.partings();
    if partings > 0 {
        *strikes.entry(FaultKind::Partition).or_default() += partings;
    }
    strikes
}

/// Reads everything back and stops the nodes.
pub(super) async fn collect(
    scenario: &Scenario,
    bound: Bound,
    all_ended: bool,
    nodes: &Nodes,
    users: &Users,
    observed: &Observations,
    records: &Records,
) -> Evidence {
    let ended_at = true_now();
    let mut runs = users.runs();
    let mut interventions = lock(&users.interventions).clone();
    let rot = records.strikes.counts().contains_key(&FaultKind::BitRot);
    if observed.lost.is_said() {
        runs.iter_mut().for_each(|run| run.damaged = true);
    } else if records.watchdog.findings().is_empty() {
        runs.extend(unasked(users, &runs, &interventions).await);
        for run in &mut runs {
            read_back(run, users).await;
            // With rot, a snapshot may be of events that were taken back.
            run.snapshots = if rot { Vec::new() } else { observed.seen.snapshots_of(run.id) };
        }
        interventions.letters = letters(users).await;
        if all_ended && !rot {
            interventions.listed = Some(users.list_all(scenario.seed).await);
        }
        if let Some(cleanup) = scenario.interventions.cleanup {
            interventions.pruned = users.keep(cleanup).await;
        }
    }
    // A stopped node no longer reports its last incarnation.
    let lifespans: Vec<Lifespan> = nodes.all.iter().flat_map(|n| n.lifespans()).collect();
    let strikes = strikes(nodes, records);
    if interventions.pruned.is_some() && interventions.listed.is_some() {
        nodes.reopen_store().await;
        interventions.reopened = Some(users.list_all(scenario.seed.wrapping_add(1)).await);
    }
    let clock = clock_bounds(scenario, &lifespans);
    for node in &nodes.all {
        node.stop().await;
    }
    let has_budget =
        |run: &RunEvidence| run.workflow.actions().values().any(|a| a.guard.error_budget.is_some());
    let guarded = runs.iter().any(|run| is_guarded(&run.workflow) || has_budget(run));
    let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
    let mut outputs: Vec<Output> = lock(&observed.outputs)
        .iter()
        .map(|(source, bytes)| Output { source: source.clone(), text: text(bytes) })
        .collect();
    outputs.push(Output { source: METRICS.to_owned(), text: observed.metrics.lines() });
    let entries = nodes.endpoint.ledger().entries();
    let asked_of_services: Vec<Entry> =
        entries.iter().filter(|entry| entry.service.is_some()).cloned().collect();
    let receipts = receipts(&runs);
    let asked_of_endpoints = entries.into_iter().filter(|e| is_of_an_action(e, &receipts));
    Evidence {
        runs,
        observed: lock(&observed.events).clone(),
        ledger: asked_of_endpoints.map(arrival).collect(),
        strikes,
        lifespans,
        phases: Phases { healed_at: scenario.heal_at, ended_at, bound },
        clock,
        rot,
        store_lost: observed.lost.is_said(),
        sent: observed.seen.sent(),
        secrets: scenario.secrets.clone(),
        outputs,
        interventions,
        fenced: observed.seen.fenced(),
        leases: observed.seen.leases(),
        shutdowns: lock(&observed.shutdowns).clone(),
        places: scenario.places,
        attempt_timeout: scenario.attempt_timeout,
        quarantine_after: scenario.quarantine_after,
        missing_functions: scenario.missing_functions.iter().map(|l| l.function.clone()).collect(),
        function_records: lock(&observed.function_records).clone(),
        answers: if guarded { observed.seen.answers() } else { Vec::new() },
        asked: observed.seen.asked(),
        steps: lock(&users.steps).clone(),
        own: UserEvidence::default(),
        requests: asked_of_services.into_iter().filter_map(asked).collect(),
        panics: function_panics(),
    }
}

/// Whether the request is one of an HTTP action: requests of registered functions to a user's
/// services do not count.
fn is_of_an_action(entry: &Entry, receipts: &BTreeSet<String>) -> bool {
    let of_action = || entry.token.as_ref().is_some_and(|token| receipts.contains(token));
    entry.service.is_none() || of_action()
}

/// The receipt tokens of all tasks of HTTP actions.
fn receipts(runs: &[RunEvidence]) -> BTreeSet<String> {
    let of_run = |run: &RunEvidence| -> Vec<String> {
        let is_http = |task: &TaskId| {
            let step = run.workflow.step(task.step);
            let action = step.and_then(|step| run.workflow.actions().get(&step.action));
            action.is_some_and(|action| action.target != Target::Registered)
        };
        let tasks = run.events.iter().filter_map(|e| e.event.task()).filter(is_http);
        tasks.map(|task| task.receipt(run.id).to_string()).collect()
    };
    runs.iter().flat_map(of_run).collect()
}

fn asked(entry: Entry) -> Option<ServiceRequest> {
    let (service, request) = entry.service?;
    let (at, node, response) = (entry.at, entry.node, entry.response);
    let is_handed_over = matches!(entry.delivery, Some(Delivery::Handed(_)));
    Some(ServiceRequest { at, service, node, request, response, is_handed_over })
}

/// The runs that redrive letters or deliver alerts: only the store knew their ids.
async fn unasked(
    users: &Users,
    known: &[RunEvidence],
    interventions: &InterventionEvidence,
) -> Vec<RunEvidence> {
    let heads = users.all_heads().await.map(|heads| heads.runs).unwrap_or_default();
    let mut found = Vec::new();
    for head in &heads {
        if known.iter().any(|run| run.id == head.run) {
            continue;
        }
        let read = users.load(head.run, Some(Version::START)).await;
        let Ok(Some(loaded)) = read else { continue };
        let first = loaded.tail.events.first().and_then(|bytes| run::decode(bytes).ok());
        let Some(Event::RunCreated { workflow, seed, .. }) = first.map(|r| r.event) else {
            continue;
        };
        let answer = RedriveAnswer::By(head.run);
        let acknowledged = interventions.redriven.iter().any(|(_, given)| *given == answer);
        let run = RunEvidence::new(head.run, seed, workflow, Mono::from_nanos(0));
        let (redrives, is_webhook) = (head.redrives, head.redrives.is_none());
        found.push(RunEvidence { acknowledged, redrives, is_webhook, ..run });
    }
    found
}

/// Every dead letter.
async fn letters(users: &Users) -> Vec<(LetterHead, Option<Letter>)> {
    let page = users.ask(0, Order::Letters).await;
    let mut found = Vec::new();
    for head in page.map(|page| page.letters).unwrap_or_default() {
        let id = head.id;
        let letter = users.ask(0, |reply: oneshot::Sender<_>| Order::Letter(id, reply)).await;
        found.push((head, letter.ok().map(|dead| dead.letter)));
    }
    found
}

async fn read_back(run: &mut RunEvidence, users: &Users) {
    let id = run.id;
    let (loaded, queue) = (users.load(id, Some(Version::START)).await, users.queue(id).await);
    match (loaded, queue) {
        (Ok(Some(loaded)), Ok(queue)) => {
            let events: Result<Vec<Recorded>, _> =
                loaded.tail.events.iter().map(|b| run::decode(b)).collect();
            run.damaged = events.is_err();
            run.events = events.unwrap_or_default();
            run.first = match loaded.snapshot {
                Some(snapshot) => snapshot.version,
                None => Version::START,
            };
            run.version = loaded.version;
            run.results = loaded.tail.results;
            run.queue = queue;
            if let Some(Event::RunCreated { seed, .. }) = run.events.first().map(|r| &r.event) {
                run.seed = *seed;
            }
        }
        (Ok(None), Ok(_)) => {}
        _ => run.damaged = true,
    }
}

fn arrival(entry: Entry) -> Arrival {
    let (answered_at, ended_at, end) = match entry.delivery {
        Some(Delivery::Handed(at)) => (Some(at), Some(at), ArrivalEnd::Answered),
        Some(Delivery::Cut(at)) => (None, Some(at), ArrivalEnd::CallerGone),
        None => (None, None, ArrivalEnd::Open),
    };
    Arrival {
        at: entry.at,
        path: entry.path,
        receipt_token: entry.token,
        idempotency_key: entry.key,
        retry_attempt: entry.retry_attempt,
        retry_timeout_ms: entry.retry_timeout_ms,
        body: entry.body,
        cost: entry.cost,
        reply: entry.reply,
        answered_at,
        ended_at,
        end,
    }
}

/// The store's clock may leap when it is opened again under another wall clock.
fn clock_bounds(scenario: &Scenario, lifespans: &[Lifespan]) -> ClockBounds {
    let drift = scenario.clocks.iter().map(|c| c.drift_ppm.unsigned_abs()).max().unwrap_or(0);
    ClockBounds {
        drift_ppm: drift,
        slack: Nanos::from_millis(20),
        jumps: lifespans.iter().filter(|l| l.incarnation > 0).map(|l| l.born).collect(),
    }
}

/// Folds events by the engine's own fold: the oracle judges whether all ways of folding agree.
#[derive(Debug, Default)]
pub struct EngineReplayer(RefCell<Definitions>);

impl Replayer for EngineReplayer {
    fn fold(
        &self,
        run: &RunEvidence,
        from: Option<&[u8]>,
        events: &[Recorded],
    ) -> Result<Vec<u8>, String> {
        let state = match from {
            None => RunState::replay(run.id, events).map_err(|e| e.to_string())?,
            Some(bytes) => {
                let mut state = self.read(bytes)?;
                events.iter().try_for_each(|e| state.apply(e)).map_err(|e| e.to_string())?;
                state
            }
        };
        let stored = run::encode_snapshot(&state);
        // Equal bytes can't show differences that the bytes leave out.
        if self.read(&stored)? != state {
            return Err("a stored state is read back as another".to_owned());
        }
        Ok(stored.to_vec())
    }

    fn shown(&self, state: &[u8]) -> Option<Value> {
        let state = self.read(state).ok();
        Some(state.and_then(|state| serde_json::to_value(&state).ok()).unwrap_or_default())
    }
}

impl EngineReplayer {
    fn read(&self, bytes: &[u8]) -> Result<RunState, String> {
        self.0.borrow_mut().decode_snapshot(bytes).map_err(|e| e.to_string())
    }
}
