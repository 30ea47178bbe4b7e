//! The course of a world: starts its nodes and users, heals it, waits for its end and collects what
//! it leaves behind.

use std::sync::Arc;

use madsim::time::sleep;
use retrial::engine::Config;
use retrial::policy::Functions;
use retrial::time::Nanos;
use retrial::workflow::Workflow;
use tokio::sync::oneshot;

use super::nodes::Nodes;
use super::order::Order;
use super::program::Observations;
use super::release::Releases;
use super::users::Users;
use super::{collect, spans, user_faults};
use crate::clock::{true_now, until};
use crate::evidence::{Bound, Evidence, Shutdown};
use crate::fault::FaultKind;
use crate::records::Records;
use crate::scenario::{Fault, Place, Scenario, When};
use crate::sync::lock;
use crate::trace::Kind;
use crate::user::{UserCode, World};
use crate::workload;

/// How long the world continues after all runs have ended, so that observers see the last events
/// and cancelled attempts stop.
const SETTLE: Nanos = Nanos::from_secs(5);

/// A shutdown that ended so long before the engine's grace was over was not cut short, however the
/// node's clock drifts.
const MARGIN: Nanos = Nanos::from_secs(5);

/// Runs a scenario to its end and collects the evidence.
pub(super) async fn run(
    scenario: &Scenario,
    workflows: Arc<Vec<Arc<Workflow>>>,
    own: Option<Arc<UserCode>>,
    releases: Releases,
    bound: Bound,
    records: &Records,
) -> Evidence {
    records.trace.fork_at(scenario.fork);
    let observed = Observations::default();
    let _spans = spans::record_spans(&observed.outputs);
    if scenario.faults.iter().any(|fault| fault.kind == FaultKind::BitRot) {
        observed.seen.keep_sent();
    }
    let own = own.map(|own| (own, World::new(scenario.seed, records.trace.clone())));
    let nodes = Nodes::start(scenario, own.clone(), releases, &observed, records);
    let users = Users::new(scenario, workflows, nodes.order_queues.clone(), records);
    for number in 0..scenario.submissions.len() {
        let user = users.clone();
        drop(madsim::task::spawn(async move { user.submit(number).await }));
    }
    if let Some((own, world)) = &own {
        user_faults::start(scenario, own, world);
    }
    for cancel in scenario.cancels.clone() {
        let user = users.clone();
        drop(madsim::task::spawn(async move { user.cancel(cancel).await }));
    }
    for rest in scenario.deactivations.clone() {
        let user = users.clone();
        drop(madsim::task::spawn(async move { user.rest(rest).await }));
    }
    for pause in scenario.interventions.pauses.clone() {
        let user = users.clone();
        drop(madsim::task::spawn(async move { user.pause(pause).await }));
    }
    for by_hand in scenario.interventions.by_hand.clone() {
        let user = users.clone();
        drop(madsim::task::spawn(async move { user.fail_by_hand(by_hand).await }));
    }
    for letter_round in scenario.interventions.letter_rounds.clone() {
        let user = users.clone();
        drop(madsim::task::spawn(async move { user.letter_round(letter_round).await }));
    }
    for release in scenario.interventions.releases.clone() {
        let user = users.clone();
        drop(madsim::task::spawn(async move { user.release_round(release).await }));
    }
    for follower in scenario.interventions.followers.clone() {
        let user = users.clone();
        drop(madsim::task::spawn(async move { user.follow(follower).await }));
    }
    for fault in scenario.faults.iter().filter(|f| f.kind == FaultKind::Shutdown) {
        shutdown(*fault, &nodes, &observed);
    }
    let end = async {
        until(scenario.heal_at).await;
        *lock(&users.steps) = nodes.steps();
        nodes.heal();
        records.trace.record(true_now(), "world", Kind::Input, "everything heals", &[]);
        let all_ended = users.wait_for_end(bound).await;
        sleep(SETTLE.into()).await;
        all_ended
    };
    let all_ended = tokio::select! {
        biased;
        // A livelock: the nodes take no more polls, so nothing can be asked of them.
        _ = records.watchdog.alarm() => false,
        // Rotted bytes can't be read, and the store reports it: the world can't continue.
        () = observed.lost.said() => false,
        all_ended = end => all_ended,
    };
    let collected =
        collect::collect(scenario, bound, all_ended, &nodes, &users, &observed, records).await;
    match own {
        Some((brought, world)) => Evidence { own: brought.evidence(&world), ..collected },
        None => collected,
    }
}

/// Shuts a node down in good order, as an upgrade does. Does nothing to a node that is down.
fn shutdown(fault: Fault, nodes: &Nodes, observed: &Observations) {
    let (When::At(at), Place::Node(number)) = (fault.when, fault.target) else { return };
    let name = fault.target.node();
    let node = nodes.all.iter().find(|node| node.name() == name).cloned();
    let order_queue = nodes.order_queues.get(number as usize).cloned();
    let (Some(node), Some(order_queue)) = (node, order_queue) else { return };
    let (shutdowns, seen) = (Arc::clone(&observed.shutdowns), observed.seen.clone());
    drop(madsim::task::spawn(async move {
        until(at).await;
        let (reply, done) = oneshot::channel();
        let (asked_at, incarnation) = (true_now(), node.number());
        let asked =
            order_queue.open().is_some_and(|c| c.try_send(Order::Shutdown(reply).into()).is_ok());
        if asked && done.await.is_ok() {
            let at = true_now();
            let grace = Config::default().grace;
            if at.since(asked_at) < grace.saturating_sub(MARGIN) {
                let unanswered = seen.unanswered(&name, incarnation);
                lock(&shutdowns).push(Shutdown { node: name, incarnation, at, unanswered });
            }
            node.leave_and_return(fault.lasts).await;
        }
    }));
}

/// How long after healing the scenario's runs must have ended.
pub(super) fn bound(
    scenario: &Scenario,
    workflows: &[Arc<Workflow>],
    own: Option<&UserCode>,
) -> Bound {
    let functions = own.map_or_else(Functions::default, |own| own.backoffs.clone());
    workload::bound(scenario, workflows, &functions)
}

/// The workflows of a scenario.
///
/// # Panics
/// When a text makes no sense: only sense is drawn, and a user's file was read before.
#[expect(clippy::panic, reason = "a nonsense scenario is a bug of its drawing")]
pub(super) fn workflows(scenario: &Scenario) -> Vec<Arc<Workflow>> {
    let read = |(place, text)| match workload::workflow(place, text) {
        Ok(workflow) => Arc::new(workflow),
        Err(why) => panic!("a drawn workflow makes no sense: {why}"),
    };
    scenario.workflows.iter().enumerate().map(read).collect()
}
